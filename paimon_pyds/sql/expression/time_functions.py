"""Dates and times as texts of a pattern and as numbers, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import AtomicType, arrow_type
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.sql_values import DAY_MICROS
from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.sql.expression.cast import to_instant, to_local
from paimon_pyds.sql.expression.coercion import NUMBERS, TIMESTAMP, TIMESTAMP_NTZ
from paimon_pyds.sql.expression.date_patterns import (
    DAYS,
    MONTHS,
    Parser,
    parts_of,
)
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import Datum, arrays, by_distinct, filled, valid
from paimon_pyds.sql.expression.time_texts import named, write_times
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _LONG, _TEXT, _DATE = tree.INT, tree.LONG, tree.STRING, tree.DATE
_DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"
_SECOND = 1_000_000
"""Microseconds of a second."""


# ------------------------------------------------------------------------------------------------------------- writing


def _pattern(node: Node) -> str:
    found = node.value.as_py() if isinstance(node, Constant) else None
    if not isinstance(found, str):
        raise LookupError("the pattern must be a text, the same for all rows")
    parts_of(found)
    return found


def _date_format(binder: Binder, arguments: list[Node]) -> Node:
    times = binder.coerce(arguments[0], TIMESTAMP)
    if isinstance(arguments[1], Constant) and not arguments[1].value.is_valid:
        return Constant(_TEXT, scalar(None, pa.string()))
    return Apply(_TEXT, write_times, (times,), (_pattern(arguments[1]), binder.zone))


def _from_unixtime(binder: Binder, arguments: list[Node]) -> Node:
    seconds = binder.coerce(arguments[0], _LONG)
    pattern = _pattern(arguments[1]) if len(arguments) > 1 else _DEFAULT_PATTERN
    times = Apply(TIMESTAMP, _times, (seconds,), (_SECOND,))
    return Apply(_TEXT, write_times, (times,), (pattern, binder.zone))


# ------------------------------------------------------------------------------------------------------------- reading


def read_times(texts: pa.Array, parser: Parser, lenient: bool, local: bool = False) -> pa.Array:
    """Texts as instants, or as wall-clock times. Raises ExpressionError, unless ``lenient``: then NULL."""

    def micros(text: str) -> int | None:
        try:
            return parser.local(text)[0] if local else parser.micros(text)
        except PredicateError:
            if lenient:
                return None
            raise

    return by_distinct(texts, micros, pa.int64()).view(arrow_type(TIMESTAMP_NTZ if local else TIMESTAMP))


def _parsed(binder: Binder, text: Node, pattern: Node, lenient: bool, local: bool = False) -> Node:
    parser = Parser(_pattern(pattern), binder.zone)
    given = (binder.coerce(text, _TEXT),)
    return Apply(TIMESTAMP_NTZ if local else TIMESTAMP, read_times, given, (parser, lenient, local))


def _to_time(type_: AtomicType, lenient: bool) -> Resolve:
    """A text, date or timestamp as a date or timestamp; a second argument is the pattern of texts."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        node = arguments[0]
        text = node.type is not None and node.type.kind in STRING_KINDS
        if len(arguments) > 1 and isinstance(arguments[1], Constant) and not arguments[1].value.is_valid:
            node = Constant(None, scalar(None))
        elif len(arguments) > 1 and text:
            node = _parsed(binder, node, arguments[1], lenient, type_.kind is Kind.TIMESTAMP)
        if node.type is not None and lenient:
            return binder.cast(node, type_, lenient=True)
        return binder.coerce(node, type_)

    return resolve


def _unix_timestamp(binder: Binder, arguments: list[Node]) -> Node:
    """Seconds since 1970."""
    if not arguments:
        return binder.coerce(binder.timestamp(), _LONG)
    node = arguments[0]
    if node.type is not None and node.type.kind in STRING_KINDS:
        default = Constant(_TEXT, scalar(_DEFAULT_PATTERN))
        node = _parsed(binder, node, arguments[1] if len(arguments) > 1 else default, False)
    elif node.type is not None and node.type.kind not in TIMESTAMP_KINDS | {Kind.DATE}:
        raise LookupError(f"a text, a date or a timestamp is wanted, not a {type_text(node.type)}")
    if node.type is None or node.type.kind is not Kind.TIMESTAMP:  # in Spark wall-clock times are taken as of UTC
        node = binder.coerce(node, TIMESTAMP)
    return Apply(_LONG, _whole_seconds, (node,))


def _whole_seconds(times: pa.Array) -> pa.Array:
    """Cut towards 1970, as Spark does it here and nowhere else."""
    return pc.divide(times.cast(pa.timestamp("us", times.type.tz), safe=False).view(pa.int64()), _SECOND)


# ------------------------------------------------------------------------------------------------------------- numbers


def _in_units(unit: int) -> Resolve:
    """Units since 1970, whole ones. ``unit``: its microseconds."""
    return typed(_counted, _LONG, TIMESTAMP, options=(unit,))


def _counted(times: pa.Array, unit: int) -> pa.Array:
    return array(filled(times.view(pa.int64())) // unit, pa.int64(), mask=~valid(times))


def _of_units(unit: int) -> Resolve:
    """A timestamp of units since 1970."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        node = arguments[0]
        kinds = NUMBERS if unit == _SECOND else INTEGER_KINDS
        if node.type is not None and node.type.kind not in kinds:
            raise LookupError(f"a number is wanted, not a {type_text(node.type)}")
        if node.type is not None and node.type.kind not in INTEGER_KINDS:
            number = Apply(node.type, _unless_infinite, (node,)) if node.type.kind in FLOAT_KINDS else node
            return binder.cast(number, TIMESTAMP)
        return Apply(TIMESTAMP, _times, (binder.coerce(node, _LONG),), (unit,))

    return resolve


def _unless_infinite(numbers: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(numbers), numbers, scalar(None, numbers.type))


def _times(counts: pa.Array, unit: int) -> pa.Array:
    try:
        return pc.multiply_checked(counts, unit).view(arrow_type(TIMESTAMP))
    except pa.ArrowInvalid:
        raise ExpressionError("a time is outside the range of TIMESTAMP") from None


def _day_number(dates: pa.Array) -> pa.Array:
    return dates.view(pa.int32())


def _day_of_number(numbers: pa.Array) -> pa.Array:
    return numbers.view(pa.date32())


def _day_name(dates: pa.Array) -> pa.Array:
    return named(pc.day_of_week(dates), DAYS, 3)


def _month_name(dates: pa.Array) -> pa.Array:
    return named(pc.subtract(pc.month(dates), 1), MONTHS, 3)


def _next_day(dates: Datum, names: Datum) -> pa.Array:
    """The first day of that name behind a date."""
    days, given = arrays((dates, names))

    def number(name: str) -> int:
        for at, day in enumerate(DAYS):
            if name.strip().lower() in (day.lower(), day[:3].lower(), day[:2].lower()):
                return at
        raise ExpressionError(f"{name!r:.40} is not the name of a day of the week")

    wanted = by_distinct(given, number, pa.int64())
    days_until = (filled(wanted) - filled(pc.day_of_week(days)) - 1) % 7 + 1
    later = filled(days.view(pa.int32())).astype(np.int64) + days_until
    return array(later, pa.int64(), mask=~(valid(days) & valid(wanted))).cast(pa.int32()).view(pa.date32())


def _months_between(end: Datum, start: Datum, zone: str, rounded: bool) -> pa.Array:
    """Months, and a part of a month of 31 days; whole ones between the same days, and between last days of months."""
    instants = arrays((end, start))
    columns = [to_local(column, TIMESTAMP, zone) for column in instants]
    not_null = valid(columns[0]) & valid(columns[1])
    months, days, seconds, lasts = [], [], [], []
    for instant, column in zip(instants, columns, strict=True):
        date = (filled(column.view(pa.int64())) // DAY_MICROS).astype("datetime64[D]")
        midnight = to_instant(array(date.astype(np.int64) * DAY_MICROS, pa.timestamp("us")), TIMESTAMP, zone)
        month = date.astype("datetime64[M]")
        months.append(month.astype(np.int64))
        days.append((date - month.astype("datetime64[D]")).astype(np.int64) + 1)
        seconds.append((filled(instant.view(pa.int64())) - filled(midnight.view(pa.int64()))) // _SECOND)
        lasts.append((date + 1).astype("datetime64[M]") != month)
    whole = (months[0] - months[1]).astype(np.float64)
    same = (days[0] == days[1]) | (lasts[0] & lasts[1])
    rest = ((days[0] - days[1]) * 86_400 + seconds[0] - seconds[1]) / (31 * 86_400)
    found = np.where(same, whole, whole + rest)
    if rounded:
        found = np.floor(found * 1e8 + 0.5) / 1e8
    return array(found, pa.float64(), mask=~not_null)


def _between_months(binder: Binder, arguments: list[Node]) -> Node:
    rounded = True
    if len(arguments) == 3:
        flag = arguments[2].value.as_py() if isinstance(arguments[2], Constant) else None
        if not isinstance(flag, bool):
            raise LookupError("whether it is rounded must be true or false")
        rounded = flag
    given = tuple(binder.coerce(node, TIMESTAMP) for node in arguments[:2])
    return Apply(tree.DOUBLE, _months_between, given, (binder.zone, rounded))


def _other_zone(to_zone: bool) -> Resolve:
    """from_utc_timestamp: the clocks of UTC become those of a zone; to_utc_timestamp: the other way round."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        zone = arguments[1].value.as_py() if isinstance(arguments[1], Constant) else None
        if not isinstance(zone, str):
            raise LookupError("the zone must be a text, the same for all rows")
        values.time_zone(zone)
        return Apply(TIMESTAMP, _moved_clocks, (binder.coerce(arguments[0], TIMESTAMP),), (zone, to_zone))

    return resolve


def _moved_clocks(times: pa.Array, zone: str, to_zone: bool) -> pa.Array:
    if to_zone:
        return to_local(times, TIMESTAMP, zone).view(arrow_type(TIMESTAMP))
    return to_instant(times.view(arrow_type(TIMESTAMP_NTZ)), TIMESTAMP, zone)


def _convert_timezone(binder: Binder, arguments: list[Node]) -> Node:
    """Wall-clock times of one zone as those of another; the first is the session's where it is left out."""
    *zones, time = arguments
    names = [zone.value.as_py() if isinstance(zone, Constant) else None for zone in zones]
    if not all(isinstance(name, str) for name in names):
        raise LookupError("zones must be texts, the same for all rows")
    source, target = (binder.zone, *names)[-2:]
    return Apply(TIMESTAMP_NTZ, _in_other_zone, (binder.coerce(time, TIMESTAMP_NTZ),), (source, target))


def _in_other_zone(times: pa.Array, source: str, target: str) -> pa.Array:
    return to_local(to_instant(times, TIMESTAMP, source), TIMESTAMP, target)


def _made_timestamp(local: bool) -> Resolve:
    """make_timestamp(year, month, day, hour, minute, second)."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        parts = [binder.coerce(node, _INT) for node in arguments[:5]]
        seconds = binder.cast(arguments[5], AtomicType(Kind.DECIMAL, precision=16, scale=6))
        date = binder.call("make_date", parts[:3])
        found = Apply(TIMESTAMP_NTZ, _at_clock, (date, *parts[3:], seconds))
        return found if local else binder.coerce(found, TIMESTAMP)

    return resolve


def _at_clock(*data: Datum) -> pa.Array:
    date, hour, minute, second = arrays(data)
    not_null = np.logical_and.reduce([valid(column) for column in (date, hour, minute, second)])
    hours, minutes = filled(hour).astype(np.int64), filled(minute).astype(np.int64)
    micros = filled(pc.multiply(second, scalar(_SECOND, pa.decimal128(7, 0))).cast(pa.int64(), safe=False))
    minute_later = micros == 60 * _SECOND
    wrong = (hours < 0) | (hours > 23) | (minutes < 0) | (minutes > 59) | (micros < 0) | (micros > 60 * _SECOND)
    if (not_null & wrong).any():
        at = int(np.argmax(not_null & wrong))
        raise ExpressionError(f"there is no time {hours[at]}:{minutes[at]}:{micros[at] / _SECOND:g}")
    clock = (hours * 60 + minutes) * 60 * _SECOND + np.where(minute_later, 60 * _SECOND, micros)
    counts = filled(date.view(pa.int32())).astype(np.int64) * DAY_MICROS + clock
    return array(counts, pa.int64(), mask=~not_null).view(arrow_type(TIMESTAMP_NTZ))


def _zone_name(binder: Binder, arguments: list[Node]) -> Node:
    return binder.literal(tree.Literal(binder.zone, _TEXT))


TIME_FUNCTIONS: dict[str, Function] = {
    "date_format": Function((2, 2), _date_format),
    "from_unixtime": Function((1, 2), _from_unixtime),
    "unix_timestamp": Function((0, 2), _unix_timestamp),
    "to_unix_timestamp": Function((1, 2), _unix_timestamp),
    "to_date": Function((1, 2), _to_time(_DATE, False)),
    "try_to_date": Function((1, 2), _to_time(_DATE, True)),
    "to_timestamp": Function((1, 2), _to_time(TIMESTAMP, False)),
    "to_timestamp_ntz": Function((1, 2), _to_time(TIMESTAMP_NTZ, False)),
    "try_to_timestamp": Function((1, 2), _to_time(TIMESTAMP, True)),
    "unix_seconds": Function((1, 1), _in_units(_SECOND)),
    "unix_millis": Function((1, 1), _in_units(1000)),
    "unix_micros": Function((1, 1), _in_units(1)),
    "unix_date": Function((1, 1), typed(_day_number, _INT, _DATE)),
    "timestamp_seconds": Function((1, 1), _of_units(_SECOND)),
    "timestamp_millis": Function((1, 1), _of_units(1000)),
    "timestamp_micros": Function((1, 1), _of_units(1)),
    "date_from_unix_date": Function((1, 1), typed(_day_of_number, _DATE, _INT)),
    "dayname": Function((1, 1), typed(_day_name, _TEXT, _DATE)),
    "monthname": Function((1, 1), typed(_month_name, _TEXT, _DATE)),
    "next_day": Function((2, 2), typed(_next_day, _DATE, _DATE, _TEXT)),
    "months_between": Function((2, 3), _between_months),
    "from_utc_timestamp": Function((2, 2), _other_zone(True)),
    "to_utc_timestamp": Function((2, 2), _other_zone(False)),
    "convert_timezone": Function((2, 3), _convert_timezone),
    "make_timestamp": Function((6, 6), _made_timestamp(False)),
    "make_timestamp_ntz": Function((6, 6), _made_timestamp(True)),
    "current_timezone": Function((0, 0), _zone_name),
}
