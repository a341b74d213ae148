"""The seam through which snapshots are published: by the file system (`paimon_pyds.commit.publisher`), or by who else
decides which snapshot is a table's latest, such as a REST catalog or an object store with conditional writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from paimon_pyds.metadata.snapshot import Snapshot

if TYPE_CHECKING:
    from paimon_pyds.metadata.store import TableStore

__all__ = ["SnapshotPublisher"]


class SnapshotPublisher(Protocol):
    """Makes snapshots visible, one at a time. It pickles, as stores do."""

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        """Make a snapshot the latest of its branch, in one atomic step; False when another commit was faster.

        Args:
            store: names the table and the branch.
            snapshot: its number is the next after ``latest``; all files that it names are written.
            latest: the snapshot that it was built on; None for a table's first.

        Raises:
            CommitOutcomeUnknownError: it may have been published.
            PaimonError: it was not published.
        """

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        """Whether there is another snapshot in the place of one that `publish` has published."""
