"""Snapshots that another writer replaced after they were published.

On a local disk Java Paimon looks whether ``snapshot-N`` is there and then moves its own to that name, which replaces a
file that was created in between. Nothing here can prevent that. So a commit reads its snapshot once more before it
tells of success, by when such a move has nearly always happened, and the next commit on the same table looks again.
(Source: what Java Paimon 1.4's LocalFileIO was seen to do.)
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.commit.changes import Changes
from paimon_pyds.errors import CommitError, PaimonError, SnapshotNotFoundError
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["has_all", "remember", "replaced_since", "stands", "was_replaced"]

_log = logging.getLogger("paimon_pyds.commit")
_NOTE = "last commit"


@dataclass(frozen=True, slots=True)
class _LastCommit:
    """What this process published last. ``changes`` is None when they can't be published again by themselves."""

    snapshot: Snapshot
    changes: Changes | None
    published_ms: float


def stands(store: TableStore, snapshot: Snapshot | None) -> bool:
    """Whether this snapshot is there under its number. Raises PaimonError when the storage doesn't tell."""
    try:
        return snapshot is None or _is_same(store.snapshot(snapshot.id), snapshot)
    except SnapshotNotFoundError:
        return False


def was_replaced(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether there is another snapshot in the place of one that was published a moment ago."""
    try:
        return not _is_same(store.snapshot(snapshot.id), snapshot)
    except (PaimonError, OSError):  # it was created, and nothing tells of another one
        return False


def has_all(store: TableStore, latest: Snapshot, changes: Changes) -> bool:
    """Whether the table has all that the changes add: another commit may have built on a snapshot before it was
    replaced. False for changes that add nothing."""
    files = {f.file_name for bucket in changes.added for f in bucket.files}
    if changes.readded is not None:
        files.update(changes.readded["file_name"].to_pylist())
    index_files = {entry.file_name for entry in changes.index_entries}
    if index_files:
        name = latest.index_manifest
        there = () if name is None else store.read_index_manifest(name)
        if not index_files <= {entry.file_name for entry in there}:
            return False
    if files:
        live = ManifestReader(store).live_files(latest, ("file_name",))["file_name"]
        if not pc.all(pc.is_in(pa.array(sorted(files), pa.string()), live)).as_py():
            return False
    return bool(files or index_files)


def remember(store: TableStore, snapshot: Snapshot, changes: Changes) -> None:
    """Note what was published, for `replaced_since`. Only plain appends are kept: others may not hold any more."""
    plain = changes.only_adds and changes.overwrite is None and changes.guard is None
    store.notes[_NOTE] = _LastCommit(snapshot, changes if plain else None, time.time() * 1000)


def replaced_since(store: TableStore) -> Changes | None:
    """The changes of this table's last commit here when its snapshot was replaced since, else None; told once.

    The other writer made its snapshot before it found the number free, so one that was made later is no such case: it
    follows a rollback, or is of a table that was created anew.

    Raises:
        CommitError: the snapshot was replaced, and its changes can't be published again by themselves.
    """
    last = store.notes.pop(_NOTE, None)
    if not isinstance(last, _LastCommit) or not was_replaced(store, last.snapshot):
        return None
    try:
        other = store.snapshot(last.snapshot.id)
    except (PaimonError, OSError):
        return None
    if other.time_millis > last.published_ms:
        return None
    what = f"snapshot {other.id} was replaced by another writer after it was published"
    if last.changes is None:
        raise CommitError(
            f"{what}: its changes are lost",
            path=store.root,
            hint="run that operation again, then this one; let writers share a table where creating files is atomic",
        )
    _log.warning("%s; its files are committed again (%s)", what, store.root)
    return last.changes


def _is_same(there: Snapshot, snapshot: Snapshot) -> bool:
    return there.delta_manifest_list == snapshot.delta_manifest_list
