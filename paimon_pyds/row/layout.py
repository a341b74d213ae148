"""Where the parts of a BinaryRow lie, and how words and bytes are read at many places at once: in rows, and as LEB128
numbers, the integers of Avro and of Thrift's compact protocol."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import from_numpy, is_true
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.types import AtomicType, DataType, Kind

Words = npt.NDArray[np.uint64]

INLINE_LIMIT = 7
"""Texts of up to this many bytes lie in the 8 bytes of their field."""

COMPACT_DECIMAL_PRECISION = 18
COMPACT_TIMESTAMP_PRECISION = 3

LONGER = 9
"""The size that `unsigned_varints` gives for numbers that do not end within their word."""

_LOW_7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_STOP = np.uint64(0x8080808080808080)
_U1 = np.uint64(1)
_HAS_BITCOUNT = hasattr(np, "bitwise_count")


class Form(enum.Enum):
    """How a type lies in a row."""

    FIXED = "the value in the field"
    DECIMAL = "the unscaled value in the field"
    BIG_DECIMAL = "16 reserved bytes in the variable part"
    MILLIS = "milliseconds in the field"
    NANOS = "nanoseconds of the millisecond in the field, milliseconds in the variable part"
    BYTES = "inline, or in the variable part"


FIXED: dict[Kind, np.dtype[np.generic]] = {
    Kind.BOOLEAN: np.dtype("u1"),
    Kind.TINYINT: np.dtype("u1"),
    Kind.SMALLINT: np.dtype("<u2"),
    Kind.INT: np.dtype("<u4"),
    Kind.DATE: np.dtype("<u4"),
    Kind.TIME: np.dtype("<u4"),
    Kind.FLOAT: np.dtype("<u4"),
    Kind.BIGINT: np.dtype("<u8"),
    Kind.DOUBLE: np.dtype("<u8"),
}
"""Unsigned carrier of each fixed-width kind: its bits are those of the value, the rest of the field is zero."""

_BYTES_KINDS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY})


def form_of(type_: DataType) -> Form:
    """How values of a type lie in a row.

    Raises:
        UnsupportedError: nested types, VARIANT, BLOB, VECTOR; neither keys nor statistics have them.
    """
    if isinstance(type_, AtomicType):
        if type_.kind in FIXED:
            return Form.FIXED
        if type_.kind in _BYTES_KINDS:
            return Form.BYTES
        if type_.kind is Kind.DECIMAL:
            return Form.DECIMAL if (type_.precision or 0) <= COMPACT_DECIMAL_PRECISION else Form.BIG_DECIMAL
        if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
            return Form.MILLIS if (type_.precision or 0) <= COMPACT_TIMESTAMP_PRECISION else Form.NANOS
    raise UnsupportedError(
        f"columns of type {type_.kind.value} can't be partition, bucket or primary keys",
        hint="use another column as key",
    )


def header_words(fields: int) -> int:
    """8-byte words taken by the header byte and the null bits of a row."""
    return (fields + 8 + 63) // 64


def unaligned_words(data: npt.NDArray[np.uint8]) -> Words:
    """A view of bytes in which item i is the little-endian word that starts at byte i."""
    return np.ndarray((max(data.size - 7, 0),), dtype="<u8", buffer=data, strides=(1,))


def valid_mask(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """True where a value is there; None when all are."""
    if array.null_count == 0:
        return None
    return is_true(array.is_valid())


def binary_parts(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bytes, start offsets and end offsets of a binary or string array (large or not). Nulls may span bytes."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        none = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), none, none
    bounds = np.frombuffer(offsets, "<i8" if large else "<i4")[array.offset : array.offset + len(array) + 1]
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return raw, bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)


def slices(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> pa.Array:
    """A binary array of ``data[start:end]`` for every pair.

    The slices must be in ascending order and must not overlap: then they, with the gaps between them, are one Arrow
    array over ``data`` itself, from which Arrow copies every second element.
    """
    count = len(starts)
    if count == 0:
        return pa.nulls(0, pa.binary())
    bounds = np.empty(2 * count, np.int64)
    bounds[0::2] = starts
    bounds[1::2] = ends
    small = data.size < 2**31
    buffers = [None, pa.py_buffer(bounds.astype(np.int32) if small else bounds), pa.py_buffer(data)]
    every = pa.Array.from_buffers(pa.binary() if small else pa.large_binary(), 2 * count - 1, buffers)
    return every.take(from_numpy(np.arange(0, 2 * count, 2))).cast(pa.binary())


def build(
    type_: pa.DataType, values: npt.NDArray[np.generic] | pa.Buffer, valid: npt.NDArray[np.bool_] | None, count: int
) -> pa.Array:
    """An Arrow array of a fixed-width type from its value bytes and an optional mask of valid values."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffer = values if isinstance(values, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, count, [bits, buffer])


def unsigned_varints(words: Words) -> tuple[Words, npt.NDArray[np.uint8]]:
    """The unsigned number that begins each word, and its bytes; of those of `LONGER` size the lowest 56 bits."""
    # The lowest byte without the continuation bit ends the number; what lies above it is cut off.
    stop = ~words & _STOP
    stop &= np.uint64(0) - stop
    group = words & (stop | (stop - _U1)) & _LOW_7
    size = (np.bitwise_count(stop - _U1) >> 3) + np.uint8(1) if _HAS_BITCOUNT else _stop_bytes(stop)
    group = ((group & np.uint64(0x7F007F007F007F00)) >> _U1) | (group & np.uint64(0x007F007F007F007F))
    group = ((group & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)) | (group & np.uint64(0x00003FFF00003FFF))
    group = ((group >> np.uint64(32)) << np.uint64(28)) | (group & np.uint64(0x0FFFFFFF))
    return group, size


def zigzag_decoded(numbers: Words) -> npt.NDArray[np.int64]:
    """The signed numbers behind unsigned ones (zigzag): 0, -1, 1, -2, …"""
    return (numbers >> _U1).view(np.int64) ^ -(numbers & _U1).view(np.int64)


def _stop_bytes(stop: Words) -> npt.NDArray[np.uint8]:
    """Bytes up to the one whose highest bit is set (numpy before 2.0 can't count bits)."""
    size = np.full(stop.shape, LONGER, np.uint8)
    for byte in range(8):
        size[stop == np.uint64(0x80 << (8 * byte))] = byte + 1
    return size
