"""How the rows of one bucket become data files. Which bucket rows go to is decided in
`paimon_pyds.keys.bucket.assigner`."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from paimon_pyds.base.arrays import pc
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import (
    DirectWriter,
    RollingWriter,
    RowMetadata,
    RowMetadataCollector,
    WriterThreads,
)
from paimon_pyds.engine.write.sequence_numbers import SequenceNumbers
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.paths import POSTPONE_BUCKET


class BucketWriter(Protocol):
    """Writes the rows of one bucket; keys, sequence numbers, levels and row kinds are its to give."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows with the columns `RowLayout.values`."""

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that `flush` would free, about: rows that wait, and those of files being written."""

    def spill(self) -> bool:
        """Spill rows from memory to the local disk; False if no rows wait in memory, and only `flush` frees some.
        Raises StorageError: the local disk is full."""

    @property
    def spilled_bytes(self) -> int:
        """Bytes on the local disk that `flush` would free."""

    def flush(self) -> None:
        """Finish what is open: afterwards the writer holds neither rows nor a file descriptor."""

    def close(self) -> BucketFiles:
        """Finish; what was written, for the commit."""

    def abort(self) -> None:
        """Remove every file written so far."""


def open_bucket_writer(
    context: WriteContext, bucket: BucketFiles, threads: WriterThreads, numbers: SequenceNumbers | None = None
) -> BucketWriter:
    """The writer of a bucket for the table's kind. ``bucket``: the bucket, without files yet. ``numbers``: of rows, in
    a table with a primary key; else None."""
    if numbers is None and context.apart_fields:
        from paimon_pyds.engine.write.apart_files import ApartBucketWriter  # few tables have such

        rows = AppendBucketWriter(context.without(context.apart_fields), bucket, threads)
        return ApartBucketWriter(context, bucket.directory, threads, rows)
    if numbers is None:
        writer = AppendBucketWriter(context, bucket, threads)
        if not context.clusters_rows:
            return writer
        from paimon_pyds.engine.write.clustering import ClusteredBucketWriter, clustering_order  # few tables do

        order = clustering_order(context)
        return writer if order is None else ClusteredBucketWriter(order, writer)
    from paimon_pyds.engine.write.key_writer import (  # other tables do without merging
        KeyBucketWriter,
        PostponedRowsWriter,
    )

    keyed: BucketWriter
    if bucket.bucket == POSTPONE_BUCKET:
        keyed = PostponedRowsWriter(context, bucket, threads)
    else:
        keyed = KeyBucketWriter(context, bucket, threads, numbers)
    if not context.layout.references:
        return keyed
    from paimon_pyds.engine.write.managed_blobs import ManagedBlobsWriter  # few tables have such

    return ManagedBlobsWriter(context, bucket, keyed)


class AppendBucketWriter(DirectWriter):
    """Writes rows as they come: no keys, sequence numbers that count the rows.

    ``bucket``: which one, without files yet. ``first_sequence``: the sequence number of the first row; those of new
    rows in fixed buckets are given by the commit. Rows that bring their row ids along have sequence numbers of their
    own. ``level``: of the files: above 0 where incremental clustering has sorted their rows.
    """

    def __init__(
        self,
        context: WriteContext,
        bucket: BucketFiles,
        threads: WriterThreads,
        first_sequence: int = 0,
        level: int = 0,
    ) -> None:
        self._level = level
        names = [field.name for field in context.layout.physical]
        self._sequence_at = names.index(SEQUENCE_NUMBER) if context.layout.trailing else None
        self._first_sequence = first_sequence
        self._references, self._views = sorted(context.layout.references), context.layout.views
        super().__init__(bucket, RollingWriter(context, bucket.directory, threads, self._collector))

    def write(self, batch: pa.RecordBatch) -> None:
        if self._references:
            from paimon_pyds.format.blob.references import check_references

            for name in self._references:
                check_references(name, batch.column(name), views=name in self._views)
        super().write(batch)

    def close(self) -> BucketFiles:
        return replace(self._bucket, files=tuple(replace(f, level=self._level) for f in self._rolling.close()))

    def _collector(self) -> RowMetadataCollector:
        if self._sequence_at is not None:
            return _TrackedRows(self._sequence_at)
        files = self._rolling.files
        return _CountedRows(files[-1].max_sequence_number + 1 if files else self._first_sequence)


class _CountedRows:
    """Rows that have their sequence numbers from the order they are written in."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first

    def update(self, batch: pa.RecordBatch) -> None:
        self._next += batch.num_rows

    def finish(self) -> RowMetadata:
        return RowMetadata(min_sequence_number=self._first, max_sequence_number=self._next - 1)


class _TrackedRows:
    """Rows with row ids, which have their sequence numbers in a column: NULL for those that the commit numbers."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._least: int | None = None
        self._greatest: int | None = None
        self._unnumbered = False

    def update(self, batch: pa.RecordBatch) -> None:
        numbers = batch.column(self._position)
        self._unnumbered |= numbers.null_count > 0
        bounds = pc.min_max(numbers).as_py()
        if bounds["min"] is not None:
            self._least = bounds["min"] if self._least is None else min(self._least, bounds["min"])
            self._greatest = bounds["max"] if self._greatest is None else max(self._greatest, bounds["max"])

    def finish(self) -> RowMetadata:
        """The least sequence number (0 for none), and the greatest (0 when the commit has rows to number)."""
        return RowMetadata(
            min_sequence_number=self._least or 0, max_sequence_number=0 if self._unnumbered else self._greatest or 0
        )
