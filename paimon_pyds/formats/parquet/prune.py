"""Which rows of a file may match a predicate, by the statistics of its row groups and pages.

The predicate is evaluated by `predicate.prune`, first on the row groups; then, for those that are left, each test on
the pages of its own column, and the rows of the pages are joined by AND and OR. What is kept is a superset of what
matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.formats.parquet.bounds import RawBounds, chunk_bounds, column_stats, comparable, page_bounds
from paimon_pyds.formats.parquet.footer import Leaf
from paimon_pyds.formats.parquet.source import ParquetSource
from paimon_pyds.predicate.prune import ColumnStats, StatisticsEvaluation, may_match
from paimon_pyds.predicate.tree import And, ColumnRef, Const, Op, Or, Predicate, leaves
from paimon_pyds.predicate.tree import Leaf as Test
from paimon_pyds.selection import RowSelection

__all__ = ["prune"]

_FEW_ROWS = 64
"""Where fewer rows than this are at stake in a row group, reading their pages costs less than the page index."""
_MOST_OF_A_GROUP = 0.8
"""A row group of which more than this is kept is kept whole: it is decoded whole anyway."""
_MOST_ROWS = 1 << 32


def prune(source: ParquetSource, predicate: Predicate, within: RowSelection) -> RowSelection:
    """Rows that may match; ALL when nothing can be said. ``within``: rows that matter at all."""
    footer = source.footer
    if footer.row_count > _MOST_ROWS:  # a selection counts in 32 bits
        return RowSelection.ALL
    columns = _known_columns(source, predicate)
    if not columns and not isinstance(predicate, Const):
        return RowSelection.ALL
    filled = [(g, start, stop) for g, (start, stop) in enumerate(footer.groups) if start < stop]
    kept = _prune_groups(source, predicate, columns, [g for g, _, _ in filled])
    alive = [bounds for bounds, keep in zip(filled, kept.tolist(), strict=True) if keep]
    fine = [b for b in alive if within.is_all or within.window(b[1], b[2]).count(b[2] - b[1]) >= _FEW_ROWS]
    by_pages = _prune_pages(source, predicate, columns, fine)
    rows, whole = BitMap(), len(alive) == len(filled)
    for group, start, stop in alive:
        inside = by_pages & BitMap(range(start, stop)) if (group, start, stop) in fine else None
        if inside is None or len(inside) > (stop - start) * _MOST_OF_A_GROUP:
            rows.add_range(start, stop)
        else:
            rows |= inside
            whole = False
    return RowSelection.ALL if whole else RowSelection.from_bitmap(rows)


def _known_columns(source: ParquetSource, predicate: Predicate) -> dict[ColumnRef, Leaf]:
    """The predicate's columns whose statistics say something."""
    footer = source.footer
    found: dict[ColumnRef, Leaf] = {}
    for test in leaves(predicate, every=False):
        column = test.column
        numbers = footer.columns.get(column.name)
        if numbers is None or column.path or column.type is None or len(numbers) != 1:
            continue
        leaf = footer.leaves[numbers[0]]
        if leaf.flat and (comparable(leaf, column.type) or test.op in (Op.IS_NULL, Op.IS_NOT_NULL)):
            found[column] = leaf
    return found


def _prune_groups(
    source: ParquetSource, predicate: Predicate, columns: dict[ColumnRef, Leaf], groups: Sequence[int]
) -> npt.NDArray[np.bool_]:
    """Which row groups may hold a match."""
    footer = source.footer

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        leaf = columns.get(column)
        if leaf is None:
            return None
        return column_stats(leaf, column.type, chunk_bounds(leaf, [footer.chunk(g, leaf.index) for g in groups]))

    rows = pa.array([footer.groups[g][1] - footer.groups[g][0] for g in groups], pa.int64())
    return may_match(predicate, rows, stats_of)


def _prune_pages(
    source: ParquetSource,
    predicate: Predicate,
    columns: dict[ColumnRef, Leaf],
    groups: Sequence[tuple[int, int, int]],
) -> BitMap:
    """The rows of these row groups that their pages leave."""
    everything = BitMap()
    for _, start, stop in groups:
        everything.add_range(start, stop)
    indexes = source.bounds((g, leaf.index) for g, _, _ in groups for leaf in columns.values())
    if not any((g, leaf.index) in indexes for g, _, _ in groups for leaf in columns.values()):
        return everything

    pages = {column: _pages(source, column, leaf, groups) for column, leaf in columns.items()}

    def rows_of(part: Predicate) -> BitMap:
        if isinstance(part, Or) and part.ranges is not None and part.ranges.column in pages:
            return everything & pages[part.ranges.column].rows_of(part)
        if isinstance(part, Test):
            return everything & pages[part.column].rows_of(part) if part.column in pages else everything
        if isinstance(part, And):
            found = everything
            for child in part.children:
                found = found & rows_of(child)
                if not found:
                    break
            return found
        if isinstance(part, Or):
            return BitMap.union(BitMap(), *(rows_of(child) for child in part.children))
        return BitMap() if part in (Const.FALSE, Const.UNKNOWN) else everything

    return rows_of(predicate)


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of one column in some row groups: what their statistics say, where they start and stop."""

    statistics: StatisticsEvaluation
    starts: list[int]
    stops: list[int]

    def rows_of(self, test: Predicate) -> BitMap:
        """The rows in pages where a test of the column may be true."""
        mask = self.statistics.may(test)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
        kept = BitMap()
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            kept.add_range(self.starts[low], self.stops[high - 1])
        return kept


def _pages(source: ParquetSource, column: ColumnRef, leaf: Leaf, groups: Sequence[tuple[int, int, int]]) -> _Pages:
    """The pages of a column; a chunk without page index counts as one page."""
    tables, indexes = source.tables(()), source.bounds(())
    bounds = RawBounds([], [], [], [])
    starts: list[int] = []
    for group, start, stop in groups:
        index = indexes.get((group, leaf.index))
        if index is None:
            starts.append(start)
            bounds.extend(RawBounds([None], [None], [-1], [stop - start]))
            continue
        first_rows = (tables[group, leaf.index].first_rows + start).tolist()
        starts += first_rows[:-1]
        bounds.extend(page_bounds(leaf, index, [b - a for a, b in pairwise(first_rows)]))
    stops = [start + rows for start, rows in zip(starts, bounds.rows, strict=True)]
    stats = column_stats(leaf, column.type, bounds)
    return _Pages(StatisticsEvaluation(stats.row_count, lambda _: stats), starts, stops)
