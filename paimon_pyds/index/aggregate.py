"""What an index can tell of a column as a whole: its best rows, its values with their counts, its sum.

All of it for some rows of the file only, too: those that a filter keeps and no deletion vector removes. An index that
would cost more than the column itself says so, and the column is read. Keys are those of `paimon_pyds.index.keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.bitmap.aggregate import BitmapColumn, check_counts, text_keys, weighed
from paimon_pyds.index.bitmap.reader import BitmapReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.config import BITMAP, BSI, RANGE_BITMAP
from paimon_pyds.index.evaluate import FileIndex, supports_reading
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.range_bitmap.reader import RangeBitmapReader
from paimon_pyds.index.slices.aggregate import best_rows, slice_counts, slice_total, slice_values
from paimon_pyds.index.slices.slices import BitSlices
from paimon_pyds.index.source import corrupt
from paimon_pyds.types import DataType

__all__ = ["COUNTING", "ORDERING", "SUMMING", "IndexedColumn", "index_columns"]

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
