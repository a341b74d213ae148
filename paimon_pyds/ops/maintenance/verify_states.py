"""The states of a table as `verify` walks them: what the files of schemas, snapshots, changelogs and tags say, with the
lists of manifests, the index manifests and the statistics that they name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from paimon_pyds.metadata.changelogs import changelog_ids, is_delta
from paimon_pyds.metadata.consumers import consumer_names, consumer_position
from paimon_pyds.metadata.json_text import JsonObject
from paimon_pyds.metadata.manifest import HASH, IndexEntry, ManifestFile
from paimon_pyds.metadata.record_codec import decode_index_manifest, decode_manifest_list
from paimon_pyds.metadata.schema import TableSchema, parse_schema
from paimon_pyds.metadata.snapshot import Snapshot, parse_snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.findings import Findings
from paimon_pyds.ops.maintenance.references import Reference
from paimon_pyds.ops.maintenance.tags import tag_times


@dataclass
class State:
    """A snapshot, tag or changelog.

    Attributes:
        base: how many of the manifests are of its base.
        state, changelog: the names of its manifests; None where a list of them can't be read.
        delta: those that are the changelog of a snapshot that has expired, where it had no other.
        indexes: the entries of its index manifest.
    """

    branch: Branch
    reference: Reference
    path: str
    base: int = 0
    state: list[str] | None = None
    changelog: list[str] | None = None
    delta: Sequence[str] = ()
    indexes: Sequence[IndexEntry] = ()

    @property
    def is_snapshot(self) -> bool:
        """Whether it is neither a tag nor a changelog that outlives its snapshot."""
        return self.reference.is_snapshot


@dataclass
class Branch:
    """A branch, with its schemas by number and the states of it that can be read."""

    store: TableStore
    schemas: dict[int, TableSchema] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    @property
    def schema(self) -> TableSchema | None:
        """The newest; None where none can be read."""
        return self.schemas[max(self.schemas)] if self.schemas else None


class States:
    """The states of a table, branch by branch, and what is wrong with the files that say what they are.

    Attributes:
        all: the states that can be read.
        lists: the manifests of each manifest list; None where it can't be read.
        manifests, index_files: by name, with the first branch that names them.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.all: list[State] = []
        self.lists: dict[str, list[ManifestFile] | None] = {}
        self.manifests: dict[str, tuple[Branch, ManifestFile]] = {}
        self.index_files: dict[str, tuple[Branch, IndexEntry]] = {}
        self._index_manifests: dict[str, Sequence[IndexEntry]] = {}

    def read(self, store: TableStore) -> Branch:
        """Read the schemas, snapshots, changelogs and tags of a branch, with the lists that they name."""
        branch, paths = Branch(store, self._schemas(store)), store.paths
        ids = store.snapshot_ids()
        if not ids and not store.schema_ids():
            if store.branch in store.branches():  # else it was deleted meanwhile
                what = "it has neither columns nor snapshots, as Java Paimon leaves it where it fails to make a branch"
                self.findings.add("branch", paths.branch_dir(store.branch), what)
            return branch
        if _gaps(ids):  # files that expired while they were listed look the same
            ids = store.snapshot_ids()
        for id_ in _gaps(ids):
            self.findings.add("snapshot-gap", paths.snapshot(id_), f"snapshot {id_} is missing between others")
        for id_ in ids:
            self._add(branch, f"snapshot {id_}", paths.snapshot(id_), id_)
        self._check_hints(store, ids)
        self._check_changelog_hints(store)
        for id_ in changelog_ids(store):
            self._add(branch, f"changelog {id_}", paths.changelog(id_), id_)
        for name in store.tag_names():
            self._add(branch, f"tag {name}", paths.tag(name))
        for name in consumer_names(store):
            with self.findings.guard("consumer", paths.consumer(name)), suppress(FileNotFoundError):
                consumer_position(store, name)
        times = [(s.reference.snapshot.time_millis, s.path) for s in branch.states if s.is_snapshot]
        for (before, _), (after, path) in itertools.pairwise(times):
            if after < before:
                self.findings.add("snapshot-time", path, "it is older than the snapshot before it")
        self.all += branch.states
        return branch

    def _schemas(self, store: TableStore) -> dict[int, TableSchema]:
        found, paths = {}, store.paths
        for id_ in store.schema_ids():
            with self.findings.guard("schema", paths.schema(id_)):
                schema = store.parse_file(paths.schema(id_), parse_schema)
                if schema.id == id_:
                    found[id_] = schema
                else:
                    self.findings.add("schema", paths.schema(id_), f"the schema says it is number {schema.id}")
        return found

    def _add(self, branch: Branch, name: str, path: str, id_: int | None = None) -> None:
        store, kind = branch.store, name.partition(" ")[0]
        with self.findings.guard(kind, path):
            try:
                snapshot = store.parse_file(path, parse_snapshot)
            except FileNotFoundError:  # expired, or deleted, since it was listed
                return
            if id_ is not None and snapshot.id != id_:
                self.findings.add(kind, path, f"the file of snapshot {id_} says it is number {snapshot.id}")
            if snapshot.schema_id not in branch.schemas:
                missing = store.paths.schema(snapshot.schema_id)
                self.findings.add("schema", missing, f"{name} needs schema {snapshot.schema_id}, which is not there")
            if kind == "tag":
                tag_times(store.io.read_bytes(path), path)
            keeps = kind != "tag"
            state = State(branch, Reference(store.branch, name, snapshot, keeps), path)
            if state.reference.is_changelog:
                state.delta = self._delta(branch, snapshot)
            else:
                base = self._list(branch, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
                delta = self._list(branch, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
                if base is not None and delta is not None:
                    state.base, state.state = len(base), [file.file_name for file in (*base, *delta)]
                if snapshot.index_manifest is not None:
                    state.indexes = self._index_manifest(branch, snapshot.index_manifest)
                if snapshot.statistics is not None:
                    self._check_statistics(branch, state, snapshot.statistics)
            if keeps and snapshot.changelog_manifest_list is not None:
                found = self._list(branch, snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
                state.changelog = None if found is None else [file.file_name for file in found]
            branch.states.append(state)

    def _delta(self, branch: Branch, changelog: Snapshot) -> list[str]:
        """The manifests of the delta that a changelog is."""
        if changelog.schema_id not in branch.schemas or not is_delta(branch.store, changelog):
            return []
        found = self._list(branch, changelog.delta_manifest_list, changelog.delta_manifest_list_size)
        return [file.file_name for file in found or ()]

    def _list(self, branch: Branch, name: str, size: int | None) -> list[ManifestFile] | None:
        """The manifests of a list; None where it can't be read."""
        if name not in self.lists:
            self.lists[name] = None
            path = f"{branch.store.paths.manifest_dir}/{name}"
            with self.findings.guard("manifest-list", path):
                data = branch.store.io.read_bytes(branch.store.paths.manifest(name))
                if size is not None and len(data) != size:
                    what = f"the file has {len(data):,} bytes, the snapshot says {size:,}"
                    self.findings.add("file-size", path, what)
                found = list(decode_manifest_list(data, path))
                self.lists[name] = found
                for file in found:
                    self.manifests.setdefault(file.file_name, (branch, file))
        return self.lists[name]

    def _index_manifest(self, branch: Branch, name: str) -> Sequence[IndexEntry]:
        if name not in self._index_manifests:
            self._index_manifests[name] = ()
            path = f"{branch.store.paths.manifest_dir}/{name}"
            with self.findings.guard("index-manifest", path):
                data = branch.store.io.read_bytes(branch.store.paths.manifest(name))
                entries = self._index_manifests[name] = decode_index_manifest(data, path)
                places = [(entry.partition, r.data_file) for entry in entries for r in entry.deletion_ranges or ()]
                places += [(entry.partition, str(entry.bucket)) for entry in entries if entry.index_type == HASH]
                if len(set(places)) < len(places):
                    what = "a data file has two deletion vectors, or a bucket two hash indexes"
                    self.findings.add("index-manifest", path, what)
                for entry in entries:
                    self.index_files.setdefault(entry.file_name, (branch, entry))
        return self._index_manifests[name]

    def _check_statistics(self, branch: Branch, state: State, name: str) -> None:
        path = f"{branch.store.root}/statistics/{name}"
        with self.findings.guard("statistics", path):
            path = branch.store.paths.statistics(name)
            json = JsonObject(branch.store.io.read_bytes(path), path)
            snapshot, schema = json.integer("snapshotId"), json.integer("schemaId")
            json.object_or_none("colStats")
            if snapshot > state.reference.snapshot.id or schema not in branch.schemas:
                what = f"they are of snapshot {snapshot} and schema {schema}; {state.reference.name} names them"
                self.findings.add("statistics", path, what)

    def _check_hints(self, store: TableStore, ids: Sequence[int]) -> None:
        for path, end in ((store.paths.earliest_hint, 0), (store.paths.latest_hint, -1)):
            with self.findings.guard("hint", path):
                try:
                    text = store.io.read_bytes(path)
                except FileNotFoundError:
                    continue
                now = store.snapshot_ids()
                right = {str(listed[end]).encode() for listed in (ids, now) if listed}
                if text not in right and text == store.io.read_bytes(path):
                    shown = text[:20].decode("ascii", "replace")
                    is_ = (
                        f"the {'earliest' if end == 0 else 'latest'} snapshot is {now[end]}"
                        if now
                        else "the branch has no snapshot"
                    )
                    is_ahead = end == -1 and text.isdigit() and (not now or int(text) > now[-1])
                    self.findings.add("hint-ahead" if is_ahead else "hint", path, f"it says {shown!r}, and {is_}")

    def _check_changelog_hints(self, store: TableStore) -> None:
        """Java Paimon believes LATEST; once all changelogs have expired, it may name the last one that was there."""
        for name in ("EARLIEST", "LATEST"):
            path = store.paths.changelog_hint(name)
            with self.findings.guard("hint", path), suppress(FileNotFoundError):
                text = store.io.read_bytes(path)
                ids = changelog_ids(store)
                is_right = text == str(ids[-1]).encode() if ids and name == "LATEST" else text.isdigit()
                if not is_right and text == store.io.read_bytes(path):
                    shown = text[:20].decode("ascii", "replace")
                    is_ = f"the latest changelog is {ids[-1]}" if ids else "there is no changelog"
                    self.findings.add("hint", path, f"it says {shown!r}, and {is_}")


def _gaps(ids: Sequence[int]) -> list[int]:
    """Numbers that are missing; of a wide gap the first."""
    return [low + 1 for low, high in itertools.pairwise(ids) if high > low + 1]
