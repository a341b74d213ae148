"""What an index can tell of a column as a whole: its best rows, its values with their counts, its sum.

All of it for some rows of the file only, too: those that a filter keeps and no deletion vector removes. An index that
would cost more than the column itself says so, and the column is read. Keys are those of `paimon_pyds.index.keys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.config import BITMAP, BSI, RANGE_BITMAP
from paimon_pyds.index.evaluate import FileIndex, supports_reading
from paimon_pyds.index.keys import KeyCodec, key_codec
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.index.slices import BitSlices, best_rows, first_of, slice_counts, slice_total, slice_values
from paimon_pyds.index.source import corrupt
from paimon_pyds.roaring.codec import decode_bitmap
from paimon_pyds.storage.base import ByteSource
from paimon_pyds.types import STRING_KINDS, DataType

__all__ = ["BitmapColumn", "COUNTING", "IndexedColumn", "ORDERING", "SUMMING", "index_columns", "text_keys", "weighed"]

_MANY_BITMAPS = 4_096
"""With more bitmaps than this, decoding the column costs less than looking at each."""
_AT_ONCE = 256
_MOST_AT_ONCE = 4_096


def check_counts(source: ByteSource, row_count: int, counts: npt.NDArray[np.int64], rows: BitMap | None) -> None:
    """A row has one value: raises CorruptFileError when values were counted more often than there are rows."""
    most = row_count if rows is None else len(rows)
    if counts.sum() > most:
        raise corrupt(source, f"{counts.sum()} values in {most} rows", field="bitmaps")


def text_keys(source: ByteSource, codec: KeyCodec, keys: pa.Array) -> pa.Array:
    """The keys; raises CorruptFileError when those of a column of strings are not UTF-8."""
    if codec.type.kind in STRING_KINDS:
        try:
            keys.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise corrupt(source, "a text that is not UTF-8", field="dictionary") from error
    return keys


@dataclass(frozen=True, slots=True)
class BitmapColumn:
    """A column as its bitmap index knows it."""

    reader: BitmapReader
    codec: KeyCodec

    def nulls(self, rows: BitMap | None) -> BitMap:
        """The rows that are NULL."""
        nulls = self.reader._null_rows()
        return nulls if rows is None else nulls & rows

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        """The rows of the best keys; values are walked from their best end, many at a time while none is met."""
        found = BitMap()
        positions, known = [np.zeros(0, np.uint32)], []
        for key, place in self._met(rows, largest):
            need = n - len(found)
            if need <= 0:
                break
            members = self.reader._union([place])
            members = members if rows is None else members & rows
            members = members if ties else first_of(members, need)
            found |= members
            if keys:
                positions.append(np.asarray(members.to_array(), np.uint32))
                known.append(self._array([key]).take(pa.array(np.zeros(len(members), np.int64))))
        if not keys:
            return found, None
        order = np.argsort(np.concatenate(positions), kind="stable")
        return found, pa.concat_arrays([self._array([]), *known]).take(pa.array(order))

    def _met(self, rows: BitMap | None, largest: bool) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Keys from best to worst with the places of their bitmaps; stretches without one of ``rows`` are left out."""
        at_once = 1
        blocks = range(self.reader.block_count)
        for number in reversed(blocks) if largest else blocks:
            block = self.reader._load_blocks([number])[0]
            entries = list(zip(block.offsets.tolist(), block.lengths.tolist(), strict=True))
            order = list(range(len(entries)))[:: -1 if largest else 1]
            done = 0
            while done < len(order):
                part = order[done : done + at_once]
                done += len(part)
                if rows is not None and not self.reader._union([entries[i] for i in part]) & rows:
                    at_once = min(2 * at_once, _MOST_AT_ONCE)
                    continue
                yield from ((block.keys[i], entries[i]) for i in part)

    def counts(self, rows: BitMap | None) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
        """Distinct keys and how often each occurs, NULLs left out; None where there are too many bitmaps."""
        blocks = self.reader._load_blocks(range(self.reader.block_count))
        offsets = np.concatenate([np.zeros(0, np.int64), *(b.offsets for b in blocks)])
        lengths = np.concatenate([np.zeros(0, np.int64), *(b.lengths for b in blocks)])
        many = np.flatnonzero(offsets >= 0)
        if len(many) > _MANY_BITMAPS:
            return None
        counts = np.zeros(len(offsets), np.int64)
        self._count_single(rows, offsets, counts)
        for start in range(0, len(many), _AT_ONCE):
            part = many[start : start + _AT_ONCE]
            counts[part] = self._cardinalities(rows, offsets[part].tolist(), lengths[part].tolist())
        check_counts(self.reader._source, self.reader.row_count, counts, rows)
        keys = pa.concat_arrays([self._array([]), *(self._array(b.keys) for b in blocks)])
        present = np.flatnonzero(counts)
        return keys.take(pa.array(present)), counts[present]

    def _count_single(self, rows: BitMap | None, offsets: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
        """Values of one row, whose position stands in the dictionary."""
        single = np.flatnonzero(offsets < 0)
        if not len(single):
            return
        positions = -1 - offsets[single]
        members = self.reader._union([(int(o), -1) for o in offsets[single].tolist()])  # checks them, too
        live = members if rows is None else members & rows
        counts[single] = np.isin(positions, np.asarray(live.to_array(), np.int64))

    def _cardinalities(self, rows: BitMap | None, offsets: Sequence[int], lengths: Sequence[int]) -> list[int]:
        reader = self.reader
        places = [(o, n if n >= 0 else reader._measure(o)) for o, n in zip(offsets, lengths, strict=True)]
        found = []
        for (offset, _), data in zip(places, reader._body.read_many(places), strict=True):
            origin = reader._body.origin + offset
            bitmap = decode_bitmap(data, row_count=reader.row_count, path=reader._source.name, origin=origin)
            found.append(len(bitmap) if rows is None else bitmap.intersection_cardinality(rows))
        return found

    def total(self, rows: BitMap | None) -> int | None:
        """The sum of the keys, 0 without any; None where there are too many bitmaps."""
        return weighed(self.counts(rows))

    def _array(self, keys: Any) -> pa.Array:
        made = pa.array(keys, pa.binary() if self.codec.is_binary else pa.int64())
        return text_keys(self.reader._source, self.codec, made)


def weighed(counts: tuple[pa.Array, npt.NDArray[np.int64]] | None) -> int | None:
    """The sum of keys that occur so often; None for None."""
    if counts is None:
        return None
    pairs = zip(counts[0].to_pylist(), counts[1].tolist(), strict=True)
    return sum(int(key) * int(count) for key, count in pairs)


ORDERING = (RANGE_BITMAP, BSI, BITMAP)
"""Index types by what they cost for a top n or a minimum, cheapest first."""
COUNTING = (BITMAP, RANGE_BITMAP, BSI)
SUMMING = (BSI, BITMAP, RANGE_BITMAP)

_FEW_VALUES = 1_024
"""So many distinct values are counted by halving sets of rows; beyond, decoding the column costs less."""
_FEW_ROWS = 64
"""Values of every 64th row, and of fewer, are put together from bit slices; beyond, decoding the column costs less."""

Counts: TypeAlias = "tuple[pa.Array, npt.NDArray[np.int64]]"


class IndexedColumn(Protocol):
    """A column as one of its indexes knows it. ``rows`` are positions in the file; None is all of them."""

    def nulls(self, rows: BitMap | None) -> BitMap:
        """The rows that are NULL."""

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

    def counts(self, rows: BitMap | None) -> Counts | None:
        """Distinct keys and how often each occurs, NULLs left out; None where reading the column costs less."""

    def total(self, rows: BitMap | None) -> int | None:
        """The sum of the keys, 0 without any; None where reading the column costs less."""


def index_columns(
    index: FileIndex, column: str, type_: DataType, wanted: tuple[str, ...], row_count: int
) -> list[IndexedColumn]:
    """The column's indexes of the wanted types, in that order, that can tell more than single answers.

    Raises:
        CorruptFileError: an index is damaged, or is of a file with another number of rows.
    """
    found: list[IndexedColumn] = []
    for index_type in wanted:
        if not supports_reading(index_type, type_):
            continue
        reader = index.reader(column, index_type, type_)
        if reader is not None and reader.row_count != row_count:
            message = f"the {index_type} index of {column} is of {reader.row_count} rows, the file has {row_count}"
            raise CorruptFileError(message, path=index.name, field="row count", hint="rebuild the file index")
        if isinstance(reader, RangeBitmapReader):
            found.append(_RangeBitmapColumn(reader))
        elif isinstance(reader, BsiReader):
            found.append(_BsiColumn(reader))
        elif isinstance(reader, BitmapReader):
            found.append(BitmapColumn(reader, key_codec(type_)))
    return found


def _within(existing: BitMap, rows: BitMap | None) -> BitMap:
    return existing if rows is None else existing & rows


def _absent(existing: BitMap, rows: BitMap | None, row_count: int) -> BitMap:
    return existing.flip(0, row_count) if rows is None else rows - existing


@dataclass(frozen=True, slots=True)
class _RangeBitmapColumn:
    reader: RangeBitmapReader

    def nulls(self, rows: BitMap | None) -> BitMap:
        return _absent(self.reader._existing(), rows, self.reader.row_count)

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        if not self.reader.cardinality:
            return BitMap(), self._keys(np.zeros(0, np.int64)) if keys else None
        slices = self.reader._slices
        existing, most = _within(self.reader._existing(), rows), self.reader.cardinality - 1
        found = best_rows(slices, existing, n, largest=largest, ties=ties, most=most)
        return found, self._keys(slice_values(slices, found).astype(np.int64)) if keys else None

    def counts(self, rows: BitMap | None) -> Counts | None:
        if not self.reader.cardinality:
            return self._keys(np.zeros(0, np.int64)), np.zeros(0, np.int64)
        existing = _within(self.reader._existing(), rows)
        if self.reader.cardinality <= _FEW_VALUES:
            codes, counts = slice_counts(self.reader._slices, existing)
        elif len(existing) <= self.reader.row_count // _FEW_ROWS:
            codes, counts = np.unique(slice_values(self.reader._slices, existing), return_counts=True)
        else:
            return None
        return self._keys(codes.astype(np.int64)), counts.astype(np.int64)

    def total(self, rows: BitMap | None) -> int | None:
        return weighed(self.counts(rows))

    def _keys(self, codes: npt.NDArray[np.int64]) -> pa.Array:
        if len(codes) and int(codes.max()) >= self.reader.cardinality:
            message = f"code {int(codes.max())} of a row in a dictionary of {self.reader.cardinality} values"
            raise corrupt(self.reader._slices_window, message, field="slices")
        if not self.reader.cardinality:
            return pa.array([], pa.binary() if self.reader._codec.is_binary else pa.int64())
        return text_keys(self.reader._slices_window, self.reader._codec, self.reader._dictionary.keys_at(codes))


@dataclass(frozen=True, slots=True)
class _BsiColumn:
    reader: BsiReader

    def _parts(self) -> list[tuple[int, int, BitSlices, int]]:
        """Sign, what is added to the absolute value, slices and their largest value: positive ones first."""
        both = ((1, self.reader._positive), (-1, self.reader._negative))
        return [(sign, part.low, part, part.high - part.low) for sign, part in both if part is not None]

    def nulls(self, rows: BitMap | None) -> BitMap:
        return _absent(self.reader._existing(), rows, self.reader.row_count)

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        found = BitMap()
        parts = self._parts()
        for sign, _, part, most in parts if largest else parts[::-1]:
            if len(found) >= n:
                break
            mine = _within(part.existing(), rows)
            found |= best_rows(part, mine, n - len(found), largest=largest == (sign > 0), ties=ties, most=most)
        if not keys:
            return found, None
        positions = np.asarray(found.to_array(), np.uint32)
        known = np.zeros(len(positions), np.int64)
        for sign, low, part, _ in parts:
            here = part.existing() & found
            values = sign * (slice_values(part, here).astype(np.int64) + low)
            known[np.searchsorted(positions, np.asarray(here.to_array(), np.uint32))] = values
        return found, pa.array(known)

    def counts(self, rows: BitMap | None) -> Counts | None:
        keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for sign, low, part, _ in self._parts():
            existing = _within(part.existing(), rows)
            if 1 << part.count <= _FEW_VALUES:
                values, found = slice_counts(part, existing)
            elif len(existing) <= self.reader.row_count // _FEW_ROWS:
                values, found = np.unique(slice_values(part, existing), return_counts=True)
            else:
                return None
            keys.append(sign * (values.astype(np.int64) + low))
            counts.append(found.astype(np.int64))
        signed = self.reader._positive or self.reader._negative
        if signed is not None:
            check_counts(signed._source, self.reader.row_count, np.concatenate(counts), rows)
        return pa.array(np.concatenate(keys)), np.concatenate(counts)

    def total(self, rows: BitMap | None) -> int | None:
        result = 0
        for sign, low, part, _ in self._parts():
            existing = _within(part.existing(), rows)
            result += sign * (slice_total(part, existing) + low * len(existing))
        return result
