"""The aggregate functions sum and product, with Java's arithmetic.

NULL is passed over. Integers that leave the column's type are refused, as in Java Paimon 2.1, or wrap around, as in
1.4. Floats are added in the rows' order, each step rounded to the column's type. A decimal that grows out of the
column's type becomes NULL, and the next row begins anew; but up to 18 digits Java adds 64-bit integers without a look
at the precision, and so do we: only a sum beyond 64 bits is NULL there. (Java: classes FieldSumAgg and FieldProductAgg,
and DecimalUtils.add.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import build
from paimon_pyds.errors import SchemaError
from paimon_pyds.keys.merge.grouped_rows import Flags, GroupedRows, Positions, is_valid
from paimon_pyds.sql.expression.operands import NARROW_DIGITS, decimal_array, rescale, unscaled

_Numbers = npt.NDArray[Any]
_INTEGER_NAMES = {1: "TINYINT", 2: "SMALLINT", 4: "INT", 8: "BIGINT"}
"""Types of integers by their bytes."""
_SURE_SHARE = 0.999
"""The share of a type's range up to which a product that was rounded is certainly within it."""


def total(values: pa.Array, rows: GroupedRows, column: str, *, wraps: bool) -> pa.Array:
    """The sum of additions less retractions; NULL if all are NULL.

    ``wraps``: integers wrap around. Else a sum outside of their type is a SchemaError that names the ``column``, even
    where later rows would bring it back.
    """
    rows, numbers = _without_nulls(values, rows)
    with np.errstate(all="ignore"):
        if pa.types.is_integer(values.type) and not wraps:
            _check_total(numbers, rows, column)
        numbers = np.where(rows.retract, -numbers, numbers) if rows.retract.any() else numbers
        if pa.types.is_decimal(values.type):
            return _decimal_total(numbers, rows, values.type)
        sums = _accumulate(np.add, numbers, rows)
    return build(values.type, sums, rows.has_rows(), rows.count)


def _check_total(numbers: _Numbers, rows: GroupedRows, column: str) -> None:
    """Raises SchemaError where a sum leaves the numbers' type on its way."""
    longest = int(rows.lengths().max(initial=0))
    if not len(numbers) or max(int(numbers.max()), -int(numbers.min())) * longest <= np.iinfo(numbers.dtype).max:
        return
    signed = np.where(rows.retract, -numbers, numbers)
    total_before = np.cumsum(signed, dtype=numbers.dtype) - signed  # it wraps, and so do differences
    before = total_before - total_before[rows.first()[rows.group]]
    after = before + signed
    grows = (numbers > 0) != rows.retract
    wrong = np.flatnonzero((numbers != 0) & np.where(grows, after < before, after > before))
    if len(wrong):
        at = wrong[0]
        raise _overflow("sum", numbers.dtype, column, f"{before[at]} {'-' if rows.retract[at] else '+'} {numbers[at]}")


def _overflow(function: str, type_: np.dtype[Any], column: str, step: str) -> SchemaError:
    return SchemaError(
        f"column {column}: a {function} leaves the range of {_INTEGER_NAMES[type_.itemsize]}: {step}",
        hint="alter the column to a wider type, such as DECIMAL(38, 0); or set aggregation-rules=1.4, for the table or "
        "for this call, to let it wrap around as Java Paimon 1.4 does",
    )


def _without_nulls(values: pa.Array, rows: GroupedRows) -> tuple[GroupedRows, _Numbers]:
    if values.null_count:
        rows, values = rows.only(is_valid(values)), values.drop_null()
    if pa.types.is_decimal(values.type):
        return rows, unscaled(values)
    dtype = np.dtype(values.type.to_pandas_dtype())
    return rows, np.frombuffer(values.buffers()[1] or b"", dtype)[values.offset : values.offset + len(values)]


def _accumulate(operation: np.ufunc, numbers: _Numbers, rows: GroupedRows) -> _Numbers:
    """Each group's numbers put together one by one, in their order."""
    begins = rows.begins()
    found = np.zeros(rows.count, numbers.dtype)
    found[rows.group[begins]] = numbers[begins]
    operation.at(found, rows.group[~begins], numbers[~begins])
    return found


def _decimal_total(numbers: _Numbers, rows: GroupedRows, type_: pa.DataType) -> pa.Array:
    least, most = (-(2**63), 2**63 - 1) if type_.precision <= NARROW_DIGITS else (1 - 10**type_.precision,) * 2
    most = abs(most)
    wide = numbers.astype(object)
    longest = int(rows.lengths().max(initial=0))
    if len(wide) and max(wide.max(), -wide.min()) * longest > most:
        sums, there = _bounded_total(wide, rows, (least, most))
        return decimal_array(sums, there, type_)
    sums = _accumulate(np.add, wide if type_.precision > NARROW_DIGITS else numbers, rows)
    return decimal_array(sums, rows.has_rows(), type_)


def _bounded_total(numbers: _Numbers, rows: GroupedRows, bounds: tuple[int, int]) -> tuple[_Numbers, Flags]:
    """Sums that become NULL where they leave the bounds, and begin anew with the next row; and where there is one."""
    sums, there = np.zeros(rows.count, object), np.zeros(rows.count, np.bool_)
    while len(numbers):
        before = np.cumsum(numbers) - numbers
        begin = rows.first()
        begin_of = begin[rows.group]
        running = before - before[begin_of] + numbers
        outside = np.asarray((running < bounds[0]) | (running > bounds[1]), np.bool_)
        outside[begin[begin >= 0]] = False  # a value that stands alone is as it was stored
        leaves, last = rows.first(np.flatnonzero(outside)), rows.last()
        done = (last >= 0) & (leaves < 0)
        sums[done], there[done] = running[last[done]], True
        left = np.arange(len(numbers)) > np.where(leaves < 0, len(numbers), leaves)[rows.group]
        rows, numbers = rows.only(left), numbers[left]
    return sums, there


def product(values: pa.Array, rows: GroupedRows, column: str, *, wraps: bool) -> pa.Array:
    """The product of the added values, divided by the retracted ones; NULL if all are NULL.

    A retraction before the first added value has no effect. Integers are divided as Java does, towards zero.
    Raises SchemaError: a division by zero, or one of decimals that has no end; unless it ``wraps``, integers outside of
    their type; ``column`` is the name for it.
    """
    rows, numbers = _without_nulls(values, rows)
    type_ = values.type
    with np.errstate(all="ignore"):
        if pa.types.is_decimal(type_):
            found, there = _fold(_DecimalArithmetic(type_, column), numbers.astype(object), rows)
            return decimal_array(found, there, type_)
        checks = pa.types.is_integer(type_) and not wraps
        if not rows.retract.any() and not (checks and _may_overflow(numbers, rows)):
            return build(type_, _accumulate(np.multiply, numbers, rows), rows.has_rows(), rows.count)
        found, there = _fold((_CheckedArithmetic if checks else _Arithmetic)(column), numbers, rows)
    return build(type_, found, there, rows.count)


def _may_overflow(numbers: _Numbers, rows: GroupedRows) -> bool:
    """Whether a product of numbers might leave their type on its way: a zero does not shorten it."""
    sizes = _accumulate(np.multiply, np.maximum(np.abs(numbers.astype(np.float64)), 1.0), rows)
    return bool((sizes > _SURE_SHARE * np.iinfo(numbers.dtype).max).any())


class _Arithmetic:
    """One more row for each of several groups."""

    def __init__(self, column: str) -> None:
        self._column = column

    def multiply(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        """Products, and which of them are there."""
        return one * other, np.ones(len(one), np.bool_)

    def divide(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        """Quotients, and which of them are there."""
        if one.dtype.kind == "f":
            return one / other, np.ones(len(one), np.bool_)
        self._refuse_zeros(other)
        quotient = one // other
        towards_zero = quotient + ((one % other != 0) & ((one < 0) != (other < 0))).astype(one.dtype)
        return towards_zero, np.ones(len(one), np.bool_)

    def _refuse_zeros(self, divisors: _Numbers) -> None:
        if (divisors == 0).any():
            raise SchemaError(
                f"column {self._column}: a product can't take back a zero",
                hint=f"set fields.{self._column}.ignore-retract to true to keep what was multiplied",
            )


class _CheckedArithmetic(_Arithmetic):
    """Of integers, where none leaves their type."""

    def multiply(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        bounds = np.iinfo(one.dtype)
        for at in np.flatnonzero(np.abs(one.astype(np.float64) * other) > _SURE_SHARE * bounds.max).tolist():
            if not bounds.min <= int(one[at]) * int(other[at]) <= bounds.max:
                raise _overflow("product", one.dtype, self._column, f"{one[at]} * {other[at]}")
        return super().multiply(one, other)

    def divide(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        least = np.iinfo(one.dtype).min
        if ((one == least) & (other == -1)).any():
            raise _overflow("product", one.dtype, self._column, f"{least} / -1")
        return super().divide(one, other)


class _DecimalArithmetic(_Arithmetic):
    """Of unscaled values: rounded half up to the column's scale; not there where they have more digits than it."""

    def __init__(self, type_: pa.DataType, column: str) -> None:
        super().__init__(column)
        self._scale, self._limit = type_.scale, 10**type_.precision

    def multiply(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        return self._within(rescale(one * other, 2 * self._scale, self._scale))

    def divide(self, one: _Numbers, other: _Numbers) -> tuple[_Numbers, Flags]:
        self._refuse_zeros(other)
        lowest_terms = other // np.gcd(one, other)
        for factor, power in ((2, 127), (5, 55)):  # all that fit 127 bits
            lowest_terms = lowest_terms // np.gcd(lowest_terms, factor**power)
        if (np.abs(lowest_terms) != 1).any():
            raise SchemaError(
                f"column {self._column}: taking back a factor from a product leaves a decimal without end",
                hint=f"set fields.{self._column}.ignore-retract to true, or make the column DOUBLE",
            )
        negative = (one < 0) != (other < 0)
        magnitude = (2 * np.abs(one) * 10**self._scale // np.abs(other) + 1) // 2
        return self._within(np.where(negative, -magnitude, magnitude))

    def _within(self, values: _Numbers) -> tuple[_Numbers, Flags]:
        there = np.asarray(np.abs(values) < self._limit, np.bool_)
        return np.where(there, values, 0), there


def _fold(arithmetic: _Arithmetic, numbers: _Numbers, rows: GroupedRows) -> tuple[_Numbers, Flags]:
    """Each group's numbers put together, the first ones of all groups, then the second ones, and so on."""
    starts, lengths = rows.first(), rows.lengths()
    found, there = np.zeros(rows.count, numbers.dtype), np.zeros(rows.count, np.bool_)
    groups = np.flatnonzero(lengths)
    for place in range(int(lengths.max(initial=0))):
        groups = groups[lengths[groups] > place]
        at = starts[groups] + place
        retract = rows.retract[at]
        begins, adds = ~there[groups] & ~retract, there[groups] & ~retract
        _put(found, there, groups[begins], (numbers[at[begins]], np.ones(begins.sum(), np.bool_)))
        _put(found, there, groups[adds], arithmetic.multiply(found[groups[adds]], numbers[at[adds]]))
        divides = retract & ~begins & there[groups]
        _put(found, there, groups[divides], arithmetic.divide(found[groups[divides]], numbers[at[divides]]))
    return found, there


def _put(found: _Numbers, there: Flags, groups: Positions, results: tuple[_Numbers, Flags]) -> None:
    found[groups], there[groups] = results
