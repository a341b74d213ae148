"""ORs of bound conditions, which may be very many, as programs write them.

Equalities of a column become one IN, ranges of a column one condition (`paimon_pyds.predicate.ranges`), and others of
one form, such as ``a = 1 AND b = 7 OR a = 2 AND b = 9 OR …``, one that rows answer (`paimon_pyds.predicate.long_ors`).
What is left is put in order by a column that all of it bounds, and becomes a tree of few branches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from paimon_pyds.predicate.ranges import MANY, RANGE_OPS, balanced, is_of_steps, one_of, or_of_ranges, step_range
from paimon_pyds.predicate.tree import ColumnRef, Leaf, Op, Or, Predicate, conjuncts, make_or


def any_of(*children: Predicate) -> Predicate:
    """OR of bound predicates; equalities of one column become one IN, which statistics and indexes answer at once."""
    found = make_or(*children)
    if not isinstance(found, Or) or found.ranges is not None:
        return found
    equal: dict[ColumnRef, list[Leaf]] = {}
    parts: list[Predicate | list[Leaf]] = []  # an equality is where the first of its column was
    for child in found.children:
        if not isinstance(child, Leaf) or child.op not in (Op.EQ, Op.IN):
            parts.append(child)
        elif child.column in equal:
            equal[child.column].append(child)
        else:
            parts.append(equal.setdefault(child.column, [child]))
    joined = [_one_of(part) if isinstance(part, list) else part for part in parts]
    if len(joined) > MANY:
        from paimon_pyds.predicate.long_ors import gathered  # most filters are short

        joined = gathered(_join_ranges(joined), any_of)
    return make_or(*(balanced(joined) if len(joined) > MANY else joined))


def _one_of(leaves: Sequence[Leaf]) -> Leaf:
    """Equalities of one column as one leaf."""
    if len(leaves) == 1:
        return leaves[0]
    return one_of(leaves[0].column, (value for leaf in leaves for value in leaf.literals))


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
