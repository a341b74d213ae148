"""Pruning by statistics: what a predicate can say of many files at once from their minima, maxima and null counts.

What the bounds of a column say to one leaf is in `column_stats`; here the tree is walked.

Law: what `may_match` keeps is a superset of what `exact.matches` keeps; what `always_true` says holds for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import to_numpy
from paimon_pyds.predicate.column_stats import ColumnBounds, ColumnStats, Mask, is_nan
from paimon_pyds.predicate.tree import And, ColumnRef, Computed, Const, Leaf, Op, Or, Predicate
from paimon_pyds.types import FLOAT_KINDS

__all__ = ["ColumnStats", "StatisticsEvaluation", "always_true", "may_match"]

StatsOf: TypeAlias = "Callable[[ColumnRef], ColumnStats | None]"


def may_match(predicate: Predicate, row_counts: pa.Array, stats_of: StatsOf) -> Mask:
    """Whether a file may hold a row that the predicate is true for, per file.

    Args:
        predicate: bound.
        row_counts: number of rows of each file.
        stats_of: statistics of a column, asked once per column; None when there are none.
    """
    return StatisticsEvaluation(row_counts, stats_of).may(predicate)


def always_true(predicate: Predicate, row_counts: pa.Array, stats_of: StatsOf) -> Mask:
    """Whether the predicate is surely true for every row of a file, per file; false where that is not certain.

    The arguments are those of `may_match`. A file without rows counts as one where it is true.
    """
    return StatisticsEvaluation(row_counts, stats_of).always(predicate)


class StatisticsEvaluation:
    """Predicates over many files, whose statistics are taken apart once: see `may_match` and `always_true`."""

    def __init__(self, row_counts: pa.Array, stats_of: StatsOf) -> None:
        self._files = len(row_counts)
        self._rows = np.asarray(to_numpy(row_counts), np.int64)
        self._stats_of = stats_of
        self._stats: dict[ColumnRef, ColumnStats | None] = {}
        self._columns: dict[tuple[ColumnRef, bool], ColumnBounds | None] = {}

    def _column(self, ref: ColumnRef, plain: bool = False) -> ColumnBounds | None:
        if (ref, plain) not in self._columns:
            if ref not in self._stats:
                self._stats[ref] = self._stats_of(ref)
            stats = self._stats[ref]
            self._columns[ref, plain] = None if stats is None else ColumnBounds(stats, ref, self._rows, plain)
        return self._columns[ref, plain]

    def _all(self, value: bool) -> Mask:
        return np.full(self._files, value)

    def _empty(self) -> Mask:
        return np.equal(self._rows, 0)

    def may(self, predicate: Predicate) -> Mask:
        """What `may_match` gives."""
        match predicate:
            case Leaf():
                return self._may_leaf(predicate)
            case And(children):
                plain = {c.column for c in children if isinstance(c, Leaf) and _rules_out_nan(c)}
                return self._fold(np.logical_and, (self._may_within(c, plain) for c in children), True)
            case Or(children):
                return self._fold(np.logical_or, map(self.may, children), False)
        return self._all(predicate is Const.TRUE or isinstance(predicate, Computed))

    def _may_within(self, child: Predicate, plain: Set[ColumnRef]) -> Mask:
        """A part of an AND whose rows hold no NaN in the ``plain`` columns."""
        return self._may_leaf(child, child.column in plain) if isinstance(child, Leaf) else self.may(child)

    def _may_leaf(self, leaf: Leaf, plain: bool = False) -> Mask:
        column = self._column(leaf.column, plain)
        return self._all(True) if column is None else column.may(leaf)

    def always(self, predicate: Predicate) -> Mask:
        """What `always_true` gives."""
        match predicate:
            case Leaf():
                column = self._column(predicate.column)
                return self._empty() if column is None else column.always(predicate)
            case And(children):
                return self._fold(np.logical_and, map(self.always, children), True)
            case Or(children):
                return self._fold(np.logical_or, map(self.always, children), False)
        return self._all(True) if predicate is Const.TRUE else self._empty()

    def _fold(self, combine: np.ufunc, parts: Iterable[Mask], start: bool) -> Mask:
        found = self._all(start)
        for part in parts:
            combine(found, part, out=found)
            if not np.any(found == start):
                break  # nothing that follows changes it
        return found


def _rules_out_nan(leaf: Leaf) -> bool:
    """Whether no NaN satisfies a comparison of a column of floats."""
    if leaf.column.type is None or leaf.column.type.kind not in FLOAT_KINDS or not leaf.literals:
        return False
    return leaf.op is Op.LT or (leaf.op in (Op.LE, Op.EQ, Op.IN) and not any(map(is_nan, leaf.literals)))
