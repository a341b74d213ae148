"""Payloads of ``ARRAY<BLOB>`` and ``MAP<K, BLOB>``: all elements of a value in one entry.

    array   int32 magic | 1 | int32 count | elements | lengths | int32 bytes of the lengths              little-endian
    map     int32 magic | 1 | int32 count | keys | values | lengths of keys | lengths of values
            | int32 bytes of the first lengths | int32 bytes of the second ones

Lengths are those of `codec.encode_lengths`, `codec.NULL` for an element that is NULL. Source: files of pypaimon 2.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, fixed_values
from paimon_pyds.base.types import AtomicType, DataType, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_BITS, STRING_KINDS, Kind
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.blob.codec import NULL, decode_lengths, encode_lengths

_ARRAY, _MAP = 1094861634, 1296188226
_HEAD = struct.Struct("<iBi")
_LONG_DIGITS = 18
"""Digits of a decimal that are stored in 64 bits, at most."""
_NUMBERS = {kind: f"<i{bits // 8}" for kind, bits in INTEGER_BITS.items()} | {
    Kind.DATE: "<i4", Kind.TIME: "<i4", Kind.BOOLEAN: "<u1",
}  # fmt: skip
Parts = Sequence[bytes | memoryview | None]


def encode_array(elements: Parts) -> bytes:
    """The payload of an array."""
    index = encode_lengths([NULL if e is None else len(e) for e in elements])
    parts = [_HEAD.pack(_ARRAY, 1, len(elements)), *(e for e in elements if e is not None), index]
    return b"".join([*parts, struct.pack("<i", len(index))])


def decode_array(payload: memoryview, path: object) -> list[bytes | None]:
    """The elements of an array's payload. Raises CorruptFileError."""
    count = _count(payload, _ARRAY, 4, path)
    (size,) = _index_sizes(payload, 1, path)
    lengths = _lengths(payload[len(payload) - 4 - size : len(payload) - 4], count, path)
    return _cut(payload[_HEAD.size : len(payload) - 4 - size], lengths, path)


def encode_map(keys: Sequence[bytes], values: Parts) -> bytes:
    """The payload of a map; ``keys``: as `encode_keys` gives them."""
    of_keys = encode_lengths([len(key) for key in keys])
    of_values = encode_lengths([NULL if v is None else len(v) for v in values])
    parts = [_HEAD.pack(_MAP, 1, len(keys)), *keys, *(v for v in values if v is not None), of_keys, of_values]
    return b"".join([*parts, struct.pack("<ii", len(of_keys), len(of_values))])


def decode_map(payload: memoryview, path: object) -> tuple[list[bytes], list[bytes | None]]:
    """The keys, for `keys_of`, and the values of a map's payload. Raises CorruptFileError."""
    count = _count(payload, _MAP, 8, path)
    first, second = _index_sizes(payload, 2, path)
    end = len(payload) - 8
    of_keys = _lengths(payload[end - first - second : end - second], count, path)
    of_values = _lengths(payload[end - second : end], count, path)
    if (of_keys < 0).any():
        raise CorruptFileError("a key of a map is NULL", path=path, field="key lengths")
    body = payload[_HEAD.size : end - first - second]
    size = int(of_keys.sum())
    if size > len(body):
        raise CorruptFileError(f"keys of {size} bytes in a map of {len(body)}", path=path, field="key lengths")
    keys = [key for key in _cut(body[:size], of_keys, path) if key is not None]
    return keys, _cut(body[size:], of_values, path)


def _count(payload: memoryview, magic: int, after: int, path: object) -> int:
    if len(payload) < _HEAD.size + after:
        raise CorruptFileError(f"a value of {len(payload)} bytes is too short", path=path, field="magic")
    found, version, count = _HEAD.unpack_from(payload)
    if found != magic or version != 1:
        raise CorruptFileError("a value is no array or map of BLOBs", path=path, field="magic")
    return int(count)


def _index_sizes(payload: memoryview, number: int, path: object) -> tuple[int, ...]:
    sizes = struct.unpack(f"<{number}i", payload[len(payload) - 4 * number :])
    if min(sizes) < 0 or sum(sizes) > len(payload) - _HEAD.size - 4 * number:
        raise CorruptFileError(
            f"lengths of {sum(sizes)} bytes in a value of {len(payload)}", path=path, field="lengths"
        )
    return sizes


def _lengths(data: memoryview, count: int, path: object) -> Int64s:
    found = decode_lengths(data, path)
    if len(found) != count or (found < NULL).any():
        raise CorruptFileError(f"{len(found)} lengths for {count} elements", path=path, field="lengths")
    return found


def _cut(body: memoryview, lengths: Int64s, path: object) -> list[bytes | None]:
    sizes = np.maximum(lengths, 0)
    if sizes.max(initial=0) > len(body) or int(sizes.sum()) != len(body):
        raise CorruptFileError(f"elements of {int(sizes.sum())} bytes in {len(body)}", path=path, field="lengths")
    ends = np.cumsum(sizes)
    bounds = zip(lengths.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    return [None if length < 0 else bytes(body[start:end]) for length, start, end in bounds]


def check_key(type_: DataType) -> None:
    """Raise UnsupportedError for keys of maps that files of BLOBs don't have."""
    known = type_.kind in _NUMBERS or type_.kind in STRING_KINDS | BINARY_KINDS | {Kind.DECIMAL}
    if not known or not isinstance(type_, AtomicType):
        raise UnsupportedError(f"a map of BLOBs has no keys of type {type_}")


def keys_of(keys: Sequence[bytes], type_: AtomicType, path: object) -> pa.Array:
    """Keys of maps in their Arrow type. Raises CorruptFileError."""
    wanted, kind = arrow_type(type_), type_.kind
    if kind in BINARY_KINDS or kind in STRING_KINDS:
        try:
            return array(keys, pa.binary()).cast(wanted)
        except pa.ArrowInvalid as error:
            raise CorruptFileError("a key of a map is not UTF-8", path=path, field="keys") from error
    if kind is Kind.DECIMAL:
        unscaled = [int.from_bytes(key, "little" if _is_long(type_) else "big", signed=True) for key in keys]
        scale = type_.scale or 0
        try:
            return array([Decimal(f"{n}e-{scale}") for n in unscaled], wanted)
        except (pa.ArrowInvalid, ArithmeticError) as error:
            raise CorruptFileError("a key of a map has too many digits", path=path, field="keys") from error
    dtype = np.dtype(_NUMBERS[kind])
    if any(len(key) != dtype.itemsize for key in keys):
        raise CorruptFileError(f"a key of a map has not {dtype.itemsize} bytes", path=path, field="keys")
    numbers = np.frombuffer(b"".join(keys), dtype)
    if kind is Kind.BOOLEAN:
        return array(numbers != 0, wanted)
    return array(numbers, pa.from_numpy_dtype(dtype)).view(wanted)


def encode_keys(keys: pa.Array, type_: AtomicType) -> list[bytes]:
    """Keys of maps as their bytes in files."""
    kind = type_.kind
    if kind is Kind.DECIMAL:
        data = fixed_values(keys, "<u1", 16).tobytes()
        unscaled = [int.from_bytes(data[at : at + 16], "little", signed=True) for at in range(0, len(data), 16)]
        if _is_long(type_):
            return [n.to_bytes(8, "little", signed=True) for n in unscaled]
        return [n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True) for n in unscaled]
    values: list[Any] = (keys.view(pa.int32()) if kind in (Kind.DATE, Kind.TIME) else keys).to_pylist()
    if kind in BINARY_KINDS:
        return values
    if kind in STRING_KINDS:
        return [value.encode() for value in values]
    dtype = np.dtype(_NUMBERS[kind])
    return [np.asarray(value).astype(dtype).tobytes() for value in values]


def _is_long(type_: AtomicType) -> bool:
    return (type_.precision or 0) <= _LONG_DIGITS
