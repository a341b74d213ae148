"""Merge engines: what becomes of the versions of a row, as operations on columns.

A key with one version keeps it as it is, whatever the engine: a delete stays a delete, and nothing is aggregated.
(Java: class ReducerMergeFunctionWrapper.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.grouped_rows import Positions
from paimon_pyds.keys.merge.key_values import VALUE_KIND, is_retract
from paimon_pyds.keys.merge.versions import Versions
from paimon_pyds.sql.predicate.tree import Predicate


class MergeEngine(ABC):
    """What a table's ``merge-engine`` makes of the versions of each key."""

    @abstractmethod
    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        """One row a key, in the order of keys; a key of which all versions are ignored has none.

        ``rows``: all versions of each key in it, with ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, the requested columns and
        those that `required_columns` adds to them. ``versions``: the rows by key and age. ``columns``: those of the
        result, in their order.
        Raises UnsupportedError: rows are deleted that the engine, as the table's options have it, can't delete.
        """

    def required_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns to read for these of the result: the same, and those that decide which of their values count."""
        return tuple(columns)

    def conditions_on_versions(self, predicate: Predicate) -> tuple[Predicate, ...]:
        """What one version of a key at least must meet, each, so that the row made of them matches a filter.

        Rows of which values are computed from several versions have no such conditions.
        """
        return ()

    def needed(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        """Positions of rows, in order, without which later merges could give other rows; the others can be dropped
        where a key has too many versions for memory. At least two versions of a key with several remain."""
        return np.sort(versions.order)


class Deduplicate(MergeEngine):
    """The newest version of each key. With ``ignore_delete``, the newest that is no delete."""

    def __init__(self, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        return _taken(rows.select([*columns]), self._newest(rows, versions))

    def conditions_on_versions(self, predicate: Predicate) -> tuple[Predicate, ...]:
        return (predicate,)

    def needed(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        return with_outermost(versions, self._newest(rows, versions))

    def _newest(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        if self._ignore_delete:
            retract = is_retract(rows.column(VALUE_KIND))
            if retract.any():
                return _there(versions, versions.last(~retract[versions.order] | versions.of_each(versions.is_single)))
        return versions.order[versions.ends - 1]


class FirstRow(MergeEngine):
    """The oldest version of each key. Deletes are refused, or left out with ``ignore_delete``."""

    def __init__(self, ignore_delete: bool = False) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        return _taken(rows.select([*columns]), self._oldest(rows, versions))

    def conditions_on_versions(self, predicate: Predicate) -> tuple[Predicate, ...]:
        return (predicate,)

    def needed(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        return with_outermost(versions, self._oldest(rows, versions))

    def _oldest(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        retract = is_retract(rows.column(VALUE_KIND))
        if not retract.any():
            return versions.order[versions.starts]
        single = versions.of_each(versions.is_single)
        retract = retract[versions.order] & ~single
        if retract.any() and not self._ignore_delete:
            raise UnsupportedError(
                "the merge engine first-row can't take deletes, and rows of the table hold some",
                hint="set ignore-delete=true, and they are left out",
            )
        return _there(versions, versions.first(~retract))


def _taken(rows: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
    if len(positions) == rows.num_rows and (positions[1:] > positions[:-1]).all():
        return rows  # nothing to merge, and in order: no copy
    return rows.take(from_numpy(positions))


def _there(versions: Versions, places: Positions) -> Positions:
    """The positions of rows at places; keys that have none are left out."""
    return versions.order[places[places >= 0]]


def with_outermost(versions: Versions, positions: Positions) -> Positions:
    """These, and the oldest and the newest version of each key: so that a key with several versions has two."""
    order = versions.order
    kept = np.zeros(len(order), np.bool_)
    for found in (positions, order[versions.starts], order[versions.ends - 1]):
        kept[found] = True
    return np.flatnonzero(kept)
