"""Literals against the values that a column can hold.

A comparison between a column and a literal is done in a common type (Spark's AnsiTypeCoercion), which may hold more
values than the column, or fewer: an INT is compared with 1.5 as DECIMAL, a BIGINT with 1e18 as DOUBLE. Either way the
cast of the column is monotone, so a literal parts the column's ordered values into those below, equal and above.
`LiteralBounds` are the two places, in the *steps* of the column: integers, unscaled decimals, days, units of time,
DOUBLEs in order.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, pc, scalar, to_numpy
from paimon_pyds.base.types import AtomicType, DataType, timestamp_unit
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import (
    INTEGER_KINDS,
    INTEGER_RANGES,
    NANOS_PER_UNIT,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Kind,
)
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.text import casts
from paimon_pyds.sql.text.tree import Literal

_DAY_NANOS = values.DAY_MICROS * 1000
_EXACT = INTEGER_KINDS | {Kind.DECIMAL}
_MAGNITUDE = 2**63 - 1
"""All bits of a long but its sign."""
_INFINITY: int = struct.unpack("<q", struct.pack("<d", math.inf))[0]


class LiteralBounds(NamedTuple):
    """Steps below ``lower`` compare as less than the literal, from ``upper`` on as greater, between them as equal."""

    lower: int
    upper: int


def domain(type_: DataType) -> tuple[int, int]:
    """The smallest and the largest step of a column's type."""
    kind = type_.kind
    if kind in INTEGER_KINDS:
        return INTEGER_RANGES[kind][0], INTEGER_RANGES[kind][-1]
    match kind:
        case Kind.BOOLEAN:
            return 0, 1
        case Kind.DECIMAL:
            assert isinstance(type_, AtomicType)
            largest = 10 ** (type_.precision or 38) - 1
            return -largest, largest
        case Kind.DATE:
            return -(2**31), 2**31 - 1
        case Kind.TIME:
            return 0, 86_399_999
        case Kind.DOUBLE:
            return to_step(-math.inf), to_step(math.nan)
    return -(2**63), 2**63 - 1


def from_step(step: int, type_: AtomicType) -> object:
    """The internal value at a step."""
    if type_.kind is Kind.BOOLEAN:
        return bool(step)
    if type_.kind is Kind.DECIMAL:
        return Decimal((int(step < 0), tuple(map(int, str(abs(step)))), -(type_.scale or 0)))
    if type_.kind is Kind.DOUBLE:
        bits = step if step >= 0 else (step - 1) ^ _MAGNITUDE
        return math.nan if step > _INFINITY else struct.unpack("<d", struct.pack("<q", bits))[0]
    return step


def to_step(value: int | float) -> int:
    """The step of an integer, or of a DOUBLE: its place among all DOUBLEs, both zeros at 0, NaN last."""
    if not isinstance(value, float):
        return value
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return _INFINITY + 1 if math.isnan(value) else bits if bits >= 0 else (bits ^ _MAGNITUDE) + 1


def steps_of(values: pa.Array) -> Int64s:
    """The steps of a column of integers, DOUBLEs, dates or times; those of nulls are any."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
    if values.null_count:
        values = pc.fill_null(values, scalar(0, values.type))
    if not pa.types.is_floating(values.type):
        return np.asarray(to_numpy(values), np.int64)
    floats = np.asarray(to_numpy(values), np.float64)
    bits = floats.view(np.int64)
    steps = np.where(bits < 0, (bits ^ _MAGNITUDE) + 1, bits)
    steps[np.isnan(floats)] = _INFINITY + 1
    return steps


def bounds_of(literal: Literal, type_: AtomicType, zone: str, *, as_double: bool = False) -> LiteralBounds:
    """Where a literal parts the values of a column (of BOOLEAN, integer, DECIMAL, DATE, TIME or timestamp type).

    Args:
        literal: not NULL.
        type_: the column's.
        zone: name of the zone for texts, and between times with and without a zone.
        as_double: compare numbers as DOUBLE, as Spark does when one value of an IN list is a DOUBLE.

    Raises:
        PredicateError: types that can't be compared, or a text that is not a value of the column's type.
    """
    if literal.type is None:
        literal = casts.from_python(literal.value)
    assert literal.type is not None
    kind, given = type_.kind, literal.type.kind
    if kind in _EXACT:
        return _number_bounds(literal, type_, as_double)
    if given in STRING_KINDS:
        of_text = AtomicType(kind, precision=9) if kind is Kind.TIME else type_
        literal = casts.cast_literal(literal, of_text, zone)
        assert literal.type is not None
        given = literal.type.kind
    if kind is Kind.BOOLEAN and given is Kind.BOOLEAN:
        return LiteralBounds(int(literal.value), int(literal.value) + 1)
    if kind is Kind.TIME and given is Kind.TIME:
        return ratio_bounds(casts.literal_nanos(literal), 1_000_000)
    if kind is Kind.DATE:
        if given is Kind.DATE:
            return LiteralBounds(literal.value, literal.value + 1)
        if given is Kind.TIMESTAMP:
            return ratio_bounds(casts.literal_nanos(literal), _DAY_NANOS)
        if given is Kind.TIMESTAMP_LTZ:
            return _midnight_bounds(casts.literal_nanos(literal), zone)
    if kind in TIMESTAMP_KINDS and given in TIMESTAMP_KINDS | {Kind.DATE}:
        return _timestamp_bounds(literal, type_, zone)
    raise mismatch(literal, type_)


def mismatch(literal: Literal, type_: AtomicType) -> PredicateError:
    """The error for types that SQL does not compare."""
    assert literal.type is not None
    shown = repr(literal.value) if isinstance(literal.value, str | bytes) else str(literal.value)
    if literal.type.kind in TIMESTAMP_KINDS | {Kind.DATE, Kind.TIME, Kind.BOOLEAN}:
        shown = casts.literal_text(literal, "UTC") + ("Z" if literal.type.kind is Kind.TIMESTAMP_LTZ else "")
    hint = None
    if type_.kind in STRING_KINDS:
        hint = f"put it in quotes: '{literal.value}'" if literal.type.kind in _EXACT else "put the text in quotes"
    return PredicateError(
        f"{type_} can't be compared with the {literal.type.kind.value} literal {shown:.100}", hint=hint
    )


def ratio_bounds(numerator: int, denominator: int) -> LiteralBounds:
    """The bounds of an exact number of steps."""
    return LiteralBounds(-(-numerator // denominator), numerator // denominator + 1)


def _number_bounds(literal: Literal, type_: AtomicType, as_double: bool) -> LiteralBounds:
    assert literal.type is not None
    given, value = literal.type.kind, literal.value
    if given in STRING_KINDS:
        # Spark compares integers with texts as BIGINT, DECIMALs with texts as DOUBLE.
        if type_.kind is not Kind.DECIMAL and not as_double:
            value = values.integer_from_text(value)
            if not -(2**63) <= value < 2**63:
                raise PredicateError(f"{value} does not fit BIGINT")
        else:
            value, as_double = values.double_from_text(value), True
    elif not casts.is_number(literal):
        raise mismatch(literal, type_)
    else:
        as_double = as_double or given not in _EXACT
    if as_double:
        return _double_bounds(float(value), type_)
    if isinstance(value, int) and not type_.scale:
        return LiteralBounds(value, value + 1)
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = exponent + (type_.scale or 0)
    return ratio_bounds(unscaled * 10 ** max(shift, 0), 10 ** max(-shift, 0))


def _double_bounds(value: float, type_: AtomicType) -> LiteralBounds:
    low, high = domain(type_)
    if math.isnan(value):  # greater than every number
        return LiteralBounds(high + 1, high + 1)
    scale = type_.scale or 0

    def as_double(step: int) -> float:
        return float(f"{step}e-{scale}") if scale else float(step)

    lower = _first(low, high, lambda step: as_double(step) >= value)
    return LiteralBounds(lower, _first(lower, high, lambda step: as_double(step) > value))


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first step in low … high where a monotone condition holds; high + 1 when it never does."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _midnight_bounds(instant: int, zone: str) -> LiteralBounds:
    """Days, each beginning at midnight in a zone, against an instant in nanoseconds."""
    where = values.time_zone(zone)
    first_guess = values.instant_to_local(instant // 1000, where) // values.DAY_MICROS

    def begins(day: int) -> int:
        return values.local_to_instant(day * values.DAY_MICROS, where) * 1000

    lower = _first(first_guess - 2, first_guess + 2, lambda day: begins(day) >= instant)
    return LiteralBounds(lower, _first(lower, first_guess + 2, lambda day: begins(day) > instant))


def _timestamp_bounds(literal: Literal, type_: AtomicType, zone: str) -> LiteralBounds:
    assert literal.type is not None
    given, unit = literal.type.kind, NANOS_PER_UNIT[timestamp_unit(type_)]
    if given is Kind.DATE:
        literal = casts.cast_literal(literal, AtomicType(type_.kind, precision=6), zone)
        given = type_.kind
    micros, rest = _micros(literal, type_)
    if type_.kind is Kind.TIMESTAMP_LTZ and given is Kind.TIMESTAMP:
        micros = values.local_to_instant(micros, values.time_zone(zone))
    elif type_.kind is Kind.TIMESTAMP and given is Kind.TIMESTAMP_LTZ:
        where = values.time_zone(zone)
        instant, micros = micros, values.instant_to_local(micros, where)
        change = None if where is values.UTC else _offset_change(instant, where)
        if change is not None and change.at <= instant < change.at + change.before - change.after:
            # The hour that clocks show twice is read as its first pass, so all of it is before this instant.
            ends = -(-(change.at + change.before) * 1000 // unit)
            return LiteralBounds(ends, ends)
    return ratio_bounds(micros * 1000 + rest, unit)


def _micros(literal: Literal, type_: AtomicType) -> tuple[int, int]:
    """Microseconds and nanoseconds beyond them; Spark's timestamps have none, so only TIMESTAMP(7 to 9) keeps them."""
    micros, rest = divmod(casts.literal_nanos(literal), 1000)
    return micros, rest if (type_.precision or 0) > 6 else 0


class SkippedHour(NamedTuple):
    """Steps ``start`` … ``stop - 1`` of a TIMESTAMP column are times that clocks skipped; ``bounds`` are theirs."""

    start: int
    stop: int
    bounds: LiteralBounds


def skipped_hour(literal: Literal, type_: AtomicType, zone: str) -> SkippedHour | None:
    """The one place where the cast of a column is not monotone: TIMESTAMP to an instant, at a clock change.

    Times that clocks skipped are read as if they had not been turned yet, so they coincide with later ones. None if the
    literal is not among them.
    """
    if type_.kind is not Kind.TIMESTAMP or literal.type is None or literal.type.kind is not Kind.TIMESTAMP_LTZ:
        return None
    where = values.time_zone(zone)
    micros, rest = _micros(literal, type_)
    change = None if where is values.UTC else _offset_change(micros, where)
    if change is None or not change.at <= micros < change.at + change.after - change.before:
        return None
    unit = NANOS_PER_UNIT[timestamp_unit(type_)]
    start, stop = ((change.at + offset) * 1000 // unit for offset in (change.before, change.after))
    return SkippedHour(start, stop, ratio_bounds((micros + change.before) * 1000 + rest, unit))


class _OffsetChange(NamedTuple):
    """A change of a zone's offset: the instant, the offsets before and after it, in microseconds."""

    at: int
    before: int
    after: int


def _offset_change(instant: int, zone: dt.tzinfo) -> _OffsetChange | None:
    """The change of offset in the day before an instant."""
    start = instant - values.DAY_MICROS - 7_200_000_000
    before, after = values.offset_micros(start, zone), values.offset_micros(instant, zone)
    if before == after:
        return None
    return _OffsetChange(_first(start, instant, lambda at: values.offset_micros(at, zone) == after), before, after)
