"""How the rows of a bucket of a table with a primary key become data files: sorted and merged by key; or as they come,
in the bucket where they wait for another."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, one_batch
from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.sort.spill import spill_codec
from paimon_pyds.engine.write.context import WriteContext, check_files
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.rolling import DirectWriter, WriterThreads
from paimon_pyds.engine.write.sequence_numbers import SequenceNumbers
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, is_retract, with_key_columns
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.partition import PartitionBucket

_BATCH_ROWS = 131_072
"""Rows of a batch that is given to the file writer."""


class KeyBucketWriter:
    """Writes rows in the order of their keys, the versions of each key merged by the table's engine, to level 0.

    Rows come with the column ``_VALUE_KIND`` after those of the table. They wait until `flush`, in memory or on the
    local disk; each flush makes sorted files, and, if the option ``changelog-producer`` requires it, changelog files
    with the rows as they came. A row that is the only one of its key stays as it is. (Java: classes MergeTreeWriter and
    SortBufferWriteBuffer.)

    ``bucket``: which one, without files yet.
    """

    def __init__(
        self, context: WriteContext, bucket: BucketFiles, threads: WriterThreads, numbers: SequenceNumbers
    ) -> None:
        self._bucket = bucket
        self._merger = RowMerger(replace(context.schema, options=context.raw_options))
        self._keys = context.schema.trimmed_primary_keys
        self._numbers = numbers
        self._first = numbers.first(PartitionBucket(bucket.partition, bucket.bucket))
        self._numbered = 0
        self._rows: list[pa.RecordBatch] = []
        self._size = 0
        fields = tuple(context.schema.field(name) for name in self._keys)
        codec = spill_codec(str(context.options.get("spill-compression")))
        self._sorting = SortSpec(fields, buffer=int(context.options.get("write-buffer-size")), compression=codec)
        self._sorter: RowSorter | None = None
        self._files = SortedRunWriter(context, bucket.directory, threads)
        self._changelog: SortedRunWriter | None = None
        if context.options.get("changelog-producer") == "input":
            self._changelog = SortedRunWriter(context, bucket.directory, threads, changelog=True)

    def write(self, batch: pa.RecordBatch) -> None:
        numbers = from_numpy(self._numbers.of_rows(self._first, self._numbered, batch.num_rows))
        self._numbered += batch.num_rows
        numbered = batch.append_column(KEY_VALUE_FIELDS[0].name, numbers)
        self._rows.append(numbered)
        self._size += numbered.nbytes

    @property
    def held_bytes(self) -> int:
        return self._size

    def spill(self) -> bool:
        if self._rows:
            if self._sorter is None:
                self._sorter = RowSorter(self._sorting, SortKeys("order"))
            self._to_sorter(self._sorter)
            self._sorter.spill()
        return True

    @property
    def spilled_bytes(self) -> int:
        return 0 if self._sorter is None else self._sorter.spilled_bytes

    def flush(self) -> None:
        if self._sorter is None and self._changelog is None:
            if self._rows:
                self._write(self._taken())
        elif self._sorter is not None or self._rows:
            with self._sorter or RowSorter(self._sorting, SortKeys("order")) as sorter:
                self._sorter = None
                self._to_sorter(sorter)
                run = SortedBatches(self._logged(sorter.sorted()), "rows to write", repeats=True)
                for window in windows([run], self._merger.keys, self._merger.needed):
                    self._write(window)
        self._files.roll()
        if self._changelog is not None:
            self._changelog.roll()

    def close(self) -> BucketFiles:
        self.flush()
        changelog = () if self._changelog is None else self._changelog.close()
        return replace(self._bucket, files=self._files.close(), changelog_files=changelog)

    def abort(self) -> None:
        self._rows.clear()
        if self._sorter is not None:
            self._sorter.close()
        self._files.abort()
        if self._changelog is not None:
            self._changelog.abort()

    def _to_sorter(self, sorter: RowSorter) -> None:
        while self._rows:
            sorter.add(self._rows.pop(0))
        self._size = 0

    def _taken(self) -> pa.RecordBatch:
        """The rows in memory, in one batch with the columns that a merge compares; they are removed."""
        rows = one_batch(pa.Table.from_batches(self._rows))
        self._rows.clear()
        self._size = 0
        return with_key_columns(rows, self._keys)

    def _logged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in the order of keys, after they went to the changelog."""
        for batch in batches:
            if self._changelog is not None:
                self._changelog.write(batch)
            yield with_key_columns(batch, self._keys)

    def _write(self, rows: pa.RecordBatch) -> None:
        """Merge rows that have all versions of their keys, and write what comes of it."""
        names = [name for name in rows.schema.names if name not in self._merger.keys]
        merged = self._merger.merge(rows, names)
        for start in range(0, merged.num_rows, _BATCH_ROWS):
            self._files.write(merged.slice(start, _BATCH_ROWS))


class PostponedRowsWriter(DirectWriter):
    """Writes rows that wait for their bucket, as they come, without sequence numbers and statistics of values.

    Compactions take the files of one writer, which have names of their own, in the order they were made. (Java: class
    PostponeBucketFileStoreWrite.)

    ``bucket``: the one where they wait, without files yet.
    """

    def __init__(self, context: WriteContext, bucket: BucketFiles, threads: WriterThreads) -> None:
        writer = f"{context.options.get('data-file.prefix')}-u-{uuid.uuid4()}-s-{random.randrange(2**31)}-w-"
        named = {**context.dynamic_options, "data-file.prefix": writer}
        plain = replace(context, dynamic_options={**named, "file.format": "avro", "metadata.stats-mode": "none"})
        try:
            check_files(plain.layout.physical, plain.raw_options)
        except UnsupportedError:  # a type that Avro does not have
            plain = replace(context, dynamic_options=named)
        super().__init__(bucket, SortedRunWriter(plain, bucket.directory, threads))
        self._unchecked: RowMerger | None = RowMerger(
            replace(context.schema, options=context.raw_options), keeps_single=False
        )
        self._keys = context.schema.trimmed_primary_keys

    def write(self, batch: pa.RecordBatch) -> None:
        """See `BucketWriter`.
        Raises UnsupportedError: a row deletes others, and the merge engine can't: no compaction could take it in."""
        none = from_numpy(np.full(batch.num_rows, -1, np.int64))
        rows = batch.append_column(KEY_VALUE_FIELDS[0].name, none)
        deletes = np.flatnonzero(is_retract(rows.column(KEY_VALUE_FIELDS[1].name)))
        if self._unchecked is not None and len(deletes):
            self._unchecked.merge(with_key_columns(rows.slice(int(deletes[0]), 1), self._keys), rows.schema.names)
            self._unchecked = None
        super().write(rows)
