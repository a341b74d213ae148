"""Expiry, tags, branches and rollback beside writers and readers, one I/O call at a time in any order: what is named
stays readable, and a reader's only error is that of a snapshot that has expired.

A failure tells the seed: ``PAIMON_PYDS_SEED=<seed> PAIMON_PYDS_SCHEDULES=1 pytest -k …`` runs that schedule again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import AlreadyExistsError, CommitError, NotFoundError
from paimon_pyds.metadata.changelogs import expired_changelogs
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.storage import FileStatus
from support.effort import LONG, SEED
from support.live_files import table_files
from support.memory_io import MemoryIO
from support.schedules import ActorIO, Schedule, repeatable

_SCHEDULES = int(os.environ.get("PAIMON_PYDS_SCHEDULES", "5000" if LONG else "6"))
_SCHEMA = pa.schema([("id", pa.int64())])
_ALONE = {"file-operation.thread-num": "1", "manifest.merge-min-count": "2", "write-only": "true"}
_START = 4


class _World:
    """A table whose n-th snapshot has the rows that are noted, and actors on it."""

    def __init__(self, seed: int) -> None:
        self.rng, self.files = random.Random(seed), dict[str, bytes]()
        self.rows: dict[int, list[int]] = {}
        self.changes: dict[int, list[int]] = {}
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
        self.changes[latest + 1] = [] if replacing else [id_]
        table.overwrite(data) if replacing else table.append(data)

    def run(self, seed: int, opened: Callable[[Schedule, int, dict[str, bytes]], ActorIO] | None = None) -> None:
        schedule = Schedule(random.Random(seed), len(self.actors))

        def actor(number: int) -> Callable[[], None]:
            io = opened(schedule, number, self.files) if opened else ActorIO(schedule, number, self.files, None)
            table = pp.Table(TableStore(io, f"/{number}/t"))
            return lambda: self.actors[number](table)

        with repeatable(str(seed)):
            schedule.run([actor(number) for number in range(len(self.actors))])

    def check(self) -> None:
        METADATA_CACHE.clear()
        table = pp.Table(TableStore(MemoryIO(self.files), "/t"))
        assert set(table_files(table._store)) <= set(self.files)
        for name in ("main", *table.branches.list()):
            branch = pp.Table(table._store.for_branch(name))
            for id_ in branch._store.snapshot_ids():
                if name == "main":
                    assert _ids(branch, snapshot=id_) == self.rows[id_], id_
            for tag, snapshot in branch.tags.list().items():
                assert _ids(branch, tag=tag) == self.rows[snapshot.id], (name, tag)


def _ids(table: pp.Table, **scan: object) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


def _expiring(world: _World) -> Callable[[pp.Table], None]:
    keep = [world.rng.randrange(1, 3) for _ in range(3)]

    def run(table: pp.Table) -> None:
        for retain in keep:
            with suppress(CommitError):
                table.snapshots.expire(retain_max=retain)

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
            table.tags.create(name, ids)
            if deleted % 3 == 0:
                table.tags.delete(name)
            elif renamed % 2:
                table.tags.rename(name, f"{name} renamed")
        with suppress(NotFoundError, AlreadyExistsError):
            table.tags.create(name)
            table.branches.create(f"of {name}", name)
            if deleted % 2:
                table.tags.delete(name)

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


def _reading_changes(world: _World) -> Callable[[pp.Table], None]:
    ids = [world.rng.randrange(1, _START + 3) for _ in range(3)]

    def run(table: pp.Table) -> None:
        for id_ in ids:
            with suppress(NotFoundError):
                assert _changes(table, id_) == world.changes[id_]

    return run


def _changes(table: pp.Table, id_: int) -> list[int]:
    return _ids(table, options={"incremental-between": f"{id_ - 1},{id_}"})


def test_changelogs_that_expire_beside_snapshots_tags_and_readers() -> None:
    stay = 5
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        table.alter({"changelog.num-retained.min": "20"})

        def expiring(table: pp.Table) -> None:
            for _ in range(3):
                with suppress(CommitError):
                    table.snapshots.expire_changelogs(retain_max=stay)

        world.actors = [_expiring(world), _writing(world), _reading_changes(world), expiring, _tagging(world, "a")]
        world.run(seed)
        world.check()
        for id_ in range(max(world.rows) - stay + 1, max(world.rows) + 1):
            assert _changes(table, id_) == world.changes[id_], (seed, id_)


def test_tags_that_go_beside_others_and_branches() -> None:
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        table.tags.create("old", 2)
        table.snapshots.expire(retain_max=1)

        def branching(table: pp.Table) -> None:
            with suppress(NotFoundError):
                table.branches.create("b", "old")
                table.tags.create("again", 2)

        def deleting(table: pp.Table) -> None:
            table.tags.delete("old")

        world.actors = [branching, deleting, _expiring(world), _writing(world)]
        world.run(seed)
        world.check()


def test_rollback_beside_a_writer_and_expiry() -> None:
    for seed in range(SEED, SEED + _SCHEDULES):
        METADATA_CACHE.clear()
        world = _World(seed)
        target, done = world.rng.randrange(1, _START), []
        if seed % 2:
            pp.Table(TableStore(MemoryIO(world.files), "/t")).alter({"changelog.num-retained.min": "20"})

        def rolling(table: pp.Table, target: int = target) -> None:
            with suppress(NotFoundError, CommitError):
                table.snapshots.rollback(target)

        def writing(table: pp.Table, done: list[int] = done) -> None:
            for number in range(3):
                with suppress(CommitError):
                    table.append(pa.table({"id": [100 + number]}, _SCHEMA))
                    done.append(100 + number)

        world.actors = [rolling, writing, _expiring(world)]
        world.run(seed)
        METADATA_CACHE.clear()
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        assert set(table_files(table._store)) <= set(world.files), seed
        for id_ in expired_changelogs(table._store):
            assert id_ > target or _changes(table, id_) == world.changes[id_], (seed, id_)
        ids = table._store.snapshot_ids()
        assert ids == list(range(ids[0], ids[-1] + 1)), seed
        rows = _ids(table)
        first = [row for row in rows if row < 100]
        assert first in (world.rows[target], world.rows[_START]), (seed, rows)
        appended = [row for row in rows if row >= 100]
        assert appended == done[len(done) - len(appended) :], (seed, rows, done)


class _AgedIO(ActorIO):
    """The files of the start are old enough to be orphans, all others too young."""

    old: frozenset[str] = frozenset()

    def list(self, path: str) -> list[FileStatus]:
        there = len(f"/{self._actor}")
        return [replace(s, modified_ms=1 if s.path[there:] in self.old else 10**15) for s in super().list(path)]


def test_four_writers_beside_expiry_orphan_removal_branches_and_pinned_readers() -> None:
    for seed in range(SEED, SEED + (3 * _SCHEDULES if LONG else max(_SCHEDULES // 3, 1))):
        METADATA_CACHE.clear()
        world, written = _World(seed), list[int]()
        table = pp.Table(TableStore(MemoryIO(world.files), "/t"))
        table.tags.create("old", 2)
        table.branches.create("b", "old")
        if seed % 2:
            table._store.io.write_bytes(table._store.paths.consumer("reader"), b'{"nextSnapshot":4}')
        table.snapshots.expire(retain_max=3)
        world.actors = [
            *(_appending(number, written) for number in (1000, 2000, 3000, 4000)),
            _expiring(world), _removing_orphans, _pinned(world, seed % 2), _branching(world),
        ]  # fmt: skip
        world.run(seed, partial(_aged, frozenset(world.files)))
        METADATA_CACHE.clear()
        assert set(table_files(table._store)) <= set(world.files), seed
        assert set(written) <= set(_ids(table)), seed
        assert not seed % 2 or _ids(table, snapshot=4) == world.rows[4], seed  # which the consumer reads next
        for name in table.branches.list():
            assert _ids(pp.Table(table._store.for_branch(name))) == world.rows[2], (seed, name)


def _aged(old: frozenset[str], schedule: Schedule, number: int, files: dict[str, bytes]) -> ActorIO:
    io = _AgedIO(schedule, number, files, None)
    io.old = old
    return io


def _appending(first: int, written: list[int]) -> Callable[[pp.Table], None]:
    def run(table: pp.Table) -> None:
        for id_ in (first, first + 1):
            table.append(pa.table({"id": [id_]}, _SCHEMA))
            written.append(id_)

    return run


def _removing_orphans(table: pp.Table) -> None:
    for _ in range(2):
        table.maintenance.remove_orphan_files(1000, dry_run=False)


def _pinned(world: _World, kept: int) -> Callable[[pp.Table], None]:
    """A reader of old snapshots: where a consumer keeps the fourth, only others may expire."""

    def run(table: pp.Table) -> None:
        for id_ in (4, 3, 4, 3):
            try:
                assert _ids(table, snapshot=id_) == world.rows[id_]
            except NotFoundError:
                assert id_ == 3 or not kept
                assert f"/t/snapshot/snapshot-{id_}" not in world.files or _hint(world) > id_
        assert _ids(table, tag="old") == world.rows[2]

    return run


def _hint(world: _World) -> int:
    return int(world.files["/t/snapshot/EARLIEST"])


def _branching(world: _World) -> Callable[[pp.Table], None]:
    order = world.rng.sample(range(3), 3)

    def run(table: pp.Table) -> None:
        name = "b"
        for step in order:
            if step == 0:
                table.branches.rename(name, f"{name} again")
                name = f"{name} again"
            elif step == 1:
                table.branches.create("c", "old")
                table.branches.create("d", "old")
            elif "c" in table.branches.list():
                table.branches.delete("c")

    return run
