"""Appends to dynamic buckets, and of keys that may be in any partition, beside others: they land by themselves, and
each key is in one place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitConflictError
from support.dynamic_buckets import bucket_keys
from support.effort import LONG, sampled
from support.live_files import table_files
from support.oracle import Oracle, requires_java_oracle
from support.races import at_once, race
from support.values import lines

_SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("n", pa.int64()), ("who", pa.int64())])
_SMALL = {"dynamic-bucket.target-row-num": "7", "commit.max-retries": "100"}
Row = tuple[int, int, int, int]


def _data(rows: list[Row]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)


def _upserts(path: str, worker: int, count: int, moving: bool, say: Connection) -> None:
    """Appends of overlapping keys; what each wrote, by the number of its snapshot."""
    table, pick = pp.Table.open(path), random.Random(worker)
    done = []
    for turn in range(count):
        ids = pick.sample(range(60), 8)
        rows = [((pick.randrange(2) if moving else id_ % 2), id_, turn, worker) for id_ in ids]
        snapshot = table.append(_data(rows))
        assert snapshot is not None
        done.append((snapshot.id, rows))
    say.send(done)


def _check(table: pp.Table, said: list[Any], moving: bool) -> None:
    """The table holds what a model has that takes the commits in their order."""
    commits = sorted(commit for worker in said for commit in worker)
    assert len({number for number, _ in commits}) == len(commits)
    model: dict[Any, Row] = {}
    for _, rows in commits:
        model |= {row[1] if moving else row[:2]: row for row in rows}
    found = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    assert sorted(found) == sorted(model.values())
    assert not table.maintenance.verify().findings
    if not moving:
        bucket_keys(table)  # which looks whether each key is in one bucket, and in its hash index
    names = {path.name for path in Path(table.path).rglob("*") if path.is_file()}
    assert names <= {"LATEST", "EARLIEST", *(name.rpartition("/")[2] for name in table_files(table._store))}


_TABLES = {
    "defaults": (("id",), (), {}),
    "small buckets": (("id",), (), _SMALL),
    "partitions": (("p", "id"), ("p",), _SMALL),
    "any partition": (("id",), ("p",), _SMALL),
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", _TABLES if LONG else sampled(["partitions", "any partition"], 1))
def test_processes_that_append_to_the_same_keys_all_land(tmp_path: Path, kind: str) -> None:
    key, by, options = _TABLES[kind]
    retries = {"commit.max-retries": "100"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, key, by, {**retries, **options})
    workers, count = (4, 50) if LONG else (3, 3)
    moving = kind == "any partition"
    said = at_once(_upserts, [(table.path, worker, count, moving) for worker in range(workers)])
    assert sum(map(len, said)) == workers * count
    _check(table, said, moving)


# ------------------------------------------------------------------------------------------------------ one process


_LAYOUTS: dict[str, dict[str, Any]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro", "data-file.thin-mode": "true"},
    "spilled": {"write-buffer-size": "1 b"},
    "unspillable": {"write-buffer-size": "1 b", "write-buffer-spillable": "false"},
    "changelog": {"changelog-producer": "input"},
    "indexes": {"file-index.bitmap.columns": "n", "file-index.in-manifest-threshold": "1 b"},
}


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_keys_that_another_commit_put_elsewhere_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    options = {**_SMALL, "dynamic-bucket.target-row-num": "2", **_LAYOUTS[layout]}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("p", "id"), ("p",), options)
    table.append(_data([(0, 100, 0, 0)]))
    theirs, ours = [(0, id_, 1, 1) for id_ in range(9)], [(0, id_, 2, 2) for id_ in range(11, 2, -1)]
    came = race(monkeypatch, lambda: pp.Table.open(table.path).append(_data(theirs)))
    snapshot = table.append([_data(ours[:5]), _data(ours[5:])])
    assert came
    assert snapshot is not None
    _check(table, [[(1, [(0, 100, 0, 0)]), (came[0], theirs), (snapshot.id, ours)]], False)
    if layout == "changelog":
        log = table.scan(options={"incremental-between": f"{snapshot.id - 1},{snapshot.id}"}).to_arrow()
        assert sorted(tuple(row.values()) for row in log.to_pylist()) == sorted(ours)


def test_rows_that_stay_where_they_are_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), (), {})
    moved = []
    monkeypatch.setattr("paimon_pyds.engine.dynamic_buckets._rewritten", lambda *args: moved.append(args))
    race(monkeypatch, lambda: pp.Table.open(table.path).append(_data([(0, 1, 1, 1), (0, 2, 1, 1)])))
    table.append(_data([(0, 2, 2, 2), (0, 3, 2, 2)]))
    assert not moved
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2, 2]
    bucket_keys(table)


@pytest.mark.parametrize("theirs", ["an overwrite", "an append"])
def test_nothing_is_added_up_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str) -> None:
    options = {**_SMALL, "dynamic-bucket.target-row-num": "2", "merge-engine": "aggregation",
               "fields.n.aggregate-function": "sum"}  # fmt: skip
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), (), options)
    table.append(_data([(0, id_, 1, 0) for id_ in range(5)]))
    other, rows = pp.Table.open(table.path), _data([(0, id_, 10, 1) for id_ in range(9, 2, -1)])
    race(monkeypatch, lambda: other.overwrite(rows) if theirs == "an overwrite" else other.append(rows), 2)
    table.append([_data([(0, id_, 100, 2)]) for id_ in [*range(12), *range(12)]])
    found = dict(zip(*table.to_arrow().select(["id", "n"]).to_pydict().values(), strict=True))
    once = theirs == "an overwrite"
    expected = {id_: 200 + (10 if once else 20) * (3 <= id_ <= 9) + (0 if once else id_ < 5) for id_ in range(12)}
    assert found == expected
    bucket_keys(table)


def test_writers_of_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the driver sees the conflict: it reads back what tasks wrote."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), (), {**_SMALL, "dynamic-bucket.target-row-num": "2"})
    context, messages = table.write_context(), []
    for task in range(3):
        with TableWriter(context, task) as writer:
            writer.write(_data([(0, id_, task, 2) for id_ in range(task, task + 8)]))
            messages.append(writer.prepare_commit())
    pp.Table.open(table.path).append(_data([(0, id_, 9, 1) for id_ in range(11, -1, -1)]))
    table.commit(messages)
    rows = {row["id"]: (row["n"], row["who"]) for row in table.to_arrow().to_pylist()}
    assert rows == {**{id_: (min(id_, 2), 2) for id_ in range(10)}, 10: (9, 1), 11: (9, 1)}
    bucket_keys(table)


def _expired(table: pp.Table) -> None:
    table.append(_data([(0, 1, 5, 5), (1, 9, 5, 5)]))
    table.snapshots.expire(retain_max=1)


def _rolled_back(table: pp.Table) -> None:
    table.snapshots.rollback(1)


_OURS = [(0, 1), (0, 4), (1, 2), (1, 4)]


@pytest.mark.parametrize("theirs", [_expired, _rolled_back])
def test_an_append_goes_on_where_the_files_that_say_its_buckets_are_taken_away(
    tmp_path: Path, theirs: Callable[[pp.Table], None]
) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("p", "id"), ("p",), _SMALL)
    for id_ in (1, 2, 3):
        table.append(_data([(0, id_, 0, 0), (1, id_, 0, 0)]))

    def rows() -> Iterator[pa.RecordBatch]:
        theirs(pp.Table.open(table.path))
        yield from _data([(p, id_, 7, 7) for p, id_ in _OURS]).to_batches()

    table.append(pa.RecordBatchReader.from_batches(_SCHEMA, rows()))
    expected = dict.fromkeys([(0, 1), (1, 1)], 0)
    if theirs is _expired:
        expected |= dict.fromkeys([(0, 2), (1, 2), (0, 3), (1, 3)], 0) | dict.fromkeys([(0, 1), (1, 9)], 5)
    expected |= dict.fromkeys(_OURS, 7)
    assert {(row["p"], row["id"]): row["n"] for row in table.to_arrow().to_pylist()} == expected
    bucket_keys(table)


def test_a_conflict_that_stays_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), (), {**_SMALL, "commit.max-retries": "2"})
    number = iter(range(100))
    race(monkeypatch, lambda: pp.Table.open(table.path).append(_data([(0, next(number), 1, 1)])), 50)
    with pytest.raises(CommitConflictError, match="wrote to the same partition"):
        table.append(_data([(0, 500, 2, 2)]))
    assert pc.max(table.to_arrow()["id"]).as_py() < 500
    names = {path.name for path in Path(table.path).rglob("*") if path.is_file()}
    assert names <= {"LATEST", "EARLIEST", *(name.rpartition("/")[2] for name in table_files(table._store))}


_ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "first-row": {"merge-engine": "first-row"},
}


@pytest.mark.parametrize("engine", _ENGINES)
@pytest.mark.parametrize("buffer", ["256 mb", "1 b"], ids=["memory", "spilled"])
def test_keys_in_any_partition_are_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, buffer: str
) -> None:
    options = {**_ENGINES[engine], "write-buffer-size": buffer}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), ("p",), options)
    table.append(_data([(0, 1, 1, 1)]))
    came = race(monkeypatch, lambda: pp.Table.open(table.path).append(_data([(1, 1, 2, 2), (1, 2, 2, 2)])))
    table.append(_data([(0, 2, 3, 3), (0, 3, 3, 3)]))
    assert came
    found = {row["id"]: (row["p"], row["n"]) for row in table.to_arrow().to_pylist()}
    place = {"deduplicate": {1: (1, 2), 2: (0, 3)}, "partial-update": {1: (0, 2), 2: (1, 3)}}
    assert found == {**place.get(engine, {1: (0, 1), 2: (1, 2)}), 3: (0, 3)}


def test_a_schema_that_changes_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, ("id",), ("p",), {})

    def theirs() -> None:
        other = pp.Table.open(table.path)
        other.alter(add_columns={"x": "INT"})
        other.append(_data([(1, 2, 1, 1)]), missing_columns="null")

    race(monkeypatch, theirs)
    with pytest.raises(CommitConflictError, match="schema was changed"):
        table.append(_data([(0, 2, 3, 3)]))
    assert table.to_arrow()["n"].to_pylist() == [1]


@requires_java_oracle
@pytest.mark.java
def test_java_reads_the_same(oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", _SCHEMA, ("p", "id"), ("p",), _SMALL)
    said = at_once(_upserts, [(table.path, worker, 3, False) for worker in range(2)])
    _check(table, said, False)
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert read.lines == lines(table.to_arrow())
