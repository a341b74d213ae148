"""One fault anywhere in an operation, or the end of its process: the states that were to stay show the rows that they
had, and the operation, run again, finishes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from faults_io import AFTER, BEFORE, HALF, HARMLESS, FaultyIO

import paimon_pyds as pp
from paimon_pyds.errors import AlreadyExistsError, NotFoundError, PaimonError
from paimon_pyds.execution.live_files import table_files
from paimon_pyds.maintenance.clone import CloneOptions, clone
from paimon_pyds.metadata.store import METADATA_CACHE, TableStore, read_hint
from support.effort import LONG, sampled
from support.maintenance import files_there, is_exact, rows_of

_SCHEMA = pa.schema([("id", pa.int64())])


def _make(path: Path) -> pp.Table:
    options = {"deletion-vectors.enabled": "true", "file-operation.thread-num": "1", "write-only": "true"}
    table = pp.Table.create(path, _SCHEMA, options=options)
    for number in range(3):
        table.append(pa.table({"id": [number, 10 + number]}, _SCHEMA))
    table.create_tag("old", 2)
    table.delete("id = 1")
    table.compact(full=True)
    table.create_branch("b", "old")
    branch = pp.Table.open(path, branch="b")
    branch.append(pa.table({"id": [100]}, _SCHEMA))
    branch.compact(full=True)
    branch.delete_tag("old")
    table.append(pa.table({"id": [50]}, _SCHEMA))
    table.create_tag("new")
    return table


def _make_partitioned(path: Path) -> pp.Table:
    schema = pa.schema([("day", pa.int32()), ("id", pa.int64())])
    options = {"file-operation.thread-num": "1", "write-only": "true"}
    table = pp.Table.create(path, schema, partition_by=["day"], options=options)
    for number in range(2):
        table.append(pa.table({"day": [1, 2, 3], "id": [number, 10 + number, 20 + number]}, schema))
    table.create_tag("old", 1)
    table.mark_partitions_done({"day": 1})
    return table


def _expired_tag(table: pp.Table) -> None:
    table.expire_snapshots(retain_max=1)


def _dangling_hints(table: pp.Table) -> None:
    for hint in (table.store.paths.latest_hint, table.store.paths.earliest_hint):
        table.store.io.replace(hint, b"99")


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


def _expire_on(io: FaultyIO, path: Path) -> None:
    pp.Table(TableStore(io, str(path))).expire_snapshots(retain_max=2)


_OPERATIONS: dict[str, tuple[Callable[[pp.Table], object], Callable[[pp.Table], object]]] = {
    # name: what comes before, the operation
    "expire": (lambda t: None, lambda t: t.expire_snapshots(retain_max=2)),
    "create tag": (lambda t: None, lambda t: t.create_tag("x", 3)),
    "replace tag": (_expired_tag, lambda t: t.create_tag("old", replace=True)),
    "rename tag": (lambda t: None, lambda t: t.rename_tag("old", "older")),
    "delete tag": (_expired_tag, lambda t: t.delete_tag("old")),
    "create branch": (lambda t: None, lambda t: t.create_branch("c", "old")),
    "delete branch": (_expired_tag, lambda t: t.delete_branch("b")),
    "fast forward": (lambda t: None, lambda t: t.fast_forward("b")),
    "rollback": (lambda t: None, lambda t: t.rollback(4)),
    "compact manifests": (lambda t: None, lambda t: t.compact_manifests()),
    "analyze": (lambda t: None, lambda t: t.statistics() or t.analyze()),
    "purge": (lambda t: None, lambda t: t.purge(t.path.rpartition("/")[2], named_states=True)),
    "truncate": (lambda t: None, lambda t: t.truncate()),
    "drop partitions": (lambda t: None, lambda t: t.drop_partitions([{"day": 1}, {"day": 3}])),
    "mark partitions": (lambda t: None, lambda t: t.mark_partitions_done([{"day": 1}, {"day": 2}])),
    "repair": (_dangling_hints, lambda t: t.repair()),
    "repair a killed expiry": (_killed_expiry, lambda t: t.repair()),
    "rollback to a tag": (_expired_tag, lambda t: t.rollback("old")),
}  # fmt: skip
_REMOVING = ("expire", "purge", "repair a killed expiry")
"""What makes snapshots unreadable before they are gone."""
_FINISHED = (AlreadyExistsError, NotFoundError)
"""What an operation says that has been done."""


def _states(table: pp.Table) -> dict[tuple[str, str, object], list[str]]:
    """What each state that can be named shows; those that expire just now can't be read any more."""
    found: dict[tuple[str, str, object], list[str]] = {}
    for name in ("main", *table.branches()):
        branch = pp.Table.open(table.path, branch=name)
        found[name, "latest", None] = rows_of(branch)
        found |= {(name, "tag", tag): rows_of(branch, tag=tag) for tag in branch.tags()}
        for id_ in branch.store.snapshot_ids():
            try:
                found[name, "snapshot", id_] = rows_of(branch, snapshot=id_)
            except NotFoundError:
                found[name, "snapshot", id_] = []
    return found


def _through_snapshots(name: str, states: dict[tuple[str, str, object], list[str]]) -> list[list[str]]:
    """What the newest state may be while newer snapshots go, one by one."""
    if not name.startswith(("rollback", "fast")):
        return []
    return [rows for state, rows in states.items() if state[:2] == ("main", "snapshot")]


def _marked(path: Path) -> dict[str, dict[str, int]]:
    """The partitions that are marked as done, and what their marks say."""
    return {mark.parent.name: json.loads(mark.read_bytes()) for mark in path.glob("*/_SUCCESS")}


@pytest.mark.parametrize("name", _OPERATIONS)
def test_one_fault(tmp_path: Path, name: str) -> None:
    prepare, operation = _OPERATIONS[name]
    prepare((_make_partitioned if "partitions" in name else _make)(tmp_path / "before"))
    before = _states(pp.Table.open(tmp_path / "before"))
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    io = FaultyIO()
    operation(pp.Table(TableStore(io, str(tmp_path / "after"))))
    after = _states(pp.Table.open(tmp_path / "after"))
    points = [point for point in enumerate(io.done) if point[1] not in HARMLESS]
    points = sorted({*sampled(enumerate(io.done), 4), *sampled(points, 10)})
    for at, done in points:
        for mode in (BEFORE, AFTER, HALF) if LONG else ((BEFORE, AFTER, HALF)[at % 3],):
            path, case = tmp_path / f"{at} {mode}", (done, at, mode)
            shutil.copytree(tmp_path / "before", path)
            METADATA_CACHE.clear()
            with suppress(PaimonError):
                operation(pp.Table(TableStore(FaultyIO(at, mode), str(path))))
            table = pp.Table.open(path)
            assert all({"creationTime", "modificationTime"} == one.keys() for one in _marked(path).values()), case
            for state, rows in _states(table).items():
                fine = [before.get(state), after.get(state)]
                fine += [[]] if name in _REMOVING and state[1] == "snapshot" else []
                fine += _through_snapshots(name, before) if state == ("main", "latest", None) else []
                assert rows in fine, (case, state)
            with suppress(*_FINISHED):
                operation(table)
            assert _states(table) == after, case
            missing = set(table_files(table.store)) - files_there(path)
            assert not missing, case
            if name in ("expire", "repair a killed expiry"):
                is_exact(table)
            if name == "mark partitions":
                assert sorted(_marked(path)) == ["day=1", "day=2"], case
            if name.startswith("repair"):
                assert read_hint(table.store.io, table.store.paths.latest_hint) != 99, case
                assert read_hint(table.store.io, table.store.paths.earliest_hint) != 99, case
            shutil.rmtree(path)


def test_one_fault_of_a_copy(tmp_path: Path) -> None:
    """No file of a copy that failed is left, and no table."""
    store = _make(tmp_path / "t").store
    rows, io = rows_of(pp.Table(store)), FaultyIO()
    clone(store, TableStore(io, str(tmp_path / "all")), CloneOptions())
    for at, done in sampled(enumerate(io.done), 30):
        mode, path = (BEFORE, AFTER, HALF)[at % 3], tmp_path / str(at)
        try:
            clone(store, TableStore(FaultyIO(at, mode), str(path)), CloneOptions())
        except PaimonError:
            left = [str(f) for f in path.rglob("*") if f.is_file()]
            assert len(left) == (done == "create" and mode == AFTER), (done, at, left)  # nobody knows whose that is
        else:
            assert rows_of(pp.Table.open(path)) == rows, (done, at)


_KILLED = """
import sys
import paimon_pyds as pp
table = pp.Table.open(sys.argv[1])
table.snapshot()
print("ready", flush=True)
table.expire_snapshots(retain_max=1)
"""


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"write-only": "true"})
    for number in range(30):
        table.overwrite(pa.table({"id": [number]}, _SCHEMA))
        if number == 10:
            table.create_tag("x")
    rows, tagged = rows_of(table), rows_of(table, tag="x")
    for pause in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        path = tmp_path / f"t{pause}"
        shutil.copytree(tmp_path / "t", path)
        process = subprocess.Popen([sys.executable, "-c", _KILLED, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.kill()
        process.communicate()
        table = pp.Table.open(path)
        assert (rows_of(table), rows_of(table, tag="x")) == (rows, tagged)
        table.expire_snapshots(retain_max=1)
        assert (rows_of(table), rows_of(table, tag="x")) == (rows, tagged)
        is_exact(table)
