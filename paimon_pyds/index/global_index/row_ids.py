"""Row ids as sorted numpy arrays, and 64-bit roaring bitmaps of them in the portable format.

    bitmap: number of parts u64 · per part the high half of its integers u32 and a 32-bit bitmap of the low halves

Integers are little-endian. Source: RoaringFormatSpec, Extension for 64-bit Implementations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap, read_layout

NO_ROWS: Int64s = np.zeros(0, np.int64)
_COUNT_BYTES, _HIGH_BYTES = 8, 4
_MOST_HIGH = (1 << 31) - 1
"""The greatest high half of a row id that is not negative."""


def sorted_ids(parts: Sequence[Int64s]) -> Int64s:
    """All ids of some arrays, sorted, each once."""
    return np.unique(np.concatenate(parts)) if parts else NO_ROWS


def decode_row_ids(data: bytes, path: str, origin: int) -> Int64s:
    """The sorted members of exactly these bytes; ``origin``: their offset in the file, for errors.
    Raises CorruptFileError: no bitmap, a wrong length, or members out of order."""

    def fail(message: str, at: int) -> CorruptFileError:
        return CorruptFileError(message, path=path, offset=origin + at, field="row ids")

    if len(data) < _COUNT_BYTES:
        raise fail("a bitmap that ends in its header", 0)
    count, at, previous = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES, -1
    if count * _HIGH_BYTES > len(data):
        raise fail(f"{count} parts don't fit {len(data)} bytes", 0)
    parts: list[Int64s] = []
    for _ in range(count):
        high = int.from_bytes(data[at : at + _HIGH_BYTES], "little")
        if not previous < high <= _MOST_HIGH or at + _HIGH_BYTES > len(data):
            raise fail("parts out of order", at)
        at, previous = at + _HIGH_BYTES, high
        size = read_layout(data, at, path=path, origin=origin).size
        low = decode_bitmap(memoryview(data)[at : at + size], path=path, origin=origin + at)
        parts.append(np.frombuffer(low.to_array(), np.uint32).astype(np.int64) + (high << 32))
        at += size
    if at != len(data):
        raise fail(f"{len(data) - at} bytes after the bitmap", at)
    return np.concatenate(parts) if parts else NO_ROWS


def encode_row_ids(ids: Int64s) -> bytes:
    """The bitmap of sorted ids."""
    highs, starts = np.unique(ids >> 32, return_index=True)
    out = bytearray(len(highs).to_bytes(_COUNT_BYTES, "little"))
    for high, part in zip(highs.tolist(), np.split(ids, starts[1:]) if len(highs) else (), strict=True):
        out += high.to_bytes(_HIGH_BYTES, "little") + encode_bitmap(bitmap_of(part & 0xFFFFFFFF))
    return bytes(out)
