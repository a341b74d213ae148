"""Rollback: a table as it was at a snapshot, a tag or a time; what came after goes.

Snapshots go from the newest on, as in Java, so that a rollback that was killed leaves the table at one of its
snapshots; run again, it goes on. A concurrent expiry could remove the snapshots that stay: so each announces its
removal first, and then looks for the intents of others (`paimon_pyds.metadata.intents`). An expiry by Java knows only
the hint LATEST, which names the target first.

The files that only these snapshots needed go last, when nothing names them any more; Java leaves them as orphans. A
writer that loses its snapshot in this way, before it has reported success, waits for the end of the rollback, and
commits its files again if they still exist. A writer by Java does not look: its snapshot goes as well if it was built
on a removed one. (Sources: Paimon documentation, maintenance/manage-snapshots; Java Paimon 1.4, class RollbackHelper.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import Any

from paimon_pyds.base.options import check_branch
from paimon_pyds.base.options.option import integer, text
from paimon_pyds.base.options.times import time_ms
from paimon_pyds.base.progress import counted
from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import (
    CommitError,
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from paimon_pyds.metadata.changelogs import remove_changelogs_from
from paimon_pyds.metadata.intents import (
    begin_rollback,
    begun_before,
    expiring_before,
    is_forwarded_now,
    is_purged_now,
    purged_now,
    withdraw,
)
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import NO_WATERMARK, Snapshot, parse_snapshot
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.references import (
    Reference,
    references_of_table,
    snapshot_references,
    tag_references,
)
from paimon_pyds.ops.maintenance.removal import (
    Removal,
    RemovalSummary,
    changelogs_from,
    delete_files,
    only_theirs,
    remove_files,
)
from paimon_pyds.ops.maintenance.tags import discard_success_files, numbered_state, snapshot_file

_log = logging.getLogger("paimon_pyds.maintenance")


def rollback(  # noqa: PLR0913 - the arguments of the method, and what follows
    store: TableStore,
    snapshot: int | str | None = None,
    tag: str | None = None,
    timestamp: date | str | int | None = None,
    watermark: int | None = None,
    *,
    dry_run: bool = False,
    publish: Callable[[], object] = lambda: None,
) -> RemovalSummary:
    """Make a snapshot or a tag the newest state; see ``table.snapshots.rollback``.

    ``publish``: called when it is the newest, to show it to others' readers before their files go.

    Raises:
        SnapshotNotFoundError, TagNotFoundError: there is no such state.
        OptionError: contradicting arguments.
        CommitError: snapshots up to the target expire, or the table is fast-forwarded or purged, just now; nothing was
            removed.
    """
    started = time.monotonic()
    check_branch(store.latest_schema(), store.branch, store.root)
    options = maintenance_options(store, None)
    target, path = named_state(store, snapshot, tag, timestamp, watermark)
    gone = [s for s in (*snapshot_references(store), *tag_references(store)) if s.snapshot.id > target.id]
    count, tags = sum(state.is_snapshot for state in gone), [state for state in gone if state.is_tag]
    removal: Removal | None = None
    if dry_run:
        gone += changelogs_from(store, target.id + 1)
        removal = only_theirs(store, gone, lambda: _without(references_of_table(store), gone), options)
    elif store.server is not None:
        named = None if path == store.paths.snapshot(target.id) else path.rpartition("/tag-")[2]
        store.server.rollback(store, target, named)
    else:
        intent = begin_rollback(store, target.id)
        try:
            if is_forwarded_now(store):
                raise CommitError(
                    "a fast-forward of the main branch is running",
                    path=store.root,
                    hint="try again; if it was interrupted, run it again first",
                )
            if is_purged_now(store):
                raise purged_now(store)
            _begin(store, target, path)
            gone += changelogs_from(store, target.id + 1)
            remove_changelogs_from(store, target.id + 1)
            count, tags = _remove_newer(store, target)
            publish()
            removal = remove_files(store, gone, options)
            if removal is not None:
                _remove_late(store, target, removal)
        finally:
            with suppress(PaimonError):  # it counts for a day only
                withdraw(store, intent)
    summary = RemovalSummary() if removal is None else removal.summary()
    names, seconds = tuple(tag.tag for tag in tags), time.monotonic() - started
    return replace(summary, snapshots=count, tags=names, seconds=seconds, dry_run=dry_run)


def _without(states: Sequence[Reference], gone: Sequence[Reference]) -> list[Reference]:
    return [state for state in states if state not in gone]


def named_state(
    store: TableStore, snapshot: int | str | None, tag: str | None, timestamp: Any, watermark: int | None = None
) -> tuple[Snapshot, str]:
    """The state that is named, and the file that has it.

    ``snapshot``: its number, or the name of a tag. ``timestamp``: a time, as `time_ms` takes it.
    ``watermark``: of events, in milliseconds since the epoch: the newest snapshot whose watermark is not later.
    Raises SnapshotNotFoundError, TagNotFoundError: there is no such state; OptionError: none, or several.
    """
    if sum(given is not None for given in (snapshot, tag, timestamp, watermark)) != 1:
        raise OptionError("a state is named by a snapshot, a tag, or a time: give one of them")
    if watermark is not None:
        found = _until_watermark(store, integer("watermark", watermark))
    elif timestamp is not None:
        found = store.snapshot_at(time_ms("timestamp", timestamp))
    elif tag is not None or isinstance(snapshot, str):
        name = text("tag", snapshot if tag is None else tag)
        return store.tag(name), store.paths.tag(name)
    else:
        return numbered_state(store, integer("snapshot", snapshot))
    return found, store.paths.snapshot(found.id)


def _until_watermark(store: TableStore, watermark: int) -> Snapshot:
    for snapshot in reversed(store.snapshots()):
        if snapshot.watermark is not None and NO_WATERMARK < snapshot.watermark <= watermark:
            return snapshot
    raise SnapshotNotFoundError(f"no snapshot has a watermark of {watermark} or earlier", path=store.root)


def _begin(store: TableStore, target: Snapshot, path: str) -> None:
    """Say what will be the newest snapshot, and see that it is there and stays. Raises as `rollback`."""
    latest = store.latest_snapshot_id()
    there = store.paths.snapshot(target.id)
    if path != there and begun_before(store) > target.id:  # it may still remove a snapshot of this number
        raise CommitError(
            "an expiry of snapshots is running",
            path=store.root,
            hint="try again; if none is running, call table.snapshots.expire() first",
        )
    if path != there and store.io.create_if_absent(there, snapshot_file(store, path)):
        if not _is_tagged(store, path, target):  # the deletion of a tag looks at the snapshots after that
            store.io.delete([there])
            raise TagNotFoundError("the tag was deleted just now", path=path, hint="roll back to another state")
        store.write_earliest_hint(target.id)
    if store.snapshot(target.id).delta_manifest_list != target.delta_manifest_list:
        raise SnapshotNotFoundError(
            f"the number {target.id} is now that of another snapshot", path=store.root, hint="roll back to a snapshot"
        )
    if path != there:
        return  # the tag keeps its files
    store.write_latest_hint(target.id)
    if expiring_before(store) > target.id:
        store.write_latest_hint(latest or target.id)
        raise CommitError(
            f"snapshot {target.id} is expiring", path=store.root, hint="roll back to a newer one, or to a tag"
        )


def _is_tagged(store: TableStore, path: str, target: Snapshot) -> bool:
    try:
        return store.parse_file(path, parse_snapshot) == target
    except FileNotFoundError:
        return False


def _remove_newer(store: TableStore, target: Snapshot) -> tuple[int, list[Reference]]:
    """Remove the snapshots after the target, also those that are committed meanwhile, and their tags."""
    count = 0
    while newer := [id_ for id_ in store.snapshot_ids() if id_ > target.id]:
        is_next = newer[0] == target.id + 1
        if is_next and read_hint(store.io, store.paths.latest_hint) != target.id:
            store.write_latest_hint(target.id)  # which counts once there is no next one
        for id_ in counted(reversed(newer), "removing", files=len(newer)):
            if not is_next:  # no hint: Java believes one whose snapshot is gone, and all one that has no next snapshot
                store.io.delete([store.paths.latest_hint])
            store.io.delete([store.paths.snapshot(id_)])
            count += 1
    tags = [tag for tag in tag_references(store) if tag.snapshot.id > target.id]
    delete_files(store.io, (store.paths.tag(tag.tag) for tag in tags), 1)
    store.write_latest_hint(target.id)
    discard_success_files(store, [tag.tag for tag in tags])
    return count, tags


def _remove_late(store: TableStore, target: Snapshot, removal: Removal) -> None:
    """Remove the snapshots of writers that do not look, as Java's, where they were built on what has gone."""
    late = [s for s in store.snapshots() if s.id > target.id and _uses_removed(store, s, removal)]
    if late:
        store.io.delete([store.paths.latest_hint])  # see `_remove_newer`
    for snapshot in reversed(late):
        if store.snapshots_among([snapshot.id]) == [snapshot]:
            store.io.delete([store.paths.snapshot(snapshot.id)])
        _log.warning("snapshot %d was committed during a rollback, and went, too (%s)", snapshot.id, redact(store.root))


def _uses_removed(store: TableStore, snapshot: Snapshot, removal: Removal) -> bool:
    """Whether a snapshot needs a file that was removed."""
    reader, gone = ManifestReader(store), {path.rpartition("/")[2] for path in removal.data}
    try:
        if not removal.manifests.keys().isdisjoint(m.file_name for m in reader.manifests(snapshot)):
            return True
        return not gone.isdisjoint(reader.live_files(snapshot, ("file_name",))["file_name"].to_pylist())
    except SnapshotNotFoundError:
        return True
