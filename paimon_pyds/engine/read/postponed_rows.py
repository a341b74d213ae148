"""Rows that wait for their buckets (``bucket=-2``), merged with those of their partition that are in buckets: what a
batch read gives with ``postpone.merge-on-read``. (Java: classes PostponeMergeReadBuilder and PostponeMergeRead.)

The rows in buckets, deletes among them, are merged as in any read; what comes of each key is older than all that waits.
Waiting rows are newer the later they were written. All are sorted by key, on the local disk beyond
``write-buffer-size``, and merged once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, from_numpy, no_columns
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.sort.spill import spill_codec
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.split_read import read_split, read_splits, with_blobs
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, with_key_columns, without_deletes
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import BlobReferences, ReadSpec, Split
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const, Predicate

_IN_BUCKETS = -1
"""The sequence number of what is in buckets; those of waiting rows are from 0 on."""


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """One partition in which rows wait, and how it is read. It pickles.

    Attributes:
        schema: the table's, whose options are those of the read.
        spec: reads the rows in buckets: all columns, then the row kind.
        in_buckets: the files of these.
        waiting: reads the rows that wait, the oldest first: the same columns.
        fields: the columns to return.
        predicate: which rows to return.
        references: of which columns BLOBs are fetched.
    """

    schema: TableSchema
    spec: ReadSpec
    in_buckets: tuple[PlannedFile, ...]
    waiting: Split
    fields: tuple[DataField, ...]
    predicate: Predicate
    references: BlobReferences | None = None

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """All that are read."""
        return (*self.in_buckets, *self.waiting.files)

    def batches(
        self,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        *,
        limit: int | None = None,
        on_file: Callable[[FileTrace], None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The merged rows that match the predicate; ``limit`` is where the caller stops. Raises as `read_merged` and
        `RowSorter` do."""
        if limit is not None:
            batch_rows = min(batch_rows, max(limit, 1))
        spec = replace(self.spec, fields=self.fields, references=self.references)
        yield from with_blobs(spec, self._stored(batch_rows, on_file))

    def _stored(self, batch_rows: int, on_file: Callable[[FileTrace], None] | None) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.fields)
        for rows in self._merged(on_file):
            kept = without_deletes(rows)
            if self.predicate is not Const.TRUE:
                kept = kept.filter(matches(self.predicate, kept))
            columns = [kept.column(name) for name in schema.names]
            found = pa.RecordBatch.from_arrays(columns, schema=schema) if columns else no_columns(kept.num_rows)
            for start in range(0, kept.num_rows, batch_rows):
                yield found.slice(start, batch_rows)

    def _merged(self, on_file: Callable[[FileTrace], None] | None) -> Iterator[pa.RecordBatch]:
        merger, options = RowMerger(self.schema), TableOptions(self.schema.options)
        keys = self.schema.trimmed_primary_keys
        codec = spill_codec(str(options.get("spill-compression")))
        fields = tuple(self.schema.field(name) for name in keys)
        spec = SortSpec(fields, buffer=int(options.get("write-buffer-size")), compression=codec)
        with RowSorter(spec, SortKeys("order")) as sorter:
            in_buckets = read_splits(self.spec, self.in_buckets, threads=os.cpu_count() or 1, on_file=on_file)
            for batch in in_buckets:
                sorter.add(_numbered(batch, np.full(batch.num_rows, _IN_BUCKETS, np.int64)))
            number = 0
            for batch in read_split(self.waiting, on_file=on_file):
                sorter.add(_numbered(batch, np.arange(number, number + batch.num_rows, dtype=np.int64)))
                number += batch.num_rows
            keyed = (with_key_columns(batch, keys) for batch in sorter.sorted())
            run = SortedBatches(keyed, "rows that wait for their buckets", repeats=True)
            wanted = [*self.schema.field_names, VALUE_KIND]
            for window in windows([run], merger.keys, merger.needed):
                yield merger.merge(window, wanted)

    def __len__(self) -> int:
        return len(self.files)


def _numbered(batch: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
    return batch.append_column(SEQUENCE_NUMBER, from_numpy(numbers))
