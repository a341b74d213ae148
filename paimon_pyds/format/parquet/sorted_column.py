"""The positions of values in a sorted column, such as keys: found by the bounds of its pages, then within these.

In a column of integers or instants, only pages whose bounds enclose a value are decoded. All of these together are
sorted too, so that one binary search finds all values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.format import FoundRows
from paimon_pyds.format.parquet.column_pages import ColumnPages
from paimon_pyds.format.parquet.footer import Leaf
from paimon_pyds.format.parquet.page_index import ColumnIndex
from paimon_pyds.format.parquet.page_picks import PagePick, pick_whole_pages, places_of
from paimon_pyds.format.parquet.prune import orders_values
from paimon_pyds.format.parquet.source import ParquetSource, decoding

_WIDTHS = {1: 4, 2: 8}
"""Bytes of the physical types INT32 and INT64."""
_PASS_ROWS = 4_000_000
"""Rows of the pages that are decoded together."""


def find_values(source: ParquetSource, leaf: Leaf, field: DataField, values: pa.Array) -> FoundRows | None:
    """The rows of a sorted column that have one of some values. See `FormatReader.find`.

    ``field``: the same as a field of the table. ``values``: in ascending order, each once; none is NULL.
    """
    if leaf.physical not in _WIDTHS or not orders_values(leaf, field.type):
        return None
    if pa.types.is_decimal(values.type):
        return None
    wanted = _integers(values)
    pages = source.sorted_pages.get(leaf.index) or SortedPages.of(source, leaf)
    if pages is None:
        return None
    source.sorted_pages[leaf.index] = pages
    at = pages.of_values(wanted)
    source.counters.pages_total += len(pages.first_rows) - 1
    source.counters.pages_read += len(at)
    rows, numbers = [], []
    for part in _parts(at, pages.first_rows):
        picks = pages.picks(source, leaf, part)
        with decoding(source.path):
            stored = ColumnPages(picks, *source.read_joined([places_of(picks)])).values()
        if stored is None:
            return None
        found = np.frombuffer(stored, f"<i{_WIDTHS[leaf.physical]}").astype(np.int64, copy=False)
        if bool((found[1:] < found[:-1]).any()):
            return None
        low, high = np.searchsorted(found, wanted, "left"), np.searchsorted(found, wanted, "right")
        counts = high - low
        places = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        lengths = np.diff(pages.first_rows)[part]
        before = np.cumsum(lengths) - lengths
        page = np.searchsorted(before, places, "right") - 1
        rows.append(places - before[page] + pages.first_rows[part][page])
        numbers.append(np.repeat(np.arange(len(wanted)), counts))
    nothing = np.zeros(0, np.int64)
    return FoundRows(np.concatenate([nothing, *rows]), np.concatenate([nothing, *numbers]))


def _integers(values: pa.Array) -> Int64s:
    if not pa.types.is_integer(values.type):
        values = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
    return to_numpy(values).astype(np.int64, copy=False)


def _parts(pages: Int64s, first_rows: Int64s) -> Iterator[Int64s]:
    """The pages, in the groups that are decoded together."""
    rows = np.cumsum(np.diff(first_rows)[pages]) // _PASS_ROWS
    yield from np.split(pages, np.flatnonzero(np.diff(rows)) + 1) if len(pages) else ()


@dataclass(frozen=True, slots=True)
class SortedPages:
    """The pages of a sorted column in all row groups.

    Attributes:
        groups: how many pages come before each row group, and how many there are.
        first_rows: the number of the first row of each page in the file, then that of all rows.
        low, high: bounds of each page.
    """

    groups: Int64s
    first_rows: Int64s
    low: Int64s
    high: Int64s

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.groups, self.first_rows, self.low, self.high))

    @staticmethod
    def of(source: ParquetSource, leaf: Leaf) -> SortedPages | None:
        """None where a row group has no page index, or its bounds are not those of values that are sorted."""
        groups = source.footer.groups
        keys = [(group, leaf.index) for group in range(len(groups))]
        indexes, tables = source.bounds(keys), source.tables(keys)
        if not all(key in indexes for key in keys):
            return None
        width, bounds = _WIDTHS[leaf.physical], []
        for key in keys:
            ends = _bounds(indexes[key], width)
            if ends is None:
                return None
            bounds.append(ends)
        low, high = (np.concatenate([np.zeros(0, np.int64), *(ends[i] for ends in bounds)]) for i in (0, 1))
        if bool((low > high).any() or (low[1:] < high[:-1]).any()):
            return None
        starts = [tables[key].first_rows[:-1] + start for key, (start, _) in zip(keys, groups, strict=True)]
        first_rows = np.concatenate([*starts, [source.footer.row_count]])
        return SortedPages(np.cumsum([0, *map(len, starts)]), first_rows, low, high)

    def of_values(self, values: Int64s) -> Int64s:
        """The pages that may hold some of the values."""
        first, stop = np.searchsorted(self.high, values, "left"), np.searchsorted(self.low, values, "right")
        some = first < stop
        steps = np.zeros(len(self.low) + 1, np.int64)
        np.add.at(steps, first[some], 1)
        np.subtract.at(steps, stop[some], 1)
        return np.flatnonzero(np.cumsum(steps[:-1]))

    def picks(self, source: ParquetSource, leaf: Leaf, pages: Int64s) -> list[PagePick]:
        """Some pages; which rows of them are wanted is not said."""
        tables, found = source.tables(()), []
        edges = np.searchsorted(pages, self.groups).tolist()
        for group, (low, high) in enumerate(pairwise(edges)):
            if low < high:
                chunk = source.footer.chunk(group, leaf.index)
                at = pages[low:high] - self.groups[group]
                found.append(pick_whole_pages(leaf, chunk, tables[group, leaf.index], at, at[:0]))
        return found


def _bounds(index: ColumnIndex, width: int) -> tuple[Int64s, Int64s] | None:
    ends = []
    for values in (index.minima, index.maxima):
        if index.null_pages.any() or isinstance(values, list) or values.shape[1] != width:
            return None
        ends.append(np.frombuffer(values.tobytes(), f"<i{width}").astype(np.int64))
    return ends[0], ends[1]
