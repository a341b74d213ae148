"""Expiry, tags, branches and rollback beside writers and readers, one I/O call at a time in any order: what is named
stays readable, and a reader's only error is that of a snapshot that has expired.

A failure tells the seed: ``PAIMON_PYDS_SEED=<seed> PAIMON_PYDS_SCHEDULES=1 pytest -k …`` runs that schedule again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
from schedules import ActorIO, Schedule, repeatable

import paimon_pyds as pp
from paimon_pyds.ddl.create import TableDefinition, create_table
from paimon_pyds.errors import AlreadyExistsError, CommitError, NotFoundError
from paimon_pyds.execution.live_files import table_files
from paimon_pyds.metadata.store import METADATA_CACHE, TableStore
from paimon_pyds.types import from_arrow_schema
from support.effort import LONG, SEED
from support.memory_io import MemoryIO

_SCHEDULES = int(os.environ.get("PAIMON_PYDS_SCHEDULES", "5000" if LONG else "20"))
_SCHEMA = pa.schema([("id", pa.int64())])
_ALONE = {"file-operation.thread-num": "1", "manifest.merge-min-count": "2", "write-only": "true"}
_START = 4


class _World:
    """A table whose n-th snapshot has the rows that are noted, and actors on it."""

    def __init__(self, seed: int) -> None:
        self.rng, self.files = random.Random(seed), dict[str, bytes]()
        self.rows: dict[int, list[int]] = {}
        fields = from_arrow_schema(_SCHEMA)
        table = pp.Table(create_table(MemoryIO(self.files), "/t", TableDefinition(fields, (), (), _ALONE)))
        for number in range(_START):
            self.write(table, number, replacing=number == 2)
        self.actors: list[Callable[[pp.Table], None]] = []

    def write(self, table: pp.Table, id_: int, *, replacing: bool) -> None:
        """Only one actor does; what a snapshot shows is noted before it can be seen."""
        data = pa.table({"id": [id_]}, _SCHEMA)
        latest = max(self.rows, default=0)
        self.rows[latest + 1] = [id_] if replacing else [*self.rows.get(latest, []), id_]
        table.overwrite(data) if replacing else table.append(data)

    def run(self, seed: int) -> None:
        schedule = Schedule(random.Random(seed), len(self.actors))

        def actor(number: int) -> Callable[[], None]:
            io = ActorIO(schedule, number, self.files, None)
            table = pp.Table(TableStore(io, f"/{number}/t"))
            return lambda: self.actors[number](table)

        with repeatable(str(seed)):
            schedule.run([actor(number) for number in range(len(self.actors))])

    def check(self) -> None:
        METADATA_CACHE.clear()
        table = pp.Table(TableStore(MemoryIO(self.files), "/t"))
        assert set(table_files(table.store)) <= set(self.files)
        for name in ("main", *table.branches()):
            branch = pp.Table(table.store.for_branch(name))
            for id_ in branch.store.snapshot_ids():
                if name == "main":
                    assert _ids(branch, snapshot=id_) == self.rows[id_], id_
            for tag, snapshot in branch.tags().items():
                assert _ids(branch, tag=tag) == self.rows[snapshot.id], (name, tag)


def _ids(table: pp.Table, **scan: object) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


def _expiring(world: _World) -> Callable[[pp.Table], None]:
    keep = [world.rng.randrange(1, 3) for _ in range(3)]

    def run(table: pp.Table) -> None:
        for retain in keep:
            with suppress(CommitError):
                table.expire_snapshots(retain_max=retain)

    return run


def _writing(world: _World) -> Callable[[pp.Table], None]:
    replacing = [world.rng.random() < 0.4 for _ in range(3)]

    def run(table: pp.Table) -> None:
        for number, all_ in enumerate(replacing):
            world.write(table, 100 + number, replacing=all_)

    return run


def _tagging(world: _World, name: str) -> Callable[[pp.Table], None]:
    ids, deleted, renamed = (world.rng.randrange(1, _START + 3) for _ in range(3))

    def run(table: pp.Table) -> None:
        with suppress(NotFoundError):
            table.create_tag(name, ids)
            if deleted % 3 == 0:
                table.delete_tag(name)
            elif renamed % 2:
                table.rename_tag(name, f"{name} renamed")
        with suppress(NotFoundError, AlreadyExistsError):
            table.create_tag(name)
            table.create_branch(f"of {name}", name)
            if deleted % 2:
                table.delete_tag(name)

    return run


def _reading(world: _World) -> Callable[[pp.Table], None]:
    ids = [world.rng.randrange(1, _START + 2) for _ in range(2)]

    def run(table: pp.Table) -> None:
        for id_ in ids:
            with suppress(NotFoundError):
                assert _ids(table, snapshot=id_) == world.rows[id_]
        with suppress(NotFoundError):  # the newest may be an old one when it is read
            assert _ids(table) in world.rows.values()

    return run


def test_expiry_beside_writers_tags_and_readers() -> None:
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        world.actors = [_expiring(world), _writing(world), _tagging(world, "a"), _reading(world), _expiring(world)]
        world.run(seed)
        world.check()


def test_tags_that_go_beside_others_and_branches() -> None:
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        table.create_tag("old", 2)
        table.expire_snapshots(retain_max=1)

        def branching(table: pp.Table) -> None:
            with suppress(NotFoundError):
                table.create_branch("b", "old")
                table.create_tag("again", 2)

        def deleting(table: pp.Table) -> None:
            table.delete_tag("old")

        world.actors = [branching, deleting, _expiring(world), _writing(world)]
        world.run(seed)
        world.check()


def test_rollback_beside_a_writer_and_expiry() -> None:
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        target, done = world.rng.randrange(1, _START), []

        def rolling(table: pp.Table, target: int = target) -> None:
            with suppress(NotFoundError, CommitError):
                table.rollback(target)

        def writing(table: pp.Table, done: list[int] = done) -> None:
            for number in range(3):
                with suppress(CommitError):
                    table.append(pa.table({"id": [100 + number]}, _SCHEMA))
                    done.append(100 + number)

        world.actors = [rolling, writing, _expiring(world)]
        world.run(seed)
        METADATA_CACHE.clear()
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        assert set(table_files(table.store)) <= set(world.files), seed
        ids = table.store.snapshot_ids()
        assert ids == list(range(ids[0], ids[-1] + 1)), seed
        rows = _ids(table)
        first = [row for row in rows if row < 100]
        assert first in (world.rows[target], world.rows[_START]), (seed, rows)
        appended = [row for row in rows if row >= 100]
        assert appended == done[len(done) - len(appended) :], (seed, rows, done)
