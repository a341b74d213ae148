"""Global indexes of the type bitmap: sorted keys in dictionary blocks, each key with a bitmap of its row ids.

    bitmaps and dictionary blocks · rows that are NULL · rows that are not · index block · footer of 48 bytes
    footer: NULL rows offset u64, size u32 · other rows offset u64, size u32 · index block offset u64, size u32
            · number of values u32 · version u32 = 1 · magic u32, big-endian
    content of a block: varint number of entries · per entry varint size, key · varint offset, varint size
            (of a dictionary block: of the key's bitmap; of the index block: of a dictionary block, by its first key)

Keys ascend by their values in files of Java, by their bytes in files of pypaimon 2.1: for strings that is the same.
Source: Java Paimon 2.2, class BitmapGlobalIndexFormat; files of pypaimon 2.1.0.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array
from paimon_pyds.base.cache import cached_property
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.global_index.blocks import BlockPlace, read_blocks, read_varint
from paimon_pyds.index.global_index.key_bytes import key_bytes, key_reader
from paimon_pyds.index.global_index.row_ids import decode_row_ids, sorted_ids
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Interval
from paimon_pyds.index.source import corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_FOOTER = struct.Struct(">QIQIQIIII")
_MAGIC, _VERSION = 0x42474958, 1
_LEAST_ENTRY_BYTES = 3  # an empty key, and numbers of one byte


class _Entries(NamedTuple):
    """The entries of a block: keys as bytes, and where what belongs to them is."""

    keys: list[bytes]
    places: list[BlockPlace]


class BitmapFile:
    """An open index file. Row ids count from the first row that the index covers."""

    def __init__(self, source: ByteSource, codec: KeyCodec) -> None:
        if source.size < _FOOTER.size:
            raise corrupt(source, f"{source.size} bytes are no bitmap index", offset=0)
        found = _FOOTER.unpack(source.read(source.size - _FOOTER.size, _FOOTER.size))
        if found[-2:] != (_VERSION, _MAGIC):  # Java 1.4 wrapped a file index instead
            raise UnsupportedError(f"{source.name}: not a bitmap index of version {_VERSION}, as Paimon 2 writes them")
        self._source, self._codec, self._read_key = source, codec, key_reader(codec)
        self._nulls, _, self._index_place = (BlockPlace(*found[at : at + 2]) for at in (0, 2, 4))
        self._dictionaries: dict[int, tuple[list[Key], list[BlockPlace]]] = {}

    @cached_property
    def _index(self) -> _Entries:
        return self._entries(self._index_place)

    @cached_property
    def _first_keys(self) -> tuple[list[Key], list[bytes]]:
        """The first key of each dictionary block, as a key and as bytes."""
        return [self._read_key(raw) for raw in self._index.keys], self._index.keys

    def equal_to(self, keys: Iterable[Key]) -> Int64s:
        """The sorted ids of the rows with one of these keys."""
        wanted = set(keys)
        places = []
        for block in sorted({block for key in wanted for block in self._blocks_with(key)}):
            here, bitmaps = self._dictionary(block)
            places += [place for key, place in zip(here, bitmaps, strict=True) if key in wanted]
        return self._rows(places)

    def between(self, interval: Interval) -> Int64s:
        """The sorted ids of the rows whose key is in an interval, which is not negated."""
        places = []
        for block in self._blocks_of(interval):
            here, bitmaps = self._dictionary(block)
            places += [place for key, place in zip(here, bitmaps, strict=True) if _is_within(key, interval)]
        return self._rows(places)

    def blocks_of(self, interval: Interval) -> tuple[int, int]:
        """How many dictionary blocks may have keys of an interval, and how many there are."""
        return len(self._blocks_of(interval)), len(self._index.keys)

    def nulls(self) -> Int64s:
        """The sorted ids of the rows without a value."""
        return self._rows([self._nulls])

    def _blocks_with(self, key: Key) -> set[int]:
        """The dictionary blocks that may have a key, in either order of keys."""
        values, raws = self._first_keys
        raw = key_bytes(self._codec, array([key], pa.binary() if self._codec.is_binary else pa.int64()))[0].as_py()
        return {block for block in (bisect_right(values, key) - 1, bisect_right(raws, raw) - 1) if block >= 0}

    def _blocks_of(self, interval: Interval) -> range:
        values, _ = self._first_keys
        if not self._codec.is_binary:
            return range(len(values))
        begin = 0 if interval.low is None else bisect_right(values, interval.low) - 1
        return range(max(begin, 0), len(values) if interval.high is None else bisect_right(values, interval.high))

    def _dictionary(self, block: int) -> tuple[list[Key], list[BlockPlace]]:
        found = self._dictionaries.get(block)
        if found is None:
            raws, places = self._entries(self._index.places[block])
            found = self._dictionaries[block] = [self._read_key(raw) for raw in raws], places
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
            keys.append(data[at : at + size])
            offset, at = read_varint(self._source, data, at + size, place.offset)
            length, at = read_varint(self._source, data, at, place.offset)
            places.append(BlockPlace(offset, length))
        return _Entries(keys, places)

    def _rows(self, places: list[BlockPlace]) -> Int64s:
        for place in places:
            if place.offset + place.size > self._source.size:
                raise corrupt(self._source, "a bitmap beyond the file's end", offset=place.offset)
        found = self._source.read_many(list(places))
        return sorted_ids(
            [decode_row_ids(data, self._source.name, place.offset) for place, data in zip(places, found, strict=True)]
        )


def _is_within(key: Key, interval: Interval) -> bool:
    low, high = interval.low, interval.high
    above = low is None or (key > low if interval.low_open else key >= low)  # type: ignore[operator]
    return above and (high is None or (key < high if interval.high_open else key <= high))  # type: ignore[operator]
