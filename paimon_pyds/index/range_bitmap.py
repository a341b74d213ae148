"""The range bitmap index: a sorted dictionary of the distinct values, and bit slices of each row's code in it.

Specification: Paimon documentation, concepts/spec/fileindex, "Range Bitmap". Integers are big-endian:

    header length int32 · version u8 = 1 · rows int32 · distinct values int32 · [min · max] · dictionary length int32 ·
    dictionary · slices
    slices: header length int32 · version u8 = 1 · slices u8 · existing rows' length int32 · indexes length int32 ·
            (offset int32, length int32) of each slice · existing rows · slices, lowest bit first

Without a value other than NULL there is no min and max, and Java writes 64 empty slices.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.index.dictionary import EncodedColumn, check_limits
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Answer, Interval, Nulls, Points, Probe
from paimon_pyds.index.range_dictionary import RangeDictionary, read_key, write_dictionary, write_key
from paimon_pyds.index.roaring.codec import encode_bitmap, encode_mask
from paimon_pyds.index.slice_codec import encode_slices
from paimon_pyds.index.slices import BitSlices, rows_between
from paimon_pyds.index.source import Cursor, Window, corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_VERSION = 1
"""Version of the format."""
_SLICES_OF_NOTHING = 64
"""Slices that Java writes for a column without values."""
_MAX_SLICES = 64
"""Slices of an index, at most: codes have 64 bits."""


def write_range_bitmap(column: EncodedColumn, chunk_size: int) -> bytes:
    """The serialized range bitmap of a column."""
    codec, cardinality = column.codec, len(column.keys)
    dictionary = write_dictionary(column, chunk_size)
    slices = _write_slices(column)
    length = sum(map(len, dictionary))
    check_limits("range-bitmap", column.row_count, length + sum(map(len, slices)))
    ends = b""
    if cardinality:
        ends = write_key(codec, _key(column, 0)) + write_key(codec, _key(column, cardinality - 1))
    header = struct.pack(">Bii", _VERSION, column.row_count, cardinality) + ends + struct.pack(">i", length)
    return b"".join([struct.pack(">i", len(header)), header, *dictionary, *slices])


def _key(column: EncodedColumn, number: int) -> Key:
    key: Key = column.keys[number].as_py()
    return key


def _write_slices(column: EncodedColumn) -> list[bytes]:
    cardinality = len(column.keys)
    count = max((cardinality - 1).bit_length(), 1) if cardinality else _SLICES_OF_NOTHING
    existing = encode_mask(column.codes >= 0)
    if cardinality:
        slices = encode_slices(np.maximum(column.codes, 0).astype(np.uint32), count)
    else:
        slices = [encode_bitmap(BitMap())] * count
    lengths = np.array([len(s) for s in slices], np.int64)
    places = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).astype(">i4").tobytes()
    header = struct.pack(">BBii", _VERSION, count, len(existing), len(places)) + places
    return [struct.pack(">i", len(header)), header, existing, *slices]


def _open_slices(source: Window, row_count: int, cache: ByteLimitedCache) -> BitSlices:
    """The bit slices of a range bitmap."""
    cursor = Cursor(source, step=4 + 10 + 8 * _MAX_SLICES)
    header, version = cursor.i32("header length"), cursor.u8("version")
    if version != _VERSION:
        raise corrupt(source, f"bit slices of version {version} are not known", offset=4, field="version")
    count = cursor.u8("slices size")
    existing, indexes = cursor.count("ebm length"), cursor.count("indexes length")
    if count > _MAX_SLICES or indexes != 8 * count or header != 10 + indexes:
        raise corrupt(source, f"{count} slices in a header of {header}", offset=5, field="slices size")
    places = np.frombuffer(cursor.take(indexes, "indexes"), ">i4").astype(np.int64).reshape(count, 2)
    at = cursor.position
    if bool((places < 0).any()) or bool((places.sum(axis=1) + at + existing > source.size).any()):
        raise corrupt(source, "slices outside the index", offset=14, field="indexes")
    in_source = [(at + existing + offset, length) for offset, length in places.tolist()]
    return BitSlices(source, (at, existing), in_source, row_count, cache)


class RangeBitmapReader:
    """An open range bitmap. Dictionary chunks and slices are read on demand."""

    def __init__(self, source: ByteSource, codec: KeyCodec, cache: ByteLimitedCache) -> None:
        self.codec = codec
        self._cache = cache
        cursor = Cursor(source, step=256)
        header = cursor.count("header length")
        version = cursor.u8("version")
        if version != _VERSION:
            raise corrupt(source, f"range bitmap version {version} is not known", offset=4, field="version")
        self.row_count: int = cursor.count("row count", each=0)
        self.cardinality = cursor.count("cardinality", each=0)
        if self.cardinality > self.row_count:
            message = f"{self.cardinality} distinct values in {self.row_count} rows"
            raise corrupt(source, message, offset=9, field="cardinality")
        if self.cardinality:
            self.least, self.most = read_key(codec, cursor, "min"), read_key(codec, cursor, "max")
        length = cursor.count("dictionary length")
        if cursor.position != 4 + header:
            message = f"a header of {cursor.position - 4} bytes, not {header}"
            raise corrupt(source, message, offset=0, field="header length")
        at = cursor.position
        self._dictionary_window = Window(source, at, length)
        self.slices_window = Window(source, at + length, source.size - at - length)
        self._open_dictionary: RangeDictionary | None = None
        self._opened_slices: BitSlices | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._open_dictionary is None else self._open_dictionary.nbytes

    @property
    def dictionary(self) -> RangeDictionary:
        if self._open_dictionary is None:
            window = self._dictionary_window
            self._open_dictionary = RangeDictionary(window, self.codec, self.cardinality, self._cache)
        return self._open_dictionary

    @property
    def slices(self) -> BitSlices:
        if self._opened_slices is None:
            slices = _open_slices(self.slices_window, self.row_count, self._cache)
            if slices.count < (self.cardinality - 1).bit_length():
                message = f"{slices.count} slices for {self.cardinality} values"
                raise corrupt(self.slices_window, message, offset=5, field="slices size")
            self._opened_slices = slices
        return self._opened_slices

    def existing(self) -> BitMap:
        return self.slices.existing() if self.cardinality else BitMap()

    def _codes(self, low: int, high: int) -> BitMap:
        """Rows whose code is from ``low`` to ``high``, both included."""
        if low > high:
            return BitMap()
        if low <= 0 and high >= self.cardinality - 1:
            return self.existing()
        return rows_between(self.slices, low, None if high >= self.cardinality - 1 else high)

    def _points(self, keys: tuple[Key, ...]) -> BitMap:
        codes = []
        for key in keys:
            if self.least <= key <= self.most:  # type: ignore[operator]
                code, found = self._find(key)
                if found:
                    codes.append(code)
        rows = BitMap()
        codes.sort()
        first = 0
        for number, code in enumerate(codes):
            if number + 1 == len(codes) or codes[number + 1] > code + 1:
                found_rows = self._codes(codes[first], code)
                rows = rows | found_rows if rows else found_rows
                first = number + 1
        return rows

    def _find(self, key: Key) -> tuple[int, bool]:
        if key == self.least:
            return 0, True
        if key == self.most:
            return self.cardinality - 1, True
        return self.dictionary.find(key)

    def _interval(self, probe: Interval) -> BitMap:
        first, last = 0, self.cardinality - 1
        if probe.low is not None and probe.low >= self.least:  # type: ignore[operator]
            if probe.low > self.most:  # type: ignore[operator]
                return BitMap()
            first, found = self._find(probe.low)
            first += found and probe.low_open
        if probe.high is not None and probe.high <= self.most:  # type: ignore[operator]
            if probe.high < self.least:  # type: ignore[operator]
                return BitMap()
            last, found = self._find(probe.high)
            last -= not found or probe.high_open
        return self._codes(first, last)

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer:
        """Points, intervals and nulls; rows that are null are in no answer but that to IS NULL."""
        if isinstance(probe, Nulls):
            rows = self.existing()
            return Answer(RowSelection(rows if probe.negated else rows.flip(0, self.row_count)), True)
        if not self.cardinality:
            return Answer(RowSelection.NONE, True)
        rows = self._points(probe.keys) if isinstance(probe, Points) else self._interval(probe)
        if probe.negated:
            rows = self.existing() - rows
        return Answer(RowSelection(rows), probe.exact)
