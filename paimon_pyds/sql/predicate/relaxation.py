"""What parts of a predicate say by themselves: conditions that are true wherever the whole is, and maybe elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    Computed,
    Const,
    Leaf,
    Op,
    Or,
    Predicate,
    conjuncts,
    first_leaf,
    make_and,
    make_or,
    root_columns,
)


def relaxed(predicate: Predicate, keep: Callable[[Leaf | Computed], bool]) -> Predicate:
    """The predicate with TRUE in place of the parts that ``keep`` is false for: true wherever the predicate is.

    ``keep``: is called for each column of rows of values, with a leaf that has no literals.
    """
    if isinstance(predicate, Leaf | Computed):
        return predicate if keep(predicate) else Const.TRUE
    if isinstance(predicate, Among):
        from paimon_pyds.sql.predicate.among import projected

        return projected(predicate, (column for column in predicate.columns if keep(Leaf(Op.IN, column))))
    if isinstance(predicate, And):
        return make_and(*(relaxed(child, keep) for child in predicate.children))
    if isinstance(predicate, Or):
        if predicate.ranges is not None:
            return Const.TRUE if relaxed(first_leaf(predicate), keep) is Const.TRUE else predicate
        return make_or(*(relaxed(child, keep) for child in predicate.children))
    return predicate


def without_computed(predicate: Predicate) -> Predicate:
    """What leaves alone say: true wherever the predicate is, and maybe elsewhere."""
    return relaxed(predicate, lambda part: isinstance(part, Leaf))


def partition_filter(predicate: Predicate, partition_keys: Sequence[str]) -> tuple[Predicate, Predicate]:
    """Split a predicate into a condition on partition columns alone, and the residual filter for the rows.

    Returns:
        A predicate on partition columns that is true wherever ``predicate`` is, and the residual: in partitions where
        the first is true, it is true exactly where ``predicate`` is.
    """
    keys = frozenset(partition_keys)
    parts = conjuncts(predicate)
    on_keys = (relaxed(part, lambda leaf: keys.issuperset(root_columns(leaf))) for part in parts)
    residual = (part for part in parts if not keys.issuperset(root_columns(part)))
    return make_and(*on_keys), make_and(*residual)
