"""Columns of VARIANT and BLOB of which only the NULLs are wanted: those take less to read than the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.model import ArrayType, DataField, DataType, MapType, RowType


@dataclass(frozen=True, slots=True, repr=False)
class VariantNulls(RowType):
    """In place of VARIANT: a ROW without fields."""


def nulls_only(fields: Sequence[DataField]) -> tuple[DataField, ...]:
    """The columns with a ROW without fields in place of VARIANT, at every depth: read so, it has no values but NULLs.

    Returns:
        The same objects where no type of theirs is a VARIANT.
    """
    found = []
    for field in fields:
        type_ = _without_values(field.type)
        found.append(field if type_ is field.type else replace(field, type=type_))
    return tuple(found)


def as_nulls(field: DataField) -> DataField:
    """A column of which only the NULLs are read."""
    return replace(field, type=RowType(fields=(), nullable=field.type.nullable))


def wants_nulls_only(field: DataField) -> bool:
    """Whether only the NULLs of a column are read."""
    return isinstance(field.type, RowType) and not field.type.fields


def _without_values(type_: DataType) -> DataType:
    if type_.kind is Kind.VARIANT:
        return VariantNulls(fields=(), nullable=type_.nullable)
    match type_:
        case RowType(fields=inner):
            fields = nulls_only(inner)
            return type_ if fields == inner else replace(type_, fields=fields)
        case ArrayType():
            element = _without_values(type_.element)
            return type_ if element is type_.element else replace(type_, element=element)
        case MapType():
            value = _without_values(type_.value)
            return type_ if value is type_.value else replace(type_, value=value)
    return type_
