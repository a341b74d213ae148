"""Which commits of a user the table has: a stream that starts again asks before it commits what it finds.

Source: Java Paimon's FileStoreCommitImpl.filterCommitted and SnapshotManager.latestSnapshotOfUser.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["committed_identifiers", "latest_snapshot_of_user"]

_AT_ONCE = 64
"""Snapshots that are read at once, at most."""


def committed_identifiers(store: TableStore, commit_user: str, identifiers: Iterable[int]) -> set[int]:
    """Those of the identifiers that a user has committed already.

    A user's identifiers grow, so its latest snapshot tells: all up to that one's are committed. None are where it has
    expired. Of a commit that ended between its append and its compaction, the append is there.

    Args:
        store: the table.
        commit_user: as in `Changes.commit_user`.
        identifiers: as in `Changes.identifier`.
    """
    latest = latest_snapshot_of_user(store, commit_user)
    return set() if latest is None else {i for i in identifiers if i <= latest.commit_identifier}


def latest_snapshot_of_user(store: TableStore, commit_user: str) -> Snapshot | None:
    """A user's latest snapshot; None when there is none, or none that has not expired.

    Snapshots are read from the latest one back, more at once the longer it takes.
    """
    last, count = store.latest_snapshot_id(), 1
    while last is not None and last > 0:
        found = store.snapshots_between(last - count + 1, last)
        for snapshot in reversed(found):
            if snapshot.commit_user == commit_user:
                return snapshot
        if not found:
            break
        last, count = last - count, min(2 * count, _AT_ONCE)
    return None
