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
from paimon_pyds.index.global_index.key_bytes import fixed_width, key_reader
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
_ENTRY_BYTES = 4096
"""Bytes of blocks for each wanted entry from which decoding these one by one takes less time."""
BLOCKS_AT_ONCE = 128
"""Data blocks read together, usually of 64 KiB: 8 MiB."""


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
        self._source, self._codec = source, codec
        self._index_place = BlockPlace(index_at, index_size)

    @cached_property
    def _index(self) -> Block:
        return Block(self._source, self._index_place, read_blocks(self._source, [self._index_place]), self._codec)

    def equal_to(self, keys: Iterable[Key]) -> Int64s:
        """The sorted ids of the rows with one of these keys."""
        wanted = sorted(keys)
        of_block = self._index.lower_of(wanted)
        found = []
        for block, first, last in self._blocks(np.unique(of_block[of_block < len(self._index)]).tolist()):
            start, end = np.searchsorted(of_block, [first, last + 1])
            found.append(block.row_ids(block.entries_of(wanted[start:end])))
        return sorted_ids(found)

    def between(self, interval: Interval) -> Int64s:
        """The sorted ids of the rows whose key is in an interval, which is not negated."""
        found = []
        for block, *_ in self._blocks(self._blocks_of(interval)):
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

    def _blocks(self, numbers: Sequence[int]) -> Iterator[tuple[Block, int, int]]:
        """Some data blocks at a time as one, with the numbers of the first and the last of them."""
        for start in range(0, len(numbers), BLOCKS_AT_ONCE):
            some = numbers[start : start + BLOCKS_AT_ONCE]
            places = [self._index.place(number) for number in some]
            yield Block(self._source, places[0], read_blocks(self._source, places), self._codec), some[0], some[-1]


class Block:
    """The entries of blocks that follow one another, in the order of their keys. ``place``: of the first block."""

    def __init__(self, source: ByteSource, place: BlockPlace, blocks: Sequence[bytes], codec: KeyCodec) -> None:
        self._source, self._place, self._codec = source, place, codec
        self._read_key = key_reader(codec)
        positions, entries, self._size = [], [], 0
        for data in blocks:
            own, size = self._positions(data)
            positions.append(own + self._size)
            entries.append(data[:size])
            self._size += size
        self._data = b"".join(entries)
        self.positions: Int64s = np.concatenate(positions)

    def _positions(self, data: bytes) -> tuple[Int64s, int]:
        """Where the entries of a block begin, and where the last one ends."""
        if len(data) < _TAIL_BYTES:
            raise self._corrupt(f"a block of {len(data)} bytes")
        number, kind = int.from_bytes(data[-_TAIL_BYTES:-1], "little"), data[-1]
        end = len(data) - _TAIL_BYTES
        if kind == OF_ONE_SIZE:
            if not number or end % number:
                raise self._corrupt(f"entries of {number} bytes in {end}")
            return np.arange(0, end, number, dtype=np.int64), end
        end -= 4 * number
        if end < 0:
            raise self._corrupt(f"{number} entries in {len(data)} bytes")
        found = np.frombuffer(data, "<u4", number, end).astype(np.int64)
        if number and not (found[0] == 0 and found[-1] < end and (found[1:] > found[:-1]).all()):
            raise self._corrupt("entries out of order")
        return found, end

    def _corrupt(self, message: str) -> CorruptFileError:
        return corrupt(self._source, message, offset=self._place.offset)

    def __len__(self) -> int:
        return len(self.positions)

    def _end(self, entry: int) -> int:
        return int(self.positions[entry + 1]) if entry + 1 < len(self.positions) else self._size

    def key(self, entry: int) -> Key:
        """The key of an entry."""
        at = int(self.positions[entry])
        size, start = self._data[at], at + 1
        if size > 0x7F:
            size, start = read_varint(self._source, self._data, at, self._place.offset)
        if start + size > self._end(entry):
            raise self._corrupt(f"a key of {size} bytes beyond its entry")
        return self._read_key(self._data[start : start + size])

    def lower(self, key: Key) -> int:
        """The first entry whose key is not below a key."""
        return bisect_left(range(len(self)), key, key=self.key)

    def upper(self, key: Key) -> int:
        """The first entry whose key is above a key."""
        return bisect_right(range(len(self)), key, key=self.key)

    @cached_property
    def _keys(self) -> Int64s | None:
        """All keys, where these are numbers of one width."""
        width = fixed_width(self._codec)
        ends = np.append(self.positions[1:], self._size)
        if not width or not len(self) or (ends - self.positions <= width).any() or self._size <= width:
            return None
        octets = np.frombuffer(self._data, np.uint8)
        if (octets[self.positions] != width).any():
            return None
        words = np.ndarray((self._size - width + 1,), f"<i{width}", self._data, 0, (1,))
        return self._codec.deserialize(words[self.positions + 1])

    def lower_of(self, keys: Sequence[Key]) -> Int64s:
        """The first entry whose key is not below a key, for each of some keys."""
        if self._keys is None:
            return np.array([self.lower(key) for key in keys], np.int64)
        return np.searchsorted(self._keys, np.array(keys, np.int64))

    def entries_of(self, keys: Sequence[Key]) -> Int64s:
        """The entries of those keys that are there."""
        found = self.lower_of(keys)
        there = found < len(self)
        if self._keys is None:
            there &= np.array([there[i] and self.key(int(found[i])) == key for i, key in enumerate(keys)], np.bool_)
        else:
            there[there] = self._keys[found[there]] == np.array(keys, np.int64)[there]
        return found[there]

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
            if len(entries) * _ENTRY_BYTES <= self._size:
                return np.concatenate([self._ids_of(entry) for entry in entries.tolist()])
            return self._row_ids(entries)
        except CorruptFileError as error:
            raise self._corrupt(error.message) from None

    def _ids_of(self, entry: int) -> Int64s:
        """The row ids of one entry: as `_row_ids`, without looking at the rest of the block."""
        origin, end = self._place.offset, self._end(entry)
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
        next_entries = np.append(self.positions[1:], self._size)
        if (ends != next_entries[entries]).any() or (starts > ends).any():
            raise CorruptFileError("values that don't fill their entries")
        edges = np.zeros(self._size + 1, np.int8)
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
