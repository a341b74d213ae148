"""What earlier commits did: whether the files of a commit are new to the table.

A commit of unknown outcome is often tried again. Files can't be in a snapshot that was there before their writer had
finished them (`WriteOrigin`), so only what was added since has to be looked at: nothing where no other commit came in
between. Where snapshots have expired since, all files of the table are looked at. The new ones must still be where they
were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from paimon_pyds.base.arrays import pc
from paimon_pyds.errors import AlreadyCommittedError, CommitConflictError, NotFoundError, SnapshotNotFoundError
from paimon_pyds.metadata.commit_message import Increment
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import file_paths
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import requests_at_once

_PARALLEL_FILES = 16
"""Files from which their existence is checked in parallel, and the number of threads on a local disk."""


def check_same_table(store: TableStore, schema_id: int, digest: str) -> None:
    """Raise CommitConflictError unless the table's schema of that number has this digest (`schema_digest`)."""
    with suppress(NotFoundError):
        if schema_digest(store.schema(schema_id)) == digest:
            return
    raise CommitConflictError(
        f"the table was dropped and created again since this write began with its schema {schema_id}",
        path=store.root,
        hint="nothing was published; write the rows again to the table that is there now",
    )


class EarlierCommits:
    """What earlier commits did to the new files of an increment, which writers hand over."""

    def __init__(self, store: TableStore, increment: Increment) -> None:
        added = increment.added
        self._store = store
        self._increment = increment
        self._reader = ManifestReader(store)
        self._paths = {f.file_name: f.external_path or f"{b.directory}/{f.file_name}" for b in added for f in b.files}
        self._fewest_rows = min((f.row_count for b in added for f in b.files), default=0)
        self._unseen = [self._paths[f.file_name] for b in added if b.origin is not None for f in b.files]
        origins = {b.origin for b in added if b.files}
        self._origins = [o for o in origins if o is not None]
        oldest = None if None in origins else min(self._origins, key=lambda o: o.snapshot_id, default=None)
        self._since = (0, "") if oldest is None else (oldest.snapshot_id, oldest.delta_manifest_list)

    @property
    def paths(self) -> list[str]:
        """The new data files."""
        return [*self._paths.values()]

    def check_table(self) -> None:
        """Raise CommitConflictError unless the files were written by schemas of the table that is there now."""
        for schema_id, digest in {(o.schema_id, o.schema_digest) for o in self._origins}:
            check_same_table(self._store, schema_id, digest)

    def find(self, latest: Snapshot | None) -> Snapshot | None:
        """The snapshot of this increment, if it was published before; None if the table has no file of it.

        ``latest``: the table's latest snapshot. The next call looks at later ones only.

        Raises:
            AlreadyCommittedError: an earlier commit added some of the files, or all together with other changes.
            CommitConflictError: files are gone: they were removed after a commit of them, or as orphan files.
        """
        if not self._paths and not self._unseen:
            return None
        found = None
        if latest is not None and self._paths:
            found = self._find(latest)
            self._since = (latest.id, latest.delta_manifest_list)
        if found is None:
            self._check_files()
        return found

    def look_again(self, schema: TableSchema) -> None:
        """Have the next call look for every file of the increment."""
        self._unseen = list(_all_paths(self._store, schema, self._increment))

    # --------------------------------------------------------------------------------------------------------- helpers

    def _find(self, latest: Snapshot) -> Snapshot | None:
        newer, complete = self._newer(latest)
        try:
            for snapshot in newer:
                if self._is_this(snapshot):
                    return snapshot
        except SnapshotNotFoundError:  # it expired a moment ago
            complete = False
        if not complete:
            self._check_everywhere(latest, newer)
        return None

    def _newer(self, latest: Snapshot) -> tuple[list[Snapshot], bool]:
        """The snapshots that may have the files, oldest first, and whether these are all that there ever were."""
        id_, delta = self._since
        if (latest.id, latest.delta_manifest_list) == self._since:
            return [], True
        found = self._store.snapshots_between(id_ + 1, latest.id)
        whole = len(found) == latest.id - id_
        return found, whole and (id_ == 0 or self._stands(id_, delta))

    def _stands(self, id_: int, delta: str) -> bool:
        """Whether a snapshot still is what it was, or has expired: a rollback gives numbers to other ones."""
        try:
            return self._store.snapshot(id_).delta_manifest_list == delta
        except SnapshotNotFoundError:
            return True

    def _is_this(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is this very increment; raises AlreadyCommittedError when it only shares files with it."""
        kind, increment = snapshot.commit_kind, self._increment
        rows = snapshot.delta_record_count
        few = kind is CommitKind.APPEND and rows is not None and rows < self._fewest_rows
        if few or kind is CommitKind.ANALYZE or (kind is CommitKind.COMPACT) != (increment.kind is CommitKind.COMPACT):
            return False
        added = self._names(snapshot.delta_manifest_list, FileKind.ADD)
        mine = self._paths.keys() & set(added)
        if not mine:
            return False
        if len(mine) == len(self._paths) == len(added) and kind is increment.kind:
            if kind is not CommitKind.COMPACT:
                same = not any((increment.deleted, increment.required))
            else:
                gone = () if increment.deleted is None else increment.deleted["file_name"].to_pylist()
                same = {*gone} == {*self._names(snapshot.delta_manifest_list, FileKind.DELETE)}
            if same:
                return True
        raise self._committed(len(mine), f"snapshot {snapshot.id}")

    def _names(self, manifest_list: str, kind: int | None = None) -> list[str]:
        """The files that the entries of a manifest list are about, or those of one kind."""
        entries = self._reader.entries(self._reader.listed(manifest_list), ("kind", "file_name"))
        kept = entries if kind is None else entries.filter(pc.equal(entries["kind"], kind))
        names: list[str] = kept["file_name"].to_pylist()
        return names

    def _check_everywhere(self, latest: Snapshot, newer: Sequence[Snapshot]) -> None:
        """The snapshots that would show it are gone: look for any trace of the files, and for the files."""
        named = set(self._names(latest.base_manifest_list)).union(self._names(latest.delta_manifest_list))
        others = [s.delta_manifest_list for s in newer]
        others += [name for s in self._store.tags().values() for name in (s.base_manifest_list, s.delta_manifest_list)]
        for name in dict.fromkeys(others):
            with suppress(SnapshotNotFoundError):  # it expired a moment ago
                named.update(self._names(name))
        mine = self._paths.keys() & named
        if mine:
            raise self._committed(len(mine), "a snapshot that has expired")

    def _check_files(self) -> None:
        """The files must be where they were written; looked at once, and where it is known that they were written."""
        io = self._store.io
        if len(self._unseen) < _PARALLEL_FILES and not requests_at_once(io):
            there = [io.exists(path) for path in self._unseen]
        else:
            from paimon_pyds.storage.concurrent import concurrent_map, threads_for

            there = list(concurrent_map(io.exists, self._unseen, threads_for(io, _PARALLEL_FILES)))
        if not all(there):
            raise CommitConflictError(
                "a data file of this commit is gone: a failed commit removed it, it was compacted after an earlier "
                "commit of it, cleaned up as an orphan file, or rolled back",
                path=self._unseen[there.index(False)],
                hint="nothing was published; look whether the table has the rows before writing them again",
            )
        self._unseen = []

    def _committed(self, count: int, where: str) -> AlreadyCommittedError:
        which = "the data files" if count == len(self._paths) else f"{count} of {len(self._paths)} data files"
        return AlreadyCommittedError(
            f"{which} of this commit were added to the table before, by {where}",
            path=self._store.root,
            hint="nothing was published now, and no file removed; commit each message once",
        )


def _all_paths(store: TableStore, schema: TableSchema, increment: Increment) -> Iterator[str]:
    """Every file that an increment brings to the table."""
    for bucket in increment.added:
        yield from bucket.paths()
    entries = [e for e in (increment.replacements, increment.changelog) if e is not None]
    outside = any(e.external_path for e in increment.index_entries)
    outside |= any(e["external_path"].null_count < e.num_rows for e in entries)
    paths = file_paths(store, schema.options, outside=outside)
    directories = PartitionDirectories(store.io, schema, paths)
    yield from map(directories.index_file, increment.index_entries)
    for batch in entries:
        for entry in batch.select(["partition", "bucket", "file_name", "external_path"]).to_pylist():
            external = entry.pop("external_path")
            directory = "" if external else directories.of_file(**entry)
            yield paths.data_file(directory, entry["bucket"], entry["file_name"], external)
