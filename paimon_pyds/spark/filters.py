"""Filters that Spark pushes down (from 4.1) → predicate trees.

Spark pushes only AND-ed conditions on one column each. The scan evaluates those that it takes exactly, so that
Spark need not evaluate them again. It gives back the others: values without a SQL literal, columns read as another
type than theirs, and TIMESTAMP(7..9), which Spark compares in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, RowType, timestamp_unit
from paimon_pyds.base.types.kinds import TIMESTAMP_KINDS, UNORDERED_KINDS, Kind
from paimon_pyds.base.types.nested import find_name
from paimon_pyds.errors import SchemaError
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_or, negate
from paimon_pyds.sql.text.tree import Literal

_COMPARISONS = {
    "EqualTo": Op.EQ,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
}
_TEXTS = {"StringStartsWith": Op.STARTS_WITH, "StringEndsWith": Op.ENDS_WITH, "StringContains": Op.CONTAINS}
_VALUES = (bool, int, float, str, bytes, bytearray, Decimal, date, datetime)
_NOT_TAKEN = UNORDERED_KINDS | {Kind.TIME}


@dataclass(frozen=True, slots=True)
class PushedColumn:
    """A column as Spark knows it: the table's field behind it, and whether Spark sees it with that field's type."""

    field: DataField
    same_type: bool = True


def to_predicate(filter_: Any, columns: Mapping[str, PushedColumn]) -> Predicate | None:
    """The unbound tree of a pushed filter, true for exactly the rows that Spark wants; None to give it back.

    ``filter_`` is one of ``pyspark.sql.datasource``'s, known by the name of its class; ``columns`` are by Spark's
    names.
    """
    name = type(filter_).__name__
    if name == "Not":
        return _negated(filter_.child, columns)
    column = _column(filter_.attribute, columns)
    if column is None:
        return None
    if name == "IsNull":
        return Leaf(Op.IS_NULL, column)
    if name == "IsNotNull":
        return Leaf(Op.IS_NOT_NULL, column)
    if name == "In":
        return _is_in(column, filter_.value)
    value = filter_.value
    if name == "EqualNullSafe" and value is None:
        return Leaf(Op.IS_NULL, column)
    if name == "EqualNullSafe":
        name = "EqualTo"
    op = _COMPARISONS.get(name) or _TEXTS.get(name)
    if op is None:
        return None
    if value is None:
        return Const.FALSE
    return Leaf(op, column, (Literal(value, None),)) if isinstance(value, _VALUES) else None


def _is_in(column: ColumnRef, values: Any) -> Predicate | None:
    present = [v for v in values if v is not None]
    if not all(isinstance(v, _VALUES) for v in present):
        return None
    return Leaf(Op.IN, column, tuple(Literal(v, None) for v in present)) if present else Const.FALSE


def _negated(child: Any, columns: Mapping[str, PushedColumn]) -> Predicate | None:
    """NOT of a filter. A comparison with NULL is unknown, and so is its negation: neither keeps a row."""
    name = type(child).__name__
    if name == "Not":
        return to_predicate(child.child, columns)
    positive = to_predicate(child, columns)
    if positive is None:
        return None
    if name == "In" and (not child.value or any(v is None for v in child.value)):
        return Const.FALSE if child.value else None
    if positive is Const.FALSE:
        return Const.FALSE
    negative = negate(positive)
    if name == "EqualNullSafe" and isinstance(positive, Leaf) and positive.op is Op.EQ:
        return make_or(negative, Leaf(Op.IS_NULL, positive.column))
    return negative


def _column(attribute: tuple[str, ...], columns: Mapping[str, PushedColumn]) -> ColumnRef | None:
    pushed = columns.get(attribute[0])
    if pushed is None or not pushed.same_type:
        return None
    type_, steps = pushed.field.type, []
    for step in attribute[1:]:
        if not isinstance(type_, RowType):
            return None
        try:
            at = find_name([f.name for f in type_.fields], step)
        except SchemaError:
            return None
        if at is None:
            return None
        steps.append(type_.fields[at].name)
        type_ = type_.fields[at].type
    if type_.kind in _NOT_TAKEN or (type_.kind in TIMESTAMP_KINDS and timestamp_unit(type_) == "ns"):
        return None
    return ColumnRef(pushed.field.name, tuple(steps))
