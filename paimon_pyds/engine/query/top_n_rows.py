"""The best rows seen so far, by their sort keys: what a top n keeps while it walks over files, in bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import pc, scalar, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.index.keys import Key, OrderCodec
from paimon_pyds.metadata.planned_file import ColumnBounds, PlannedFile
from paimon_pyds.metadata.split import sections
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.sql.text.order import SortColumn

_PENDING_ROWS = 1 << 13
"""Rows that are collected, at least, before the best are selected again: each selection sorts."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A sort column with the order keys of its type."""

    column: SortColumn
    codec: OrderCodec

    def rank(self, key: Key | None) -> Rank:
        """Where a value of the column stands."""
        return Rank(self.column, key)


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of a value in the order of a column; ``key`` is None for NULL."""

    column: SortColumn
    key: Any

    def before(self, other: Rank) -> bool:
        """Whether this comes before the other; False for a tie."""
        if self.key is None or other.key is None:
            if self.key is None and other.key is None:
                return False
            return (self.key is None) == self.column.nulls_first
        return bool(self.key > other.key) if self.column.descending else bool(self.key < other.key)


class BestRows:
    """Keeps the ``n`` best of the rows given, each known by its file's number and its position there.

    Rows that tie with the worst of them stay only while there is room for them.
    """

    def __init__(self, keys: Sequence[SortKey], n: int) -> None:
        self._keys = keys
        self._n = n
        self._parts: list[pa.Table] = []
        self._rows = 0
        self.worst: Rank | None = None
        """What the first sort column has in the last of n rows; None while there are fewer."""

    def add(self, keys: Sequence[pa.Array], file: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Take rows in.

        ``keys``: order keys, one array a sort column. ``file``: number of their file. ``rows``: their positions.

        Returns:
            The positions of those that may be among the best.
        """
        columns: dict[str, Any] = {}
        for i, array in enumerate(keys):
            columns[f"n{i}"] = pc.is_null(array).cast(pa.int8())  # booleans don't sort everywhere
            columns[f"k{i}"] = array
        columns["file"] = arrow_array(np.full(len(rows), file, np.int64))
        columns["row"] = arrow_array(rows)
        part = pa.table(columns)
        if self.worst is not None:
            part = part.filter(self._may_enter(part))
        entered: npt.NDArray[np.int64] = to_numpy(part.column("row"))
        if not len(entered):
            return entered
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows >= self._n + max(self._n, _PENDING_ROWS) or (self.worst is None and self._rows >= self._n):
            self._compact()
        return entered

    def _may_enter(self, part: pa.Table) -> Any:
        """Rows whose first key is better than the worst one so far, or equal if other columns decide."""
        assert self.worst is not None
        column, key, ties = self.worst.column, self.worst.key, len(self._keys) > 1
        is_null, values = pc.equal(part.column("n0"), 1), part.column("k0")
        if key is None:
            others = scalar(not column.nulls_first)
            return pc.if_else(is_null, scalar(ties), others)
        compare = {
            (True, True): pc.greater_equal, (True, False): pc.greater,
            (False, True): pc.less_equal, (False, False): pc.less,
        }[column.descending, ties]  # fmt: skip
        return pc.fill_null(compare(values, self._scalar(key, values.type)), column.nulls_first)

    def _scalar(self, key: Key, type_: pa.DataType) -> pa.Scalar:
        codec = self._keys[0].codec
        return codec.array(codec.values([key]))[0] if codec.codec is None else scalar(key, type_)

    def _compact(self) -> None:
        whole = pa.concat_tables(self._parts)
        order = []
        for i, key in enumerate(self._keys):
            order.append((f"n{i}", "descending" if key.column.nulls_first else "ascending"))
            order.append((f"k{i}", "descending" if key.column.descending else "ascending"))
        order += [("file", "ascending"), ("row", "ascending")]
        best = whole.take(pc.sort_indices(whole, order).slice(0, self._n))
        self._parts, self._rows = [best], best.num_rows
        if best.num_rows == self._n:
            last = best.column("k0").slice(self._n - 1)
            self.worst = self._keys[0].rank(self._python(last))

    def _python(self, one: pa.ChunkedArray) -> Any:
        codec = self._keys[0].codec
        return codec.keys(one.combine_chunks())[0] if codec.codec is None else one[0].as_py()

    def result(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """File numbers and positions of the best rows, in order."""
        if self._parts:
            self._compact()
            best = self._parts[0]
            return to_numpy(best.column("file")), to_numpy(best.column("row"))
        return np.zeros(0, np.int64), np.zeros(0, np.int64)


def best_possible(key: SortKey, bounds: ColumnBounds) -> Rank | None:
    """No row of the file comes before this; None when that is not known."""
    return _extreme(key, bounds, first=True)


def _extreme(key: SortKey, bounds: ColumnBounds, *, first: bool) -> Rank | None:
    """No row of the file comes before this (``first``), or after it; None when that is not known."""
    if bounds.constant:
        return key.rank(bounds.low)
    if key.column.nulls_first == first and bounds.nulls != 0:
        return key.rank(None)
    bound = bounds.high if key.column.descending == first else bounds.low
    return None if bound is None else key.rank(bound)


def _compare(a: Rank, b: Rank) -> int:
    """Below 0 if ``a`` comes before ``b``, 0 for a tie."""
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
    theirs are left out. Rows count as certain where no filter and no deletion of unknown extent is in the way. Files
    that are merged with one another are left out together.
    """
    certain: list[tuple[Rank, int]] = []
    for file in files:
        worst = _extreme(key, file.bounds_of(key.column.name), first=False)
        rows = (file.live_row_count or 0) if file.residual is Const.TRUE else 0
        if worst is not None and rows:
            certain.append((worst, rows))
    by_rank = functools.cmp_to_key(_compare)
    certain.sort(key=lambda one: by_rank(one[0]))
    total = 0
    for worst, rows in certain:
        total += rows
        if total >= n:
            return tuple(
                file
                for section in sections(files)
                if not all(_after(key, file, worst) for file in section)
                for file in section
            )
    return tuple(files)


def _after(key: SortKey, file: PlannedFile, rank: Rank) -> bool:
    best = best_possible(key, file.bounds_of(key.column.name))
    return best is not None and rank.before(best)
