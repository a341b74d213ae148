"""Publishing by the file system: ``snapshot-N`` is created if absent, which is atomic.

On a local disk Java Paimon looks whether ``snapshot-N`` is there and then moves its own to that name, which replaces a
file that was created in between. Nothing here can prevent that, so the snapshot is looked at again before and after.
(Source: what Java Paimon 1.4's LocalFileIO was seen to do.)
"""

from __future__ import annotations

from paimon_pyds.errors import CommitOutcomeUnknownError, PaimonError, SnapshotNotFoundError
from paimon_pyds.metadata.snapshot import Snapshot, SnapshotPublisher
from paimon_pyds.metadata.store import TableStore

__all__ = ["FileSystemPublisher", "publisher_of"]


class FileSystemPublisher:
    """A `SnapshotPublisher` that creates snapshot files."""

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        """See `SnapshotPublisher`. False, too, when ``latest`` was replaced by another writer."""
        if not _is_there(store, latest):
            return False
        try:
            return store.try_create_snapshot(snapshot)
        except Exception as error:  # whatever it was, the snapshot may be there
            created = _was_created(store, snapshot)
            if created is None:
                raise CommitOutcomeUnknownError(
                    f"the storage did not say whether snapshot {snapshot.id} was published ({error})",
                    path=store.root,
                    hint="look at the table's snapshots before writing again; the files were kept",
                ) from error
            if not created and not store.snapshot_exists(snapshot.id):
                raise
            return created

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        """See `SnapshotPublisher`. False when the storage tells nothing of another one."""
        try:
            return not _is_same(store.snapshot(snapshot.id), snapshot)
        except (PaimonError, OSError):
            return False


_FILE_SYSTEM = FileSystemPublisher()


def publisher_of(store: TableStore) -> SnapshotPublisher:
    """Who publishes a table's snapshots: the file system, unless the store names another."""
    return store.publisher or _FILE_SYSTEM


def _is_there(store: TableStore, snapshot: Snapshot | None) -> bool:
    """Whether this snapshot is there under its number. Raises PaimonError when the storage doesn't tell."""
    try:
        return snapshot is None or _is_same(store.snapshot(snapshot.id), snapshot)
    except SnapshotNotFoundError:
        return False


def _was_created(store: TableStore, snapshot: Snapshot) -> bool | None:
    """Whether our snapshot is there after all; None when the storage does not answer."""
    try:
        return store.snapshot_exists(snapshot.id) and _is_same(store.snapshot(snapshot.id), snapshot)
    except (PaimonError, OSError):
        return None


def _is_same(there: Snapshot, snapshot: Snapshot) -> bool:
    return there.delta_manifest_list == snapshot.delta_manifest_list
