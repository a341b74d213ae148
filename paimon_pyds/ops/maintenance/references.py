"""The states of a table that have to stay readable, which snapshots, tags and branches name, and the files of these.

A file is identified by its name, which is unique in a table, so the spelling of paths does not matter.
(Source: Paimon documentation, maintenance/manage-snapshots, manage-tags, manage-branches.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.errors import CommitError, NotFoundError, SnapshotNotFoundError, TagNotFoundError
from paimon_pyds.metadata.changelogs import changed_entries, changelog_ids, changelogs, changes_of, is_delta
from paimon_pyds.metadata.intents import expiring_before
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, ManifestFile, live_entries
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.unknown_members import names_among
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

_PARALLEL_READS = 16
"""Parallel reads on a local disk."""
_TRIES = 20
"""Reads of all references, at most, until two in a row agree."""
_COLUMNS = ("kind", *IDENTITY_COLUMNS, "unknown")


@dataclass(frozen=True)
class Reference:
    """A state of a table that has to stay readable.

    Attributes:
        branch: that it is of.
        name: such as ``snapshot 7``, ``tag x`` or ``changelog 7``, for errors.
        snapshot: the state.
        keeps_changelog: whether its changelog has to stay, too; tags keep none, as in Java. Of a changelog that
            outlived its snapshot nothing else stays.
    """

    branch: str
    name: str
    snapshot: Snapshot
    keeps_changelog: bool

    @property
    def tag(self) -> str:
        """The name of the tag that it is."""
        return self.name.removeprefix("tag ")

    @property
    def is_tag(self) -> bool:
        """Whether it is a tag."""
        return not self.keeps_changelog

    @property
    def is_snapshot(self) -> bool:
        """Whether it is a snapshot that has not expired."""
        return self.name.startswith("snapshot ")

    @property
    def is_changelog(self) -> bool:
        """Whether it is a changelog that outlived its snapshot."""
        return self.name.startswith("changelog ")


def tag_references(store: TableStore) -> list[Reference]:
    """The tags of a branch, by the numbers of their snapshots."""

    def load(name: str) -> Reference | None:
        try:
            return Reference(store.branch, f"tag {name}", store.tag(name), keeps_changelog=False)
        except TagNotFoundError:
            return None

    while True:
        names = store.tag_names()
        found = list(concurrent_map(load, names, threads_for(store.io, _PARALLEL_READS)))
        tags = [tag for tag in found if tag is not None]
        if len(tags) == len(names):
            return sorted(tags, key=lambda tag: tag.snapshot.id)
        # One that is gone since the listing may have another name now: list again.


def snapshot_references(store: TableStore) -> list[Reference]:
    """The snapshots of a branch, oldest first."""
    return [Reference(store.branch, f"snapshot {s.id}", s, keeps_changelog=True) for s in store.snapshots()]


def changelog_references(store: TableStore, last: int | None = None) -> list[Reference]:
    """The changelogs of a branch that outlived their snapshots, oldest first; none after the number ``last``."""
    ids = [id_ for id_ in changelog_ids(store) if last is None or id_ <= last]
    return [Reference(store.branch, f"changelog {c.id}", c, keeps_changelog=True) for c in changelogs(store, ids)]


def all_references(store: TableStore) -> list[Reference]:
    """The snapshots, changelogs and tags of a branch."""
    return [*snapshot_references(store), *changelog_references(store), *tag_references(store)]


def references_elsewhere(store: TableStore) -> list[Reference]:
    """All snapshots, changelogs and tags of the other branches of a table: they may share any file.

    Errors as `references_of_table`.
    """
    return references_of_table(store, except_branch=store.branch)


def references_of_table(store: TableStore, except_branch: str | None = None) -> list[Reference]:
    """All snapshots, changelogs and tags of all branches of a table, or of all but one.

    One read may miss a state that changes its name meanwhile: of a branch that is renamed, or that the main branch is
    forwarded to, or of a tag that is rolled back to or that a branch is made of. So they are read until two reads in
    turn agree, but for what was committed, or has expired, between them.

    Raises CommitError: branches and tags change again and again.
    """
    before: tuple[list[str], list[Reference]] = [], []
    for number in range(_TRIES):
        branches = [branch for branch in (MAIN_BRANCH, *store.branches()) if branch != except_branch]
        found = [reference for branch in branches for reference in all_references(store.on_branch(branch))]
        if number and before[0] == branches and _agree(before[1], found):
            return found
        before = branches, found
    raise CommitError(
        "branches, tags or snapshots changed again and again while their files were determined",
        path=store.root,
        hint="try again later",
    )


def _agree(before: Sequence[Reference], now: Sequence[Reference]) -> bool:
    """Whether tags are as before, and of the snapshots only the oldest have gone and newer ones have come."""
    if [r for r in before if r.is_tag] != [r for r in now if r.is_tag]:
        return False
    old, new = ({(r.branch, r.snapshot.id): r.snapshot for r in found if r.is_snapshot} for found in (before, now))
    newest, newest_now = dict(old.keys()), dict(new.keys())  # by branch, as they are in order
    return all(newest_now.get(branch, 0) >= id_ for branch, id_ in newest.items()) and all(
        old.get((branch, id_)) == snapshot or id_ > newest.get(branch, 0) for (branch, id_), snapshot in new.items()
    )


def settling() -> Retry:
    """Attempts where a state needs a file that is gone: a tag may be removed soon by the operation that has made it."""
    return Retry(Pauses(0.05, 0.4), attempts=5)


def is_expiring(store: TableStore, reference: Reference) -> bool:
    """Whether a snapshot has gone, or goes: its removal is announced first (`paimon_pyds.metadata.intents`)."""
    if not reference.is_snapshot:
        return False
    branch, id_ = store.on_branch(reference.branch), reference.snapshot.id
    return not branch.snapshot_exists(id_) or expiring_before(branch) > id_


def has_changelog(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether the changelog that a snapshot names is there: Java's expiry takes away what branches, and snapshots that
    a rollback made of a tag, name of it."""
    name = snapshot.changelog_manifest_list
    return name is not None and store.io.exists(store.paths.manifest(name))


class ReferencedFiles:
    """The files that some states need, by their names.

    Attributes:
        metadata: manifests and their extra files, manifest lists, index manifests, index files and statistics, and
            names in members that this version does not know.

    Raises:
        NotFoundError: a file of one of the states is gone: the state is gone meanwhile, or has been damaged.
    """

    def __init__(self, store: TableStore, references: Iterable[Reference]) -> None:
        self._store = store
        self._reader = ManifestReader(store)
        self._manifests: dict[str, ManifestFile] = {}
        self._states: set[tuple[str, ...]] = set()  # names of manifests whose entries make a state
        self._changelogs: set[str] = set()
        self._expired: list[tuple[Snapshot, ManifestFile]] = []  # changelogs that outlived their snapshots
        self.metadata: set[str] = set()
        for reference in references:
            try:
                self._add(reference)
            except NotFoundError as error:
                branch = "" if reference.branch == store.branch else f" of branch {reference.branch}"
                raise type(error)(
                    f"{reference.name}{branch} needs a file that is gone, so the files that it needs are unknown",
                    path=error.path,
                    hint="nothing was removed; delete what can't be read any more, then try again",
                ) from error

    def _add(self, reference: Reference) -> None:
        snapshot = reference.snapshot
        if reference.is_changelog:
            self._add_changelog(snapshot)
            return
        manifests = self._reader.manifests(snapshot)
        keeps_changelog = reference.keeps_changelog and has_changelog(self._store, snapshot)
        changelog = self._reader.changelog(snapshot) if keeps_changelog else []
        self._states.add(tuple(m.file_name for m in manifests))
        self._changelogs.update(m.file_name for m in changelog)
        self._manifests.update((m.file_name, m) for m in (*manifests, *changelog))
        names = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.statistics]
        names += [snapshot.changelog_manifest_list] if keeps_changelog else []
        if snapshot.index_manifest is not None and snapshot.index_manifest not in self.metadata:
            names.append(snapshot.index_manifest)
            for entry in self._store.read_index_manifest(snapshot.index_manifest):
                self.metadata.update(entry.names())
        self.metadata.update(name for name in names if name is not None)
        self.metadata.update(snapshot.names())
        self.metadata.update(name for m in (*manifests, *changelog) for name in m.names())

    def _add_changelog(self, changelog: Snapshot) -> None:
        """An expiry of changelogs that was killed, or Java's, may have taken away any of its files."""
        states = (changelog.base_manifest_list, changelog.delta_manifest_list)
        own = changelog.changelog_manifest_list
        for name in states if is_delta(self._store, changelog) else () if own is None else (own,):
            with suppress(SnapshotNotFoundError):
                self.metadata.update((name, *(other for m in self._reader.listed(name) for other in m.names())))
        with suppress(SnapshotNotFoundError):
            self._expired += [(changelog, manifest) for manifest in changes_of(self._store, changelog)]

    def data_files(self, schema: TableSchema, candidates: pa.Table) -> set[str]:
        """Which of some data and changelog files are needed, by name. ``candidates``: manifest entries, with
        ``partition`` and ``file_name`` among their columns."""
        names = candidates["file_name"].combine_chunks().unique()
        partitions = frozenset(candidates["partition"].combine_chunks().unique().to_pylist())
        reader = ManifestReader(self._store, wanted := EntryFilter(schema, partitions=partitions))
        manifests = wanted.may_hold(list(self._manifests.values()))
        hits = {}
        kept: set[str] = set()
        for manifest, entries in zip(manifests, reader.each(manifests, _COLUMNS), strict=True):
            kept.update(names_among(entries["unknown"]))
            found = entries.filter(pc.is_in(entries["file_name"], names))
            if found.num_rows:
                hits[manifest.file_name] = pa.Table.from_batches([found])
        for state in self._states:
            if of_state := [hits[name] for name in state if name in hits]:
                kept.update(live_entries(of_state)["file_name"].to_pylist())
        for name in self._changelogs.intersection(hits):
            kept.update(hits[name]["file_name"].to_pylist())
        for changelog, manifest in self._expired:
            with suppress(SnapshotNotFoundError):
                found = changed_entries(reader, changelog, [manifest], ("file_name",))
                kept.update(found["file_name"].to_pylist())
        return kept
