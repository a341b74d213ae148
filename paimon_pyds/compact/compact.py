"""Compact: merge small data files, drop deleted rows, and order rows on request, in one COMPACT snapshot.

The rows of a table stay the same; their files become fewer, of the current schema, with fresh statistics and indexes.
Files are picked as Java Paimon 1.4 picks them (see `paimon_pyds.compact.plan`), and groups of them are
rewritten independently. A group one of whose files another commit removed, or deleted rows of, is given up and tried
again on the newest snapshot, while the others are published. (Sources: Paimon documentation,
maintenance/dedicated-compaction and append-table; its procedure ``compact``.)

The vectors of files that go leave their index files, which are written anew while they hold those of other files: Java
Paimon takes a vector without its data file for a conflict. A delete that comes in between moves vectors that it does
not change; then the commit is made again for the groups whose rows are as they were.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.commit import Changes, Increment, VectorPlace, commit
from paimon_pyds.commit.changes import added_entries
from paimon_pyds.commit.manifests import identities
from paimon_pyds.commit.publisher import Retries, removing_unfinished, removing_unpublished
from paimon_pyds.commit_message import BucketFiles
from paimon_pyds.compact.options import CompactOptions
from paimon_pyds.compact.plan import Group, Plan, Vector, plan_compaction, vectors_of
from paimon_pyds.compact.task import CompactResult, CompactTask, compact_one
from paimon_pyds.deletion.files import NewVectors, VectorFiles
from paimon_pyds.errors import CommitConflictError, PaimonError
from paimon_pyds.execution.executor import Executor, LocalExecutor
from paimon_pyds.execution.live_files import live_of
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, DataFile
from paimon_pyds.metadata.partition import PartitionBucket, partition_directory
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.read.live_rows import deleted_rows
from paimon_pyds.redaction import without_secrets
from paimon_pyds.scan.planned_files import has_stray_vectors, planned_files
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.storage import FileIO, discard

__all__ = ["CompactSummary", "apply_stray_vectors", "compact"]

_CONFLICTS = 20
"""How often a commit is tried again because deletes moved vectors that they did not change."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSummary:
    """What a compaction did, or would do.

    Attributes:
        snapshot_id: the last snapshot it published; None when there was nothing to do, and for a dry run.
        files: live data files looked at.
        groups: groups of files that were rewritten.
        groups_skipped: groups given up, as other commits changed their files again and again.
        files_before, files_after: data files that went, and those that came; a dry run does not know the latter (0).
        rows: rows in the new files.
        rows_dropped: deleted rows that the new files do not have any more.
        bytes_before, bytes_after: size of the data files that went and came.
        seconds: time taken, the commit included.
        attempts: how often groups were rewritten: 1 unless other commits came in between.
        dry_run: nothing was written.
    """

    snapshot_id: int | None = None
    files: int = 0
    groups: int = 0
    groups_skipped: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    rows_dropped: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    attempts: int = 0
    dry_run: bool = False


def compact(
    store: TableStore,
    options: CompactOptions,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> CompactSummary:
    """Merge small files, and drop deleted rows where their share passes ``compaction.delete-ratio-threshold``.

    Args:
        store: an append table.
        options: what is asked for.
        executor: where the work runs; the cores of this machine by default.
        progress: called with the rows written so far.

    Raises:
        OptionError: ``where`` asks for other than partition columns, or ``order_by`` for columns without order.
        UnsupportedError: a table that can't be written to or compacted.
        CorruptFileError: a data file is damaged; the table is as it was.
        CommitError: not published; what was written was removed again.
    """
    started = time.perf_counter()
    if not options.dry_run:
        apply_stray_vectors(store, store.latest_snapshot(), executor)
    run = _Run(store, executor or LocalExecutor(), progress)
    run.repeat(options)
    return replace(run.summary(), seconds=time.perf_counter() - started, dry_run=options.dry_run)


def apply_stray_vectors(store: TableStore, snapshot: Snapshot | None, executor: Executor | None = None) -> None:
    """Make all readers see the same rows of a table whose ``deletion-vectors.enabled`` is off while vectors are there.

    Java Paimon passes over the vectors then, and gives the deleted rows back. The files that have one are written anew
    without these rows, as a snapshot of its own; a warning says so, or why it could not be done: what an operation has
    published before is not undone.

    Args:
        store: the table.
        snapshot: the newest.
        executor: where the work runs; the cores of this machine by default.
    """
    try:
        if not has_stray_vectors(store, snapshot, lambda: TableOptions(store.latest_schema().options)):
            return
    except (PaimonError, OSError):  # an operation that was published has not failed; the next one looks again
        return
    state = f"{store.root} has deletion vectors, and deletion-vectors.enabled is off: Java Paimon gives their rows back"
    run = _Run(store, executor or LocalExecutor(), None)
    try:
        run.repeat(CompactOptions(), vectors_only=True)
    except PaimonError as error:
        warnings.warn(f"{state}, and they could not be dropped: {error}", stacklevel=3)
        return
    warnings.warn(f"{state}, so {run.summary().rows_dropped} of them were dropped for good", stacklevel=3)


@dataclass(slots=True)
class _Run:
    """One call: what it works with, and what it has done so far."""

    store: TableStore
    executor: Executor
    progress: Progress | None
    files: int = 0
    attempts: int = 0
    skipped: int = 0
    snapshot: Snapshot | None = None
    done: list[tuple[Group, int, int]] = field(default_factory=list)
    """Groups that were rewritten, with the rows that were deleted and those that are left."""
    new_files: list[DataFile] = field(default_factory=list)

    def repeat(self, options: CompactOptions, *, vectors_only: bool = False) -> None:
        """Do what is asked for; groups that other commits touch are tried again."""
        buckets: set[PartitionBucket] | None = None
        retries: Retries | None = None
        while True:
            plan = plan_compaction(self.store, options, buckets, vectors_only=vectors_only)
            retries = retries or Retries.of(plan.context.options)
            self.files = self.files or plan.entries.num_rows
            buckets = self.dry(plan) if options.dry_run else self.once(plan)
            if not buckets or retries.exhausted:
                return
            retries.pause()
            retries.count += 1

    def dry(self, plan: Plan) -> set[PartitionBucket]:
        """Count the groups as done; nothing is left to do."""
        for group in plan.groups:
            rows = sum(file.rows for file in group.files)
            deleted = sum(file.deleted or 0 for file in group.files)
            self.done.append((group, deleted, rows - deleted))
        return set()

    def once(self, plan: Plan) -> set[PartitionBucket]:
        """Rewrite and publish the groups; the buckets of those that have to be tried again."""
        self.skipped = 0
        if not plan.groups:
            return set()
        self.attempts += 1
        results = self.rewrite(plan)
        with removing_unpublished(partial(_remove, self.store.io, results)):
            written = [r for r in results if r.gone is None]
            _check_gone(self.store, plan, [r for r in results if r.gone is not None])
            snapshot, published = _publish(self.store, plan, written)
        self.snapshot = snapshot or self.snapshot
        for result in published:
            group = plan.groups[result.number]
            rows = sum(file.rows for file in group.files)
            self.done.append((group, rows - result.rows, result.rows))
            self.new_files += result.bucket.files
        left = {r.number for r in results} - {r.number for r in published}
        self.skipped = len(left)
        return {plan.groups[number].key for number in left}

    def rewrite(self, plan: Plan) -> list[CompactResult]:
        """All results; on an error, or an interrupt, what was written is removed."""
        rows = sum(live for _, _, live in self.done)
        results: list[CompactResult] = []
        with removing_unfinished(partial(_remove, self.store.io, results)):
            for result in self.executor.map(compact_one, _tasks(self.store, plan)):
                results.append(result)
                rows += result.rows
                if self.progress is not None:
                    self.progress(rows)
        return results

    def summary(self) -> CompactSummary:
        """What has been done so far."""
        files = [file for group, _, _ in self.done for file in group.files]
        return CompactSummary(
            snapshot_id=None if self.snapshot is None else self.snapshot.id,
            files=self.files,
            groups=len(self.done),
            groups_skipped=self.skipped,
            files_before=len(files),
            files_after=len(self.new_files),
            rows=sum(live for _, _, live in self.done),
            rows_dropped=sum(deleted for _, deleted, _ in self.done),
            bytes_before=sum(file.size for file in files),
            bytes_after=sum(file.file_size for file in self.new_files),
            attempts=self.attempts,
        )


def _tasks(store: TableStore, plan: Plan) -> list[CompactTask]:
    context, schema = plan.context, plan.schema
    picked = plan.entries.take(pa.array([at for group in plan.groups for at in group.at], pa.int64()))
    files = iter(_files(store, picked, plan))
    ids = picked["schema_id"].unique().to_pylist()
    spec = ReadSpec(
        io=store.io,
        schemas={id_: store.schema(id_).fields for id_ in ids},
        fields=schema.fields,
        partition_fields=schema.partition_fields,
        options=without_secrets(schema.options),
        use_index=False,
        metadata_columns=context.layout.trailing_names,
    )
    tasks = []
    for number, group in enumerate(plan.groups):
        directory = context.paths.bucket_dir(partition_directory(schema, group.partition), group.bucket)
        bucket = BucketFiles(group.partition, group.bucket, group.total_buckets, directory, ())
        old = tuple(next(files) for _ in group.files)
        tasks.append(CompactTask(number, context, spec, old, bucket, group.first_sequence, plan.sort))
    return tasks


def _files(store: TableStore, picked: pa.RecordBatch, plan: Plan) -> Iterable[PlannedFile]:
    for file in planned_files(store, plan.schema, picked):
        vector = plan.vectors.get(file.name)
        yield file if vector is None else file._replace(deletion=vector.file)


def _remove(io: FileIO, results: Sequence[CompactResult]) -> None:
    """Remove the files of results that are not published."""
    discard(io, (path for result in results for path in result.bucket.paths()))


@dataclass(frozen=True, slots=True)
class _State:
    """The snapshot that a commit is made from, and its vectors as far as they are looked at."""

    snapshot: Snapshot | None
    vectors: Mapping[str, Vector]


def _publish(
    store: TableStore, plan: Plan, results: Sequence[CompactResult]
) -> tuple[Snapshot | None, Sequence[CompactResult]]:
    """Commit the groups whose files nobody else has touched, and remove what was written for the others.

    Raises:
        CommitConflictError: deletes got in the way again and again.
        CommitError: not published; the caller removes the data files.
        CommitOutcomeUnknownError: the storage did not say; all files must stay.
    """
    left, state, retries = list(results), _State(plan.snapshot, plan.vectors), Retries(_CONFLICTS)
    while left:
        files = _vector_files(store, plan, state.snapshot)
        fresh = files.write(_taken(plan, left, state))
        try:
            with removing_unpublished(partial(discard, store.io, fresh.paths)):
                return commit(store, _changes(plan, left, state, fresh), plan.context.options), left
        except CommitConflictError as error:
            retries.again(error)
        stale, state = _touched(store, plan, left, state)
        _remove(store.io, [r for r in left if r.number in stale])
        left = [r for r in left if r.number not in stale]
    return None, left


def _check_gone(store: TableStore, plan: Plan, gone: Sequence[CompactResult]) -> None:
    """Raise the error of a file that is gone although the table still has it; others went by another commit."""
    if not gone:
        return
    stale, _ = _touched(store, plan, gone, _State(plan.snapshot, plan.vectors))
    for result in gone:
        if result.gone is not None and result.number not in stale:
            raise result.gone


def _vector_files(store: TableStore, plan: Plan, snapshot: Snapshot | None) -> VectorFiles:
    name = None if snapshot is None else snapshot.index_manifest
    entries = () if name is None else store.read_index_manifest(name)
    live = live_of(store, snapshot, ("partition", "file_name", "row_count"))
    return VectorFiles(store, plan.schema, plan.context.options, entries, live)


def _taken(plan: Plan, results: Sequence[CompactResult], state: _State) -> dict[PartitionBucket, dict[str, None]]:
    """The vectors that go, by partition and bucket."""
    found: dict[PartitionBucket, dict[str, None]] = {}
    for result in results:
        group = plan.groups[result.number]
        replaced = plan.entries["file_name"].take(pa.array(group.at, pa.int64())).to_pylist()
        names = [name for name in replaced if name in state.vectors]
        if names:
            found.setdefault(group.key, {}).update(dict.fromkeys(names))
    return found


def _changes(plan: Plan, results: Sequence[CompactResult], state: _State, fresh: NewVectors) -> Changes:
    before = plan.entries.take(pa.array([at for r in results for at in plan.groups[r.number].at], pa.int64()))
    expected: dict[str, VectorPlace | None] = {
        name: state.vectors[name].place if name in state.vectors else None for name in before["file_name"].to_pylist()
    }
    increment = Increment(
        kind=CommitKind.COMPACT,
        deleted=before,
        # They have the sequence numbers that their writer gave them, from `Group.first_sequence` on.
        replacements=added_entries((r.bucket, r.bucket.files) for r in results),
        expected_vectors=expected,
        index_entries=fresh.entries,
        replaced_index_files=fresh.replaced,
    )
    return Changes((increment,))


def _touched(store: TableStore, plan: Plan, results: Sequence[CompactResult], state: _State) -> tuple[set[int], _State]:
    """The groups that other commits removed files of, or deleted rows of; and where the vectors of the others are now.

    A delete writes a whole index file anew, so that vectors move which it does not change.
    """
    snapshot = store.latest_snapshot()
    live, now = live_of(store, snapshot, IDENTITY_COLUMNS), vectors_of(store, plan.schema, snapshot)
    there = set(identities(live.filter(pc.is_in(live["file_name"], plan.entries["file_name"]))))
    stale: set[int] = set()
    moved = dict(state.vectors)
    for result in results:
        mine = plan.entries.take(pa.array(plan.groups[result.number].at, pa.int64()))
        names, rows = mine["file_name"].to_pylist(), mine["row_count"].to_pylist()
        if not there.issuperset(identities(mine)) or not all(
            _same(store.io, state.vectors.get(name), now.get(name), n) for name, n in zip(names, rows, strict=True)
        ):
            stale.add(result.number)
            continue
        moved.update({name: now[name] for name in names if name in now})
    return stale, _State(snapshot, moved)


def _same(io: FileIO, old: Vector | None, new: Vector | None, row_count: int) -> bool:
    """Whether two vectors of one data file, which has so many rows, delete the same rows."""
    if old is None or new is None or old.place == new.place:
        return old is new or (old is not None and new is not None)
    if old.file.cardinality != new.file.cardinality:
        return False
    try:
        return deleted_rows(io, old.file, row_count) == deleted_rows(io, new.file, row_count)
    except PaimonError:
        return False
