"""Following a table: an endless iterator of its changes, for loops and for asyncio."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import one_line
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.engine.stream.changes import ChangeStream
from paimon_pyds.engine.stream.limits import Limits
from paimon_pyds.engine.stream.plans import digest
from paimon_pyds.engine.stream.position import StreamPosition, snapshot_identity
from paimon_pyds.engine.stream.read import read_in_order, read_splits_in_order
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.snapshot import Snapshot

_STEP = Limits(max_snapshots=1_000)
"""Snapshots that are planned together."""
_CONFIRM_SECONDS = 1.0
"""Pause between two writes of a consumer, within a step."""


class Change(RowStream):
    """Some rows that one snapshot brought.

    Attributes:
        batch: the rows.
        snapshot: the number of the snapshot; of the state that a stream starts with, that of the state.
        position: the place after these rows: `Table.follow` goes on from it.
    """

    def __init__(self, batch: pa.RecordBatch, snapshot: int, position: StreamPosition) -> None:
        self.batch, self.snapshot, self.position = batch, snapshot, position

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.batch.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, as one batch."""
        yield self.batch

    def __len__(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def __repr__(self) -> str:
        return one_line(self, f"snapshot {self.snapshot}", counted(len(self), "row"))


@dataclass(frozen=True, slots=True)
class Until:
    """Where following ends; by default nowhere.

    Attributes:
        newest: with the snapshot that is the newest as it starts.
        snapshot: with this one.
        millis: with the last one that was made until this time, milliseconds since the epoch.
    """

    newest: bool = False
    snapshot: int | None = None
    millis: int | None = None


class Follow:
    """The changes of a table, as they come: made by `Table.follow`.

    Iterate it with ``for`` or with ``async for``; only one of them at a time. Between two changes it waits for the next
    snapshot. It may be stopped at any change, and gone on with from that change's position: nothing is lost, and
    nothing comes twice.
    """

    def __init__(
        self,
        stream: ChangeStream,
        position: StreamPosition,
        *,
        until: Until | None = None,
        poll_seconds: float = 5.0,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        self._stream, self._position = stream, position
        self._until, self._poll, self._batch_rows = until or Until(), poll_seconds, batch_rows
        self._lock = threading.Lock()
        self._step: Generator[Change, None, StreamPosition] | None = None
        self._ready: Change | None = None
        """Read, and not given to anybody yet."""
        self._given: StreamPosition | None = None
        """After the last change that was given; confirmed once the caller wants the next one."""
        self._confirmed: tuple[int, float] = (position.next, float("-inf"))
        self._newest: StreamPosition | None = None
        self._ended = False

    def __repr__(self) -> str:
        return one_line(self, self._stream.root, repr(self._position))

    @property
    def position(self) -> StreamPosition:
        """The place after the last change that was given."""
        return self._position

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of all batches."""
        return self._stream.arrow_schema

    # ------------------------------------------------------------------------------------ for

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        while (change := self.try_next()) is None:
            if self._ended:
                raise StopIteration
            time.sleep(self.pause)
        return change

    def try_next(self) -> Change | None:
        """The next change if there is one now; else None, and then `ended` says whether one may come.

        Raises:
            SnapshotNotFoundError, SchemaError: as `Table.follow`.
        """
        change = self._advance()
        return None if change is None else self._give(change)

    @property
    def ended(self) -> bool:
        """Whether no change comes any more."""
        return self._ended

    @property
    def pause(self) -> float:
        """Seconds to wait before the next look for a change."""
        if self._until.millis is None:
            return self._poll
        return max(0.001, min(self._poll, self._until.millis / 1000 - time.time() + 0.001))

    def close(self) -> None:
        """Stop: files that are open are closed. The last change that was given is not confirmed to a consumer."""
        with self._lock:
            self._ended = True
            if self._step is not None:
                self._step.close()
                self._step = None

    def __enter__(self) -> Follow:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ async for

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            change = await asyncio.to_thread(self._advance)
            if change is not None:
                return self._give(change)
            if self._ended:
                raise StopAsyncIteration
            await asyncio.sleep(self.pause)

    async def aclose(self) -> None:
        """The same as `close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Follow:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # ------------------------------------------------------------------------------------ steps

    def _give(self, change: Change) -> Change:
        self._ready = None
        self._position = self._given = change.position
        return change

    def _advance(self) -> Change | None:
        """The next change; None while nothing is new, or at the end. A change that nobody took is given again."""
        with self._lock:
            if self._ready is not None or self._ended:
                return self._ready
            if self._given is not None:
                self._confirm(self._given)
                self._given = None
            self._stream.refresh_consumer()
            while True:
                if self._step is None and not self._begin_step():
                    return None
                assert self._step is not None
                try:
                    self._ready = next(self._step)
                except StopIteration as end:
                    self._step, self._position = None, end.value
                    self._confirm(self._position, at_once=True)
                    continue
                except BaseException:
                    self._step = None  # the next attempt begins at the position
                    raise
                return self._ready

    def _begin_step(self) -> bool:
        """Whether there is news, which a step then reads."""
        newest = self._end()
        end = self._stream.end(self._position, _STEP, newest)
        if end != self._position:
            self._step = _Step(self._stream, self._position, end, self._batch_rows).changes()
            return True
        self._ended = self._is_over(newest)
        return False

    def _end(self) -> StreamPosition | None:
        """The position not to go beyond, where that is known already."""
        until = self._until
        if self._newest is not None:
            return self._newest
        if until.snapshot is not None:
            self._newest = replace(self._position, next=until.snapshot + 1, splits=0, rows=0)
        elif until.newest:
            self._newest = self._stream.newest(self._position)
        elif until.millis is not None and time.time() * 1000 > until.millis:
            self._newest = self._stream.end_at(self._position, until.millis)
        return self._newest

    def _is_over(self, newest: StreamPosition | None) -> bool:
        reached = newest is not None and self._position.place >= newest.place
        return reached or self._stream.is_finished(self._position)

    def _confirm(self, position: StreamPosition, *, at_once: bool = False) -> None:
        snapshot, moment = self._confirmed
        if position.next != snapshot and (at_once or time.monotonic() - moment >= _CONFIRM_SECONDS):
            self._stream.confirm(position)
            self._confirmed = position.next, time.monotonic()


class _Rows(NamedTuple):
    """Rows of one snapshot, or of one split of a state."""

    batch: pa.RecordBatch
    snapshot: int
    split: int


class _Step:
    """Reads from one position to another, and gives each batch with the position after it."""

    def __init__(self, stream: ChangeStream, start: StreamPosition, end: StreamPosition, batch_rows: int) -> None:
        self.start, self.end, self._rows, self._batch_rows = start, end, stream.rows, batch_rows
        self._threads = os.cpu_count() or 1
        self.plans = list(stream.plans(start, end))
        self._of_state = self.plans.pop(0) if start.reads_state else None
        self._snapshots: dict[int, Snapshot] = {one.id: one for plan in self.plans for one in plan.of}
        if self._of_state is not None:
            self._snapshots[start.start] = self._of_state.of[0]
        self._digests: dict[int, str] = {}
        if start.rows and start.plan != self._plan_of(start.next):
            raise OptionError(
                f"the stream was left inside of snapshot {start.next}, which is read from other files now",
                path=stream.root,
                hint="go on with the filter and the options that it had",
            )

    def changes(self) -> Generator[Change, None, StreamPosition]:
        """The changes; returns the end."""
        held: _Rows | None = None
        given, unit = self.start.rows, (self.start.next, self.start.splits)
        for rows in self._after(self.start.rows):
            if held is not None:
                yield Change(
                    held.batch, held.snapshot, self._past(held) if rows[1:] != unit else self._inside(held, given)
                )
            given, unit = (given if rows[1:] == unit else 0) + rows.batch.num_rows, rows[1:]
            held = rows
        if held is not None:
            yield Change(held.batch, held.snapshot, self.end)
        return self.end

    def _after(self, skip: int) -> Iterator[_Rows]:
        """All rows but the first ``skip``."""
        for rows in self._all():
            if skip < rows.batch.num_rows:
                yield rows._replace(batch=rows.batch.slice(skip)) if skip else rows
            skip = max(0, skip - rows.batch.num_rows)

    def _all(self) -> Iterator[_Rows]:
        state = self._of_state
        if state is not None:
            first = self.start.splits
            for batch, split in read_splits_in_order(state, self._rows, self._batch_rows, self._threads, first):
                yield _Rows(batch, self.start.start, split)
        for plan in self.plans:
            for batch, numbers in read_in_order(plan, self._rows, self._batch_rows, self._threads):
                bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
                for begin, stop in pairwise(bounds):
                    yield _Rows(batch.slice(begin, stop - begin), int(numbers[begin]), 0)

    def _past(self, rows: _Rows) -> StreamPosition:
        """The position after the last rows of a snapshot or split."""
        state = self._of_state
        if state is not None and rows.snapshot == self.start.next and rows.split + 1 < len(state.splits):
            return self.start.inside(rows.split + 1, 0, self._plan_of(rows.snapshot))
        return self.start.after(self._snapshots[rows.snapshot])

    def _inside(self, rows: _Rows, given: int) -> StreamPosition:
        return self._at(rows).inside(rows.split, given, self._plan_of(rows.snapshot))

    def _at(self, rows: _Rows) -> StreamPosition:
        """The position before the first row of a snapshot."""
        if rows.snapshot == self.start.next:
            return self.start
        before = self._snapshots.get(rows.snapshot - 1)
        last = "" if before is None else snapshot_identity(before)
        return replace(self.start, next=rows.snapshot, splits=0, rows=0, plan="", last=last)

    def _plan_of(self, snapshot: int) -> str:
        """Identifies the files of a snapshot, or of the state."""
        if snapshot not in self._digests:
            plans = [self._of_state] if self._of_state and snapshot == self.start.start else self.plans
            self._digests[snapshot] = digest(plans, self._snapshots[snapshot], self._rows.drop)
        return self._digests[snapshot]
