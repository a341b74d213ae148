"""LEB128 numbers, the integers of Avro, of ORC and of Thrift's compact protocol: read at many places at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets, Words, fixed_binary

LONGER = 9
"""The size that `unsigned_varints` gives for numbers that do not end within their word."""
_LOW_7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_STOP = np.uint64(0x8080808080808080)
_U1 = np.uint64(1)
_HAS_BITCOUNT = hasattr(np, "bitwise_count")


def varint(value: int) -> bytes:
    """The bytes of a number from 0 up."""
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


cached_varint = lru_cache(maxsize=8192)(varint)
"""The same, of numbers that come again and again."""


def unsigned_varints(words: Words) -> tuple[Words, Octets]:
    """The unsigned number that begins each word, and its bytes; of numbers of `LONGER` size only the lowest 56 bits."""
    stop = _stops(words)
    group = words & (stop | (stop - _U1)) & _LOW_7
    size = _stop_bytes(stop)
    longest = int(size.max(initial=0))
    if longest > 1:
        group = ((group & np.uint64(0x7F007F007F007F00)) >> _U1) | (group & np.uint64(0x007F007F007F007F))
    if longest > 2:
        group = ((group & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)) | (group & np.uint64(0x00003FFF00003FFF))
    if longest > 4:
        group = ((group >> np.uint64(32)) << np.uint64(28)) | (group & np.uint64(0x0FFFFFFF))
    return group, size


def varint_sizes(words: Words) -> Octets:
    """Bytes of the number that begins each word; `LONGER` where it does not end within the word."""
    return _stop_bytes(_stops(words))


def _stops(words: Words) -> Words:
    """The highest bit of the byte that ends the number of each word: its lowest byte without the continuation bit."""
    stop = ~words & _STOP
    stop &= np.uint64(0) - stop
    return stop


def zigzag_decoded(numbers: Words) -> Int64s:
    """The signed numbers behind unsigned ones (zigzag): 0, -1, 1, -2, …"""
    return (numbers >> _U1).view(np.int64) ^ -(numbers & _U1).view(np.int64)


def unzigzag(value: int) -> int:
    """The signed number behind one unsigned number."""
    return (value >> 1) ^ -(value & 1)


def write_varint(out: bytearray, value: int) -> None:
    """Append an unsigned LEB128 number."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint_values(numbers: Words) -> pa.Array:
    """The bytes of many unsigned numbers, as binary values."""
    count = len(numbers)
    if count == 0:
        return pa.nulls(0, pa.binary())
    largest = int(numbers.max())
    if largest < 0x80:
        return fixed_binary(numbers.astype(np.uint8))
    width = (largest.bit_length() + 6) // 7
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    rest = numbers[:, None] >> shifts
    used = rest != 0
    used[:, 0] = True
    table = (rest & np.uint64(0x7F)).astype(np.uint8)
    table[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(table[used])])


def _stop_bytes(stop: Words) -> Octets:
    """Bytes up to the one whose highest bit is set."""
    if _HAS_BITCOUNT:  # numpy before 2.0 can't count bits
        counted: Octets = (np.bitwise_count(stop - _U1) >> 3) + np.uint8(1)
        return counted
    size = np.full(stop.shape, LONGER, np.uint8)
    for byte in range(8):
        size[stop == np.uint64(0x80 << (8 * byte))] = byte + 1
    return size
