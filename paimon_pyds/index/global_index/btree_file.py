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
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.checksums import crc32
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.index.global_index.blocks import BlockPlace, VarintBytes, read_joined_blocks, read_varint
from paimon_pyds.index.global_index.key_bytes import fixed_width, key_reader
from paimon_pyds.index.global_index.row_ids import NO_ROWS, decode_row_ids, sorted_ids
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Interval
from paimon_pyds.index.source import corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

FOOTER = struct.Struct("<QIQQIQIII")
MAGIC, VERSION = 0x50425449, 1
OF_ONE_SIZE, OF_ANY_SIZE = 0, 1
_TAIL_BYTES = 5
_CRC_BYTES = 4
_FEW_KEYS = 32
"""Of as many entries one is wanted, or fewer: then looking keys up takes less time than decoding all keys."""
_POSITION_BYTES = 4
_SPARE = bytes(8)
"""What `VarintBytes` leaves out."""
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
        return Block(self._source, [self._index_place], self._codec)

    def equal_to(self, keys: Iterable[Key]) -> Int64s:
        """The sorted ids of the rows with one of these keys."""
        wanted = sorted(keys)
        of_block = self._index.lower_of(wanted)
        found = []
        for block, numbers in self._blocks(np.unique(of_block[of_block < len(self._index)])):
            start, end = np.searchsorted(of_block, [numbers[0], numbers[-1] + 1])
            within = np.searchsorted(numbers, of_block[start:end])
            found.append(block.row_ids(block.entries_of(wanted[start:end], within)))
        return sorted_ids(found)

    def between(self, interval: Interval) -> Int64s:
        """The sorted ids of the rows whose key is in an interval, which is not negated."""
        found = []
        for block, _ in self._blocks(np.array(self._blocks_of(interval), np.int64)):
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
        if crc32(bitmap) != int.from_bytes(crc, "little"):
            raise corrupt(self._source, "a bitmap of NULLs with a wrong checksum", offset=self._nulls_at)
        return decode_row_ids(bitmap, self._source.name, self._nulls_at)

    def _blocks_of(self, interval: Interval) -> range:
        last = self._index.end_of(interval)
        return range(self._index.begin_of(interval), min(last + 1, len(self._index)))

    def _blocks(self, numbers: Int64s) -> Iterator[tuple[Block, Int64s]]:
        """Some data blocks at a time as one, with their numbers."""
        for start in range(0, len(numbers), BLOCKS_AT_ONCE):
            some = numbers[start : start + BLOCKS_AT_ONCE]
            yield Block(self._source, self._index.places(some), self._codec), some


class _Layout(NamedTuple):
    """Of a block where its entries begin and end, where the table of their positions begins, the bytes of each entry, 0
    where these differ, and how many entries there are."""

    start: int
    end: int
    table: int
    step: int
    entries: int


class Block:
    """The entries of blocks that follow one another, in the order of their keys. Only wanted ones are decoded.

    ``places``: of the blocks, at least one.
    """

    def __init__(self, source: ByteSource, places: Sequence[BlockPlace], codec: KeyCodec) -> None:
        self._source, self._place, self._codec = source, places[0], codec
        self._read_key = key_reader(codec)
        self._data, starts, sizes = read_joined_blocks(source, places)
        edges = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        self._layouts = [self._layout(*edge) for edge in edges]
        self._starts, self._ends, self._tables, self._steps, counts = np.array(self._layouts, np.int64).T
        self._edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._firsts = self._edges[:-1].tolist()
        self._varints = VarintBytes(self._data)
        self._positions = np.ndarray((len(self._data) - _POSITION_BYTES + 1,), "<u4", self._data, 0, (1,))

    def _layout(self, start: int, stop: int) -> _Layout:
        if stop - start < _TAIL_BYTES:
            raise self._corrupt(f"a block of {stop - start} bytes")
        end = stop - _TAIL_BYTES
        number, kind = int.from_bytes(self._data[end : end + 4], "little"), self._data[end + 4]
        if kind == OF_ONE_SIZE:
            if not number or (end - start) % number:
                raise self._corrupt(f"entries of {number} bytes in {end - start}")
            return _Layout(start, end, start, number, (end - start) // number)
        table = end - _POSITION_BYTES * number
        if table < start:
            raise self._corrupt(f"{number} entries in {end - start} bytes")
        return _Layout(start, table, table, 0, number)

    def _corrupt(self, message: str) -> CorruptFileError:
        return corrupt(self._source, message, offset=self._place.offset)

    def __len__(self) -> int:
        return int(self._edges[-1])

    def _position(self, block: Int64s, number: Int64s) -> Int64s:
        """Where entries begin; ``number``: of each within its block."""
        steps = self._steps[block]
        listed = self._positions[self._tables[block] + _POSITION_BYTES * np.where(steps, 0, number)]
        found: Int64s = self._starts[block] + np.where(steps, steps * number, listed)
        return found

    def bounds(self, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Where entries begin and end. Raises CorruptFileError: not within their block, or out of order."""
        block = np.searchsorted(self._edges, entries, "right") - 1
        number = entries - self._edges[block]
        is_last = entries + 1 == self._edges[block + 1]
        begins = self._position(block, number)
        ends = np.where(is_last, self._ends[block], self._position(block, np.where(is_last, 0, number + 1)))
        if ((begins < self._starts[block]) | (ends <= begins) | (ends > self._ends[block])).any():
            raise self._corrupt("entries out of order")
        return begins, ends

    def key(self, entry: int) -> Key:
        """The key of an entry."""
        block = bisect_right(self._firsts, entry) - 1
        layout, number = self._layouts[block], entry - self._firsts[block]
        if layout.step:
            at, end = layout.start + layout.step * number, layout.start + layout.step * (number + 1)
        else:
            is_last, listed = number + 1 == layout.entries, layout.table + _POSITION_BYTES * number
            at = layout.start + int(self._positions[listed])
            end = layout.end if is_last else layout.start + int(self._positions[listed + _POSITION_BYTES])
        if not layout.start <= at < end <= layout.end:
            raise self._corrupt("entries out of order")
        size, start = self._data[at], at + 1
        if size > 0x7F:
            size, start = read_varint(self._source, self._data, at, self._place.offset)
        if start + size > end:
            raise self._corrupt(f"a key of {size} bytes beyond its entry")
        return self._read_key(bytes(self._data[start : start + size]))

    def lower(self, key: Key, low: int = 0, high: int | None = None) -> int:
        """The first entry whose key is not below a key; ``low``, ``high``: between which it is."""
        return bisect_left(range(len(self)), key, low, high, key=self.key)

    def upper(self, key: Key) -> int:
        """The first entry whose key is above a key."""
        return bisect_right(range(len(self)), key, key=self.key)

    def _keys(self, entries: Int64s) -> Int64s | None:
        """The keys of entries, where these are numbers of one width."""
        width = fixed_width(self._codec)
        if not width:
            return None
        begins, ends = self.bounds(entries)
        if (self._varints.octets[begins] != width).any() or (ends - begins <= width).any():
            return None
        words = np.ndarray((len(self._data) - width + 1,), f"<i{width}", self._data, 0, (1,))
        return self._codec.deserialize(words[begins + 1])

    def _lower_numbers(self, keys: Int64s, low: Int64s, high: Int64s) -> Int64s | None:
        """`lower_of` for keys that are numbers of one width; None where some are not."""
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) >> 1
            found = self._keys(middle)
            if found is None:
                return None
            below = found < keys[open_]
            low[open_[below]] = middle[below] + 1
            high[open_[~below]] = middle[~below]
        return low

    def lower_of(self, keys: Sequence[Key], within: Int64s | None = None) -> Int64s:
        """The first entry whose key is not below a key, for each of some sorted keys; ``within``: the block that each
        is in, by its number among these blocks, or that it would be in."""
        if fixed_width(self._codec) and len(self):
            wanted = np.array(keys, np.int64)
            if len(keys) * _FEW_KEYS > len(self):
                every = self._keys(np.arange(len(self)))
                found = None if every is None else np.searchsorted(every, wanted)
            else:
                low, high = self._range(len(keys), within)
                found = self._lower_numbers(wanted, low, high)
            if found is not None:
                return found
        places = (edges.tolist() for edges in self._range(len(keys), within))
        return np.array([self.lower(*each) for each in zip(keys, *places, strict=True)], np.int64)

    def _range(self, count: int, within: Int64s | None) -> tuple[Int64s, Int64s]:
        """Between which entries ``count`` keys are."""
        if within is None:
            return np.zeros(count, np.int64), np.full(count, len(self), np.int64)
        return self._edges[within], self._edges[within + 1]

    def entries_of(self, keys: Sequence[Key], within: Int64s) -> Int64s:
        """The entries of those keys that are there; the arguments are those of `lower_of`."""
        found = self.lower_of(keys, within)
        there = found < len(self)
        stored = self._keys(found[there])
        if stored is None:
            there &= np.array([there[i] and self.key(int(found[i])) == key for i, key in enumerate(keys)], np.bool_)
        else:
            there[there] = stored == np.array(keys, np.int64)[there]
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

    def places(self, entries: Int64s) -> list[BlockPlace]:
        """The data blocks of entries of the index block."""
        starts, ends = self._values(entries)
        offsets, starts = self._numbers(starts)
        sizes, starts = self._numbers(starts)
        if (starts != ends).any():
            raise self._corrupt("values that don't fill their entries")
        return [BlockPlace(*place) for place in zip(offsets.tolist(), sizes.tolist(), strict=True)]

    def _numbers(self, places: Int64s) -> tuple[Int64s, Int64s]:
        """The numbers that begin at some places, and where each ends."""
        try:
            return self._varints.at(places)
        except CorruptFileError as error:
            raise self._corrupt(error.message) from None

    def _values(self, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Where the values of entries begin and end."""
        begins, ends = self.bounds(entries)
        sizes, starts = self._numbers(begins)
        sizes, starts = self._numbers(starts + sizes)
        if (starts + sizes != ends).any():
            raise self._corrupt("values that don't fill their entries")
        return starts, ends

    def row_ids(self, entries: Int64s) -> Int64s:
        """The row ids of entries of a data block, entry after entry."""
        if not len(entries):
            return NO_ROWS
        starts, ends = self._values(entries)
        counts, starts = self._numbers(starts)
        if (starts > ends).any():
            raise self._corrupt("values that don't fill their entries")
        if (counts == 1).all():
            ids, stops = self._numbers(starts)
            if (stops != ends).any():
                raise self._corrupt("not as many row ids as announced")
            return ids
        sizes = ends - starts
        edges = np.cumsum(sizes)
        lists = self._varints.octets[np.repeat(starts - edges + sizes, sizes) + np.arange(int(edges[-1]))]
        stops = np.flatnonzero(lists < 0x80) + 1
        found = np.diff(np.searchsorted(stops, edges, "right"), prepend=0)
        if (found != counts).any() or (lists[edges[sizes > 0] - 1] >= 0x80).any():
            raise self._corrupt("not as many row ids as announced")
        try:
            ids, _ = VarintBytes(lists.tobytes() + _SPARE).at(np.concatenate([np.zeros(1, np.int64), stops])[:-1])
        except CorruptFileError as error:
            raise self._corrupt(error.message) from None
        return ids
