"""Everything of a table goes but its columns and options (source: Java Paimon 1.4, FileStoreTable.purgeFiles).

As in Java: branches, tags and consumers first, then all rows by an OVERWRITE snapshot, which alone stays, then the
files that nothing names. Java takes these however young they are, also those that a writer is about to commit, whose
table can't be read then; here those of the last day stay, as they do in a search for orphans. A purge is serializable
with whatever runs at the same time: an intent (`paimon_pyds.metadata.intents`) announces it to others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from paimon_pyds.base.options import check_writable
from paimon_pyds.base.options.option import text
from paimon_pyds.base.secrets import counted, redact
from paimon_pyds.errors import (
    BranchNotFoundError,
    CommitError,
    OptionError,
    PaimonError,
    TagNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.changelogs import changelog_ids
from paimon_pyds.metadata.consumers import consumer_names
from paimon_pyds.metadata.intents import begin_purge, is_forwarded_now, is_rolled_back_now, withdraw
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.ops.maintenance.branches import check_unnamed, delete_branch
from paimon_pyds.ops.maintenance.drop_partitions import truncate
from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_snapshots, maintenance_options, merged
from paimon_pyds.ops.maintenance.orphans import remove_orphan_files
from paimon_pyds.ops.maintenance.references import Reference, ReferencedFiles, references_of_table
from paimon_pyds.ops.maintenance.removal import RemovalSummary, delete_files, removal_of
from paimon_pyds.ops.maintenance.tags import delete_tag

_TRIES = 10
"""How often it starts over after other processes changed the same files: more often is no accident."""


def purge(store: TableStore, confirm: str, *, named_states: bool = False, dry_run: bool = False) -> RemovalSummary:
    """Remove all that is in a table; see ``table.maintenance.purge``. One that was ended half-way is run again.

    ``store``: the table, on its main branch. ``named_states``: tags and branches go, too.

    Raises:
        OptionError: no confirmation, or an option names a branch.
        UnsupportedError: a branch of the table; or there are tags or branches. Nothing was removed.
        CommitError: the table is rolled back or fast-forwarded just now. Nothing was removed.
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
    if dry_run:
        _check_unnamed(store, named_states=named_states)
        total = _planned(store)
    else:
        total = _purged(store, named_states=named_states)
    return replace(total, partitions=(), seconds=time.monotonic() - started, dry_run=dry_run)


def _planned(store: TableStore) -> RemovalSummary:
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
        removal.spare(ReferencedFiles(store, [Reference(store.branch, f"snapshot {latest.id}", latest, True)]).metadata)
    orphans = remove_orphan_files(store, dry_run=True)
    planned = removal.summary(
        tags=tuple(store.tag_names()), branches=tuple(store.branches()), consumers=tuple(consumer_names(store)),
        snapshots=len(ids if rows.data_files else ids[:-1]), changelogs=len(changelog_ids(store)),
    )  # fmt: skip
    return merged(planned, RemovalSummary(data_files=orphans.files.num_rows, bytes=orphans.bytes))


def _purged(store: TableStore, *, named_states: bool) -> RemovalSummary:
    """Purge a table that nobody rolls back or fast-forwards just now. A call that begins to, or that makes a tag, sees
    the intent and is refused."""
    intent, total = begin_purge(store), RemovalSummary()
    try:
        if is_rolled_back_now(store) or is_forwarded_now(store):
            raise CommitError(
                "the table is rolled back or fast-forwarded just now",
                path=store.root,
                hint="nothing was removed; try again; if that call was ended, run it again first",
            )
        _check_unnamed(store, named_states=named_states)
        for step in _steps(store, named_states=named_states):
            total = merged(total, step)
    finally:
        with suppress(PaimonError):  # it counts for a day only
            withdraw(store, intent)
    return total


def _check_unnamed(store: TableStore, *, named_states: bool) -> None:
    """Raises UnsupportedError: there are tags or branches, which are not to go; OptionError: an option names one."""
    tags, branches = store.tag_names(), store.branches()
    if (tags or branches) and not named_states:
        kept = f"{counted(len(tags), 'tag')} and {counted(len(branches), 'branch', 'branches')}"
        raise UnsupportedError(
            f"the table has {kept}, which keep what is purged",
            path=store.root,
            hint="delete them first, or say named_states=True (--named-states)",
        )
    for branch in branches:
        check_unnamed(store, branch)


def _steps(store: TableStore, *, named_states: bool) -> Iterator[RemovalSummary]:
    yield from _without_names(store, named_states=named_states)
    truncate(store)
    end = store.latest_snapshot_id() or 0
    for _ in range(_TRIES):
        latest = store.latest_snapshot()
        if latest is not None and read_hint(store.io, store.paths.latest_hint) != latest.id:
            # A commit whose hint got lost: the snapshot that it names would stay.
            store.write_latest_hint(latest.id)
        yield expire_snapshots(store, ExpireOptions(1, 1), leave_changelogs=False)
        older = [id_ for id_ in store.snapshot_ids() if id_ < end]
        if not older and not (named_states and (store.tag_names() or store.branches())):
            break
        # Renamed meanwhile, or made by a call that has not looked for intents yet
        yield from _without_names(store, named_states=named_states)
    else:
        raise CommitError(
            "tags, branches or consumers came again and again", path=store.root, hint="run the purge again, later"
        )
    orphans = remove_orphan_files(store)
    yield RemovalSummary(data_files=orphans.files.num_rows, bytes=orphans.bytes)


def _without_names(store: TableStore, *, named_states: bool) -> Iterator[RemovalSummary]:
    """Delete branches, tags and consumers."""
    for branch in store.branches() if named_states else ():
        with suppress(BranchNotFoundError):
            yield delete_branch(store, branch)
    for tag in store.tag_names() if named_states else ():
        with suppress(TagNotFoundError):
            yield delete_tag(store, tag)
    readers = tuple(consumer_names(store))
    delete_files(store.io, map(store.paths.consumer, readers), 1)
    yield RemovalSummary(consumers=readers)
