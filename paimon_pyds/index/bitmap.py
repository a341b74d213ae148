"""The bitmap index: for each distinct value, the rows that hold it.

Specification: Paimon documentation, concepts/spec/fileindex, "Bitmap". Integers are big-endian, bitmaps are portable
RoaringBitmaps; an offset below zero is a bitmap of the single position ``-1 - offset``, else it counts from the body.

    version 1: 01 · rows · values · has null u8 [null offset] · (value, offset)* · body
    version 2: 02 · rows · values · has null u8 [null offset · null length] · blocks · (first value, block offset)* ·
               body offset · blocks: entries, (value, offset, length)* · body

Values ascend over all blocks of version 2; in version 1 their order is arbitrary.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s, fixed_binary, from_numpy, join_binary, pc, sorted_positions, to_numpy
from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection, bitmap_of
from paimon_pyds.index.dictionary import EncodedColumn, check_limits
from paimon_pyds.index.keys import Key, KeyCodec, ascends
from paimon_pyds.index.probe import Answer, Interval, Nulls, Points, Probe
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_groups, read_layout
from paimon_pyds.index.source import Cursor, LoadedBytes, Window, corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_RANGE_BYTES = 1 << 20  # an interval that would read more than this is left to other indexes
_SINGLE_BITMAP_BYTES = 18
"""Bytes of a serialized bitmap with a single row."""
_WINDOW_ROWS = 1 << 20  # rows sorted at a time, to bound memory


@dataclass(frozen=True, slots=True)
class _Block:
    """Some entries of the dictionary: ascending keys (an array, or a list of bytes) and the location of each bitmap."""

    keys: Any
    offsets: Int64s
    lengths: Int64s

    @property
    def nbytes(self) -> int:
        return 200 + 80 * len(self.keys)


class BitmapReader:
    """An open bitmap index. Dictionary blocks and bitmaps are read on demand, several in one request."""

    def __init__(self, source: ByteSource, codec: KeyCodec, cache: ByteLimitedCache) -> None:
        self.source = source
        self._codec = codec
        self._cache = cache
        self._owner = object()
        cursor = Cursor(source)
        self.version = cursor.u8("version")
        if self.version not in (1, 2):
            raise corrupt(source, f"bitmap index version {self.version} is not known", offset=0, field="version")
        self.row_count: int = cursor.count("row count", each=0)
        self._values = cursor.count("non-null value bitmap number", each=self._entry_bytes)
        self._null: tuple[int, int] | None = None
        if cursor.u8("has null value"):
            offset = cursor.i32("null value offset")
            self._null = (offset, cursor.i32("null bitmap length") if self.version == 2 else -1)
        if self.version == 1:
            self._read_dictionary(cursor)
        else:
            self._read_block_table(cursor)

    @property
    def nbytes(self) -> int:
        return self._whole.nbytes if self._whole is not None else 80 * len(self._first_keys)

    @property
    def _entry_bytes(self) -> int:
        return (self._codec.width or 4) + (4 if self.version == 1 else 8)

    @property
    def block_count(self) -> int:
        """Blocks of the dictionary; one in version 1."""
        return 1 if self._whole is not None else len(self._first_keys)

    def _read_values(self, cursor: Cursor, count: int, ints: int) -> tuple[Any, Int64s]:
        """``count`` entries of a value and some int32; the values, and the integers as rows."""
        if not self._codec.is_binary:
            width = self._codec.width
            each = width + 4 * ints
            raw = np.frombuffer(cursor.take(count * each, "value"), np.uint8).reshape(count, each)
            keys = self._codec.deserialize(np.ascontiguousarray(raw[:, :width]).view(self._codec.dtype).reshape(-1))
            numbers = np.ascontiguousarray(raw[:, width:]).view(">i4").astype(np.int64).reshape(count, ints)
            return keys, numbers
        values, tails = cursor.strings(count, 4 * ints, "value")
        return values, np.frombuffer(tails, ">i4").astype(np.int64).reshape(count, ints)

    def _read_dictionary(self, cursor: Cursor) -> None:
        """Version 1: the whole dictionary; a bitmap ends where the next one begins."""
        keys, numbers = self._read_values(cursor, self._values, 1)
        self._body = Window(self.source, cursor.position, cursor.remaining())
        offsets = numbers[:, 0]
        null = np.array([] if self._null is None else [self._null[0]], np.int64)
        starts = np.unique(np.append(offsets, null))
        ends = np.append(starts[1:], self._body.size)
        order = sorted(range(len(keys)), key=keys.__getitem__) if self._codec.is_binary else np.argsort(keys)
        keys = [keys[i] for i in order] if self._codec.is_binary else keys[order]
        offsets = offsets[order]
        lengths = np.where(offsets < 0, -1, ends[np.searchsorted(starts, offsets)] - offsets)
        if self._null is not None and self._null[0] >= 0:
            self._null = (self._null[0], int(ends[np.searchsorted(starts, self._null[0])]) - self._null[0])
        self._whole: _Block | None = _Block(keys, offsets, lengths)
        self._check_order(self._whole.keys, cursor.position)

    def _read_block_table(self, cursor: Cursor) -> None:
        self._whole = None
        at = cursor.position
        count = cursor.count("bitmap index block number", each=(self._codec.width or 4) + 4)
        self._first_keys, numbers = self._read_values(cursor, count, 1)
        body_offset = cursor.count("bitmap body offset")
        self._blocks = Window(self.source, cursor.position, body_offset)
        self._body = Window(self.source, cursor.position + body_offset, cursor.remaining() - body_offset)
        self._bounds = np.append(numbers[:, 0], body_offset)
        if bool((np.diff(self._bounds) < 4).any()) or self._bounds[0] != 0:
            raise corrupt(self.source, "index blocks that don't follow each other", offset=at, field="block offset")
        self._check_order(self._first_keys, at)

    def _check_order(self, keys: Any, at: int) -> None:
        if not ascends(keys):
            raise corrupt(self.source, "dictionary values out of order", offset=at, field="value")

    def load_blocks(self, numbers: Sequence[int]) -> list[_Block]:
        if self._whole is not None:
            return [self._whole for _ in numbers]
        loaded: dict[int, _Block] = {}
        missing = []
        for number in numbers:
            block = self._cache.get((self._owner, "block", number))
            if block is None:
                missing.append(number)
            else:
                loaded[number] = block
        if not missing:
            return [loaded[number] for number in numbers]
        ranges = [(int(self._bounds[n]), int(self._bounds[n + 1] - self._bounds[n])) for n in missing]
        for number, data, (offset, _) in zip(missing, self._blocks.read_many(ranges), ranges, strict=True):
            loaded[number] = self._parse_block(number, LoadedBytes(data, self._blocks, offset))
        return [loaded[number] for number in numbers]

    def _parse_block(self, number: int, source: ByteSource) -> _Block:
        cursor = Cursor(source, step=source.size)
        entries = cursor.count("entry number", each=self._entry_bytes)
        keys, tails = self._read_values(cursor, entries, 2)
        if cursor.remaining():
            raise corrupt(source, "an index block longer than its entries", offset=0, field="entry number")
        self._check_order(keys, 0)
        if not len(keys) or keys[0] != self._first_keys[number]:
            raise corrupt(source, "an index block that begins with another value", offset=4, field="value")
        block = _Block(keys, tails[:, 0], tails[:, 1])
        self._cache.put((self._owner, "block", number), block, block.nbytes)
        return block

    def _find(self, keys: Sequence[Key]) -> list[tuple[int, int]]:
        """(offset, length) of the bitmaps of those keys that are there."""
        places: dict[int, list[Key]] = {}
        for key in keys:
            number = 0 if self._whole is not None else bisect.bisect_right(self._first_keys, key) - 1
            if number >= 0:
                places.setdefault(number, []).append(key)
        found = []
        for block, wanted in zip(self.load_blocks(list(places)), places.values(), strict=True):
            for key in wanted:
                at = bisect.bisect_left(block.keys, key)
                if at < len(block.keys) and block.keys[at] == key:
                    found.append((int(block.offsets[at]), int(block.lengths[at])))
        return found

    def _find_between(self, probe: Interval) -> list[tuple[int, int]] | None:
        """(offset, length) of the bitmaps of all keys in an interval; None when that is too much to read."""
        if self._whole is not None:
            numbers = range(1)
        else:
            low, high = probe.low, probe.high
            first = 0 if low is None else max(bisect.bisect_right(self._first_keys, low) - 1, 0)
            last = len(self._first_keys) if high is None else bisect.bisect_right(self._first_keys, high)
            numbers = range(first, max(first, last))
            if len(numbers) and self._bounds[numbers[-1] + 1] - self._bounds[numbers[0]] > _RANGE_BYTES:
                return None
        found: list[tuple[int, int]] = []
        for block in self.load_blocks(numbers):
            begin, end = _slice_of(block.keys, probe)
            found.extend(zip(block.offsets[begin:end].tolist(), block.lengths[begin:end].tolist(), strict=True))
        return found if sum(max(length, 16) for _, length in found) <= _RANGE_BYTES else None

    def union(self, places: Sequence[tuple[int, int]]) -> BitMap:
        """All rows of these bitmaps, not to be changed; what isn't cached is read in one request."""
        if len(places) == 1 and places[0][0] >= 0:
            cached: BitMap | None = self._cache.get((self._owner, "bitmap", places[0][0]))
            return next(self.read_bitmaps(places, keep=True)) if cached is None else cached
        single = np.array([-1 - offset for offset, _ in places if offset < 0], np.int64)
        self.check_rows(single)
        union = bitmap_of(single)
        missing = []
        for offset, length in places:
            if offset < 0:
                continue
            bitmap = self._cache.get((self._owner, "bitmap", offset))
            if bitmap is None:
                missing.append((offset, length))
            else:
                union |= bitmap
        for bitmap in self.read_bitmaps(missing, keep=True) if missing else ():
            union |= bitmap
        return union

    def check_rows(self, rows: Int64s) -> None:
        """Raises CorruptFileError when one of these positions is no row of the file."""
        if len(rows) and int(rows.max()) >= self.row_count:
            message = f"position {int(rows.max())} in a file of {self.row_count} rows"
            raise corrupt(self.source, message, field="offset")

    def read_bitmaps(self, places: Sequence[tuple[int, int]], *, keep: bool = False) -> Iterator[BitMap]:
        """The bitmaps at these (offset, length) of the body, read in one request and cached if ``keep``."""
        places = [(offset, length if length >= 0 else self._measure(offset)) for offset, length in places]
        body = self._body
        parts = [body.read(*places[0])] if len(places) == 1 else body.read_many(places)
        for (offset, length), data in zip(places, parts, strict=True):
            bitmap = decode_bitmap(data, row_count=self.row_count, path=body.name, origin=body.origin + offset)
            if keep:
                self._cache.put((self._owner, "bitmap", offset), bitmap, length + 64)
            yield bitmap

    def _measure(self, offset: int) -> int:
        """The length of a bitmap whose entry does not state it."""
        most = 16 + (8192 + 16) * (self.row_count // 65536 + 1)
        data = self._body.read(offset, min(most, max(self._body.size - offset, 0)))
        return read_layout(data, path=self.source.name, origin=self._body.origin + offset).size

    def null_rows(self) -> BitMap:
        return BitMap() if self._null is None else self.union([self._null])

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer | None:
        """Points and nulls always; intervals if ``extended`` and they contain few enough values.

        Without ``extended``, a negation keeps null rows, as Java's reader does.
        """
        if isinstance(probe, Nulls):
            nulls = self.null_rows()
            rows = nulls.flip(0, self.row_count) if probe.negated else nulls
            return Answer(RowSelection(rows), True)
        if isinstance(probe, Points):
            rows = self.union(self._find(probe.keys))
        else:
            places = self._find_between(probe) if extended else None
            if places is None:
                return None
            rows = self.union(places)
        if not probe.negated:
            return Answer(RowSelection(rows), probe.exact)
        rows = rows.flip(0, self.row_count)
        if extended and self._null is not None:
            rows = rows - self.null_rows()
        return Answer(RowSelection(rows), probe.exact and (extended or self._null is None))


def _slice_of(keys: Sequence[Any], probe: Interval) -> tuple[int, int]:
    """The positions of the ascending keys that the interval contains: begin and end."""
    begin, end = 0, len(keys)
    if probe.low is not None:
        begin = (bisect.bisect_right if probe.low_open else bisect.bisect_left)(keys, probe.low)
    if probe.high is not None:
        end = (bisect.bisect_left if probe.high_open else bisect.bisect_right)(keys, probe.high)
    return begin, max(begin, end)


def _rows_by_key(column: EncodedColumn) -> tuple[npt.NDArray[np.uint32], Int64s]:
    """Row positions sorted by code, null rows first, and how many rows each has: [nulls, first key, second key, …]."""
    groups = len(column.keys) + 1
    rows = column.row_count
    counts = np.zeros(groups, np.int64)
    for start in range(0, rows, _WINDOW_ROWS):
        counts += np.bincount(column.codes[start : start + _WINDOW_ROWS] + 1, minlength=groups)
    if rows <= _WINDOW_ROWS:
        return _sorted_rows(column.codes + 1, groups), counts
    positions = np.empty(rows, np.uint32)
    place = np.cumsum(counts) - counts
    for start in range(0, rows, _WINDOW_ROWS):
        codes = column.codes[start : start + _WINDOW_ROWS] + 1
        here = np.bincount(codes, minlength=groups)
        target = np.repeat(place - (np.cumsum(here) - here), here) + np.arange(len(codes))
        positions[target] = _sorted_rows(codes, groups) + np.uint32(start)
        place += here
    return positions, counts


def _sorted_rows(codes: npt.NDArray[np.int32], groups: int) -> npt.NDArray[np.uint32]:
    """Indices that sort the codes, equal ones in order: counted by Arrow when few."""
    if groups <= 1 << 16:
        return to_numpy(pc.array_sort_indices(from_numpy(codes))).astype(np.uint32)
    return sorted_positions(codes.astype(np.uint64)).astype(np.uint32)


def write_bitmap(column: EncodedColumn, version: int, block_size: int) -> bytes:
    """The serialized bitmap index of a column.
    Raises SchemaError: the index would be larger than 2 GiB, or the file has more than 2^31 - 1 rows."""
    rows = column.row_count
    positions, counts = _rows_by_key(column)
    body, sizes = _serialize_groups(positions, counts)
    check_limits("bitmap", rows, int(sizes.sum()))
    firsts = positions[np.minimum(np.cumsum(counts) - counts, max(rows - 1, 0))].astype(np.int64) if rows else counts
    single = counts == 1
    offsets = np.where(single, -1 - firsts, np.cumsum(sizes) - sizes)
    lengths = np.where(single, -1, sizes)
    has_null = bool(counts[0])
    head = struct.pack(">Bii?", version, rows, len(column.keys), has_null)
    if has_null:
        head += struct.pack(">i", int(offsets[0]))
        if version == 2:
            head += struct.pack(">i", _SINGLE_BITMAP_BYTES if single[0] else int(sizes[0]))
    if version == 1:
        return b"".join([head, _entries(column, offsets[1:], None)[0], *body])
    return b"".join([head, *_blocks(column, offsets[1:], lengths[1:], block_size), *body])


def _serialize_groups(positions: npt.NDArray[np.uint32], counts: Int64s) -> tuple[list[Any], Int64s]:
    """Serialized bitmaps of all groups of two rows and more, and the size of each group's bitmap (0 for the others)."""
    many = counts > 1
    sizes = np.zeros(len(counts), np.int64)
    if not many.any():
        return [], sizes
    if not bool((counts[counts > 0] > 1).all()):
        positions = positions[np.repeat(many, counts)]
    pieces, sizes[many] = encode_groups(positions, np.concatenate(([0], np.cumsum(counts[many]))))
    return list(pieces), sizes


def _entries(column: EncodedColumn, offsets: Int64s, lengths: Int64s | None) -> tuple[bytes, Int64s]:
    """(value, offset[, length]) of each key, and where each entry begins; one more bound at the end."""
    count = len(column.keys)
    tail = np.empty((count, 1 if lengths is None else 2), ">i4")
    tail[:, 0] = offsets
    if lengths is not None:
        tail[:, 1] = lengths
    if column.codec.is_binary:
        sizes = to_numpy(pc.binary_length(column.keys)).astype(">i4").reshape(-1, 1)
        return join_binary(fixed_binary(sizes), column.keys, fixed_binary(tail))
    width = column.codec.width
    table = np.empty((count, width + tail.shape[1] * 4), np.uint8)
    values = np.ascontiguousarray(column.codec.serialize(column.int_keys()))
    table[:, :width] = values.view(np.uint8).reshape(count, width)
    table[:, width:] = tail.view(np.uint8).reshape(count, 4 * tail.shape[1])
    return table.tobytes(), np.arange(count + 1) * table.shape[1]


def _blocks(column: EncodedColumn, offsets: Int64s, lengths: Int64s, block_size: int) -> list[bytes]:
    """The table of blocks, the body's offset, and the blocks of version 2."""
    data, bounds = _entries(column, offsets, lengths)
    count = len(column.keys)
    firsts = [0]
    while firsts[-1] < count:
        fitting = int(np.searchsorted(bounds, bounds[firsts[-1]] + block_size - 4, side="right")) - 1
        firsts.append(max(fitting, firsts[-1] + 1))
    view = memoryview(data)
    blocks: list[bytes] = []
    table: list[bytes] = []
    offset = 0
    for first, last in itertools.pairwise(firsts):
        blocks.append(struct.pack(">i", last - first) + view[bounds[first] : bounds[last]])
        value_end = bounds[first + 1] - 8
        table.append(bytes(view[bounds[first] : value_end]) + struct.pack(">i", offset))
        offset += len(blocks[-1])
    return [struct.pack(">i", len(blocks)), *table, struct.pack(">i", offset), *blocks]
