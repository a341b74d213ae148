"""Everything of a table goes but its columns and options (source: Java Paimon 1.4, FileStoreTable.purgeFiles).

As in Java: branches, tags and consumers first, then all rows by an OVERWRITE snapshot, which alone stays, then the
files that nothing names. Java takes these however young they are, also those that a writer is about to commit, whose
table can't be read then; here those of the last day stay, as they do in a search for orphans.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from paimon_pyds.base.options import check_writable
from paimon_pyds.base.options.option import text
from paimon_pyds.base.secrets import counted, redact
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.metadata.changelogs import changelog_ids
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.ops.maintenance.branches import delete_branch
from paimon_pyds.ops.maintenance.drop_partitions import truncate
from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_snapshots, maintenance_options, merged
from paimon_pyds.ops.maintenance.orphans import remove_orphan_files
from paimon_pyds.ops.maintenance.references import KeptFiles, Reference, consumer_names, references_of_table
from paimon_pyds.ops.maintenance.removal import RemovalSummary, delete_files
from paimon_pyds.ops.maintenance.removed_states import removal_of
from paimon_pyds.ops.maintenance.tags import delete_tag


def purge(store: TableStore, confirm: str, *, named_states: bool = False, dry_run: bool = False) -> RemovalSummary:
    """Remove all that is in a table; see ``table.maintenance.purge``. One that was ended half-way is run again.

    ``store``: the table, on its main branch. ``named_states``: tags and branches go, too.

    Raises:
        OptionError: no confirmation.
        UnsupportedError: a branch of the table; or there are tags or branches. Nothing was removed.
    """
    started = time.monotonic()
    check_writable(store.latest_schema(), None, existing_rows=True, metadata_only=True)
    name = store.root.rstrip("/").rpartition("/")[2]
    if not dry_run and text("confirm", confirm) != name:
        raise OptionError(
            "a purge removes all rows, snapshots and files for good, and is not confirmed",
            path=store.root,
            hint=f"give the name of the table, {redact(name)!r}",
        )
    if store.branch != MAIN_BRANCH:
        raise UnsupportedError("a branch can't be purged", path=store.root, hint="delete it")
    tags, branches = store.tag_names(), store.branches()
    if (tags or branches) and not named_states:
        kept = f"{counted(len(tags), 'tag')} and {counted(len(branches), 'branch', 'branches')}"
        raise UnsupportedError(
            f"the table has {kept}, which keep what is purged",
            path=store.root,
            hint="delete them first, or say named_states=True (--named-states)",
        )
    if dry_run:
        total = _planned(store, tags, branches)
    else:
        total = RemovalSummary()
        for step in _steps(store, tags, branches):
            total = merged(total, step)
    return replace(total, partitions=(), seconds=time.monotonic() - started, dry_run=dry_run)


def _planned(store: TableStore, tags: list[str], branches: list[str]) -> RemovalSummary:
    """The removal as planned. It may have fewer metadata files than the real one, whose commit may merge manifests; and
    more files if changelogs have outlived their snapshots, as they name files that went with these."""
    rows, _ = truncate(store, dry_run=True)
    removal = removal_of(store, references_of_table(store), (), maintenance_options(store, None))
    latest, ids = store.latest_snapshot(), store.snapshot_ids()
    if latest is not None and rows.data_files:
        stays = {manifest.file_name for manifest in ManifestReader(store).manifests(latest)}
        if latest.statistics is not None and latest.schema_id == store.latest_schema().id:
            stays.add(latest.statistics)  # snapshots pass them on
        removal.spare(stays)
    elif latest is not None:  # it stays
        removal.spare(KeptFiles(store, [Reference(store.branch, f"snapshot {latest.id}", latest, True)]).metadata)
    orphans = remove_orphan_files(store, dry_run=True)
    planned = removal.summary(
        tags=tuple(tags), branches=tuple(branches), consumers=tuple(consumer_names(store)),
        snapshots=len(ids if rows.data_files else ids[:-1]), changelogs=len(changelog_ids(store)),
    )  # fmt: skip
    return merged(planned, RemovalSummary(data_files=orphans.files.num_rows, bytes=orphans.bytes))


def _steps(store: TableStore, tags: list[str], branches: list[str]) -> Iterator[RemovalSummary]:
    for branch in branches:
        yield delete_branch(store, branch)
    for tag in tags:
        yield delete_tag(store, tag)
    readers = tuple(consumer_names(store))
    delete_files(store.io, map(store.paths.consumer, readers), 1)
    yield RemovalSummary(consumers=readers)
    truncate(store)
    latest = store.latest_snapshot()
    if latest is not None and read_hint(store.io, store.paths.latest_hint) != latest.id:
        # A commit whose hint got lost: the snapshot that it names would stay.
        store.write_latest_hint(latest.id)
    yield expire_snapshots(store, ExpireOptions(1, 1), leave_changelogs=False)
    orphans = remove_orphan_files(store)
    yield RemovalSummary(data_files=orphans.files.num_rows, bytes=orphans.bytes)
