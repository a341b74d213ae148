"""Kernels of arithmetic and comparison. Floats compare as in Spark SQL: NaN equals NaN and is the greatest value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import AtomicType, Kind
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.operands import (
    NARROW_DIGITS,
    Datum,
    arrays,
    filled,
    from_unscaled,
    rescale,
    unscaled,
    valid,
    wide,
)

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_COMPARE = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_ZERO = "division by zero"
_ZERO_HINT = "guard it: CASE WHEN divisor <> 0 THEN … END, or nullif(divisor, 0)"


def math(a: Datum, b: Datum, operator: str) -> pa.Array:
    """``a operator b`` of integers of one type, or of floats of one type, for + - * %."""
    if operator == "%":
        by_one = isinstance(b, pa.Scalar) and isinstance(a, pa.Array) and pa.types.is_integer(a.type) and b.is_valid
        return _remainder_of_one(a, b.as_py()) if by_one and b.as_py() else _remainder(*arrays((a, b)))
    try:
        return _CHECKED[operator](a, b)
    except pa.ArrowInvalid:
        raise ExpressionError(f"a result of {operator} is outside the range of its type ({a.type})") from None


def divide(a: Datum, b: Datum) -> pa.Array:
    """``a / b`` of doubles."""
    _check_divisor(b if isinstance(b, pa.Array) else arrays((a, b))[1], arrays((a, b))[0])
    with np.errstate(all="ignore"):
        return pc.divide(a, b)


def _check_divisor(divisor: pa.Array, dividend: pa.Array) -> None:
    """Division by zero is an error where both sides have values."""
    zero = scalar(0.0 if pa.types.is_floating(divisor.type) else 0, divisor.type)
    is_zero = pc.equal(divisor, zero)
    if pc.any(is_zero).as_py() and pc.any(pc.and_(is_zero, pc.is_valid(dividend))).as_py():
        raise ExpressionError(_ZERO, hint=_ZERO_HINT)


def _remainder(a: pa.Array, b: pa.Array) -> pa.Array:
    """The sign is the dividend's, as in Java."""
    _check_divisor(b, a)
    both = valid(a) & valid(b) if a.null_count or b.null_count else None
    x, y = filled(a), filled(b) if both is None else np.where(both, filled(b), 1)
    with np.errstate(all="ignore"):
        found = np.fmod(x, y)
    return array(found, a.type, mask=None if both is None else ~both)


def _remainder_of_one(a: pa.Array, divisor: int) -> pa.Array:
    """The same of integers, by one number that is not zero: numpy divides by a constant faster."""
    x = filled(a)
    with np.errstate(all="ignore"):
        found = np.floor_divide(x, x.dtype.type(divisor))
        found *= x.dtype.type(divisor)
        np.subtract(x, found, out=found)  # of the divisor's sign
        found[(found != 0) & ((x < 0) != (divisor < 0))] -= x.dtype.type(divisor)
    return array(found, a.type, mask=~valid(a) if a.null_count else None)


def integer_divide(a: Datum, b: Datum) -> pa.Array:
    """``a div b`` of BIGINTs: towards zero."""
    x, y = arrays((a, b))
    _check_divisor(y, x)
    try:
        return pc.divide_checked(x, pc.if_else(pc.equal(y, 0), scalar(1, pa.int64()), y))
    except pa.ArrowInvalid:
        raise ExpressionError("a result of div is outside the range of BIGINT") from None


def decimal_math(
    a: Datum, b: Datum, operator: str, left: AtomicType, right: AtomicType, result: AtomicType
) -> pa.Array:
    """``a operator b`` of decimals, exact, then rounded half up to the result's scale."""
    x, y = arrays((a, b))
    both = valid(x) & valid(y)
    first, second = unscaled(x), unscaled(y)
    s1, s2 = left.scale or 0, right.scale or 0
    if operator in ("/", "%", "div"):
        _check_divisor(y, x)
        second = np.where(both & (second != 0), second, 1)
    if max((left.precision or 0) + max(s2 - s1, 0), (right.precision or 0) + max(s1 - s2, 0)) + 1 > NARROW_DIGITS or (
        operator in ("*", "/") and (left.precision or 0) + (right.precision or 0) > NARROW_DIGITS
    ):
        first, second = wide(first), wide(second)
    found, scale = _exactly(operator, first, second, s1, s2, result.scale or 0)
    return from_unscaled(rescale(found, scale, result.scale or 0), both, result)


def _exactly(operator: str, a: Any, b: Any, s1: int, s2: int, wanted: int) -> tuple[Any, int]:
    """Unscaled values of a result and their scale."""
    if operator == "*":
        return a * b, s1 + s2
    if operator == "/":
        return _quotient(wide(a), wide(b), s1, s2, wanted)
    scale = max(s1, s2)
    a, b = rescale(a, s1, scale), rescale(b, s2, scale)
    match operator:
        case "+":
            return a + b, scale
        case "-":
            return a - b, scale
    quotient = np.abs(a) // np.abs(b)
    if operator == "div":
        return np.where((a < 0) != (b < 0), -quotient, quotient), 0
    rest = np.abs(a) - quotient * np.abs(b)
    return np.where(a < 0, -rest, rest), scale


def _quotient(a: Any, b: Any, s1: int, s2: int, scale: int) -> tuple[Any, int]:
    """Rounded half up at the wanted scale; a and b are Python's integers."""
    shift = scale + s2 - s1
    dividend, divisor = np.abs(a) * 10 ** max(shift, 0), np.abs(b) * 10 ** max(-shift, 0)
    quotient = (2 * dividend + divisor) // (2 * divisor)
    return np.where((a < 0) != (b < 0), -quotient, quotient), scale


def negative(a: Datum) -> pa.Array:
    """``- a``."""
    if pa.types.is_decimal(a.type):
        type_ = AtomicType(Kind.DECIMAL, precision=a.type.precision, scale=a.type.scale)
        return from_unscaled(-unscaled(a), valid(a), type_)
    try:
        return pc.negate_checked(a)
    except pa.ArrowInvalid:
        raise ExpressionError(f"the negative of a value is outside the range of its type ({a.type})") from None


_BITS: dict[str, Callable[..., pa.Array]] = {
    "&": pc.bit_wise_and, "|": pc.bit_wise_or, "^": pc.bit_wise_xor, "~": pc.bit_wise_not,
}  # fmt: skip


def bitwise(*arguments: Any) -> pa.Array:
    """& | ^ of two integers, ~ of one; the operator comes last."""
    *data, operator = arguments
    return _BITS[operator](*data)


def compare(a: Datum, b: Datum, operator: str) -> pa.Array:
    """A comparison of values of one type; decimals of any two."""
    if pa.types.is_decimal(a.type) and a.type != b.type:
        wanted = pa.decimal256(76, max(a.type.scale, b.type.scale))
        a, b = a.cast(wanted), b.cast(wanted)
    found = _COMPARE[operator](a, b)
    return _with_nan(found, a, b, operator) if pa.types.is_floating(a.type) else found


def _with_nan(found: pa.Array, a: Datum, b: Datum, operator: str) -> pa.Array:
    left, right = pc.is_nan(a), pc.is_nan(b)
    if not any(pc.any(nan).as_py() if isinstance(nan, pa.Array) else nan.as_py() for nan in (left, right)):
        return found
    match operator:
        case "=" | "<>":
            both = pc.and_(left, right)
            return pc.or_(found, both) if operator == "=" else pc.and_(found, pc.invert(both))
        case "<":
            return pc.or_(found, pc.and_(pc.invert(left), right))
        case "<=":
            return pc.or_(found, right)
        case ">":
            return pc.or_(found, pc.and_(left, pc.invert(right)))
    return pc.or_(found, left)


def null_safe(a: Datum, b: Datum) -> pa.Array:
    """``a <=> b``: never null."""
    equal = pc.fill_null(compare(a, b, "="), False)
    return pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b)))


def among(values: pa.Array, listed: pa.Array, unknown: bool) -> pa.Array:
    """``values IN (listed)``; with a NULL in the list, what is not found is unknown."""
    found = pc.is_in(values, value_set=listed)
    missing = pc.and_not(pa.repeat(scalar(True), len(values)), found) if unknown else pc.is_null(values)
    return pc.if_else(missing, scalar(None, pa.bool_()), found)


def extreme(*arguments: Any) -> pa.Array:
    """The greatest (operator >) or least (<) value of each row, nulls passed over; the operator comes last."""
    *data, operator = arguments
    found, *others = arrays(data)
    for other in others:
        better = pc.fill_null(pc.or_kleene(pc.is_null(found), compare(other, found, operator)), False)
        found = pc.if_else(better, other, found)
    return found


def compare_padded(a: Datum, b: Datum, operator: str, length: int) -> pa.Array:
    """A comparison of texts without blanks at their end, one of them of a CHAR(length), as if filled with blanks."""
    width = min(length, max(_longest(a), _longest(b)))
    return compare(pc.utf8_rpad(a, width, " "), pc.utf8_rpad(b, width, " "), operator)


def _longest(texts: Datum) -> int:
    lengths = pc.utf8_length(texts)
    return (pc.max(lengths) if isinstance(lengths, pa.Array) else lengths).as_py() or 0
