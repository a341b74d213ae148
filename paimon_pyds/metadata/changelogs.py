"""Changelogs that outlive their snapshots: ``changelog/changelog-N`` is the snapshot file that an expiry left there.

Its changelog files stay with it. Where it has none, as without a ``changelog-producer``, the data files of its delta
are the changelog: those that no compaction wrote stay until it goes, with the manifests that name them.
(Source: Java Paimon 1.4, classes Changelog, ChangelogManager, SnapshotDeletion.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.manifest import is_of_compaction
from paimon_pyds.metadata.schema import utf8_bytes
from paimon_pyds.metadata.snapshot import Snapshot, parse_snapshot, snapshot_to_json
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.storage import is_file
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

if TYPE_CHECKING:
    from paimon_pyds.metadata.manifest import ManifestFile
    from paimon_pyds.metadata.manifest_reader import ManifestReader

_PARALLEL_READS = 16
"""Parallel reads on a local disk."""


def changelog_ids(store: TableStore) -> list[int]:
    """The numbers of all changelogs that are there, ascending."""
    return store.file_numbers(store.paths.changelog_dir, "changelog-")


def earliest_changelog_id(store: TableStore) -> int | None:
    """The lowest number of a changelog; None if the table has no changelog."""
    hint = read_hint(store.io, store.paths.changelog_hint("EARLIEST"))
    if hint is not None and _is_there(store, hint) and not _is_there(store, hint - 1):
        return hint
    return next(iter(changelog_ids(store)), None)


def _is_there(store: TableStore, id_: int) -> bool:
    return is_file(store.io, store.paths.changelog(id_))


def changelogs(store: TableStore, ids: Sequence[int]) -> list[Snapshot]:
    """The changelogs of these numbers that are there, in this order. Raises CorruptFileError."""

    def load(id_: int) -> Snapshot | None:
        path = store.paths.changelog(id_)
        try:
            found = store.parse_file(path, parse_snapshot)
        except FileNotFoundError:
            return None
        if found.id != id_:
            raise CorruptFileError(f"the changelog says it is number {found.id}", path=path, field="id")
        return found

    loaded = concurrent_map(load, ids, threads_for(store.io, _PARALLEL_READS))
    return [one for one in loaded if one is not None]


def expired_changelogs(store: TableStore) -> list[int]:
    """The numbers of the changelogs that come right before the earliest snapshot, ascending.

    Others may be of snapshots that were rolled back: the numbers are taken again.
    """
    first = earliest = store.earliest_snapshot_id() or 0
    ids = set(changelog_ids(store))
    while first - 1 in ids:
        first -= 1
    return list(range(first, earliest))


def is_delta(store: TableStore, changelog: Snapshot) -> bool:
    """Whether a changelog is the delta of its snapshot: the table had no producer of changelogs then. Of other
    snapshots the delta goes when they expire. Raises NotFoundError for a schema that is gone."""
    if changelog.changelog_manifest_list is not None:
        return False
    return bool(TableOptions(store.schema(changelog.schema_id).options).get("changelog-producer") == "none")


def changes_of(store: TableStore, changelog: Snapshot) -> Sequence[ManifestFile]:
    """The manifests of a changelog: of its changelog files, or of its delta.

    Empty if it has no changes, or if its delta is gone, as Java's expiry removes it once the table has a producer.
    Raises SnapshotNotFoundError for changelog files that are gone.
    """
    if changelog.changelog_manifest_list is not None:
        return store.read_manifest_list(changelog.changelog_manifest_list, changelog.changelog_manifest_list_size)
    name = changelog.delta_manifest_list
    if not is_delta(store, changelog) or not is_file(store.io, store.paths.manifest(name)):
        return ()  # it may still be known to this process
    return store.read_manifest_list(name, changelog.delta_manifest_list_size)


def changed_entries(
    reader: ManifestReader, changelog: Snapshot, changes: Sequence[ManifestFile], columns: Sequence[str]
) -> pa.Table:
    """The entries of the files that stay with a changelog, also of those that its delta deletes.

    ``changelog``: that names them. ``changes``: its manifests, or some of them. ``columns``: of `ENTRY_SCHEMA`.

    Raises SnapshotNotFoundError for a manifest that is gone.
    """
    if changelog.changelog_manifest_list is not None:
        return reader.entries(changes, columns)
    entries = reader.entries(changes, {*columns, "file_source"})
    return entries.filter(pc.invert(is_of_compaction(entries))).select(list(columns))


def write_changelog(store: TableStore, snapshot: Snapshot) -> None:
    """Write the changelog of a snapshot that expires."""
    store.io.replace(store.paths.changelog(snapshot.id), utf8_bytes(snapshot_to_json(snapshot), "a changelog"))


def remove_changelogs_from(store: TableStore, first: int) -> None:
    """Remove the changelogs of this number and later, the newest first: these numbers get other snapshots."""
    ids = changelog_ids(store)
    gone = [id_ for id_ in ids if id_ >= first]
    if not gone:
        return
    write_changelog_hint(store, "LATEST", max(set(ids) - set(gone), default=None))
    for id_ in reversed(gone):
        store.io.delete([store.paths.changelog(id_)])


def write_changelog_hint(store: TableStore, name: str, id_: int | None) -> None:
    """Name the first or last changelog for Java Paimon, which believes LATEST; without any, no hint is there.

    ``name``: EARLIEST or LATEST. ``id_``: of the changelog.
    """
    if id_ is None:
        store.io.delete([store.paths.changelog_hint("EARLIEST"), store.paths.changelog_hint("LATEST")])
    else:
        store.io.replace(store.paths.changelog_hint(name), str(id_).encode())
