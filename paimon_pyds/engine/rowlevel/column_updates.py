"""New values of some columns in tables of data evolution: files that hold these columns alone, for all rows of a group.

Nothing is taken away: readers take a column from the newest file that has it. Rows that do not change are copied, those
that are deleted too, as a row's place in the files of its group is its row id. (Source: Paimon documentation,
append-table/data-evolution; what Java 2.1, pypaimon 2.1 and pypaimon-rust 0.4 write.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s, from_numpy, one_batch
from paimon_pyds.base.progress import worked
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.rowlevel.copied_pages import replacer_of, write_replaced
from paimon_pyds.engine.rowlevel.target import Candidate, RowTarget
from paimon_pyds.engine.rowlevel.tasks import in_place, unfiltered
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.context import vector_fields
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage
from paimon_pyds.metadata.manifest import DataFile, is_apart, is_blob_file
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.storage import discard

_BATCH_ROWS = 262_144
"""Rows that are copied at a time: each batch goes through several threads, and few columns are copied."""


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
    """What tasks need to write files of these columns alone. Columns in vector files are written all together: of
    several such files that have a column, Java Paimon does not take the newest."""
    context = replace(target.moving_context(-1), columns=frozenset(names), of_group=True)
    if not context.vector_fields:
        return context
    vectors = vector_fields(target.schema.fields, target.options)
    return replace(context, columns=frozenset([*names, *(field.name for field in vectors)]))


def write_columns(
    context: WriteContext, spec: ReadSpec, candidate: Candidate, rows: BitMap, versions: Iterable[pa.RecordBatch]
) -> CommitMessage:
    """Write files with the columns ``context.columns`` of all rows of a group. On an error they are removed again.

    Args:
        context: made by `columns_context`.
        spec: reads the table.
        candidate: the group.
        rows: the positions of rows that change, one at least.
        versions: new values for these rows, in their order; columns that they do not have stay as they are.

    Raises:
        SchemaError: a value that does not fit its column.
        UnsupportedError: vectors of the group are in files of other columns, or under other names.
        CorruptFileError, SnapshotNotFoundError, StorageError: a file can't be read.
    """
    file = candidate.file
    directory = context.bucket_to_write(file.partition, file.bucket)
    bucket = BucketFiles(file.partition, file.bucket, file.total_buckets, directory, ())
    others = context.without(context.apart_fields)
    parts = [(others, context.schema.id)] if others.layout.table else []
    if context.vector_fields:
        parts.append(_vectors_part(context, spec, file))
    changed = np.frombuffer(rows.to_array(), np.uint32).astype(np.int64)
    written: list[DataFile] = []
    with removing_unfinished(lambda: discard(context.io, replace(bucket, files=tuple(written)).paths())):
        if context.blob_fields:
            blobs, versions = _write_blobs(context, spec, file, directory, changed, versions)
            written += blobs
        elif len(parts) > 1:
            versions = list(versions)
        for part, schema_id in parts:
            replacer = replacer_of(part, spec, file, changed)
            batches = _new_rows(part, spec, file, changed, _Rows(versions), None if replacer is None else replacer.rows)
            if replacer is None:
                new = _write_part(part, bucket, batches)
            else:
                new = write_replaced(part, replacer, bucket, file.row_count, batches)
            written.append(replace(new, first_row_id=file.first_row_id, schema_id=schema_id))
    worked(file.path)
    return CommitMessage((replace(bucket, files=tuple(written)),))


def _write_part(context: WriteContext, bucket: BucketFiles, batches: Iterable[pa.RecordBatch]) -> DataFile:
    conformer, threads = context.conformer(), WriterThreads()
    writer = AppendBucketWriter(context, bucket, threads)
    try:
        for batch in batches:
            writer.write(conformer.conform(batch))
        (one,) = writer.close().files
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()
    return one


def _write_blobs(
    context: WriteContext,
    spec: ReadSpec,
    file: PlannedFile,
    directory: str,
    at: Int64s,
    versions: Iterable[pa.RecordBatch],
) -> tuple[list[DataFile], list[pa.RecordBatch]]:
    """Write the BLOB columns; their files have placeholders for rows that stay. With them, the other columns of
    ``versions``."""
    from paimon_pyds.engine.write.blob_files import BlobColumnWriter

    fields = context.blob_fields
    conformer = replace(context, columns=frozenset(field.name for field in fields)).conformer()
    writers = {field.name: BlobColumnWriter(context, directory, field) for field in fields}
    others: list[pa.RecordBatch] = []
    try:
        done = start = 0
        for batch in versions:
            stop = int(at[done + batch.num_rows - 1]) + 1 if batch.num_rows else start
            changed = np.zeros(stop - start, np.bool_)
            changed[at[done : done + batch.num_rows] - start] = True
            blobs = conformer.conform(batch.select(list(writers)))
            for name, writer in writers.items():
                writer.write_changed(blobs.column(name), changed)
            others.append(batch.drop_columns(list(writers)))
            done, start = done + batch.num_rows, stop
        for writer in writers.values():
            writer.write_changed(None, np.zeros(file.row_count - start, np.bool_))
            writer.cut()
        written: list[DataFile] = []
        there = _blobs_there(spec, file)
        for field in fields:
            first = file.first_row_id or 0
            schema_id, name = there.get(field.id, (context.schema.id, field.name))
            for each in writers[field.name].files:
                named = replace(each.file, first_row_id=first, schema_id=schema_id, write_cols=(name,))
                written.append(named)
                first += each.file.row_count
    except BaseException:
        for writer in writers.values():
            writer.abort()
        raise
    return written, others


def _files_of(file: PlannedFile, *, apart: bool) -> Iterator[PlannedFile]:
    """The files of a group: those of BLOB and VECTOR columns, or those of the others."""
    parts = (each for part in file.parts for each in (part.parts or (part,))) if file.parts else iter((file,))
    return (each for each in parts if is_apart(each.name) is apart)


def _blobs_there(spec: ReadSpec, file: PlannedFile) -> dict[int, tuple[int, str]]:
    """For the ids of BLOB columns, the schema and the name by which files of a group have them. Java Paimon reads no
    group in which one column has two names."""
    return {
        field.id: (part.schema_id, field.name)
        for part in _files_of(file, apart=True)
        if is_blob_file(part.path)
        for field in spec.fields_of(part)
        if field.name in (part.write_cols or ())
    }


def _vectors_part(context: WriteContext, spec: ReadSpec, file: PlannedFile) -> tuple[WriteContext, int]:
    """How new vectors of a group are written, and the schema that their file names: those of the files that are there.
    Java Paimon takes the newest file only among those of one schema, format and list of columns."""
    there = {
        (
            part.schema_id,
            part.path.rpartition(".")[2],
            tuple((f.id, f.name, f.type) for f in spec.fields_of(part) if f.name in (part.write_cols or ())),
        )
        for part in _files_of(file, apart=True)
        if not is_blob_file(part.path)
    }
    wanted = tuple((field.id, field.name, field.type) for field in context.vector_fields)
    inside = {field.id for part in _files_of(file, apart=False) for field in spec.fields_of(part)}
    if inside.isdisjoint(id_ for id_, _, _ in wanted):
        if not there:
            return context.of_vectors(), context.schema.id
        (schema_id, file_format, found), *others = there
        if not others and found == wanted:
            return context.of_vectors(file_format), schema_id
    raise UnsupportedError(
        "the vectors of a row group are in data files, or in vector files of other columns than the table has now, and "
        "Java Paimon would go on reading them there",
        path=file.path,
        hint="compact the table with full=True, and update it again",
        feature="vector",
    )


def _new_rows(
    context: WriteContext, spec: ReadSpec, file: PlannedFile, at: Int64s, versions: _Rows, wanted: Int64s | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a group, those at the positions ``at`` in new versions; all rows, or those that are wanted."""
    fields = context.layout.table
    names = [field.name for field in fields]
    if len(at) == (file.row_count if wanted is None else len(wanted)) and versions.have(names):
        yield from (batch.select(names) for batch in versions.all())
        return
    whole = file._replace(deletion=None, selection=None, index_path=None, window=None, bounds=None)
    if wanted is not None:
        whole, at = whole.selecting(RowSelection.of(wanted)), np.searchsorted(wanted, at)
    start = 0
    for batch in read_file(unfiltered(spec, fields), whole, batch_rows=_BATCH_ROWS):
        first, last = np.searchsorted(at, [start, start + batch.num_rows])
        if first == last:
            yield batch
        else:
            here = at[first:last] - start
            yield in_place(batch, here, versions.over(batch.take(from_numpy(here))))
        start += batch.num_rows


class _Rows:
    """Batches of rows, of which some are taken at a time."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.RecordBatch | None = None

    def all(self) -> Iterator[pa.RecordBatch]:
        """All batches."""
        return self._batches if self._left is None else chain([self._left], self._batches)

    def have(self, names: list[str]) -> bool:
        """Whether they have all these columns."""
        if self._left is None:
            self._left = next(self._batches)
        return set(names) <= set(self._left.schema.names)

    def over(self, old: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows, with the columns of their old versions."""
        fresh = self._take(old.num_rows)
        columns = {name: (fresh if name in fresh.schema.names else old) for name in old.schema.names}
        return pa.RecordBatch.from_arrays([each.column(name) for name, each in columns.items()], names=list(columns))

    def _take(self, count: int) -> pa.RecordBatch:
        parts = []
        while count:
            if self._left is None or not self._left.num_rows:
                self._left = next(self._batches)
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
