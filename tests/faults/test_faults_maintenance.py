"""One fault anywhere in an operation, or the end of its process: the states that were to stay show the rows that they
had, and the operation, run again, finishes."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.execution.live_files import snapshot_files
from paimon_pyds.errors import AlreadyExistsError, NotFoundError, PaimonError
from paimon_pyds.metadata.changelogs import expired_changelogs
from paimon_pyds.metadata.intents import finish_expiry
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.ops.maintenance.clone import CloneOptions, clone
from paimon_pyds.ops.maintenance.tag_creation import create_due_tags
from support.effort import LONG, sampled
from support.faults_io import AFTER, BEFORE, DOWN, HALF, HARMLESS, FaultyIO
from support.live_files import table_files
from support.maintenance import files_there, is_exact, named_only, rows_of

_SCHEMA = pa.schema([("id", pa.int64())])


def _make(path: Path) -> pp.Table:
    options = {"deletion-vectors.enabled": "true", "file-operation.thread-num": "1", "write-only": "true"}
    table = pp.Table.create(path, _SCHEMA, options=options)
    for number in range(3):
        table.append(pa.table({"id": [number, 10 + number]}, _SCHEMA))
    table.tags.create("old", 2)
    table.delete("id = 1")
    table.compact(full=True)
    table.branches.create("b", "old")
    branch = pp.Table.open(path, branch="b")
    branch.append(pa.table({"id": [100]}, _SCHEMA))
    branch.compact(full=True)
    branch.tags.delete("old")
    table.append(pa.table({"id": [50]}, _SCHEMA))
    table.tags.create("new")
    return table


def _make_partitioned(path: Path) -> pp.Table:
    schema = pa.schema([("day", pa.int32()), ("id", pa.int64())])
    options = {"file-operation.thread-num": "1", "write-only": "true"}
    table = pp.Table.create(path, schema, partition_by=["day"], options=options)
    for number in range(2):
        table.append(pa.table({"day": [1, 2, 3], "id": [number, 10 + number, 20 + number]}, schema))
    table.tags.create("old", 1)
    table.maintenance.mark_partitions_done({"day": 1})
    return table


def _longer_changelogs(table: pp.Table) -> None:
    table.alter({"changelog.num-retained.min": "20"})


def _expired_changelogs(table: pp.Table) -> None:
    _longer_changelogs(table)
    table.snapshots.expire(retain_max=2)


def _expired_tag(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=1)


def _short_tags(table: pp.Table) -> None:
    """One has outlived its time, and its snapshot has expired."""
    table.tags.create("short", 3, retain="1 ms")
    table.snapshots.expire(retain_max=1)


def _make_tags(table: pp.Table) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    create_due_tags(table._store, TableOptions({**table.options, **options}))


def _orphans(table: pp.Table) -> None:
    table.snapshots.rollback(4)
    for part in ("bucket-0/data-x.parquet", "manifest/manifest-x-0"):
        table._store.io.write_bytes(f"{table.path}/{part}", b"x")
    time.sleep(0.002)  # a file of this very millisecond counts as new


def _damaged_index(table: pp.Table) -> None:
    table.alter({"file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "1 b"})
    table.index.build()
    table.snapshots.expire(retain_max=1)
    latest = table.snapshots.latest()
    assert latest is not None
    Path(min(path for path in snapshot_files(table._store, latest) if path.endswith(".index"))).unlink()


def _dangling_hints(table: pp.Table) -> None:
    for hint in (table._store.paths.latest_hint, table._store.paths.earliest_hint):
        table._store.io.replace(hint, b"99")


def _killed_expiry(table: pp.Table) -> None:
    """Its data files are gone, and no more than these."""
    copy = Path(f"{table.path}_copy")
    shutil.copytree(table.path, copy)
    METADATA_CACHE.clear()
    _expire_on(io := FaultyIO(), copy)
    shutil.rmtree(copy)
    METADATA_CACHE.clear()
    with pytest.raises(PaimonError):
        _expire_on(FaultyIO(io.done.index("delete"), AFTER, forever="down"), Path(table.path))


def _purge(table: pp.Table) -> None:
    table.maintenance.purge(table.path.rpartition("/")[2], named_states=True)


def _expire_on(io: FaultyIO, path: Path) -> None:
    pp.Table(TableStore(io, str(path))).snapshots.expire(retain_max=2)


_ALL_PARTITIONS = {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
_OPERATIONS: dict[str, tuple[Callable[[pp.Table], object], Callable[[pp.Table], object]]] = {
    # name: what comes before, the operation
    "expire": (lambda t: None, lambda t: t.snapshots.expire(retain_max=2)),
    "expire but changelogs": (_longer_changelogs, lambda t: t.snapshots.expire(retain_max=2)),
    "expire changelogs": (_expired_changelogs, lambda t: t.snapshots.expire_changelogs(everything=True)),
    "expire some changelogs": (_expired_changelogs, lambda t: t.snapshots.expire_changelogs(retain_max=5)),
    "rollback of changelogs": (_expired_changelogs, lambda t: t.snapshots.rollback("old")),
    "delete tag before changelogs": (_expired_changelogs, lambda t: t.tags.delete("old")),
    "purge of changelogs": (_expired_changelogs, _purge),
    "create tag": (lambda t: None, lambda t: t.tags.create("x", 3)),
    "replace tag": (_expired_tag, lambda t: t.tags.create("old", replace=True)),
    "rename tag": (lambda t: None, lambda t: t.tags.rename("old", "older")),
    "delete tag": (_expired_tag, lambda t: t.tags.delete("old")),
    "create branch": (lambda t: None, lambda t: t.branches.create("c", "old")),
    "delete branch": (_expired_tag, lambda t: t.branches.delete("b")),
    "fast forward": (lambda t: None, lambda t: t.branches.fast_forward("b")),
    "rollback": (lambda t: None, lambda t: t.snapshots.rollback(4)),
    "compact manifests": (lambda t: None, lambda t: t.maintenance.compact_manifests()),
    "analyze": (lambda t: None, lambda t: t.maintenance.statistics() or t.maintenance.analyze()),
    "purge": (lambda t: None, _purge),
    "truncate": (lambda t: None, lambda t: t.truncate()),
    "drop partitions": (lambda t: None, lambda t: t.maintenance.drop_partitions([{"day": 1}, {"day": 3}])),
    "mark partitions": (lambda t: None, lambda t: t.maintenance.mark_partitions_done([{"day": 1}, {"day": 2}])),
    "expire partitions": (lambda t: None, lambda t: t.maintenance.expire_partitions(options=_ALL_PARTITIONS)),
    "expire tags": (_short_tags, lambda t: t.tags.expire()),
    "automatic tags": (lambda t: None, _make_tags),
    "rename branch": (lambda t: None, lambda t: t.branches.rename("b", "c")),
    "orphans": (_orphans, lambda t: t.maintenance.remove_orphan_files("0 s", dry_run=False)),
    "repair an index": (_damaged_index, lambda t: t.maintenance.repair()),
    "repair": (_dangling_hints, lambda t: t.maintenance.repair()),
    "repair a killed expiry": (_killed_expiry, lambda t: t.maintenance.repair()),
    "set consumer": (lambda t: t.maintenance.reset_consumer("c", 2), lambda t: t.maintenance.reset_consumer("c", 4)),
    "forget consumers": (lambda t: t.maintenance.reset_consumer("c", 2), lambda t: t.maintenance.clear_consumers()),
    "rollback to a tag": (_expired_tag, lambda t: t.snapshots.rollback("old")),
}  # fmt: skip
_INTERRUPTED = "interrupted"
"""By Ctrl-C, before the call has an effect or after it: that passes by what catches errors."""
_MODES = (BEFORE, AFTER, HALF, DOWN, _INTERRUPTED)
_REMOVING = ("expire", "purge", "repair a killed")
"""What makes snapshots, or what these have changed, unreadable before they are gone."""
_FINISHED = (AlreadyExistsError, NotFoundError)
"""What an operation says that has been done."""


def _states(table: pp.Table) -> dict[tuple[str, str, object], list[str]]:
    """What each state that can be named shows; those that expire just now can't be read any more."""
    found: dict[tuple[str, str, object], list[str]] = {}
    for name in ("main", *table.branches.list()):
        branch = pp.Table.open(table.path, branch=name)
        found[name, "latest", None] = rows_of(branch)
        found[name, "consumers", None] = [f"{id_}: {next_}" for id_, next_ in branch.maintenance.consumers().items()]
        found |= {(name, "tag", tag): rows_of(branch, tag=tag) for tag in branch.tags.list()}
        for id_ in branch._store.snapshot_ids():
            try:
                found[name, "snapshot", id_] = rows_of(branch, snapshot=id_)
            except NotFoundError:
                found[name, "snapshot", id_] = []
        if "changelog.num-retained.min" not in branch.options:
            continue
        for id_ in (*expired_changelogs(branch._store), *branch._store.snapshot_ids()):
            try:
                found[name, "changes", id_] = rows_of(branch, options={"incremental-between": f"{id_ - 1},{id_}"})
            except NotFoundError:
                found[name, "changes", id_] = []
    return found


def _through_snapshots(name: str, states: dict[tuple[str, str, object], list[str]]) -> list[list[str]]:
    """What the newest state may be while newer snapshots go, one by one."""
    if not name.startswith(("rollback", "fast")):
        return []
    return [rows for state, rows in states.items() if state[:2] == ("main", "snapshot")]


def _marked(path: Path) -> dict[str, dict[str, int]]:
    """The partitions that are marked as done, and what their marks say."""
    return {mark.parent.name: json.loads(mark.read_bytes()) for mark in path.glob("*/_SUCCESS")}


@dataclass
class _Case:
    """An operation, and the states of its table before and after it, in directories of these names."""

    name: str
    directory: Path
    before: dict[tuple[str, str, object], list[str]]
    after: dict[tuple[str, str, object], list[str]]
    done: list[str]
    seconds: float

    def copy(self, name: str) -> Path:
        METADATA_CACHE.clear()
        return Path(shutil.copytree(self.directory / "before", self.directory / name))

    def check(self, path: Path, case: object) -> None:
        """A table on which the operation has ended half-way shows what it did before, or does after, and the operation
        finishes."""
        name, table = self.name, pp.Table.open(path)
        assert all({"creationTime", "modificationTime"} == one.keys() for one in _marked(path).values()), case
        for state, rows in _states(table).items():
            fine = [self.before.get(state), self.after.get(state)]
            going = "snapshot" if name == "expire but changelogs" else ("snapshot", "changes")
            fine += [[]] if name.startswith(_REMOVING) and state[1] in going else []
            fine += _through_snapshots(name, self.before) if state == ("main", "latest", None) else []
            assert rows in fine, (case, state)
        with suppress(*_FINISHED):
            _OPERATIONS[name][1](table)
        assert _states(table) == self.after, case
        if name == "repair an index":  # but for the snapshot before; an old hint keeps it, as a rollback may have begun
            table._store.io.delete([table._store.paths.latest_hint])
            table.snapshots.expire(retain_max=1)
            assert table.maintenance.verify().ok, case
        finish_expiry(table._store, table._store.earliest_snapshot_id() or 0)  # as the next expiry does
        missing = set(table_files(table._store)) - files_there(path)
        assert not missing, case
        if name in ("expire", "expire changelogs", "repair a killed expiry", "orphans"):
            is_exact(table)
        if name in ("expire but changelogs", "expire some changelogs", "delete tag before changelogs"):
            named_only(table)
        if name == "mark partitions":
            assert sorted(_marked(path)) == ["day=1", "day=2"], case
        if name.startswith("repair"):
            assert read_hint(table._store.io, table._store.paths.latest_hint) != 99, case
            assert read_hint(table._store.io, table._store.paths.earliest_hint) != 99, case
        shutil.rmtree(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that operations begin with."""
    directory = tmp_path_factory.mktemp("made")
    _make(directory / "one")
    _make_partitioned(directory / "partitioned")
    return directory


def _prepared(directory: Path, name: str, made: Path) -> _Case:
    prepare, operation = _OPERATIONS[name]
    shutil.copytree(made / ("partitioned" if "partitions" in name else "one"), directory / "before")
    prepare(pp.Table.open(directory / "before"))
    before = _states(pp.Table.open(directory / "before"))
    shutil.copytree(directory / "before", directory / "after")
    io, started = FaultyIO(), time.monotonic()
    operation(pp.Table(TableStore(io, str(directory / "after"))))
    seconds = time.monotonic() - started
    return _Case(name, directory, before, _states(pp.Table.open(directory / "after")), io.done, seconds)


@pytest.mark.parametrize("name", sampled(_OPERATIONS, 4))
def test_one_fault(tmp_path: Path, made: Path, name: str) -> None:
    case = _prepared(tmp_path, name, made)
    points = [point for point in enumerate(case.done) if point[1] not in HARMLESS]
    points = sorted({*sampled(enumerate(case.done), 1), *sampled(points, 2)})
    for at, done in points:
        for mode in _MODES if LONG else (_MODES[at % len(_MODES)],):
            path = case.copy(f"{at} {mode}")
            with suppress(PaimonError, KeyboardInterrupt):
                _OPERATIONS[name][1](pp.Table(TableStore(_faulty(at, mode), str(path))))
            case.check(path, (done, at, mode))


def _faulty(at: int, mode: str) -> FaultyIO:
    if mode == _INTERRUPTED:
        return FaultyIO(at, (BEFORE, AFTER)[at // len(_MODES) % 2], lambda _: KeyboardInterrupt())
    return FaultyIO(at, mode)


def test_one_fault_of_a_copy(tmp_path: Path) -> None:
    """No file of a copy that failed is left, and no table; or a whole one, where it was interrupted at its end."""
    store = _make(tmp_path / "t")._store
    rows, io = rows_of(pp.Table(store)), FaultyIO()
    clone(store, TableStore(io, str(tmp_path / "all")), CloneOptions())
    for at, done in sampled(enumerate(io.done), 4):
        for mode in _OF_COPIES if LONG else (_OF_COPIES[at % len(_OF_COPIES)],):
            path = tmp_path / f"{at} {mode}"
            try:
                clone(store, TableStore(_faulty(at, mode), str(path)), CloneOptions())
            except (PaimonError, KeyboardInterrupt):
                if mode == _INTERRUPTED and (path / "schema").exists():
                    assert rows_of(pp.Table.open(path)) == rows, (done, at)
                    assert pp.Table.open(path).maintenance.verify().ok, (done, at)
                    continue
                left = [str(f) for f in path.rglob("*") if f.is_file()]
                if not (done == "create" and mode in (AFTER, _INTERRUPTED)):  # nobody knows whose that is
                    assert not left, (done, at, mode)
                assert len(left) <= 1, (done, at, mode, left)
            else:
                assert rows_of(pp.Table.open(path)) == rows, (done, at, mode)
            shutil.rmtree(path, ignore_errors=True)


_OF_COPIES = (BEFORE, AFTER, HALF, _INTERRUPTED)
_KILLED = """
import sys
sys.path[:0] = sys.argv[3:]
import paimon_pyds as pp
from test_faults_maintenance import _OPERATIONS
table = pp.Table.open(sys.argv[1])
table.snapshots.latest()
print("ready", flush=True)
_OPERATIONS[sys.argv[2]][1](table)
"""
_KILLED_COPY = """
import sys
import paimon_pyds as pp
table = pp.Table.open(sys.argv[1])
table.snapshots.latest()
print("ready", flush=True)
table.maintenance.clone(sys.argv[2])
"""
_MOMENTS = 5 if LONG else 1


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path, made: Path) -> None:
    """By the system, some time after the operation began: a sample of all of them."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    for name in sampled(_OPERATIONS, 1):
        case = _prepared(tmp_path / name, name, made)
        for moment in range(_MOMENTS):
            path, pause = case.copy(str(moment)), random.uniform(0, 1.5) * case.seconds
            _kill([sys.executable, "-c", _KILLED, str(path), name, *folders], pause)
            case.check(path, (name, pause))


def _kill(command: list[str], pause: float) -> None:
    """Run a program until it says that it is ready, and end it some seconds later."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        time.sleep(pause)
        process.kill()


@pytest.mark.slow
def test_a_copy_that_is_killed_at_any_moment_can_be_made_again(tmp_path: Path) -> None:
    table = _make(tmp_path / "t")
    rows, started = rows_of(table), time.monotonic()
    table.maintenance.clone(tmp_path / "whole")
    seconds = time.monotonic() - started
    for moment in range(4 * _MOMENTS):
        copy, pause = tmp_path / f"copy-{moment}", random.uniform(0, 1.5) * seconds
        _kill([sys.executable, "-c", _KILLED_COPY, table.path, str(copy)], pause)
        if not (copy / "schema").exists():
            table.maintenance.clone(copy)
        assert rows_of(pp.Table.open(copy)) == rows, pause
        assert pp.Table.open(copy).maintenance.verify().ok, pause
