"""Snapshots that another writer replaced after they were published.

Where the publisher can't prevent that (`paimon_pyds.commit.publisher`), a commit looks at its snapshot once more before
it tells of success, by when it has nearly always happened, and the next commit on the same table looks again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.commit.changes import Changes, Increment
from paimon_pyds.commit.publisher import publisher_of
from paimon_pyds.errors import CommitError, PaimonError
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["has_all", "remember", "replaced_since"]

_log = logging.getLogger("paimon_pyds.commit")
_NOTE = "last commit"


@dataclass(frozen=True, slots=True)
class _LastCommit:
    """What this process published last. ``changes`` is None when they can't be published again by themselves."""

    snapshot: Snapshot
    changes: Changes | None
    published_ms: float


def has_all(store: TableStore, latest: Snapshot, increment: Increment) -> bool:
    """Whether the table has all that an increment adds: another commit may have built on a snapshot before it was
    replaced. False for an increment that adds nothing."""
    files = {f.file_name for bucket in increment.added for f in bucket.files}
    if increment.replacements is not None:
        files.update(increment.replacements["file_name"].to_pylist())
    index_files = {entry.file_name for entry in increment.index_entries}
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
    plain = all(i.only_adds and i.overwrite is None and i.guard is None for i in changes.increments)
    store.notes[_NOTE] = _LastCommit(snapshot, changes if plain else None, time.time() * 1000)


def replaced_since(store: TableStore) -> Changes | None:
    """The changes of this table's last commit here when its snapshot was replaced since, else None; told once.

    The other writer made its snapshot before it found the number free, so one that was made later is no such case: it
    follows a rollback, or is of a table that was created anew.

    Raises:
        CommitError: the snapshot was replaced, and its changes can't be published again by themselves.
    """
    last = store.notes.pop(_NOTE, None)
    if not isinstance(last, _LastCommit) or not publisher_of(store).was_replaced(store, last.snapshot):
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
