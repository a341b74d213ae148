"""Functions that take a unit of time for their first argument: ``timestampdiff(HOUR, a, b)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, pc
from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.sql_values import DAY_MICROS
from paimon_pyds.sql.expression.cast import to_local
from paimon_pyds.sql.expression.coercion import TIMESTAMP, TIMESTAMP_NTZ
from paimon_pyds.sql.expression.date_functions import later_times
from paimon_pyds.sql.expression.nodes import Apply, Constant, Node
from paimon_pyds.sql.expression.operands import Datum, arrays, filled, valid
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.intervals import DAYS, MONTHS, UNIT_MICROS, UNIT_MONTHS, UNITS

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


def _unit(node: Node) -> str:
    found = node.value.as_py() if isinstance(node, Constant) else None
    name = {"DAYOFYEAR": "DAY"}.get(str(found).upper(), str(found).upper())
    if name not in UNITS:
        raise LookupError(f"{found!r:.40} is no unit of time: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, …")
    return UNITS[name]


def added(binder: Binder, arguments: list[Node]) -> Node:
    """timestampadd(unit, number, time): months and days are those of the calendar, as for intervals."""
    unit, amount, node = _unit(arguments[0]), binder.coerce(arguments[1], tree.LONG), arguments[2]
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
    unit = _unit(arguments[0])
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
