"""Times as texts of a pattern: each part of it becomes the texts of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, pc, scalar
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.sql.expression.cast import to_local
from paimon_pyds.sql.expression.coercion import TIMESTAMP
from paimon_pyds.sql.expression.date_patterns import (
    DAYS,
    HALVES,
    MONTHS,
    Field,
    Optional,
    Part,
    has_letter,
    parts_of,
)
from paimon_pyds.sql.expression.operands import by_distinct, filled, valid

_SECOND = 1_000_000
"""Microseconds of a second."""
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")


def write_times(times: pa.Array, pattern: str, zone: str) -> pa.Array:
    """Instants as texts of a pattern, by the clocks of a zone."""
    local = to_local(times, TIMESTAMP, zone)
    parts = parts_of(pattern)
    offsets = filled(local.view(pa.int64())) - filled(times.view(pa.int64()))
    texts = _Writer(local, offsets, zone, has_letter(parts, "G")).texts(parts)
    found = pc.binary_join_element_wise(*texts, "") if texts else scalar("")
    return pc.if_else(times.is_valid(), found, scalar(None, pa.string()))


class _Writer:
    """Writes a column of wall-clock times, part by part of a pattern."""

    def __init__(self, local: pa.Array, offsets: Int64s, zone: str, of_era: bool) -> None:
        self._local = local
        self._offsets = offsets // _SECOND
        self._zone = zone
        self._of_era = of_era

    def texts(self, parts: Sequence[Part]) -> list[Any]:
        """Columns of texts, or texts that are the same in all rows, to be joined."""
        found: list[Any] = []
        for part in parts:
            if isinstance(part, Optional):
                found += self.texts(part.parts)
            else:
                found.append(self._field(part) if isinstance(part, Field) else scalar(part))
        return found

    def _field(self, field: Field) -> Any:
        letter, count = field
        if letter in _NUMBERS:
            return _padded(_NUMBERS[letter](self._local), count)
        match letter:
            case "y":
                shown = partial(_year, count=count, of_era=self._of_era)
                return by_distinct(pc.year(self._local), shown, pa.string())
            case "G":
                eras = ("BC", "AD") if count < 4 else ("Before Christ", "Anno Domini")
                return named(pc.greater(pc.year(self._local), 0).cast(pa.int8()), eras)
            case "M" | "L":
                months = pc.subtract(pc.month(self._local), 1)
                return _padded(pc.month(self._local), count) if count < 3 else named(months, MONTHS, count)
            case "Q" | "q":
                quarters = pc.quarter(self._local)
                if count < 3:
                    return _padded(quarters, count)
                names = tuple(f"Q{n}" for n in range(1, 5)) if count == 3 else _QUARTERS
                return named(pc.subtract(quarters, 1), names)
            case "E":
                return named(pc.day_of_week(self._local), DAYS, max(count, 3))
            case "a":
                return named(pc.divide(pc.hour(self._local), 12), HALVES)
            case "S":
                micros = filled(self._local.view(pa.int64())) % _SECOND
                digits = min(count, 6)
                text = _padded(array(micros // 10 ** (6 - digits)), digits)
                return pc.binary_join_element_wise(text, "0" * (count - digits), "")
            case "V":
                return scalar("Z" if values.time_zone(self._zone) is values.UTC and self._zone == "Z" else self._zone)
        return by_distinct(array(self._offsets), partial(_offset_text, letter=letter, count=count), pa.string())


_NUMBERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "d": pc.day, "D": pc.day_of_year, "H": pc.hour, "m": pc.minute, "s": pc.second,
    "F": lambda local: pc.add(_rest(pc.subtract(pc.day(local), 1), 7), 1),
    "h": lambda local: pc.add(_rest(pc.subtract(pc.add(pc.hour(local), 12), 1), 12), 1),
    "K": lambda local: _rest(pc.hour(local), 12),
    "k": lambda local: pc.add(_rest(pc.add(pc.hour(local), 23), 24), 1),
}  # fmt: skip


def _rest(numbers: pa.Array, divisor: int) -> pa.Array:
    return array(filled(numbers) % divisor, pa.int64(), mask=~valid(numbers))


def _padded(numbers: pa.Array, digits: int) -> pa.Array:
    """Numbers from 0 up with some digits at least."""
    return pc.utf8_lpad(numbers.cast(pa.string()), digits, "0")


def named(numbers: pa.Array, names: Sequence[str], count: int = 4) -> pa.Array:
    """Names by their positions; the first three letters where a count of less than four is wanted."""
    shown = [name if count > 3 else name[:3] for name in names]
    return array(shown, pa.string()).take(numbers)


def _year(year: int, count: int, of_era: bool) -> str:
    """A year; ``of_era``: as with the letter of eras, where the year 0 is 1 BC."""
    if of_era and year <= 0:
        year = 1 - year
    if count == 2:
        return f"{year % 100:02d}"
    sign = "-" if year < 0 else "+" if count >= 4 and year >= 10**count else ""
    return f"{sign}{abs(year):0{count}d}"


def _offset_text(seconds: int, letter: str, count: int) -> str:
    sign, (hours, rest) = "-" if seconds < 0 else "+", divmod(abs(seconds), 3600)
    minutes, seconds = divmod(rest, 60)
    nothing = not hours and not minutes and not seconds
    if letter == "O" or (letter == "Z" and count == 4):
        if nothing:
            return "GMT"
        tail = f":{seconds:02d}" if seconds else ""
        short = f":{minutes:02d}{tail}" if minutes or seconds else ""
        return (
            f"GMT{sign}{hours}{short}" if letter == "O" and count == 1 else f"GMT{sign}{hours:02d}:{minutes:02d}{tail}"
        )
    if nothing and (letter == "X" or (letter == "Z" and count == 5)):
        return "Z"
    if letter == "Z":
        colon, tail = (":", f":{seconds:02d}" if seconds else "") if count == 5 else ("", "")
        return f"{sign}{hours:02d}{colon}{minutes:02d}{tail}"
    if count == 1:
        return f"{sign}{hours:02d}" + (f"{minutes:02d}" if minutes else "")
    colon = ":" if count in (3, 5) else ""
    tail = f"{colon}{seconds:02d}" if seconds and count > 3 else ""
    return f"{sign}{hours:02d}{colon}{minutes:02d}{tail}"
