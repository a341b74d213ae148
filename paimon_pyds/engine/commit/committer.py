"""Publishing a commit: changes → manifests → ``snapshot-N``, created if absent.

The snapshot file is the only thing that makes a commit visible, and its creation is atomic, so a crash at any instant
leaves the old state or the new one. When another commit took the number first, the changes are checked against what it
did and tried again on top of it. (Source: Paimon documentation, concepts/concurrency-control.)
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, one_batch, pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.progress import phase
from paimon_pyds.engine.commit.conflicts import Conflicts, read_base_files
from paimon_pyds.engine.commit.earlier_commits import EarlierCommits
from paimon_pyds.engine.commit.manifests import ManifestWriter, identities, merge_manifests, rewrite_manifests
from paimon_pyds.engine.commit.publisher import (
    Retries,
    has_all,
    is_there,
    publisher_of,
    remember,
    removing_unpublished,
    replaced_since,
)
from paimon_pyds.errors import CommitConflictError, CommitError, SnapshotNotFoundError
from paimon_pyds.metadata.commit_message import Changes, Increment
from paimon_pyds.metadata.intents import rolling_back_to
from paimon_pyds.metadata.manifest import (
    ENTRY_SCHEMA,
    FILE_SOURCE_APPEND,
    IDENTITY_COLUMNS,
    DataFile,
    FileKind,
    ManifestEntry,
    ManifestFile,
    is_apart,
)
from paimon_pyds.metadata.manifest_codec import entries_to_batch
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.record_codec import encode_index_manifest, encode_manifest_list
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard

_log = logging.getLogger("paimon_pyds.commit")

_ROW_ID = "_ROW_ID"
"""A column of files whose rows had row ids before they were written there."""


def commit(store: TableStore, changes: Changes, options: TableOptions) -> Snapshot | None:
    """Publish changes, one snapshot for each increment; the last one, or None when there is nothing to publish.

    A commit that was published before returns its snapshot, and its missing increments are published. On CommitError
    nothing was published and the caller should remove the data files. On CommitOutcomeUnknownError the storage did not
    say, and on AlreadyCommittedError the table has them; the files must stay. Once a first increment is published,
    which holds the rows, the failure of a later one is logged, and its files stay: the same changes can be committed
    again.

    Raises:
        CommitConflictError: another commit deleted what this one builds on, put other deletion vectors on it, or
            changed the number of buckets; or the table was dropped and created again.
        CommitError: no free snapshot number within ``commit.max-retries`` tries or ``commit.timeout``.
        AlreadyCommittedError, CommitOutcomeUnknownError: see above.
    """
    increments = [increment for increment in changes.increments if not increment.is_empty]
    if not increments:
        return None
    with phase("committing"):
        return _committed(store, changes, increments, options)


def _committed(
    store: TableStore, changes: Changes, increments: Sequence[Increment], options: TableOptions
) -> Snapshot | None:
    changes = _named(store, changes)
    if not changes.commit_user:
        prefix = options.get("commit.user-prefix")
        changes = replace(changes, commit_user=f"{prefix}_{uuid.uuid4()}" if prefix else str(uuid.uuid4()))
    published: Snapshot | None = None
    for increment in increments:
        once = None if increment.kind.keeps_rows else changes.once
        one = _Commit(store, replace(changes, increments=(increment,), once=once), options)
        try:
            snapshot = one.run()
        except Exception as error:  # raised, it would make the caller remove the files, or write the rows again
            if published is None:
                raise
            _log.warning("snapshot %d is without its compaction: %s (%s)", published.id, error, store.root)
            break
        if snapshot is not None:
            if published is None or not publisher_of(store).was_replaced(store, published):
                remember(store, snapshot, one.changes)  # else the rows are what the next commit has to bring back
            published = snapshot
    return published


def _named(store: TableStore, changes: Changes) -> Changes:
    """Changes under the name that the next commit of rows has, if it has one, and that its compactions get, too."""
    once = store.once
    if once is None or changes.commit_user:
        return changes
    named = replace(changes, commit_user=once.commits.user, identifier=once.identifier)
    if not once.is_done:
        moves_rows = all(increment.kind.keeps_rows for increment in changes.increments)
        return changes if moves_rows else replace(named, watermark=once.watermark, once=once)
    return named if all(increment.kind.keeps_rows for increment in changes.increments) else changes


def _bring_back(store: TableStore, lost: Changes, options: TableOptions) -> None:
    """Commit again what another writer replaced since it was published here."""
    again = _Commit(store, lost, options, replaced=True)
    try:
        again.look_again(store.latest_schema(), Retries(options))
        snapshot = again.run()
    except CommitConflictError as error:
        raise CommitError(
            f"the last commit of this process was replaced by another writer and can't be made again: {error.message}",
            path=store.root,
            hint="write its rows again, then these",
        ) from error
    if snapshot is not None:
        remember(store, snapshot, again.changes)  # it may be replaced in its turn


class _Commit:
    """The commit of changes that have one increment."""

    def __init__(self, store: TableStore, changes: Changes, options: TableOptions, *, replaced: bool = False) -> None:
        self.store = store
        self.changes = changes
        self.options = options
        self.earlier = EarlierCommits(store, self.increment)
        self.replaced = replaced
        self.written: list[str] = []
        """Names of the metadata files of this try."""
        self.conflicts: Conflicts

    @property
    def increment(self) -> Increment:
        return self.changes.increments[0]

    def run(self) -> Snapshot | None:
        retries, publisher = Retries(self.options), publisher_of(self.store)
        while True:
            self.written = []
            with removing_unpublished(self.clean):
                latest = self.latest()
                schema = self.store.latest_schema()
                bucketed = bool(schema.primary_keys) or int(self.options.get("bucket")) > 0
                self.conflicts = Conflicts(self.increment, self.store.root, bucketed=bucketed)
                self.earlier.check_table()
                try:
                    landed = self.landed_before(latest)
                    snapshot = self.build(latest, schema) if landed is None else None
                except SnapshotNotFoundError:
                    if self.store.latest_snapshot() == latest:
                        raise
                    self.clean()
                    self.again(retries)  # others were much faster: it has expired
                    continue
                if snapshot is None:
                    if landed is None:
                        return None
                    publisher.after_publish(self.store, landed)
                    return self.finished(landed)
                if self.changes.once is not None:
                    self.changes.once.begin(self.store, latest, self.earlier.paths)
                published = publisher.publish(self.store, snapshot, latest)
            if not published:
                self.clean()
            elif publisher.was_replaced(self.store, snapshot):
                self.replaced = True  # the files stay: another commit may have built on them
            else:
                return self.finished(snapshot)
            if self.replaced or not is_there(self.store, latest):
                self.look_again(schema, retries)
            self.again(retries)

    def finished(self, snapshot: Snapshot) -> Snapshot:
        if self.changes.once is not None:
            self.changes.once.finish(self.store, snapshot)
        return snapshot

    def look_again(self, schema: TableSchema, retries: Retries) -> None:
        """Before a commit that may have been visible is made again: a rollback may have removed its files."""
        while rolling_back_to(self.store):
            what = "a rollback of the table is running, and removes files"
            retries.again(CommitConflictError(what, path=self.store.root, hint="write the rows again after its end"))
        self.earlier.look_again(schema)

    def again(self, retries: Retries) -> None:
        what = f"{retries.count} other commits were faster in a row"
        hint = "write with fewer jobs at a time, or raise commit.max-retries"
        retries.again(CommitError(what, path=self.store.root, hint=hint))

    def latest(self) -> Snapshot | None:
        """The latest snapshot, once it has all that this process committed last."""
        while True:
            latest = self.store.latest_snapshot()
            lost = replaced_since(self.store, latest)
            if lost is None:
                return latest
            _bring_back(self.store, lost, self.options)

    def landed_before(self, latest: Snapshot | None) -> Snapshot | None:
        """The snapshot that has all of this commit already, if there is one."""
        if self.replaced and latest is not None and has_all(self.store, latest, self.increment):
            return latest
        return self.earlier.find(latest)

    def clean(self) -> None:
        """Remove what this try wrote; best effort, as orphan files harm nobody."""
        discard(self.store.io, (self.store.paths.manifest(name) for name in self.written))

    # ------------------------------------------------------------------------------------------------------ build

    def build(self, latest: Snapshot | None, schema: TableSchema) -> Snapshot | None:
        if self.changes.once is not None:
            self.changes.once.check(self.store, latest)
        if self.increment.guard is not None:
            self.increment.guard.check(latest, schema)
        base = ManifestReader(self.store).manifests(latest)
        live = self.live_files(latest, schema, base)
        self.move_numbers(live, latest)
        changes, increment = self.changes, self.increment
        next_row_id = (latest.next_row_id if latest is not None else None) or 0
        new, next_row_id = self.added_entries(live, latest, next_row_id)
        added = new if increment.replacements is None else _concat([new, increment.replacements])
        removed = self.removed_entries(live)
        indexes = increment.index_entries or increment.replaced_index_files
        if increment.overwrite is not None and not (removed.num_rows or added.num_rows or indexes):
            return None
        writer = ManifestWriter(self.store, self.options, schema, self.written)
        delta = writer.write(_concat([removed, added]))
        if increment.rewrites_manifests:
            merged = rewrite_manifests(base, writer)
        else:
            merged = merge_manifests(base, writer, full=self.comes_back(base, schema, added))
        if merged is None:
            self.clean()
            return None
        lists = [merged, delta]
        if increment.changelog:
            lists.append(writer.write(increment.changelog))
        base_list, delta_list, *others = self.write_lists(lists)
        changelog_list = others[0] if others else (None, None)
        rows = _rows(added) - _rows(removed)
        total = (latest.total_record_count or 0) if latest is not None else 0
        watermarks = (changes.watermark, None if latest is None else latest.watermark)
        # As in Java, statistics of another schema are dropped.
        inherited = latest.statistics if latest is not None and latest.schema_id == schema.id else None
        return Snapshot(
            id=1 if latest is None else latest.id + 1,
            schema_id=schema.id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=delta_list[0],
            delta_manifest_list_size=delta_list[1],
            changelog_manifest_list=changelog_list[0],
            changelog_manifest_list_size=changelog_list[1],
            index_manifest=self.index_manifest(latest, live, removed, added),
            commit_user=changes.commit_user,
            commit_identifier=changes.identifier,
            commit_kind=increment.kind,
            # Never before the snapshot it follows: time travel searches by time.
            time_millis=max(int(time.time() * 1000), 0 if latest is None else latest.time_millis),
            total_record_count=total + rows,
            delta_record_count=rows,
            changelog_record_count=_rows(increment.changelog) if increment.changelog else None,
            watermark=max((w for w in watermarks if w is not None), default=None),
            statistics=increment.statistics or inherited,
            properties=changes.properties or None,
            next_row_id=next_row_id,
            operation=None if increment.operation is None else increment.operation.value,
        )

    def live_files(
        self, latest: Snapshot | None, schema: TableSchema, base: Sequence[ManifestFile]
    ) -> pa.RecordBatch | None:
        """The live files that the commit has to know of; those that it builds on are still among them."""
        live = self.increment.base_files
        if live is None or self.increment.base_snapshot != latest:
            live = read_base_files(self.store, schema, base, self.increment)
            if live is not None:
                self.conflicts.check_files(live)
        if live is not None:
            self.conflicts.check_buckets(live, schema)
        return live

    def move_numbers(self, live: pa.RecordBatch | None, latest: Snapshot | None) -> None:
        """See that the sequence numbers in new files follow those of the bucket, and that no two rows have the same.

        What one writer gave to a bucket is moved as a whole: its files have numbers in between one another's. Where
        others have committed since, an earlier commit of the same files may have moved them already.
        """
        now = (0, "") if latest is None else (latest.id, latest.delta_manifest_list)
        renumbering = self.increment.renumbering
        if renumbering is None or self.stamps:
            return
        added = {id(bucket): bucket for bucket in self.increment.added}
        free = _next_sequences(live)
        for bucket in sorted(self.increment.added, key=lambda b: b.sequence_numbers[0]):
            key, (first, last) = PartitionBucket(bucket.partition, bucket.bucket), bucket.sequence_numbers
            if last >= first and bucket.bucket != POSTPONE_BUCKET:
                by = max(0, free.get(key, 0) - first)
                origin = bucket.origin
                if by or origin is None or (origin.snapshot_id, origin.delta_manifest_list) != now:
                    added[id(bucket)] = renumbering.moved(bucket, by)
                free[key] = last + by + 1
        self.changes = replace(self.changes, increments=(self.increment.with_files([*added.values()]),))

    @property
    def stamps(self) -> bool:
        """Whether the snapshot's number takes the place of sequence numbers, as `sequence.snapshot-ordering` has it."""
        return self.increment.kind is not CommitKind.COMPACT and bool(self.options.get("sequence.snapshot-ordering"))

    def comes_back(self, base: Sequence[ManifestFile], schema: TableSchema, added: pa.RecordBatch) -> bool:
        """Whether a file is added again just as it was deleted before: the old deletion would take it away too."""
        deleted = self.increment.deleted
        if deleted is None:
            return False
        again = added.filter(pc.is_in(added["file_name"], deleted["file_name"]))
        if not again.num_rows:
            return False
        wanted = set(identities(again))
        if not wanted.isdisjoint(identities(deleted)):
            raise ValueError("the commit adds and deletes the same entry")
        touched = EntryFilter(schema, partitions=frozenset(again["partition"].to_pylist()))
        manifests = [m for m in base if m.num_deleted_files]
        entries = ManifestReader(self.store, touched).entries(manifests, ("kind", *IDENTITY_COLUMNS))
        gone = pc.and_(pc.equal(entries["kind"], FileKind.DELETE), pc.is_in(entries["file_name"], again["file_name"]))
        return not wanted.isdisjoint(identities(entries.filter(gone)))

    def added_entries(
        self, live: pa.RecordBatch | None, latest: Snapshot | None, next_row_id: int
    ) -> tuple[pa.RecordBatch, int]:
        """New files as entries, with the numbers that only the commit can give: sequence numbers and row ids."""
        numbered = self.increment.kind is CommitKind.COMPACT or self.increment.renumbering is not None
        tracking = bool(self.options.get("row-tracking.enabled"))
        joins = bool(self.options.get("data-evolution.enabled"))
        snapshot_id = 1 if latest is None else latest.id + 1
        entries = []
        free = {} if numbered else _next_sequences(live)
        for bucket in self.increment.added:
            sequence = free.get(PartitionBucket(bucket.partition, bucket.bucket), 0)
            apart = _Apart(next_row_id)
            for file in bucket.files:
                if self.stamps:
                    if file.file_source == FILE_SOURCE_APPEND:
                        file = replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
                elif numbered:
                    pass  # its rows have their numbers
                elif tracking and _ROW_ID in (file.write_cols or ()):
                    file = _changed_in(file, snapshot_id)
                elif is_apart(file.file_name) and file.first_row_id is None:
                    file = replace(_changed_in(file, snapshot_id), first_row_id=apart.start(file))
                elif tracking and file.first_row_id is None:
                    apart = _Apart(next_row_id)
                    file = replace(_changed_in(file, snapshot_id), first_row_id=next_row_id)
                    next_row_id += file.row_count
                elif joins:
                    file = _changed_in(file, snapshot_id)
                elif bucket.total_buckets > 0:
                    last = sequence + file.row_count - 1
                    file = replace(file, min_sequence_number=sequence, max_sequence_number=last)
                    sequence = last + 1
                entries.append(ManifestEntry(FileKind.ADD, bucket.partition, bucket.bucket, bucket.total_buckets, file))
        return entries_to_batch(entries), next_row_id

    def removed_entries(self, live: pa.RecordBatch | None) -> pa.RecordBatch:
        if live is None or (self.increment.deleted is None and self.increment.overwrite is None):
            return _nothing()
        removed = [] if self.increment.deleted is None else [self.increment.deleted]
        if self.increment.overwrite is not None:
            coded = live["partition"].dictionary_encode()
            rows = coded.dictionary.to_pylist()
            replaced = self.increment.overwrite.replaced(rows)
            mask = array([row in replaced for row in rows], pa.bool_()).take(coded.indices)
            if self.increment.overwrite.keeps_postponed:
                mask = pc.and_(mask, pc.greater_equal(live["bucket"], 0))
            removed.append(live.filter(mask))
        batch = _concat(removed)
        kind = array([FileKind.DELETE], pa.int8()).take(pc.fill_null(pa.nulls(batch.num_rows, pa.int8()), 0))
        return batch.set_column(0, ENTRY_SCHEMA.field(0), kind)

    def index_manifest(
        self, latest: Snapshot | None, live: pa.RecordBatch | None, removed: pa.RecordBatch, added: pa.RecordBatch
    ) -> str | None:
        """The name of the index manifest of the next snapshot; the old one when nothing changes."""
        old_name = None if latest is None else latest.index_manifest
        old = () if old_name is None else self.store.read_index_manifest(old_name)
        gone = removed
        if removed.num_rows and added.num_rows:
            gone = removed.filter(pc.invert(pc.is_in(removed["file_name"], added["file_name"])))
        self.conflicts.check_vectors(old, live, gone, added)
        entries = self.conflicts.next_index_entries(old, live, gone, added)
        if entries is None:
            return old_name
        if not entries:
            return None
        data = encode_index_manifest(entries, str(self.options.get("manifest.compression")))
        name, _ = self.store.write_index_manifest(data)
        self.written.append(name)
        return name

    def write_lists(self, lists: Sequence[Sequence[ManifestFile]]) -> Iterator[tuple[str, int]]:
        """Write manifest lists; their names and sizes in bytes."""
        id_ = str(uuid.uuid4())
        for number, manifests in enumerate(lists):
            data = encode_manifest_list(manifests, str(self.options.get("manifest.compression")))
            name, size = self.store.write_manifest_list(data, id_, number)
            self.written.append(name)
            yield name, size


@lru_cache(maxsize=1)
def _nothing() -> pa.RecordBatch:
    return entries_to_batch([])


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    full = [b for b in batches if b.num_rows]
    if not full:
        return _nothing()
    return full[0] if len(full) == 1 else one_batch(pa.Table.from_batches(full))


def _rows(entries: pa.RecordBatch) -> int:
    return pc.sum(entries["row_count"]).as_py() or 0


def _next_sequences(live: pa.RecordBatch | None) -> dict[PartitionBucket, int]:
    """One past the highest sequence number of each bucket's live files."""
    if live is None or not live.num_rows:
        return {}
    coded = live["partition"].dictionary_encode()
    codes, buckets = to_numpy(coded.indices), to_numpy(live["bucket"])
    order = np.lexsort((buckets, codes))
    codes, buckets = codes[order], buckets[order]
    starts = np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(buckets) != 0)))
    highest = np.maximum.reduceat(to_numpy(live["max_sequence_number"])[order], starts)
    partitions = coded.dictionary.take(from_numpy(codes[starts])).to_pylist()
    found = zip(map(PartitionBucket, partitions, buckets[starts].tolist()), (highest + 1).tolist(), strict=True)
    return dict(found)


class _Apart:
    """The row ids of the files that hold columns apart from the others: they follow the file that has these."""

    def __init__(self, first_row_id: int) -> None:
        self._first = first_row_id
        self._rows: dict[object, int] = {}

    def start(self, file: DataFile) -> int:
        """The first row id of the next file."""
        rows = self._rows.get(file.write_cols, 0)
        self._rows[file.write_cols] = rows + file.row_count
        return self._first + rows


def _changed_in(file: DataFile, snapshot_id: int) -> DataFile:
    """A file of a table with row ids: rows without a sequence number, if there are any, have this snapshot's."""
    held = _ROW_ID in (file.write_cols or ()) and file.min_sequence_number > 0
    return replace(
        file,
        min_sequence_number=file.min_sequence_number if held else snapshot_id,
        max_sequence_number=file.max_sequence_number if held and file.max_sequence_number > 0 else snapshot_id,
    )
