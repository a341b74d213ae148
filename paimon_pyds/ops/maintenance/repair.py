"""Repair: mend findings of `verify` that need no guess, and remove entries of data files that are gone.

It mends hints that name no snapshot; file indexes, which are built again from the data; and an expiry that was killed
after it had removed files of existing snapshots, which is brought to its end. A hint that names a
snapshot is left: an expiry or a rollback may be running that has written it. Each finding is looked at once more before
anything is changed. Older snapshots and tags name a damaged index until they expire: their files stay as they are.
(Source of `remove_unexisting_files`: Java Paimon 1.4, classes RemoveUnexistingFilesAction, ListUnexistingFiles.)
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions, check_writable
from paimon_pyds.base.options.option import refused_argument
from paimon_pyds.base.secrets import counted
from paimon_pyds.engine.commit import Changes, commit
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unpublished
from paimon_pyds.engine.execution.executor import Executor
from paimon_pyds.engine.execution.live_files import live_of, snapshot_files
from paimon_pyds.engine.scan.planned_files import file_locations
from paimon_pyds.errors import NotFoundError
from paimon_pyds.metadata.changelogs import changelog_ids, write_changelog_hint
from paimon_pyds.metadata.commit_message import Increment, vector_places
from paimon_pyds.metadata.deletion.vector_files import NewVectors, VectorFiles
from paimon_pyds.metadata.intents import expiring_before
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.ops.index_tools.rewrite import rewrite_file_index
from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_snapshots, maintenance_options
from paimon_pyds.ops.maintenance.findings import HINTS, Finding, RepairPlan, Verification
from paimon_pyds.ops.maintenance.removal import threads_of
from paimon_pyds.storage import discard
from paimon_pyds.storage.concurrent import concurrent_map


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Attributes:
        mended: findings that were mended.
        left: the other findings, each with advice.
        seconds: time taken.
    """

    mended: tuple[Finding, ...]
    left: tuple[Finding, ...]
    seconds: float

    def __repr__(self) -> str:
        done, left = counted(len(self.mended), "finding"), len(self.left)
        return f"{type(self).__name__}: {done} mended, {left:,} left in {self.seconds:.1f} s"

    def __str__(self) -> str:
        lines = [f"mended: {found.kind}: {found.path}" for found in self.mended]
        return "\n".join([*lines, *map(str, self.left), repr(self).partition(": ")[2]])


def repair(store: TableStore, plan: RepairPlan | Verification, *, executor: Executor | None = None) -> Repair:
    """Mend what a plan names; see ``table.maintenance.repair``.
    Raises CommitError: indexes could not be published; what was mended before stays mended."""
    started, plan = time.monotonic(), _checked(plan)
    mended = [finding for finding in plan.mends if finding.kind in HINTS and _mend_hint(store, finding.path)]
    indexes = [finding for finding in plan.mends if finding.kind == "file-index"]
    if indexes:
        before = _indexed(store)
        indexes = [finding for finding in indexes if finding.path.rpartition("/")[2] in before]
        names = frozenset(finding.path.rpartition("/")[2] for finding in indexes)
        rewrite_file_index(store, only=names, rebuild=True, executor=executor)
        mended += indexes
    return Repair(tuple(mended), _left(plan, mended), time.monotonic() - started)


def promised(store: TableStore, plan: RepairPlan | Verification) -> RepairPlan:
    """A plan without what `repair` would leave now: indexes that the newest state does not need, and hints that an
    expiry or a rollback may have written. Nothing is changed."""
    plan = _checked(plan)
    indexed = _indexed(store) if any(finding.kind == "file-index" for finding in plan.mends) else set()

    def is_mended(finding: Finding) -> bool:
        if finding.kind in HINTS:
            return _mend_hint(store, finding.path, dry_run=True)
        return finding.path.rpartition("/")[2] in indexed

    mends = tuple(finding for finding in plan.mends if is_mended(finding))
    return replace(plan, mends=mends, left=_left(plan, mends))


def _left(plan: RepairPlan, mended: Collection[Finding]) -> tuple[Finding, ...]:
    return (*(finding for finding in plan.mends if finding not in mended), *plan.left)


def _checked(plan: RepairPlan | Verification) -> RepairPlan:
    if not isinstance(plan, RepairPlan | Verification):
        raise refused_argument("plan", "a repair plan or what verify() found", plan)
    return plan.repair_plan()


def _indexed(store: TableStore) -> set[str]:
    """The names of the data files of the newest state, and of their extra files."""
    entries = store.read_newest(lambda newest: live_of(store, newest, ("file_name", "extra_files")))
    return {*entries.column("file_name").to_pylist(), *entries.column("extra_files").flatten().to_pylist()}


# --------------------------------------------------------------------------------------------------------------- hints


def _mend_hint(store: TableStore, path: str, *, dry_run: bool = False) -> bool:
    """Write the hint of a branch again if it names no snapshot, or finish the expiry that it announces. Returns whether
    it is mended, or would be."""
    for name in (MAIN_BRANCH, *store.branches()):
        branch = store.on_branch(name)
        if path == branch.paths.earliest_hint and _end_expiry(branch, dry_run=dry_run):
            return True
        for hint in ("EARLIEST", "LATEST"):
            if path == branch.paths.changelog_hint(hint):
                return _write_changelog_hint(branch, hint, dry_run=dry_run)
        if path in (branch.paths.earliest_hint, branch.paths.latest_hint):
            return _write_dangling(branch, path, dry_run=dry_run)
    return False


def _write_dangling(store: TableStore, path: str, *, dry_run: bool) -> bool:
    ids, hint = store.snapshot_ids(), read_hint(store.io, path)
    if hint is not None and store.snapshot_exists(hint):
        return bool(ids) and hint == (ids[0] if path == store.paths.earliest_hint else ids[-1])
    if dry_run:
        return True
    if not ids:
        store.io.delete([path])
    else:
        store.io.replace(path, str(ids[0] if path == store.paths.earliest_hint else ids[-1]).encode())
    return True


def _write_changelog_hint(store: TableStore, name: str, *, dry_run: bool) -> bool:
    """Whether the hint of changelogs is right now; one that names a changelog is left: it may go just now."""
    ids, hint = changelog_ids(store), read_hint(store.io, store.paths.changelog_hint(name))
    end = None if not ids else ids[0] if name == "EARLIEST" else ids[-1]
    if hint not in ids and not dry_run:
        write_changelog_hint(store, name, end)
    return hint not in ids or hint == end


def _end_expiry(store: TableStore, *, dry_run: bool) -> bool:
    """Whether an expiry had begun and is over now: some file was gone of a snapshot before the one that was to stay."""
    ids, begun = store.snapshot_ids(), expiring_before(store)
    first = next((id_ for id_ in ids if id_ >= begun), 0)
    if not first or ids[0] >= first or all(_is_whole(store, id_) for id_ in ids if id_ < first):
        return False
    gone = expire_snapshots(store, ExpireOptions(retain_max=ids[-1] - first + 1, older_than=0, dry_run=dry_run))
    if dry_run:
        return gone.snapshots == sum(id_ < first for id_ in ids)
    return store.earliest_snapshot_id() == first


def _is_whole(store: TableStore, id_: int) -> bool:
    try:
        return all(map(store.io.exists, snapshot_files(store, store.snapshot(id_))))
    except NotFoundError:
        return False


# ------------------------------------------------------------------------------------------------ files that are gone


@dataclass(frozen=True)
class UnexistingFiles:
    """Data files that the newest snapshot names and that are gone.

    Attributes:
        files: ``file_path`` and ``record_count`` of each.
        snapshot_id: of the snapshot without them; None where none was made.
        dry_run: nothing was changed.
    """

    files: pa.Table
    snapshot_id: int | None
    dry_run: bool

    @property
    def rows(self) -> int:
        """The rows that are lost with them."""
        return pc.sum(self.files["record_count"]).as_py() or 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self}"

    def __str__(self) -> str:
        verb = "would be" if self.dry_run else "are"
        what = f"{counted(self.files.num_rows, 'data file')} ({counted(self.rows, 'row')})"
        return f"entries of {what} that are gone {verb} removed"


def remove_unexisting_files(store: TableStore, *, dry_run: bool = False) -> UnexistingFiles:
    """Take the entries of data files that are gone out of the newest state.

    See ``table.maintenance.remove_unexisting_files``.

    Raises:
        CommitError: not published; the table is as it was.
        CorruptFileError, SnapshotNotFoundError: deletion vectors of other files, which are in one file with those of
            files that are gone, can't be read.
        StorageError: the storage does not answer whether a file exists.
    """
    options = maintenance_options(store, None)
    check_writable(store.latest_schema(), metadata_only=True)

    def once(snapshot: Snapshot | None, _: Retries) -> UnexistingFiles:
        live = live_of(store, snapshot)
        paths = file_locations(store, store.latest_schema(), live).paths
        there = list(concurrent_map(store.io.exists, paths, threads_of(options)))
        gone = live.filter(array([not one for one in there], pa.bool_()))
        lost = [path for path, one in zip(paths, there, strict=True) if not one]
        files = pa.table({"file_path": array(lost, pa.string()), "record_count": gone.column("row_count")})
        if dry_run or not lost or snapshot is None:
            return UnexistingFiles(files, None, dry_run)
        entries = () if snapshot.index_manifest is None else store.read_index_manifest(snapshot.index_manifest)
        vectors = _vectors_without(store, options, entries, live, gone)
        with removing_unpublished(partial(discard, store.io, vectors.paths)):
            removal = _removal_of_missing(snapshot, entries, live, gone, vectors)
            made = commit(store, Changes((removal,)), options)
        return UnexistingFiles(files, None if made is None else made.id, dry_run=False)

    return on_newest(store, once)


def _vectors_without(
    store: TableStore, options: TableOptions, entries: Sequence[IndexEntry], live: pa.RecordBatch, gone: pa.RecordBatch
) -> NewVectors:
    """Index files without the vectors of files that are gone, for those that hold vectors of others, too.

    Raises:
        CorruptFileError, SnapshotNotFoundError, StorageError: these others can't be read; nothing is written.
    """
    places = vector_places(entries)
    changes: dict[PartitionBucket, dict[str, BitMap | None]] = {}
    columns = (gone.column(name).to_pylist() for name in ("partition", "bucket", "file_name"))
    for partition, bucket, name in zip(*columns, strict=True):
        if name in places:
            changes.setdefault(PartitionBucket(partition, bucket), {})[name] = None
    return VectorFiles(store, store.latest_schema(), options, entries, live).write(changes)


def _removal_of_missing(
    snapshot: Snapshot,
    entries: Sequence[IndexEntry],
    live: pa.RecordBatch,
    gone: pa.RecordBatch,
    vectors: NewVectors,
) -> Increment:
    places = vector_places(entries)
    return Increment(
        kind=CommitKind.OVERWRITE,
        operation=Operation.DELETE,
        deleted=gone,
        expected_vectors={name: places.get(name) for name in gone.column("file_name").to_pylist()},
        index_entries=vectors.entries,
        replaced_index_files=vectors.replaced,
        base_snapshot=snapshot,
        base_files=live,
    )
