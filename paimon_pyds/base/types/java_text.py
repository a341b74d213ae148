"""Values as text, exactly as the Java virtual machine spells them: casts give them, and directories of partitions have
them as names.

Sources: the documentation of Java's Float.toString, Double.toString (JDK 19 and later, the shortest digits that give
the value back), LocalDateTime.toString and BigDecimal.toPlainString, and the directories that Java Paimon 1.4 makes.
"""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np

from paimon_pyds.base.types.arrow import timestamp_unit
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    FLOAT_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNITS_PER_SECOND,
    Kind,
)
from paimon_pyds.base.types.model import AtomicType, DataType
from paimon_pyds.errors import UnsupportedError

_DAY_MILLIS = 86_400_000
"""Milliseconds of a day."""


def partition_text(value: Any, type_: DataType, *, legacy: bool) -> str:
    """The text of a partition value (an internal value).

    ``value``: not None. ``legacy``: option ``partition.legacy-name``, true by default: the Java form of the value,
    which is days for DATE, milliseconds for TIME, ``2001-05-10T21:42:35.694`` for timestamps; otherwise the SQL text,
    in which instants stand in UTC (Java: in the zone of its process).
    Raises UnsupportedError: a type whose text is not stable (BINARY with legacy names) or that has none.
    """
    kind = type_.kind
    if kind in STRING_KINDS:
        return str(value)
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind in FLOAT_KINDS:
        return java_float_text(value, kind is Kind.FLOAT)
    if kind is Kind.DECIMAL and isinstance(type_, AtomicType):
        quantum = decimal.Decimal(1).scaleb(-(type_.scale or 0))
        return format(decimal.Decimal(value).quantize(quantum, context=decimal.Context(prec=76)), "f")
    if kind in TIMESTAMP_KINDS:
        per_second = UNITS_PER_SECOND[timestamp_unit(type_)]
        seconds, fraction = divmod(int(value), per_second)
        nanos = fraction * (1_000_000_000 // per_second)
        if legacy:
            return _local_date_time(seconds, nanos)
        return _sql_timestamp(seconds, nanos, getattr(type_, "precision", 6))
    if not legacy and kind in (Kind.DATE, Kind.TIME, *BINARY_KINDS):
        return _sql_text(value, type_)
    if kind in BINARY_KINDS:
        raise UnsupportedError(
            f"a partition column of type {type_} has no stable directory name with partition.legacy-name=true",
            hint="set partition.legacy-name=false, or partition by another column",
            feature="append-tables",
        )
    if isinstance(value, int):
        return str(value)
    raise UnsupportedError(f"partition columns of type {type_} are not supported", feature="append-tables")


def java_float_text(value: float, single: bool) -> str:
    """Double.toString, or of a ``single`` Float.toString: ``1.0E10``, ``0.001``, ``-0.0``, ``4.9E-324``, ``NaN``."""
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "Infinity" if value > 0 else "-Infinity"
    exact = np.float32(value) if single else np.float64(value)
    shortest = np.format_float_scientific(exact, unique=True, trim="0")
    mantissa, exponent = shortest.split("e")
    if len(mantissa.lstrip("-")) == 3 and mantissa.endswith("0"):
        # Java shows two digits at least, and takes the nearest two that mean the same number.
        two = f"{exact:.1e}"
        if type(exact)(two) == exact:
            mantissa, exponent = two.split("e")
    power = int(exponent)
    if not value:
        return mantissa
    if -3 <= power < 7:
        plain = format(decimal.Decimal(f"{mantissa}e{power}").normalize(), "f")
        return plain if "." in plain else plain + ".0"
    return f"{mantissa}E{power}"


def is_spelled_alike(value: float, single: bool) -> bool:
    """Whether all versions of Java spell a number as `java_float_text` does.

    Before 19, Java takes other digits for many numbers so large that their type has no bits for fractions, and for some
    powers of two; a text that is the number to its last digit is the same. False for some numbers that all spell alike.
    (Source: Java's bug JDK-4511638, and comparisons with Java 17 at all exponents.)
    """
    if not value or not math.isfinite(value):
        return True
    if math.frexp(abs(value))[0] != 0.5 and abs(value) < (2**24 if single else 2**53):
        return True
    text = java_float_text(value, single)
    return "E" not in text or decimal.Decimal(text) == decimal.Decimal(value)


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01, for any year: Python's calendar ends with 9999."""
    cycle, rest = divmod(days + 719_162, 146_097)  # 400 years
    ordinary = datetime.date.fromordinal(rest + 1)
    return ordinary.year + 400 * cycle, ordinary.month, ordinary.day


def date_text(days: int) -> str:
    """A date as Java and Spark spell it: yyyy-mm-dd, with a sign for years outside 0 to 9999."""
    year, month, day = civil_from_days(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _clock(second_of_day: int) -> tuple[int, int, int]:
    return second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60


def _local_date_time(seconds: int, nanos: int) -> str:
    """LocalDateTime.toString: seconds only where they are not zero, fractions in groups of three digits."""
    days, second_of_day = divmod(seconds, 86_400)
    hour, minute, second = _clock(second_of_day)
    text = f"{date_text(days)}T{hour:02d}:{minute:02d}"
    if second or nanos:
        text += f":{second:02d}"
    if nanos:
        fraction = f"{nanos:09d}"
        text += "." + (fraction[:3] if nanos % 1_000_000 == 0 else fraction[:6] if nanos % 1000 == 0 else fraction)
    return text


def _sql_date(days: int) -> str:
    year, month, day = civil_from_days(days)
    return f"{year % 10_000:04d}-{month:02d}-{day:02d}"


def _sql_text(value: Any, type_: DataType) -> str:
    if type_.kind is Kind.DATE:
        return _sql_date(int(value))
    if type_.kind is Kind.TIME:
        return time_text(int(value), getattr(type_, "precision", 0))
    return bytes(value).decode("utf-8", "replace")


def _sql_timestamp(seconds: int, nanos: int, precision: int) -> str:
    days, second_of_day = divmod(seconds, 86_400)
    hour, minute, second = _clock(second_of_day)
    fraction = f"{nanos:09d}"
    while len(fraction) > precision and fraction.endswith("0"):
        fraction = fraction[:-1]
    text = f"{_sql_date(days)} {hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{fraction}" if fraction else text


def time_text(millis: int, precision: int) -> str:
    """A time of day as casts and directories have it: the fraction stops where only zeros follow, or after as many
    digits as the precision has; one at least, unless that is 0. (Source: Java Paimon's DateTimeUtils.)"""
    millis %= _DAY_MILLIS
    hour, minute, second = _clock(millis // 1000)
    text = f"{hour:02d}:{minute:02d}:{second:02d}"
    if precision <= 0:
        return text
    fraction = f"{millis % 1000:03d}".rstrip("0") or "0"
    return f"{text}.{fraction[:precision]}"
