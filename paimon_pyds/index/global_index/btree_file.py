"""Global indexes of the type btree: sorted keys in blocks, each key with its row ids.

    data blocks · null bitmap, CRC-32 of it u32 · index block · footer of 52 bytes
    footer: bloom filter offset u64, size u32, entries u64 · index block offset u64, size u32
            · null bitmap offset u64, size u32 (0, 0: no NULLs) · version u32 = 1 · magic u32
    content of a block: entries · either the size of each entry u32, 0 u8 · or the position of each u32, their number
            u32, 1 u8
    entry: varint size, key · varint size, value. Of a data block: value = varint number of row ids, varint row ids;
            of the index block: key = last key of a data block, value = varint offset, varint size of it

Integers are little-endian. Source: Java Paimon 2.2, classes BTreeFileFooter, BlockWriter, BTreeIndexWriter.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.cache import cached_property
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.index.global_index.blocks import BlockPlace, VarintBytes, read_blocks, read_varint
from paimon_pyds.index.global_index.key_bytes import KeyReader, key_reader
from paimon_pyds.index.global_index.row_ids import NO_ROWS, decode_row_ids, sorted_ids
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Interval
from paimon_pyds.index.source import corrupt
from paimon_pyds.storage import ByteSource

FOOTER = struct.Struct("<QIQQIQIII")
MAGIC, VERSION = 0x50425449, 1
OF_ONE_SIZE, OF_ANY_SIZE = 0, 1
_TAIL_BYTES = 5
_CRC_BYTES = 4
_MOST_ROW_ID = (1 << 63) - 1
"""The greatest row id, a signed number of 64 bits."""
_FEW_ENTRIES = 16
"""Entries of a block up to which decoding them one by one takes less time."""
BLOCKS_AT_ONCE = 256
"""Data blocks read together, usually of 64 KiB: 16 MiB."""


class BTreeFile:
    """An open index file. Row ids count from the first row that the index covers."""

    def __init__(self, source: ByteSource, codec: KeyCodec) -> None:
        if source.size < FOOTER.size:
            raise corrupt(source, f"{source.size} bytes are no btree index", offset=0)
        footer = source.read(source.size - FOOTER.size, FOOTER.size)
        *_, index_at, index_size, self._nulls_at, self._nulls_size, version, magic = FOOTER.unpack(footer)
        if magic != MAGIC:
            raise corrupt(source, "not the magic number of a btree index", offset=source.size - 4)
        if version != VERSION:
            raise UnsupportedError(f"{source.name}: version {version} of btree indexes is not supported")
        self._source, self._read_key = source, key_reader(codec)
        self._index_place = BlockPlace(index_at, index_size)

    @cached_property
    def _index(self) -> Block:
        return Block(self._source, self._index_place, read_blocks(self._source, [self._index_place])[0], self._read_key)

    def equal_to(self, keys: Iterable[Key]) -> Int64s:
        """The sorted ids of the rows with one of these keys."""
        wanted: dict[int, list[Key]] = {}
        last_keys = list(map(self._index.key, range(len(self._index))))
        for key in keys:
            number = bisect_left(last_keys, key)
            if number < len(self._index):
                wanted.setdefault(number, []).append(key)
        found = []
        for block, number in self._blocks(sorted(wanted)):
            entries = [entry for key in wanted[number] if (entry := block.find(key)) is not None]
            found.append(block.row_ids(np.array(entries, np.int64)))
        return sorted_ids(found)

    def between(self, interval: Interval) -> Int64s:
        """The sorted ids of the rows whose key is in an interval, which is not negated."""
        found = []
        for block, _ in self._blocks(self._blocks_of(interval)):
            entries = np.arange(block.begin_of(interval), block.end_of(interval), dtype=np.int64)
            found.append(block.row_ids(entries))
        return sorted_ids(found)

    def blocks_of(self, interval: Interval) -> tuple[int, int]:
        """How many data blocks may have keys of an interval, and how many there are."""
        return len(self._blocks_of(interval)), len(self._index)

    def nulls(self) -> Int64s:
        """The sorted ids of the rows without a value."""
        if not self._nulls_size:
            return NO_ROWS
        if self._nulls_at + self._nulls_size + _CRC_BYTES > self._source.size:
            raise corrupt(self._source, "a bitmap of NULLs beyond the file's end", offset=self._nulls_at)
        data = self._source.read(self._nulls_at, self._nulls_size + _CRC_BYTES)
        bitmap, crc = data[: self._nulls_size], data[self._nulls_size :]
        if zlib.crc32(bitmap) != int.from_bytes(crc, "little"):
            raise corrupt(self._source, "a bitmap of NULLs with a wrong checksum", offset=self._nulls_at)
        return decode_row_ids(bitmap, self._source.name, self._nulls_at)

    def _blocks_of(self, interval: Interval) -> range:
        last = self._index.end_of(interval)
        return range(self._index.begin_of(interval), min(last + 1, len(self._index)))

    def _blocks(self, numbers: Sequence[int]) -> Iterator[tuple[Block, int]]:
        """Data blocks with their numbers, some of them in memory at a time."""
        for start in range(0, len(numbers), BLOCKS_AT_ONCE):
            some = numbers[start : start + BLOCKS_AT_ONCE]
            places = [self._index.place(number) for number in some]
            for number, place, data in zip(some, places, read_blocks(self._source, places), strict=True):
                yield Block(self._source, place, data, self._read_key), number


class Block:
    """The entries of one block, in the order of their keys."""

    def __init__(self, source: ByteSource, place: BlockPlace, data: bytes, read_key: KeyReader) -> None:
        self._source, self._place, self._read_key = source, place, read_key
        if len(data) < _TAIL_BYTES:
            raise self._corrupt(f"a block of {len(data)} bytes")
        number, kind = int.from_bytes(data[-_TAIL_BYTES:-1], "little"), data[-1]
        end = len(data) - _TAIL_BYTES
        if kind == OF_ONE_SIZE:
            if not number or end % number:
                raise self._corrupt(f"entries of {number} bytes in {end}")
            self.positions = np.arange(0, end, number, dtype=np.int64)
        else:
            end -= 4 * number
            if end < 0:
                raise self._corrupt(f"{number} entries in {len(data)} bytes")
            self.positions = np.frombuffer(data, "<u4", number, end).astype(np.int64)
        self._ends = np.append(self.positions[1:], end)
        if len(self.positions) and (self.positions[0] != 0 or (self._ends <= self.positions).any()):
            raise self._corrupt("entries out of order")
        self._data = data[:end]

    def _corrupt(self, message: str) -> CorruptFileError:
        return corrupt(self._source, message, offset=self._place.offset)

    def __len__(self) -> int:
        return len(self.positions)

    def key(self, entry: int) -> Key:
        """The key of an entry."""
        at = int(self.positions[entry])
        size, start = self._data[at], at + 1
        if size > 0x7F:
            size, start = read_varint(self._source, self._data, at, self._place.offset)
        if start + size > self._ends[entry]:
            raise self._corrupt(f"a key of {size} bytes beyond its entry")
        return self._read_key(self._data[start : start + size])

    def lower(self, key: Key) -> int:
        """The first entry whose key is not below a key."""
        return bisect_left(range(len(self)), key, key=self.key)

    def upper(self, key: Key) -> int:
        """The first entry whose key is above a key."""
        return bisect_right(range(len(self)), key, key=self.key)

    def find(self, key: Key) -> int | None:
        """The entry of a key, if it is there."""
        entry = self.lower(key)
        return entry if entry < len(self) and self.key(entry) == key else None

    def begin_of(self, interval: Interval) -> int:
        """The first entry within an interval."""
        if interval.low is None:
            return 0
        return self.upper(interval.low) if interval.low_open else self.lower(interval.low)

    def end_of(self, interval: Interval) -> int:
        """The first entry behind an interval."""
        if interval.high is None:
            return len(self)
        return self.lower(interval.high) if interval.high_open else self.upper(interval.high)

    def place(self, entry: int) -> BlockPlace:
        """The data block of an entry of the index block."""
        size, start = read_varint(self._source, self._data, int(self.positions[entry]), self._place.offset)
        _, start = read_varint(self._source, self._data, start + size, self._place.offset)
        offset, start = read_varint(self._source, self._data, start, self._place.offset)
        size, _ = read_varint(self._source, self._data, start, self._place.offset)
        return BlockPlace(offset, size)

    @cached_property
    def _varints(self) -> VarintBytes:
        return VarintBytes(self._data)

    def row_ids(self, entries: Int64s) -> Int64s:
        """The row ids of entries of a data block, entry after entry."""
        if not len(entries):
            return NO_ROWS
        try:
            if len(entries) <= _FEW_ENTRIES:
                return np.concatenate([self._ids_of(entry) for entry in entries.tolist()])
            return self._row_ids(entries)
        except CorruptFileError as error:
            raise self._corrupt(error.message) from None

    def _ids_of(self, entry: int) -> Int64s:
        """The row ids of one entry: as `_row_ids`, without looking at the rest of the block."""
        origin, end = self._place.offset, int(self._ends[entry])
        size, at = read_varint(self._source, self._data, int(self.positions[entry]), origin)
        size, at = read_varint(self._source, self._data, at + size, origin)
        if at + size != end:
            raise CorruptFileError("a value that does not fill its entry")
        count, at = read_varint(self._source, self._data, at, origin)
        if count == 1:
            row_id, at = read_varint(self._source, self._data, at, origin)
            if row_id > _MOST_ROW_ID:
                raise CorruptFileError(f"the row id {row_id}")
            ids = np.array([row_id], np.int64)
        else:
            numbers = VarintBytes(self._data[at:end])
            stops = np.flatnonzero(numbers.octets < 0x80) + 1
            ids, ends = numbers.at(np.concatenate([np.zeros(1, np.int64), stops[:-1]]))
            at += int(ends[-1])
        if at != end or len(ids) != count:
            raise CorruptFileError("not as many row ids as announced")
        return ids

    def _row_ids(self, entries: Int64s) -> Int64s:
        key_sizes, starts = self._varints.at(self.positions[entries])
        value_sizes, starts = self._varints.at(starts + key_sizes)
        ends = starts + value_sizes
        counts, starts = self._varints.at(starts)
        if (ends != self._ends[entries]).any() or (starts > ends).any():
            raise CorruptFileError("values that don't fill their entries")
        edges = np.zeros(len(self._data) + 1, np.int8)
        np.add.at(edges, starts, 1)
        np.add.at(edges, ends, -1)
        inside = edges[:-1].cumsum(dtype=np.int8).view(np.bool_)
        stops = np.flatnonzero(inside & (self._varints.octets < 0x80)) + 1
        if not np.array_equal(np.searchsorted(stops, ends, "right") - np.searchsorted(stops, starts, "right"), counts):
            raise CorruptFileError("not as many row ids as announced")
        first = np.concatenate([np.zeros(min(len(stops), 1), np.int64), stops[:-1]])
        fresh = np.searchsorted(stops, starts, "right")[counts > 0]
        first[fresh] = starts[counts > 0]
        ids, _ = self._varints.at(first)
        return ids
