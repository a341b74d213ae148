"""Compaction of tables of data evolution: the files of a row group become one, and groups that follow one another too.

Rows keep their row ids, so every row stays in its place: deleted ones are written as well, and their deletion vector
goes with them. What a run of groups becomes has the row ids of all, and the greatest of their sequence numbers. BLOB
files stay, next to the one file of the other columns; so do vector files, unless a group has several, or one that Java
Paimon would not read right next to those of the other groups. (Source: what Java 2.1's compaction writes; its
DataEvolutionSplitRead, which wants BLOB files of all rows or of none.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, pc, to_numpy
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.progress import phase, worked
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Retry
from paimon_pyds.base.types import DataField
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
from paimon_pyds.engine.write.bucket_writer import open_bucket_writer
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.errors import CommitConflictError, UnsupportedError
from paimon_pyds.metadata.column_files import are_apart, row_groups
from paimon_pyds.metadata.commit_message import BucketFiles, added_entries
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT, DataFile, is_blob_file
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import ReadSpec
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
class _Group:
    """A row group, and the places of its files among the entries.

    Attributes:
        file: reads it.
        rows: of the files of the columns that are not apart.
        vectors: of its vector files.
        blobs: of its BLOB files.
        size: bytes of the first two.
        blob_columns: the names of BLOB columns that all its rows have values of in files; None if some rows do.
        vectors_key: what the vector files of groups that are joined must have in common; None where new ones are to be
            written.
    """

    file: PlannedFile
    rows: tuple[int, ...]
    vectors: tuple[int, ...]
    blobs: tuple[int, ...]
    size: int
    blob_columns: frozenset[str] | None
    vectors_key: object

    @property
    def rewritten(self) -> int:
        """The files that a rewrite of this group alone takes away."""
        return len(self.rows) + (len(self.vectors) if self.vectors_key is None else 0)

    def joins(self, other: _Group) -> bool:
        """Whether the other one follows this one, and both together can be read by Java Paimon."""
        keys = self.vectors_key, other.vectors_key
        return (
            self.file.bucket_id == other.file.bucket_id
            and (self.file.first_row_id or 0) + self.file.row_count == other.file.first_row_id
            and self.blob_columns is not None
            and self.blob_columns == other.blob_columns
            and (None in keys or keys[0] == keys[1])
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """Row groups whose row ids follow one another."""

    members: tuple[_Group, ...]

    @property
    def groups(self) -> tuple[PlannedFile, ...]:
        """What reads them."""
        return tuple(member.file for member in self.members)

    @property
    def keeps_vectors(self) -> bool:
        """Whether their vector files stay."""
        return all(member.vectors_key is not None for member in self.members)

    @property
    def places(self) -> list[int]:
        """The places of the files that go."""
        return [at for m in self.members for at in (m.rows if self.keeps_vectors else (*m.rows, *m.vectors))]

    @property
    def all_places(self) -> list[int]:
        """The places of all their files."""
        return [at for m in self.members for at in (*m.rows, *m.vectors, *m.blobs)]

    @property
    def first(self) -> int:
        return self.members[0].file.first_row_id or 0

    @property
    def rows(self) -> int:
        return sum(member.file.row_count for member in self.members)


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
        fields=context.without(context.blob_fields).layout.table,
        options=context.options,
        zone=zone_given(context.dynamic_options),
        stored_blobs=True,
    )
    plan = plan_scan(store, request)
    spec = replace(plan.spec, predicate=Const.TRUE, filter_fields=())
    groups = _groups(plan.files, entries, context, plan.spec.schemas)
    runs = tuple(_runs(groups, context, full=options.full))
    whole = replace(context.without(context.blob_fields), of_group=True)  # one file for each run, whatever its size
    return _Plan(snapshot, whole, spec, entries, runs)


def _groups(
    files: Sequence[PlannedFile],
    entries: pa.RecordBatch,
    context: WriteContext,
    schemas: Mapping[int, Sequence[DataField]],
) -> list[_Group]:
    """The row groups of the entries, in the order of their row ids."""
    numbers, apart = row_groups(entries).tolist(), are_apart(entries).tolist()
    listed = (entries[c].to_pylist() for c in ("file_name", "file_size", "first_row_id", "row_count", "write_cols"))
    names, sizes, firsts, counts, columns = listed
    schema_ids = entries["schema_id"].to_pylist()
    vector_ids = [field.id for field in context.vector_fields]
    places: dict[int, tuple[list[int], list[int], list[int]]] = {}
    for at, number in enumerate(numbers):
        kind = 0 if not apart[at] else 2 if is_blob_file(names[at]) else 1
        places.setdefault(number, ([], [], []))[kind].append(at)
    of_name = dict(zip(names, numbers, strict=True))

    def vectors_key(vectors: list[int], file: PlannedFile) -> object:
        if not vectors and not vector_ids:
            return ()
        if len(vectors) != 1 or (firsts[vectors[0]], counts[vectors[0]]) != (file.first_row_id, file.row_count):
            return None
        (at,) = vectors
        held = [field.id for field in schemas[schema_ids[at]] if field.name in columns[at]]
        return (schema_ids[at], names[at].rpartition(".")[2], *columns[at]) if held == vector_ids else None

    def blob_columns(blobs: list[int], file: PlannedFile) -> frozenset[str] | None:
        found: dict[str, list[tuple[int, int]]] = {}
        for at in blobs:
            found.setdefault(columns[at][0], []).append((firsts[at], counts[at]))
        first = file.first_row_id or 0
        return frozenset(found) if all(_cover(parts, first, file.row_count) for parts in found.values()) else None

    result = []
    for file in files:
        if file.first_row_id is not None:
            rows, vectors, blobs = places[of_name[file.name]]
            key = vectors_key(vectors, file)
            size = sum(sizes[at] for at in (*rows, *(vectors if key is None else ())))
            found = blob_columns(blobs, file)
            result.append(_Group(file, tuple(rows), tuple(vectors), tuple(blobs), size, found, key))
    return sorted(result, key=lambda group: (*group.file.bucket_id, group.file.first_row_id or 0))


def _cover(parts: list[tuple[int, int]], first: int, count: int) -> bool:
    """Whether ranges, each with a start and a number of rows, hold all of ``count`` rows."""
    reach = first
    for start, rows in sorted(parts):
        if start > reach:
            return False
        reach = max(reach, start + rows)
    return reach >= first + count


def _runs(groups: Sequence[_Group], context: WriteContext, *, full: bool) -> Iterator[_Run]:
    """The runs that are worth a rewrite: of two files at least, of ``compaction.min.file-num`` unless ``full``."""
    target, options = context.target_file_size, context.options
    least = 2 if full else max(2, int(options.get("compaction.min.file-num")))
    small, most_rows = target * float(options.get("compaction.small-file-ratio")), context.target_file_rows
    run: list[_Group] = []

    def flushed() -> Iterator[_Run]:
        if sum(group.rewritten for group in run) >= least:
            yield _Run(tuple(run))
        run.clear()

    for group in groups:
        size, rows = (sum(amounts) for amounts in ([g.size for g in run], [g.file.row_count for g in run]))
        fits = size + group.size <= target and rows + group.file.row_count <= most_rows
        if run and not (run[-1].joins(group) and fits):
            yield from flushed()
        if group.rewritten == 1 and group.size >= small:
            yield from flushed()
        else:
            run.append(group)
    yield from flushed()


@dataclass(frozen=True, slots=True)
class _Task:
    run: _Run
    spec: ReadSpec
    context: WriteContext


def _rewrite(task: _Task) -> BucketFiles:
    """All rows of a run in one file, deleted ones too, and its vectors in another. Both are removed on an error."""
    run, context, first = task.run, task.context, task.run.groups[0]
    if run.keeps_vectors:
        context = context.without(context.vector_fields)
    spec = replace(task.spec, fields=context.layout.table)
    directory = context.bucket_to_write(first.partition, first.bucket)
    bucket = BucketFiles(first.partition, first.bucket, first.total_buckets, directory, ())
    conformer, threads = context.conformer(), WriterThreads()
    writer = open_bucket_writer(context, bucket, threads)
    try:
        for group in run.groups:
            whole = group._replace(deletion=None, selection=None, bounds=None)
            for batch in read_file(spec, whole):
                writer.write(conformer.conform(batch))
            worked(group.path)
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()
    every = len(context.schema.fields)
    files = (
        replace(f, first_row_id=run.first, write_cols=None if len(f.write_cols or ()) == every else f.write_cols)
        for f in written.files
    )
    return replace(written, files=tuple(files))


def _publish(store: TableStore, plan: _Plan, written: Sequence[BucketFiles]) -> Snapshot | None:
    lows, highs = (to_numpy(plan.entries[name]) for name in ("min_sequence_number", "max_sequence_number"))
    buckets = []
    vectors: dict[PartitionBucket, dict[str, BitMap | None]] = {}
    expected: dict[str, VectorPlace | None] = {}
    of_run = {bucket.files[0].first_row_id: bucket for bucket in written}  # in the order in which they were done
    for run in plan.runs:
        bucket = of_run[run.first]
        at = run.places
        low, high = int(lows[at].min()), int(highs[at].max())
        numbered = (replace(f, min_sequence_number=low, max_sequence_number=high) for f in bucket.files)
        buckets.append(replace(bucket, files=tuple(numbered)))
        deleted = BitMap()
        for group in run.groups:
            expected[group.name] = None
            if (vector := group.deletion) is not None:
                expected[group.name] = VectorPlace(vector.path.rpartition("/")[2], vector.offset)
                rows = deleted_rows(store.io, vector, group.row_count)
                deleted |= rows.shift((group.first_row_id or 0) - run.first)
                vectors.setdefault(group.bucket_id, {})[group.name] = None
        if deleted:
            vectors.setdefault(run.groups[0].bucket_id, {})[bucket.files[0].file_name] = deleted
    snapshot, schema = plan.snapshot, plan.context.schema
    indexes = (
        ()
        if snapshot is None or snapshot.index_manifest is None
        else store.read_index_manifest(snapshot.index_manifest)
    )
    fresh = VectorFiles(store, schema, plan.context.options, indexes, plan.entries).write(vectors)
    before = plan.before
    of_groups = plan.entries["file_name"].take(array([at for run in plan.runs for at in run.all_places], pa.int64()))
    increment = Increment(
        kind=CommitKind.COMPACT,
        deleted=before,
        replacements=added_entries((bucket, bucket.files) for bucket in buckets),
        expected_vectors=expected,
        guard=_SameGroups(store, snapshot, schema.id, frozenset(of_groups.to_pylist()), plan.runs),
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
