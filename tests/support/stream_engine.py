"""Spark's micro-batches without Spark: the calls that it makes of a stream reader, of 4.0 and of 4.2, in their order.

Logs of PySpark 4.0 to 4.3 show: before 4.2 ``latestOffset()`` comes first, and has no arguments; after a
restart a batch that was planned and not committed is done again, from an offset in the checkpoint, by a reader that has
computed nothing; offsets are compared as texts; ``commit`` comes when the next batch is made.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

import paimon_pyds as pp


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
            self.offsets.append(text)
            if len(self.offsets) > 1:
                reader.commit(json.loads(self.offsets[-2]))
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
        rows = [list[dict[str, Any]](), *([] for _ in partitions)]
        for at, partition in enumerate(pickle.loads(pickle.dumps(partitions)), 1):
            batches = list(task.read(partition))
            rows[at] = pa.Table.from_batches(batches).to_pylist() if batches else []
        self.batches[number] = rows
        if crash_at == "read":
            raise Crash
        self.committed = number + 1
        if crash_at == "committed":
            raise Crash

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all batches, in their order; the partitions of one backwards, as their tasks have no order."""
        return [row for number in sorted(self.batches) for part in reversed(self.batches[number]) for row in part]


class KeyTable:
    """A table with a primary key under random operations."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.rng, self.n = rng, 0
        self.producer = rng.choice(["input", "none"])
        options = {"bucket": str(rng.choice([-1, 1, 2])), "changelog-producer": self.producer, "write-only": "true"}
        self.table = pp.Table.create(path, "id INT, n INT", primary_key="id", options=options)

    def step(self) -> None:
        choice = self.rng.random()
        if choice < 0.75:
            self.table.append([self.row(k=self.rng.choice(["+I", "+U", "-D"])) for _ in range(3)], rowkind_column="k")
        elif choice < 0.85:
            self.table.compact(full=True)
        elif self.producer == "none":
            self.table.overwrite([self.row()])

    def row(self, **more: Any) -> dict[str, Any]:
        self.n += 1
        return {"id": self.rng.randrange(6), "n": self.n, **more}


def state_after(changes: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """What changes with the columns id, n and kind make of a table without rows: n by id."""
    state: dict[int, int] = {}
    for row in changes:
        if row["kind"] in ("+I", "+U"):
            state[row["id"]] = row["n"]
        else:
            state.pop(row["id"], None)
    return state
