"""Pruning by statistics: what a predicate can say of many files at once from their minima, maxima and null counts.

Law: what `may_match` keeps is a superset of what `exact.matches` keeps; what `always_true` says holds for every row.

The rules hold for the statistics of manifests (specification: Paimon documentation, concepts/spec/manifest,
SimpleStats) and of partitions:

* A null minimum or maximum says nothing; that all values are null is said by the null count equal to the row count.
* Minima and maxima of texts may be cut short (``metadata.stats-mode`` truncate): they bound, but need not occur.
* Floats are ordered as Java's ``Double.compare`` does: NaN is greatest, and -0.0 is less than 0.0. In filters both
  zeros are equal, so bounds are compared as numbers. Some writers leave NaN out of bounds: any bounds may then hide a
  NaN, unless another part of an AND rules it out.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import scalar_to_internal
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, STRING_KINDS, Kind
from paimon_pyds.sql.predicate.tree import (
    OPPOSITE,
    Among,
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    Op,
    Or,
    Predicate,
    Ranges,
)

_TEXT_KINDS = STRING_KINDS | BINARY_KINDS
_FEW_VALUES = 16
"""Values of an IN list up to which they are compared one by one."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column in many files, one entry per file.

    Attributes:
        min: lower bound of the values that are not null, of the column's Arrow type; null where not known.
        max: upper bound, likewise.
        null_count: number of nulls; null where not known.
        row_count: number of rows.
        unknown: where true, ``min`` and ``max`` say nothing about that file.
        exact: bounds of texts and bytes are values that occur. Bounds of other types are taken to be.
        nan_counted: NaN counts as the greatest value. False when bounds leave NaN out, as Parquet's own statistics do;
            may differ from file to file.
    """

    min: pa.Array
    max: pa.Array
    null_count: pa.Array
    row_count: pa.Array
    unknown: Flags | None = None
    exact: bool = False
    nan_counted: bool | Flags = True


class ColumnBounds:
    """The statistics of one column, with what its leaves share; ``plain``: for rows that are not NaN."""

    def __init__(self, stats: ColumnStats, ref: ColumnRef, rows: Int64s, plain: bool = False) -> None:
        assert ref.type is not None
        kind = ref.type.kind
        self._min = stats.min
        self._max = stats.max
        self._rows = rows
        self._type = ref.type
        self._float = kind in FLOAT_KINDS
        self._text = kind in _TEXT_KINDS
        # A bound that is the only value there is: for texts only when the bounds occur, for floats when NaN can't hide.
        counted = np.broadcast_to(np.asarray(stats.nan_counted, np.bool_), len(rows))
        self._tight = np.full(len(rows), stats.exact) if self._text else counted | (not self._float)
        self._hides_nan = ~counted & (not plain)
        given = ~stats.unknown if stats.unknown is not None else np.True_
        self._has_min = is_true(pc.is_valid(stats.min)) & given
        self._has_max = is_true(pc.is_valid(stats.max)) & given
        nulls = stats.null_count
        self._nulls_known = is_true(pc.is_valid(nulls))
        known = pc.fill_null(nulls, scalar(0, pa.int64())) if nulls.null_count else nulls
        self._nulls = np.asarray(to_numpy(known), np.int64)
        if self._float:
            self._min_nan, self._max_nan = is_true(pc.is_nan(stats.min)), is_true(pc.is_nan(stats.max))
            self._has_min &= counted | ~self._min_nan
            self._has_max &= counted | ~self._max_nan

    def may(self, leaf: Leaf) -> Flags:
        """Whether some row of a file may satisfy the leaf."""
        if leaf.op is Op.IS_NULL:
            return ~self._nulls_known | (self._nulls > 0)
        some_value = ~self._nulls_known | (self._nulls < self._rows)
        return some_value & self._may_value(leaf.op, leaf.literals)

    def _may_value(self, op: Op, literals: Sequence[Any]) -> Flags:
        """Whether some value that is not null may satisfy the leaf."""
        match op:
            case Op.EQ | Op.IN:
                return self._may_be_in(literals)
            case Op.NE | Op.NOT_IN:
                return ~self._only_in(literals)
            case Op.LT | Op.LE:
                return self._may_reach_down(literals[0], strictly=op is Op.LT)
            case Op.GT | Op.GE:
                return self._may_reach_up(literals[0], strictly=op is Op.GT)
            case Op.STARTS_WITH:
                return self._may_start_with(literals[0])
            case Op.LIKE:
                from paimon_pyds.sql.predicate.like import like_prefix

                return self._may_start_with(like_prefix(literals[0], literals[1]))
            case Op.NOT_STARTS_WITH:
                return ~self._all_start_with(literals[0])
        return np.ones(len(self._rows), bool)

    def _may_reach_down(self, value: Any, *, strictly: bool = False) -> Flags:
        """Some value may be ≤ (strictly: <) the literal."""
        if is_nan(value):
            # All is ≤ NaN; what is less than NaN is there unless the least value is NaN.
            return ~(self._has_min & self._min_nan) if strictly else np.ones(len(self._rows), bool)
        return ~self._has_min | self._compare(Op.LT if strictly else Op.LE, self._min, value)

    def _may_reach_up(self, value: Any, *, strictly: bool = False) -> Flags:
        """Some value may be ≥ (strictly: >) the literal."""
        if not self._float:
            return ~self._has_max | self._compare(Op.GT if strictly else Op.GE, self._max, value)
        if is_nan(value):
            return np.zeros(len(self._rows), bool) if strictly else self._may_hold_nan()
        return self._may_hold_nan() | self._compare(Op.GT if strictly else Op.GE, self._max, value)

    def _may_hold_nan(self) -> Flags:
        return self._hides_nan | ~self._has_max | self._max_nan

    def _may_be_in(self, literals: Sequence[Any]) -> Flags:
        if len(literals) <= _FEW_VALUES:
            found = np.zeros(len(self._rows), bool)
            for value in literals:
                found |= self._may_reach_down(value) & self._may_reach_up(value)
            return found
        if self._float and is_nan(literals[-1]):
            return self._may_be_in(literals[:-1]) | self._may_hold_nan()
        # Literals are sorted: between the least and the greatest first, then the first one from the minimum on.
        found = self._may_reach_up(literals[0]) & self._may_reach_down(literals[-1])
        bounded = np.flatnonzero(found & self._has_min & self._has_max)
        if self._float:
            bounded = bounded[~(self._min_nan | self._max_nan)[bounded]]
        if len(bounded):
            at = from_numpy(bounded)
            low, high = self._min.take(at), self._max.take(at)
            if len(bounded) * _FEW_VALUES < len(literals):
                with suppress(UnicodeDecodeError):  # bounds that are not UTF-8, as Java allows
                    ends = [tuple(map(scalar_to_internal, pair)) for pair in zip(low, high, strict=True)]
                    found[bounded] = [
                        bisect_left(literals, least) < bisect_right(literals, most) for least, most in ends
                    ]
                    return found
            values = array(literals, low.type)
            from paimon_pyds.sql.predicate.among import search_sorted

            place = search_sorted(values, low)
            reached = place < len(values)
            first = values.take(from_numpy(np.minimum(place, len(values) - 1)))
            found[bounded] = reached & is_true(pc.less_equal(first, high))
        return found

    def places(self, values: pa.Array) -> tuple[Int64s, Int64s]:
        """Of each file, which of the sorted values may be there: from the first place up to, without, the second."""
        low, high = np.zeros(len(self._rows), np.int64), np.full(len(self._rows), len(values))
        least, most = self._has_min.copy(), self._has_max.copy()
        if self._float:
            least &= ~self._min_nan
            most &= ~self._may_hold_nan() if is_nan(values[-1].as_py()) else ~self._max_nan
        from paimon_pyds.sql.predicate.among import search_sorted

        low[least] = search_sorted(values, self._min.filter(from_numpy(least)))
        high[most] = search_sorted(values, self._max.filter(from_numpy(most)), right=True)
        empty = self._nulls_known & (self._nulls >= self._rows)
        high[empty] = 0
        return low, high

    def is_single(self) -> Flags:
        """Whether all rows of a file have one value, its minimum."""
        equal = is_true(pc.equal(self._min, self._max))
        if self._float:
            equal |= self._min_nan & self._max_nan
        whole = self._nulls_known & np.equal(self._nulls, 0)
        return np.asarray(self._tight & self._has_min & self._has_max & whole & equal, np.bool_)

    @property
    def minimum(self) -> pa.Array:
        """The lower bound of each file."""
        return self._min

    def _may_start_with(self, prefix: str) -> Flags:
        if not prefix:
            return np.ones(len(self._rows), bool)
        successor = text_successor(prefix)
        found = self._may_reach_up(prefix)
        return found if successor is None else found & self._may_reach_down(successor, strictly=True)

    def _is_only(self, value: Any) -> Flags:
        """Every value that is not null equals the literal."""
        both = self._tight & self._has_min & self._has_max
        if is_nan(value):
            return both & self._min_nan
        return both & self._compare(Op.EQ, self._min, value) & self._compare(Op.EQ, self._max, value)

    def _only_in(self, literals: Sequence[Any]) -> Flags:
        """There is one value only, and it is among the literals."""
        if len(literals) <= _FEW_VALUES:
            found = np.zeros(len(self._rows), bool)
            for value in literals:
                found |= self._is_only(value)
            return found
        single = self._tight & self._has_min & self._has_max & is_true(pc.equal(self._min, self._max))
        plain = array([v for v in literals if not is_nan(v)], self._min.type)
        return single & is_true(pc.is_in(self._min, plain))

    def _all_start_with(self, prefix: str) -> Flags:
        """Both bounds start with the prefix, so all between them does, whether the bounds occur or not."""
        starts = is_true(pc.starts_with(self._min, pattern=prefix)) & is_true(pc.starts_with(self._max, pattern=prefix))
        return self._has_min & self._has_max & starts

    def _compare(self, op: Op, bounds: pa.Array, value: Any) -> Flags:
        return is_true(_KERNELS[op](bounds, scalar(value, bounds.type)))

    def may_lie_in(self, ranges: Ranges) -> Flags:
        """Whether some value may be in one of the ranges."""
        low, high = self._steps()
        first = np.searchsorted(ranges.high, low)
        inside = np.minimum(first, len(ranges.low) - 1)
        some_value = ~self._nulls_known | (self._nulls < self._rows)
        reached: Flags = (first < len(ranges.low)) & (ranges.low[inside] <= high)
        from paimon_pyds.sql.predicate.literal_bounds import domain

        if self._float and ranges.high[-1] == domain(self._type)[1]:
            reached |= self._may_hold_nan()
        return some_value & reached

    def always_lies_in(self, ranges: Ranges) -> Flags:
        """Whether surely all rows of a file are in one range."""
        low, high = self._steps()
        last = np.searchsorted(ranges.low, low, "right") - 1
        within = (last >= 0) & (high <= ranges.high[np.maximum(last, 0)])
        found: Flags = (
            self._nulls_known & np.equal(self._nulls, 0) & self._tight & self._has_min & self._has_max & within
        )
        return found | np.equal(self._rows, 0)

    def _steps(self) -> tuple[Int64s, Int64s]:
        """The bounds as steps; those that are not known are the ends of the type."""
        from paimon_pyds.sql.predicate.literal_bounds import domain, steps_of

        low, high = domain(self._type)
        least, greatest = steps_of(self._min), steps_of(self._max)
        return np.where(self._has_min, least, low), np.where(self._has_max, greatest, high)

    def always(self, leaf: Leaf) -> Flags:
        """Whether surely every row of a file satisfies the leaf."""
        found = self._nulls_known & np.equal(self._nulls, self._rows if leaf.op is Op.IS_NULL else 0)
        if leaf.op is not Op.IS_NULL:
            found &= self._always_value(leaf.op, leaf.literals)
        found |= np.equal(self._rows, 0)
        return found

    def _always_value(self, op: Op, literals: Sequence[Any]) -> Flags:
        if op is Op.IS_NOT_NULL:
            return np.ones(len(self._rows), bool)
        if not literals or not self._tight.any():
            return np.zeros(len(self._rows), bool)
        return self._tight & self._has_min & self._has_max & ~self._may_value(OPPOSITE[op], literals)


_KERNELS: dict[Op, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    Op.EQ: pc.equal, Op.LT: pc.less, Op.LE: pc.less_equal, Op.GT: pc.greater, Op.GE: pc.greater_equal,
}  # fmt: skip


def is_nan(value: Any) -> bool:
    """Whether an internal value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def text_successor(prefix: str) -> str | None:
    """The least text above all that start with the prefix; None if no text is above them."""
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are no characters


StatsOf: TypeAlias = "Callable[[ColumnRef], ColumnStats | None]"


def may_match(predicate: Predicate, row_counts: pa.Array, stats_of: StatsOf) -> Flags:
    """Whether a file may hold a row that the predicate is true for, per file.

    ``predicate``: bound. ``row_counts``: number of rows of each file. ``stats_of``: returns the statistics of a column,
    called once per column; None: it has no statistics.
    """
    return StatisticsEvaluation(row_counts, stats_of).may(predicate)


def always_true(predicate: Predicate, row_counts: pa.Array, stats_of: StatsOf) -> Flags:
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

    def _all(self, value: bool) -> Flags:
        return np.full(self._files, value)

    def may(self, predicate: Predicate) -> Flags:
        """What `may_match` gives."""
        match predicate:
            case Leaf():
                return self._may_leaf(predicate, _rules_out_nan(predicate))
            case And(children):
                plain = {c.column for c in children if isinstance(c, Leaf) and _rules_out_nan(c)}
                # No row that all parts keep has NaN in such a column.
                parts = (self._may_leaf(c, c.column in plain) if isinstance(c, Leaf) else self.may(c) for c in children)
                return self._fold(np.logical_and, parts, True)
            case Or(children, ranges):
                if ranges is not None and (column := self._column(ranges.column)) is not None:
                    return column.may_lie_in(ranges)
                return self._fold(np.logical_or, map(self.may, children), False)
            case Among():
                return self._may_be_among(predicate)
        return self._all(predicate is Const.TRUE or isinstance(predicate, Computed))

    def _may_be_among(self, node: Among) -> Flags:
        from paimon_pyds.sql.predicate.among import any_row_within, as_leaves, has_few_rows

        if has_few_rows(node):
            return self.may(as_leaves(node))
        found, bounds = self._all(True), []
        for ref, values in zip(node.columns, node.values, strict=True):
            column = self._column(ref)
            if column is None or ref.type is None or ref.type.kind is Kind.CHAR:
                bounds.append((np.zeros(self._files, np.int64), np.full(self._files, len(values))))
            else:
                low, high = column.places(values)
                found &= low < high
                bounds.append((low, high))
        return any_row_within(node, bounds, found)

    def _may_leaf(self, leaf: Leaf, plain: bool = False) -> Flags:
        column = self._column(leaf.column, plain)
        return self._all(True) if column is None else column.may(leaf)

    def always(self, predicate: Predicate) -> Flags:
        """What `always_true` gives."""
        match predicate:
            case Leaf():
                column = self._column(predicate.column)
                return np.equal(self._rows, 0) if column is None else column.always(predicate)
            case And(children):
                return self._fold(np.logical_and, map(self.always, children), True)
            case Or(children, ranges):
                if ranges is not None and (column := self._column(ranges.column)) is not None:
                    return column.always_lies_in(ranges)
                return self._fold(np.logical_or, map(self.always, children), False)
            case Among():
                return self._always_among(predicate)
        return self._all(True) if predicate is Const.TRUE else np.equal(self._rows, 0)

    def _always_among(self, node: Among) -> Flags:
        empty = np.equal(self._rows, 0)
        columns = [self._column(ref) for ref in node.columns]
        single = np.logical_and.reduce([self._all(False) if c is None else c.is_single() for c in columns])
        if not single.any():
            return empty
        from paimon_pyds.sql.predicate.among import holds

        found = holds(node, [c.minimum for c in columns if c is not None])
        return np.asarray(empty | (single & found), np.bool_)

    def _fold(self, combine: np.ufunc, parts: Iterable[Flags], start: bool) -> Flags:
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
