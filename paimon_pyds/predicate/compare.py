"""One comparison of a column with a literal, folded to the values that the column's type has.

``int_column = 1.5`` is FALSE, ``int_column < 1.5`` is ``int_column <= 1``; a FLOAT column is compared as DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from paimon_pyds.errors import PredicateError
from paimon_pyds.predicate.char import compare_char
from paimon_pyds.predicate.literal_bounds import Cut, cut, domain, from_step, mismatch, skipped_hour
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Literal, Op, Predicate, make_and, make_or
from paimon_pyds.sql import values
from paimon_pyds.types import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, AtomicType, Kind

__all__ = ["NUMBERS", "bytes_or_text", "compare"]

NUMBERS = INTEGER_KINDS | {Kind.DECIMAL} | FLOAT_KINDS
"""The types whose values are numbers."""


def compare(op: Op, column: ColumnRef, literal: Literal, zone: str, *, as_double: bool = False) -> Predicate:
    """A comparison of a bound column with one literal, as a tree whose literals are internal values of its type.

    Args:
        op: one of = <> < <= > >=.
        column: bound.
        literal: of any type that SQL compares with the column's.
        zone: of texts that are compared with timestamps, and between timestamps with and without a zone.
        as_double: compare as DOUBLE, as Spark does where the other values of a list have fractions.

    Raises:
        PredicateError: types that SQL does not compare, or a literal that is no value of the type.
    """
    type_ = column.type
    assert isinstance(type_, AtomicType)
    if literal.value is None:
        return Const.UNKNOWN
    if type_.kind is Kind.CHAR:
        return compare_char(op, column, (str(bytes_or_text(literal, type_)),), type_)
    if type_.kind in STRING_KINDS or type_.kind in BINARY_KINDS:
        return Leaf(op, column, (bytes_or_text(literal, type_),))
    if type_.kind in FLOAT_KINDS:
        return _compare_float(op, column, _float(literal, type_), type_)
    place = cut(literal, type_, zone, as_double=as_double)
    found = _compare_steps(op, column, place, type_)
    skipped = skipped_hour(literal, type_, zone)
    if skipped is None:
        return found
    start, stop = (Cut(step, step + 1) for step in (skipped.start, skipped.stop))
    before, behind = _compare_steps(Op.LT, column, start, type_), _compare_steps(Op.GE, column, stop, type_)
    inside = make_and(
        _compare_steps(Op.GE, column, start, type_), _compare_steps(Op.LT, column, stop, type_),
        _compare_steps(op, column, skipped.cut, type_),
    )  # fmt: skip
    return make_or(make_and(make_or(before, behind), found), inside)


def bytes_or_text(literal: Literal, type_: AtomicType) -> str | bytes:
    """A literal as a value of a type of texts or bytes. Raises PredicateError."""
    assert literal.type is not None
    given, value = literal.type.kind, literal.value
    if type_.kind in STRING_KINDS:
        if given in STRING_KINDS:
            return str(value)
        if given in BINARY_KINDS:
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                raise PredicateError(f"the bytes X'{value.hex():.60}' are not UTF-8 text") from None
    elif given in BINARY_KINDS:
        return bytes(value)
    elif given in STRING_KINDS:
        return str(value).encode()
    raise mismatch(literal, type_)


def _float(literal: Literal, type_: AtomicType) -> float:
    """The DOUBLE that a FLOAT or DOUBLE column is compared with."""
    assert literal.type is not None
    given = literal.type.kind
    if given in STRING_KINDS:
        number = values.double_from_text(literal.value)
    elif given in NUMBERS:
        number = float(literal.value)
    else:
        raise mismatch(literal, type_)
    # One NaN and one zero: equal values are then equal Python objects, too.
    return math.nan if math.isnan(number) else number + 0.0


def _compare_float(op: Op, column: ColumnRef, number: float, type_: AtomicType) -> Predicate:
    if type_.kind is Kind.DOUBLE or math.isnan(number) or values.float32(number) == number:
        return Leaf(op, column, (number,))
    # A FLOAT column is compared as DOUBLE, so 0.1 lies between two of its values.
    if op is Op.EQ:
        return Const.FALSE
    if op is Op.NE:
        return Leaf(Op.IS_NOT_NULL, column)
    below = values.float32(number)
    above = below
    if below > number:
        below = values.float32_neighbour(above, up=False) if math.isfinite(above) else values.FLOAT_MAX
    else:
        above = values.float32_neighbour(below, up=True) if math.isfinite(below) else -values.FLOAT_MAX
    if op is Op.LT or op is Op.LE:
        return Leaf(Op.LE, column, (below,))
    return Leaf(Op.GE, column, (above,))


def _compare_steps(op: Op, column: ColumnRef, place: Cut, type_: AtomicType) -> Predicate:
    """A comparison with a place among the ordered values of a type."""
    low, high = domain(type_)
    lower, upper = min(max(place.lower, low), high + 1), min(max(place.upper, low), high + 1)
    if type_.kind is Kind.BOOLEAN:
        return _compare_boolean(op, column, lower, upper)
    if op in (Op.EQ, Op.NE) and upper == lower:
        return Const.FALSE if op is Op.EQ else Leaf(Op.IS_NOT_NULL, column)
    one = upper - lower == 1
    bound = lower if op in (Op.LT, Op.GE) else upper

    def leaf(operator: Op, step: int) -> Leaf:
        return Leaf(operator, column, (from_step(step, type_),))

    match op:
        case Op.EQ:
            return leaf(Op.EQ, lower) if one else make_and(*_range(leaf, low, high, lower, upper - 1, column))
        case Op.NE:
            return leaf(Op.NE, lower) if one else make_or(*_outside(leaf, low, high, lower, upper))
        case Op.LT | Op.LE:
            if bound <= low:
                return Const.FALSE
            if bound > high:
                return Leaf(Op.IS_NOT_NULL, column)
            return leaf(Op.LT, lower) if op is Op.LT and one else leaf(Op.LE, bound - 1)
    if bound > high:
        return Const.FALSE
    if bound <= low:
        return Leaf(Op.IS_NOT_NULL, column)
    return leaf(Op.GT, lower) if op is Op.GT and one else leaf(Op.GE, bound)


def _range(leaf: Any, low: int, high: int, first: int, last: int, column: ColumnRef) -> Iterable[Predicate]:
    """The column from ``first`` to ``last``."""
    if first <= low and last >= high:
        return [Leaf(Op.IS_NOT_NULL, column)]
    found = [leaf(Op.GE, first)] if first > low else []
    return [*found, leaf(Op.LE, last)] if last < high else found


def _outside(leaf: Any, low: int, high: int, lower: int, upper: int) -> Iterable[Predicate]:
    """The column below ``lower``, or from ``upper`` on."""
    found = [leaf(Op.LE, lower - 1)] if lower > low else []
    return [*found, leaf(Op.GE, upper)] if upper <= high else found


def _compare_boolean(op: Op, column: ColumnRef, lower: int, upper: int) -> Predicate:
    """Over FALSE < TRUE every comparison is an equality, or decided."""
    kept = {
        step
        for step in (0, 1)
        if {
            Op.EQ: lower <= step < upper, Op.NE: not lower <= step < upper, Op.LT: step < lower, Op.LE: step < upper,
            Op.GT: step >= upper, Op.GE: step >= lower,
        }[op]
    }  # fmt: skip
    if len(kept) == 1:
        return Leaf(Op.EQ, column, (bool(kept.pop()),))
    return Leaf(Op.IS_NOT_NULL, column) if kept else Const.FALSE
