"""Publishing a compaction: one COMPACT snapshot for the groups whose files nobody else has touched meanwhile.

The vectors of files that go leave their index files, which are written anew while they hold those of other files: Java
Paimon takes a vector without its data file for a conflict. A delete that comes in between moves vectors that it does
not change; then the commit is made again for the groups whose rows are as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, one_batch, pc
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Retry
from paimon_pyds.engine.commit import Changes, Increment, VectorPlace, commit
from paimon_pyds.engine.commit.manifests import identities
from paimon_pyds.engine.commit.publisher import removing_unpublished
from paimon_pyds.engine.compact.append_plan import LiveFile, Plan, Vector, vectors_of
from paimon_pyds.engine.compact.key_plan import changed_levels
from paimon_pyds.engine.compact.task import CompactResult
from paimon_pyds.engine.compact.universal import LevelFile
from paimon_pyds.engine.read.live_rows import deleted_rows
from paimon_pyds.errors import CommitConflictError, PaimonError
from paimon_pyds.metadata.commit_message import added_entries
from paimon_pyds.metadata.deletion.vector_files import NewVectors, VectorFiles
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileIO, discard

_CONFLICT_RETRIES = 20
"""How often a commit is tried again because deletes moved vectors that they did not change."""


def remove(io: FileIO, results: Sequence[CompactResult]) -> None:
    """Remove the files of results that are not published."""
    discard(io, (path for result in results for path in result.bucket.paths()))


@dataclass(frozen=True, slots=True)
class _State:
    """The snapshot that a commit is made from, and its vectors as far as they are looked at."""

    snapshot: Snapshot | None
    vectors: Mapping[str, Vector]


def publish(
    store: TableStore, plan: Plan, results: Sequence[CompactResult]
) -> tuple[Snapshot | None, Sequence[CompactResult]]:
    """Commit the groups whose files nobody else has touched, and remove what was written for the others.

    Raises:
        CommitConflictError: deletes got in the way again and again.
        CommitError: not published; the caller removes the data files.
        CommitOutcomeUnknownError: the storage did not say; all files must stay.
    """
    left, state, retries = list(results), _State(plan.snapshot, plan.vectors), Retry(attempts=_CONFLICT_RETRIES + 1)
    while left:
        files = _vector_files(store, plan, state.snapshot)
        fresh = files.write(_vector_changes(plan, left, state))
        try:
            with removing_unpublished(partial(discard, store.io, fresh.paths)):
                return commit(store, _changes(store, plan, left, state, fresh), plan.context.options), left
        except CommitConflictError as error:
            retries.again(error)
        stale, state = _touched(store, plan, left, state)
        remove(store.io, [r for r in left if r.number in stale])
        left = [r for r in left if r.number not in stale]
    return None, left


def check_gone(store: TableStore, plan: Plan, gone: Sequence[CompactResult]) -> None:
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
    live = _live(store, plan, snapshot if entries else None, ("partition", "file_name", "row_count"))
    return VectorFiles(store, plan.schema, plan.context.options, entries, live)


def _live(store: TableStore, plan: Plan, snapshot: Snapshot | None, columns: Sequence[str]) -> pa.RecordBatch:
    wanted = EntryFilter(plan.schema, partitions=frozenset(group.partition for group in plan.groups))
    return ManifestReader(store, wanted).live_files(snapshot, columns)


def _vector_changes(
    plan: Plan, results: Sequence[CompactResult], state: _State
) -> dict[PartitionBucket, dict[str, BitMap | None]]:
    """By partition and bucket the vectors that go (None), and the rows that others are to hide besides."""
    found: dict[PartitionBucket, dict[str, BitMap | None]] = {}
    for result in results:
        group = plan.groups[result.number]
        rewritten = plan.entries["file_name"].take(_places(group.rewritten)).to_pylist()
        vectors = {**{name: None for name in rewritten if name in state.vectors}, **result.replaced}
        if vectors:
            found.setdefault(group.key, {}).update(vectors)
    return found


def _changes(
    store: TableStore, plan: Plan, results: Sequence[CompactResult], state: _State, fresh: NewVectors
) -> Changes:
    groups = [plan.groups[result.number] for result in results]
    before = plan.entries.take(_places(file for group in groups for file in group.files))
    older = plan.entries.take(_places(file for group in groups for file in group.older))
    older = older.filter(pc.is_in(older["file_name"], array([n for r in results for n in r.replaced], pa.string())))
    expected: dict[str, VectorPlace | None] = {
        name: state.vectors[name].place if name in state.vectors else None
        for entries in (before, older)
        for name in entries["file_name"].to_pylist()
    }
    increment = Increment(
        kind=CommitKind.COMPACT,
        deleted=before,
        required=older if older.num_rows else None,
        # They have the sequence numbers that their writer gave them, from `Group.first_sequence` on.
        replacements=_replacements(plan, results),
        changelog=added_entries((r.bucket, r.bucket.changelog_files) for r in results),
        expected_vectors=expected,
        guard=_LevelsGuard(store, plan, results, state) if plan.schema.primary_keys else None,
        index_entries=fresh.entries,
        replaced_index_files=fresh.replaced,
    )
    return Changes((increment,))


def _replacements(plan: Plan, results: Sequence[CompactResult]) -> pa.RecordBatch | None:
    """New files, and those that stay under another level."""
    entries = [added_entries((r.bucket, r.bucket.files) for r in results)]
    for group in (plan.groups[result.number] for result in results):
        if group.steps is not None and group.upgraded:
            upgraded = plan.entries.take(_places(group.upgraded))
            level = array([group.steps.output_level] * upgraded.num_rows, pa.int32())
            at = upgraded.schema.get_field_index("level")
            entries.append(upgraded.set_column(at, upgraded.schema.field(at), level))
    found = [batch for batch in entries if batch is not None]
    return one_batch(pa.Table.from_batches(found)) if found else None


def _places(files: Iterable[LiveFile | LevelFile]) -> pa.Array:
    return array([file.at for file in files], pa.int64())


@dataclass(frozen=True, slots=True)
class _LevelsGuard:
    """Files above level 0 of a bucket have to be those that runs were picked by: new ones could have keys of these, or
    lack deletes of the rows that are there now."""

    store: TableStore
    plan: Plan
    results: Sequence[CompactResult]
    state: _State

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        if latest == self.state.snapshot:
            return
        changed = changed_levels(self.plan, _live(self.store, self.plan, latest, IDENTITY_COLUMNS))
        for result in self.results:
            if self.plan.groups[result.number].key in changed:
                raise CommitConflictError(
                    f"bucket {result.bucket.bucket} was compacted by another commit meanwhile", path=self.store.root
                )


def _touched(store: TableStore, plan: Plan, results: Sequence[CompactResult], state: _State) -> tuple[set[int], _State]:
    """The groups that other commits removed files of, or deleted rows of; and where the vectors of the others are now.

    A delete writes a whole index file anew, so that vectors move which it does not change.
    """
    snapshot = store.latest_snapshot()
    live, now = _live(store, plan, snapshot, IDENTITY_COLUMNS), vectors_of(store, plan.schema, snapshot)
    there = set(identities(live.filter(pc.is_in(live["file_name"], plan.entries["file_name"]))))
    changed = changed_levels(plan, live) if plan.schema.primary_keys else set()
    stale: set[int] = set()
    moved = dict(state.vectors)
    for result in results:
        group = plan.groups[result.number]
        mine = plan.entries.take(_places((*group.files, *group.older)))
        names, rows = mine["file_name"].to_pylist(), mine["row_count"].to_pylist()
        if (
            group.key in changed
            or not there.issuperset(identities(mine))
            or not all(
                _same(store.io, state.vectors.get(name), now.get(name), n) for name, n in zip(names, rows, strict=True)
            )
        ):
            stale.add(result.number)
            continue
        moved.update({name: now[name] for name in names if name in now})
    return stale, _State(snapshot, moved)


def _same(io: FileIO, old: Vector | None, new: Vector | None, row_count: int) -> bool:
    """Whether two vectors of a data file with ``row_count`` rows delete the same rows; False if one has expired."""
    if old is None or new is None or old.place == new.place:
        return old is new or (old is not None and new is not None)
    if old.file.cardinality != new.file.cardinality:
        return False
    try:
        return deleted_rows(io, old.file, row_count) == deleted_rows(io, new.file, row_count)
    except (PaimonError, FileNotFoundError):
        return False
