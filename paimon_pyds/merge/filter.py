"""Filters where versions of a row are merged after they are read.

A table with a primary key holds versions of a row in several files of a bucket, and a newer one hides or changes the
older ones. A condition on the key holds for all versions of a row or for none, so it may drop files, pages and rows
before they are merged. A condition on other columns may not: it could drop the newest version and bring back an older
one. (Source: Paimon documentation, primary-key-table/query-performance, "Data Skipping By Primary Key Filter".)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_pyds.predicate.tree import Const, Predicate, partition_filter

__all__ = ["MergeFilter", "merge_filter"]


@dataclass(frozen=True, slots=True)
class MergeFilter:
    """A filter in two parts.

    Attributes:
        before: may drop files, pages and rows as they are read: no row that the filter keeps is lost by it.
        after: what is left to ask of rows after merging; of those that ``before`` keeps it keeps exactly the rows that
            the whole filter keeps. `Const.TRUE` when nothing is left.
    """

    before: Predicate
    after: Predicate = Const.TRUE


def merge_filter(predicate: Predicate, keys: Iterable[str] | None) -> MergeFilter:
    """A filter in what may act before versions of a row are merged, and what has to wait until after.

    Args:
        predicate: bound to the table's columns.
        keys: the columns that all versions of a row have the same values in: those of the primary key and of
            partitions. None where rows are not merged: all of the filter acts as they are read.
    """
    return MergeFilter(predicate) if keys is None else MergeFilter(*partition_filter(predicate, tuple(keys)))
