"""Literals of the filter language: the types that Spark SQL gives them, and CAST between them (ANSI mode)."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from decimal import Decimal
from typing import Any

from paimon_pyds.base.types import AtomicType, timestamp_unit
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.java_text import date_text
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    INTEGER_KINDS,
    NANOS_PER_UNIT,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Kind,
)
from paimon_pyds.base.zones import instant
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.text.tree import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    Literal,
    checked_integer,
    decimal_literal,
    integer,
)

_EXACT_KINDS = INTEGER_KINDS | {Kind.DECIMAL}
_NUMERIC_KINDS = _EXACT_KINDS | {Kind.FLOAT, Kind.DOUBLE}
wide = decimal.Context(prec=400, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.InvalidOperation])
"""Decimal arithmetic that does not round literals of a filter."""


def timestamp_literal(text: str, kind: Kind, zone: str) -> Literal:
    """TIMESTAMP '…' (kind TIMESTAMP_LTZ) and TIMESTAMP_NTZ '…' (kind TIMESTAMP, where a zone in the text is ignored).

    Microseconds (precision 6), or nanoseconds (precision 9) when that many digits are written.
    """
    nanos, written = values.parse_timestamp(text)
    if kind is Kind.TIMESTAMP_LTZ:
        micros, rest = divmod(nanos, 1000)
        nanos = values.local_to_instant(micros, values.time_zone(written or zone)) * 1000 + rest
    elif written is not None:
        values.time_zone(written)
    return _time(nanos, kind)


def _time(nanos: int, kind: Kind) -> Literal:
    """A TIME, TIMESTAMP or TIMESTAMP_LTZ, in microseconds if these hold it."""
    if nanos % 1000:
        return Literal(nanos, AtomicType(kind, precision=9))
    return Literal(nanos // 1000, AtomicType(kind, precision=6))


def is_number(literal: Literal) -> bool:
    """Whether it is an integer, a DECIMAL, a FLOAT or a DOUBLE."""
    return literal.type is not None and literal.type.kind in _NUMERIC_KINDS


def literal_nanos(literal: Literal) -> int:
    """The value of a TIME, TIMESTAMP or TIMESTAMP_LTZ literal in nanoseconds."""
    assert literal.type is not None
    value: int = literal.value
    return value * NANOS_PER_UNIT[timestamp_unit(literal.type)]


def from_python(value: object, wanted: Kind | None = None) -> Literal:
    """The literal for a plain Python value, as Spark's pushed filters give them.

    A datetime with a zone is an instant (TIMESTAMP WITH LOCAL TIME ZONE), one without is wall-clock time; or the
    instant of that local time, where ``wanted`` says that it meets instants. Nanoseconds of a pandas Timestamp count.
    Raises PredicateError: values of that class have no SQL type, or half of a surrogate pair.
    """
    match value:
        case None:
            return Literal(None, None)
        case bool():
            return Literal(value, BOOLEAN)
        case int():
            return integer(value)
        case float():
            return Literal(value, DOUBLE)
        case Decimal():
            return decimal_literal(value)
        case str():
            return _text_literal(value)
        case bytes() | bytearray():
            return Literal(bytes(value), BYTES)
        case dt.datetime():
            value = instant(value) if wanted is Kind.TIMESTAMP_LTZ else value
            epoch = dt.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else values.UTC)
            micros = (value - epoch) // dt.timedelta(microseconds=1)
            kind = Kind.TIMESTAMP if value.tzinfo is None else Kind.TIMESTAMP_LTZ
            return _time(micros * 1000 + getattr(value, "nanosecond", 0), kind)  # pandas has nanoseconds
        case dt.date():
            return Literal(value.toordinal() - 719_163, DATE)
        case dt.time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return Literal(seconds * 1_000_000 + value.microsecond, AtomicType(Kind.TIME, precision=6))
    raise PredicateError(
        f"a {type(value).__name__} can't stand in a condition",
        hint="use str, int, float, bool, bytes, Decimal or dates",
    )


def _text_literal(text: str) -> Literal:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 40) : error.end]
        raise PredicateError(f"half of a surrogate pair is not a character: {shown!r}") from None
    return Literal(text, STRING)


def cast_literal(literal: Literal, target: AtomicType, zone: str) -> Literal:
    """CAST(literal AS target), evaluated. ``zone`` names the time zone of texts and timestamps without one.
    Raises PredicateError: the cast is not allowed, or the value does not fit."""
    source = literal.type
    if literal.value is None or source is None:
        return Literal(None, target)
    kind = target.kind
    value: Any
    if kind in STRING_KINDS:
        return Literal(literal_text(literal, zone), STRING)
    if source.kind in STRING_KINDS:
        value = _from_text(literal.value, target, zone)
    elif source.kind in _NUMERIC_KINDS or source.kind is Kind.BOOLEAN:
        value = _from_number(literal, target)
    elif source.kind in BINARY_KINDS and kind in BINARY_KINDS:
        value = literal
    else:
        value = _from_temporal(literal, target, zone)
    if isinstance(value, Literal):
        return value
    raise PredicateError(f"a {source.kind.value} literal can't be cast to {kind.value}")


def _from_text(text: str, target: AtomicType, zone: str) -> Literal | None:
    kind = target.kind
    if kind in INTEGER_KINDS:
        return checked_integer(values.integer_from_text(text), target)
    match kind:
        case Kind.BOOLEAN:
            return Literal(values.boolean_from_text(text), BOOLEAN)
        case Kind.FLOAT:
            return Literal(values.float32_from_text(text), FLOAT)
        case Kind.DOUBLE:
            return Literal(values.double_from_text(text), DOUBLE)
        case Kind.DECIMAL:
            try:
                exact = Decimal(text.strip())
            except decimal.InvalidOperation:
                exact = Decimal("nan")
            if not exact.is_finite():
                raise PredicateError(f"{text!r:.100} is not a number")
            return _rounded(exact, target)
        case Kind.DATE:
            return Literal(values.parse_date(text), DATE)
        case Kind.TIME:
            return _cut_precision(values.parse_time(text), target)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
            return timestamp_literal(text, kind, zone)
        case Kind.BINARY | Kind.VARBINARY:
            return Literal(text.encode(), BYTES)
    return None


def _from_number(literal: Literal, target: AtomicType) -> Literal | None:
    assert literal.type is not None
    source, kind, value = literal.type.kind, target.kind, literal.value
    if kind is Kind.BOOLEAN:
        return Literal(bool(value), BOOLEAN)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        if kind is Kind.DOUBLE:
            return Literal(float(value), DOUBLE)
        exact = source in _EXACT_KINDS
        return Literal(values.float32_from_text(str(value)) if exact else values.float32(float(value)), FLOAT)
    if isinstance(value, float) and not math.isfinite(value):
        raise PredicateError(f"{value} does not fit {target}")
    if kind in INTEGER_KINDS:
        return checked_integer(int(value), target)
    if kind is Kind.DECIMAL:
        # Java makes a DECIMAL of a double's shortest text, not of its binary value.
        return _rounded(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), target)
    return None


def _rounded(value: Decimal, target: AtomicType) -> Literal:
    precision, scale = target.precision or 10, target.scale or 0
    if value and value.adjusted() > 400:
        raise PredicateError(f"{value!s:.60} does not fit {target}")
    quantum = Decimal((0, (1,), -scale))
    near_zero = value.adjusted() < -400
    rounded = Decimal(0).quantize(quantum) if near_zero else value.quantize(quantum, decimal.ROUND_HALF_UP, wide)
    if abs(int(rounded.scaleb(scale, wide))) >= 10**precision:
        raise PredicateError(f"{value!s:.60} does not fit {target}")
    return Literal(rounded, target)


def _cut_precision(nanos: int, target: AtomicType) -> Literal:
    step = 10 ** (9 - (6 if target.precision is None else target.precision))
    return _time(nanos - nanos % step, Kind.TIME)


def _from_temporal(literal: Literal, target: AtomicType, zone: str) -> Literal | None:
    assert literal.type is not None
    source, kind = literal.type.kind, target.kind
    if source is kind:
        return _cut_precision(literal_nanos(literal), target) if kind is Kind.TIME else literal
    if source is Kind.DATE and kind in TIMESTAMP_KINDS:
        local = literal.value * values.DAY_MICROS
        ltz = kind is Kind.TIMESTAMP_LTZ
        return _time((values.local_to_instant(local, values.time_zone(zone)) if ltz else local) * 1000, kind)
    if source not in TIMESTAMP_KINDS:
        return None
    micros, rest = divmod(literal_nanos(literal), 1000)
    if kind in TIMESTAMP_KINDS or kind is Kind.DATE:
        if source is Kind.TIMESTAMP_LTZ:
            micros = values.instant_to_local(micros, values.time_zone(zone))
        elif kind is Kind.TIMESTAMP_LTZ:
            micros = values.local_to_instant(micros, values.time_zone(zone))
        if kind is Kind.DATE:
            return Literal(micros // values.DAY_MICROS, DATE)
        return _time(micros * 1000 + rest, kind)
    return None


def literal_text(literal: Literal, zone: str) -> str:
    """CAST(literal AS STRING). Raises PredicateError for FLOAT and DOUBLE, whose text is Java's own."""
    assert literal.type is not None
    kind, value = literal.type.kind, literal.value
    if kind in STRING_KINDS:
        return str(value)
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind in _EXACT_KINDS:
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if kind in BINARY_KINDS:
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise PredicateError(f"the bytes X'{value.hex():.60}' are not UTF-8 text") from None
    if kind is Kind.DATE:
        return date_text(value)
    if kind in TIMESTAMP_KINDS:
        micros, rest = divmod(literal_nanos(literal), 1000)
        if kind is Kind.TIMESTAMP_LTZ:
            micros = values.instant_to_local(micros, values.time_zone(zone))
        return timestamp_text(micros * 1000 + rest)
    if kind is Kind.TIME:
        return time_text(literal_nanos(literal))
    raise PredicateError(f"a {kind.value} literal can't be cast to STRING", hint="write the text itself")


def time_text(nanos: int) -> str:
    """hh:mm:ss, with the digits of the fraction that are not zero at the end."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


def timestamp_text(nanos: int) -> str:
    """yyyy-mm-dd hh:mm:ss, with the digits of the fraction that are not zero at the end."""
    days, clock = divmod(nanos, values.DAY_MICROS * 1000)
    return f"{date_text(days)} {time_text(clock)}"
