"""ORs of bound conditions, which may be very many, as programs write them.

Equalities of a column become one IN, those of several columns rows of values (``(a, b) IN ((1, 2), …)``). Ranges of a
column whose values are *steps* (integers, dates, times, timestamps, DOUBLEs) are joined where they meet, and stored as
arrays (`Ranges`) too, so that evaluators find the range of a value by bisection. The other conditions are sorted by a
column that all of them bound, and become a tree of few branches; each node has the bounds of its conditions, so
evaluators skip a whole branch that its bounds rule out.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.types.kinds import INTEGER_BITS, TIMESTAMP_KINDS, Kind
from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    ColumnRef,
    Leaf,
    Op,
    Or,
    Predicate,
    Ranges,
    conjuncts,
    make_and,
    make_or,
)

_VERY_MANY_CONDITIONS = 1000
"""Conditions from which a warning recommends a table of keys, which is much faster then."""


def any_of(*children: Predicate) -> Predicate:
    """OR of bound predicates; equalities of the same columns become one condition, which is answered at once."""
    found = make_or(*children)
    if not isinstance(found, Or) or found.ranges is not None:
        return found
    parts = _gathered(found.children, _equal_column, _one_of)
    parts = _gathered(parts, _equal_columns, _rows)
    if len(parts) > FEW_CONDITIONS:
        parts = _join_ranges(parts)
    if len(parts) > FEW_CONDITIONS:
        if len(parts) > _VERY_MANY_CONDITIONS:
            warnings.warn(
                f"{len(parts):,} conditions joined by OR are evaluated one by one; to look for many keys give them as "
                "a table, scan(matching=keys), or as rows of values, (a, b) IN ((1, 2), …)",
                stacklevel=2,
            )
        return make_or(*balanced(parts))
    return make_or(*parts)


def all_of(*children: Predicate) -> Predicate:
    """AND of bound predicates; inequalities of one column, where there are many, become one NOT IN."""
    found = make_and(*children)
    if not isinstance(found, And) or len(found.children) <= FEW_CONDITIONS:
        return found
    return make_and(*_gathered(found.children, _unequal_column, _none_of))


def _gathered(
    parts: Sequence[Predicate],
    key_of: Callable[[Predicate], Hashable | None],
    join: Callable[[Sequence[Any]], Predicate],
) -> list[Predicate]:
    """Parts with the same key joined as one in the place of the first of them; those whose key is None stay."""
    groups: dict[Hashable, list[Predicate]] = {}
    found: list[Predicate | list[Predicate]] = []
    for part in parts:
        key = key_of(part)
        if key is None:
            found.append(part)
        elif key in groups:
            groups[key].append(part)
        else:
            found.append(groups.setdefault(key, [part]))
    members = [part if isinstance(part, list) else [part] for part in found]
    return [join(some) if len(some) > 1 else some[0] for some in members]


def _equal_column(part: Predicate) -> ColumnRef | None:
    return part.column if isinstance(part, Leaf) and part.op in (Op.EQ, Op.IN) else None


def _unequal_column(part: Predicate) -> ColumnRef | None:
    return part.column if isinstance(part, Leaf) and part.op in (Op.NE, Op.NOT_IN) else None


def _one_of(leaves: Sequence[Leaf]) -> Leaf:
    return one_of(leaves[0].column, (value for leaf in leaves for value in leaf.literals))


def _none_of(leaves: Sequence[Leaf]) -> Leaf:
    found = _one_of(leaves)
    return Leaf(Op.NOT_IN if found.op is Op.IN else Op.NE, found.column, found.literals)


def _equal_columns(part: Predicate) -> frozenset[ColumnRef] | None:
    """The columns of which a condition says that a row has certain values, several of them."""
    if isinstance(part, Among):
        return frozenset(part.columns)
    if not isinstance(part, And):
        return None
    columns = {test.column for test in part.children if isinstance(test, Leaf) and test.op is Op.EQ}
    return frozenset(columns) if len(columns) == len(part.children) > 1 else None


def _rows(members: Sequence[And | Among]) -> Predicate:
    nodes = [member for member in members if isinstance(member, Among)]
    written = [member for member in members if isinstance(member, And)]
    from paimon_pyds.sql.predicate.among import among_rows, joined

    if written:
        values = [{test.column: test.literals[0] for test in one.children if isinstance(test, Leaf)} for one in written]
        columns = list(values[0])
        made = among_rows(columns, [[row[column] for column in columns] for row in values])
        nodes += [made] if isinstance(made, Among) else []
    return joined(nodes) if len(nodes) > 1 else nodes[0]


def _join_ranges(parts: Sequence[Predicate]) -> list[Predicate]:
    """The same conditions, with very many ranges of a column as one `Or` behind the others."""
    ranges: dict[ColumnRef, list[tuple[int, int]]] = defaultdict(list)
    others: list[Predicate] = []
    members: dict[ColumnRef, list[Predicate]] = defaultdict(list)
    for part in parts:
        found = _range(part)
        if found is None:
            others.append(part)
        else:
            ranges[found[0]].append(found[1])
            members[found[0]].append(part)
    for column, found_ranges in ranges.items():
        others += members[column] if len(found_ranges) <= FEW_CONDITIONS else [or_of_ranges(column, found_ranges)]
    return others


def _range(part: Predicate) -> tuple[ColumnRef, tuple[int, int]] | None:
    """The column and the range of steps that a condition is; None of one that is no range."""
    tests = conjuncts(part)
    column = tests[0].column if tests and isinstance(tests[0], Leaf) else None
    if column is None or not is_of_steps(column):
        return None
    found = [test for test in tests if isinstance(test, Leaf) and test.op in RANGE_OPS and test.column == column]
    return (column, step_range(column, found)) if len(found) == len(tests) else None


FEW_CONDITIONS = 64
"""Conditions up to which they are evaluated one by one."""
_BRANCHES = 16
_LOWER, _UPPER = frozenset({Op.EQ, Op.IN, Op.GT, Op.GE}), frozenset({Op.EQ, Op.IN, Op.LT, Op.LE})
RANGE_OPS = frozenset({Op.EQ, Op.GT, Op.GE, Op.LT, Op.LE})
"""Comparisons that a range of values is."""
_NOT_ORDERED = frozenset({Kind.BOOLEAN, Kind.CHAR})
"""Types without comparisons by order, or whose comparisons become those of other texts when they are bound again."""
_STEP_KINDS = frozenset({*INTEGER_BITS, *TIMESTAMP_KINDS, Kind.DOUBLE, Kind.DATE, Kind.TIME})


def one_of(column: ColumnRef, values: Iterable[Any]) -> Leaf:
    """That a column has one of some internal values, of which there is at least one."""
    found = {sort_key(value): value for value in values}
    ordered = tuple(found[key] for key in sorted(found))  # type: ignore[type-var]
    return Leaf(Op.IN if len(ordered) > 1 else Op.EQ, column, ordered)


def sort_key(value: Any) -> object:
    """Orders internal values of one type; NaN comes last."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def is_of_steps(column: ColumnRef) -> bool:
    """Whether ranges of the column are ranges of steps."""
    return isinstance(column.type, AtomicType) and column.type.kind in _STEP_KINDS


def step_range(column: ColumnRef, tests: Iterable[Leaf]) -> tuple[int, int]:
    """The first and the last step that some comparisons (`RANGE_OPS`) of a column of steps leave; none if the first
    one is larger."""
    assert column.type is not None
    from paimon_pyds.sql.predicate.literal_bounds import domain, to_step

    low, high = domain(column.type)
    for test in tests:
        step = to_step(test.literals[0])
        if test.op in _LOWER:
            low = max(low, step + (test.op is Op.GT))
        if test.op in _UPPER:
            high = min(high, step - (test.op is Op.LT))
    return low, high


def or_of_ranges(column: ColumnRef, ranges: Iterable[tuple[int, int]]) -> Predicate:
    """The condition that a column of steps is in one of some ranges, both ends included."""
    joined: list[list[int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue  # it is empty
        if joined and low <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    assert isinstance(column.type, AtomicType)
    parts = [_between(column, column.type, low, high) for low, high in joined]
    if len(parts) <= FEW_CONDITIONS:
        return make_or(*parts)
    lows, highs = np.array(joined, np.int64).T.copy()
    return Or(tuple(balanced(parts)), Ranges(column, lows, highs))


def _between(column: ColumnRef, type_: AtomicType, low: int, high: int) -> Predicate:
    from paimon_pyds.sql.predicate.literal_bounds import domain, from_step

    first, last = domain(type_)
    if low == high:
        return Leaf(Op.EQ, column, (from_step(low, type_),))
    tests = [] if low == first else [Leaf(Op.GE, column, (from_step(low, type_),))]
    tests += [] if high == last else [Leaf(Op.LE, column, (from_step(high, type_),))]
    return make_and(*tests) if tests else Leaf(Op.IS_NOT_NULL, column)


# ------------------------------------------------------------------------------------------------------ balanced trees


class _Span(NamedTuple):
    """Bounds of a condition on a column, both included; ``number`` is the condition's."""

    low: Any
    high: Any
    number: int


def balanced(children: Sequence[Predicate]) -> Sequence[Predicate]:
    """The same conditions, as branches of a tree if very many of them bound one column."""
    spans = [_spans(child, number) for number, child in enumerate(children)]
    bounded = Counter(column for of_child in spans for column in of_child).most_common(1)
    if not bounded or bounded[0][1] <= FEW_CONDITIONS:
        return children
    column = bounded[0][0]
    ordered = sorted(of_child[column] for of_child in spans if column in of_child)
    others = [child for child, of_child in zip(children, spans, strict=True) if column not in of_child]
    return [*_branches(column, ordered, children), *others]


def _branches(column: ColumnRef, spans: Sequence[_Span], children: Sequence[Predicate]) -> list[Predicate]:
    if len(spans) <= _BRANCHES:
        return [children[span.number] for span in spans]
    size = -(-len(spans) // _BRANCHES)
    found: list[Predicate] = []
    for start in range(0, len(spans), size):
        part = spans[start : start + size]
        low, high = part[0].low, max(span.high for span in part)
        bounds = (Leaf(Op.GE, column, (low,)), Leaf(Op.LE, column, (high,)))
        below = _branches(column, part, children)
        found.append(And((*bounds, Or(tuple(below)))) if len(below) > 1 else below[0])
    return found


def _spans(child: Predicate, number: int) -> dict[ColumnRef, _Span]:
    """The columns that a condition bounds on both sides."""
    lows: dict[ColumnRef, Any] = {}
    highs: dict[ColumnRef, Any] = {}
    for part in conjuncts(child):
        if not isinstance(part, Leaf) or part.column.type is None or part.column.type.kind in _NOT_ORDERED:
            continue
        if any(value != value for value in part.literals[:1] + part.literals[-1:]):
            continue  # NaN has no place among the others here
        if part.op in _LOWER:
            lows[part.column] = part.literals[0]
        if part.op in _UPPER:
            highs[part.column] = part.literals[-1]
    return {column: _Span(low, highs[column], number) for column, low in lows.items() if column in highs}
