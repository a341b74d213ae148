"""What a stream reads of some snapshots, as files: planned as scans are, each file with the number of its snapshot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, repeat

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, is_true, one_batch, pc, scalar, to_numpy
from paimon_pyds.base.cache import collection_paused
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.zones import local_clock_ms
from paimon_pyds.engine.scan.plan import Planner
from paimon_pyds.engine.scan.planned_files import written_order
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import pack
from paimon_pyds.engine.scan.travel import Additions, TableState
from paimon_pyds.engine.stream.position import snapshot_identity
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.files_to_merge import highest_level
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, KEY_VALUE_FIELDS
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, FileKind, ManifestFile, entry_schema, file_identities
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import Files, ReadSpec, Split
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

_SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """Files whose rows are changes, in the order in which they are read.

    Attributes:
        spec: how they are read.
        splits: groups of them; the state that a stream starts with is counted in these.
        snapshots: the number of the snapshot of each file, or of all files where there is one number only.
        kind: the row kind of all rows; None where the files say it.
        of: the snapshots that were planned.
        waiting: the number of the last splits whose files say the kind in any case: of rows that wait for a bucket.
    """

    spec: ReadSpec
    splits: tuple[Split, ...]
    snapshots: tuple[int, ...]
    kind: int | None
    of: tuple[Snapshot, ...] = ()
    waiting: int = 0

    def kind_of(self, split: int) -> int | None:
        """The row kind of all rows of the split of this number; None where the files say it."""
        return self.kind if split < len(self.splits) - self.waiting else None

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """All of them."""
        return tuple(file for split in self.splits for file in split.files)

    def files_by_split(self, snapshot: int) -> Iterator[list[PlannedFile]]:
        """The files of a snapshot, by their splits."""
        numbers = repeat(self.snapshots[0]) if len(self.snapshots) == 1 else iter(self.snapshots)
        for split in self.splits:
            yield [file for file, number in zip(split.files, numbers, strict=False) if number == snapshot]


def digest(plans: Iterable[PlannedChanges], snapshot: Snapshot, drop: bool) -> str:
    """Identifies a snapshot, its files in their order, and which of their rows are given: positions inside of it count
    splits and rows of just these. ``drop``: whether rows of other kinds are left out."""
    found = hashlib.sha256(str(drop).encode())
    for plan in plans:
        if snapshot not in plan.of:
            continue
        found.update(to_sql(plan.spec.predicate).encode())
        for files in plan.files_by_split(snapshot.id):
            found.update("\0".join(["", *(file.name for file in files), ""]).encode())
    return f"{snapshot_identity(snapshot)} {found.hexdigest()[:16]}"


def planned_state(store: TableStore, request: ScanRequest, created: int) -> PlannedChanges:
    """The state that a stream starts with. ``created``: leave out files that are older, if not 0."""
    snapshot = request.state.snapshot
    assert snapshot is not None
    store.lists_ahead(snapshot)
    plan = _StatePlanner(store, replace(request, waiting=False), created).plan()
    waiting = _WaitingPlanner(store, request, snapshot, created).waiting() if request.waiting else ()
    return PlannedChanges(
        plan.spec, (*plan.splits, *waiting), (snapshot.id,), INSERT, (snapshot,), waiting=len(waiting)
    )


def planned_changes(
    store: TableStore, request: ScanRequest, snapshots: Sequence[Snapshot], *, changelog: bool, overwrites: bool
) -> Iterator[PlannedChanges]:
    """What some snapshots changed, oldest first; those that changed nothing for a stream are left out.

    Args:
        store: the table.
        request: columns and filter; its state says the schema only.
        snapshots: that follow one another.
        changelog: read changelog files, not data files.
        overwrites: whether overwrites are read: of a table with a primary key, what they removed and what they added.
    """
    keyed = bool(request.state.schema.primary_keys)

    def counts(snapshot: Snapshot) -> int:
        """0: it brings nothing, 1: files that it adds, 2: an overwrite."""
        if overwrites and snapshot.commit_kind is CommitKind.OVERWRITE:
            return 2 if keyed else 1
        if changelog:
            return int(snapshot.changelog_manifest_list is not None)
        return int(snapshot.commit_kind is CommitKind.APPEND)

    for how, group in groupby(filter(counts, snapshots), counts):
        found = tuple(group)
        if how == 1:
            yield _ChangesPlanner(store, request, Additions(found, changelog)).changes()
        for one in found if how == 2 else ():
            yield _OverwritePlanner(store, request, one, removed=True).changes()
            yield _OverwritePlanner(store, request, one, removed=False).changes()


def state_request(request: ScanRequest, snapshot: Snapshot) -> ScanRequest:
    """The request for the state that a stream starts with, at a snapshot.

    What the next compaction will put into a changelog is left out, and nothing else: other than of a batch read, rows
    on level 0 are part of it. (Source: Java Paimon 1.4, class DataTableStreamScan.)
    """
    producer = request.options.get("changelog-producer")
    least = {"lookup": 1, "full-compaction": highest_level(request.options)}.get(producer, 0)
    return replace(request, state=TableState(snapshot, request.state.schema), least_level=least)


class _StatePlanner(Planner):
    """Plans a state; of files with a time, those made since ``created``, in milliseconds since the epoch."""

    def __init__(self, store: TableStore, request: ScanRequest, created: int) -> None:
        super().__init__(store, request)
        self._created = created
        if created and self.joins:
            raise UnsupportedError(
                "a stream of a table with data-evolution.enabled=true can't start with the files made since a time",
                path=store.root,
                hint="start with scan.mode=latest-full, latest or from-snapshot",
                feature="data-evolution",
            )
        if created:
            self.columns = (*self.columns, "creation_time")
            self.settled = False

    def sifts(self, manifests: Sequence[ManifestFile]) -> bool:
        return not self._created and super().sifts(manifests)

    def check_total(self, found: int) -> None:
        if not self._created:
            super().check_total(found)

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        entries = super().read(manifests)
        return _made_since(entries, self._created) if self._created else entries


class _ChangesPlanner(Planner):
    """Plans the files that some snapshots added, or their changelog files; rows are read as they are, not merged."""

    def __init__(self, store: TableStore, request: ScanRequest, between: Additions) -> None:
        kinds = (KEY_VALUE_FIELDS[1],) if request.state.schema.primary_keys else ()
        super().__init__(store, replace(request, between=between, fields=(*kinds, *request.fields)))
        self._between = between
        self._of_manifest: dict[str, int] = {}
        self._snapshots: list[int] = []

    def changes(self) -> PlannedChanges:
        """The files, with their snapshots."""
        with collection_paused():
            plan = self.plan()
            keyed = bool(self.schema.primary_keys)
            files = tuple(file._replace(run=None) for file in plan.files) if keyed else plan.files
        kind = None if keyed else INSERT
        splits = (Split.of(plan.spec, files),) if files else ()
        return PlannedChanges(plan.spec, splits, tuple(self._snapshots), kind, self._between.snapshots)

    def manifests(self) -> list[ManifestFile]:
        listed = self.reader.changelog if self._between.changelog else self.reader.delta
        snapshots, threads = self._between.snapshots, threads_for(self.store.io, 1)
        found: list[ManifestFile] = []
        for snapshot, own in zip(snapshots, concurrent_map(listed, snapshots, threads), strict=True):
            self._of_manifest.update(dict.fromkeys((manifest.file_name for manifest in own), snapshot.id))
            found += own
        return found

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        schema = entry_schema(frozenset({*self.columns, "kind"}))
        found = list(self.reader.each(manifests, schema.names))
        entries = one_batch(pa.Table.from_batches(found, schema))  # filtered in one part: they are very many small ones
        snapshots = np.array([self._of_manifest[manifest.file_name] for manifest in manifests], np.int64)
        numbers = np.repeat(snapshots, [batch.num_rows for batch in found])
        added = entries.append_column(_SNAPSHOT, from_numpy(numbers))
        if any(manifest.num_deleted_files for manifest in manifests):
            added = added.filter(pc.equal(entries["kind"], scalar(FileKind.ADD, pa.int8())))
        return self.new_rows(added, self._between) if self.joins else added

    def files(self, entries: pa.RecordBatch) -> Files:
        self._snapshots = to_numpy(entries.column(_SNAPSHOT)).tolist()
        return super().files(entries)


class _WaitingPlanner(_ChangesPlanner):
    """Plans the rows of a state that wait for a bucket: as a compaction will take them, in the order of each writer,
    but each with its kind. (Java's streams have them, too: class DataTableStreamScan.)"""

    def __init__(self, store: TableStore, request: ScanRequest, snapshot: Snapshot, created: int) -> None:
        super().__init__(store, request, Additions((snapshot,), False))
        self._snapshot, self._created = snapshot, created

    def waiting(self) -> tuple[Split, ...]:
        """Splits of about ``source.split.target-size``; those of a partition follow one another."""
        plan = self.plan()
        files = [file._replace(run=None) for file in plan.files]
        parts = groupby(sorted(files, key=lambda file: file.partition), key=lambda file: file.partition)
        size, cost = plan.target_split_size, plan.open_file_cost
        return tuple(Split.of(plan.spec, group) for _, part in parts for group in pack(list(part), size, cost))

    def manifests(self) -> list[ManifestFile]:
        return self.reader.manifests(self._snapshot)

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        entries = self.reader.live(manifests, {*self.columns, "creation_time"})
        entries = _made_since(entries.filter(pc.equal(entries["bucket"], POSTPONE_BUCKET)), self._created)
        entries = entries.take(array(written_order(entries), pa.int64()))
        numbers = from_numpy(np.full(entries.num_rows, self._snapshot.id, np.int64))
        return entries.append_column(_SNAPSHOT, numbers)


def _made_since(entries: pa.RecordBatch, millis: int) -> pa.RecordBatch:
    times = pc.fill_null(entries.column("creation_time"), scalar(0, pa.int64()))
    return entries.filter(pc.greater_equal(times, scalar(local_clock_ms(millis), pa.int64()))) if millis else entries


class _OverwritePlanner(Planner):
    """Plans the files that an overwrite of a table with a primary key removed, or those that it added, to be merged.

    Deletion vectors are not read: they hide older versions of rows, which merging hides too. (Source: Java Paimon 1.4,
    classes SnapshotReaderImpl and IncrementalChangelogReadProvider.)
    """

    def __init__(self, store: TableStore, request: ScanRequest, snapshot: Snapshot, *, removed: bool) -> None:
        super().__init__(store, replace(request, least_level=0))
        self._snapshot, self._removed = snapshot, removed

    def changes(self) -> PlannedChanges:
        """The files."""
        plan = self.plan()
        kind = DELETE if self._removed else INSERT
        return PlannedChanges(plan.spec, plan.splits, (self._snapshot.id,), kind, (self._snapshot,))

    def sifts(self, manifests: Sequence[ManifestFile]) -> bool:
        return False

    def manifests(self) -> list[ManifestFile]:
        return self.reader.delta(self._snapshot)

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        entries = one_batch(self.reader.entries(manifests, {*self.columns, *IDENTITY_COLUMNS}))
        names = file_identities(entries)
        removed = is_true(pc.equal(entries.column("kind"), scalar(FileKind.DELETE, pa.int8())))
        others = names.filter(from_numpy(removed != self._removed))
        own = (removed == self._removed) & ~is_true(pc.is_in(names, value_set=others))
        return entries.filter(from_numpy(own))
