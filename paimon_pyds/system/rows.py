"""Rows of system tables, and partitions in them as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.row import decode_row
from paimon_pyds.types import DataField
from paimon_pyds.types.java_text import partition_text

__all__ = ["partition_row_text", "table_of", "value_text"]

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
