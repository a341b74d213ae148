"""Global indexes of the type bitmap: sorted keys in dictionary blocks, each key with a bitmap of its row ids.

    bitmaps and dictionary blocks · rows that are NULL · rows that are not · index block · footer of 48 bytes
    footer: NULL rows offset u64, size u32 · other rows offset u64, size u32 · index block offset u64, size u32
            · number of values u32 · version u32 = 1 · magic u32, big-endian
    content of a block: varint number of entries · per entry varint size, key · varint offset, varint size
            (of a dictionary block: of the key's bitmap; of the index block: of a dictionary block, by its first key)

Source: Java Paimon 2.2, class BitmapGlobalIndexFormat.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.cache import cached_property
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.global_index.blocks import BlockPlace, read_blocks, read_varint
from paimon_pyds.index.global_index.key_bytes import key_reader
from paimon_pyds.index.global_index.row_ids import decode_row_ids, sorted_ids
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Interval
from paimon_pyds.index.source import corrupt
from paimon_pyds.storage import ByteSource

_FOOTER = struct.Struct(">QIQIQIIII")
_MAGIC, _VERSION = 0x42474958, 1
_LEAST_ENTRY_BYTES = 3
_Entries = tuple[list[Key], list[BlockPlace]]


class BitmapFile:
    """An open index file. Row ids count from the first row that the index covers."""

    def __init__(self, source: ByteSource, codec: KeyCodec) -> None:
        if source.size < _FOOTER.size:
            raise corrupt(source, f"{source.size} bytes are no bitmap index", offset=0)
        found = _FOOTER.unpack(source.read(source.size - _FOOTER.size, _FOOTER.size))
        if found[-2:] != (_VERSION, _MAGIC):  # Java 1.4 wrapped a file index instead
            raise UnsupportedError(f"{source.name}: not a bitmap index of version {_VERSION}, as Paimon 2 writes them")
        self._source, self._read_key = source, key_reader(codec)
        self._nulls, _, self._index_place = (BlockPlace(*found[at : at + 2]) for at in (0, 2, 4))
        self._dictionaries: dict[int, _Entries] = {}

    @cached_property
    def _index(self) -> _Entries:
        return self._entries(self._index_place)

    def equal_to(self, keys: Iterable[Key]) -> Int64s:
        """The sorted ids of the rows with one of these keys."""
        places = []
        for key in keys:
            block = bisect_right(self._index[0], key) - 1
            if block < 0:
                continue
            here, bitmaps = self._dictionary(block)
            entry = bisect_left(here, key)
            if entry < len(here) and here[entry] == key:
                places.append(bitmaps[entry])
        return self._rows(places)

    def between(self, interval: Interval) -> Int64s:
        """The sorted ids of the rows whose key is in an interval, which is not negated."""
        places = []
        for block in self._blocks_of(interval):
            here, bitmaps = self._dictionary(block)
            places += bitmaps[_begin(here, interval) : _end(here, interval)]
        return self._rows(places)

    def blocks_of(self, interval: Interval) -> tuple[int, int]:
        """How many dictionary blocks may have keys of an interval, and how many there are."""
        return len(self._blocks_of(interval)), len(self._index[0])

    def nulls(self) -> Int64s:
        """The sorted ids of the rows without a value."""
        return self._rows([self._nulls])

    def _blocks_of(self, interval: Interval) -> range:
        first_keys = self._index[0]
        return range(max(_begin(first_keys, interval) - 1, 0), _end(first_keys, interval))

    def _dictionary(self, block: int) -> _Entries:
        found = self._dictionaries.get(block)
        if found is None:
            found = self._dictionaries[block] = self._entries(self._index[1][block])
        return found

    def _entries(self, place: BlockPlace) -> _Entries:
        (data,) = read_blocks(self._source, [place])
        count, at = read_varint(self._source, data, 0, place.offset)
        if count * _LEAST_ENTRY_BYTES > len(data):
            raise corrupt(self._source, f"{count} entries in a block of {len(data)} bytes", offset=place.offset)
        keys, places = [], []
        for _ in range(count):
            size, at = read_varint(self._source, data, at, place.offset)
            if at + size > len(data):
                raise corrupt(self._source, f"a key of {size} bytes beyond its block", offset=place.offset)
            keys.append(self._read_key(data[at : at + size]))
            offset, at = read_varint(self._source, data, at + size, place.offset)
            length, at = read_varint(self._source, data, at, place.offset)
            places.append(BlockPlace(offset, length))
        return keys, places

    def _rows(self, places: list[BlockPlace]) -> Int64s:
        for place in places:
            if place.offset + place.size > self._source.size:
                raise corrupt(self._source, "a bitmap beyond the file's end", offset=place.offset)
        found = self._source.read_many(list(places))
        return sorted_ids(
            [decode_row_ids(data, self._source.name, place.offset) for place, data in zip(places, found, strict=True)]
        )


def _begin(keys: list[Key], interval: Interval) -> int:
    if interval.low is None:
        return 0
    return (bisect_right if interval.low_open else bisect_left)(keys, interval.low)


def _end(keys: list[Key], interval: Interval) -> int:
    if interval.high is None:
        return len(keys)
    return (bisect_left if interval.high_open else bisect_right)(keys, interval.high)
