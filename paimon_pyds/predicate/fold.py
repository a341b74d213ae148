"""Comparisons between two literals, which tools that generate filters like to write (1 = 1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from paimon_pyds.errors import PredicateError
from paimon_pyds.predicate.tree import Const, Literal, Op
from paimon_pyds.sql.casts import literal_nanos
from paimon_pyds.types import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind

__all__ = ["compare_literals"]


def compare_literals(op: Op, left: Literal, right: Literal) -> Const:
    """EQ, NE, LT, LE, GT or GE of two literals; UNKNOWN when one is NULL.

    Raises:
        PredicateError: their types can't be compared.
    """
    if left.value is None or right.value is None:
        return Const.UNKNOWN
    a, b = _comparable(left, right)
    holds = {
        Op.EQ: a == b, Op.NE: a != b, Op.LT: a < b, Op.LE: a <= b, Op.GT: a > b, Op.GE: a >= b,
    }[op]  # fmt: skip
    return Const.TRUE if holds else Const.FALSE


def _comparable(left: Literal, right: Literal) -> tuple[Any, Any]:
    assert left.type is not None and right.type is not None
    kinds = {left.type.kind, right.type.kind}
    if kinds <= INTEGER_KINDS | {Kind.DECIMAL}:
        return Decimal(left.value), Decimal(right.value)
    if kinds <= INTEGER_KINDS | {Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE}:
        return _float_key(float(left.value)), _float_key(float(right.value))
    if kinds <= STRING_KINDS or kinds <= BINARY_KINDS or kinds == {Kind.BOOLEAN} or kinds == {Kind.DATE}:
        return left.value, right.value
    if len(kinds) == 1 and kinds <= {Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}:
        return literal_nanos(left), literal_nanos(right)
    raise PredicateError(
        f"a {left.type.kind.value} literal can't be compared with a {right.type.kind.value} literal",
        hint="double quotes make a string; put column names in `back quotes`" if kinds & STRING_KINDS else None,
    )


def _float_key(value: float) -> tuple[bool, float]:
    """Sorts NaN last, equal to itself."""
    return (True, 0.0) if value != value else (False, value)
