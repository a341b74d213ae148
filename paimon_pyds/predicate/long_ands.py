"""Very many conditions that are joined by AND, evaluated together: ``NOT (a = 1 AND b = 7 OR a = 2 AND b = 9 OR …)``.

Rows for which all of very many conditions hold are those for which none fails. Where no value is NULL a condition fails
when its opposite holds, and "one of very many opposites" is what `paimon_pyds.predicate.disjunction` evaluates at once.
Where some values are NULL, tests of them are unknown, thus not true, and what is left of each condition is one on the
other columns: the same is done for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, one_array, to_numpy
from paimon_pyds.caching import cached_property
from paimon_pyds.errors import ExpressionError
from paimon_pyds.predicate.disjunction import any_of
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.ranges import MANY, outside
from paimon_pyds.predicate.tree import (
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    Op,
    Or,
    Predicate,
    RowCondition,
    ends,
    leaves,
    make_and,
    make_computed,
    make_or,
    negate,
)

_MOST_COLUMNS = 8
_REJECTING = frozenset({
    Op.NE, Op.NOT_IN, Op.NOT_LIKE, Op.NOT_STARTS_WITH, Op.NOT_ENDS_WITH, Op.NOT_CONTAINS,
})  # fmt: skip
"""Statistics and indexes rule out next to nothing by these."""
_WITHIN_OR = _REJECTING | {Op.LT, Op.LE, Op.GT, Op.GE, Op.IS_NULL}


def gathered(parts: Sequence[Predicate]) -> list[Predicate]:
    """Conditions joined by AND, with very many that each leave out a few values as few."""
    return list(_computed_at_once(list(_without_few(parts))))


def _without_few(parts: Sequence[Predicate]) -> Iterator[Predicate]:
    groups: dict[frozenset[ColumnRef], list[Predicate]] = defaultdict(list)
    for part in parts:
        groups[_columns(part)].append(part)
    for columns, members in groups.items():
        few = len(members) <= MANY or not columns
        yield from members if few else [_none_fails(sorted(columns, key=str), members)]


def _computed_at_once(parts: Sequence[Predicate]) -> Iterator[Predicate]:
    """Leaves, which are evaluated first anyway, and the others in order, with very many computed ones as one."""
    yield from (part for part in parts if isinstance(part, Leaf))
    others = (part for part in parts if not isinstance(part, Leaf))
    for are_computed, run in groupby(others, lambda part: isinstance(part, Computed)):
        members = list(run)
        yield from [_every_computed(members)] if are_computed and len(members) > MANY else members


def _columns(part: Predicate) -> frozenset[ColumnRef]:
    """The columns of a condition that leaves out a few values; none of others."""
    if isinstance(part, Leaf):
        return frozenset([part.column]) if part.op in _REJECTING else frozenset()
    if not isinstance(part, Or) or part.ranges is not None:
        return frozenset()
    tests = list(ends(part, every=True))
    columns = frozenset(test.column for test in tests if isinstance(test, Leaf) and test.op in _WITHIN_OR)
    plain = all(isinstance(test, Leaf) and test.op in _WITHIN_OR for test in tests)
    return columns if plain and len(columns) <= _MOST_COLUMNS else frozenset()


def _none_fails(columns: Sequence[ColumnRef], conditions: Sequence[Predicate]) -> Predicate:
    count, failing = len(conditions), _failing(conditions, frozenset())
    one = columns[0] if len(columns) == 1 else None
    if one is not None and not any(leaf.op is Op.IS_NULL for part in conditions for leaf in leaves(part)):
        conditions = ()  # none of them holds where the column is NULL
    there = make_and(*(Leaf(Op.IS_NOT_NULL, column) for column in columns))
    plain = _opposite(failing)
    if plain is not None and not conditions:
        return make_and(there, plain)
    text = f"all of {count:,} conditions on {', '.join(map(str, columns))}"
    names = (column.name for column in columns)
    computed = make_computed(text, names, _NoneFails(tuple(columns), tuple(conditions), failing))
    certain = plain or _opposite(_outline(failing)) or Const.FALSE
    return make_and(Const.TRUE if conditions else there, make_or(make_and(there, certain), computed))


def _failing(conditions: Sequence[Predicate], nulls: frozenset[ColumnRef]) -> Predicate:
    """Where one of the conditions isn't true, among rows that are NULL in these columns and in no others."""
    return any_of(*(negate(_given(condition, nulls)) for condition in conditions))


def _given(condition: Predicate, nulls: frozenset[ColumnRef]) -> Predicate:
    """What is left of a condition for rows of which it is known which columns are NULL."""
    if isinstance(condition, Leaf):
        null = condition.column in nulls
        if condition.op is Op.IS_NULL or condition.op is Op.IS_NOT_NULL:
            return Const.TRUE if null == (condition.op is Op.IS_NULL) else Const.FALSE
        return Const.FALSE if null else condition
    if isinstance(condition, And | Or):
        join = make_and if isinstance(condition, And) else make_or
        return join(*(_given(child, nulls) for child in condition.children))
    return condition


def _opposite(predicate: Predicate) -> Predicate | None:
    """The opposite, where no value is NULL, of a predicate that is short; None of others."""
    if isinstance(predicate, Or) and predicate.ranges is not None:
        return outside(predicate.ranges)
    for number, part in enumerate(ends(predicate, every=True)):
        if isinstance(part, Computed) or number >= 2 * MANY:
            return None
    return negate(_given(predicate, frozenset()))


def _outline(predicate: Predicate, levels: int = 2) -> Predicate:
    """Few leaves that hold wherever a predicate does."""
    if isinstance(predicate, And):
        return make_and(*(_outline(child, levels) for child in predicate.children))
    if isinstance(predicate, Or):
        if not levels or len(predicate.children) > MANY:
            return Const.TRUE
        return make_or(*(_outline(child, levels - 1) for child in predicate.children))
    return Const.TRUE if isinstance(predicate, Computed) else predicate


@dataclass(frozen=True)
class _NoneFails:
    """Whether all of very many conditions are true.

    Attributes:
        columns: that they test.
        conditions: the conditions; none where one of them needs each column not to be NULL.
        failing: true where one isn't, if no value is NULL.
    """

    columns: tuple[ColumnRef, ...]
    conditions: tuple[Predicate, ...]
    failing: Predicate

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether they are, per row."""
        batch = batch.select(list(dict.fromkeys(column.name for column in self.columns)))
        nulls = np.zeros(batch.num_rows, np.int64)
        for number, column in enumerate(self.columns):
            nulls |= to_numpy(one_array(matches(Leaf(Op.IS_NULL, column), batch))).astype(np.int64) << number
        found = np.zeros(batch.num_rows, np.bool_)
        for pattern in np.unique(nulls).tolist():
            failing = self._failing_with(pattern)
            rows = np.flatnonzero(nulls == pattern)
            part = batch if len(rows) == batch.num_rows else batch.take(from_numpy(rows))
            found[rows] = ~to_numpy(one_array(matches(failing, part)))
        return from_numpy(found)

    def _failing_with(self, pattern: int) -> Predicate:
        """Where a condition isn't true, among rows that are NULL in the columns of a pattern of bits."""
        if not pattern:
            return self.failing
        if not self.conditions:
            return Const.TRUE
        found = self._by_pattern.get(pattern)
        if found is None:
            nulls = frozenset(column for number, column in enumerate(self.columns) if pattern >> number & 1)
            found = self._by_pattern[pattern] = _failing(self.conditions, nulls)
        return found

    @cached_property
    def _by_pattern(self) -> dict[int, Predicate]:
        return {}

    def __reduce__(self) -> tuple[type[_NoneFails], tuple[object, ...]]:
        return _NoneFails, (self.columns, self.conditions, self.failing)  # what was worked out is no part of it


@dataclass(frozen=True)
class _EveryComputed:
    """Whether all of many computed conditions are true."""

    conditions: tuple[RowCondition, ...]

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether they are, per row; one that fails on rows which others before it reject is not asked of those."""
        found = np.zeros(batch.num_rows, np.bool_)
        rows, held = np.arange(batch.num_rows), pa.repeat(True, batch.num_rows)
        for condition in self.conditions:
            try:
                held = pc.and_(held, condition.matches(batch))
            except ExpressionError:
                rows, batch = rows[to_numpy(held)], batch.filter(held)
                held = condition.matches(batch)
            if held.true_count * 2 < len(held):
                rows, batch = rows[to_numpy(held)], batch.filter(held)
                held = pa.repeat(True, len(rows))
            if not len(rows):
                break
        found[rows] = to_numpy(held)
        return from_numpy(found)


def _every_computed(members: Sequence[Any]) -> Predicate:
    text = f"{members[0].text} AND {len(members) - 1:,} conditions more"
    columns = (name for member in members for name in member.columns)
    return make_computed(text, columns, _EveryComputed(tuple(member.condition for member in members)))
