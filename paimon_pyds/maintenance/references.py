"""What of a table has to stay readable: the states that snapshots, tags and branches name, and which files these need.

A file is known by its name, which is unique in a table, so a path that is spelled in another way keeps it, too.
(Source: Paimon documentation, maintenance/manage-snapshots, manage-tags, manage-branches.)
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import NotFoundError, TagNotFoundError
from paimon_pyds.metadata.json_text import JsonObject
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, ManifestFile, live_entries
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

_PARALLEL_READS = 16
_COLUMNS = ("kind", *IDENTITY_COLUMNS)


@dataclass(frozen=True)
class Reference:
    """A state of a table that has to stay readable.

    Attributes:
        branch: that it is of.
        name: such as ``snapshot 7`` or ``tag x``, for errors.
        snapshot: the state.
        keeps_changelog: whether its changelog has to stay, too; tags keep none, as in Java.
    """

    branch: str
    name: str
    snapshot: Snapshot
    keeps_changelog: bool

    @property
    def tag(self) -> str:
        """The name of the tag that it is."""
        return self.name.removeprefix("tag ")


def on_branch(store: TableStore, branch: str) -> TableStore:
    """The store of a branch, whether or not it has a schema."""
    if branch == store.branch:
        return store
    return TableStore(store.io, store.root, branch, store.external, store.publisher, store.local_cache)


def tag_references(store: TableStore) -> list[Reference]:
    """The tags of a branch, by the numbers of their snapshots."""

    def load(name: str) -> Reference | None:
        try:
            return Reference(store.branch, f"tag {name}", store.tag(name), keeps_changelog=False)
        except TagNotFoundError:
            return None

    while True:
        names = store.tag_names()
        with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="paimon-metadata") as pool:
            found = list(pool.map(load, names) if len(names) > 1 else map(load, names))
        tags = [tag for tag in found if tag is not None]
        if len(tags) == len(names):
            return sorted(tags, key=lambda tag: tag.snapshot.id)
        # One that is gone since the listing may have another name now: list again.


def snapshot_references(store: TableStore) -> list[Reference]:
    """The snapshots of a branch, oldest first."""
    return [Reference(store.branch, f"snapshot {s.id}", s, keeps_changelog=True) for s in store.snapshots()]


def references_elsewhere(store: TableStore) -> list[Reference]:
    """All snapshots and tags of the other branches of a table: they may share any file."""
    branches = [branch for branch in (MAIN_BRANCH, *store.branches()) if branch != store.branch]
    stores = [on_branch(store, branch) for branch in branches]
    return [reference for other in stores for reference in (*snapshot_references(other), *tag_references(other))]


def consumers(store: TableStore) -> dict[str, int]:
    """The number of the snapshot that each streaming reader of a branch reads next, by its id.

    Raises CorruptFileError for a file that does not say it.
    """
    found = {}
    for status in store.io.list(store.paths.consumer_dir):
        id_ = status.name.removeprefix("consumer-")
        if not status.is_dir and id_ != status.name:
            path = store.paths.consumer(id_)
            try:
                found[id_] = store.parse_file(path, lambda data, at: JsonObject(data, at).integer("nextSnapshot"))
            except FileNotFoundError:  # removed since it was listed
                continue
    return found


class KeptFiles:
    """The files that some states need, by their names.

    Attributes:
        metadata: manifests, manifest lists, index manifests, index files and statistics.

    Raises:
        NotFoundError: a file of one of the states is gone: the state is gone meanwhile, or has been damaged.
    """

    def __init__(self, store: TableStore, references: Iterable[Reference]) -> None:
        self._store = store
        self._reader = ManifestReader(store)
        self._manifests: dict[str, ManifestFile] = {}
        self._states: set[tuple[str, ...]] = set()  # names of manifests whose entries make a state
        self._changelogs: set[str] = set()
        self.metadata: set[str] = set()
        for reference in references:
            try:
                self._add(reference)
            except NotFoundError as error:
                branch = "" if reference.branch == store.branch else f" of branch {reference.branch}"
                raise type(error)(
                    f"{reference.name}{branch} needs a file that is gone, so nobody can tell which files it needs",
                    path=error.path,
                    hint="nothing was removed; delete what can't be read any more, then try again",
                ) from error

    def _add(self, reference: Reference) -> None:
        snapshot = reference.snapshot
        manifests = self._reader.manifests(snapshot)
        changelog = self._reader.changelog(snapshot) if reference.keeps_changelog else []
        self._states.add(tuple(m.file_name for m in manifests))
        self._changelogs.update(m.file_name for m in changelog)
        self._manifests.update((m.file_name, m) for m in (*manifests, *changelog))
        names = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.statistics]
        names += [snapshot.changelog_manifest_list] if reference.keeps_changelog else []
        if snapshot.index_manifest is not None and snapshot.index_manifest not in self.metadata:
            names.append(snapshot.index_manifest)
            self.metadata.update(e.file_name for e in self._store.read_index_manifest(snapshot.index_manifest))
        self.metadata.update(name for name in names if name is not None)
        self.metadata.update(m.file_name for m in (*manifests, *changelog))

    def data_files(self, schema: TableSchema, candidates: pa.Table) -> set[str]:
        """Which of some data and changelog files are needed, by name.

        Args:
            schema: of the table.
            candidates: manifest entries, with ``partition`` and ``file_name`` among their columns.
        """
        names = candidates["file_name"].combine_chunks().unique()
        partitions = frozenset(candidates["partition"].combine_chunks().unique().to_pylist())
        reader = ManifestReader(self._store, EntryFilter(schema, partitions=partitions))
        hits = {}
        for name, manifest in self._manifests.items():
            entries = reader.entries([manifest], _COLUMNS)
            hits[name] = entries.filter(pc.is_in(entries["file_name"], names))
        kept: set[str] = set()
        for state in self._states:
            found = [hits[name] for name in state if hits[name].num_rows]
            if found:
                kept.update(live_entries(found)["file_name"].to_pylist())
        for name in self._changelogs:
            kept.update(hits[name]["file_name"].to_pylist())
        return kept
