"""What differs between two states of a table, of their merged rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.keys.merge.aggregates import configured_aggregate
from paimon_pyds.keys.merge.equal_values import equality_codes
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions
from paimon_pyds.keys.merge.key_values import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VALUE_KIND,
    is_retract,
    without_deletes,
)
from paimon_pyds.keys.merge.order_codes import sorted_rows
from paimon_pyds.metadata.schema import TableSchema

OLDER = "__paimon_older"
"""The column that says which rows are of the older state."""
_OF_SETS = frozenset({"collect", "nested_update", "nested_partial_update"})
"""Aggregate functions that keep a set, and give its elements in any order."""


def changed_rows(rows: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The newer rows that differ from the older one of their key, and a delete of each older row that has no newer one.

    Rows differ where a column does, or where one of them takes the row away and the other does not.
    (Java: class IncrementalDiffSplitRead; where an overwrite gave the newer one a lower sequence number it gives none.)

    ``rows``: the older and then the newer ones, of each state a row for each key at most, with the columns of the
    table, ``_VALUE_KIND`` and `OLDER`.
    """
    pairs = _Pairs.of(rows, schema)
    retract = is_retract(rows.column(VALUE_KIND))[pairs.order]
    is_changed = ~pairs.is_older
    is_changed[pairs.follows] &= ~(pairs.same & (retract[pairs.followed] == retract[pairs.follows]))
    is_gone = pairs.is_older & ~pairs.followed & ~retract
    kept = is_changed | is_gone
    kinds = to_numpy(rows.column(VALUE_KIND))[pairs.order]
    return _of_kinds(rows, pairs.order[kept], np.where(is_gone, DELETE, kinds)[kept])


def updated_rows(rows: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The changes that turn the older rows into the newer ones: +I, -D, and -U followed by +U for a key whose rows
    differ. ``rows``: as of `changed_rows`; rows that delete others belong to neither state."""
    rows = without_deletes(rows)
    pairs = _Pairs.of(rows, schema)
    kinds = np.where(pairs.is_older, DELETE, INSERT)
    kinds[pairs.followed], kinds[pairs.follows] = UPDATE_BEFORE, UPDATE_AFTER
    kept = np.ones(len(kinds), np.bool_)
    kept[pairs.followed], kept[pairs.follows] = ~pairs.same, ~pairs.same
    return _of_kinds(rows, pairs.order[kept], kinds[kept])


def _of_kinds(rows: pa.RecordBatch, at: Positions, kinds: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Some of the rows, with other row kinds."""
    found = rows.take(from_numpy(at))
    column = found.schema.get_field_index(VALUE_KIND)
    return found.set_column(column, found.schema.field(column), from_numpy(kinds.astype(np.int8)))


class _Pairs(NamedTuple):
    """Rows of two states in the order of their keys.

    Attributes:
        order: the positions of the rows.
        is_older: which of them, in that order, are of the older state.
        followed, follows: which older ones have a newer one of the same key after them, and these.
        same: of each such pair whether its values are equal.
    """

    order: Positions
    is_older: Flags
    followed: Flags
    follows: Flags
    same: Flags

    @classmethod
    def of(cls, rows: pa.RecordBatch, schema: TableSchema) -> _Pairs:
        order, again = sorted_rows([rows.column(name) for name in schema.trimmed_primary_keys])
        followed = np.append(again, False)[: len(order)]
        follows = np.append(False, again)[: len(order)]
        options = TableOptions(schema.options)
        same = np.ones(int(follows.sum()), np.bool_)
        for name in schema.field_names if len(same) else ():
            codes = equality_codes(rows.column(name), are_sets=configured_aggregate(name, options) in _OF_SETS)[order]
            same &= codes[followed] == codes[follows]
        return cls(order, is_true(rows.column(OLDER))[order], followed, follows, same)
