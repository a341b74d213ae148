"""Partition values as text, exactly as the Java virtual machine spells them: they are names of directories.

Sources: the documentation of Java's Float.toString, Double.toString (JDK 19 and later, the shortest digits that give
the value back), LocalDateTime.toString and BigDecimal.toPlainString, and the directories that Java Paimon 1.4 makes.
"""

from __future__ import annotations

import decimal
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, TIMESTAMP_KINDS, AtomicType, DataType, Kind, timestamp_unit
from paimon_pyds.types.time_units import UNITS_PER_SECOND

__all__ = ["java_double", "java_float", "partition_text"]

_DAY_MILLIS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def partition_text(value: Any, type_: DataType, *, legacy: bool, zone: str = "UTC") -> str:
    """The text of a partition value (an internal value).

    Args:
        value: not None.
        type_: of the column.
        legacy: option ``partition.legacy-name``, true by default: the Java form of the value, which is days for DATE,
            milliseconds for TIME, ``2001-05-10T21:42:35.694`` for timestamps; otherwise the SQL text.
        zone: time zone of TIMESTAMP WITH LOCAL TIME ZONE when ``legacy`` is false (Java: the zone of the process).

    Raises:
        UnsupportedError: a type whose text is not stable (BINARY with legacy names) or that has none.
    """
    kind = type_.kind
    if kind in STRING_KINDS:
        return str(value)
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind is Kind.FLOAT:
        return java_float(value)
    if kind is Kind.DOUBLE:
        return java_double(value)
    if kind is Kind.DECIMAL and isinstance(type_, AtomicType):
        return _plain_decimal(value, type_.scale or 0)
    if kind in TIMESTAMP_KINDS:
        seconds, nanos = _seconds_and_nanos(int(value), timestamp_unit(type_))
        return _local_date_time(seconds, nanos) if legacy else _sql_timestamp(type_, seconds, nanos, zone)
    if not legacy and kind in (Kind.DATE, Kind.TIME, *BINARY_KINDS):
        return _sql_text(value, type_)
    if kind in BINARY_KINDS:
        raise UnsupportedError(
            f"a partition column of type {type_} has no stable directory name with partition.legacy-name=true",
            hint="set partition.legacy-name=false, or partition by another column",
        )
    if isinstance(value, int):
        return str(value)
    raise UnsupportedError(f"partition columns of type {type_} are not supported")


# -------------------------------------------------------------------------------------------------------- numbers


def java_double(value: float) -> str:
    """Double.toString: ``1.0E10``, ``0.001``, ``-0.0``, ``4.9E-324``, ``NaN``."""
    return _java_floating(value, repr(abs(value)), float)


def java_float(value: float) -> str:
    """Float.toString of a single-precision value: ``1.4E-45``, ``868.8255``, ``3.4028235E38``."""
    single = np.float32(value)
    shortest = np.format_float_scientific(abs(single), unique=True, trim="-")
    return _java_floating(float(single), shortest, lambda text: float(np.float32(text)))


def _java_floating(value: float, shortest: str, parse: Any) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    value = abs(value)
    if value == 0:
        return sign + "0.0"
    digits, exponent = _digits(shortest)
    if len(digits) == 1:
        # Java shows two digits at least, and takes the nearest two that mean the same number.
        two, two_exponent = _digits(f"{value:.1e}")
        if len(two) == 2 and parse(f"{value:.1e}") == value:
            digits, exponent = two, two_exponent
    if 1e-3 <= value < 1e7:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        digits = digits.ljust(exponent + 1, "0")
        return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(text: str) -> tuple[str, int]:
    """Significant digits without trailing zeros, and the power of ten of the first one."""
    _, digits, exponent = decimal.Decimal(text).as_tuple()
    stripped = "".join(map(str, digits)).rstrip("0")
    return stripped, len(digits) - 1 + int(exponent)


def _plain_decimal(value: decimal.Decimal, scale: int) -> str:
    context = decimal.Context(prec=76)
    return format(decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-scale), context=context), "f")


# --------------------------------------------------------------------------------------------- dates and times


def _seconds_and_nanos(value: int, unit: str) -> tuple[int, int]:
    per_second = UNITS_PER_SECOND[unit]
    seconds, fraction = divmod(value, per_second)
    return seconds, fraction * (1_000_000_000 // per_second)


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month, day of a day number in the proleptic Gregorian calendar, for any year (Python's stops at 9999)."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def _clock(second_of_day: int) -> tuple[int, int, int]:
    return second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60


def _local_date_time(seconds: int, nanos: int) -> str:
    """LocalDateTime.toString: seconds only where they are not zero, fractions in groups of three digits."""
    days, second_of_day = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    hour, minute, second = _clock(second_of_day)
    years = f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04d}"
    text = f"{years}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}"
    if second or nanos:
        text += f":{second:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        text += "." + (fraction[:3] if nanos % 1_000_000 == 0 else fraction[:6] if nanos % 1000 == 0 else fraction)
    return text


def _sql_date(days: int) -> str:
    year, month, day = _civil(days)
    return f"{year % 10_000:04d}-{month:02d}-{day:02d}"


def _sql_text(value: Any, type_: DataType) -> str:
    """The text of a DATE, a TIME, or bytes."""
    if type_.kind is Kind.DATE:
        return _sql_date(int(value))
    if type_.kind is Kind.TIME:
        return _sql_time(int(value), getattr(type_, "precision", 0))
    return bytes(value).decode("utf-8", "replace")


def _sql_timestamp(type_: DataType, seconds: int, nanos: int, zone: str) -> str:
    precision = getattr(type_, "precision", 6)
    if type_.kind is Kind.TIMESTAMP_LTZ:
        seconds = _at_zone(seconds, zone)
    days, second_of_day = divmod(seconds, 86_400)
    hour, minute, second = _clock(second_of_day)
    fraction = f"{nanos:09d}"
    while len(fraction) > precision and fraction.endswith("0"):
        fraction = fraction[:-1]
    text = f"{_sql_date(days)} {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction}" if fraction else text


def _sql_time(millis: int, precision: int) -> str:
    """The text of a TIME: the fraction stops where only zeros follow, after one digit at least."""
    millis %= _DAY_MILLIS
    hour, minute, second = _clock(millis // 1000)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    if precision <= 0:
        return text
    fraction = f"{millis % 1000:03d}".rstrip("0") or "0"
    return f"{text}.{fraction[:precision]}"


def _at_zone(seconds: int, zone: str) -> int:
    """Wall-clock seconds of an instant in a time zone."""
    if zone.upper() in ("UTC", "Z", "ETC/UTC", "GMT"):
        return seconds
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionError(f"not a time zone: {zone!r}", hint="give a name such as Europe/Berlin, or UTC") from error
    except OverflowError as error:
        raise UnsupportedError("a timestamp outside the years 1 to 9999 in a partition") from error
    offset = moment.utcoffset() or timedelta(0)
    return seconds + int(offset.total_seconds())
