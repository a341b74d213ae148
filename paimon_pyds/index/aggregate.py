"""Answers of an index about a whole column: its best rows, its values with their counts, its sum.

All of them can be restricted to some rows of the file: those that match a filter and that no deletion vector removes.
An index that would cost more than the column itself says so, and the column is read. Keys are those of
`paimon_pyds.index.keys`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import DataType
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import BITMAP, BSI, RANGE_BITMAP, KeyCodec, key_codec, supports
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.index.slices import BitSlices, best_rows, first_of, slice_counts, slice_total, slice_values
from paimon_pyds.index.source import corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

ORDERING = (RANGE_BITMAP, BSI, BITMAP)
"""Index types by what they cost for a top n or a minimum, cheapest first."""
COUNTING = (BITMAP, RANGE_BITMAP, BSI)
SUMMING = (BSI, BITMAP, RANGE_BITMAP)

_FEW_VALUES = 1_024
"""Distinct values up to which they are counted by halving sets of rows; for more, decoding the column costs less."""
_FEW_ROWS = 64
"""One row in this number: values of at most this share of rows are read from bit slices; for more, decoding the column
costs less."""
_MANY_BITMAPS = 4_096
"""Bitmaps above which decoding the column costs less than reading each."""
_BITMAPS_AT_ONCE = 256
"""Bitmaps that are read at a time, to bound memory."""
_MOST_AT_ONCE = 4_096
"""Bitmaps whose union is tested at a time, at most; the first test takes one."""

Counts: TypeAlias = "tuple[pa.Array, Int64s]"


class IndexedColumn(ABC):
    """A column as one of its indexes knows it. ``rows`` are positions in the file; None is all of them."""

    @abstractmethod
    def nulls(self, rows: BitMap | None) -> BitMap:
        """The rows that are NULL."""

    @abstractmethod
    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        """The ``n`` rows with the largest (or smallest) keys, NULLs left out; their keys in the order of positions.

        Args:
            rows: positions to choose from; None for all.
            n: how many.
            largest: those with the largest keys; else the smallest.
            ties: take every row that ties with the last one.
            keys: give the keys too.
        """

    @abstractmethod
    def counts(self, rows: BitMap | None) -> Counts | None:
        """Distinct keys and how often each occurs, NULLs left out; None where reading the column costs less."""

    def total(self, rows: BitMap | None) -> int | None:
        """The sum of the keys, 0 without any; None where reading the column costs less."""
        found = self.counts(rows)
        if found is None:
            return None
        pairs = zip(found[0].to_pylist(), found[1].tolist(), strict=True)
        return sum(int(key) * int(count) for key, count in pairs)


def index_columns(
    index: FileIndex, column: str, type_: DataType, wanted: tuple[str, ...], row_count: int
) -> list[IndexedColumn]:
    """The column's indexes of the wanted types, in that order, that support more than probes.

    ``wanted``: index types.
    Raises CorruptFileError: an index is damaged, or is of a file with another number of rows.
    """
    found: list[IndexedColumn] = []
    for index_type in wanted:
        reader = index.reader(column, index_type, type_) if supports(index_type, type_) else None
        if reader is not None:
            index.check_rows(reader, column, index_type, row_count)
        if isinstance(reader, RangeBitmapReader):
            found.append(_RangeBitmapColumn(reader))
        elif isinstance(reader, BsiReader):
            found.append(_BsiColumn(reader))
        elif isinstance(reader, BitmapReader):
            found.append(_BitmapColumn(reader, key_codec(type_)))
    return found


def _within(existing: BitMap, rows: BitMap | None) -> BitMap:
    return existing if rows is None else existing & rows


def _absent(existing: BitMap, rows: BitMap | None, row_count: int) -> BitMap:
    return existing.flip(0, row_count) if rows is None else rows - existing


def _check_counts(source: ByteSource, row_count: int, counts: Int64s, rows: BitMap | None) -> None:
    """A row has one value: raises CorruptFileError when values were counted more often than there are rows."""
    most = row_count if rows is None else len(rows)
    if counts.sum() > most:
        raise corrupt(source, f"{counts.sum()} values in {most} rows", field="bitmaps")


def _key_array(source: ByteSource, codec: KeyCodec, keys: Any) -> pa.Array:
    """The keys as an Arrow array; raises CorruptFileError when those of a column of strings are not UTF-8."""
    array = arrow_array(keys, pa.binary() if codec.is_binary else pa.int64())
    if codec.type.kind in STRING_KINDS:
        try:
            array.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise corrupt(source, "a text that is not UTF-8", field="dictionary") from error
    return array


class _RangeBitmapColumn(IndexedColumn):
    def __init__(self, reader: RangeBitmapReader) -> None:
        self._reader = reader

    def nulls(self, rows: BitMap | None) -> BitMap:
        return _absent(self._reader.existing(), rows, self._reader.row_count)

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        if not self._reader.cardinality:
            return BitMap(), self._keys(np.zeros(0, np.int64)) if keys else None
        slices, most = self._reader.slices, self._reader.cardinality - 1
        found = best_rows(slices, _within(slices.existing(), rows), n, largest=largest, ties=ties, most=most)
        return found, self._keys(slice_values(slices, found).astype(np.int64)) if keys else None

    def counts(self, rows: BitMap | None) -> Counts | None:
        if not self._reader.cardinality:
            return self._keys(np.zeros(0, np.int64)), np.zeros(0, np.int64)
        few_values = self._reader.cardinality <= _FEW_VALUES
        counted = _slice_counts(self._reader.slices, rows, few_values, self._reader.row_count)
        return None if counted is None else (self._keys(counted[0]), counted[1])

    def _keys(self, codes: Int64s) -> pa.Array:
        reader = self._reader
        if not reader.cardinality:
            return _key_array(reader.slices_window, reader.codec, [])
        if len(codes) and int(codes.max()) >= reader.cardinality:
            message = f"code {int(codes.max())} of a row in a dictionary of {reader.cardinality} values"
            raise corrupt(reader.slices_window, message, field="slices")
        return _key_array(reader.slices_window, reader.codec, reader.dictionary.keys_at(codes))


def _slice_counts(
    slices: BitSlices, rows: BitMap | None, few_values: bool, row_count: int
) -> tuple[Int64s, Int64s] | None:
    """Distinct values of some rows and how often each occurs; None where reading the column costs less."""
    existing = _within(slices.existing(), rows)
    if few_values:
        values, counts = slice_counts(slices, existing)
    elif len(existing) <= row_count // _FEW_ROWS:
        values, counts = np.unique(slice_values(slices, existing), return_counts=True)
    else:
        return None
    return values.astype(np.int64), counts.astype(np.int64)


class _BsiColumn(IndexedColumn):
    def __init__(self, reader: BsiReader) -> None:
        self._reader = reader

    def nulls(self, rows: BitMap | None) -> BitMap:
        return _absent(self._reader.existing(), rows, self._reader.row_count)

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        found = BitMap()
        parts = self._reader.parts
        for sign, part in parts if largest else parts[::-1]:
            if len(found) >= n:
                break
            mine, most = _within(part.existing(), rows), part.high - part.low
            found |= best_rows(part, mine, n - len(found), largest=largest == (sign > 0), ties=ties, most=most)
        if not keys:
            return found, None
        positions = np.asarray(found.to_array(), np.uint32)
        values = np.zeros(len(positions), np.int64)
        for sign, part in parts:
            here = part.existing() & found
            places = np.searchsorted(positions, np.asarray(here.to_array(), np.uint32))
            values[places] = sign * (slice_values(part, here).astype(np.int64) + part.low)
        return found, arrow_array(values)

    def counts(self, rows: BitMap | None) -> Counts | None:
        keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for sign, part in self._reader.parts:
            counted = _slice_counts(part, rows, 1 << part.count <= _FEW_VALUES, self._reader.row_count)
            if counted is None:
                return None
            keys.append(sign * (counted[0] + part.low))
            counts.append(counted[1])
        every = np.concatenate(counts)
        _check_counts(self._reader.source, self._reader.row_count, every, rows)
        return arrow_array(np.concatenate(keys)), every

    def total(self, rows: BitMap | None) -> int | None:
        result = 0
        for sign, part in self._reader.parts:
            existing = _within(part.existing(), rows)
            result += sign * (slice_total(part, existing) + part.low * len(existing))
        return result


class _BitmapColumn(IndexedColumn):
    def __init__(self, reader: BitmapReader, codec: KeyCodec) -> None:
        self._reader = reader
        self._codec = codec

    def nulls(self, rows: BitMap | None) -> BitMap:
        return _within(self._reader.null_rows(), rows)

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        """Values are walked from their best end, many at a time while none is met."""
        found = BitMap()
        positions, best_keys = [np.zeros(0, np.uint32)], []
        for key, place in self._entries_in_order(rows, largest):
            need = n - len(found)
            if need <= 0:
                break
            members = _within(self._reader.union([place]), rows)
            members = members if ties else first_of(members, need)
            found |= members
            if keys:
                positions.append(np.asarray(members.to_array(), np.uint32))
                best_keys.append(self._array([key]).take(arrow_array(np.zeros(len(members), np.int64))))
        if not keys:
            return found, None
        order = np.argsort(np.concatenate(positions), kind="stable")
        return found, pa.concat_arrays([self._array([]), *best_keys]).take(arrow_array(order))

    def _entries_in_order(self, rows: BitMap | None, largest: bool) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Keys from best to worst with the places of their bitmaps; stretches without one of ``rows`` are left out."""
        at_once = 1
        blocks = range(self._reader.block_count)
        for number in reversed(blocks) if largest else blocks:
            block = self._reader.load_blocks([number])[0]
            entries = list(zip(block.offsets.tolist(), block.lengths.tolist(), strict=True))
            order = list(range(len(entries)))[:: -1 if largest else 1]
            done = 0
            while done < len(order):
                part = order[done : done + at_once]
                done += len(part)
                if rows is not None and not self._reader.union([entries[i] for i in part]) & rows:
                    at_once = min(2 * at_once, _MOST_AT_ONCE)
                    continue
                yield from ((block.keys[i], entries[i]) for i in part)

    def counts(self, rows: BitMap | None) -> Counts | None:
        blocks = self._reader.load_blocks(range(self._reader.block_count))
        offsets = np.concatenate([np.zeros(0, np.int64), *(b.offsets for b in blocks)])
        lengths = np.concatenate([np.zeros(0, np.int64), *(b.lengths for b in blocks)])
        many, single = np.flatnonzero(offsets >= 0), np.flatnonzero(offsets < 0)
        if len(many) > _MANY_BITMAPS:
            return None
        counts = np.zeros(len(offsets), np.int64)
        if len(single):  # values of one row, whose position stands in the dictionary
            live = _within(self._reader.union([(offset, -1) for offset in offsets[single].tolist()]), rows)
            counts[single] = np.isin(-1 - offsets[single], np.asarray(live.to_array(), np.int64))
        for start in range(0, len(many), _BITMAPS_AT_ONCE):
            part = many[start : start + _BITMAPS_AT_ONCE]
            places = list(zip(offsets[part].tolist(), lengths[part].tolist(), strict=True))
            bitmaps = self._reader.read_bitmaps(places)
            counts[part] = [len(b) if rows is None else b.intersection_cardinality(rows) for b in bitmaps]
        _check_counts(self._reader.source, self._reader.row_count, counts, rows)
        keys = pa.concat_arrays([self._array([]), *(self._array(b.keys) for b in blocks)])
        present = np.flatnonzero(counts)
        return keys.take(arrow_array(present)), counts[present]

    def _array(self, keys: Any) -> pa.Array:
        return _key_array(self._reader.source, self._codec, keys)
