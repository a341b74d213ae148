"""Publishing row-level changes: removed rows and new files as one snapshot, again on a newer one where that is safe.

Data files never change, so what an operation found out about a snapshot often holds for a later one: then a lost race
costs new index files and no more. Two things must be so, and else the operation has to look at the table again:

* The files it touched are still there, and nobody took away the rows it took away: those may live on elsewhere.
* There is a place for it in the order of commits. It may come before appends whose writers are known not to have looked
  at the table (`Snapshot.is_blind_append`). It comes after all others, merges that only insert among them: their
  writers have not seen what it does, so they must not have added a row that it would have looked at, nor taken one
  away that it went by. Of two that read, the later one has then seen the other (serializable isolation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_pyds.commit import Changes, VectorPlace, commit, increments_of
from paimon_pyds.commit.retry import Retries, removing_unpublished
from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.deletion.files import NewVectors
from paimon_pyds.errors import CommitConflictError, SnapshotNotFoundError
from paimon_pyds.execution.executor import Executor, LocalExecutor
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.rowlevel.target import RowTarget
from paimon_pyds.rowlevel.tasks import find_rows
from paimon_pyds.storage.base import discard

__all__ = ["Published", "RemovedRows", "RowEdits", "publish"]

_MOVES = (CommitKind.COMPACT, CommitKind.ANALYZE)
"""Kinds of commits that leave all rows as they are."""


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows that go from one data file.

    Attributes:
        number: the file, as in `RowTarget.entries`.
        positions: the rows, live at the target's snapshot; None when the file goes as a whole.
        rows: how many live rows are meant: with files that are rewritten, less than they hold.
    """

    number: int
    positions: BitMap | None
    rows: int


@dataclass(frozen=True, slots=True)
class RowEdits:
    """All that an operation wants to do to the rows of its target.

    Attributes:
        removed: one per data file.
        messages: new data files; they are removed again when nothing comes of it.
        given: new data files that the caller had before: published too, and never removed here.
        operation: what the snapshot is told to come from.
        deleted, updated, inserted: how many rows.
        reads: true for every row that could have made a difference, wherever it lies.
        kept: rows that made a difference and stay as they are, by file as in `RowTarget.entries`.
    """

    removed: Sequence[RemovedRows] = ()
    messages: Sequence[CommitMessage] = ()
    given: Sequence[CommitMessage] = ()
    operation: Operation | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    reads: Predicate = Const.TRUE
    kept: Mapping[int, BitMap] = field(default_factory=dict)

    @property
    def added(self) -> Sequence[CommitMessage]:
        """All new data files."""
        return (*self.messages, *self.given)

    @property
    def is_empty(self) -> bool:
        """There is nothing to publish."""
        return not self.removed and not any(m.file_count for m in self.added)


@dataclass(frozen=True, slots=True)
class Published:
    """What a commit did. ``vectors`` are the index files it made."""

    snapshot: Snapshot | None
    vectors: NewVectors
    files_removed: int


def publish(target: RowTarget, edits: RowEdits, retries: Retries, executor: Executor | None = None) -> Published:
    """Publish the edits as one snapshot.

    Args:
        target: the state of the table that the edits were made from.
        edits: what to publish.
        retries: the operation's.
        executor: looks through files that other commits added meanwhile; the cores of this machine by default.

    Raises:
        CommitConflictError: the operation has to be done again on the latest snapshot.
        CommitError: not published.
        CommitOutcomeUnknownError: the storage did not say; all files must stay.
    """
    executor = executor or LocalExecutor()
    now, attempt = target, _Attempt(target, target, edits, executor)
    while True:
        vectors = now.vectors.write(attempt.vectors)
        try:
            with removing_unpublished(partial(discard, target.store.io, vectors.paths)):
                snapshot = commit(target.store, attempt.changes(vectors), target.options)
            return Published(snapshot, vectors, attempt.files_removed)
        except CommitConflictError as error:
            retries.wait(error)
        now = RowTarget(target.store, target.given)
        attempt = _Attempt(target, now, edits, executor)
        retries.count += 1


@dataclass(slots=True)
class _Attempt:
    """The edits of one snapshot on top of another one, the same or later. Raises CommitConflictError if they clash."""

    base: RowTarget
    now: RowTarget
    edits: RowEdits
    executor: Executor
    vectors: dict[PartitionBucket, dict[str, BitMap | None]] = field(default_factory=dict)
    _gone: list[int] = field(default_factory=list)
    _stay: list[int] = field(default_factory=list)
    _expected: dict[str, VectorPlace | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.now is not self.base:
            self._check_order()
        numbers = self._numbers(r.number for r in self.edits.removed)
        for removed in self.edits.removed:
            name = self.base.name(removed.number)
            number = numbers[removed.number]
            self._check_rows(number, name, removed.positions)
            self._expected[name] = self.now.places.get(name)
            (self._gone if removed.positions is None else self._stay).append(number)
            if removed.positions is not None or name in self.now.places:
                self.vectors.setdefault(self._bucket(number), {})[name] = removed.positions

    @property
    def files_removed(self) -> int:
        """Data files that go."""
        return len(self._gone)

    def changes(self, vectors: NewVectors) -> Changes:
        """What to commit."""
        removes = bool(self._gone or self._stay)
        added, compaction = increments_of([b for m in self.edits.added for b in m.buckets])
        rows = replace(
            added,
            kind=CommitKind.OVERWRITE if removes else added.kind,
            operation=self.edits.operation,
            deleted=self._entries(self._gone),
            required=self._entries(self._stay),
            expected_vectors=self._expected,
            guard=self._guard,
            index_entries=(*added.index_entries, *vectors.entries),
            replaced_index_files=added.replaced_index_files | vectors.replaced,
        )
        return Changes((rows, compaction))

    def _bucket(self, number: int) -> PartitionBucket:
        return PartitionBucket(*(self.now.entries[name][number].as_py() for name in ("partition", "bucket")))

    def _entries(self, numbers: list[int]) -> pa.RecordBatch | None:
        return self.now.entries.take(pa.array(numbers, pa.int64())) if numbers else None

    def _numbers(self, files: Iterable[int]) -> dict[int, int]:
        """Where files of the base are now."""
        wanted = list(files)
        if self.now is self.base:
            return dict(zip(wanted, wanted, strict=True))
        mine = self.base.entries.take(pa.array(wanted, pa.int64()))
        near = pc.indices_nonzero(pc.is_in(self.now.entries["file_name"], mine["file_name"]))
        found = dict(zip(_places(self.now.entries.take(near)), near.to_pylist(), strict=True))
        numbers = {}
        for number, place in zip(wanted, _places(mine), strict=True):
            if place not in found:
                raise self._conflict(f"the data file {place[2]} was removed by another commit meanwhile")
            numbers[number] = found[place]
        return numbers

    def _check_rows(self, number: int, name: str, positions: BitMap | None) -> None:
        """None of these rows may have gone meanwhile: they may live on in another file."""
        if self.base.places.get(name) == self.now.places.get(name):
            return
        partition = self._bucket(number)[0]
        before, after = (_deleted(target, partition, name) for target in (self.base, self.now))
        if before != after if positions is None else not after.isdisjoint(positions):
            raise self._conflict(f"rows of the data file {name} were changed by another commit meanwhile")

    def _check_order(self) -> None:
        """After others that may have read: rows that made a difference are there as before, and no more of them."""
        self._check_schema(self.now.schema)
        if not self._changed_rows(self.base, self.now.snapshot):
            return
        for before, number in self._numbers(self.edits.kept).items():
            self._check_rows(number, self.base.name(before), self.edits.kept[before])
        candidates = self.now.candidates(self.edits.reads)
        known = set(_places(self.base.entries))
        added = tuple(c for c in candidates.files if (c.file.partition, c.file.bucket, c.file.name) not in known)
        found = find_rows(replace(candidates, files=added), self.executor)
        if found:
            name = self.now.name(found[0].number)
            raise self._conflict(f"the data file {name} was added by another commit meanwhile")

    def _check_schema(self, schema: TableSchema) -> None:
        """Columns and options are those that the operation went by: whether rows go by deletion vectors, say."""
        if self.base.schema.id != schema.id:
            raise self._conflict("the table's schema was changed by another commit meanwhile")

    def _guard(self, latest: Snapshot | None, schema: TableSchema) -> None:
        self._check_schema(schema)
        if self._changed_rows(self.now, latest):
            raise self._conflict("rows were changed by another commit meanwhile")

    def _changed_rows(self, base: RowTarget, latest: Snapshot | None) -> bool:
        """Whether the latest snapshot follows from the base by more than blind appends, and moves of rows."""
        if base.snapshot == latest:
            return False
        first = 0 if base.snapshot is None else base.snapshot.id
        if latest is None or latest.id <= first:
            return True  # rolled back
        try:
            since = [*map(base.store.snapshot, range(max(first, 1), latest.id)), latest]
        except SnapshotNotFoundError:
            return True
        if base.snapshot is not None and since.pop(0) != base.snapshot:
            return True
        return not all(s.is_blind_append or s.commit_kind in _MOVES for s in since)

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            what, path=self.base.store.root, hint="run the operation again on the latest snapshot"
        )


def _places(entries: pa.RecordBatch) -> list[tuple[bytes, int, str]]:
    columns = (entries[name].to_pylist() for name in ("partition", "bucket", "file_name"))
    return list(zip(*columns, strict=True))


def _deleted(target: RowTarget, partition: bytes, name: str) -> BitMap:
    vector = target.vectors.vector(partition, name)
    return BitMap() if vector is None else vector.positions
