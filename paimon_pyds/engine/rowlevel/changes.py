"""What DELETE, UPDATE and MERGE have in common: a pinned snapshot, rows that go, files that come, one new snapshot.

An operation is a function from a `RowTarget` (the table as it is) to `RowEdits` (which rows go from which files, which
new files come). `change_rows` runs it, publishes what it gives, and runs it again on a newer snapshot when another
commit got in its way:

    def once(target: RowTarget) -> RowEdits:
        candidates = target.candidates(predicate, fields)        # planned: partitions, statistics, indexes
        found = find_rows(candidates, executor)        # the live rows meant, file by file
        messages = run_tasks(executor, my_function, my_tasks, target)  # new rows, written by tasks
        return replace(remove_rows(target, candidates, found, executor), …)  # with the messages, and the rows counted
    change_rows(store, once, executor, options=…)

Data files never change, so what an operation found out about a snapshot often holds for a later one: then a lost race
costs new index files and no more. Two things must be so, and else the operation has to look at the table again:

* The files it touched are still there, and nobody took away the rows it took away: those may live on elsewhere.
* There is a place for it in the order of commits. It may come before appends whose writers are known not to have looked
  at the table (`Snapshot.is_blind_append`). It comes after all others, merges that only insert among them: their
  writers have not seen what it does, so they must not have added a row that it would have looked at, nor taken one
  away that it went by. Of two that read, the later one has then seen the other (serializable isolation).

(Sources: the commands of Java Paimon for Spark give such snapshots the kind OVERWRITE; Paimon documentation,
primary-key-table/table-mode and append-table/row-level operations.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Retry
from paimon_pyds.base.secrets import human_bytes
from paimon_pyds.base.text import Summary, counts_text, summary_text
from paimon_pyds.engine.commit import Changes, VectorPlace, commit, increments_of
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unpublished
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.engine.execution.writing import abort_messages
from paimon_pyds.engine.rowlevel.target import RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import find_rows
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.metadata.deletion.vector_files import NewVectors
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, IDENTITY_COLUMNS
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard


@dataclass(frozen=True, slots=True, repr=False)
class RowSummary(Summary):
    """What a row-level operation did.

    Attributes:
        snapshot_id: the snapshot that published it; None when there was nothing to do.
        rows_deleted, rows_updated, rows_inserted: rows, each counted once.
        files_touched: data files that rows left.
        files_removed: data files that are no longer in the table.
        files_added: new data files.
        bytes_written: size of new data files and index files.
        seconds: time taken, the commit included.
        attempts: how often it was tried; above 1 after conflicts with other commits.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    files_touched: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    attempts: int = 1

    def __str__(self) -> str:
        rows = {"deleted": self.rows_deleted, "updated": self.rows_updated, "inserted": self.rows_inserted}
        files = {"touched": self.files_touched, "removed": self.files_removed, "added": self.files_added}
        parts = [*counts_text(rows, "row"), *counts_text(files, "file")]
        written = f"{human_bytes(self.bytes_written)} written" if self.bytes_written else ""
        tried = f"attempt {self.attempts}" if self.attempts > 1 else ""
        nothing = "" if self.snapshot_id is not None or parts else "nothing changed"
        return summary_text(self.snapshot_id, [nothing, *parts, written, tried], self.seconds)


def change_rows(
    store: TableStore,
    operation: Callable[[RowTarget], RowEdits],
    executor: Executor,
    *,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Run an operation and publish its edits as one snapshot; again on a newer snapshot after a conflict, or when the
    one that it went by has expired.

    ``operation``: looks at a state of the table and says what to change. It may be called several times. ``executor``:
    looks through what other commits added meanwhile.

    Raises:
        CommitConflictError: other commits got in the way more often than ``commit.max-retries``.
        CommitError: not published; written files were removed again.
        CommitOutcomeUnknownError: the storage did not answer; no file was removed.
        UnsupportedError: a table whose rows can't be changed here.
    """
    started = time.perf_counter()

    def once(newest: Snapshot | None, retries: Retries) -> RowSummary:
        target = RowTarget(store, options, newest)
        retries.go_by(target.options)
        edits = operation(target)
        if edits.is_empty:
            return RowSummary(None, attempts=retries.count)
        with removing_unpublished(partial(abort_messages, store, edits.messages)):
            published = _publish(target, edits, retries, executor)
        return RowSummary(
            snapshot_id=None if published.snapshot is None else published.snapshot.id,
            rows_deleted=edits.deleted,
            rows_updated=edits.updated,
            rows_inserted=edits.inserted,
            files_touched=len(edits.removed),
            files_removed=published.files_removed,
            files_added=sum(m.file_count for m in edits.added),
            bytes_written=sum(m.size for m in edits.added) + published.vectors.size,
            attempts=retries.count,
        )

    summary = on_newest(store, once, options)
    return replace(summary, seconds=time.perf_counter() - started)


def _publish(target: RowTarget, edits: RowEdits, retries: Retries, executor: Executor) -> Published:
    if not target.schema.primary_keys:
        return publish(target, edits, retries, executor)
    from paimon_pyds.engine.rowlevel.key_rows import publish_versions  # other tables do without merging

    snapshot, files_removed = publish_versions(target, edits)
    return Published(snapshot, NewVectors(), files_removed)


@dataclass(frozen=True, slots=True)
class Published:
    """What a commit did. ``vectors`` are the index files it made."""

    snapshot: Snapshot | None
    vectors: NewVectors
    files_removed: int


def publish(target: RowTarget, edits: RowEdits, retries: Retry, executor: Executor | None = None) -> Published:
    """Publish the edits as one snapshot.

    ``target``: the state of the table that the edits were made from. ``executor``: looks through files that other
    commits added meanwhile; the cores of this machine by default.

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
        except CommitConflictError:
            if retries.exhausted:
                raise
            retries.pause()
        now = RowTarget(target.store, target.given, target.store.latest_snapshot())
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
    _dropped: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.now is not self.base:
            self._check_order()
        numbers = self._numbers(r.number for r in self.edits.removed)
        for removed in self.edits.removed:
            name = self.base.name(removed.number)
            number = numbers[removed.number]
            self._check_rows(number, name, removed.positions)
            self._expected[name] = self.now.places.get(name)
            if removed.positions is None:
                self._gone += self.now.group(number)
            else:
                self._stay.append(number)
            if removed.positions is not None or name in self.now.places:
                self.vectors.setdefault(self._bucket(number), {})[name] = removed.positions

        extended = self._numbers(self.edits.extended).values()
        if self.edits.changed_columns:
            partitions = {self._bucket(number).partition for number in extended}
            self._dropped = self.now.stale_indexes(self.edits.changed_columns, partitions)
        for number in extended:
            name = self.now.name(number)
            self._expected[name] = self.now.places.get(name)
            self._stay.append(number)

    @property
    def files_removed(self) -> int:
        """Data files that go."""
        return len(self._gone)

    def changes(self, vectors: NewVectors) -> Changes:
        """What to commit."""
        removes = bool(self.edits.removed)
        added, compaction = increments_of([b for m in self.edits.added for b in m.buckets])
        rows = replace(
            added,
            kind=CommitKind.OVERWRITE if removes else added.kind,
            operation=self.edits.operation,
            deleted=self._entries(self._gone),
            required=self._entries(self._stay, IDENTITY_COLUMNS),
            expected_vectors=self._expected,
            guard=self,
            index_entries=(*added.index_entries, *vectors.entries),
            replaced_index_files=added.replaced_index_files | vectors.replaced | self._dropped,
            base_snapshot=self.now.snapshot,
            base_files=self.now.entries,
        )
        return Changes((rows, compaction))

    def _bucket(self, number: int) -> PartitionBucket:
        return PartitionBucket(*(self.now.entries[name][number].as_py() for name in ("partition", "bucket")))

    def _entries(self, numbers: list[int], columns: Sequence[str] = ENTRY_SCHEMA.names) -> pa.RecordBatch | None:
        return self.now.entries.select(list(columns)).take(array(numbers, pa.int64())) if numbers else None

    def _numbers(self, files: Iterable[int]) -> dict[int, int]:
        """Where files of the base are now."""
        wanted = list(files)
        if self.now is self.base:
            return dict(zip(wanted, wanted, strict=True))
        mine = self.base.entries.take(array(wanted, pa.int64()))
        named = pc.indices_nonzero(pc.is_in(self.now.entries["file_name"], mine["file_name"]))
        found = dict(zip(_file_keys(self.now.entries.take(named)), named.to_pylist(), strict=True))
        numbers = {}
        for number, key in zip(wanted, _file_keys(mine), strict=True):
            if key not in found:
                raise self.base.conflict(f"the data file {key[2]} was removed by another commit meanwhile")
            numbers[number] = found[key]
        return numbers

    def _check_rows(self, number: int, name: str, positions: BitMap | None) -> None:
        """None of these rows may have gone meanwhile: they may live on in another file."""
        if self.base.places.get(name) == self.now.places.get(name):
            return
        partition = self._bucket(number)[0]
        before, after = (_deleted(target, partition, name) for target in (self.base, self.now))
        if before != after if positions is None else not after.isdisjoint(positions):
            raise self.base.conflict(f"rows of the data file {name} were changed by another commit meanwhile")

    def _check_order(self) -> None:
        """After others that may have read: rows that made a difference are there as before, and no more of them."""
        self.base.check_schema(self.now.schema)
        if not self._changed_rows(self.base, self.now.snapshot):
            return
        if self.base.joins:  # files that were not looked at may have new values
            raise self.base.conflict("rows were changed by another commit meanwhile")
        for before, number in self._numbers(self.edits.unchanged).items():
            self._check_rows(number, self.base.name(before), self.edits.unchanged[before])
        candidates = self.now.candidates(self.edits.reads)
        there = set(_file_keys(self.base.entries))
        added = tuple(c for c in candidates.files if (c.file.partition, c.file.bucket, c.file.name) not in there)
        found = find_rows(replace(candidates, files=added), self.executor)
        if found:
            name = self.now.name(found[0].number)
            raise self.base.conflict(f"the data file {name} was added by another commit meanwhile")

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """As `Guard`: other commits since have only appended rows blindly, or moved them."""
        self.base.check_schema(schema)
        if self._changed_rows(self.now, latest):
            raise self.base.conflict("rows were changed by another commit meanwhile")

    def _changed_rows(self, base: RowTarget, latest: Snapshot | None) -> bool:
        """Whether the latest snapshot follows from the base by more than blind appends, and moves of rows."""
        since = base.later_snapshots(latest)
        if since is None or not all(s.is_blind_append or s.commit_kind.keeps_rows for s in since):
            return True
        reader = ManifestReader(base.store)
        return base.joins and not all(
            s.commit_kind.keeps_rows or reader.adds_rows_only(s, base.snapshot) for s in since
        )


def _file_keys(entries: pa.RecordBatch) -> list[tuple[bytes, int, str]]:
    columns = (entries[name].to_pylist() for name in ("partition", "bucket", "file_name"))
    return list(zip(*columns, strict=True))


def _deleted(target: RowTarget, partition: bytes, name: str) -> BitMap:
    vector = target.vectors.vector(partition, name)
    return BitMap() if vector is None else vector.positions
