"""What statistics say of a top n: the best and the worst first value that a file can have, and which files can matter.

Bounds that are not known say nothing: such files are never left out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from paimon_pyds.predicate.tree import Const
from paimon_pyds.query.top_n_rows import Rank, SortKey
from paimon_pyds.split import ColumnBounds, PlannedFile

__all__ = ["best_possible", "by_best_value", "files_that_matter"]


def best_possible(key: SortKey, bounds: ColumnBounds) -> Rank | None:
    """No row of the file comes before this; None when that is not known."""
    if bounds.constant:
        return key.rank(bounds.low)
    if key.column.nulls_first and bounds.nulls != 0:
        return key.rank(None)
    bound = bounds.high if key.column.descending else bounds.low
    return None if bound is None else key.rank(bound)


def worst_possible(key: SortKey, bounds: ColumnBounds) -> Rank | None:
    """No row of the file comes after this; None when that is not known."""
    if bounds.constant:
        return key.rank(bounds.low)
    if not key.column.nulls_first and bounds.nulls != 0:
        return key.rank(None)
    bound = bounds.low if key.column.descending else bounds.high
    return None if bound is None else key.rank(bound)


def _compare(a: Rank, b: Rank) -> int:
    """Below 0 when ``a`` comes before ``b``, 0 when they are beside each other."""
    return -1 if a.before(b) else int(b.before(a))


def by_best_value(key: SortKey, files: Sequence[PlannedFile]) -> list[int]:
    """Numbers of the files, from the best possible value to the worst; those not known come first."""
    ranks = [best_possible(key, file.bounds_of(key.column.name)) for file in files]

    def compare(a: int, b: int) -> int:
        x, y = ranks[a], ranks[b]
        if x is None or y is None:
            return (x is not None) - (y is not None)
        return _compare(x, y)

    return sorted(range(len(ranks)), key=functools.cmp_to_key(compare))


def files_that_matter(key: SortKey, files: Sequence[PlannedFile], n: int) -> tuple[PlannedFile, ...]:
    """The files that may hold one of the first ``n`` rows.

    Where the files with the best bounds have n rows for certain, files whose best possible value comes after all of
    theirs are left out. Rows count as certain where no filter and no deletion of unknown extent is in the way.
    """
    certain: list[tuple[Rank, int]] = []
    for file in files:
        worst = worst_possible(key, file.bounds_of(key.column.name))
        rows = _certain_rows(file)
        if worst is not None and rows:
            certain.append((worst, rows))
    by_rank = functools.cmp_to_key(_compare)
    certain.sort(key=lambda one: by_rank(one[0]))
    total = 0
    for worst, rows in certain:
        total += rows
        if total >= n:
            return tuple(file for file in files if not _after(key, file, worst))
    return tuple(files)


def _certain_rows(file: PlannedFile) -> int:
    return (file.live_row_count or 0) if file.residual is Const.TRUE else 0


def _after(key: SortKey, file: PlannedFile, rank: Rank) -> bool:
    best = best_possible(key, file.bounds_of(key.column.name))
    return best is not None and rank.before(best)
