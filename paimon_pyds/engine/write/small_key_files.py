"""The few rows of many buckets of a table with a primary key: sorted and merged once for all, then cut.

A compaction merges what it reads itself; what manifests say of the rows is found here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, one_batch, to_numpy
from paimon_pyds.base.row import encode_rows
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.key_files import KeyFileRows
from paimon_pyds.engine.write.rolling import RowMetadata
from paimon_pyds.engine.write.sequence_numbers import SequenceNumbers
from paimon_pyds.engine.write.small_files import SmallRows
from paimon_pyds.format.statistics import StatsCollector, stats_modes
from paimon_pyds.keys.merge.key_values import (
    KEY_VALUE_FIELDS,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    is_retract,
    with_key_columns,
)
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.partition import PartitionBucket

_BUCKET = "__paimon_bucket"
"""The column of a merge that has the number of a row's bucket; files don't have it."""


class KeyRows:
    """Rows of buckets that are merged already, in the order of their keys. (`SortedRunWriter` does the same for one.)

    ``context``: the table as it is written to, with the options of the ``level`` that the rows go to.
    """

    def __init__(self, context: WriteContext, level: int) -> None:
        self._level = level
        self._keys = context.schema.trimmed_primary_keys
        self._rows = KeyFileRows(context)
        fields = context.key_fields
        self._types = [field.type for field in fields]
        modes = stats_modes(fields, context.raw_options)
        self._stats = StatsCollector(fields, modes, str(context.options.get("file.format")))

    def files(self, buckets: Sequence[BucketFiles], rows: Sequence[pa.RecordBatch]) -> SmallRows:
        """See `RowsOfBuckets`. Raises SchemaError: as `SortedRunWriter.write`."""
        starts = np.cumsum([0, *(batch.num_rows for batch in rows[:-1])])
        return SmallRows(self._rows.of(one_batch(pa.Table.from_batches(rows))), starts, range(len(buckets)))

    def metadata(self, files: SmallRows) -> Sequence[RowMetadata]:
        rows, starts = files.rows, files.starts
        keys = rows.select(self._keys)
        ends = [keys.take(from_numpy(places)).columns for places in (starts, files.ends - 1)]
        least, greatest = (encode_rows(columns, self._types, arity=True).to_pylist() for columns in ends)
        stats, _ = self._stats.of_parts(keys, starts, dense=False)
        numbers = to_numpy(rows.column(SEQUENCE_NUMBER))
        bounds = [each.reduceat(numbers, starts).tolist() for each in (np.minimum, np.maximum)]
        deletes = np.add.reduceat(is_retract(rows.column(VALUE_KIND)).astype(np.int64), starts).tolist()
        return [
            RowMetadata(
                min_sequence_number=low,
                max_sequence_number=high,
                min_key=first,
                max_key=last,
                key_stats=key_stats,
                level=self._level,
                delete_row_count=retracts,
            )
            for low, high, first, last, key_stats, retracts in zip(
                *bounds, least, greatest, stats, deletes, strict=True
            )
        ]


class MergedRows(KeyRows):
    """Rows of buckets in the order of their keys, the versions of each key merged by the table's engine, for level 0.
    (`KeyBucketWriter` does the same for one bucket.)

    ``context``: the table as it is written to, with the options of level 0. ``numbers``: of its rows.
    """

    def __init__(self, context: WriteContext, numbers: SequenceNumbers) -> None:
        super().__init__(context, 0)
        self._numbers = numbers
        self._merger = RowMerger(replace(context.schema, options=context.raw_options), within=[_BUCKET])

    def files(self, buckets: Sequence[BucketFiles], rows: Sequence[pa.RecordBatch]) -> SmallRows:
        self._numbers.read_ahead(bucket.partition for bucket in buckets)
        numbered = [
            self._numbers.of_rows(
                self._numbers.first(PartitionBucket(bucket.partition, bucket.bucket)), 0, part.num_rows
            )
            for bucket, part in zip(buckets, rows, strict=True)
        ]
        of_rows = np.repeat(np.arange(len(buckets)), [part.num_rows for part in rows])
        joined = one_batch(pa.Table.from_batches(rows))
        joined = joined.append_column(KEY_VALUE_FIELDS[0].name, from_numpy(np.concatenate(numbered)))
        joined = with_key_columns(joined.append_column(_BUCKET, from_numpy(of_rows)), self._keys)
        names = [name for name in joined.schema.names if name == _BUCKET or name not in self._merger.keys]
        merged = self._merger.merge(joined, names)
        of_rows = to_numpy(merged.column(_BUCKET))
        starts = np.flatnonzero(np.diff(of_rows, prepend=-1))
        return SmallRows(self._rows.of(merged), starts, of_rows[starts].tolist())
