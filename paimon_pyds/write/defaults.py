"""Default values of columns: texts in the schema, read as Java Paimon casts them.

Spark stores the SQL literal of a default, quotes and all; Flink and Java's API store the bare text. Java reads both.
Source: Paimon documentation, spark/default-value, and what Java Paimon 1.4 writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.evolution.cast_text import PARSERS, decimal_text, parser
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, AtomicType, DataField, Kind, internal_to_scalar

__all__ = ["check_default", "default_value", "fill_default", "without_defaults"]


def default_value(field: DataField) -> pa.Scalar:
    """What rows get that have no value in this column, as a scalar of its Arrow type: its default, or NULL for none.

    Texts and bytes are cut to the length of their type, or filled up where that is fixed. A time stamp with local time
    zone is read in UTC; Java reads it in the zone of its process.

    Raises:
        SchemaError: the text is no value of the column's type.
        UnsupportedError: a type that has no defaults here.
    """
    return internal_to_scalar(None if field.default is None else _parsed(field, field.default), field.type)


def check_default(field: DataField) -> None:
    """Refuse a default that is no value of its column, or is longer than the column allows.

    Raises:
        SchemaError, UnsupportedError: as `default_value`.
    """
    if field.default is None:
        return
    default_value(field)
    if field.default == "'":
        raise _no_default(field, "it has one quote, Java Paimon looks for a second one")
    type_, text = field.type, _unquoted(field.default)
    if not isinstance(type_, AtomicType) or type_.length is None:
        return
    size = len(text) if type_.kind in STRING_KINDS else len(text.encode())
    if size > type_.length or (type_.kind is Kind.BINARY and size < type_.length):
        raise _no_default(field, f"it has {size} {'characters' if type_.kind in STRING_KINDS else 'bytes'}")


def fill_default(column: pa.Array, field: DataField) -> pa.Array:
    """NULLs replaced by the column's default, as Java does; NULLs of NOT NULL columns stay, for the writer to refuse.

    Raises:
        SchemaError, UnsupportedError: as `default_value`, when there is a NULL to replace.
    """
    if field.default is None or not field.type.nullable or not column.null_count:
        return column
    return pc.fill_null(column, default_value(field))


def without_defaults(fields: Iterable[DataField]) -> tuple[DataField, ...]:
    """The columns as rows are written with that were in the table before: their NULLs are what they are."""
    return tuple(replace(field, default=None) for field in fields)


def _unquoted(text: str) -> str:
    """The text without the quotes around it; nothing inside is unescaped, as in Java."""
    return text[1:-1] if len(text) > 1 and text.startswith("'") and text.endswith("'") else text


def _no_default(field: DataField, why: str) -> SchemaError:
    return SchemaError(f"column {field.name}: {field.default!r} is no default for {field.type}", hint=why)


def _parsed(field: DataField, default: str) -> object:
    type_ = field.type
    if isinstance(type_, AtomicType):
        text = _unquoted(default)
        try:
            if type_.kind in STRING_KINDS:
                fitting = text[: type_.length]
                return fitting.ljust(type_.length or 0) if type_.kind is Kind.CHAR else fitting
            if type_.kind in BINARY_KINDS:
                data = text.encode()[: type_.length]
                return data.ljust(type_.length or 0, b"\0") if type_.kind is Kind.BINARY else data
            if type_.kind in PARSERS:
                return parser(type_)(text)
            if type_.kind is Kind.DECIMAL:
                value = decimal_text(type_)(text)
                if value is None:
                    raise SchemaError(f"it has more digits than {type_}")
                return value
        except SchemaError as error:
            raise _no_default(field, error.message) from error
    raise UnsupportedError(f"column {field.name}: default values of type {type_} are not supported")
