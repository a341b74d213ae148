"""The bit-slice index (BSI): ranges over numbers. Superseded by the range bitmap, and still found in tables.

Specification: Paimon documentation, concepts/spec/fileindex, "Bit-Slice Index Bitmap". Integers are big-endian:

    version u8 = 1 · rows int32 · has positive u8 [part] · has negative u8 [part]
    part: version u8 = 1 · min int64 · max int64 · existing rows · slices int32 · one bitmap per slice, lowest bit first

Negative values are stored by their absolute value, in a part of their own. Java writes min = 0 always.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from paimon_pyds.base.arrays import Flags, Int64s
from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.index.dictionary import EncodedColumn, IndexLimitError, check_limits
from paimon_pyds.index.keys import KeyCodec
from paimon_pyds.index.probe import Answer, Interval, Nulls, Probe
from paimon_pyds.index.roaring.codec import encode_mask, read_layout
from paimon_pyds.index.slice_codec import encode_slices
from paimon_pyds.index.slices import BitSlices, rows_between
from paimon_pyds.index.source import Cursor, LoadedBytes, corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_VERSION = 1
"""Version of the format."""
_LEAST = 7
"""Bytes of the shortest index: version, row count, and two marks for missing halves."""
_MIN_LONG = -(1 << 63)
"""The one long without a positive counterpart."""


def write_bsi(column: EncodedColumn) -> bytes:
    """The serialized bit-slice index of a column of integer keys.
    Raises IndexLimitError: the column holds -2^63, which this index can't, and on which Java's fails."""
    keys = column.int_keys().astype(np.int64)
    if len(keys) and keys[0] == _MIN_LONG:
        raise IndexLimitError(
            f"a bsi index can't hold the value {_MIN_LONG}",
            hint="use file-index.range-bitmap.columns for this column instead",
        )
    check_limits("bsi", column.row_count, 0)
    with_null = np.append(keys, 0)
    values = with_null[column.codes]
    is_there = column.codes >= 0
    positive = is_there & (values >= 0)
    negative = is_there & (values < 0)
    head = struct.pack(">Bi", _VERSION, column.row_count)
    return b"".join([head, *_part(values, positive), *_part(-values, negative)])


def _part(values: Int64s, members: Flags) -> list[bytes]:
    if not members.any():
        return [b"\0"]
    inside = np.where(members, values, 0)
    most = int(inside.max())
    count = most.bit_length()
    head = struct.pack(">BBqq", 1, _VERSION, 0, most)
    return [head, encode_mask(members), struct.pack(">i", count), *encode_slices(inside, count)]


class BsiSlices(BitSlices):
    """The slices of the positive or of the negative values; its bitmaps are decoded at their first use."""

    def __init__(self, data: bytes, source: LoadedBytes, start: int, row_count: int, cache: ByteLimitedCache) -> None:
        cursor = Cursor(source, start, step=17)
        version, self.low, self.high = cursor.u8("version"), cursor.i64("min"), cursor.i64("max")
        if version != _VERSION:
            raise corrupt(source, f"bsi version {version} is not known", offset=start, field="version")
        if not 0 <= self.low <= self.high:
            raise corrupt(source, f"values from {self.low} to {self.high}", offset=start + 1, field="min")
        existing = _measure(data, source, cursor.position)
        cursor = Cursor(source, sum(existing), step=4)
        count = cursor.i32("bit slice bitmap count")
        if not (self.high - self.low).bit_length() <= count <= 64:
            message = f"{count} slices for values from {self.low} to {self.high}"
            raise corrupt(source, message, offset=sum(existing), field="bit slice bitmap count")
        self.end = cursor.position
        places = []
        for _ in range(count):
            places.append(_measure(data, source, self.end))
            self.end = sum(places[-1])
        super().__init__(source, existing, places, row_count, cache)

    def between(self, low: int, high: int) -> BitMap:
        """Rows whose absolute value is from ``low`` to ``high``, both included."""
        if low <= self.low and high >= self.high:
            return self.existing()
        top = None if high >= self.high else high - self.low
        return rows_between(self, max(low - self.low, 0), top)


def _measure(data: bytes, source: LoadedBytes, start: int) -> tuple[int, int]:
    """Offset and length of the bitmap that begins at ``start``."""
    return start, read_layout(data, start, path=source.name, origin=source.origin).size


class BsiReader:
    """An open bit-slice index. It is read whole, as the format stores no lengths.

    ``parts``: 1 and the slices of the positive values, -1 and those of the negative ones, as far as there are any.
    """

    def __init__(self, source: ByteSource, codec: KeyCodec, cache: ByteLimitedCache) -> None:
        self.source = source
        data = source.read(0, source.size)
        if len(data) < _LEAST:
            raise corrupt(source, f"{len(data)} bytes are too few for a bsi index", offset=0, field="version")
        held = LoadedBytes(data, source, 0)
        cursor = Cursor(held, step=7)
        version = cursor.u8("version")
        if version != _VERSION:
            raise corrupt(source, f"bsi index version {version} is not known", offset=0, field="version")
        self.row_count: int = cursor.i32("row count")
        if self.row_count < 0:
            raise corrupt(source, f"{self.row_count} rows", offset=1, field="row count")
        self.nbytes = len(data)
        self.parts: list[tuple[int, BsiSlices]] = []
        for sign, field in ((1, "has positive value"), (-1, "has negative value")):
            if cursor.u8(field):
                part = BsiSlices(data, held, cursor.position, self.row_count, cache)
                self.parts.append((sign, part))
                cursor = Cursor(held, part.end, step=1)

    def _between(self, low: int, high: int) -> BitMap:
        rows = BitMap()
        for sign, part in self.parts:
            if sign > 0 and high >= 0:
                rows |= part.between(max(low, 0), high)
            elif sign < 0 and low < 0:
                rows |= part.between(-min(high, -1), -low)
        return rows

    def existing(self) -> BitMap:
        """Rows that are not null."""
        rows = BitMap()
        for _, part in self.parts:
            rows |= part.existing()
        return rows

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer:
        """Points, intervals and nulls; rows that are null are in no answer but that to IS NULL."""
        if isinstance(probe, Nulls):
            rows = self.existing()
            return Answer(RowSelection(rows if probe.negated else rows.flip(0, self.row_count)), True)
        rows = BitMap()
        if isinstance(probe, Interval):
            low, high = probe.low, probe.high
            if isinstance(low, int) and isinstance(high, int) and low <= high:
                rows = self._between(low, high)
        else:
            for key in probe.keys:
                if isinstance(key, int):
                    rows |= self._between(key, key)
        if probe.negated:
            rows = self.existing() - rows
        return Answer(RowSelection(rows), probe.exact)
