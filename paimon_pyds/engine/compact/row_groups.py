"""Compaction of tables of data evolution: the files of a row group become one, and groups that follow one another too.

Rows keep their row ids, so every row stays in its place: deleted ones are written as well, and their deletion vector
goes with them. What a run of groups becomes has the row ids of all, and the greatest of their sequence numbers. Groups
with files of BLOB or VECTOR columns stay as they are. (Source: what Java 2.1's compaction writes.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, pc, to_numpy
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.progress import phase, worked
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Retry
from paimon_pyds.engine.commit import Changes, Increment, VectorPlace, commit
from paimon_pyds.engine.commit.publisher import removing_unfinished, removing_unpublished
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.execution.executor import Executor, mapped
from paimon_pyds.engine.execution.live_files import live_in, partition_condition
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import deleted_rows
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.errors import CommitConflictError, UnsupportedError
from paimon_pyds.metadata.column_files import are_apart, row_groups
from paimon_pyds.metadata.commit_message import BucketFiles, added_entries
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT, DataFile
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.paths import partition_directory
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import PlannedFile, ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import discard

_CONFLICT_RETRIES = 5
"""How often groups are rewritten again because other commits changed them meanwhile."""


@dataclass(frozen=True, slots=True)
class CompactedGroups:
    """What a compaction did: its snapshot, the files looked at, the entries that went, and the files that came."""

    snapshot: Snapshot | None
    files: int
    before: pa.RecordBatch
    after: tuple[DataFile, ...]
    runs: int
    rows: int
    attempts: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """Row groups whose row ids follow one another, and the places of their files among the entries."""

    groups: tuple[PlannedFile, ...]
    places: tuple[int, ...]

    @property
    def first(self) -> int:
        return self.groups[0].first_row_id or 0

    @property
    def rows(self) -> int:
        return sum(group.row_count for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Plan:
    snapshot: Snapshot | None
    context: WriteContext
    spec: ReadSpec
    entries: pa.RecordBatch
    runs: tuple[_Run, ...]

    @property
    def before(self) -> pa.RecordBatch:
        return self.entries.take(array([at for run in self.runs for at in run.places], pa.int64()))


def compact_row_groups(store: TableStore, options: CompactOptions, executor: Executor) -> CompactedGroups:
    """Compact the row groups of a table of data evolution.

    Raises:
        UnsupportedError: rows would be put into another order, or a column can't be written.
        CorruptFileError: a data file is damaged; the table is as it was.
        CommitError: not published; what was written was removed again.
    """
    if options.order_by:
        raise UnsupportedError(
            "order_by would give rows other row ids in a table with data-evolution.enabled=true",
            path=store.root,
            hint="compact without order_by",
            feature="data-evolution",
        )
    retries, attempts = Retry(attempts=_CONFLICT_RETRIES), 0
    while True:
        with phase("planning"):
            plan = _plan(store, options)
        runs, rows = len(plan.runs), sum(run.rows for run in plan.runs)
        if options.dry_run or not runs:
            return CompactedGroups(None, plan.entries.num_rows, plan.before, (), runs, rows, attempts)
        attempts += 1
        written: list[BucketFiles] = []
        remove = partial(_remove, store, written)
        with removing_unfinished(remove):
            tasks = [_Task(run, plan.spec, plan.context) for run in plan.runs]
            written += mapped(executor, "rewriting", _rewrite, tasks, lambda task: task.run.groups)
        try:
            with phase("committing"), removing_unpublished(remove):
                snapshot = _publish(store, plan, written)
        except CommitConflictError:
            if retries.exhausted:
                return CompactedGroups(None, plan.entries.num_rows, plan.before.slice(0, 0), (), 0, 0, attempts, runs)
            retries.pause()
            retries.count += 1
            continue
        after = tuple(file for bucket in written for file in bucket.files)
        return CompactedGroups(snapshot, plan.entries.num_rows, plan.before, after, runs, rows, attempts)


def _remove(store: TableStore, written: Sequence[BucketFiles]) -> None:
    discard(store.io, (path for bucket in written for path in bucket.paths()))


def _plan(store: TableStore, options: CompactOptions) -> _Plan:
    snapshot = store.latest_snapshot()  # before the schema: no file of the snapshot has a later one
    context = replace(write_context(store, options.options, existing_rows=True), file_source=FILE_SOURCE_COMPACT)
    schema = context.schema
    entries = live_in(store, schema, snapshot, options.where, "compact")
    request = ScanRequest(
        state=TableState(snapshot, schema),
        predicate=partition_condition(schema, options.where, "compact"),
        fields=context.without_blobs().layout.table,
        options=context.options,
        zone=zone_given(context.dynamic_options),
    )
    plan = plan_scan(store, request)
    spec = replace(plan.spec, predicate=Const.TRUE, filter_fields=())
    runs = tuple(_runs(plan.files, entries, context, full=options.full))
    whole = replace(context.without_blobs(), of_group=True)  # one file for each run, whatever its size
    return _Plan(snapshot, whole, spec, entries, runs)


def _runs(
    files: Sequence[PlannedFile], entries: pa.RecordBatch, context: WriteContext, *, full: bool
) -> Iterator[_Run]:
    """The runs that are worth a rewrite: of two files at least, of ``compaction.min.file-num`` unless ``full``."""
    numbers, names = row_groups(entries), entries["file_name"].to_pylist()
    places: dict[int, list[int]] = {}
    for at, number in enumerate(numbers.tolist()):
        places.setdefault(number, []).append(at)
    apart = set(numbers[are_apart(entries)].tolist())
    of_name = dict(zip(names, numbers.tolist(), strict=True))
    target, options = context.target_file_size, context.options
    least = 2 if full else max(2, int(options.get("compaction.min.file-num")))
    small, most_rows = target * float(options.get("compaction.small-file-ratio")), context.target_file_rows
    groups: list[PlannedFile] = []
    members: list[int] = []
    size = rows = 0

    def flushed() -> Iterator[_Run]:
        if len(members) >= least:
            yield _Run(tuple(groups), tuple(members))
        groups.clear()
        members.clear()

    found = (file for file in files if file.first_row_id is not None and of_name[file.name] not in apart)
    for file in sorted(found, key=lambda file: (*file.bucket_id, file.first_row_id or 0)):
        own = places[of_name[file.name]]
        if groups:
            last = groups[-1]
            follows = (
                last.bucket_id == file.bucket_id and (last.first_row_id or 0) + last.row_count == file.first_row_id
            )
            size, rows = sum(each.size for each in groups), sum(each.row_count for each in groups)
            if not follows or size + file.size > target or rows + file.row_count > most_rows:
                yield from flushed()
        if len(own) == 1 and file.size >= small:
            yield from flushed()
            continue
        size, rows = (size + file.size, rows + file.row_count) if groups else (file.size, file.row_count)
        groups.append(file)
        members.extend(own)
    yield from flushed()


@dataclass(frozen=True, slots=True)
class _Task:
    run: _Run
    spec: ReadSpec
    context: WriteContext


def _rewrite(task: _Task) -> BucketFiles:
    """All rows of a run in one file, deleted ones too. On an error it is removed again."""
    run, context, first = task.run, task.context, task.run.groups[0]
    directory = context.paths.bucket_dir(partition_directory(context.schema, first.partition), first.bucket)
    bucket = BucketFiles(first.partition, first.bucket, first.total_buckets, directory, ())
    conformer, threads = context.conformer(), WriterThreads()
    writer = AppendBucketWriter(context, bucket, threads)
    try:
        for group in run.groups:
            whole = group._replace(deletion=None, selection=None, bounds=None)
            for batch in read_file(task.spec, whole):
                writer.write(conformer.conform(batch))
            worked(group.path)
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()
    (one,) = written.files
    columns = None if len(context.layout.table) == len(context.schema.fields) else one.write_cols
    return replace(written, files=(replace(one, first_row_id=run.first, write_cols=columns),))


def _publish(store: TableStore, plan: _Plan, written: Sequence[BucketFiles]) -> Snapshot | None:
    lows, highs = (to_numpy(plan.entries[name]) for name in ("min_sequence_number", "max_sequence_number"))
    buckets = []
    vectors: dict[PartitionBucket, dict[str, BitMap | None]] = {}
    expected: dict[str, VectorPlace | None] = {}
    of_run = {bucket.files[0].first_row_id: bucket for bucket in written}  # in the order in which they were done
    for run in plan.runs:
        bucket = of_run[run.first]
        (file,) = bucket.files
        at = list(run.places)
        low, high = int(lows[at].min()), int(highs[at].max())
        file = replace(file, min_sequence_number=low, max_sequence_number=high)
        buckets.append(replace(bucket, files=(file,)))
        deleted = BitMap()
        for group in run.groups:
            expected[group.name] = None
            if (vector := group.deletion) is not None:
                expected[group.name] = VectorPlace(vector.path.rpartition("/")[2], vector.offset)
                rows = deleted_rows(store.io, vector, group.row_count)
                deleted |= rows.shift((group.first_row_id or 0) - run.first)
                vectors.setdefault(group.bucket_id, {})[group.name] = None
        if deleted:
            vectors.setdefault(run.groups[0].bucket_id, {})[file.file_name] = deleted
    snapshot, schema = plan.snapshot, plan.context.schema
    indexes = (
        ()
        if snapshot is None or snapshot.index_manifest is None
        else store.read_index_manifest(snapshot.index_manifest)
    )
    fresh = VectorFiles(store, schema, plan.context.options, indexes, plan.entries).write(vectors)
    before = plan.before
    increment = Increment(
        kind=CommitKind.COMPACT,
        deleted=before,
        replacements=added_entries((bucket, bucket.files) for bucket in buckets),
        expected_vectors=expected,
        guard=_SameGroups(store, snapshot, schema.id, frozenset(before["file_name"].to_pylist()), plan.runs),
        index_entries=fresh.entries,
        replaced_index_files=fresh.replaced,
    )
    with removing_unpublished(partial(discard, store.io, fresh.paths)):
        return commit(store, Changes((increment,)), plan.context.options)


@dataclass(frozen=True, slots=True)
class _SameGroups:
    """Since a snapshot no other commit may have added columns to the groups of a compaction."""

    store: TableStore
    snapshot: Snapshot | None
    schema_id: int
    names: frozenset[str]
    runs: tuple[_Run, ...]

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raises CommitConflictError."""
        if latest == self.snapshot:
            return
        if schema.id != self.schema_id:
            raise self._conflict("the table's schema was changed by another commit meanwhile")
        of_partition: dict[bytes, list[_Run]] = {}
        for run in self.runs:
            of_partition.setdefault(run.groups[0].partition, []).append(run)
        wanted = EntryFilter(schema, partitions=frozenset(of_partition))
        columns = ("partition", "file_name", "first_row_id", "row_count")
        live = ManifestReader(self.store, wanted).live_files(latest, columns)
        others = pc.invert(pc.is_in(live["file_name"], array(sorted(self.names), pa.string())))
        live = live.filter(pc.and_(others, live["first_row_id"].is_valid()))
        for partition, name, first, rows in zip(*(live[column].to_pylist() for column in columns), strict=True):
            for run in of_partition[partition]:
                if first < run.first + run.rows and run.first < first + rows:
                    raise self._conflict(f"the data file {name} was added to a row group by another commit meanwhile")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(what, path=self.store.root, hint="run the operation again on the latest snapshot")
