"""Drivers of a stream from table to table that are killed at any step: each is a process that makes the calls of Spark,
keeps its checkpoint on disk and kills itself. And what must be there in the end."""

from __future__ import annotations

import os
import pickle
import random
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.spark import PaimonDataSource, compat
from paimon_pyds.storage.local import LocalFileIO
from support.stream_engine import Engine
from support.victims import fork_server

STEPS = ("offset", "consumer", "task", "commit", "log")
"""Those of a micro-batch: the offset is planned and logged, the consumer of the one before is stored, tasks write, the
table's commit with all that follows it, Spark's commit log."""
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitions": {"partition_by": "p"},
    "key": {"primary_key": "id", "options": {"bucket": "2"}},
    "dynamic": {"primary_key": "id"},
}
"""The tables that are written, by what `Table.create` gets."""
_OTHERS = 1_000_000
"""The first id of the other writer."""
_OPERATIONS = (
    "read_bytes", "read_range", "read_ranges", "open_input", "open_output", "exists", "list", "make_dir",
    "create_if_absent", "write_bytes", "replace", "delete", "rename",
)  # fmt: skip


class _Death:
    """Kills this process in the ``turn``-th step of a name: before or after the operation on files of some number, or
    at the end of the step if it has fewer."""

    def __init__(self, step: str, turn: int, operation: int) -> None:
        self._step, self._turn, self._left = step, turn, operation
        self._is_near = False

    def begin(self, step: str) -> None:
        """A step begins, and the one before ends."""
        if self._is_near:
            self._kill()
        self._turn -= step == self._step
        self._is_near = self._turn < 0
        self._pass()

    def guard(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """An operation around which it comes."""

        @wraps(method)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._pass()
            result = method(*args, **kwargs)
            self._pass()
            return result

        return guarded

    def _pass(self) -> None:
        if self._is_near:
            self._left -= 1
            if self._left < 0:
                self._kill()

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class _Driver(Engine):
    """A query with its checkpoint on disk."""

    def __init__(self, root: Path, source: dict[str, str], sink: dict[str, str], death: _Death, *, old: bool) -> None:
        loaded = PaimonDataSource(source)
        self._schema = loaded.schema()
        super().__init__(lambda: pickle.loads(pickle.dumps(loaded)).streamReader(self._schema), old=old)
        self._root, self._options, self._death = root, sink, death
        self.offsets = [path.read_text() for path in log(root, "offsets")]
        self.committed = len(log(root, "commits"))
        death.begin("offset")

    def plan(self, offset: str) -> None:
        _note(self._root / "offsets" / str(len(self.offsets)), offset)
        super().plan(offset)

    def tell(self, reader: Any, offset: dict[str, Any]) -> None:
        self._death.begin("consumer")
        super().tell(reader, offset)

    def sink(self, number: int, partitions: list[list[pa.RecordBatch]]) -> None:
        self._death.begin("task")
        writer = pickle.dumps(self._writer())
        messages = [pickle.loads(writer).write(iter(batches)) for batches in partitions]
        self._death.begin("commit")
        self._writer().commit(pickle.loads(pickle.dumps(messages)), number)

    def done(self, number: int) -> None:
        self._death.begin("log")
        _note(self._root / "commits" / str(number), "")
        self._death.begin("offset")
        super().done(number)

    def _writer(self) -> Any:
        return PaimonDataSource(self._options).streamWriter(schema=self._schema, overwrite=False)


def log(root: Path, name: str) -> list[Path]:
    """The files of a log of the checkpoint, by their numbers."""
    return sorted((root / name).glob("[0-9]*"), key=lambda path: int(path.name))


def _note(path: Path, text: str) -> None:
    path.with_name(".new").write_text(text)
    path.with_name(".new").rename(path)


def drive(root: Path, source: dict[str, str], sink: dict[str, str], death: tuple[str, int, int], old: bool) -> None:
    """Run micro-batches until there is nothing new, or to death."""
    found = _Death(*death)
    for name in _OPERATIONS:
        setattr(LocalFileIO, name, found.guard(getattr(LocalFileIO, name)))
    compat.task_setting = lambda _: "query"
    _Driver(root, source, sink, found, old=old).run()


class KilledStream:
    """A stream between two tables under `drive`, with other writers of both, compactions and expiry."""

    def __init__(self, root: Path, kind: str, seed: int, *, has_limits: bool) -> None:
        self.random, self.root, self._has_limits = random.Random(f"{kind} {seed}"), root, has_limits
        self.is_keyed = "primary_key" in KINDS[kind]
        columns, few = "id BIGINT, p BIGINT, v BIGINT", {"snapshot.num-retained.min": "1"}
        of_source = {"primary_key": "id", "options": {"changelog-producer": "input", **few}} if self.is_keyed else {}
        self.source = pp.Table.create(root / "source", columns, **of_source)
        options = {**few, **KINDS[kind].get("options", {})}
        self.sink = pp.Table.create(root / "sink", columns, **{**KINDS[kind], "options": options})
        self._kinds = {"rowkind-column": "kind"} if self.is_keyed else {}
        for name in ("offsets", "commits"):
            (root / name).mkdir()
        self.others: dict[int, int] = {}
        self.kills: Counter[str] = Counter()
        self.forgotten = self._number = 0

    def run(self, *, killed: bool = True) -> None:
        """One run of a driver."""
        step = self.random.choice(STEPS) if killed else ""
        death = (step, self.random.randrange(3), self.random.choice([0, self.random.randrange(90)]))
        source = {"path": self.source.path, "consumer-id": "job", "read.stream.maxFilesPerTrigger": "3", **self._kinds}
        old = not self._has_limits or self.random.random() < 0.5
        arguments = (self.root, source, {"path": self.sink.path, **self._kinds}, death, old)
        process = fork_server("support.stream_driver", "pyarrow.parquet").Process(target=drive, args=arguments)
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), (step, process.exitcode)
        if process.exitcode:
            self.kills[step] += 1

    def work(self) -> None:
        """What others do between two runs; and somebody removes the last entry of Spark's commit log by hand."""
        for _ in range(self.random.randrange(1, 4)):
            self.source.append([self._row(self._next_id()) for _ in range(self.random.randrange(1, 5))])
        if self.is_keyed and self.random.random() < 0.5:
            self.source.delete(f"id = {self.random.randrange(30)}")
        row = self._row(_OTHERS + self.random.randrange(50) if self.is_keyed else _OTHERS + self._number)
        self.sink.append([row])
        self.others[row["id"]] = row["v"]
        match self.random.randrange(5):
            case 0:
                self.sink.compact(full=True)
            case 1 | 2:
                for table in (self.sink, *([self.source] if self.source.maintenance.consumers() else [])):
                    table.snapshots.expire(retain_max=1, retain_min=1, older_than=timedelta(0))
            case 3:
                self.sink.maintenance.remove_orphan_files(timedelta(0))
        commits = log(self.root, "commits")
        if commits and len(commits) == len(log(self.root, "offsets")) and self.random.random() < 0.3:
            commits[-1].unlink()
            self.forgotten += 1

    def _next_id(self) -> int:
        self._number += 1
        return self.random.randrange(30) if self.is_keyed else self._number

    def _row(self, id_: int) -> dict[str, int]:
        self._number += 1
        return {"id": id_, "p": id_ % 3, "v": self._number}

    def check(self) -> None:
        """The sink has each row of the source once, and those of the other writer."""
        for _ in range(2):  # before Spark 4.2 a first run may only repeat a micro-batch
            self.run(killed=False)
        found = Counter((row["id"], row["v"]) for row in self.sink.to_arrow().to_pylist())
        rows = [(row["id"], row["v"]) for row in self.source.to_arrow().to_pylist()]
        assert found == Counter([*rows, *self.others.items()])
