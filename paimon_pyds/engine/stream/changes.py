"""ChangeStream: the changes of a table from one position to another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from paimon_pyds.engine.query import blob_views
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import pack, pack_sections
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.engine.stream.columns import StreamColumns
from paimon_pyds.engine.stream.history import History
from paimon_pyds.engine.stream.limits import NO_LIMITS, Limits, Taken
from paimon_pyds.engine.stream.options import StreamOptions
from paimon_pyds.engine.stream.plans import PlannedChanges, digest, planned_changes, planned_state, state_request
from paimon_pyds.engine.stream.position import StreamPosition, snapshot_identity
from paimon_pyds.engine.stream.read import ChangeRows, ChangeSplit, place_of
from paimon_pyds.engine.stream.start import created_anew, starting_position, table_identity
from paimon_pyds.errors import OptionError, PaimonError, SchemaError, SnapshotNotFoundError
from paimon_pyds.metadata.consumers import (
    Consumer,
    consumer_others,
    read_consumer,
    retaining_consumer,
    write_consumer,
)
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import Split
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const, Predicate

_REFRESH_SECONDS = 3600.0
"""Age at which stored progress is written again: one small file in an hour. A shorter ``consumer.expiration-time`` is
divided by four, so that a write or two may fail."""


class ChangeStream:
    """The changes of a table, and first its state if the start says so.

    Planning is separate from reading: `end` says how far a next step goes, `splits` what it reads. Positions are all
    that is remembered; a stream of another process goes on from one.

    Args:
        store: the table, of the branch to read; ``branch`` among the options names another.
        where: Spark SQL text, or a predicate; it acts on each row of a change by itself.
        columns: names of the columns to return, in this order; all when None.
        options: Paimon's options of streams, and ``timezone`` for literals without a zone.
        kind_column: the name of a column of row kinds, which comes first; None for rows without kinds.
        other_kinds: what to do with rows of other kinds than +I where there is no such column: ``refuse`` or ``drop``.
        schema_id: read by the columns of this schema; the newest when None.
        position: where the stream goes on: it is read by the columns that the table had at the start.

    Raises:
        OptionError: an unknown or contradictory option.
        PredicateError, SchemaError: a condition that does not parse, a column that does not exist.
        UnsupportedError: a table, or an option, of which there are no streams.
    """

    def __init__(  # noqa: PLR0913 - named arguments that users type
        self,
        store: TableStore,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        kind_column: str | None = None,
        other_kinds: str = "refuse",
        schema_id: int | None = None,
        position: StreamPosition | None = None,
    ) -> None:
        given = dict(options or {})
        branch = str(given.pop("branch", store.branch))
        self._store = store if branch == store.branch else store.for_branch(branch)
        latest = self._store.latest_schema()
        self.options = StreamOptions(latest, given, store.root)
        if position is not None:
            if table_identity(self._store, position.schema) != position.table:
                raise created_anew(self._store)
            schema_id = position.schema
        self.schema: TableSchema = latest if schema_id is None else self._store.schema(schema_id)
        """The columns that are read."""
        if other_kinds not in ("refuse", "drop"):
            raise OptionError(f"other_kinds is refuse or drop, not {other_kinds!r:.80}")
        self._columns = StreamColumns(self.schema, columns, where, self.options.zone)
        if kind_column is not None and any(field.name.lower() == kind_column.lower() for field in self.schema.fields):
            raise SchemaError(f"the table has a column {kind_column!r}: row kinds need another name")
        self.rows = ChangeRows(self._columns.fields, kind_column, other_kinds == "drop")
        """What the rows of the result are made of."""
        self._changelog = bool(self.schema.primary_keys) and self._option("changelog-producer") != "none"
        self._request = ScanRequest(
            state=TableState(None, self.schema),
            predicate=self._columns.predicate,
            fields=self._columns.fields,
            options=self.options.all,
            waiting=not self._changelog and self._option("bucket") == POSTPONE_BUCKET,
            zone=self.options.zone,
            find_views=blob_views.places,
        )
        self._overwrites = self._option(
            "streaming-read-overwrite" if self.schema.primary_keys else "streaming-read-append-overwrite"
        )
        self._history = History(self._store, changelog=self._changelog)
        self._moved_at: float | None = None
        self._retained = 0
        """The snapshot that the second consumer keeps, if this process stored it."""
        self._refresh_at = 0.0

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that splits give."""
        return self.rows.arrow_schema

    @property
    def root(self) -> str:
        """The table's path."""
        return self._store.root

    def start(self) -> StreamPosition:
        """Where the options say that the stream starts. Raises as `start.starting_position`."""
        self._begin()
        return starting_position(self._store, self._store.latest_schema(), self.options)

    # ------------------------------------------------------------------------------------ how far

    def end(
        self, position: StreamPosition, limits: Limits = NO_LIMITS, newest: StreamPosition | None = None
    ) -> StreamPosition:
        """The position up to which a next step reads; ``position`` itself while there is nothing new.

        A call without news costs one small request.

        Args:
            position: where the step begins.
            limits: how much it reads.
            newest: where the stream ends for now, as `newest` gives it: not to go beyond it.

        Raises:
            SnapshotNotFoundError: the next snapshot has expired, the table was rolled back behind the position, or it
                was created anew.
            SchemaError: the next snapshot has dropped a column that is read, or given it another type.
        """
        self._begin()
        if newest is not None and newest.place <= position.place:
            return position
        taken = Taken(limits)
        reached = self._state_end(position, taken)
        if not reached.reads_state:
            reached = self._changes_end(position, reached, taken, None if newest is None else newest.next - 1)
        if reached == position:
            return position
        if taken.waits(self._moved_at):
            return position
        self._moved_at = time.monotonic()
        return reached

    def newest(self, position: StreamPosition) -> StreamPosition:
        """The position after the newest snapshot, for the argument ``newest`` of `end`: a step that can't get there
        raises what is in its way. Raises SnapshotNotFoundError: the table was rolled back behind the position, or
        created anew."""
        self._begin()
        latest = self._history.check(position)
        if latest < position.next:
            return position
        return position.after(self._store.snapshot(latest))

    def end_at(self, position: StreamPosition, millis: int) -> StreamPosition:
        """The position before the first snapshot that was made after a time, milliseconds since the epoch; the state
        that the stream starts with comes before it. Raises as `end`."""
        self._begin()
        if position.reads_state:
            first = self._first_snapshot(position)
            if first is None:
                return position
            position = position.after(first)
        for snapshot in self._history.following(position):
            if snapshot.time_millis > millis:
                break
            position = position.after(snapshot)
        return position

    def is_finished(self, position: StreamPosition) -> bool:
        """Whether the stream ends here: the next snapshot has a later watermark than ``scan.bounded.watermark``, or the
        state that it started with has."""
        bound = self._option("scan.bounded.watermark")
        if bound is None or position.reads_state:
            return False
        ids = [position.next]
        if position.first == "full" and position.next == position.start + 1:
            ids.append(position.start)
        return any(self._is_beyond(snapshot, bound) for snapshot in self._store.snapshots_among(ids))

    def _state_end(self, position: StreamPosition, taken: Taken) -> StreamPosition:
        """How far the state is read that the stream starts with; the position itself where it is not there yet, or
        read already."""
        if not position.reads_state:
            return position
        snapshot = self._first_snapshot(position)
        if snapshot is None:
            return position
        if not taken.limits.counts:
            return position.after(snapshot)
        planned = self._state(snapshot, position)
        number = position.splits
        while number < len(planned.splits):
            split = planned.splits[number]
            if not taken.take(len(split.files), split.size, split.row_count):
                return position.inside(number, 0, self._digest(planned))
            number += 1
        return position.after(snapshot)

    def _changes_end(
        self, position: StreamPosition, reached: StreamPosition, taken: Taken, last: int | None
    ) -> StreamPosition:
        bound, delay = self._option("scan.bounded.watermark"), self._option("streaming.read.snapshot.delay")
        if bound is not None and self.is_finished(reached):
            return reached
        most = taken.limits.max_snapshots
        if most is not None:
            last = min(reached.next + most - 1, reached.next + most if last is None else last)
        newest: Snapshot | None = None
        for snapshot in self._history.following(reached, last):
            if bound is not None and self._is_beyond(snapshot, bound):
                break
            if delay is not None and snapshot.time_millis > time.time() * 1000 - delay:
                break
            misfit = self._unreadable(snapshot)
            if misfit is not None:
                if newest is None and reached == position:
                    raise misfit
                break
            if taken.limits.counts and not taken.take(*self._weight(snapshot)):
                break
            newest = snapshot
        return reached if newest is None else reached.after(newest)

    def _weight(self, snapshot: Snapshot) -> tuple[int, int, int]:
        """The files, bytes and rows that a snapshot brings."""
        files = size = rows = 0
        for planned in planned_changes(
            self._store, replace(self._request, predicate=Const.TRUE), [snapshot],
            changelog=self._changelog, overwrites=self._overwrites,
        ):  # fmt: skip
            files += len(planned.files)
            size += sum(file.size for file in planned.files)
            rows += sum(file.row_count for file in planned.files)
        return files, size, rows

    def _is_beyond(self, snapshot: Snapshot, bound: int) -> bool:
        return snapshot.watermark is not None and snapshot.watermark > bound

    # ------------------------------------------------------------------------------------ what is read

    def splits(self, start: StreamPosition, end: StreamPosition, *, by_bucket: bool = False) -> list[ChangeSplit]:
        """What a step reads; of equal positions nothing, without a request.

        Args:
            start: where it begins; not inside of the rows of a snapshot or split.
            end: a later position of the same stream.
            by_bucket: in a table with a primary key, all changes of a bucket are in one split, in the order of
                snapshots, so that splits may be read side by side; else splits follow one another in that order.

        Raises:
            OptionError: the positions are of different streams, or not in this order.
            SnapshotNotFoundError, SchemaError: as `end`.
        """
        if start == end:
            return []
        if start.rows or end.rows:
            raise OptionError("a position inside of a snapshot's rows is for table.follow only")
        found = []
        for planned in self.plans(start, end):
            if planned.of[0].id == start.next and start.reads_state:
                last = end.splits if end.reads_state else len(planned.splits)
                found += [
                    ChangeSplit(planned.splits[number], planned.snapshots, planned.kind_of(number), self.rows)
                    for number in range(start.splits, last)
                ]
                continue
            keyed = by_bucket and planned.kind is None
            found += [ChangeSplit(*part, planned.kind, self.rows) for part in self._packed(planned, keyed)]
        return found

    def plans(self, start: StreamPosition, end: StreamPosition) -> Iterator[PlannedChanges]:
        """The same as plans, one after the other. The state that the stream starts with is the first, and whole."""
        self._begin()
        same = (start.table, start.start, start.first) == (end.table, end.start, end.first)
        if not same or start.place > end.place:
            raise OptionError("the positions are not of one stream, or the end comes before the start")
        if start.reads_state:
            snapshot = self._first_snapshot(start)
            if snapshot is None:
                raise SnapshotNotFoundError(f"there is no snapshot {start.start} yet", path=self.root)
            yield self._state(snapshot, start, end)
            if end.reads_state:
                return
            start = start.after(snapshot)
        if end.next > start.next:
            snapshots = self._history.between(start, end.next - 1)
            if end.last and snapshot_identity(snapshots[-1]) != end.last:
                raise self._history.rolled_back(end, end.next - 2)
            for snapshot in snapshots:
                if (misfit := self._unreadable(snapshot)) is not None:
                    raise misfit
            yield from planned_changes(
                self._store, self._request, snapshots, changelog=self._changelog, overwrites=self._overwrites
            )

    def _state(self, snapshot: Snapshot, *positions: StreamPosition) -> PlannedChanges:
        """The state that the stream starts with. Raises OptionError: a position is inside, and counts other splits."""
        planned = planned_state(self._store, state_request(self._request, snapshot), positions[0].created)
        inside = {position.plan for position in positions if position.reads_state and position.plan}
        if inside and inside != {self._digest(planned)}:
            raise OptionError(
                f"the stream was left inside of the state of snapshot {snapshot.id}, which is read in other splits now",
                path=self.root,
                hint="go on with the filter and the options that it had, until that state is read; or start a new "
                "stream, which reads the state again",
            )
        return planned

    def _digest(self, state: PlannedChanges) -> str:
        return digest([state], state.of[0], self.rows.drop)

    def _packed(self, planned: PlannedChanges, keyed: bool) -> Iterator[tuple[Split, tuple[int, ...]]]:
        """The files in splits of about ``source.split.target-size``."""
        if len(planned.splits) > 1 or len(planned.snapshots) <= 1:
            for split in planned.splits:
                yield split, planned.snapshots
            return
        size, cost = self._option("source.split.target-size"), self._option("source.split.open-file-cost")
        number_of = dict(zip(planned.files, planned.snapshots, strict=True))
        files = list(planned.files)
        groups = pack(files, size, cost)
        if keyed:
            place = place_of(files)
            files.sort(key=place)
            buckets = groupby(files, key=place)
            groups = pack_sections((bucket for _, bucket in buckets), size, cost)
        for group in groups:
            yield Split.of(planned.spec, group), tuple(number_of[file] for file in group)

    def _first_snapshot(self, position: StreamPosition) -> Snapshot | None:
        """The snapshot whose state the stream starts with; None where it is not there yet. Raises SchemaError: since
        the columns were chosen, one was dropped or got another type."""
        snapshot = self._store.tag(position.tag) if position.tag else self._history.first(position)
        misfit = None if snapshot is None else self._columns.misfit(self._store, snapshot.schema_id)
        if misfit is not None:
            raise misfit
        return snapshot

    # ------------------------------------------------------------------------------------ progress

    def confirm(self, position: StreamPosition) -> None:
        """Say that all up to a position is processed, be it the start: the consumer of ``consumer-id``, if any, stores
        it, and what comes next does not expire.

        A stream may need one snapshot that is earlier than a consumer may name: a second consumer, ``ID.retained``,
        does. It is that whose state the stream starts with, as nobody could go on from its changes; later the one
        before the next, by which a rollback is noticed, and which has the rows that an overwrite replaces.
        """
        consumer = self._option("consumer-id")
        if consumer is None:
            return
        needed = max(position.next - (not position.reads_state), 1)
        if needed != self._retained:
            write_consumer(self._store, retaining_consumer(consumer), Consumer(needed))
            self._retained = needed
        if not position.reads_state:
            others = consumer_others(self._store, consumer)
            write_consumer(self._store, consumer, Consumer(position.next, position.last, others))

    def refresh_consumer(self) -> None:
        """Write the consumer's progress again if that was not done for some time: ``consumer.expiration-time`` removes
        consumers by the age of their files, and a stream without news is not gone. To be called at each look.

        (Source: Java Paimon's Flink reader, which writes its consumer at each checkpoint.)
        """
        consumer, now = self._option("consumer-id"), time.monotonic()
        if consumer is None or now < self._refresh_at:
            return
        expiration = self._option("consumer.expiration-time")
        self._refresh_at = now + min(_REFRESH_SECONDS, float("inf") if expiration is None else expiration / 4000)
        for name in (consumer, retaining_consumer(consumer)):
            with suppress(FileNotFoundError):
                write_consumer(self._store, name, read_consumer(self._store, name))

    # ------------------------------------------------------------------------------------ helpers

    def _begin(self) -> None:
        self._store = self._history.store = self._store.again()

    def _option(self, key: str) -> Any:
        return self.options.all.get(key)

    def _unreadable(self, snapshot: Snapshot) -> PaimonError | None:
        """The error for a snapshot that can't be read: for its schema, or because files are gone that it replaced."""
        replaces = self._overwrites and self.schema.primary_keys and snapshot.commit_kind is CommitKind.OVERWRITE
        if replaces and snapshot.id > 1 and not self._store.snapshot_exists(snapshot.id - 1):
            return self._history.expired(snapshot.id)
        return self._columns.misfit(self._store, snapshot.schema_id)
