"""How Java Paimon writes values as text and reads them, when a column's type is changed to or from a string."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.types import AtomicType, timestamp_unit
from paimon_pyds.base.types.java_text import java_float_text, time_text
from paimon_pyds.base.types.kinds import INTEGER_KINDS, INTEGER_RANGES, UNIT_DIGITS, UNITS_PER_SECOND, Kind
from paimon_pyds.errors import SchemaError

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_ROUNDING = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)


def timestamp_texts(array: pa.Array, precision: int) -> pa.Array:
    """``2020-01-31 23:59:59.120``: as many digits of fraction as the precision has, more where they are not zero."""
    unit = array.type.unit
    text = pc.cast(array.view(pa.int64()).view(pa.timestamp(unit)), pa.string())
    if precision < UNIT_DIGITS[unit]:
        text = pc.replace_substring_regex(text, rf"(\.\d{{{precision},}}?)0+$", r"\1")
        if precision == 0:
            text = pc.replace_substring_regex(text, r"\.$", "")
    return text


def formatter(type_: AtomicType) -> Callable[[Any], str]:
    """The function that writes a value of FLOAT, DOUBLE, DECIMAL or TIME (as milliseconds)."""
    match type_.kind:
        case Kind.FLOAT | Kind.DOUBLE:
            single = type_.kind is Kind.FLOAT
            return lambda value: java_float_text(value, single)
        case Kind.DECIMAL:
            return lambda value: format(value, "f")
        case Kind.TIME:
            precision = type_.precision or 0
            return lambda value: time_text(value, precision)
    raise SchemaError(f"{type_} has no text form of its own")


_WHOLE = re.compile(r"([+-]?)(\d*)(?:\.\d*)?", re.ASCII)
_FLOATING = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_DATE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*(?:-\s*(\d+)\s*)?)?", re.ASCII)
_TIME = re.compile(r"\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.(.*))?)?)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?", re.ASCII
)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})

STORAGE: dict[Kind, pa.DataType] = {
    Kind.DATE: pa.int32(),
    Kind.TIME: pa.int32(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.TIMESTAMP_LTZ: pa.int64(),
}
"""What parsed values of temporal types are before they are viewed as such."""


def _refuse(text: str, type_: AtomicType) -> SchemaError:
    return SchemaError(f"the text {text!r:.60} can't be cast to {type_}")


def _parse_boolean(text: str, type_: AtomicType) -> bool:
    lower = text.lower()
    if lower in _TRUE or lower in _FALSE:
        return lower in _TRUE
    raise _refuse(text, type_)


def _parse_integer(text: str, type_: AtomicType) -> int:
    match = _WHOLE.fullmatch(text)
    if match is None or text in ("", "+", "-"):
        raise _refuse(text, type_)
    value: int = int(match[1] + (match[2] or "0")) if len(match[2]) <= 25 else 2**80
    if value not in INTEGER_RANGES[type_.kind]:
        raise _refuse(text, type_)
    return value


def _parse_float(text: str, type_: AtomicType) -> float:
    stripped = text.strip()
    if _FLOATING.fullmatch(stripped) is None:
        raise _refuse(text, type_)
    return float(stripped if stripped.endswith(("NaN", "Infinity")) else stripped.rstrip("fFdD"))


def _parse_date(text: str, type_: AtomicType) -> int:
    if text.isascii() and text.isdigit():
        return _parse_integer(text, AtomicType(Kind.INT))
    space = text.find(" ")
    match = _DATE.fullmatch(text[:space] if space > 0 else text)
    if match is None:
        raise _refuse(text, type_)
    try:
        day = datetime.date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except (ValueError, OverflowError):
        raise _refuse(text, type_) from None
    return day.toordinal() - _EPOCH


def _parse_time(text: str, type_: AtomicType) -> int:
    if text.isascii() and text.isdigit():
        return _parse_integer(text, AtomicType(Kind.INT))
    match = _TIME.fullmatch(text)
    if match is None or any(len(part or "") > 9 for part in match.groups()[:3]):
        raise _refuse(text, type_)
    digits = ((match[4] or "").strip() + "0000")[:4]
    if not digits.isdigit():
        raise _refuse(text, type_)
    millis = int(digits[:3]) + (digits[3] >= "5")
    return (int(match[1]) * 3600 + int(match[2] or 0) * 60 + int(match[3] or 0)) * 1000 + millis


def _parse_timestamp(text: str, type_: AtomicType) -> int:
    precision = type_.precision or 0
    per_second: int = UNITS_PER_SECOND[timestamp_unit(type_)]
    if type_.kind is Kind.TIMESTAMP and text.isascii() and text.isdigit():
        if precision not in (0, 3, 6, 9):
            raise _refuse(text, type_)
        step: int = per_second // 10**precision
        return _parse_integer(text, AtomicType(Kind.BIGINT)) * step
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise _refuse(text, type_)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise _refuse(text, type_) from None
    seconds = (moment.toordinal() - _EPOCH) * 86_400 + hour * 3600 + minute * 60 + second
    fraction = (match[7] or "")[:precision].ljust(9, "0")
    return seconds * per_second + int(fraction) // (1_000_000_000 // per_second)


PARSERS: dict[Kind, Callable[[str, AtomicType], Any]] = {
    Kind.BOOLEAN: _parse_boolean, **dict.fromkeys(INTEGER_KINDS, _parse_integer), Kind.FLOAT: _parse_float,
    Kind.DOUBLE: _parse_float, Kind.DATE: _parse_date, Kind.TIME: _parse_time, Kind.TIMESTAMP: _parse_timestamp,
    Kind.TIMESTAMP_LTZ: _parse_timestamp,
}  # fmt: skip


def parser(type_: AtomicType) -> Callable[[str], Any]:
    """The function that reads a value of this type; it raises SchemaError on text that is no such value. Of an instant
    it is what a clock shows."""
    parse = PARSERS[type_.kind]
    return lambda text: parse(text, type_)


def decimal_text(type_: AtomicType) -> Callable[[str], decimal.Decimal | None]:
    """The function that reads a decimal: rounded half up, None when too long, SchemaError when it is no number."""

    def convert(text: str) -> decimal.Decimal | None:
        if _DECIMAL.fullmatch(text) is None:
            raise _refuse(text, type_)
        return rounded(decimal.Decimal(text), type_)

    return convert


def rounded(exact: decimal.Decimal, type_: AtomicType) -> decimal.Decimal | None:
    """A number as a DECIMAL: rounded half up; None when it needs more digits than the type has."""
    if exact.adjusted() > 60:
        return None
    tiny = exact.adjusted() < -60
    quantum = decimal.Decimal(1).scaleb(-(type_.scale or 0))
    found = _ROUNDING.quantize(decimal.Decimal(0) if tiny else exact, quantum)
    fits = not found or found.adjusted() < (type_.precision or 0) - (type_.scale or 0)  # abs() would round to 28 digits
    return found if fits else None
