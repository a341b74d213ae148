"""Spark's micro-batches without Spark: the calls that it makes of a stream reader, of 4.0 and of 4.2, in their order.

Logs of PySpark 4.0 to 4.3 show: before 4.2 ``latestOffset()`` comes first, and has no arguments; after a
restart a batch that was planned and not committed is done again, from an offset in the checkpoint, by a reader that has
computed nothing; offsets are compared as texts; ``commit`` comes when the next batch is made.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_pyds.engine.stream import StreamPosition
from support.follower_world import ALL, FollowerWorld


class Crash(Exception):
    """The driver is gone."""


class Engine:
    """A query with its checkpoint. ``open_reader``: makes a reader, as a process of Spark does. ``old``: before 4.2."""

    def __init__(self, open_reader: Callable[[], Any], *, old: bool) -> None:
        self._open, self._old = open_reader, old
        self.offsets: list[str] = []
        self.committed = 0
        self.batches: dict[int, list[list[dict[str, Any]]]] = {}
        """The rows of each batch, a list for each partition."""

    def run(self, *, once: bool = False, crash_at: str = "", available_now: bool = True) -> None:
        """One run, until there is nothing new. ``crash_at``: ``planned``, ``read`` or ``committed``: raise Crash there,
        in the first batch that is new."""
        reader = self._open()
        if available_now and hasattr(reader, "prepareForTriggerAvailableNow") and not self._old:
            reader.prepareForTriggerAvailableNow()
        if self.committed < len(self.offsets):
            self._batch(reader, "")
        elif self.offsets and self._old:
            assert reader.partitions(*2 * (json.loads(self.offsets[-1]),)) == []
        while True:
            text = json.dumps(self._latest(reader))
            if self.offsets and text == self.offsets[-1]:
                return
            self.plan(text)
            if len(self.offsets) > 1:
                self.tell(reader, json.loads(self.offsets[-2]))
            self._batch(reader, crash_at)
            if once:
                return

    def _latest(self, reader: Any) -> dict[str, Any]:
        if self._old:
            found: dict[str, Any] = reader.latestOffset()
            if not self.offsets:
                assert reader.initialOffset() == reader.initialOffset()
            return found
        limit = reader.getDefaultReadLimit()
        start = json.loads(self.offsets[-1]) if self.offsets else json.loads(json.dumps(reader.initialOffset()))
        found = reader.latestOffset(start, limit)
        reader.reportLatestOffset()
        return found

    def _batch(self, reader: Any, crash_at: str) -> None:
        number = len(self.offsets) - 1
        if crash_at == "planned":
            raise Crash
        start = json.loads(self.offsets[number - 1]) if number else reader.initialOffset()
        partitions = reader.partitions(start, json.loads(self.offsets[number]))
        task = pickle.loads(pickle.dumps(self._open()))
        planned = pickle.loads(pickle.dumps(partitions))
        self.sink(number, [[], *(list(task.read(partition)) for partition in planned)])
        if crash_at == "read":
            raise Crash
        self.done(number)
        if crash_at == "committed":
            raise Crash

    def plan(self, offset: str) -> None:
        """Note the end of the next batch."""
        self.offsets.append(offset)

    def tell(self, reader: Any, offset: dict[str, Any]) -> None:
        """Tell the source of a batch that is committed."""
        reader.commit(offset)

    def sink(self, number: int, partitions: list[list[pa.RecordBatch]]) -> None:
        """Take the rows of a batch."""
        rows = [[row for batch in part for row in batch.to_pylist()] for part in partitions]
        found, before = (Counter(map(str, chain(*parts))) for parts in (rows, self.batches.get(number, rows)))
        assert found == before, "a repeated batch has the same rows"
        self.batches[number] = rows

    def done(self, number: int) -> None:
        """Note that a batch is committed."""
        self.committed = number + 1

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all batches, in their order; the partitions of one backwards, as their tasks have no order."""
        return [row for number in sorted(self.batches) for part in reversed(self.batches[number]) for row in part]


class SparkFollowerWorld(FollowerWorld):
    """The follower is a query of Spark, whose driver is killed again and again.

    ``open_query``: gives the query of some options, an `Engine` or what has its methods.
    """

    def __init__(self, root: Path, kind: str, seed: int, open_query: Callable[[dict[str, str]], Any]) -> None:
        self._open_query = open_query
        super().__init__(root, kind, seed)

    def start(self) -> None:
        options = {"path": self.table.path, "rowkind-column": "kind", **self.stream_options}
        if self.consumer:
            options |= {"consumer-id": self.consumer, "consumer.ignore-progress": "true"}
        limit = self.random.choice(["", "maxRowsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger"])
        if limit:
            options[f"read.stream.{limit}"] = str(self.random.choice([1, 3, 10, 5_000]))
        self._query, self._applied, self.position = self._open_query(options), 0, None

    def read(self, most: int) -> None:
        query, before = self._query, None
        while most > 0 and (len(query.offsets), query.committed) != before:
            before = len(query.offsets), query.committed
            with suppress(Crash):
                query.run(once=most < ALL, crash_at=self.random.choice(["", "", "", "planned", "read", "committed"]))
                most -= 1
            for number in range(self._applied, query.committed):
                self.apply_rows([row for part in reversed(query.batches[number]) for row in part])
            self._applied = query.committed
            if query.offsets:
                self.position = self._reached(query.offsets, query.committed)

    def _reached(self, offsets: list[str], committed: int) -> str:
        if committed:
            return offsets[committed - 1]
        first = StreamPosition.from_json(offsets[0])
        return replace(first, next=first.start, splits=0, plan="").to_json()
