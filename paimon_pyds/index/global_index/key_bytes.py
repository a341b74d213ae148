"""Keys as global index files hold them, from and to the keys that probes have (`paimon_pyds.index.keys`).

    integers, DATE, TIME: little-endian of their width · BOOLEAN: 1 byte · FLOAT, DOUBLE: IEEE bits, little-endian
    DECIMAL up to 18 digits: the unscaled value, int64 little-endian · strings: UTF-8
    TIMESTAMP: milliseconds int64 little-endian; from precision 4 on also its nanoseconds as a varint

Source: Java Paimon 2.2, class KeySerializer. Files have keys in the order of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import fixed_binary, pc, scalar, to_numpy
from paimon_pyds.base.types import DataType
from paimon_pyds.base.types.kinds import BINARY_KINDS, TIMESTAMP_KINDS
from paimon_pyds.base.varints import varint_values
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.index.keys import Key, KeyCodec, key_codec

KeyReader: TypeAlias = Callable[[bytes], Key]
_MILLIS_DIGITS = 3
"""Precision up to which a TIMESTAMP is stored in milliseconds alone."""
_MILLIS_BYTES = 8
_MOST_NANOS_BYTES = 3
"""Bytes of a varint below a million."""
_MICROS_PER_MILLI = _NANOS_PER_MICRO = 1000  # of timestamps


def global_key_codec(type_: DataType) -> KeyCodec:
    """The keys of a column in its global indexes.
    Raises UnsupportedError: Java has none for binaries and nested types; this version has none for decimals of more
    than 18 digits and timestamps of precision 7 to 9."""
    codec = None if type_.kind in BINARY_KINDS else key_codec(type_)
    if codec is None or codec.coarse:
        raise UnsupportedError(f"global indexes of a column of type {type_} are not supported")
    return codec


def key_reader(codec: KeyCodec) -> KeyReader:
    """The function from the bytes of a key to the key. It raises CorruptFileError: a wrong number of bytes."""
    if codec.is_binary:
        return bytes
    precision = codec.type.precision or 0
    if codec.type.kind in TIMESTAMP_KINDS:
        return _millis if precision <= _MILLIS_DIGITS else _micros
    width, dtype = codec.width, f"<i{codec.width}"

    def read(data: bytes) -> Key:
        _check_size(data, width)
        if codec.is_float:
            return int(codec.deserialize(np.frombuffer(data, dtype))[0])
        return int.from_bytes(data, "little", signed=True)

    return read


def fixed_width(codec: KeyCodec) -> int:
    """The bytes of each key, which `KeyCodec.deserialize` takes as little-endian integers; 0 where they differ."""
    with_nanos = codec.type.kind in TIMESTAMP_KINDS and (codec.type.precision or 0) > _MILLIS_DIGITS
    return 0 if codec.is_binary or with_nanos else codec.width


def _check_size(data: bytes, width: int) -> None:
    if len(data) != width:
        raise CorruptFileError(f"a key of {len(data)} bytes where keys have {width}")


def _millis(data: bytes) -> Key:
    _check_size(data, _MILLIS_BYTES)
    return int.from_bytes(data, "little", signed=True)


def _micros(data: bytes) -> Key:
    tail = data[_MILLIS_BYTES:]
    if not 1 <= len(tail) <= _MOST_NANOS_BYTES or tail[-1] > 0x7F:
        raise CorruptFileError(f"a timestamp of {len(data)} bytes")
    nanos = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(tail))
    return int.from_bytes(data[:_MILLIS_BYTES], "little", signed=True) * _MICROS_PER_MILLI + nanos // _NANOS_PER_MICRO


def key_bytes(codec: KeyCodec, keys: pa.Array) -> pa.Array:
    """The bytes of keys without NULLs, as binary values."""
    if codec.is_binary:
        return keys.cast(pa.binary())
    numbers = to_numpy(keys).astype(np.int64)
    precision = codec.type.precision or 0
    if codec.type.kind in TIMESTAMP_KINDS and precision > _MILLIS_DIGITS:
        millis = np.floor_divide(numbers, _MICROS_PER_MILLI)
        nanos = (numbers - millis * _MICROS_PER_MILLI) * _NANOS_PER_MICRO
        parts = fixed_binary(millis.astype("<i8")), varint_values(nanos.view(np.uint64))
        return pc.binary_join_element_wise(*parts, scalar(b"", pa.binary()))
    if codec.is_float:
        return fixed_binary(codec.serialize(numbers).astype(f"<i{codec.width}"))
    return fixed_binary(numbers.astype(f"<i{codec.width}"))
