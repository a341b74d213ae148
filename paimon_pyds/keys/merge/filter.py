"""Filters where versions of a row are merged after they are read.

A table with a primary key holds versions of a row in several files of a bucket, and a newer one hides or changes the
older ones. A condition on the key holds for all versions of a row or for none, so it may drop files, pages and rows
before they are merged. A condition on other columns may not: it could drop the newest version and bring back an older
one. (Source: Paimon documentation, primary-key-table/query-performance, "Data Skipping By Primary Key Filter".) But it
says which keys are worth merging: those of which a version meets it (`MergeEngine.conditions_on_versions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from paimon_pyds.base.records import dataclass
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Among, And, Const, Leaf, Op, Or, Predicate, conjuncts, make_or, root_columns


@dataclass(frozen=True, slots=True)
class MergeFilter:
    """A filter in two parts. ``before`` may drop files, pages and rows as they are read: it drops no version that a
    matching row needs. ``after`` is the residual filter, applied after merging: of the rows that ``before`` lets
    through it selects exactly the matches of the whole filter. `Const.TRUE`: there is no residual filter."""

    before: Predicate
    after: Predicate = Const.TRUE


def merge_keys(schema: TableSchema) -> tuple[str, ...] | None:
    """The columns that all versions of a row have the same values in; None for a table whose rows have no versions."""
    if not schema.primary_keys:
        return None
    return tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))


def merge_filter(predicate: Predicate, keys: Iterable[str] | None) -> MergeFilter:
    """A filter in what may act before versions of a row are merged, and what has to wait until after.

    ``predicate``: bound to the table's columns. ``keys``: the columns that all versions of a row have the same values
    in: those of the primary key and of partitions. None where rows are not merged: all of the filter acts as they are
    read.
    """
    return MergeFilter(predicate) if keys is None else MergeFilter(*partition_filter(predicate, tuple(keys)))


def conditions_on_values(predicate: Predicate, excluded: Collection[str]) -> tuple[Predicate, ...]:
    """The parts of a filter on rows of which each value was taken from one version: true for at least one version each.

    A condition on one column that is not true for NULL is true for the version that the column's value was taken from.
    Each part of an OR must be such a condition; of an AND inside of it only one part counts, as the others may be true
    for other versions.

    ``predicate``: bound to the table's columns. ``excluded``: columns whose values are not those of one version.
    """
    found = (_on_one_value(part, frozenset(excluded)) for part in conjuncts(predicate))
    return tuple(part for part in found if part is not None)


def _on_one_value(predicate: Predicate, excluded: frozenset[str]) -> Predicate | None:
    columns = root_columns(predicate)
    if not excluded.isdisjoint(columns):
        return None
    if len(columns) == 1:
        return None if _is_true_for_null(predicate) else predicate
    if isinstance(predicate, Among):
        from paimon_pyds.sql.predicate.among import as_leaves

        return _on_one_value(as_leaves(predicate), excluded)
    if isinstance(predicate, And):
        parts = (_on_one_value(child, excluded) for child in predicate.children)
        return next((part for part in parts if part is not None), None)
    if isinstance(predicate, Or):
        found = [_on_one_value(child, excluded) for child in predicate.children]
        return None if None in found else make_or(*(part for part in found if part is not None))
    return None


def _is_true_for_null(predicate: Predicate) -> bool:
    """Whether a condition on one column may be true where that is NULL: in a tree without NOT only by these leaves."""
    if isinstance(predicate, And):
        return all(map(_is_true_for_null, predicate.children))
    if isinstance(predicate, Among):
        return False
    if isinstance(predicate, Or):
        return predicate.ranges is None and any(map(_is_true_for_null, predicate.children))
    return not isinstance(predicate, Leaf) or predicate.op is Op.IS_NULL
