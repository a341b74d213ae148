"""The live data files of a table, as maintenance sees them; and reachability: every file that a snapshot, a changelog,
a tag or a branch needs. What no one needs may be removed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import paimon_pyds as pp
from paimon_pyds.base.arrays import one_batch, scalar
from paimon_pyds.engine.execution.live_files import (
    FILE_COLUMNS,
    live_of,
    located_files,
    planned_live_files,
    snapshot_files,
)
from paimon_pyds.metadata.changelogs import changed_entries, changelog_ids, changelogs, changes_of
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore


def live_files(table: pp.Table) -> tuple[ReadSpec, list[PlannedFile]]:
    """The files of the newest snapshot, and how to read them."""
    return planned_live_files(table._store, table.schema, live_of(table._store, table.snapshots.latest()))


def table_files(store: TableStore) -> Iterator[str]:
    """The paths of all files that the main branch or another branch of a table needs, a file once for each user.

    Raises as `snapshot_files`. Hint files are not among them: a table is right without.
    """
    for branch in (MAIN_BRANCH, *store.branches()):
        yield from branch_files(store if branch == store.branch else store.for_branch(branch))


def branch_files(store: TableStore) -> Iterator[str]:
    """The paths of all files that the store's branch needs: schemas, snapshots, changelogs, tags and what these need.

    A file comes once for each of them. One snapshot's entries are held in memory at a time.
    """
    yield from map(store.paths.schema, store.schema_ids())
    for id_ in store.snapshot_ids():
        yield store.paths.snapshot(id_)
        yield from snapshot_files(store, store.snapshot(id_))
    for changelog in changelogs(store, changelog_ids(store)):
        yield store.paths.changelog(changelog.id)
        yield from changelog_files(store, changelog)
    for name in store.tag_names():
        yield store.paths.tag(name)
        yield from snapshot_files(store, store.tag(name), changelog=False)


def changelog_files(store: TableStore, changelog: Snapshot) -> Iterator[str]:
    """The paths of all files that the changelog of an expired snapshot needs. Raises as `snapshot_files`."""
    reader, paths = ManifestReader(store), store.paths
    yield paths.schema(changelog.schema_id)
    changes = changes_of(store, changelog)
    if changes:
        yield paths.manifest(changelog.changelog_manifest_list or changelog.delta_manifest_list)
    yield from (paths.manifest(manifest.file_name) for manifest in changes)
    entries = changed_entries(reader, changelog, changes, ("kind", *FILE_COLUMNS))
    added = entries.filter(pc.equal(entries["kind"], scalar(FileKind.ADD, pa.int8())))
    yield from located_files(store, store.schema(changelog.schema_id), one_batch(added.select(list(FILE_COLUMNS))))
