"""Rows of system tables, and partitions in them as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.row import decode_row
from paimon_pyds.types import AtomicType, DataField, DataType, RowType
from paimon_pyds.types.java_text import partition_text

__all__ = ["partition_row_text", "table_of", "type_text", "value_text"]

Rows = Iterable[Sequence[Any]]


def table_of(columns: Mapping[str, pa.DataType], rows: Rows) -> pa.Table:
    """Rows of Python values as an Arrow table."""
    listed = list(rows)
    arrays = [pa.array([row[i] for row in listed], type_) for i, type_ in enumerate(columns.values())]
    return pa.Table.from_arrays(arrays, names=list(columns))


def partition_row_text(fields: Sequence[DataField], partition: bytes) -> str:
    """A partition row (arity + BinaryRow) as Java casts it to text: ``{1, a}``."""
    values = decode_row(partition, [f.type for f in fields])
    texts = [value_text(value, f) for value, f in zip(values, fields, strict=True)]
    return "{" + ", ".join("null" if text is None else text for text in texts) + "}"


def value_text(value: Any, field: DataField) -> str | None:
    """A partition value as text; None for NULL."""
    return None if value is None else partition_text(value, field.type, legacy=False)


def type_text(type_: DataType) -> str:
    """A type as Java spells it in SQL (``DataType.asSQLString``): names of nested fields are quoted."""
    if isinstance(type_, AtomicType):
        return str(type_)
    parts = map(_field_text, type_.fields) if isinstance(type_, RowType) else map(type_text, type_.children())
    return f"{type_.kind.value}<{', '.join(parts)}>" + ("" if type_.nullable else " NOT NULL")


def _field_text(field: DataField) -> str:
    name = field.name.replace("`", "``")
    comment = "" if not field.description else " COMMENT '" + field.description.replace("'", "''") + "'"
    default = "" if field.default is None else f" DEFAULT {field.default}"
    return f"`{name}` {type_text(field.type)}{comment}{default}"
