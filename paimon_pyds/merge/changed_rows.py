"""What differs between two states of a table, of their merged rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import from_numpy, is_true, to_numpy
from paimon_pyds.merge.aggregates import configured_aggregate
from paimon_pyds.merge.equal_values import equality_codes
from paimon_pyds.merge.files import OLDER
from paimon_pyds.merge.key_values import DELETE, VALUE_KIND, is_retract
from paimon_pyds.merge.order_codes import sorted_rows
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions

_OF_SETS = frozenset({"collect", "nested_update", "nested_partial_update"})
"""Aggregate functions that keep a set, and give its elements in any order."""


def changed_rows(rows: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The newer rows that differ from the older one of their key, and a delete of each older row that has no newer one.

    Rows differ where a column does, or where one of them takes the row away and the other does not.
    (Java: class IncrementalDiffSplitRead; where an overwrite gave the newer one a lower sequence number it gives none.)

    Args:
        rows: the older and then the newer ones, of each state a row for each key at most, with the columns of the
            table, ``_VALUE_KIND`` and `OLDER`.
        schema: the table's.
    """
    order, again = sorted_rows([rows.column(name) for name in schema.trimmed_primary_keys])
    followed = np.append(again, False)[: len(order)]
    follows = np.append(False, again)[: len(order)]
    is_older = is_true(rows.column(OLDER))[order]
    retract = is_retract(rows.column(VALUE_KIND))[order]
    options = TableOptions(schema.options)
    same = retract[followed] == retract[follows]
    for name in schema.field_names if len(same) else ():
        codes = equality_codes(rows.column(name), are_sets=configured_aggregate(name, options) in _OF_SETS)[order]
        same &= codes[followed] == codes[follows]
    is_changed = ~is_older
    is_changed[follows] &= ~same
    is_gone = is_older & ~followed & ~retract
    kept = is_changed | is_gone
    found = rows.take(from_numpy(order[kept]))
    kinds = np.where(is_gone[kept], DELETE, to_numpy(found.column(VALUE_KIND)))
    at = found.schema.get_field_index(VALUE_KIND)
    return found.set_column(at, found.schema.field(at), from_numpy(kinds.astype(np.int8)))
