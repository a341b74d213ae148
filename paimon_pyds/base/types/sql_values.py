"""Texts and numbers of SQL as values: dates, times, timestamps, time zones, with Spark's rules.

Sources: Spark 4 ``SparkDateTimeUtils`` (stringToDate, parseTimestampString, stringToTime) and ``Cast`` in ANSI mode.
Instants and wall-clock times are integers since 1970-01-01 in the proleptic Gregorian calendar, as in Paimon.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import struct

from paimon_pyds.errors import PredicateError

UTC = dt.UTC
DAY_MICROS = 86_400_000_000
FLOAT_MAX = 3.4028234663852886e38
"""The largest finite FLOAT."""
_DAY_NANOS = DAY_MICROS * 1000
_EPOCH = dt.datetime(1970, 1, 1)
_FIRST_MICROS = -62_135_510_400_000_000  # 0001-01-02T00:00 in microseconds: Python's zones know years 1 to 9999 only
_LAST_MICROS = 253_402_214_400_000_000  # 9999-12-31T00:00

# Compiled at their first use. (?a): \d is 0 to 9 only, as in Spark.
_DATE = r"(?as)([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?"
_TIMESTAMP = (
    r"(?as)([+-]?)(\d{4,9})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*([^\d.].*)?)?)?)?)?)?"
)
_TIME = r"(?ai)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?(?: ?([AP])M)?"
_OFFSET = r"(?a)(?:UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?)?"
_DOUBLE = r"(?a)[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?"
_SPECIAL = {
    "nan": "nan", "inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf",
    "-infinity": "-inf",
}  # fmt: skip


def days_from_civil(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 of a date; None when there is no such day. Years may be 0 or negative (1 BC is 0)."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + sum(lengths[: month - 1]) + day - 719_163


def parse_date(text: str) -> int:
    """Days since 1970-01-01: yyyy, yyyy-[m]m, yyyy-[m]m-[d]d, the last also before a space or T and anything.
    Raises PredicateError: not a date."""
    stripped = text.strip()
    if stripped.lower() == "epoch":
        return 0
    match = re.fullmatch(_DATE, stripped)
    if match is not None:
        year = int(match[2]) * (-1 if match[1] == "-" else 1)
        days = days_from_civil(year, int(match[3] or 1), int(match[4] or 1))
        if days is not None:
            return days
    raise PredicateError(f"{text!r:.100} is not a date", hint=_clock_hint(stripped) or "write it as 'yyyy-mm-dd'")


def parse_time(text: str) -> int:
    """Nanoseconds of the day: [h]h:[m]m, [h]h:[m]m:[s]s, with a fraction, with AM or PM.
    Raises PredicateError: not a time of day."""
    match = re.fullmatch(_TIME, text.strip())
    if match is not None:
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        half = match[5]
        if half is not None:
            hour = hour % 12 + (12 if half in "Pp" else 0) if 1 <= hour <= 12 else 24
        if hour < 24 and minute < 60 and second < 60:
            nanos = int((match[4] or "").ljust(9, "0"))
            return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos
    raise PredicateError(f"{text!r:.100} is not a time of day", hint="write it as 'hh:mm:ss[.ffffff]'")


def parse_timestamp(text: str) -> tuple[int, str | None]:
    """Wall-clock nanoseconds since 1970-01-01T00:00, and the zone as written (None without a zone).

    Digits behind the ninth of the fraction are dropped.
    Raises PredicateError: not a timestamp.
    """
    stripped = text.strip()
    if stripped.lower() == "epoch":
        return 0, "UTC"
    match = re.fullmatch(_TIMESTAMP, stripped)
    if match is not None:
        year = int(match[2]) * (-1 if match[1] == "-" else 1)
        days = days_from_civil(year, int(match[3] or 1), int(match[4] or 1))
        hour, minute, second = int(match[5] or 0), int(match[6] or 0), int(match[7] or 0)
        if days is not None and hour < 24 and minute < 60 and second < 60:
            nanos = int((match[8] or "")[:9].ljust(9, "0"))
            clock = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos
            return days * _DAY_NANOS + clock, match[9]
    raise PredicateError(
        f"{text!r:.100} is not a timestamp", hint=_clock_hint(stripped) or "write it as 'yyyy-mm-dd hh:mm:ss[.ffffff]'"
    )


def _clock_hint(text: str) -> str | None:
    if text.lower() in ("now", "today", "tomorrow", "yesterday"):
        return "values of the clock are not supported in conditions; compute them in Python and write the date"
    return None


@functools.lru_cache(maxsize=64)
def time_zone(name: str) -> dt.tzinfo:
    """The zone of a name (Europe/Berlin), of an offset (+01:00, +1, UTC+1), or Z, UTC, GMT.
    Raises PredicateError: no such zone."""
    text = name.strip()
    if text in ("Z", "z", "UTC", "GMT", "UT"):
        return UTC
    match = re.fullmatch(_OFFSET, text)
    if match is not None and match[1]:
        hours, minutes, seconds = int(match[2]), int(match[3] or 0), int(match[4] or 0)
        delta = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes < 60 and seconds < 60 and delta <= dt.timedelta(hours=18):
            return dt.timezone(-delta if match[1] == "-" else delta)
    else:
        import zoneinfo  # a few milliseconds, and most filters have no zone

        try:
            return zoneinfo.ZoneInfo(text)
        except (ValueError, OSError, LookupError):
            pass
    raise PredicateError(f"{name!r:.100} is not a time zone", hint="write it as +01:00 or Europe/Berlin")


def _wall_clock(micros: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=min(max(micros, _FIRST_MICROS), _LAST_MICROS))


def offset_micros(instant: int, zone: dt.tzinfo) -> int:
    """What a zone adds to an instant (microseconds since the epoch, UTC), in microseconds."""
    local = _wall_clock(instant).replace(tzinfo=UTC).astimezone(zone)
    offset = local.utcoffset() or dt.timedelta()
    return offset // dt.timedelta(microseconds=1)


def local_to_instant(local: int, zone: dt.tzinfo) -> int:
    """The instant of a wall-clock time, both in microseconds since the epoch.

    As Java does it: of two instants the earlier one; a time that was skipped moves forward by the length of the gap.
    """
    if zone is UTC:
        return local
    offset = zone.utcoffset(_wall_clock(local)) or dt.timedelta()
    return local - offset // dt.timedelta(microseconds=1)


def instant_to_local(instant: int, zone: dt.tzinfo) -> int:
    """The wall-clock time of an instant, both in microseconds since the epoch."""
    return instant if zone is UTC else instant + offset_micros(instant, zone)


def float32(value: float) -> float:
    """The nearest FLOAT to a DOUBLE, as a Python float; beyond the largest it is infinite."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def float32_neighbour(value: float, up: bool) -> float:
    """The next FLOAT above (or below) a finite FLOAT or zero."""
    if value == 0:
        return 1.401298464324817e-45 if up else -1.401298464324817e-45
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    moved: float = struct.unpack("<f", struct.pack("<i", bits + (1 if (value > 0) == up else -1)))[0]
    return moved


def double_from_text(text: str) -> float:
    """CAST(text AS DOUBLE). Raises PredicateError."""
    stripped = text.strip()
    special = _SPECIAL.get(stripped.lower())
    if special is not None:
        return float(special)
    if re.fullmatch(_DOUBLE, stripped):
        return float(stripped.rstrip("dDfF"))
    raise PredicateError(f"{text!r:.100} is not a number")


def float32_from_text(text: str) -> float:
    """CAST(text AS FLOAT): the FLOAT nearest to what is written, rounded once. Raises PredicateError."""
    double = double_from_text(text)
    rounded = float32(double)
    if rounded == double or double != double or abs(rounded) == float("inf"):
        return rounded
    from fractions import Fraction

    exact, nearest = Fraction(text.strip().rstrip("dDfF")), Fraction(rounded)
    other = float32_neighbour(rounded, up=exact > nearest)
    # Rounding twice goes wrong only where the DOUBLE fell on the middle between two FLOATs.
    if abs(other) != float("inf") and abs(exact - Fraction(other)) < abs(exact - nearest):
        return other
    return rounded


def integer_from_text(text: str) -> int:
    """CAST(text AS BIGINT), of any size: digits with a sign. Raises PredicateError."""
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d{1,400}", stripped, re.ASCII):
        return int(stripped)
    raise PredicateError(f"{text!r:.100} is not an integer")


def boolean_from_text(text: str) -> bool:
    """CAST(text AS BOOLEAN). Raises PredicateError."""
    word = text.strip().lower()
    if word in ("t", "true", "y", "yes", "1"):
        return True
    if word in ("f", "false", "n", "no", "0"):
        return False
    raise PredicateError(f"{text!r:.100} is not a boolean", hint="write true or false")
