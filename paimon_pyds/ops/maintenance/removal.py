"""Removing the files that only states need which go: those that no other state needs.

Data files go first, then manifests, then the lists that name these; the caller removes the files of the states last. So
the remaining files can still be found after a crash, and the next run finishes: if a list is gone, the files that it
named went before.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, empty_table, is_true, one_batch, pc, scalar
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact
from paimon_pyds.base.text import counts_text
from paimon_pyds.engine.scan.planned_files import file_locations, index_file_paths
from paimon_pyds.errors import CorruptFileError, NotFoundError, PaimonError, SnapshotNotFoundError
from paimon_pyds.metadata.changelogs import changelog_ids, changelogs
from paimon_pyds.metadata.manifest import FileKind, ManifestFile, entry_schema, is_of_compaction
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.references import (
    Reference,
    ReferencedFiles,
    is_expiring,
    references_of_table,
    settling,
)
from paimon_pyds.storage import FileIO, is_file
from paimon_pyds.storage.concurrent import concurrent_each, concurrent_map

T = TypeVar("T")

_COLUMNS = ("kind", "partition", "bucket", "file_name", "file_size", "extra_files", "external_path", "file_source")
_FILES_PER_CALL = 64
"""Files that one call removes, and manifests that one reads."""


@dataclass(frozen=True, slots=True)
class RemovalSummary:
    """What went, or would go: of expiry, rollback, and deleted tags and branches.

    Attributes:
        snapshots: how many.
        changelogs: of snapshots that had expired before.
        tags, branches: their names.
        partitions: their directories, such as ``day=2026-01-31``.
        consumers: the ids of streaming readers that were forgotten.
        data_files: with changelogs and side indexes.
        metadata_files: manifests and their lists, deletion vectors, hash indexes, statistics.
        bytes: size of the data files, without side indexes.
        older_snapshots: of `truncate` and of partitions that are dropped or expire: how many snapshots there are
            from before, which keep their rows: the files leave the newest state only, and go when these expire.
        seconds: time taken.
        dry_run: nothing was removed.
    """

    snapshots: int = 0
    changelogs: int = 0
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    data_files: int = 0
    metadata_files: int = 0
    bytes: int = 0
    older_snapshots: int = 0
    seconds: float = 0.0
    dry_run: bool = False

    def __repr__(self) -> str:
        counts = {
            "snapshot": self.snapshots, "changelog": self.changelogs, "tag": len(self.tags),
            "partition": len(self.partitions), "consumer": len(self.consumers), "data file": self.data_files,
            "metadata file": self.metadata_files,
        }  # fmt: skip
        found = [part for what, n in counts.items() if n for part in counts_text({"": n}, what)]
        if self.branches:
            found.insert(0, counts_text({"": len(self.branches)}, "branch", "branches")[0])
        size = f" ({human_bytes(self.bytes)})" if self.bytes else ""
        what = ", ".join(part.strip() for part in found) + size if found else "nothing"
        return f"{type(self).__name__}: {what} {self._verb} in {self.seconds:.1f} s"

    @property
    def _verb(self) -> str:
        if not self.older_snapshots:
            return "would go" if self.dry_run else "removed"
        others = counted(self.older_snapshots, "older snapshot")
        verb = "would leave" if self.dry_run else "left"
        return f"{verb} the newest state, {others} keep{'s its' if self.older_snapshots == 1 else ' their'} rows,"


def or_nothing(read: Callable[[], Sequence[T]]) -> Sequence[T]:
    """What a state that goes names; nothing where an earlier run has removed it."""
    try:
        return read()
    except SnapshotNotFoundError:
        return ()


def threads_of(options: TableOptions) -> int:
    """How many file operations run at a time (``file-operation.thread-num``)."""
    return int(options.get("file-operation.thread-num") or os.cpu_count() or 1)


def delete_files(io: FileIO, paths: Iterable[str], threads: int) -> None:
    """Remove files on several threads; those that are gone are fine."""
    listed = list(dict.fromkeys(paths))
    with phase("removing", files=len(listed)) as step:

        def delete(some: list[str]) -> None:
            io.delete(some)
            step.advance(files=len(some))

        parts = [listed[i : i + _FILES_PER_CALL] for i in range(0, len(listed), _FILES_PER_CALL)]
        concurrent_each(delete, parts, threads)


@dataclass
class Removal:
    """The files of states that go, as they are gathered; `delete` removes those that `keep` left. ``store``: the table,
    on the branch of the states. ``threads``: file operations at a time."""

    store: TableStore
    threads: int = 1
    entries: list[pa.Table] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)  # name → path, as all below
    manifests: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)
    bytes: int = 0

    def __post_init__(self) -> None:
        self._reader = ManifestReader(self.store)
        self._schema = self.store.latest_schema()

    # ------------------------------------------------------------------------------------------------- gathering

    def add_deleted(self, snapshots: Sequence[Snapshot], *, of_compactions: bool = False) -> None:
        """The data files that these snapshots removed; ``of_compactions``: only those that compactions had written."""
        self._add_entries(self._deltas(snapshots), FileKind.DELETE, of_compactions=of_compactions)

    def add_changelogs(self, snapshots: Sequence[Snapshot]) -> None:
        """The changelog files of these snapshots."""
        having = [s for s in snapshots if s.changelog_manifest_list is not None]
        listed = concurrent_map(lambda s: or_nothing(lambda: self._reader.changelog(s)), having, self.threads)
        self._add_entries(list(listed))

    def add_added(self, snapshots: Sequence[Snapshot]) -> None:
        """The data files that these snapshots brought."""
        self._add_entries(self._deltas(snapshots))

    def add_live(self, snapshot: Snapshot) -> None:
        """The data files of a snapshot; none where an earlier run has removed some of its manifests."""
        with suppress(SnapshotNotFoundError):
            self.entries.append(pa.Table.from_batches([self._reader.live_files(snapshot, _COLUMNS)]))

    def _deltas(self, snapshots: Sequence[Snapshot]) -> list[Sequence[ManifestFile]]:
        return list(concurrent_map(lambda s: or_nothing(lambda: self._reader.delta(s)), snapshots, self.threads))

    def _add_entries(
        self, listed: Sequence[Sequence[ManifestFile]], kind: int = FileKind.ADD, *, of_compactions: bool = False
    ) -> None:
        manifests = [
            m for one in listed for m in one if (m.num_deleted_files if kind == FileKind.DELETE else m.num_added_files)
        ]
        groups = [manifests[i : i + _FILES_PER_CALL] for i in range(0, len(manifests), _FILES_PER_CALL)]
        for entries in concurrent_map(self._entries, groups, self.threads):
            wanted = pc.equal(entries["kind"], scalar(kind, pa.int8()))
            if of_compactions:
                wanted = pc.and_(wanted, is_of_compaction(entries))
            self.entries.append(entries.filter(wanted))

    def _entries(self, manifests: Sequence[ManifestFile]) -> pa.Table:
        """The entries of those manifests that are there."""
        schema = entry_schema(frozenset(_COLUMNS))
        try:
            return pa.Table.from_batches(self._reader.each(manifests, schema.names), schema)
        except SnapshotNotFoundError:
            if len(manifests) < 2:
                return empty_table(schema)
            return pa.concat_tables(self._entries([manifest]) for manifest in manifests)

    def add_metadata(
        self, snapshots: Sequence[Snapshot], *, changelogs: bool = True, states: bool = True, indexes: bool = True
    ) -> None:
        """The metadata files of these snapshots.

        ``changelogs``: the lists of their changelogs, too. ``states``: the lists of their states, too. ``indexes``:
        also the index and statistics files.
        """
        paths = self.store.paths
        lists = dict.fromkeys(
            (name, size)
            for s in snapshots
            for name, size in (
                (s.base_manifest_list if states else None, s.base_manifest_list_size),
                (s.delta_manifest_list if states else None, s.delta_manifest_list_size),
                (s.changelog_manifest_list if changelogs else None, s.changelog_manifest_list_size),
            )
            if name is not None
        )

        def manifests_of(named: tuple[str, int | None]) -> Sequence[ManifestFile]:
            return or_nothing(lambda: self._reader.listed(*named))

        for manifests in concurrent_map(manifests_of, list(lists), self.threads):
            self.manifests.update((name, paths.manifest(name)) for m in manifests for name in (m.file_name, *m.beside))
        self.lists.update((name, paths.manifest(name)) for name, _ in lists)
        if not indexes:
            return
        for name in dict.fromkeys(s.index_manifest for s in snapshots if s.index_manifest is not None):
            files = or_nothing(lambda name=name: self.store.read_index_manifest(name))  # type: ignore[misc]
            located = index_file_paths(self.store, self._schema, files)
            self.indexes.update((e.file_name, path) for e, path in zip(files, located, strict=True))
            self.lists[name] = paths.manifest(name)
        statistics = (s.statistics for s in snapshots if s.statistics is not None)
        self.indexes.update((name, paths.statistics(name)) for name in statistics)

    # -------------------------------------------------------------------------------------------------- removing

    def keep(self, kept: ReferencedFiles, *, compacted_before: bool = False) -> None:
        """Leave out the files that other states need, and find the paths of the data files. ``compacted_before``: an
        expiry of snapshots has taken most files that compactions wrote; those that are gone are left out, too."""
        self.spare(kept.metadata)
        full = [table for table in self.entries if table.num_rows]
        self.entries = []
        if not full:
            return
        candidates = pa.concat_tables(full)
        needed = array(sorted(kept.data_files(self._schema, candidates)), pa.string())
        entries = candidates.filter(pc.invert(pc.is_in(candidates["file_name"], needed)))
        batch = one_batch(entries.combine_chunks())
        files = file_locations(self.store, self._schema, batch).paths
        sizes = dict(zip(files, batch["file_size"].to_pylist(), strict=True))  # a changed level names a file twice
        beside = [
            [self.store.paths.extra_file(path, name) for name in names]
            for path, names in zip(files, batch["extra_files"].to_pylist(), strict=True)
        ]
        gone: set[str] = set()
        if compacted_before:
            of_compactions = np.flatnonzero(is_true(is_of_compaction(batch))).tolist()
            asked = list(dict.fromkeys(path for at in of_compactions for path in (files[at], *beside[at])))
            there = concurrent_map(lambda path: is_file(self.store.io, path), asked, self.threads)
            gone = {path for path, is_there in zip(asked, there, strict=True) if not is_there}
        self.data = [path for path in sizes if path not in gone]
        self.bytes = sum(sizes[path] for path in self.data)
        self.beside = [path for paths in beside for path in paths if path not in gone]

    def spare(self, metadata: Set[str]) -> None:
        """Leave out the metadata files of these names."""
        for names in (self.indexes, self.manifests, self.lists):
            for name in metadata & names.keys():
                del names[name]

    def delete(self) -> None:
        """Remove the files. Raises StorageError: some are still there, and the next run finds them."""
        io = self.store.io
        delete_files(io, (*self.data, *self.beside, *self.indexes.values()), self.threads)
        delete_files(io, self.manifests.values(), self.threads)
        delete_files(io, self.lists.values(), self.threads)

    def delete_directories(self, options: TableOptions) -> None:
        """Remove empty directories of buckets, and then of partitions, under ``snapshot.clean-empty-directories``."""
        root = self.store.root.rstrip("/")
        directories = list(dict.fromkeys(path.rpartition("/")[0] for path in self.data))
        while directories and options.get("snapshot.clean-empty-directories"):
            gone = [path for path in directories if self.store.io.remove_empty_dir(path)]
            above = dict.fromkeys(path.rpartition("/")[0] for path in gone)
            directories = [path for path in above if path.startswith(f"{root}/") and "=" in path.rpartition("/")[2]]

    def summary(self, **states: Any) -> RemovalSummary:
        """The removed files, and the snapshots, changelogs, tags and branches that needed them."""
        return RemovalSummary(
            **states,
            data_files=len(self.data) + len(dict.fromkeys(self.beside)),
            metadata_files=len(self.indexes) + len(self.manifests) + len(self.lists),
            bytes=self.bytes,
        )


_log = logging.getLogger("paimon_pyds.maintenance")
_TRIES = 10
"""How often it starts over after other processes changed the same files: more often is no accident."""


def only_theirs(
    store: TableStore, states: Sequence[Reference], others: Callable[[], list[Reference]], options: TableOptions
) -> Removal:
    """The files of some states that no others need, also where snapshots expire meanwhile.

    ``others``: reads all states that may share files with them. ``options``: how many threads look and remove.
    Raises NotFoundError: one of the others needs a file that is gone.
    """
    found, settled = others(), settling()
    for _ in range(_TRIES):
        try:
            return removal_of(store, states, found, options)
        except NotFoundError as error:
            left = [other for other in others() if not is_expiring(store, other)]
            if left == found:
                settled.again(error)
            found = left
    return removal_of(store, states, found, options)


def remove_files(store: TableStore, states: Sequence[Reference], options: TableOptions) -> Removal | None:
    """Remove the files that only states needed which have gone: those that went. None where that can't be done: they
    are orphan files then, as a warning says."""
    try:
        removal = only_theirs(store, states, lambda: references_of_table(store), options)
        removal.delete()
        removal.delete_directories(options)
    except PaimonError as error:
        what = "files of removed snapshots are still there: maintenance.remove_orphan_files finds them: %s (%s)"
        _log.warning(what, error, redact(store.root))
        return None
    return removal


def changelogs_from(store: TableStore, first: int) -> list[Reference]:
    """The changelogs of a number and later, which go. One that can't be read goes, too: its files are orphans then."""
    found = []
    for id_ in changelog_ids(store):
        with suppress(CorruptFileError):
            if id_ >= first:
                found += [Reference(store.branch, f"changelog {id_}", c, True) for c in changelogs(store, [id_])]
    return found


def removal_of(
    store: TableStore, states: Sequence[Reference], others: Sequence[Reference], options: TableOptions
) -> Removal:
    """The files of some states that no others need. ``others``: all states that may share files with them. ``options``:
    how many threads look and remove."""
    removal = Removal(store, threads_of(options))
    for branch in dict.fromkeys(state.branch for state in states):
        _add_states(removal, [state for state in states if state.branch == branch])
    removal.keep(ReferencedFiles(store, others))
    return removal


def _add_states(removal: Removal, states: Sequence[Reference]) -> None:
    """Gather the files of all states of a branch."""
    snapshots = [state.snapshot for state in states if state.keeps_changelog]
    expired = [state.snapshot for state in states if state.is_changelog]
    first = [state.snapshot for state in states if state.keeps_changelog and not state.is_changelog][:1]
    tagged = [state.snapshot for state in states if not state.keeps_changelog]
    removal.add_added(snapshots)
    removal.add_changelogs(snapshots)
    removal.add_deleted([*expired, *first] if expired else ())  # what changelogs keep is deleted by theirs or the next
    for snapshot in (*first, *tagged):
        removal.add_live(snapshot)
    removal.add_metadata(snapshots)
    removal.add_metadata(tagged, changelogs=False)
