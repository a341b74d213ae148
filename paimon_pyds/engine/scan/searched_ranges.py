"""Which rows of a table the indexes of a search know as they are now. All others have to be read.

An index may begin or end within a data file, as Java and pypaimon build one for a number of rows each
(``global-index.row-count-per-shard``); a file whose rows are not all in indexes is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.engine.scan.global_index import RowGroups, index_of, ranges_of, type_of
from paimon_pyds.engine.scan.planned_files import index_file_paths
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.storage.byte_source import FileSource

if TYPE_CHECKING:
    from paimon_pyds.engine.scan.plan import Planner


class IndexedRange(NamedTuple):
    """One index file, and the rows that count in it.

    Attributes:
        first, last: the row ids that it covers, both included.
        spans: those of them that count, as first ids and ends behind the last; None for all.
    """

    entry: IndexEntry
    source: FileSource
    first: int
    last: int
    spans: tuple[Int64s, Int64s] | None

    @property
    def rows(self) -> int:
        """How many rows it covers."""
        return self.last - self.first + 1

    def among(self, matching: Int64s | None) -> Int64s | None:
        """The rows that count of those with these sorted ids, counted from the first one of the range. None for all.
        ``matching``: None for the rows with any id."""
        if matching is None:
            if self.spans is None:
                return None
            return np.concatenate([np.arange(start, end) for start, end in zip(*self.spans, strict=True)]) - self.first
        begin, end = np.searchsorted(matching, [self.first, self.last + 1])
        rows = matching[begin:end]
        if self.spans is not None:
            starts, ends = self.spans
            places = np.searchsorted(starts, rows, "right") - 1
            rows = rows[(places >= 0) & (rows < ends[np.maximum(places, 0)])]
        return rows - self.first


def searched_ranges(
    planner: Planner, entries: pa.RecordBatch, field_id: int, types: Sequence[str]
) -> tuple[list[IndexedRange], list[tuple[int, int]]]:
    """The indexes of a column that help a search, and the ranges of row ids, both ends included, that none covers.

    Args:
        planner: of the state that is searched.
        entries: as `with_row_groups` gives them.
        field_id: the column.
        types: of indexes, the best first.
    """
    groups = RowGroups(planner, entries)
    known = np.zeros(len(groups), np.int64)
    chosen: list[IndexEntry] = []
    found = ranges_of(planner.store.index_entries(planner.request.state.snapshot), types)
    if type_of(planner, field_id) is None:
        found = []
    for files in sorted(found, key=lambda files: types.index(files[0].index_type)):
        index = index_of(files[0])
        if index.index_field_id != field_id or index.extra_field_ids or len(files) > 1:
            continue
        inside = groups.inside(files[0])
        if not groups.has_all(files, inside) or (known + inside > groups.rows).any():
            continue
        known += np.where(groups.unchanged(files[0], field_id), inside, 0)
        chosen.append(files[0])
    covered = (known == groups.rows) & (groups.rows > 0) & (groups.first >= 0)
    left = ~covered & (groups.rows > 0)
    ranges = []
    for entry, path in zip(chosen, index_file_paths(planner.store, planner.schema, chosen), strict=True):
        index, inside = index_of(entry), groups.inside(entry)
        counted = np.flatnonzero(covered & (inside > 0))
        if not len(counted):
            continue
        first, end = index.row_range_start, index.row_range_end + 1
        counted = counted[np.argsort(groups.first[counted])]
        starts = np.maximum(groups.first[counted], first)
        spans = None if inside[counted].sum() == end - first else (starts, starts + inside[counted])
        source = FileSource(planner.store.io, path, entry.file_size, immutable=True)
        ranges.append(IndexedRange(entry, source, first, end - 1, spans))
    first_left = groups.first[left]
    return ranges, list(zip(first_left.tolist(), (first_left + groups.rows[left] - 1).tolist(), strict=True))
