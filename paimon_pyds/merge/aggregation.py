"""The merge engine aggregation: a function for each column.

Source: Paimon documentation, primary-key-table/merge-engine/aggregation; where it is silent, what Java Paimon 1.4 gives
(class AggregateMergeFunction).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.merge.aggregated_columns import aggregated_column
from paimon_pyds.merge.aggregates import AggregateFunction
from paimon_pyds.merge.base_rows import CountedVersions
from paimon_pyds.merge.engine import MergeEngine
from paimon_pyds.merge.key_values import DELETE, INSERT, SEQUENCE_NUMBER, VALUE_KIND, is_retract
from paimon_pyds.merge.versions import Versions


@dataclass(frozen=True)
class Aggregation(MergeEngine):
    """See the module.

    Attributes:
        functions: of the table's columns; what else rows hold is the same in all versions of a key.
        remove_on_delete: a delete removes the row; what comes later adds to the values of the delete, as in Java.
    """

    functions: Mapping[str, AggregateFunction]
    remove_on_delete: bool = False

    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        kinds = to_numpy(rows.column(VALUE_KIND))[versions.order]
        counted = self._counted(rows, versions, kinds == DELETE)
        newest = versions.ends - 1
        given = np.ones(len(kinds), np.bool_)
        found = {SEQUENCE_NUMBER: rows.column(SEQUENCE_NUMBER).take(from_numpy(versions.order[newest]))}
        deleted = self.remove_on_delete & (kinds[newest] == DELETE)
        made = np.where(deleted, DELETE, INSERT)
        found[VALUE_KIND] = from_numpy(np.where(versions.is_single, kinds[newest], made).astype(np.int8))
        for name in columns:
            if name in found:
                continue
            column, function = rows.column(name), self.functions.get(name)
            if function is None:
                found[name] = column.take(from_numpy(versions.order[newest]))
            else:
                found[name] = aggregated_column(column, function, counted, given)
        schema = pa.schema([rows.schema.field(name) for name in columns])
        return pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)

    def _counted(self, rows: pa.RecordBatch, versions: Versions, deletes: np.ndarray) -> CountedVersions:
        base = np.where(versions.is_single, versions.starts, -1)
        if self.remove_on_delete:
            removed = versions.last(deletes)
            base = np.where(removed >= 0, removed, base)
        retract = is_retract(rows.column(VALUE_KIND))[versions.order]
        return CountedVersions(versions, retract, base, np.zeros(len(base), np.bool_))
