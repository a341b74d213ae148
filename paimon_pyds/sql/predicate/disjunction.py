"""ORs of bound conditions, which may be very many, as programs write them.

Equalities of a column become one IN, those of several columns rows of values (``(a, b) IN ((1, 2), …)``), very many
ranges of a column one condition (`paimon_pyds.sql.predicate.ranges`). The other conditions are sorted by a column that
all of them bound, and become a tree of few branches.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from paimon_pyds.sql.predicate.among import among_rows, joined
from paimon_pyds.sql.predicate.ranges import MANY, RANGE_OPS, balanced, is_of_steps, one_of, or_of_ranges, step_range
from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    ColumnRef,
    Leaf,
    Op,
    Or,
    Predicate,
    conjuncts,
    make_and,
    make_or,
)

_VERY_MANY = 1000
"""Conditions from which a warning recommends a table of keys, which is much faster then."""


def any_of(*children: Predicate) -> Predicate:
    """OR of bound predicates; equalities of the same columns become one condition, which is answered at once."""
    found = make_or(*children)
    if not isinstance(found, Or) or found.ranges is not None:
        return found
    parts = _gathered(found.children, _equal_column, _one_of)
    parts = _gathered(parts, _equal_columns, _rows)
    if len(parts) > MANY:
        parts = _join_ranges(parts)
    if len(parts) > MANY:
        if len(parts) > _VERY_MANY:
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
    if not isinstance(found, And) or len(found.children) <= MANY:
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
        others += members[column] if len(found_ranges) <= MANY else [or_of_ranges(column, found_ranges)]
    return others


def _range(part: Predicate) -> tuple[ColumnRef, tuple[int, int]] | None:
    """The column and the range of steps that a condition is; None of one that is no range."""
    tests = conjuncts(part)
    column = tests[0].column if tests and isinstance(tests[0], Leaf) else None
    if column is None or not is_of_steps(column):
        return None
    found = [test for test in tests if isinstance(test, Leaf) and test.op in RANGE_OPS and test.column == column]
    return (column, step_range(column, found)) if len(found) == len(tests) else None
