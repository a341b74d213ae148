"""Casts of columns whose type was changed after their file was written, by the rules of Java Paimon.

Sources: the rules of Java Paimon's cast executors (package ``casting``), as they show in tables that were altered and
read by Java 1.4. Casts that widen are single calls over the column. Casts to and from text, and those that need more
than 128 bits, compute each *distinct* value once.

Where Java fails on a value (text that is no number), `SchemaError` is raised; where Java gives NULL (a decimal that
does not fit), NULL is given. What clocks show and instants become one another in a time zone, which in Java is that of
the JVM.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import AtomicType, DataType, arrow_type, timestamp_unit
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    MAX_LENGTH,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNITS_PER_SECOND,
    UNORDERED_KINDS,
    Kind,
)
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.metadata.evolution import cast_text
from paimon_pyds.sql.expression.cast import to_instant, to_local
from paimon_pyds.sql.expression.operands import by_distinct, filled, in_unit, unscaled, valid

_CLOCK_KINDS = STRING_KINDS | {Kind.DATE, Kind.TIMESTAMP}
NUMERIC_KINDS = INTEGER_KINDS | FLOAT_KINDS | {Kind.DECIMAL}
_INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
_Cast = Callable[[pa.Array, AtomicType, AtomicType], pa.Array]


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether Paimon has a cast from one atomic type to another."""
    return _find(source, target) is not None


def depends_on_zone(source: DataType, target: DataType) -> bool:
    """Whether a cast makes instants of what a clock shows, or the other way round; Java takes a number of seconds for
    the latter, but gives that of an instant as it is, and takes a TIME for one in UTC."""
    a, b = source.kind, target.kind
    if a is Kind.TIMESTAMP_LTZ:
        return b in _CLOCK_KINDS or b is Kind.TIME
    return b is Kind.TIMESTAMP_LTZ and (a in _CLOCK_KINDS or a in INTEGER_KINDS)


def cast_atomic(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """The values of a column of type ``source`` as values of type ``target``.

    ``zone``: the time zone of casts for which `depends_on_zone` holds.

    Raises:
        SchemaError: Paimon has no such cast, or a value that Java's cast fails on.
        UnsupportedError: a timestamp that Arrow cannot hold in the target's unit.
    """
    cast = _find(source, target)
    if cast is None:
        raise SchemaError(f"Paimon has no cast from {source} to {target}")
    try:
        if not depends_on_zone(source, target):
            return cast(array, source, target)
        if source.kind is Kind.TIMESTAMP_LTZ:
            clock = AtomicType(Kind.TIMESTAMP, precision=source.precision)
            return cast(to_local(array, source, zone), clock, target)
        if source.kind is Kind.TIMESTAMP:
            instants = AtomicType(target.kind, precision=source.precision)
            return cast(to_instant(array, instants, zone), instants, target)
        found = cast(array, source, target)
        if source.kind in INTEGER_KINDS:
            return to_local(found, target, zone).view(arrow_type(target))
        return to_instant(found, target, zone)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"a value of type {source} can't be cast to {target}: {error}") from error


def cast_keeps_nulls(source: DataType, target: DataType) -> bool:
    """Whether the cast makes no NULL of a value that is not one."""
    if target.kind is not Kind.DECIMAL or source.kind is Kind.BOOLEAN:
        return True
    return source.kind in INTEGER_KINDS | {Kind.DECIMAL} and widens_to_decimal(source, target)


def widens_to_decimal(source: DataType, target: DataType) -> bool:
    """Whether every value of an integer or decimal type is a value of the decimal type."""
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    digits, scale = source.precision or 0, source.scale or 0
    if source.kind in INTEGER_KINDS:
        digits, scale = _INTEGER_DIGITS[source.kind], 0
    whole_digits, target_scale = (target.precision or 0) - (target.scale or 0), target.scale or 0
    return whole_digits >= digits - scale and target_scale >= scale


def _find(source: DataType, target: DataType) -> _Cast | None:
    """The cast between two atomic types, None where Paimon has none."""
    a, b = source.kind, target.kind
    if a in UNORDERED_KINDS or b in UNORDERED_KINDS:
        return None
    if b in STRING_KINDS:
        return _find_to_string(source, target)
    if a in STRING_KINDS:
        return _from_string if b in cast_text.PARSERS or b in BINARY_KINDS or b is Kind.DECIMAL else None
    if b is Kind.DECIMAL:
        return _to_decimal if a in NUMERIC_KINDS or a is Kind.BOOLEAN else None
    if a is Kind.DECIMAL:
        return _from_decimal if b in INTEGER_KINDS | FLOAT_KINDS else None
    if a in FLOAT_KINDS and b in INTEGER_KINDS:
        return _float_to_integer
    if a in INTEGER_KINDS | FLOAT_KINDS | {Kind.BOOLEAN} and b in INTEGER_KINDS | FLOAT_KINDS:
        return _numbers
    if a in INTEGER_KINDS and b is Kind.BOOLEAN:
        return _numbers
    if a in (Kind.INT, Kind.BIGINT) and b in TIMESTAMP_KINDS:
        return _to_timestamp
    if a in BINARY_KINDS and b in BINARY_KINDS:
        return _binary
    return _find_temporal(a, b)


def _find_to_string(source: DataType, target: DataType) -> _Cast | None:
    a = source.kind
    if a in STRING_KINDS:
        return _string
    if a in NUMERIC_KINDS or a is Kind.BOOLEAN or a in BINARY_KINDS:
        return _to_string
    unbounded = target.kind is Kind.VARCHAR and isinstance(target, AtomicType) and target.length == MAX_LENGTH
    temporal = a in TIMESTAMP_KINDS or a in (Kind.DATE, Kind.TIME)
    return _to_string if temporal and unbounded else None


def _find_temporal(a: Kind, b: Kind) -> _Cast | None:
    if a in TIMESTAMP_KINDS:
        if b in TIMESTAMP_KINDS:
            return _timestamp
        if b in (Kind.DATE, Kind.TIME, Kind.BIGINT, Kind.INT):
            return _from_timestamp
    if a in (Kind.DATE, Kind.TIME) and b in TIMESTAMP_KINDS:
        return _to_timestamp
    return None


def _numbers(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Integers wrap around when narrowed, floats round to the nearest; what C does here is what Java does."""
    return pc.cast(array, arrow_type(target), safe=False)


def _float_to_integer(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """As Java: NaN is 0, too large is the largest INT or BIGINT; TINYINT and SMALLINT wrap around after that."""
    bits = 64 if target.kind is Kind.BIGINT else 32
    values = filled(array).astype(np.float64)
    top = float(2 ** (bits - 1))
    whole = np.where(np.isnan(values) | (values >= top), 0.0, np.maximum(values, -top)).astype(np.int64)
    whole[values >= top] = 2 ** (bits - 1) - 1
    return arrow_array(whole.astype(f"i{INTEGER_BITS[target.kind] // 8}"), arrow_type(target), mask=~valid(array))


def _to_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Rounds half up; a value that needs more digits becomes NULL."""
    type_ = arrow_type(target)
    if source.kind in INTEGER_KINDS | {Kind.BOOLEAN}:
        whole = pc.cast(array, pa.int64())
        whole_digits = (target.precision or 0) - (target.scale or 0)
        if whole_digits < 19:
            # The one int64 that has no absolute value is compared as its neighbour is.
            near = pc.max_element_wise(whole, scalar(-(2**63) + 1, pa.int64()), skip_nulls=False)
            whole = pc.if_else(pc.less(pc.abs(near), scalar(10**whole_digits, pa.int64())), whole, None)
        return pc.cast(pc.cast(whole, pa.decimal128(19, 0)), type_)
    if source.kind is Kind.DECIMAL and widens_to_decimal(source, target):
        return pc.cast(array, type_)

    def convert(value: Any) -> decimal.Decimal | None:
        exact = value if isinstance(value, decimal.Decimal) else decimal.Decimal(repr(float(value)))
        if not exact.is_finite():
            raise SchemaError(f"{value} can't be cast to {target}")
        return cast_text.rounded(exact, target)

    return by_distinct(array, convert, type_)


def _from_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """To integers: cut the fraction, keep the low 64 bits, then the low bits of the type. To floats: the nearest."""
    precision, scale = source.precision or 0, source.scale or 0
    if target.kind in INTEGER_KINDS:
        if precision - scale <= 18:
            return pc.cast(pc.cast(array, pa.int64(), safe=False), arrow_type(target), safe=False)
        wrapped = by_distinct(array, lambda v: (int(v) + 2**63) % 2**64 - 2**63, pa.int64())
        return pc.cast(wrapped, arrow_type(target), safe=False)
    if precision <= 18:
        values = arrow_array(unscaled(array) / float(10**scale), pa.float64(), mask=~valid(array))
    else:
        values = by_distinct(array, float, pa.float64())
    return pc.cast(values, arrow_type(target), safe=False)


def _string(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Cut to the length in characters; CHAR is filled with spaces."""
    length = target.length or 1
    if length < MAX_LENGTH:
        array = pc.utf8_slice_codeunits(array, 0, length)
    return pc.utf8_rpad(array, length, " ") if target.kind is Kind.CHAR else array


def _to_string(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    kind = source.kind
    if kind in BINARY_KINDS:
        return pc.cast(array, pa.string())
    if kind in INTEGER_KINDS or kind is Kind.BOOLEAN or kind is Kind.DATE:
        text = pc.cast(array, pa.string())
    elif kind in TIMESTAMP_KINDS:
        return cast_text.timestamp_texts(array, source.precision or 0)
    else:
        values = array.view(pa.int32()) if kind is Kind.TIME else array
        text = by_distinct(values, cast_text.formatter(source), pa.string())
    return _string(text, source, target)


def _from_string(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if target.kind in BINARY_KINDS:
        return _binary(pc.cast(array, pa.binary()), source, target)
    if target.kind is Kind.DECIMAL:
        return by_distinct(array, cast_text.decimal_text(target), arrow_type(target))
    storage = cast_text.STORAGE.get(target.kind)
    parsed = by_distinct(array, cast_text.parser(target), storage or arrow_type(target))
    return parsed if storage is None else parsed.view(arrow_type(target))


def _binary(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Cut to the length in bytes; BINARY is filled with zeros."""
    length = target.length or 1
    if length < MAX_LENGTH:
        array = pc.binary_slice(array, 0, length)
    if target.kind is not Kind.BINARY:
        return array
    return by_distinct(array, lambda v: v.ljust(length, b"\0"), pa.binary())


def _in_unit(array: pa.Array, source: int, target: int, type_: pa.DataType) -> pa.Array:
    """int64 counts of one unit as counts of another, floored; units are counts per second. Raises UnsupportedError."""
    try:
        return in_unit(array, source, target)
    except pa.ArrowInvalid as error:
        told, hint = f"a timestamp is outside the range of {type_}", "alter the column back to the type that it had"
        if type_.unit == "ns":
            told, hint = f"{told}, the years 1677 to 2262", "alter the column back to a precision of at most 6"
        raise UnsupportedError(told, hint=hint) from error


def _timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Fewer digits are cut off, towards the past; an instant is its clock time in UTC here."""
    a, b = UNITS_PER_SECOND[timestamp_unit(source)], UNITS_PER_SECOND[timestamp_unit(target)]
    counts = array.view(pa.int64())
    kept = target.precision or 0
    if kept < (source.precision or 0):
        counts = _cut(counts, a, kept)
    return _in_unit(counts, a, b, arrow_type(target)).view(arrow_type(target))


def _cut(counts: pa.Array, per_second: int, digits: int) -> pa.Array:
    """Clear the fraction behind ``digits``. Java cuts the milliseconds of precision 0 to 2 towards zero, not down."""
    values = filled(counts)
    unit = per_second // 10**digits
    if digits >= 3:
        cut = values // unit * unit
    else:
        millis = values // (per_second // 1000)
        step = 1000 // 10**digits
        cut = np.trunc(millis / step).astype(np.int64) * step * (per_second // 1000)
        cut = np.where(values % unit == 0, values, cut)
    return arrow_array(cut, pa.int64(), mask=~valid(counts))


def _from_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    counts = array.view(pa.int64())
    millis = _in_unit(counts, UNITS_PER_SECOND[timestamp_unit(source)], 1000, pa.timestamp("ms"))
    values = filled(millis)
    if target.kind is Kind.DATE:
        return arrow_array((values // 86_400_000).astype(np.int32), pa.int32(), mask=~valid(millis)).view(pa.date32())
    if target.kind is Kind.TIME:
        clock = (values % 86_400_000).astype(np.int32)
        return arrow_array(clock, pa.int32(), mask=~valid(millis)).view(pa.time32("ms"))
    seconds = arrow_array(np.sign(values) * (np.abs(values) // 1000), pa.int64(), mask=~valid(millis))
    return pc.cast(seconds, arrow_type(target), safe=False)


def _to_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Of dates, times of day, and whole seconds."""
    type_ = arrow_type(target)
    counts = pc.cast(array if source.kind in INTEGER_KINDS else array.view(pa.int32()), pa.int64())
    if source.kind is Kind.DATE:
        counts = pc.multiply(counts, scalar(86_400, pa.int64()))
    per_second = 1000 if source.kind is Kind.TIME else 1
    return _in_unit(counts, per_second, UNITS_PER_SECOND[timestamp_unit(target)], type_).view(type_)
