"""ORs of very many conditions, as programs write them: ``a = 1 AND b = 7 OR a = 2 AND b = 9 OR …``.

They are put in order by a column that all of them bound, and become a tree of few branches whose nodes say between
which values their conditions lie. Evaluators pass over a node with all that is below where its bounds rule it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from paimon_pyds.predicate.tree import And, ColumnRef, Leaf, Op, Or, Predicate, conjuncts
from paimon_pyds.types import Kind

__all__ = ["balanced"]

_MANY = 64
"""So many conditions are evaluated one by one."""
_BRANCHES = 16
_LOWER, _UPPER = frozenset({Op.EQ, Op.IN, Op.GT, Op.GE}), frozenset({Op.EQ, Op.IN, Op.LT, Op.LE})
_NOT_ORDERED = frozenset({Kind.BOOLEAN, Kind.CHAR})
"""Types without comparisons by order, or whose comparisons become those of other texts when they are bound again."""


class _Span(NamedTuple):
    """Values of a column between which a condition lies, both included; ``number`` is the condition's."""

    low: Any
    high: Any
    number: int


def balanced(found: Or) -> Or:
    """The same predicate, bound, as a tree if it has very many children that bound one column."""
    if len(found.children) <= _MANY:
        return found
    spans = [_spans(child, number) for number, child in enumerate(found.children)]
    bounded = Counter(column for of_child in spans for column in of_child).most_common(1)
    if not bounded or bounded[0][1] <= _MANY:
        return found
    column = bounded[0][0]
    ordered = sorted(of_child[column] for of_child in spans if column in of_child)
    others = [child for child, of_child in zip(found.children, spans, strict=True) if column not in of_child]
    return Or((*_branches(column, ordered, found.children), *others))


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
