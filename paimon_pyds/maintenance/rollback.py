"""Rollback: a table as it was at a snapshot, a tag or a time; what came after goes.

Snapshots go from the newest on, as in Java, so that a rollback that was killed leaves the table at one of its
snapshots; run again, it goes on. The hint LATEST names the target first: an expiry that looks at it after its own hint
(EARLIEST), and a rollback that looks at that one, never both take away what the other one leaves.

Data files stay, and are orphans then, as in Java: a writer that loses its snapshot so commits the same files again.
(Sources: Paimon documentation, maintenance/manage-snapshots; Java Paimon 1.4, class RollbackHelper.)
"""

from __future__ import annotations

import itertools
import time
from datetime import datetime
from typing import Any

from paimon_pyds.errors import CommitError, OptionError, SnapshotNotFoundError
from paimon_pyds.maintenance.expire import check_changelogs, earliest_by_hint, maintenance_options, timestamp_ms
from paimon_pyds.maintenance.references import Reference, tag_references
from paimon_pyds.maintenance.removal import RemovalSummary, delete_files
from paimon_pyds.maintenance.tags import numbered_state, tag_file
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options.option import integer, text


def rollback(
    store: TableStore,
    snapshot: int | str | None = None,
    tag: str | None = None,
    timestamp: datetime | str | int | None = None,
    *,
    dry_run: bool = False,
) -> RemovalSummary:
    """Make a snapshot or a tag the newest state; see `paimon_pyds.Table.rollback`.

    Raises:
        SnapshotNotFoundError, TagNotFoundError: there is no such state.
        OptionError: contradicting arguments.
        CommitError: snapshots up to the target expire just now; nothing was removed.
        UnsupportedError: changelogs of this table live longer than its snapshots.
    """
    store.check_allowed("be rolled back")
    started = time.monotonic()
    options = maintenance_options(store, None)
    check_changelogs(store, options)
    target, path = _target(store, snapshot, tag, timestamp)
    snapshots = [s for s in store.snapshots() if s.id > target.id]
    tags = [tag for tag in tag_references(store) if tag.snapshot.id > target.id]
    count = len(snapshots)
    if not dry_run:
        _begin(store, target, path)
        count, tags = _remove_newer(store, target)
    names = tuple(tag.tag for tag in tags)
    return RemovalSummary(snapshots=count, tags=names, seconds=time.monotonic() - started, dry_run=dry_run)


def _target(store: TableStore, snapshot: int | str | None, tag: str | None, timestamp: Any) -> tuple[Snapshot, str]:
    """The state, and the file that has it."""
    if sum(given is not None for given in (snapshot, tag, timestamp)) != 1:
        raise OptionError("a rollback is to a snapshot, a tag, or a time: give one of them")
    if timestamp is not None:
        found = store.snapshot_at(timestamp_ms("timestamp", timestamp))
    elif tag is not None or isinstance(snapshot, str):
        name = text("tag", snapshot if tag is None else tag)
        return store.tag(name), store.paths.tag(name)
    else:
        return numbered_state(store, integer("snapshot", snapshot))
    return found, store.paths.snapshot(found.id)


def _begin(store: TableStore, target: Snapshot, path: str) -> None:
    """Say what will be the newest snapshot, and see that it is there and stays."""
    latest = store.latest_snapshot_id()
    there = store.paths.snapshot(target.id)
    if path != there and store.io.create_if_absent(there, tag_file(store, path, None)):
        store.io.replace(store.paths.earliest_hint, str(target.id).encode())
    if store.snapshot(target.id).delta_manifest_list != target.delta_manifest_list:
        raise SnapshotNotFoundError(
            f"the number {target.id} has another snapshot than that", path=store.root, hint="roll back to a snapshot"
        )
    if path != there:
        return  # the tag keeps its files
    store.io.replace(store.paths.latest_hint, str(target.id).encode())
    if (earliest_by_hint(store) or 0) > target.id:
        store.io.replace(store.paths.latest_hint, str(latest).encode())
        raise CommitError(
            f"snapshot {target.id} expires just now", path=store.root, hint="roll back to a newer one, or to a tag"
        )


def _remove_newer(store: TableStore, target: Snapshot) -> tuple[int, list[Reference]]:
    """Remove the snapshots after the target, also those that are committed meanwhile, and their tags."""
    count = 0
    while newer := [id_ for id_ in store.snapshot_ids() if id_ > target.id]:
        for before, id_ in reversed(list(itertools.pairwise([target.id, *newer]))):
            if newer[0] != target.id + 1:  # else the hint names the target, and counts once there is no next one
                store.io.replace(store.paths.latest_hint, str(before).encode())
            store.io.delete([store.paths.snapshot(id_)])
            count += 1
    tags = [tag for tag in tag_references(store) if tag.snapshot.id > target.id]
    delete_files(store.io, (store.paths.tag(tag.tag) for tag in tags), 1)
    store.io.replace(store.paths.latest_hint, str(target.id).encode())
    return count, tags
