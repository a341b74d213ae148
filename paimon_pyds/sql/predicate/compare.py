"""One comparison of a column with a literal, folded to the values that the column's type has.

``int_column = 1.5`` is FALSE, ``int_column < 1.5`` is ``int_column <= 1``; a FLOAT column is compared as DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.literal_bounds import LiteralBounds, bounds_of, domain, from_step, mismatch, skipped_hour
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and, make_or
from paimon_pyds.sql.text import casts
from paimon_pyds.sql.text.tree import Literal

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
    place = bounds_of(literal, type_, zone, as_double=as_double)
    found = compare_steps(op, column, place, type_)
    skipped = skipped_hour(literal, type_, zone)
    if skipped is None:
        return found
    start, stop = (LiteralBounds(step, step + 1) for step in (skipped.start, skipped.stop))
    before, behind = compare_steps(Op.LT, column, start, type_), compare_steps(Op.GE, column, stop, type_)
    inside = make_and(
        compare_steps(Op.GE, column, start, type_), compare_steps(Op.LT, column, stop, type_),
        compare_steps(op, column, skipped.bounds, type_),
    )  # fmt: skip
    return make_or(make_and(make_or(before, behind), found), inside)


def bytes_or_text(literal: Literal, type_: AtomicType) -> str | bytes:
    """A literal as a value of a type of texts or bytes. Raises PredicateError."""
    assert literal.type is not None
    given, value = literal.type.kind, literal.value
    if type_.kind in STRING_KINDS:
        if given in STRING_KINDS or given in BINARY_KINDS:
            return casts.literal_text(literal, "UTC")
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
    # A FLOAT column is compared as DOUBLE, so 0.1 is between two of its values.
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


def compare_steps(op: Op, column: ColumnRef, place: LiteralBounds, type_: AtomicType) -> Predicate:
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


_MAX_TEXT = 64 << 20
"""Characters that all forms of the texts of a comparison may have together."""


def compare_char(op: Op, column: ColumnRef, texts: Iterable[str], type_: AtomicType) -> Predicate:
    """A comparison of a CHAR(n) column with a text, or [NOT] IN with several: blanks at the end don't count.

    Both sides are compared as if filled with blanks to the longer length (Spark's rule ApplyCharTypePadding). Files
    hold CHAR values with those blanks (Spark and Hive write them) or without (Flink, ORC's readers, this package), so
    it becomes a comparison with all the forms that equal values can have, which indexes, statistics and buckets answer
    as any other. Values have n characters at most. Binding the tree again does not change it.
    Raises PredicateError: the column is too long, or the texts are too many, to list all forms.
    """
    bare = sorted({text.rstrip(" ") for text in texts})
    length = max(type_.length or 1, *map(len, bare))
    equal = _forms(bare, length)
    if op in (Op.EQ, Op.NE, Op.IN, Op.NOT_IN):
        return _among(op in (Op.EQ, Op.IN), column, equal)
    # Filled with blanks, texts compare as they are, but for those that the longest form begins with: they equal it, or
    # are greater than it where a control character follows, which is less than a blank.
    (text,) = bare
    longest = text.ljust(length)
    beginnings = {text[:at].rstrip(" ") for at, char in enumerate(text) if char < " "}
    greater = [form for form in _forms(sorted(beginnings), length) if form < longest]
    bound = Leaf(Op.LE if op in (Op.LT, Op.LE) else Op.GT, column, (longest,))
    others = greater if op in (Op.LE, Op.GT) else [*equal, *greater]
    if not others:
        return bound
    listed = _among(bound.op is Op.GT, column, others)
    return make_or(bound, listed) if bound.op is Op.GT else make_and(bound, listed)


def _forms(bare: list[str], length: int) -> list[str]:
    """The texts with each number of blanks behind them that a length has room for."""
    if sum((length + len(text)) * (length - len(text) + 1) for text in bare) > 2 * _MAX_TEXT:
        raise PredicateError(
            f"values of CHAR({length}) may have too many different numbers of blanks at their end to be compared with "
            f"{'a text' if len(bare) == 1 else f'{len(bare):,} texts'}",
            hint="change the column's type to VARCHAR or STRING, or compare with fewer texts",
        )
    return [text + " " * blanks for text in bare for blanks in range(length - len(text) + 1)]


def _among(inside: bool, column: ColumnRef, forms: list[str]) -> Leaf:
    if len(forms) == 1:
        return Leaf(Op.EQ if inside else Op.NE, column, tuple(forms))
    return Leaf(Op.IN if inside else Op.NOT_IN, column, tuple(sorted(forms)))


def compare_literals(op: Op, left: Literal, right: Literal) -> Const:
    """EQ, NE, LT, LE, GT or GE of two literals; UNKNOWN when one is NULL.
    Raises PredicateError: their types can't be compared."""
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
        return casts.literal_nanos(left), casts.literal_nanos(right)
    raise PredicateError(
        f"a {left.type.kind.value} literal can't be compared with a {right.type.kind.value} literal",
        hint="double quotes make a string; put column names in `back quotes`" if kinds & STRING_KINDS else None,
    )


def _float_key(value: float) -> tuple[bool, float]:
    """Sorts NaN last, equal to itself."""
    return (True, 0.0) if value != value else (False, value)
