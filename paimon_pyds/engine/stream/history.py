"""The snapshots that follow a position, and whether the table is still the one that the position is of."""

from __future__ import annotations

from paimon_pyds.engine.scan.travel import changing
from paimon_pyds.engine.stream.position import StreamPosition, snapshot_identity
from paimon_pyds.engine.stream.start import created_anew, table_identity
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.metadata.changelogs import changelogs
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

_LOOKS = 16
"""Polls without news after which it is looked whether the table was rolled back, or snapshots have expired."""


class History:
    """The snapshots of a stream. A poll without news is one small request.

    ``changelog``: whether changes are those of changelogs, which may outlive their snapshots.
    """

    def __init__(self, store: TableStore, *, changelog: bool) -> None:
        self.store = store
        self._changelog = changelog
        self._polls = 0
        self._found: dict[int, Snapshot] = {}
        """What `following` found last: a step that reads up to there need not look for it once more."""

    def following(self, position: StreamPosition, last: int | None = None) -> list[Snapshot]:
        """The snapshots from ``position.next`` on that are there, up to ``last`` (None: the newest).

        Raises SnapshotNotFoundError: they expired, the table was rolled back behind the position, or created anew.
        """
        if last is not None and last < position.next:
            return []
        looks, is_there = self._polls % _LOOKS == 0, self.store.snapshot_exists(position.next)
        self._polls = 1 if is_there else self._polls + 1
        found = self._checked(position, last) if is_there or looks else []
        self._found = {snapshot.id: snapshot for snapshot in found}
        return found

    def first(self, position: StreamPosition) -> Snapshot | None:
        """The snapshot whose state a stream starts with; None where nothing was committed. Raises as `following`."""
        for snapshot in self.store.snapshots_among([position.start]):
            if position.last and snapshot_identity(snapshot) != position.last:
                raise self.rolled_back(position, position.start - 1)
            return snapshot
        latest = self.store.latest_snapshot_id() or 0
        if latest >= position.start:
            raise self.expired(position.start)
        if position.last:
            raise self.rolled_back(position, latest)
        return None

    def between(self, position: StreamPosition, end: int) -> list[Snapshot]:
        """The snapshots from ``position.next`` to ``end``, all of them. Raises as `following`."""
        if position.next in self._found and end in self._found:
            return [self._found[id_] for id_ in range(position.next, end + 1)]
        found = self._checked(position, end)
        if len(found) < end + 1 - position.next:
            raise self.rolled_back(position, end)
        return found

    def check(self, position: StreamPosition) -> int:
        """The number of the newest snapshot, 0 without any. Raises SnapshotNotFoundError: it was rolled back behind
        the position, or created anew."""
        if table_identity(self.store, position.schema) != position.table:
            raise created_anew(self.store)
        latest, next_ = self.store.latest_snapshot_id() or 0, position.next
        if next_ > latest + 1 or (position.plan and next_ > latest):
            raise self.rolled_back(position, latest)
        self._check_before(position)
        return latest

    def _checked(self, position: StreamPosition, last: int | None) -> list[Snapshot]:
        latest, next_ = self.check(position), position.next
        if next_ > latest:
            return []
        try:
            return changing(self.store, next_, latest if last is None else min(last, latest), self._changelog)
        except SnapshotNotFoundError as error:
            raise self.expired(next_) from error

    def _check_before(self, position: StreamPosition) -> None:
        """Compare the snapshots that were read last with those of these numbers now, where these are still there, or
        have left a changelog."""
        read = {position.next: position.plan.partition(" ")[0]}
        if not position.reads_state:
            read[position.next - 1] = position.last
        ids = [id_ for id_, identity in read.items() if identity]
        there = self.store.snapshots_among(ids)
        left = changelogs(self.store, [id_ for id_ in ids if all(id_ != found.id for found in there)])
        for found in (*there, *left):
            if snapshot_identity(found) != read[found.id]:
                raise self.rolled_back(position, found.id - 1)

    def expired(self, id_: int) -> SnapshotNotFoundError:
        """The error for a snapshot that has expired, or the one before it, which its overwrite needs."""
        return SnapshotNotFoundError(
            f"snapshot {id_}, which the stream reads next, has expired: the earliest is "
            f"{self.store.earliest_snapshot_id()}",
            path=self.store.root,
            hint="the changes in between are lost to this stream: start a new one, with scan.mode=latest-full to read "
            "the table again; a consumer-id, or a longer snapshot.time-retained or changelog.time-retained, keeps what "
            "a stream still needs",
        )

    def rolled_back(self, position: StreamPosition, to: int) -> SnapshotNotFoundError:
        """The error for a table that was rolled back, to snapshot ``to`` or before."""
        return SnapshotNotFoundError(
            f"the table was rolled back to snapshot {to} or before, and the stream has read more ({position!r})",
            path=self.store.root,
            hint="what the stream gave has changes that the table no longer has: start a new one, with "
            "scan.mode=latest-full to read the table again, or with scan.snapshot-id to go on from a snapshot",
        )
