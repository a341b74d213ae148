"""Rows of some buckets of a partition, written to other buckets: a task of `paimon_pyds.ops.rescale.rescale`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.compact.key_task import MergeTask, merged_rows, run_writer
from paimon_pyds.engine.compact.task import CompactTask, conformed_rows
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.rolling import DirectWriter, WriterThreads
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.keys.bucket import PartitionedRows, bucket_assigner
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.planned_file import PlannedFile

_OPEN_BYTES = 256 << 20
"""Bytes in open files, over all buckets, before the fullest file is finished early."""

_BUCKET_ROWS = 8_192
"""Rows for each bucket that are worth cutting by bucket: fewer are joined first, which copies them."""


@dataclass(frozen=True, slots=True)
class RescaleTask:
    """Rows of some buckets of a partition that go to other buckets. It pickles.

    Attributes:
        source: how the rows are read, and with which context they are written, which has the new number of buckets.
            The number and the total of its ``bucket`` are a class and the number of classes: its rows belong to the new
            buckets that are congruent to the class modulo the total.
        buckets: the new ones that the task writes.
    """

    number: int
    source: CompactTask | MergeTask
    buckets: frozenset[int]

    @property
    def context(self) -> WriteContext:
        """The table as it is written to."""
        return self.source.context

    def files_read(self) -> Sequence[PlannedFile]:
        """The files that the rows are in."""
        return self.source.rewritten() if isinstance(self.source, MergeTask) else self.source.files


@dataclass(frozen=True, slots=True)
class RescaleResult:
    """New files by bucket, and their rows.

    Attributes:
        buckets: new files.
        gone: one of the old files is not there any more.
        misplaced: a row is in a bucket that its key does not hash to; nothing was written.
    """

    number: int
    buckets: tuple[BucketFiles, ...] = ()
    rows: int = 0
    gone: SnapshotNotFoundError | None = None
    misplaced: bool = False


def in_own_runs(task: MergeTask) -> MergeTask:
    """Files of different buckets as files of different levels, that is, of different sorted runs."""
    buckets = {(file.bucket, file.total_buckets) for rewrite in task.rewrites for files in rewrite for file in files}
    place = {bucket: number for number, bucket in enumerate(sorted(buckets))}

    def moved(file: PlannedFile) -> PlannedFile:
        assert file.run is not None
        level = file.run.level and file.run.level * len(place) + place[file.bucket, file.total_buckets]
        return file._replace(run=replace(file.run, level=level))

    rewrites = tuple(tuple(tuple(map(moved, files)) for files in rewrite) for rewrite in task.rewrites)
    return replace(task, rewrites=rewrites)


class _MisplacedRowError(Exception):
    pass


def rescale_one(task: RescaleTask) -> RescaleResult:
    """Write the rows of a task to their new buckets. On an error the new files are removed again.

    Raises:
        CorruptFileError: a file is damaged, or gave another number of rows than the manifest says.
        SchemaError: a value does not fit its column.
        StorageError: a file can't be read or written.
        UnsupportedError: rows are deleted that the merge engine can't delete.
    """
    threads = WriterThreads()
    writers = _BucketWriters(task, threads)
    try:
        for rows, buckets in _assigned(task):
            writers.write(rows, buckets)
        found = writers.close()
    except BaseException as error:
        writers.abort()
        if isinstance(error, SnapshotNotFoundError):
            return RescaleResult(task.number, gone=error)
        if isinstance(error, _MisplacedRowError):
            return RescaleResult(task.number, misplaced=True)
        raise
    finally:
        threads.shutdown()
    return RescaleResult(task.number, found, sum(file.row_count for bucket in found for file in bucket.files))


def _assigned(task: RescaleTask) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """The rows that the task writes, each batch with the buckets of its rows."""
    assigner, bucket = bucket_assigner(task.context.schema, task.context.options), task.source.bucket
    of_class = len(range(bucket.bucket, int(task.context.options.get("bucket")), bucket.total_buckets))
    for rows in joined_batches(_rows(task.source), _BUCKET_ROWS * len(task.buckets)):
        codes = np.zeros(rows.num_rows, np.int64)
        buckets = assigner.assign(PartitionedRows(rows, (bucket.partition,), codes))
        if (buckets % bucket.total_buckets != bucket.bucket).any():
            raise _MisplacedRowError
        if len(task.buckets) < of_class:
            own = np.isin(buckets, list(task.buckets))
            rows, buckets = rows.filter(from_numpy(own)), buckets[own]
        if len(buckets):
            yield rows, buckets


def _rows(source: CompactTask | MergeTask) -> Iterator[pa.RecordBatch]:
    """All live rows; of a table with a primary key merged, in the order of keys."""
    if isinstance(source, MergeTask):
        for sections in source.rewrites:
            for rows, _ in merged_rows(source.of(sections), sections):
                yield rows
    else:
        yield from conformed_rows(source)


class _BucketWriters:
    """Writes rows to several buckets at once, in bounded memory."""

    def __init__(self, task: RescaleTask, threads: WriterThreads) -> None:
        self._task = task
        self._threads = threads
        self._writers: dict[int, DirectWriter] = {}

    def write(self, rows: pa.RecordBatch, buckets: npt.NDArray[np.int32]) -> None:
        """Take rows, and the bucket of each."""
        narrow = buckets.astype(np.uint16) if buckets.max() < 1 << 16 else buckets  # sorted by radix
        order = np.argsort(narrow, kind="stable")
        buckets, rows = buckets[order], rows.take(from_numpy(order))
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]):
            self._writer(int(buckets[start])).write(rows.slice(start, stop - start))
        while sum(writer.held_bytes for writer in self._writers.values()) > _OPEN_BYTES:
            max(self._writers.values(), key=lambda writer: writer.held_bytes).flush()

    def _writer(self, bucket: int) -> DirectWriter:
        writer = self._writers.get(bucket)
        if writer is None:
            source, context, partition = self._task.source, self._task.context, self._task.source.bucket.partition
            directory = context.bucket_to_write(partition, bucket)
            empty = BucketFiles(partition, bucket, int(context.options.get("bucket")), directory, ())
            if isinstance(source, MergeTask):
                writer = DirectWriter(empty, run_writer(context, directory, self._threads, source.level))
            else:
                writer = AppendBucketWriter(context, empty, self._threads)
            self._writers[bucket] = writer
        return writer

    def close(self) -> tuple[BucketFiles, ...]:
        """Finish all files; what was written, by bucket."""
        return tuple(self._writers[bucket].close() for bucket in sorted(self._writers))

    def abort(self) -> None:
        """Remove every file written so far."""
        for writer in self._writers.values():
            writer.abort()
