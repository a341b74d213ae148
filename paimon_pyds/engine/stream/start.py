"""Where a stream starts: its options, resolved once to a snapshot and whether the state of it is read first.

Source: Paimon documentation, maintenance/configurations (``scan.mode``); Java Paimon 1.4, class AbstractDataTableScan
and the starting scanners. Other than there, a tag starts a stream with the state that it keeps, and a start later than
the next snapshot is refused at once. A start that has expired is replaced by the earliest that is left, as in Java.
"""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import replace
from typing import Any

from paimon_pyds.base.options import Kind, parse_value
from paimon_pyds.base.options.times import parse_time
from paimon_pyds.engine.stream.options import CREATED, StreamOptions
from paimon_pyds.engine.stream.position import StreamPosition, snapshot_identity
from paimon_pyds.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.metadata.changelogs import changelogs, expired_changelogs, is_delta
from paimon_pyds.metadata.consumers import read_consumer
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore

_ID, _TAG, _TIME, _MILLIS = "scan.snapshot-id", "scan.tag-name", "scan.timestamp", "scan.timestamp-millis"
_BATCH_ONLY = ("scan.watermark", "scan.version")
_FULL_COMMITS = "full-compaction.delta-commits"


def table_identity(store: TableStore, schema_id: int) -> str:
    """Identifies a table: its schema of that number says when it was made. Raises SnapshotNotFoundError: the table has
    no such schema, so it was created anew, or dropped."""
    try:
        data = store.io.read_bytes(store.paths.schema(schema_id))
    except FileNotFoundError as error:
        raise created_anew(store) from error
    return hashlib.sha256(data).hexdigest()[:16]


def created_anew(store: TableStore) -> SnapshotNotFoundError:
    """The error for a stream whose table is another one now."""
    return SnapshotNotFoundError(
        "the table was dropped and created anew since the stream started",
        path=store.root,
        hint="start a new stream: without the stored position or checkpoint, and with another consumer-id",
    )


def starting_position(store: TableStore, schema: TableSchema, options: StreamOptions) -> StreamPosition:
    """Where a stream with these options starts. Reads metadata only, and changes nothing.

    ``store``: of the branch to read. ``schema``: the table's newest.

    Raises:
        OptionError: contradictory options.
        SnapshotNotFoundError, TagNotFoundError: no such start.
    """
    return _Start(store, schema, options).position()


class _Start:
    def __init__(self, store: TableStore, schema: TableSchema, options: StreamOptions) -> None:
        self.store, self.schema, self.options = store, schema, options
        self.newest = store.latest_snapshot()

    def position(self) -> StreamPosition:
        resumed = self._of_consumer()
        if resumed is not None:
            return resumed
        given = self.options.start
        for key in _BATCH_ONLY:
            if key in given:
                raise OptionError(f"a stream can't start from {key}", hint=f"name {_ID}, {_TAG} or {_TIME}")
        mode = self._mode()
        if CREATED in given and mode != "from-file-creation-time":
            raise OptionError(f"scan.mode={mode} and {CREATED} can't be given together", hint="leave one out")
        return self._of_mode(mode)

    def _of_mode(self, mode: str) -> StreamPosition:
        given = self.options.start
        match mode:
            case "latest-full":
                return self._full(self.newest)
            case "latest":
                return self._changes(1 if self.newest is None else self.newest.id + 1)
            case "compacted-full":
                return self._full(self._compacted())
            case "from-timestamp":
                return self._changes(self._first_since(self._millis()))
            case "from-snapshot" | "from-snapshot-full" if _TAG in given:
                tag = self.store.tag(given[_TAG])
                return self._full(tag, tag=given[_TAG])
            case "from-snapshot":
                return self._changes(self._from_snapshot())
            case "from-snapshot-full":
                return self._state_from()
            case "from-file-creation-time":
                return self._full(self.newest, created=self._long(CREATED))
        raise UnsupportedError(f"a stream can't start with scan.mode={mode}", hint=_MODES)

    def _mode(self) -> str:
        """The mode; ``default`` is what the other options say, as in Java."""
        given = self.options.start
        mode = given.get("scan.mode", "default").strip().lower().replace("_", "-")
        if mode == "full":
            return "latest-full"
        if mode != "default":
            if mode == "from-file-creation-time" and CREATED not in given:
                raise OptionError(f"scan.mode={mode} needs {CREATED}")
            return mode
        if _TIME in given or _MILLIS in given:
            return "from-timestamp"
        if _ID in given or _TAG in given:
            return "from-snapshot"
        return "from-file-creation-time" if CREATED in given else "latest-full"

    def _of_consumer(self) -> StreamPosition | None:
        """Where the consumer of ``consumer-id`` goes on; None without one, or where it has not read yet."""
        consumer = self.options.all.get("consumer-id")
        if consumer is None or self.options.all.get("consumer.ignore-progress"):
            return None
        try:
            next_, previous, _ = read_consumer(self.store, consumer)
        except FileNotFoundError:
            return None
        last = 0 if self.newest is None else self.newest.id
        resumed = self._changes(next_)
        is_another = bool(previous and resumed.last and previous != resumed.last)
        if next_ > last + 1 or is_another:
            found = f"snapshot {next_ - 1} is another one now" if is_another else f"the newest is {last}"
            raise SnapshotNotFoundError(
                f"consumer {consumer} reads snapshot {next_} next, and {found}: the table was rolled back or created "
                "anew",
                path=self.store.root,
                hint="table.maintenance.reset_consumer sets it back; consumer.ignore-progress=true starts anew",
            )
        earliest = self._earliest()
        if next_ < earliest:
            raise SnapshotNotFoundError(
                f"consumer {consumer} reads snapshot {next_} next, which has expired: the earliest is {earliest}",
                path=self.store.root,
                hint="table.maintenance.reset_consumer sets it; consumer.ignore-progress=true starts anew",
            )
        return replace(resumed, last=previous or resumed.last)

    def _begin(self, start: int, **more: Any) -> StreamPosition:
        return StreamPosition(
            table_identity(self.store, self.schema.id), self.schema.id, more.pop("first"), start, start, **more
        )

    def _full(self, snapshot: Snapshot | None, **more: Any) -> StreamPosition:
        """The state of a snapshot first; of the first one to come in a table without snapshots."""
        if snapshot is None:
            return self._begin(1, first="full", **more)
        return self._begin(snapshot.id, first="full", plan="", last=snapshot_identity(snapshot), **more)

    def _changes(self, start: int) -> StreamPosition:
        before = self.store.snapshots_among([start - 1])
        return self._begin(start, first="changes", last=snapshot_identity(before[0]) if before else "")

    def _from_snapshot(self) -> int:
        start, last = self._long(_ID), 0 if self.newest is None else self.newest.id
        if start > last + 1:
            raise SnapshotNotFoundError(
                f"there is no snapshot {start} yet: the next one is {last + 1}", path=self.store.root
            )
        return max(start, self._earliest())

    def _state_from(self) -> StreamPosition:
        start = self._long(_ID)
        earliest = self.store.earliest_snapshot_id() or start
        return self._full(self.store.snapshot(max(start, earliest)))

    def _earliest(self) -> int:
        """The earliest snapshot whose changes can be read, of those that expired too."""
        earliest = self.store.earliest_snapshot_id()
        if earliest is None:
            return 1
        ids = expired_changelogs(self.store)
        if self.options.all.get("changelog-producer") == "none":
            for left in reversed(changelogs(self.store, ids)):
                if not is_delta(self.store, left):
                    break
                earliest = left.id
            return earliest
        return ids[0] if ids else earliest

    def _first_since(self, millis: int) -> int:
        """The first snapshot that was made at a time or later; the next one where all are older."""
        if self.newest is None:
            return 1
        before = self.store.newest_until(millis - 1)
        if before is not None:
            return before.id + 1
        earliest = self.store.earliest_snapshot_id() or 1
        ids = range(self._earliest(), earliest)

        def made(id_: int) -> int:
            return next((found.time_millis for found in changelogs(self.store, [id_])), 0)

        return next(iter(ids[bisect.bisect_left(ids, millis, key=made) :]), earliest)

    def _compacted(self) -> Snapshot | None:
        """The newest snapshot that a compaction left, else the newest."""
        options = self.options.all
        every = options.get(_FULL_COMMITS)
        scheduled = options.get("changelog-producer") == "full-compaction" or every is not None
        for id_ in reversed(self.store.snapshot_ids()):
            for found in self.store.snapshots_among([id_]):
                identifier = found.commit_identifier
                is_full = not scheduled or identifier == 2**63 - 1 or identifier % (every or 1) == 0
                if found.commit_kind is CommitKind.COMPACT and is_full:
                    return found
        return self.newest

    def _millis(self) -> int:
        given = self.options.start
        if _MILLIS in given:
            return self._long(_MILLIS)
        return parse_time(_TIME, given[_TIME], self.options.zone)

    def _long(self, key: str) -> int:
        number: int = parse_value(key, Kind.LONG, self.options.start[key])
        return number


_MODES = (
    "there are latest-full, latest, compacted-full, from-timestamp, from-snapshot, from-snapshot-full and "
    "from-file-creation-time"
)
