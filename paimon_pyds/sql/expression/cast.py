"""CAST of whole columns, with Spark's rules in ANSI mode. Source: Spark 4 ``Cast`` and ``UTF8StringUtils``.

Texts are parsed once per distinct value, by the functions that parse the literals of filters.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, pc, scalar
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import AtomicType, DataType, arrow_type, internal_to_scalar, timestamp_unit
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.java_text import date_text, java_float_text
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNIT_DIGITS,
    UNITS_PER_SECOND,
    Kind,
)
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.coercion import EXACT, NUMBERS
from paimon_pyds.sql.expression.operands import (
    NARROW_DIGITS,
    by_distinct,
    filled,
    from_unscaled,
    in_unit,
    rescale,
    unscaled,
    valid,
    wide,
)
from paimon_pyds.sql.text import casts, tree
from paimon_pyds.sql.text.tree import Literal

_DAY = 86_400
"""Seconds of a day."""
_Cast = Callable[[pa.Array, AtomicType, AtomicType, str], pa.Array]


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether SQL has a cast from one type to another."""
    return source.kind is target.kind or _find(source.kind, target.kind) is not None


def cast_array(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Values of one type as values of another.

    Args:
        array: of the Arrow type of ``source``.
        source: the type that the values have.
        target: the type to cast them to.
        zone: name of the time zone of texts, dates and wall-clock times.

    Raises:
        ExpressionError: there is no such cast, or a value does not fit.
    """
    wanted = arrow_type(target)
    if array.type == wanted and source.kind is target.kind:
        return array
    if pa.types.is_null(array.type) or array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    function = _find(source.kind, target.kind)
    if function is None:
        raise ExpressionError(f"a {source.kind.value} can't be cast to {target.kind.value}")
    try:
        return function(array, source, target, zone)
    except pa.ArrowInvalid as error:
        from paimon_pyds.base.types.unfit_values import described, first_refused, shown

        at = first_refused(len(array), lambda n: function(array.slice(0, n), source, target, zone))
        raise ExpressionError(f"{shown(array, at)} does not fit {described(target)}") from error


def cast_each(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """As `cast_array`, with NULL for what does not fit."""

    def one(value: pa.Array) -> pa.Array:
        try:
            return cast_array(value, source, target, zone)
        except (ExpressionError, OverflowError):
            return pa.nulls(1, arrow_type(target))

    encoded = array.dictionary_encode()
    ones = [one(encoded.dictionary.slice(at, 1)) for at in range(len(encoded.dictionary))]
    parts = pa.concat_arrays(ones) if ones else pa.nulls(0, arrow_type(target))
    return pc.take(parts, encoded.indices)


def _find(source: Kind, target: Kind) -> _Cast | None:
    if Kind.VARIANT in (source, target):  # `variant_functions` has these casts
        return _plain if source is target else None
    if target in STRING_KINDS:
        return _to_text
    if source in STRING_KINDS:
        return _from_text
    if target in BINARY_KINDS or source in BINARY_KINDS:
        return _plain if target in BINARY_KINDS and source in BINARY_KINDS else None
    if target is Kind.BOOLEAN:
        return _to_boolean if source in NUMBERS else None
    if source in NUMBERS or source is Kind.BOOLEAN:
        return _FROM_NUMBERS.get(target)
    if source in TIMESTAMP_KINDS and target in NUMBERS:
        return _seconds if source is Kind.TIMESTAMP_LTZ else None
    dates = TIMESTAMP_KINDS | {Kind.DATE}
    return _temporal if source in dates and target in dates else _plain if source is target else None


def _plain(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    return pc.cast(array, arrow_type(target))


def _to_text(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    kind = source.kind
    if kind in INTEGER_KINDS or kind is Kind.BOOLEAN or kind in STRING_KINDS or kind in BINARY_KINDS:
        return pc.cast(array, pa.string())
    if kind in FLOAT_KINDS:
        single = kind is Kind.FLOAT
        return by_distinct(array, lambda value: java_float_text(value, single), pa.string())
    if kind is Kind.DECIMAL:
        return by_distinct(array, lambda value: f"{value:f}", pa.string())
    if kind is Kind.DATE:
        return by_distinct(array.view(pa.int32()), date_text, pa.string())
    if kind is Kind.TIME:
        return by_distinct(array.view(pa.int32()), lambda value: casts.time_text(value * 1_000_000), pa.string())
    local = to_local(array, source, zone) if kind is Kind.TIMESTAMP_LTZ else array
    step = 1_000_000_000 // UNITS_PER_SECOND[timestamp_unit(source)]
    return by_distinct(local.view(pa.int64()), lambda value: casts.timestamp_text(value * step), pa.string())


def _from_text(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    kind, wanted = target.kind, arrow_type(target)
    if kind in BINARY_KINDS:
        return pc.cast(array, wanted)
    if kind in TIMESTAMP_KINDS or kind is Kind.TIME:
        unit = 1_000_000 if kind is Kind.TIME else 1_000_000_000 // UNITS_PER_SECOND[timestamp_unit(target)]
        storage = pa.int32() if kind is Kind.TIME else pa.int64()

        def parsed(text: str) -> int:
            return casts.literal_nanos(casts.cast_literal(Literal(text, tree.STRING), target, zone)) // unit

        return by_distinct(array, parsed, storage).view(wanted)

    def value(text: str) -> object:
        return casts.cast_literal(Literal(text, tree.STRING), target, zone).value

    if kind is Kind.DATE:
        return by_distinct(array, value, pa.int32()).view(wanted)
    return by_distinct(array, value, wanted)


def _to_boolean(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    if source.kind is Kind.DECIMAL:
        return arrow_array(unscaled(array) != 0, pa.bool_(), mask=~valid(array))
    return pc.not_equal(array, scalar(0, array.type))


def _to_integer(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Towards zero; a value outside of the type's range is an error."""
    wanted = arrow_type(target)
    if source.kind in INTEGER_KINDS or source.kind is Kind.BOOLEAN:
        return pc.cast(array, wanted)
    half = 1 << (INTEGER_BITS[target.kind] - 1)
    if source.kind is Kind.DECIMAL:
        exact, step = unscaled(array), 10 ** (source.scale or 0)
        whole = np.abs(exact) // step if step <= 10**NARROW_DIGITS else np.abs(wide(exact)) // step
        found = np.where(exact < 0, -whole, whole)
        outside = valid(array) & ((found < -half) | (found >= half))
    else:
        numbers = filled(array)
        found = np.trunc(numbers.astype(np.float64))
        outside = valid(array) & ~((found >= float(-half)) & (found < float(half)))
    if np.any(outside):
        worst = array.take(arrow_array([int(np.argmax(outside))]))[0].as_py()
        raise ExpressionError(f"{worst} does not fit {target.kind.value}")
    kept = np.where(valid(array), found, 0).astype(np.int64)
    return arrow_array(kept, pa.int64(), mask=~valid(array)).cast(wanted)


def _to_float(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    wanted = arrow_type(target)
    if source.kind is not Kind.DECIMAL:
        return (
            pc.cast(array, wanted, safe=False)
            if source.kind is not Kind.BOOLEAN
            else pc.cast(pc.cast(array, pa.int8()), wanted)
        )
    if target.kind is Kind.FLOAT:
        return by_distinct(array, lambda value: values.float32_from_text(str(value)), wanted)
    scale = source.scale or 0
    if (source.precision or 38) <= 15 and scale <= 22:  # both parts are exact, so their quotient is rounded once
        return arrow_array(unscaled(array) / float(10**scale), wanted, mask=~valid(array))
    return by_distinct(array, float, wanted)


def _to_decimal(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    scale = target.scale or 0
    if source.kind in FLOAT_KINDS:
        doubles = pc.cast(array, pa.float64())
        # Java makes a DECIMAL of a double's shortest text, not of its binary value.
        return by_distinct(
            doubles,
            lambda value: casts.cast_literal(Literal(value, tree.DOUBLE), target, zone).value,
            arrow_type(target),
        )
    if source.kind is Kind.DECIMAL:
        found = rescale(unscaled(array), source.scale or 0, scale)
    else:
        whole = pc.cast(array, pa.int8()) if source.kind is Kind.BOOLEAN else array
        found = rescale(filled(whole).astype(np.int64), 0, scale)
    return from_unscaled(found, valid(array), target)


def _to_timestamp(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Seconds since the epoch."""
    factor = UNITS_PER_SECOND[timestamp_unit(target)]
    if source.kind in EXACT and source.kind is not Kind.DECIMAL:
        counts = pc.multiply_checked(pc.cast(array, pa.int64()), factor)
    elif source.kind is Kind.DECIMAL:
        exact = wide(unscaled(array)) * factor
        scaled = np.where(exact < 0, -1, 1) * (abs(exact) // 10 ** (source.scale or 0))  # towards zero
        counts = arrow_array(scaled.tolist(), pa.int64(), mask=~valid(array))
    else:
        with np.errstate(over="ignore"):  # the cast says what is out of range
            scaled = np.trunc(filled(pc.cast(array, pa.float64())) * factor)
        counts = arrow_array(scaled, mask=~valid(array)).cast(pa.int64())
    return counts.view(arrow_type(target))


_FROM_NUMBERS: dict[Kind, _Cast] = {
    **dict.fromkeys(INTEGER_KINDS, _to_integer),
    **dict.fromkeys(FLOAT_KINDS, _to_float),
    Kind.DECIMAL: _to_decimal,
    Kind.TIMESTAMP_LTZ: _to_timestamp,
}


def _seconds(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """An instant as seconds since the epoch, whole ones for integers."""
    factor = UNITS_PER_SECOND[timestamp_unit(source)]
    counts = filled(array.view(pa.int64()))
    if target.kind in INTEGER_KINDS:
        whole = arrow_array(counts // factor, pa.int64(), mask=~valid(array))
        return _to_integer(whole, tree.LONG, target, zone)
    if target.kind is Kind.DECIMAL:
        digits = UNIT_DIGITS[timestamp_unit(source)]
        return from_unscaled(rescale(counts, digits, target.scale or 0), valid(array), target)
    return arrow_array(counts / factor, pa.float64(), mask=~valid(array)).cast(arrow_type(target), safe=False)


def _temporal(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    """Between dates, wall-clock times and instants; finer units and days are cut, towards the past."""
    if source.kind is Kind.DATE:
        counts = array.view(pa.int32()).cast(pa.int64())
        unit = UNITS_PER_SECOND[timestamp_unit(target)]
        local = pc.multiply_checked(counts, _DAY * unit).view(pa.timestamp(timestamp_unit(target)))
        return to_instant(local, target, zone) if target.kind is Kind.TIMESTAMP_LTZ else local
    here = to_local(array, source, zone) if source.kind is Kind.TIMESTAMP_LTZ is not target.kind else array
    if target.kind is Kind.DATE:
        days = filled(here.view(pa.int64())) // (_DAY * UNITS_PER_SECOND[timestamp_unit(source)])
        return arrow_array(days.astype(np.int32), pa.int32(), mask=~valid(array)).view(pa.date32())
    units = UNITS_PER_SECOND[timestamp_unit(source)], UNITS_PER_SECOND[timestamp_unit(target)]
    scaled = in_unit(here.view(pa.int64()), *units)
    if target.kind is Kind.TIMESTAMP_LTZ and source.kind is Kind.TIMESTAMP:
        return to_instant(scaled.view(pa.timestamp(timestamp_unit(target))), target, zone)
    return scaled.view(arrow_type(target))


def to_local(array: pa.Array, source: AtomicType, zone: str) -> pa.Array:
    """Instants as wall-clock times of a zone, in the same unit."""
    return _shifted(array, timestamp_unit(source), zone, values.instant_to_local, 1).view(
        pa.timestamp(timestamp_unit(source))
    )


def to_instant(array: pa.Array, target: AtomicType, zone: str) -> pa.Array:
    """Wall-clock times of a zone as instants, in the same unit."""
    return _shifted(array, timestamp_unit(target), zone, values.local_to_instant, -1).view(arrow_type(target))


def _shifted(
    array: pa.Array, unit: str, zone: str, convert: Callable[[int, dt.tzinfo], int], direction: int
) -> pa.Array:
    where, per_second = values.time_zone(zone), UNITS_PER_SECOND[unit]
    counts = array.view(pa.int64())
    if where is values.UTC:
        return counts
    if isinstance(where, dt.timezone):
        offset = where.utcoffset(None) // dt.timedelta(seconds=1)
        return pc.add_checked(counts, direction * offset * per_second)

    def shift(count: int) -> int:
        seconds = count // per_second
        return (convert(seconds * 1_000_000, where) // 1_000_000 - seconds) * per_second

    return pc.add_checked(counts, arrow_array(_shifts(filled(counts), shift, _DAY * per_second)))


def _shifts(counts: Int64s, shift: Callable[[int], int], day: int) -> Int64s:
    """The shift of each count. A day that begins and ends with the same shift has it all day: no zone changes its
    offset from UTC and back within three days."""
    days, of_day = np.unique(counts // day, return_inverse=True)
    first = np.array([shift(number * day) for number in days.tolist()], np.int64)
    last = np.array([shift(number * day + day - 1) for number in days.tolist()], np.int64)
    found: Int64s = first[of_day.reshape(-1)]
    changing = np.flatnonzero((first != last)[of_day.reshape(-1)])
    distinct, places = np.unique(counts[changing], return_inverse=True)
    found[changing] = np.array([shift(count) for count in distinct.tolist()], np.int64)[places.reshape(-1)]
    return found


def constant(literal: Literal, type_: AtomicType) -> pa.Scalar:
    """A literal as a scalar of a type whose internal values it has.
    Raises ExpressionError: a TIME finer than milliseconds, which no column holds and expressions do not either."""
    value = literal.value
    if type_.kind is Kind.TIME and value is not None and literal.type is not None:
        nanos = casts.literal_nanos(literal)
        value, finer = divmod(nanos, 1_000_000)
        if finer:
            text = casts.time_text(nanos)
            raise ExpressionError(
                f"TIME '{text}' is finer than the milliseconds of TIME", hint="cut it to three digits"
            )
    return internal_to_scalar(value, type_)
