"""What partition columns alone say of a predicate."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.predicate.tree import (
    And,
    Computed,
    Const,
    Leaf,
    Or,
    Predicate,
    conjuncts,
    make_and,
    make_or,
    root_columns,
)

__all__ = ["partition_filter"]


def partition_filter(predicate: Predicate, partition_keys: Sequence[str]) -> tuple[Predicate, Predicate]:
    """Split a predicate into what partition columns alone can say of it, and what is left to ask of the rows.

    Returns:
        A predicate on partition columns that is true wherever ``predicate`` is, and the residual: in partitions where
        the first is true, it is true exactly where ``predicate`` is.
    """
    keys = frozenset(partition_keys)
    projected: list[Predicate] = []
    residual: list[Predicate] = []
    for part in conjuncts(predicate):
        if keys.issuperset(root_columns(part)):
            projected.append(part)
        else:
            projected.append(_project(part, keys))
            residual.append(part)
    return make_and(*projected), make_and(*residual)


def _project(predicate: Predicate, keys: frozenset[str]) -> Predicate:
    """The predicate with every leaf on another column taken for true: what remains is implied by it."""
    match predicate:
        case Leaf() | Computed():
            return predicate if keys.issuperset(root_columns(predicate)) else Const.TRUE
        case And(children):
            return make_and(*(_project(child, keys) for child in children))
        case Or(children):
            return make_or(*(_project(child, keys) for child in children))
    return predicate
