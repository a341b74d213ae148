"""Bring the Iceberg metadata of a table to the table's newest snapshot.

As Java does it (Java Paimon 1.4 and 2.x, class IcebergCommitCallback): Paimon's snapshot N is Iceberg's snapshot N, in
``vN.metadata.json``, which follows from that of an earlier snapshot by what the snapshots since then changed. Where no
earlier one can be followed, it is made anew from the table's files. A writer that stops before it has published leaves
Iceberg at an older state, and the next commit catches up. Tables with a primary key show the files that are compacted:
those of the highest level, or of all but level 0 where Iceberg's readers get the deletion vectors.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from paimon_pyds.base.options import TableOptions, check_known
from paimon_pyds.base.options.iceberg import LINEAGE_VERSION, STORAGE, check_publishable, publishes
from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import CorruptFileError, NotFoundError
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg.files import PublishedFiles
from paimon_pyds.ops.iceberg.folder import FOREVER, IcebergFolder, Metadata, describes, identity_summary
from paimon_pyds.ops.iceberg.manifests import Manifest
from paimon_pyds.ops.iceberg.schema import FIRST_PARTITION_ID, SPEC_ID, schema_json, spec_json
from paimon_pyds.ops.iceberg.state import IcebergState
from paimon_pyds.storage import discard, normalise_location

_MOST_SNAPSHOTS = 100
"""Snapshots that one call catches up with, one by one; after more, Iceberg's history begins anew."""
_ATTEMPTS = 3
"""How often publishing is begun; the last time, the state that is there is not followed."""
_LISTINGS = 3
"""How often versions are looked for that others remove."""


def publish(store: TableStore, options: Mapping[str, str] | None = None, *, always: bool = False) -> int | None:
    """Bring the Iceberg metadata to the table's newest snapshot, if the table has any.

    Two processes may do this at a time, and Java, too: one of them publishes each version.

    Args:
        store: the table; of a branch, nothing is published.
        options: table options over the table's own.
        always: also without the table's option, into the table's own directory.

    Returns:
        The number of the snapshot that Iceberg's readers see; None where nothing is published.

    Raises:
        UnsupportedError: Iceberg's readers could not read the table rightly.
        OptionError: an unknown option.
        CorruptFileError, StorageError: metadata can't be read or written; Iceberg stays at the older state.
    """
    schema = store.latest_schema()
    if always:
        check_known(options or {}, own=False)  # those of a commit are checked, and may be others' too
    typed = _options(schema, options, always=always)
    if store.branch != MAIN_BRANCH or not publishes(typed):
        return None
    check_publishable(schema, typed)
    for left in reversed(range(_ATTEMPTS)):
        try:
            return _publish_newest(store, schema, typed, anew=not left)
        except (FileNotFoundError, NotFoundError, CorruptFileError):  # another process removes what it begins with
            if not left:
                raise
    return None


def _publish_newest(store: TableStore, schema: TableSchema, options: TableOptions, *, anew: bool) -> int | None:
    """One attempt. ``anew``: from the table's files, as Iceberg's are damaged."""
    snapshot = store.latest_snapshot()
    if snapshot is None:
        return None
    folder = IcebergFolder(store, options)
    there = folder.read(snapshot.id)
    if there is not None and describes(there, snapshot) and not folder.was_rolled_back():
        _refresh(store, options, folder, there, snapshot)
        return snapshot.id
    if snapshot.schema_id > schema.id:
        schema = store.latest_schema()
    return _Publication(store, schema, options, folder).to(snapshot, there, anew=anew)


def publish_after_change(store: TableStore, options: Mapping[str, str]) -> None:
    """`publish` after a commit or another change of snapshots, which stands: an error becomes a warning."""
    try:
        publish(store, options)
    except Exception as error:  # noqa: BLE001 - see above
        warnings.warn(
            f"the change is made, don't make it again; Iceberg's readers don't see it yet: {error}. The next commit "
            f"publishes it, or table.maintenance.publish_iceberg() ({redact(store.root)})",
            stacklevel=7,
        )


def _options(schema: TableSchema, options: Mapping[str, str] | None, *, always: bool) -> TableOptions:
    merged = {**schema.options, **(options or {})}
    if always and merged.get("metadata.iceberg.storage", "disabled") == "disabled":
        merged["metadata.iceberg.storage"] = "table-location"
    return TableOptions(merged)


def _refresh(
    store: TableStore, options: TableOptions, folder: IcebergFolder, there: Metadata, snapshot: Snapshot
) -> None:
    """Follow tags and expiry, and a hint that lags, where the newest snapshot is published."""
    snapshots = _still_there(store, there["snapshots"])
    refs = _refs(store, snapshots)
    now = {**there, "snapshots": snapshots, "refs": refs}
    is_new = refs != there.get("refs") or len(snapshots) != len(there["snapshots"])
    if is_new:
        folder.replace(snapshot.id, now)
    if folder.hint() != snapshot.id:
        folder.show(snapshot.id, alone=False)
    _show_in_catalog(store, options, folder, now)
    if is_new:
        _remove_lists(folder, there["snapshots"], snapshots)


def _show_in_catalog(store: TableStore, options: TableOptions, folder: IcebergFolder, metadata: Metadata) -> None:
    if options.get(STORAGE) == "rest-catalog":
        from paimon_pyds.ops.iceberg.rest import show_in_catalog  # brings a client of HTTP

        show_in_catalog(store, options, folder, metadata)


def _still_there(store: TableStore, snapshots: Sequence[Metadata]) -> list[Metadata]:
    """Without those before the table's oldest snapshot, whose files may have gone."""
    earliest = store.earliest_snapshot_id() or 0
    return [s for s in snapshots if s["snapshot-id"] >= earliest]


def _refs(store: TableStore, snapshots: Sequence[Metadata]) -> dict[str, Any]:
    """The tags of snapshots that Iceberg has: one of another snapshot would make the metadata invalid."""
    ids = {s["snapshot-id"] for s in snapshots}
    return {
        name: {"snapshot-id": tag.id, "type": "tag", "max-ref-age-ms": FOREVER}
        for name, tag in store.tags().items()
        if tag.id in ids and name != MAIN_BRANCH
    }


def _numbers(known: Metadata | None) -> Metadata:
    """Numbers that readers have seen, and that are not given again."""
    return {key: known[key] for key in ("last-column-id", "next-row-id") if known and known.get(key) is not None}


def _remove_lists(folder: IcebergFolder, before: Sequence[Metadata], after: Sequence[Metadata]) -> None:
    """Remove the lists of snapshots that went, and the manifests that only these had."""
    here = {s["manifest-list"] for s in after}
    gone = [s for s in before if s["manifest-list"] not in here]
    if not gone:
        return
    chain = [*gone, *after[:1]]
    used = [{m["manifest_path"] for m in _listed(folder, s)} for s in chain]
    # A manifest that a snapshot no longer has never comes back.
    manifests = set[str]().union(*(now - then for now, then in zip(used, [*used[1:], set[str]()], strict=True)))
    folder.remove([*(manifests - used[-1] if after else manifests), *(s["manifest-list"] for s in gone)])


def _listed(folder: IcebergFolder, snapshot: Metadata) -> list[Manifest]:
    try:
        return folder.manifests(snapshot)
    except FileNotFoundError:  # another process has removed it
        return []


class _Publication:
    """Writes the metadata of new snapshots."""

    def __init__(self, store: TableStore, schema: TableSchema, options: TableOptions, folder: IcebergFolder) -> None:
        self._store = store
        self._schema = schema
        self._options = options
        self._folder = folder
        self._lineage = folder.version >= LINEAGE_VERSION
        self._files = PublishedFiles(store, schema, options, folder)
        self._schemas = [schema_json(store.schema(id_)) for id_ in range(schema.id + 1)]

    def to(self, snapshot: Snapshot, replaced: Metadata | None, *, anew: bool) -> int:
        """Publish a snapshot. ``replaced``: metadata of its number that describes another state. ``anew``: follow no
        earlier one."""
        folder = self._folder
        versions, known = self._known(snapshot, replaced)
        if known is not None and self._is_overtaken(known, snapshot):
            return int(known["current-snapshot-id"])
        if known is not None:
            folder.location = known["location"]
        base = known
        if known is not None and known["current-snapshot-id"] >= snapshot.id:
            base = next(filter(None, (folder.read(v) for v in reversed(versions) if v < snapshot.id)), None)
        try:
            if base is not None and not anew and self._is_followed(base, snapshot):
                metadata, snapshots = self._after({**base, **_numbers(known)}, snapshot)
            else:
                # The first snapshot may be that of a table which was created anew: it gets another identity.
                metadata, snapshots = self._anew(snapshot, known if snapshot.id > 1 else None)
        except BaseException:
            discard(self._store.io, folder.written)
            raise
        if versions and versions[-1] > snapshot.id > (folder.hint() or snapshot.id) and self._is_newest(snapshot):
            folder.retire_after(snapshot.id)  # readers begin before it, and would go on from it to these
        if replaced is not None:
            folder.replace(snapshot.id, metadata)
        elif not folder.create(snapshot.id, metadata):
            discard(self._store.io, folder.written)  # another process was faster, with the same state
            return snapshot.id
        is_newest = self._is_newest(snapshot)
        if is_newest:
            folder.show(snapshot.id, alone=len(versions) == 1 and versions[0] < snapshot.id)
        _show_in_catalog(self._store, self._options, folder, metadata)
        if is_newest:
            self._clean(snapshot.id, known, metadata, snapshots)
        else:
            self._discard_unnamed(metadata)
        return snapshot.id

    def _is_newest(self, snapshot: Snapshot) -> bool:
        return self._store.latest_snapshot_id() == snapshot.id

    def _known(self, snapshot: Snapshot, replaced: Metadata | None) -> tuple[list[int], Metadata | None]:
        """The versions that there may be, and the newest that can be read."""
        folder = self._folder
        versions = folder.versions() if self._is_suspect(snapshot, replaced) else [folder.hint() or 0]
        known = next(filter(None, map(folder.read, reversed(versions))), replaced)
        for _ in range(_LISTINGS if known is None else 0):  # others may remove what was listed
            versions = folder.versions()
            known = next(filter(None, map(folder.read, reversed(versions))), None)
            if known is not None or not versions:
                break
        return versions, known

    def _is_suspect(self, snapshot: Snapshot, replaced: Metadata | None) -> bool:
        """Whether there may be other versions than that of the hint: after a rollback, or a process that stopped."""
        hint = self._folder.hint()
        return replaced is not None or hint is None or hint >= snapshot.id or self._folder.was_rolled_back()

    def _is_overtaken(self, known: Metadata, snapshot: Snapshot) -> bool:
        """Whether another process has published a later snapshot meanwhile."""
        if known["current-snapshot-id"] <= snapshot.id:
            return False
        latest = self._store.latest_snapshot()
        return latest is not None and latest.id > snapshot.id and describes(known, latest)

    def _is_followed(self, base: Metadata, snapshot: Snapshot) -> bool:
        """Whether what the snapshots after the metadata changed can be added to it."""
        first = int(base["snapshots"][-1]["snapshot-id"])
        if base.get("format-version") != self._folder.version or not 0 < snapshot.id - first <= _MOST_SNAPSHOTS:
            return False
        if self._lineage and base.get("next-row-id") is None:  # as Java Paimon 1 leaves it
            return False
        if normalise_location(base["location"]) != self._store.root:
            return False
        try:
            if not describes(base, self._store.snapshot(first)):
                return False
        except NotFoundError:
            if self._store.earliest_snapshot_id() != first + 1:
                return False
        ids = {s["schema-id"]: s for s in self._schemas}
        return all(ids.get(s["schema-id"]) == s for s in base["schemas"])

    def _after(self, base: Metadata, snapshot: Snapshot) -> tuple[Metadata, list[Metadata]]:
        """The metadata after the snapshots since ``base``, and all snapshots that it has had."""
        newest = base["snapshots"][-1]
        first = int(newest["snapshot-id"])
        state = self._state(self._folder.manifests(newest), base)
        index: str | None = ""  # of no snapshot: where the base has expired, vectors are written again
        if self._store.snapshot_exists(first):
            index = self._store.snapshot(first).index_manifest
        snapshots = list(base["snapshots"])
        for each in [*self._store.snapshots_between(first + 1, snapshot.id - 1), snapshot]:
            summary = state.apply(self._files.changes(each), each)
            if each.index_manifest != index:
                self._show_vectors(state, each)
                index = each.index_manifest
            state.merge_small(each.id)
            snapshots.append(self._snapshot(state, each, summary, snapshots[-1]))
        return self._metadata(base, self._retained(snapshots), state.next_row_id), snapshots

    def _anew(self, snapshot: Snapshot, known: Metadata | None) -> tuple[Metadata, list[Metadata]]:
        """Metadata of one snapshot alone. ``known``: whose identity and numbers go on."""
        state = self._state([], known or {})
        summary = state.apply(self._files.all_of(snapshot), snapshot)
        self._show_vectors(state, snapshot)
        snapshots = [self._snapshot(state, snapshot, summary, None)]
        return self._metadata(known, snapshots, state.next_row_id), snapshots

    def _state(self, manifests: Sequence[Manifest], base: Metadata) -> IcebergState:
        next_row_id = int(base.get("next-row-id") or 0)
        return IcebergState(self._folder, self._schema, self._options, manifests, next_row_id)

    def _show_vectors(self, state: IcebergState, snapshot: Snapshot) -> None:
        state.show_vectors(self._files.vectors(self._store.index_entries(snapshot)), snapshot.id)

    def _snapshot(
        self, state: IcebergState, snapshot: Snapshot, summary: Mapping[str, str], before: Metadata | None
    ) -> Metadata:
        """Iceberg's record of a snapshot, whose manifest list is written. ``before``: that of the one before."""
        lineage = {}
        if self._lineage:
            lineage = {"first-row-id": state.next_row_id, "added-rows": state.number_rows()}
        size = 0 if before is None else before["summary"].get("total-files-size")  # Java Paimon 1 does not count it
        if size is not None:
            size = int(size) + int(summary["added-files-size"]) - int(summary["removed-files-size"])
            summary = {**summary, "total-files-size": str(size)}
        own = {name: value for name, value in (snapshot.properties or {}).items() if name not in summary}
        return {
            "sequence-number": snapshot.id,
            "snapshot-id": snapshot.id,
            **({} if before is None else {"parent-snapshot-id": before["snapshot-id"]}),
            "timestamp-ms": snapshot.time_millis,
            "summary": {**own, **summary, **state.totals(), **identity_summary(snapshot)},
            "manifest-list": self._folder.write_list(state.manifests),
            "schema-id": snapshot.schema_id,
            **lineage,
        }

    def _metadata(self, known: Metadata | None, snapshots: Sequence[Metadata], next_row_id: int) -> Metadata:
        spec = spec_json(self._schema)
        newest = int(snapshots[-1]["snapshot-id"])
        ids = [field["id"] for schema in self._schemas for field in schema["fields"]]
        return {
            "format-version": self._folder.version,
            "table-uuid": str(uuid.uuid4()) if known is None else known["table-uuid"],
            "location": self._folder.location,
            "last-sequence-number": newest,
            "last-updated-ms": max(int(time.time() * 1000), int(snapshots[-1]["timestamp-ms"])),
            "last-column-id": max((*ids, 0 if known is None else int(known["last-column-id"]))),
            "schemas": self._schemas,
            "current-schema-id": self._schema.id,
            "partition-specs": [spec],
            "default-spec-id": SPEC_ID,
            "last-partition-id": FIRST_PARTITION_ID + len(spec["fields"]) - 1,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": list(snapshots),
            "current-snapshot-id": newest,
            **({"next-row-id": next_row_id} if self._lineage else {}),
            "properties": {} if known is None else known.get("properties", {}),
            "refs": _refs(self._store, snapshots),
        }

    def _retained(self, snapshots: Sequence[Metadata]) -> list[Metadata]:
        """The snapshots without those that are due to expire, or have expired, in Paimon."""
        newest = int(snapshots[-1]["snapshot-id"])
        least, most = (int(self._options.get(f"snapshot.num-retained.{key}")) for key in ("min", "max"))
        oldest = time.time() * 1000 - int(self._options.get("snapshot.time-retained"))

        def stays(snapshot: Metadata) -> bool:
            id_ = int(snapshot["snapshot-id"])
            return id_ > newest - least or (id_ > newest - most and snapshot["timestamp-ms"] >= oldest)

        first = next(number for number, snapshot in enumerate(snapshots) if stays(snapshot))
        return _still_there(self._store, snapshots[first:])

    def _clean(self, number: int, known: Metadata | None, metadata: Metadata, snapshots: Sequence[Metadata]) -> None:
        """Remove older versions, and what only snapshots had that the new metadata does not have."""
        folder, stale = self._folder, list[int]()
        if self._options.get("metadata.iceberg.delete-after-commit.enabled"):
            first = number - int(self._options.get("metadata.iceberg.previous-versions-max"))
            stale = [version for version in folder.versions() if version < first]
        before = snapshots if len(snapshots) > 1 or known is None else [*known["snapshots"], *snapshots]
        others = [version for version in stale if known is None or version != known["current-snapshot-id"]]
        if others:  # of writers at the same time, or for a catalog that was not reached
            older = [s for found in map(folder.read, others) if found for s in found["snapshots"]]
            lists = {s["manifest-list"]: s for s in [*older, *before]}
            before = sorted(lists.values(), key=lambda snapshot: int(snapshot["snapshot-id"]))
        _remove_lists(folder, before, metadata["snapshots"])
        folder.remove_versions(stale)

    def _discard_unnamed(self, metadata: Metadata) -> None:
        """Remove what was written for snapshots that the metadata has no more."""
        folder = self._folder
        own = {folder.spelled(path): path for path in folder.written}
        named = {s["manifest-list"]: s for s in metadata["snapshots"] if s["manifest-list"] in own}
        manifests = {m["manifest_path"] for s in named.values() for m in folder.manifests(s)}
        discard(self._store.io, [path for spelled, path in own.items() if spelled not in {*named, *manifests}])
