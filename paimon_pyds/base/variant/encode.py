"""VARIANT columns of Python values and of JSON texts."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.variant.build import column
from paimon_pyds.base.variant.nodes import (
    ARRAY,
    BYTES,
    DATE,
    DECIMAL4,
    DECIMAL8,
    DECIMAL16,
    DOUBLE,
    FALSE,
    INSTANT,
    INT8,
    INT16,
    INT32,
    INT64,
    OBJECT,
    SHORT_TEXT,
    TEXT,
    TIME,
    TRUE,
    UUID,
    VERSION,
    WALL_CLOCK,
)
from paimon_pyds.errors import SchemaError

_EPOCH = dt.datetime(1970, 1, 1)
_INSTANT_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_MOST_SHORT = 63
_MOST_DIGITS = 38
_LEVELS = 300
"""Levels of Python values: each is a call within another."""


class _NoValue(Exception):
    """A value that VARIANT does not have."""


def variant_array(values: Iterable[Any]) -> pa.Array:
    """Python values as a VARIANT column, to be written: ``table.append({"v": pp.variant_array([{"a": 1}, "b"])})``.

    Args:
        values: None for SQL's NULL; else what `variant_values` gives, in which None is JSON's null. An object with
            the bytes ``value`` and ``metadata``, such as pyspark's VariantVal, or a mapping of just these, is taken as
            it is.

    Returns:
        An array of the type `types.arrow.ARROW_VARIANT`.

    Raises:
        SchemaError: a value that VARIANT does not have; its ``row`` says where.
    """
    encoded: list[bytes | None] = []
    metadata: list[bytes | None] = []
    for row, value in enumerate(values):
        try:
            one, its = (None, None) if value is None else encode(value)
        except _NoValue as error:
            refused = SchemaError(f"VARIANT takes no {error}")
            refused.row = row
            raise refused from None
        encoded.append(one)
        metadata.append(its)
    valid = np.array([value is not None for value in encoded], np.bool_)
    return column(array(encoded, pa.binary()), array(metadata, pa.binary()), valid)


def encode(value: Any) -> tuple[bytes, bytes]:
    """The bytes ``value`` and ``metadata`` of a Python value, of which None is JSON's null."""
    if (made := _as_made(value)) is not None:
        return made
    names: set[str] = set()
    _collect(value, names, 0)
    ordered = tuple(sorted(names, key=_utf8))
    return encoded_by(value, _numbers(ordered)), metadata_of(ordered)


def _as_made(value: Any) -> tuple[bytes, bytes] | None:
    """The bytes of what is a VARIANT already."""
    if isinstance(value, Mapping):
        both = (value.get("value"), value.get("metadata")) if value.keys() == {"value", "metadata"} else None
    else:
        both = (getattr(value, "value", None), getattr(value, "metadata", None))
    if both is None or not all(isinstance(one, bytes | bytearray) for one in both):
        return None
    return bytes(both[0]), bytes(both[1])  # type: ignore[arg-type]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _NoValue("text with half of a surrogate pair") from None


def _collect(value: Any, names: set[str], level: int) -> None:
    if level > _LEVELS:
        raise _NoValue(f"value nested deeper than {_LEVELS} levels")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _NoValue(f"key of type {type(key).__name__}; keys are texts")
            names.add(key)
            _collect(item, names, level + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, names, level + 1)


@lru_cache(maxsize=1024)
def metadata_of(names: tuple[str, ...]) -> bytes:
    """The metadata with these keys, in this order."""
    encoded = [_utf8(name) for name in names]
    total = sum(map(len, encoded))
    width = _width(max(total, len(names)))
    offsets, at = [], 0
    for name in encoded:
        offsets.append(at)
        at += len(name)
    numbers = b"".join(number.to_bytes(width, "little") for number in (len(names), *offsets, at))
    return bytes([VERSION | (width - 1) << 6]) + numbers + b"".join(encoded)


@lru_cache(maxsize=1024)
def _numbers(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names)}


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def encoded_by(value: Any, numbers: Mapping[str, int]) -> bytes:
    """The bytes of a Python value with the numbers that its metadata gives to keys. Items are in the order of keys."""
    if isinstance(value, Mapping):
        keys = sorted(value, key=_utf8)
        return _container(OBJECT, [encoded_by(value[key], numbers) for key in keys], [numbers[key] for key in keys])
    if isinstance(value, list | tuple):
        return _container(ARRAY, [encoded_by(item, numbers) for item in value], [])
    return _scalar(value)


def _container(basic: int, items: list[bytes], ids: list[int]) -> bytes:
    total, count = sum(map(len, items)), len(items)
    width, id_width, large = _width(total), _width(max(ids, default=0)), count > 255
    info = (width - 1) | ((id_width - 1) << 2 | large << 4 if basic == OBJECT else large << 2)
    parts = [bytes([info << 2 | basic]), count.to_bytes(4 if large else 1, "little")]
    parts += [number.to_bytes(id_width, "little") for number in ids]
    at = 0
    for item in items:
        parts.append(at.to_bytes(width, "little"))
        at += len(item)
    return b"".join([*parts, at.to_bytes(width, "little"), *items])


def _primitive(kind: int, body: bytes) -> bytes:
    return bytes([kind << 2]) + body


def _scalar(value: Any) -> bytes:
    if value is None:
        return b"\x00"
    encoder = _ENCODERS.get(type(value)) or next((e for t, e in _ENCODERS.items() if isinstance(value, t)), None)
    if encoder is None:
        raise _NoValue(f"value of type {type(value).__name__}")
    return encoder(value)


def _integer(value: int) -> bytes:
    for kind, width in ((INT8, 1), (INT16, 2), (INT32, 4), (INT64, 8)):
        if -(1 << (8 * width - 1)) <= value < 1 << (8 * width - 1):
            return _primitive(kind, value.to_bytes(width, "little", signed=True))
    return _decimal(decimal.Decimal(value))


def _string(value: str) -> bytes:
    data = _utf8(value)
    return bytes([len(data) << 2 | SHORT_TEXT]) + data if len(data) <= _MOST_SHORT else _long(TEXT, data)


def _moment(value: dt.datetime) -> bytes:
    start, kind = (_EPOCH, WALL_CLOCK) if value.tzinfo is None else (_INSTANT_EPOCH, INSTANT)
    return _primitive(kind, ((value - start) // _MICROSECOND).to_bytes(8, "little", signed=True))


def _time(value: dt.time) -> bytes:
    if value.tzinfo is not None:
        raise _NoValue("time of day with a time zone")
    micros = (dt.datetime.combine(_EPOCH, value) - _EPOCH) // _MICROSECOND
    return _primitive(TIME, micros.to_bytes(8, "little"))


def _date(value: dt.date) -> bytes:
    return _primitive(DATE, (value - _EPOCH.date()).days.to_bytes(4, "little", signed=True))


def _bytes(value: bytes | bytearray | memoryview) -> bytes:
    return _long(BYTES, bytes(value))


def _long(kind: int, data: bytes) -> bytes:
    return _primitive(kind, len(data).to_bytes(4, "little") + data)


def _decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _NoValue(f"decimal {value}")
    number, scale = int("".join(map(str, digits))), -exponent
    if scale < 0:
        number, scale = number * 10**-scale if -scale <= _MOST_DIGITS else 10**_MOST_DIGITS, 0
    if scale > _MOST_DIGITS or number >= 10**_MOST_DIGITS:
        raise _NoValue(f"number of more than {_MOST_DIGITS} digits: {value:.10e}")
    number = -number if sign else number
    for kind, width, most in ((DECIMAL4, 4, 9), (DECIMAL8, 8, 18), (DECIMAL16, 16, _MOST_DIGITS)):
        if abs(number) < 10**most and scale <= most:
            return _primitive(kind, bytes([scale]) + number.to_bytes(width, "little", signed=True))
    raise AssertionError(value)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: _primitive(TRUE if value else FALSE, b""),
    int: _integer,
    float: lambda value: _primitive(DOUBLE, struct.pack("<d", value)),
    str: _string,
    decimal.Decimal: _decimal,
    dt.datetime: _moment,
    dt.date: _date,
    dt.time: _time,
    uuid.UUID: lambda value: _primitive(UUID, value.bytes),
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    np.generic: lambda value: _scalar(value.item()),
}


# ----------------------------------------------------------------------------------------------------------- JSON


class InvalidJsonError(ValueError):
    """A text that is not JSON, or that no VARIANT can hold."""


def parse_json(text: str) -> tuple[bytes, bytes]:
    """The bytes ``value`` and ``metadata`` of a JSON text, with the types that Spark's ``parse_json`` gives numbers.

    Raises:
        InvalidJsonError: it is not JSON, an object has a key twice, or it is nested too deep.
    """
    try:
        return encode(_decoder.decode(text))
    except (ValueError, RecursionError, _NoValue) as error:
        raise InvalidJsonError(str(error)) from None


def _number(text: str) -> Any:
    """A number with a fraction or an exponent: exact where it is written without exponent in up to 38 digits."""
    if "e" not in text and "E" not in text:
        value = decimal.Decimal(text)
        digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
        if max(digits, scale) <= _MOST_DIGITS:
            return value
    return float(text)


def _whole(text: str) -> Any:
    number = int(text) if len(text) <= _MOST_DIGITS + 1 else None
    if number is not None and abs(number) < 10**_MOST_DIGITS:
        return number
    return float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_whole, parse_constant=_constant, strict=True
)
