"""Publishing row-level changes: removed rows and new files as one snapshot, again on a newer one where that is safe.

What an operation found out about a snapshot stays true on a later one as long as the files it touched are still there
and nobody deleted the same rows: data files never change. So a race lost to an append, to a delete of other rows, or to
a rewrite of indexes costs new index files and no more. Whatever else happened is a conflict, and the operation has to
look at the table again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_pyds.commit import Changes, commit
from paimon_pyds.commit.retry import pause
from paimon_pyds.deletion.files import Bucket, NewVectors
from paimon_pyds.errors import CommitConflictError, CommitOutcomeUnknownError
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.operations.row_changes_target import RowTarget
from paimon_pyds.write import CommitMessage

__all__ = ["Published", "RemovedRows", "RowEdits", "Tries", "publish"]


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows that go from one data file.

    Attributes:
        number: the file, as in `RowTarget.entries`.
        positions: the rows, live at the target's snapshot; None when the file goes as a whole.
        rows: how many live rows leave the table by this.
        copied: rows of the file were written elsewhere, so that it must not have lost any meanwhile.
    """

    number: int
    positions: BitMap | None
    rows: int
    copied: bool = False


@dataclass(frozen=True, slots=True)
class RowEdits:
    """All that an operation wants to do to the rows of its target.

    Attributes:
        removed: one per data file.
        messages: new data files; they are removed again when nothing comes of it.
        given: new data files that the caller had before: published too, and never removed here.
        deleted, updated, inserted: how many rows.
    """

    removed: Sequence[RemovedRows] = ()
    messages: Sequence[CommitMessage] = ()
    given: Sequence[CommitMessage] = ()
    deleted: int = 0
    updated: int = 0
    inserted: int = 0

    @property
    def added(self) -> Sequence[CommitMessage]:
        """All new data files."""
        return (*self.messages, *self.given)

    @property
    def is_empty(self) -> bool:
        """There is nothing to publish."""
        return not self.removed and not any(m.file_count for m in self.added)


@dataclass(slots=True)
class Tries:
    """How often an operation may start over, and how often it has: ``commit.max-retries``."""

    limit: int
    count: int = 1

    def again(self, target: RowTarget, error: CommitConflictError) -> None:
        """Wait for the next try; raises the conflict when there is none."""
        if self.count > self.limit:
            raise error
        pause(target.options, self.count)
        self.count += 1


@dataclass(frozen=True, slots=True)
class Published:
    """What a commit did. ``doubled``: rows that somebody else had deleted meanwhile."""

    snapshot: Snapshot | None
    vectors: NewVectors
    files_removed: int
    doubled: int


def publish(target: RowTarget, edits: RowEdits, tries: Tries) -> Published:
    """Publish the edits as one snapshot.

    Raises:
        CommitConflictError: the operation has to be done again on the latest snapshot.
        CommitError: not published.
        CommitOutcomeUnknownError: the storage did not say; all files must stay.
    """
    now = target
    while True:
        attempt = _Attempt(target, now, edits)
        vectors = now.vectors.write(attempt.vectors)
        try:
            snapshot = commit(target.store, attempt.changes(vectors), target.options)
            return Published(snapshot, vectors, attempt.files_removed, attempt.doubled(vectors))
        except CommitOutcomeUnknownError:
            raise
        except CommitConflictError as error:
            now.vectors.discard(vectors)
            tries.again(target, error)
        except Exception:  # not an interrupt: it may have come a moment after the snapshot was published
            now.vectors.discard(vectors)
            raise
        now = RowTarget(target.store, target.given)


@dataclass(slots=True)
class _Attempt:
    """The edits of one snapshot on top of another one, the same or later. Raises CommitConflictError if they clash."""

    base: RowTarget
    now: RowTarget
    edits: RowEdits
    vectors: dict[Bucket, dict[str, BitMap | None]] = field(default_factory=dict)
    _gone: list[int] = field(default_factory=list)
    _stay: list[int] = field(default_factory=list)
    _checked: set[str] = field(default_factory=set)
    _whole: int = 0

    def __post_init__(self) -> None:
        numbers = self._numbers()
        copies = bool(self.edits.added)
        for removed in self.edits.removed:
            name = self.base.name(removed.number)
            number = numbers[removed.number]
            partition, bucket = self._bucket(number)
            had_vector = name in self.now.places
            if removed.positions is None:
                if removed.copied:
                    self._same_vector(partition, name)
                else:
                    self._whole += self.now.live_rows(number)
                self._gone.append(number)
                if had_vector:
                    self._put(partition, bucket, name, None)
                continue
            if copies and had_vector and self.now is not self.base:
                self._disjoint(partition, name, removed.positions)
            self._stay.append(number)
            self._checked.add(name)
            self._put(partition, bucket, name, removed.positions)

    @property
    def files_removed(self) -> int:
        """Data files that go."""
        return len(self._gone)

    def changes(self, vectors: NewVectors) -> Changes:
        """What to commit."""
        removes = bool(self._gone or self._stay)
        return Changes(
            added=tuple(b for m in self.edits.added for b in m.buckets),
            deleted=self._entries(self._gone),
            required=self._entries(self._stay),
            expected_vectors={name: self.now.places.get(name) for name in self._checked},
            index_entries=vectors.entries,
            replaced_index_files=vectors.replaced,
            kind=CommitKind.OVERWRITE if removes else CommitKind.APPEND,
        )

    def doubled(self, vectors: NewVectors) -> int:
        """Rows to delete that were deleted already."""
        if self.now is self.base:
            return 0
        asked = sum(len(r.positions) for r in self.edits.removed if r.positions is not None)
        whole = sum(r.rows for r in self.edits.removed if r.positions is None and not r.copied)
        return asked - sum(vectors.deleted.values()) + whole - self._whole

    def _put(self, partition: bytes, bucket: int, name: str, positions: BitMap | None) -> None:
        self.vectors.setdefault((partition, bucket), {})[name] = positions

    def _bucket(self, number: int) -> Bucket:
        return self.now.entries["partition"][number].as_py(), self.now.entries["bucket"][number].as_py()

    def _entries(self, numbers: list[int]) -> pa.RecordBatch | None:
        return self.now.entries.take(pa.array(numbers, pa.int64())) if numbers else None

    def _numbers(self) -> dict[int, int]:
        """Where the files of the base are now."""
        if self.now is self.base:
            return {r.number: r.number for r in self.edits.removed}
        mine = self.base.entries.take(pa.array([r.number for r in self.edits.removed], pa.int64()))
        near = pc.indices_nonzero(pc.is_in(self.now.entries["file_name"], mine["file_name"]))
        found = dict(zip(_places(self.now.entries.take(near)), near.to_pylist(), strict=True))
        numbers = {}
        for removed, place in zip(self.edits.removed, _places(mine), strict=True):
            if place not in found:
                raise self._conflict(f"the data file {place[2]} was removed by another commit meanwhile")
            numbers[removed.number] = found[place]
        return numbers

    def _same_vector(self, partition: bytes, name: str) -> None:
        self._checked.add(name)
        if self.base.places.get(name) == self.now.places.get(name):
            return
        before, after = (t.vectors.vector(partition, name) for t in (self.base, self.now))
        if before is None or after is None or before.positions != after.positions:
            raise self._conflict(f"rows of the data file {name} were deleted by another commit meanwhile")

    def _disjoint(self, partition: bytes, name: str, positions: BitMap) -> None:
        """Rows that get new versions must not have been deleted by somebody else."""
        vector = self.now.vectors.vector(partition, name)
        if vector is not None and not vector.positions.isdisjoint(positions):
            raise self._conflict(f"rows of the data file {name} were changed by another commit meanwhile")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(
            what, path=self.base.store.root, hint="run the operation again on the latest snapshot"
        )


def _places(entries: pa.RecordBatch) -> list[tuple[bytes, int, str]]:
    columns = (entries[name].to_pylist() for name in ("partition", "bucket", "file_name"))
    return list(zip(*columns, strict=True))
