"""One group of a compaction: its files are read without their deleted rows and written again. Runs on any machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.progress import worked
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.external import SortSpec, sorted_batches
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.compact.append_plan import Group, Plan
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.scan.planned_files import planned_files, spec_of_files
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, Split
from paimon_pyds.metadata.store import TableStore


@dataclass(frozen=True, slots=True)
class CompactTask:
    """Data files of a bucket that become new ones, in this order unless ``sort`` names another. It pickles.

    ``bucket`` has no files yet; the sequence numbers of the new ones begin at ``first_sequence``, they get ``level``.
    """

    number: int
    context: WriteContext
    spec: ReadSpec
    files: tuple[PlannedFile, ...]
    bucket: BucketFiles
    first_sequence: int
    sort: SortSpec | None = None
    level: int = 0

    @property
    def live_rows(self) -> int | None:
        """Rows that are not deleted; None when a manifest does not say how many are."""
        counts = [file.live_row_count for file in self.files]
        return None if None in counts else sum(count or 0 for count in counts)

    def check(self, rows: int) -> None:
        """Raises CorruptFileError where the files gave another number of rows than the manifests say."""
        if self.live_rows not in (None, rows):
            raise CorruptFileError(
                f"the files of a group gave {rows} rows, the manifests say {self.live_rows}", path=self.bucket.directory
            )


@dataclass(frozen=True, slots=True)
class CompactResult:
    """The new files of a group, and how many rows were read for them.

    ``gone`` says that one of the old files is not there any more: another commit removed it, and it has expired.
    ``replaced`` are rows of files that stay, by name and position: vectors hide them now, as new files have their keys.
    ``older`` are the numbers of those among `Group.older` that were written anew.
    """

    number: int
    bucket: BucketFiles
    rows: int
    gone: SnapshotNotFoundError | None = None
    replaced: Mapping[str, BitMap] = field(default_factory=dict)
    older: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """A group of a plan: its bucket, without files yet, and the files to read, in the order of the group.

    ``older`` ones are read for older versions of rows, and stay.
    """

    group: Group
    bucket: BucketFiles
    files: tuple[PlannedFile, ...]
    older: tuple[PlannedFile, ...] = ()


def compact_tasks(store: TableStore, plan: Plan) -> list[CompactTask]:
    """A task for each group."""
    spec = read_spec(store, plan)
    return [
        CompactTask(
            number,
            plan.context,
            spec,
            found.files,
            found.bucket,
            found.group.first_sequence,
            plan.sort,
            found.group.level,
        )
        for number, found in enumerate(group_files(store, plan))
    ]


def read_spec(store: TableStore, plan: Plan) -> ReadSpec:
    """How the files of a plan are read."""
    schema = plan.schema
    spec = spec_of_files(store, schema, schema.fields, _picked(plan)["schema_id"].unique().to_pylist())
    zone = zone_given(plan.context.dynamic_options)
    return replace(spec, metadata_columns=plan.context.layout.trailing_names, zone=zone)


def group_files(store: TableStore, plan: Plan) -> Iterator[GroupFiles]:
    """The files to read for each group."""
    files = iter(_planned(store, plan))
    partitions = list(dict.fromkeys(group.partition for group in plan.groups))
    directories = dict(zip(partitions, plan.context.directories_to_write(partitions), strict=True))
    for group in plan.groups:
        directory = plan.context.paths.bucket_dir(directories[group.partition], group.bucket)
        bucket = BucketFiles(group.partition, group.bucket, group.total_buckets, directory, ())
        mine, older = (tuple(next(files) for _ in some) for some in (group.files, group.older))
        yield GroupFiles(group, bucket, mine, older)


def _picked(plan: Plan) -> pa.RecordBatch:
    """The entries of all groups, in their order."""
    read = [file.at for group in plan.groups for files in (group.files, group.older) for file in files]
    return plan.entries.take(array(read, pa.int64()))


def _planned(store: TableStore, plan: Plan) -> Iterable[PlannedFile]:
    for file in planned_files(store, plan.schema, _picked(plan)):
        vector = plan.vectors.get(file.name)
        yield file if vector is None else file._replace(deletion=vector.file)


def compact_one(task: CompactTask) -> CompactResult:
    """Write the live rows of a group into new files. On an error they are removed again.

    Raises:
        CorruptFileError: a file is damaged, or gave another number of rows than the manifest says.
        SchemaError: a value does not fit its column, as NULL in one that became NOT NULL.
        StorageError: a file can't be read or written.
    """
    return write_rows(task, conformed_rows(task))


def write_rows(task: CompactTask, batches: Iterable[pa.RecordBatch]) -> CompactResult:
    """Write rows (see `conformed`) into new files of a task. On an error they are removed again."""
    threads = WriterThreads()
    writer = AppendBucketWriter(task.context, task.bucket, threads, task.first_sequence, task.level)
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            writer.write(batch)
        return CompactResult(task.number, writer.close(), rows)
    except SnapshotNotFoundError as error:
        writer.abort()
        return CompactResult(task.number, task.bucket, 0, error)
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()


def conformed_rows(task: CompactTask) -> Iterator[pa.RecordBatch]:
    """The live rows of a task as they are written. Raises as `compact_one`."""
    rows = 0
    for batch in conformed(task, _batches(task)):
        rows += batch.num_rows
        yield batch
    task.check(rows)


def conformed(task: CompactTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with the columns of ``task.spec`` as they are written."""
    conformer = task.context.conformer()
    return map(conformer.conform, joined_batches(batches))


def _batches(task: CompactTask) -> Iterator[pa.RecordBatch]:
    if task.sort is None:
        return read_rows(task, task.spec.fields)
    rows = sum(f.row_count for f in task.files)

    def read(fields: tuple[DataField, ...]) -> Iterator[pa.RecordBatch]:
        batches = read_rows(task, fields)
        return _halfway(task, batches, 0.0) if fields == task.spec.fields else batches

    return _halfway(task, sorted_batches(read, task.spec.fields, rows, task.sort), 0.5)


def _halfway(task: CompactTask, batches: Iterable[pa.RecordBatch], before: float) -> Iterator[pa.RecordBatch]:
    """The batches of a sort: reading the rows is one half of what is done to each file, giving them out the other."""
    files, rows = iter(task.files), 0
    file = next(files, None)
    for batch in batches:
        yield batch
        rows += batch.num_rows
        while file is not None and rows >= file.row_count:
            worked(file.path, before + 0.5)
            rows -= file.row_count
            file = next(files, None)
        if file is not None:
            worked(file.path, before + rows / file.row_count / 2)


def read_rows(task: CompactTask, fields: tuple[DataField, ...]) -> Iterator[pa.RecordBatch]:
    """These columns of the rows; all of them, and what else is written, or those of sort keys."""
    whole = fields == task.spec.fields
    spec = task.spec if whole else replace(task.spec, fields=fields, metadata_columns=())
    return read_split(Split.of(spec, task.files))
