"""Streams whose process is killed again and again, beside another writer, compactions and expiry; and what the table
has to have then."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import paimon_pyds as pp
from support.faults_io import AFTER, BEFORE, HALF, FaultyIO, opened

KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitions": {"partition_by": "p"},
    "key": {"primary_key": "id", "options": {"bucket": 2}},
    "key in partitions": {"primary_key": "id, p", "partition_by": "p", "options": {"bucket": 1}},
    "dynamic": {"primary_key": "id"},
    "crossing": {"primary_key": "id", "partition_by": "p"},
}
"""The tables, by what `Table.create` gets."""
_OTHERS = 1_000_000
"""Added to the ids of the other writer."""


class StreamWorld:
    """A stream of random commits into a table, and a model of its rows: versions by key, or all rows."""

    def __init__(self, path: Path, kind: str, seed: int) -> None:
        self.path, self.kind, self.random = path, kind, random.Random(seed)
        options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 5, **KINDS[kind].get("options", {})}
        pp.Table.create(path, "id BIGINT, p INT, v BIGINT", **{**KINDS[kind], "options": options})
        self.rows: list[tuple[int, int, int]] = []
        self.kills = self.repeats = 0
        self._version = 0

    @property
    def has_key(self) -> bool:
        return "primary_key" in KINDS[self.kind]

    def commit(self, number: int) -> None:
        """One commit, tried until it is known to be made, by a new process after each kill."""
        rows, repeated = self._new_rows(), self.random.random() < 0.3
        while not self._tried(number, rows):
            self._beside()
        if repeated:  # its answer was lost
            while not self._tried(number, rows):
                pass
        self._apply(rows)
        self._beside()

    def check(self) -> None:
        """The table has each row once, and nothing is left over but what killed processes left."""
        table = pp.Table.open(self.path)
        found = Counter((row["id"], row["p"], row["v"]) for row in table.scan().to_arrow().to_pylist())
        assert found == Counter(self.rows), (self.kind, found - Counter(self.rows), Counter(self.rows) - found)

    def _tried(self, number: int, rows: list[tuple[int, int, int]]) -> bool:
        """Whether the commit returned; else the process was killed at some moment."""
        killed = self.random.random() < 0.6
        at, mode = self.random.randrange(90), self.random.choice([BEFORE, AFTER, HALF])
        io = FaultyIO(at if killed else None, mode, lambda _: KeyboardInterrupt(), "down")
        rows = self.random.sample(rows, len(rows)) if not self.has_key else rows
        cut = self.random.randrange(len(rows) + 1)
        with suppress(KeyboardInterrupt), opened(io, self.path).stream_writer("stream") as writer:
            for part in (rows[:cut], rows[cut:]):
                writer.write({name: [row[i] for row in part] for i, name in enumerate(("id", "p", "v"))})
            self.repeats += writer.commit(number).committed_before
            return io.failed is None
        self.kills += io.failed is not None
        return False

    def _beside(self) -> None:
        """What others do meanwhile."""
        table = pp.Table.open(self.path)
        match self.random.randrange(8):
            case 0 | 1:
                rows = [(id_ + _OTHERS, p, v) for id_, p, v in self._new_rows()]
                table.append([dict(zip(("id", "p", "v"), row, strict=True)) for row in rows])
                self._apply(rows)
            case 2:
                table.snapshots.expire(retain_max=1, retain_min=1, older_than=timedelta(0))
            case 3:
                table.compact(full=self.random.random() < 0.5)
            case 4:
                table.maintenance.remove_orphan_files(timedelta(0))

    def _new_rows(self) -> list[tuple[int, int, int]]:
        found = []
        for id_ in self.random.sample(range(40), self.random.randrange(1, 12)):
            self._version += 1
            p = self.random.randrange(3) if "crossing" in self.kind else id_ % 3
            found.append((id_, p, self._version))
        return found

    def _apply(self, rows: list[tuple[int, int, int]]) -> None:
        if self.has_key:
            new = {row[0]: row for row in rows}
            self.rows = [row for row in self.rows if row[0] not in new] + [*new.values()]
        else:
            self.rows += rows
