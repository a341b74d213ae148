"""New values of some columns in tables of data evolution: files that hold these columns alone, for all rows of a group.

Nothing is taken away: readers take a column from the newest file that has it. Rows that do not change are copied, those
that are deleted too, as a row's place in the files of its group is its row id. (Source: Paimon documentation,
append-table/data-evolution; what Java 2.1, pypaimon 2.1 and pypaimon-rust 0.4 write.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import one_batch
from paimon_pyds.base.progress import worked
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.rowlevel.target import Candidate, RowTarget
from paimon_pyds.engine.rowlevel.tasks import in_place, unfiltered
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.paths import partition_directory
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import PlannedFile, ReadSpec
from paimon_pyds.storage import discard


def check_columns(schema: TableSchema, names: Iterable[str]) -> None:
    """Raises UnsupportedError where one of these columns says which partition a row is in."""
    for name in names:
        if name in schema.partition_keys:
            raise UnsupportedError(
                f"column {name!r} is a partition column: an update would move rows with their row ids",
                hint="delete the rows and append them again",
                feature="data-evolution",
            )


def columns_context(target: RowTarget, names: Iterable[str]) -> WriteContext:
    """What tasks need to write files of these columns alone."""
    return replace(target.moving_context(-1), columns=frozenset(names), of_group=True)


def write_columns(
    context: WriteContext, spec: ReadSpec, candidate: Candidate, rows: BitMap, versions: Iterable[pa.RecordBatch]
) -> CommitMessage:
    """Write a file with the columns ``context.columns`` of all rows of a group. On an error it is removed again.

    Args:
        context: made by `columns_context`.
        spec: reads the table.
        candidate: the group.
        rows: the positions of rows that change, one at least.
        versions: new values of these columns for these rows, in their order.

    Raises:
        SchemaError: a value that does not fit its column.
        CorruptFileError, SnapshotNotFoundError, StorageError: a file can't be read.
    """
    if context.blob_fields:
        return _with_blobs(context, spec, candidate, rows, versions)
    file, conformer, threads = candidate.file, context.conformer(), WriterThreads()
    directory = context.paths.bucket_dir(partition_directory(context.schema, file.partition), file.bucket)
    bucket = BucketFiles(file.partition, file.bucket, file.total_buckets, directory, ())
    writer = AppendBucketWriter(context, bucket, threads)
    try:
        for batch in _all_rows(context, spec, file, rows, _Rows(versions)):
            writer.write(conformer.conform(batch))
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()
    worked(file.path)
    (one,) = written.files
    return CommitMessage((replace(written, files=(replace(one, first_row_id=file.first_row_id),)),))


def _with_blobs(
    context: WriteContext, spec: ReadSpec, candidate: Candidate, rows: BitMap, versions: Iterable[pa.RecordBatch]
) -> CommitMessage:
    """As `write_columns`, where some of the columns are BLOBs: their files have placeholders for rows that stay."""
    from paimon_pyds.engine.write.blob_files import BlobColumnWriter

    file, conformer = candidate.file, context.conformer()
    directory = context.paths.bucket_dir(partition_directory(context.schema, file.partition), file.bucket)
    bucket = BucketFiles(file.partition, file.bucket, file.total_buckets, directory, ())
    writers = {field.name: BlobColumnWriter(context, directory, field) for field in context.blob_fields}
    at = np.frombuffer(rows.to_array(), np.uint32).astype(np.int64)
    others: list[pa.RecordBatch] = []
    others_names = [field.name for field in context.layout.table if field.name not in writers]
    try:
        done = start = 0
        for batch in map(conformer.conform, versions):
            stop = int(at[done + batch.num_rows - 1]) + 1 if batch.num_rows else start
            changed = np.zeros(stop - start, np.bool_)
            changed[at[done : done + batch.num_rows] - start] = True
            for name, writer in writers.items():
                writer.write_changed(batch.column(name), changed)
            others.append(batch.select(others_names))
            done, start = done + batch.num_rows, stop
        for writer in writers.values():
            writer.write_changed(None, np.zeros(file.row_count - start, np.bool_))
            writer.cut()
        written: list[DataFile] = []
        for writer in writers.values():
            first = file.first_row_id or 0
            for each in writer.files:
                written.append(replace(each.file, first_row_id=first))
                first += each.file.row_count
        message = CommitMessage((replace(bucket, files=tuple(written)),))
        if others_names:
            own = write_columns(replace(context, columns=frozenset(others_names)), spec, candidate, rows, others)
            message = CommitMessage((*message.buckets, *own.buckets))
    except BaseException:
        for writer in writers.values():
            writer.abort()
        raise
    return message


def _all_rows(
    context: WriteContext, spec: ReadSpec, file: PlannedFile, rows: BitMap, versions: _Rows
) -> Iterator[pa.RecordBatch]:
    if len(rows) == file.row_count:
        yield from versions.all()
        return
    whole = file._replace(deletion=None, selection=None, index_path=None, window=None, bounds=None)
    at = np.frombuffer(rows.to_array(), np.uint32).astype(np.int64)
    start = 0
    for batch in read_file(unfiltered(spec, context.layout.table), whole):
        first, last = np.searchsorted(at, [start, start + batch.num_rows])
        if first == last:
            yield batch
        else:
            yield in_place(batch, at[first:last] - start, versions.take(int(last - first), batch.schema.names))
        start += batch.num_rows


class _Rows:
    """Batches of rows, of which some are taken at a time."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.RecordBatch | None = None

    def all(self) -> Iterator[pa.RecordBatch]:
        """All batches."""
        return self._batches

    def take(self, count: int, names: list[str]) -> pa.RecordBatch:
        """These columns of the next rows."""
        parts = []
        while count:
            if self._left is None or not self._left.num_rows:
                self._left = next(self._batches).select(names)
            part = self._left.slice(0, count)
            self._left = self._left.slice(part.num_rows)
            count -= part.num_rows
            parts.append(part)
        return parts[0] if len(parts) == 1 else one_batch(pa.Table.from_batches(parts))


@dataclass(frozen=True, slots=True)
class ColumnsTask:
    """Groups of which some rows change, and how: ``spec`` reads what ``values`` needs to make new values of it."""

    spec: ReadSpec
    files: tuple[tuple[Candidate, BitMap], ...]
    values: Callable[[pa.RecordBatch], pa.RecordBatch]
    context: WriteContext


def update_columns(task: ColumnsTask) -> CommitMessage:
    """Write the new values of a task."""
    messages: list[CommitMessage] = []
    with removing_unfinished(lambda: discard(task.context.io, (path for m in messages for path in m.paths()))):
        for candidate, rows in task.files:
            versions = map(task.values, read_file(task.spec, candidate.file.selecting(RowSelection(rows))))
            messages.append(write_columns(task.context, task.spec, candidate, rows, versions))
    return CommitMessage(tuple(bucket for message in messages for bucket in message.buckets))
