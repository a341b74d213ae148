"""Reachability: every file that a snapshot, a tag or a branch needs. What no one needs may be removed.

Sources: Paimon documentation, concepts/spec/overview (which file names which), maintenance/manage-snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator

from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.scan.planned_files import file_locations, index_file_paths

__all__ = ["branch_files", "snapshot_files", "table_files"]

_COLUMNS = ("partition", "bucket", "file_name", "schema_id", "extra_files", "external_path")


def table_files(store: TableStore) -> Iterator[str]:
    """The paths of all files that the main branch or another branch of a table needs, a file once for each user.

    Raises as `snapshot_files`. Hint files are not among them: a table is right without.
    """
    for branch in (MAIN_BRANCH, *store.branches()):
        yield from branch_files(store if branch == store.branch else store.for_branch(branch))


def branch_files(store: TableStore) -> Iterator[str]:
    """The paths of all files that the store's branch needs: schemas, snapshots, tags and what these need.

    A file comes once for each snapshot and tag. One snapshot's entries are held in memory at a time.
    """
    yield from map(store.paths.schema, store.schema_ids())
    for id_ in store.snapshot_ids():
        yield store.paths.snapshot(id_)
        yield from snapshot_files(store, store.snapshot(id_))
    for name in store.tag_names():
        yield store.paths.tag(name)
        yield from snapshot_files(store, store.tag(name))


def snapshot_files(store: TableStore, snapshot: Snapshot) -> Iterator[str]:
    """The paths of all files that a snapshot needs, be it kept as such or by a tag: its metadata files, live data files
    with those beside them, changelog, index and statistics files, and the schemas of all these.

    Raises:
        SnapshotNotFoundError: a file is gone: the snapshot expired meanwhile.
        NotFoundError: the schema is gone.
        CorruptFileError: metadata is damaged.
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    paths = store.paths
    yield paths.schema(snapshot.schema_id)
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    yield from (paths.manifest(name) for name in lists if name is not None)
    reader = ManifestReader(store)
    manifests, changelog = reader.manifests(snapshot), reader.changelog(snapshot)
    yield from (paths.manifest(manifest.file_name) for manifest in (*manifests, *changelog))
    if snapshot.statistics is not None:
        yield paths.statistics(snapshot.statistics)
    schema = store.schema(snapshot.schema_id)
    for entries in (reader.live(manifests, _COLUMNS), reader.added(changelog, _COLUMNS)):
        yield from map(paths.schema, entries["schema_id"].unique().to_pylist())
        data_files = file_locations(store, schema, entries).paths
        for path, beside in zip(data_files, entries["extra_files"].to_pylist(), strict=True):
            yield path
            yield from (paths.extra_file(path, name) for name in beside)
    if snapshot.index_manifest is not None:
        yield paths.manifest(snapshot.index_manifest)
        yield from index_file_paths(store, schema, store.read_index_manifest(snapshot.index_manifest))
