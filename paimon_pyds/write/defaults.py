"""Default values of columns: texts in the schema, read as Java Paimon casts them."""

from __future__ import annotations

import pyarrow as pa

from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.read.cast_text import PARSERS, decimal_text, parser
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, AtomicType, DataField, Kind, internal_to_scalar

__all__ = ["default_value"]


def default_value(field: DataField) -> pa.Scalar:
    """What rows without this column get, as a scalar of its Arrow type: its default, or NULL when it has none.

    Raises:
        SchemaError: the text is no value of the column's type.
        UnsupportedError: a type that has no defaults here.
    """
    return internal_to_scalar(None if field.default is None else _parsed(field, field.default), field.type)


def _parsed(field: DataField, text: str) -> object:
    type_ = field.type
    if isinstance(type_, AtomicType):
        try:
            if type_.kind in STRING_KINDS:
                if len(text) > (type_.length or len(text)):
                    raise SchemaError(f"it is longer than {type_}")
                return text
            if type_.kind in BINARY_KINDS:
                data = text.encode()
                if len(data) > (type_.length or len(data)) or (type_.kind is Kind.BINARY and len(data) != type_.length):
                    raise SchemaError(f"it has {len(data)} bytes")
                return data
            if type_.kind in PARSERS:
                return parser(type_)(text)
            if type_.kind is Kind.DECIMAL:
                value = decimal_text(type_)(text)
                if value is None:
                    raise SchemaError(f"it has more digits than {type_}")
                return value
        except SchemaError as error:
            raise SchemaError(f"column {field.name}: {text!r} is no default for {type_}", hint=error.message) from error
    raise UnsupportedError(f"column {field.name}: default values of type {type_} are not supported")
