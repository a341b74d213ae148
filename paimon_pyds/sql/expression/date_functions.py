"""Functions of dates and timestamps. Instants are taken apart in the session's time zone, as in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, pc, scalar
from paimon_pyds.base.types import AtomicType, arrow_type, timestamp_unit
from paimon_pyds.base.types.kinds import INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, UNITS_PER_SECOND, Kind
from paimon_pyds.base.types.sql_values import DAY_MICROS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.cast import to_instant, to_local
from paimon_pyds.sql.expression.coercion import TIMESTAMP, TIMESTAMP_NTZ, common_type
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import Datum, arrays, filled, from_unscaled, valid
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.intervals import DAYS, INTERVAL, MICROS, MONTHS, UNIT_MICROS, UNIT_MONTHS, UNITS

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _DATE = tree.INT, tree.DATE
_FIRST_DAY, _LAST_DAY = -(1 << 31), (1 << 31) - 1
_DAY_SECONDS = 86_400
"""Seconds of a day."""
_FIELDS = {
    "year": pc.year, "quarter": pc.quarter, "month": pc.month, "day": pc.day, "dayofmonth": pc.day,
    "dayofyear": pc.day_of_year, "weekofyear": pc.iso_week, "hour": pc.hour, "minute": pc.minute, "second": pc.second,
}  # fmt: skip
_PARTS = {
    "years": "year", "y": "year", "yr": "year", "yrs": "year", "qtr": "quarter", "mon": "month", "mons": "month",
    "months": "month", "week": "weekofyear", "weeks": "weekofyear", "w": "weekofyear", "d": "day", "days": "day",
    "dow": "dayofweek", "doy": "dayofyear", "h": "hour", "hours": "hour", "m": "minute", "min": "minute",
    "mins": "minute", "minutes": "minute", "s": "second", "sec": "second", "seconds": "second", "secs": "second",
    "dayofweek_iso": "dow_iso",
}  # fmt: skip
_CLOCK = frozenset({"hour", "minute", "second"})
_TRUNC = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mm": "month",
    "mon": "month", "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip
_MONTH = np.timedelta64(1, "M")
_DATE_UNITS = frozenset({"year", "quarter", "month", "week"})


def _field(name: str) -> Resolve:
    """A field of a date, or of a clock time, as INT."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        node = arguments[0]
        local = TIMESTAMP_NTZ if name in _CLOCK else _DATE
        if name in _CLOCK and node.type is not None and node.type.kind is not Kind.TIMESTAMP:
            node = binder.coerce(node, TIMESTAMP)
        return Apply(_INT, _field_of, (binder.coerce(node, local),), (name,))

    return resolve


def _field_of(values: pa.Array, name: str) -> pa.Array:
    if name == "dayofweek":  # Sunday is 1
        return pc.day_of_week(values, count_from_zero=False, week_start=7).cast(pa.int32())
    if name == "weekday":  # Monday is 0
        return pc.day_of_week(values).cast(pa.int32())
    if name == "dow_iso":  # Monday is 1
        return pc.add(pc.day_of_week(values), 1).cast(pa.int32())
    if name == "yearofweek":
        return pc.iso_year(values).cast(pa.int32())
    return _FIELDS[name](values).cast(pa.int32())


def _seconds(binder: Binder, arguments: list[Node]) -> Node:
    """EXTRACT(SECOND FROM …): with its fraction."""
    node = arguments[0]
    if node.type is None or node.type.kind is not Kind.TIMESTAMP:
        node = binder.coerce(node, TIMESTAMP)
    type_ = AtomicType(Kind.DECIMAL, precision=8, scale=6)
    return Apply(type_, _second_with_fraction, (binder.coerce(node, TIMESTAMP_NTZ),), (type_,))


def _second_with_fraction(times: pa.Array, type_: AtomicType) -> pa.Array:
    micros = filled(times.cast(pa.timestamp("us")).view(pa.int64())) % 60_000_000
    return from_unscaled(micros, valid(times), type_)


def _date_part(binder: Binder, arguments: list[Node]) -> Node:
    field = arguments[0]
    given = field.value.as_py() if isinstance(field, Constant) else None
    name = _PARTS.get(str(given).lower(), str(given).lower())
    if name == "second":
        return _seconds(binder, arguments[1:])
    if name not in {*_FIELDS, "dayofweek", "dow_iso", "yearofweek"}:
        raise LookupError(f"there is no field {given!r:.40}")
    return _field(name)(binder, arguments[1:])


def _moved(direction: int) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        days = arguments[1]
        if days.type is not None and days.type.kind not in INTEGER_KINDS | STRING_KINDS:
            raise LookupError(f"whole days are wanted, not a {type_text(days.type)}")
        given = (binder.coerce(arguments[0], _DATE), binder.coerce(days, _INT))
        return Apply(_DATE, _move, given, (direction,))

    return resolve


def _move(date: Datum, days: Datum, direction: int) -> pa.Array:
    a, b = arrays((date, days))
    moved = pc.add(a.view(pa.int32()).cast(pa.int64()), pc.multiply(b.cast(pa.int64()), direction))
    try:
        return moved.cast(pa.int32()).view(pa.date32())
    except pa.ArrowInvalid:
        raise ExpressionError("a date is outside the range of DATE") from None


def _days_between(end: Datum, start: Datum) -> pa.Array:
    a, b = arrays((end, start))
    return pc.subtract_checked(a.view(pa.int32()), b.view(pa.int32()))


def _months_later(date: Datum, months: Datum) -> pa.Array:
    """The same day of a later month, or that month's last day."""
    a, b = arrays((date, months))
    here = _days(a).astype("datetime64[M]")
    day = _days(a).astype("datetime64[D]") - here.astype("datetime64[D]")
    target = here + filled(b).astype("timedelta64[M]")
    last = (target + _MONTH).astype("datetime64[D]") - target.astype("datetime64[D]") - np.timedelta64(1, "D")
    return _dates(target.astype("datetime64[D]") + np.minimum(day, last), valid(a) & valid(b))


def later(binder: Binder, node: Node, amount: int, counted: str) -> Node:
    """A date or timestamp that is moved by an interval.

    Months and days are those of the calendar in the session's time zone, as in Spark: a day may have 23 hours.
    Raises LookupError: the operand is neither a date nor a timestamp.
    """
    if node.type is None:
        return binder.coerce(node, TIMESTAMP)
    kind = node.type.kind
    if kind is Kind.DATE and counted != MICROS:
        number = Constant(_INT, scalar(amount, pa.int32()))
        name = "add_months" if counted == MONTHS else "date_add"
        return DATE_FUNCTIONS[name].resolve(binder, [node, number])
    if kind is Kind.DATE:
        node = binder.coerce(node, TIMESTAMP)
    elif kind not in TIMESTAMP_KINDS:
        raise LookupError(f"an interval is added to a date or timestamp, not to a {type_text(node.type)}: cast it")
    precise = TIMESTAMP if kind is not Kind.TIMESTAMP else TIMESTAMP_NTZ  # a second may be divided by an interval
    type_ = common_type(node.type, precise)
    return Apply(type_, later_times, (binder.coerce(node, type_),), (type_, binder.zone, amount, counted))


def later_times(times: pa.Array, type_: AtomicType, zone: str, amount: int, counted: str) -> pa.Array:
    """Timestamps moved by an amount of what ``counted`` names, see `later`."""
    second, instants = UNITS_PER_SECOND[timestamp_unit(type_)], type_.kind is Kind.TIMESTAMP_LTZ
    months, days, rest = amount if counted == MONTHS else 0, amount if counted == DAYS else 0, 0
    if counted == MICROS:
        days = amount // DAY_MICROS if amount >= 0 else -(-amount // DAY_MICROS)
        rest = (amount - days * DAY_MICROS) * second // 1_000_000
    here = times.view(pa.int64())
    if months or days:
        local = to_local(times, type_, zone).view(pa.int64()) if instants else here
        moved = _days_later(local, months, days, _DAY_SECONDS * second)
        here = moved if not instants else _as_before(moved, pc.subtract(local, here), type_, zone)
    return pc.add_checked(here, rest).view(arrow_type(type_))


def _days_later(local: pa.Array, months: int, days: int, day: int) -> pa.Array:
    """Wall-clock times some days or months later. ``day``: of how many units it is."""
    counts = filled(local)
    dates = array(counts // day, pa.int64(), mask=~valid(local)).cast(pa.int32()).view(pa.date32())
    moved = _months_later(dates, scalar(months, pa.int32())) if months else dates
    later_days = pc.add_checked(moved.view(pa.int32()).cast(pa.int64()), days)
    return pc.add_checked(pc.multiply_checked(later_days, day), array(counts % day, pa.int64()))


def _as_before(local: pa.Array, offsets: pa.Array, type_: AtomicType, zone: str) -> pa.Array:
    """Wall-clock times as instants. Of two, as clocks were put back, the one at the distance from UTC of before."""
    kept = pc.subtract_checked(local, offsets)
    same = pc.equal(to_local(kept.view(arrow_type(type_)), type_, zone).view(pa.int64()), local)
    return pc.if_else(
        same, kept, to_instant(local.view(pa.timestamp(timestamp_unit(type_))), type_, zone).view(pa.int64())
    )


def _month_end(date: pa.Array) -> pa.Array:
    end = (_days(date).astype("datetime64[M]") + _MONTH).astype("datetime64[D]") - np.timedelta64(1, "D")
    return _dates(end, valid(date))


def _days(date: pa.Array) -> npt.NDArray[np.datetime64]:
    return filled(date.view(pa.int32())).astype("datetime64[D]")


def _dates(days: npt.NDArray[Any], not_null: Flags) -> pa.Array:
    counts = np.where(not_null, days.astype(np.int64), 0)
    if len(counts) and (counts.min() < _FIRST_DAY or counts.max() > _LAST_DAY):
        raise ExpressionError("a date is outside the range of DATE")
    return array(counts.astype(np.int32), pa.int32(), mask=~not_null).view(pa.date32())


def _trunc(binder: Binder, arguments: list[Node]) -> Node:
    """trunc(date, unit): the first day of the year, quarter, month or week."""
    unit = _unit(arguments[1])
    date = binder.coerce(arguments[0], _DATE)
    if unit not in _DATE_UNITS:
        return Constant(_DATE, scalar(None, pa.date32()))
    return Apply(_DATE, _floored, (date,), (unit,))


def _date_trunc(binder: Binder, arguments: list[Node]) -> Node:
    """date_trunc(unit, timestamp), in the session's time zone."""
    unit, node = _unit(arguments[0]), binder.coerce(arguments[1], TIMESTAMP)
    if unit is None:
        return Constant(TIMESTAMP, scalar(None, arrow_type(TIMESTAMP)))
    return Apply(TIMESTAMP, _floored_instants, (node,), (unit, binder.zone))


def _unit(node: Node) -> str | None:
    if not isinstance(node, Constant):
        raise LookupError("the unit must be a literal")
    return _TRUNC.get(str(node.value.as_py()).lower())


def _floored(values: pa.Array, unit: str) -> pa.Array:
    return pc.floor_temporal(values, unit=unit).cast(values.type)


def _floored_instants(times: pa.Array, unit: str, zone: str) -> pa.Array:
    local = to_local(times, TIMESTAMP, zone)
    floored = _floored(local, unit)
    if unit in _DATE_UNITS:  # as in Spark: the first of two midnights
        return to_instant(floored, TIMESTAMP, zone)
    offsets = pc.subtract(local.view(pa.int64()), times.view(pa.int64()))
    return _as_before(floored.view(pa.int64()), offsets, TIMESTAMP, zone).view(arrow_type(TIMESTAMP))


def _made_date(*parts: Datum) -> pa.Array:
    columns = arrays(parts)
    year, month, day = (filled(column).astype(np.int64) for column in columns)
    not_null = valid(columns[0]) & valid(columns[1]) & valid(columns[2])
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]")
    length = ((months + 1).astype("datetime64[D]") - first).astype(np.int64)
    wrong = not_null & ((month < 1) | (month > 12) | (day < 1) | (day > length))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ExpressionError(f"there is no day {year[at]}-{month[at]}-{day[at]}")
    return _dates(first + (day - 1).astype("timedelta64[D]"), not_null)


def _no_interval(binder: Binder, arguments: list[Node]) -> Node:
    raise LookupError("an interval is added to a date or timestamp, or taken from one; nothing else is done with it")


def _now(type_: AtomicType) -> Resolve:
    """The current time, which is one for the whole statement."""
    return lambda binder, _: binder.coerce(binder.timestamp(), type_)


def _named_unit(node: Node) -> str:
    found = node.value.as_py() if isinstance(node, Constant) else None
    name = {"DAYOFYEAR": "DAY"}.get(str(found).upper(), str(found).upper())
    if name not in UNITS:
        raise LookupError(f"{found!r:.40} is no unit of time: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, …")
    return UNITS[name]


def added(binder: Binder, arguments: list[Node]) -> Node:
    """timestampadd(unit, number, time): months and days are those of the calendar, as for intervals."""
    unit, amount, node = _named_unit(arguments[0]), binder.coerce(arguments[1], tree.LONG), arguments[2]
    local = node.type is not None and node.type.kind is Kind.TIMESTAMP
    type_ = TIMESTAMP_NTZ if local else TIMESTAMP
    given = (binder.coerce(node, type_), amount)
    if unit in UNIT_MONTHS:
        return Apply(type_, _by_calendar, given, (type_, binder.zone, UNIT_MONTHS[unit], MONTHS))
    if unit in ("WEEK", "DAY"):
        return Apply(type_, _by_calendar, given, (type_, binder.zone, UNIT_MICROS[unit] // DAY_MICROS, DAYS))
    return Apply(type_, _later, given, (UNIT_MICROS[unit],))


def _later(times: Datum, amounts: Datum, micros: int) -> pa.Array:
    column, numbers = arrays((times, amounts))
    moved = pc.add_checked(column.view(pa.int64()), pc.multiply_checked(numbers, micros))
    return moved.view(column.type)


def _by_calendar(times: Datum, amounts: Datum, type_: AtomicType, zone: str, factor: int, counted: str) -> pa.Array:
    """Rows of one amount are moved together."""
    column, numbers = arrays((times, amounts))
    found = pa.nulls(len(column), column.type)
    there = valid(numbers)
    for amount in np.unique(filled(numbers)[there]).tolist():
        rows = np.flatnonzero(there & (filled(numbers) == amount))
        moved = later_times(column.take(array(rows)), type_, zone, amount * factor, counted)
        places = np.arange(len(column))
        places[rows] = len(column) + np.arange(len(rows))
        found = pa.concat_arrays([found, moved]).take(array(places))
    return found


def between(binder: Binder, arguments: list[Node]) -> Node:
    """timestampdiff(unit, start, end): whole units, by the clocks of the session's zone."""
    unit = _named_unit(arguments[0])
    start, end = (binder.coerce(node, TIMESTAMP) for node in arguments[1:])
    return Apply(tree.LONG, _between, (start, end), (unit, binder.zone))


def _between(start: Datum, end: Datum, unit: str, zone: str) -> pa.Array:
    columns = [to_local(column, TIMESTAMP, zone) for column in arrays((start, end))]
    first, last = (filled(column.view(pa.int64())) for column in columns)
    if unit in UNIT_MICROS:
        found = _towards_zero(last - first, UNIT_MICROS[unit])
    else:
        found = _towards_zero(_whole_months(first, last), UNIT_MONTHS[unit])
    return array(found, pa.int64(), mask=~(valid(columns[0]) & valid(columns[1])))


def _towards_zero(values: Int64s, divisor: int) -> Int64s:
    found: Int64s = np.sign(values) * (np.abs(values) // divisor)
    return found


def _whole_months(first: Int64s, last: Int64s) -> Int64s:
    """As Java's LocalDateTime counts them: a month is whole on the same day, at the same time."""
    start, stop = first // DAY_MICROS, last // DAY_MICROS
    clock = last % DAY_MICROS - first % DAY_MICROS
    stop = stop - ((stop > start) & (clock < 0)) + ((stop < start) & (clock > 0))
    packed = []
    for days in (start, stop):
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        packed.append(months.astype(np.int64) * 32 + (dates - months.astype("datetime64[D]")).astype(np.int64))
    return _towards_zero(packed[1] - packed[0], 32)


DATE_FUNCTIONS: dict[str, Function] = {
    **{name: Function((1, 1), _field(name)) for name in (*_FIELDS, "dayofweek", "weekday")},
    "date_part": Function((2, 2), _date_part),
    "date_add": Function((2, 2), _moved(1)),
    "date_sub": Function((2, 2), _moved(-1)),
    "datediff": Function((2, 2), typed(_days_between, _INT, _DATE)),
    "add_months": Function((2, 2), typed(_months_later, _DATE, _DATE, _INT)),
    "last_day": Function((1, 1), typed(_month_end, _DATE, _DATE)),
    "trunc": Function((2, 2), _trunc),
    "date_trunc": Function((2, 2), _date_trunc),
    "date": Function((1, 1), lambda binder, given: binder.coerce(given[0], _DATE)),
    INTERVAL: Function((2, 2), _no_interval),
    "make_date": Function((3, 3), typed(_made_date, _DATE, _INT)),
    "current_date": Function((0, 0), _now(_DATE)),
    "current_timestamp": Function((0, 0), _now(TIMESTAMP)),
    "localtimestamp": Function((0, 0), _now(TIMESTAMP_NTZ)),
    "timestampadd": Function((3, 3), added),
    "timestampdiff": Function((3, 3), between),
}
