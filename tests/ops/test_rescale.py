"""Rescale: the rows stay the same, in another number of buckets, whatever the table and whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.engine.append import commit_messages
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import (
    ArgumentTypeError,
    CommitConflictError,
    CommitError,
    CorruptFileError,
    OptionError,
    UnsupportedError,
)
from paimon_pyds.keys.bucket import bucket_of
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from support.compaction import VECTORS, Meanwhile, data_files, index_entries, latest, live
from support.effort import sampled
from support.executors import Pickling
from support.key_engines import ENGINES, random_rows
from support.key_engines import SCHEMA as ENGINE_SCHEMA
from support.progress import Seen
from support.values import in_order, lines

_SCHEMA = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64(), False), ("v", pa.string())])
_INDEX = {"file-index.bitmap.columns": "v"}
_KINDS = {"rowkind-column": "_kind"}


def _rows(first: int, count: int = 60, value: str = "") -> pa.Table:
    keys = range(first, first + count)
    columns = {"p": [k % 2 for k in keys], "k": list(keys), "v": [f"{value}{k % 5}" for k in keys]}
    return pa.table(columns, _SCHEMA)


def _make(path: Path, buckets: int, options: Mapping[str, str] | None = None, *, key: bool) -> pp.Table:
    keyed: dict[str, Any] = {"primary_key": ["p", "k"]} if key else {}
    own = {"bucket": str(buckets), "bucket-key": "k", **_INDEX, **(options or {})}
    table = pp.Table.create(path / "t", _SCHEMA, partition_by=["p"], options=own, **keyed)
    for number in range(3):
        table.append(_rows(30 * number))
    return table


def _read(table: pp.Table, where: str | None = None) -> list[str]:
    return in_order(lines(table.scan(where).to_arrow()))


def _check_buckets(table: pp.Table, count: int, where: str | None = None) -> None:
    """All rows lie in the bucket of so many that their key hashes to."""
    plan = table.scan(where, options={"scan.plan-sort-partition": "true"}).plan()
    assert {file.total_buckets for file in plan.files} == {count}
    columns = ["k", "__paimon_bucket"] if "k" in table.arrow_schema.names else ["id", "__paimon_bucket"]
    rows = table.scan(where, columns=columns).to_arrow().combine_chunks()
    key = table.schema.field(columns[0])
    hashed = bucket_of([rows.column(0).chunk(0)], [key.type], count)
    assert rows.column(1).to_pylist() == hashed.tolist()


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize(("before", "after"), sampled([(4, 16), (3, 5), (1, 40), (6, 4)], 2))
def test_rows_move_to_their_buckets(tmp_path: Path, before: int, after: int, key: bool) -> None:
    table = _make(tmp_path, before, key=key)
    rows, seen = _read(table), Seen()
    dry = table.maintenance.rescale(after, dry_run=True)
    assert (dry.partitions, dry.snapshot_id, latest(table).id) == (2, None, 3)
    summary = table.maintenance.rescale(after, executor=Pickling(), progress=seen)
    assert (summary.partitions, summary.rows, summary.attempts) == (2, len(rows), 1)
    assert summary.files_before == dry.files_before == seen.done("rewriting", "files")
    assert (latest(table).id, latest(table).commit_kind) == (4, CommitKind.OVERWRITE)
    assert latest(table).total_record_count == len(rows)
    assert _read(table) == rows
    _check_buckets(table, after)
    assert table.options["bucket"] == str(after)
    entries = live(table)
    assert set(entries["level"].to_pylist()) == ({5} if key else {0})
    assert pa.compute.count(entries["embedded_index"]).as_py() == entries.num_rows == summary.files_after
    assert len(table.scan("p = 1 AND k = 33").plan().files) == 1
    table.append(_rows(1000, 10))
    assert len(_read(table)) == len(rows) + 10
    assert table.maintenance.rescale(after).snapshot_id is None


@pytest.mark.parametrize(
    "engine", sampled(["sequence", "partial_removing", "groups_aggregates", "aggregation_first"], 1)
)
def test_later_rows_merge_with_those_that_moved(tmp_path: Path, engine: str) -> None:
    """As they do in a table that was compacted instead."""
    random, tables = Random(engine), []
    for name in ("moved", "stayed"):
        options = {**ENGINES[engine], "bucket": "3"}
        tables.append(pp.Table.create(tmp_path / name, ENGINE_SCHEMA, primary_key=["k"], options=options))
    for number in range(6):
        rows = [{"_kind": None, **row} for row in random_rows(random)]
        data = pa.Table.from_pylist(
            [{**row, "u": None if row["u"] is None else float(row["u"])} for row in rows],
            pa.schema([*ENGINE_SCHEMA, ("_kind", pa.string())]),
        )
        results = []
        for table in tables:
            try:
                table.append(data, options=_KINDS)
                results.append("")
            except UnsupportedError as error:
                results.append(error.message)
        assert results[0] == results[1]
        if number == 3:
            tables[0].maintenance.rescale(4)
            tables[1].compact(full=True)
        assert _read(tables[0]) == _read(tables[1]), number
    _check_levels_and_numbers(tables[0])


def _check_levels_and_numbers(table: pp.Table) -> None:
    entries = live(table)
    assert set(entries["total_buckets"].to_pylist()) == {4}
    assert min(entries["max_sequence_number"].to_pylist()) >= 0


@pytest.mark.parametrize("key", [False, True])
def test_partitions_have_numbers_of_their_own(tmp_path: Path, key: bool) -> None:
    table = _make(tmp_path, 4, key=key)
    rows = _read(table)
    table.alter({"bucket": "8"})
    assert table.maintenance.rescale(where="p = 1").partitions == 1
    table.append(pa.table({"p": [2, 1], "k": [1001, 1003], "v": ["x", "y"]}, _SCHEMA))
    more = {"p": [0, 0, 3], "k": [1044, 1045, 1046], "v": ["x", "y", "w"]}
    table.append(pa.table(more, _SCHEMA))  # a partition keeps its number, and a new one has that of the option
    _check_buckets(table, 8, "p = 3")
    for where, count in (("p = 0", 4), ("p = 1", 8), ("p = 2", 8)):
        _check_buckets(table, count, where)
    assert len(_read(table)) == len(rows) + 5
    keys = table.scan(columns=["k"]).to_arrow()["k"].to_pylist()
    for k in range(0, 120, 11):
        plan = table.scan(f"k = {k}").plan()
        buckets = {(file.partition, file.bucket) for file in plan.files}
        assert len(buckets) <= 3
        assert table.count(f"k = {k}") == keys.count(k)
    if key:
        found = table.lookup(pa.table({"p": [0, 1, 1], "k": [44, 33, 1003]}))
        assert found["v"].to_pylist() == ["4", "3", "y"]
        assert table.update({"v": "'z'"}, "k IN (44, 33)").rows_updated == 2
        assert table.count("v = 'z'") == 2
    totals = table.system.read("partitions").to_pylist()
    assert [row["total_buckets"] for row in totals] == [4, 8, 8, 8]
    if key:
        with pytest.raises(UnsupportedError, match="different numbers of buckets"):
            table.scan(options={"incremental-between": "3,4", "incremental-between-scan-mode": "diff"}).to_arrow()
        diff = table.scan(options={"incremental-between": "6,7", "incremental-between-scan-mode": "diff"})
        assert diff.to_arrow().num_rows == 2
    assert table.compact(full=True).groups > 0
    assert [row["total_buckets"] for row in table.system.read("partitions").to_pylist()] == [4, 8, 8, 8]


@pytest.mark.parametrize("key", [False, True])
def test_writes_go_by_the_number_that_a_partition_has(tmp_path: Path, key: bool) -> None:
    table = _make(tmp_path, 4, key=key)
    table.maintenance.rescale(6, "p = 1")  # the option stays
    rows = pa.table({"p": [0, 1, 1, 2], "k": [2000, 2001, 2002, 2003], "v": ["x"] * 4}, _SCHEMA)
    table.append(rows)
    table.merge(rows.slice(2), ["p", "k"], when_matched="update", when_not_matched="insert")
    with table.stream_writer("s") as stream:
        stream.write(rows)
        stream.commit(1)
    for where, count in (("p = 0", 4), ("p = 1", 6), ("p = 2", 4)):
        _check_buckets(table, count, where)
    assert table.count("k >= 2000") == (4 if key else 8)
    table.overwrite(rows.slice(1, 2), dynamic=True)
    _check_buckets(table, 4, "p = 1")
    assert table.count("p = 1") == 2


@pytest.mark.parametrize("key", [False, True])
def test_deleted_rows_stay_deleted(tmp_path: Path, key: bool) -> None:
    table = _make(tmp_path, 2, VECTORS, key=key)
    table.delete("k % 3 = 0")
    rows = _read(table)
    assert index_entries(table)
    table.maintenance.rescale(5, "p = 0")
    assert _read(table) == rows
    table.maintenance.rescale(5)
    assert _read(table) == rows
    assert not index_entries(table)
    table.delete("k = 1")
    assert len(_read(table)) == len(rows) - 1


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, VECTORS])
def test_rows_that_were_not_compacted_yet_are_not_lost(tmp_path: Path, options: dict[str, str]) -> None:
    table = _make(tmp_path, 2, {**options, "write-only": "true"}, key=True)
    assert _read(table) == []
    table.maintenance.rescale(3)
    assert len(_read(table)) == 120


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_changes_reach_the_changelog_first(tmp_path: Path, producer: str) -> None:
    table = _make(tmp_path, 2, {"changelog-producer": producer, "write-only": "true"}, key=True)
    table.maintenance.rescale(3)
    kinds = [snapshot.commit_kind for snapshot in table.snapshots.list()[3:]]
    assert kinds == [CommitKind.COMPACT, CommitKind.OVERWRITE]
    assert (table.snapshots.list()[3].changelog_record_count, latest(table).changelog_record_count) == (120, None)


@pytest.mark.parametrize("key", [False, True])
def test_rows_that_lie_elsewhere_than_their_keys_hash_to_find_their_bucket(tmp_path: Path, key: bool) -> None:
    """As they do after Java has changed the type of a bucket key."""
    table = _make(tmp_path, 4, key=key)
    context = write_context(table._store)
    with TableWriter(replace(context, dynamic_options={"bucket-function.type": "hive"})) as writer:
        writer.write(_rows(0, 60, "b"))
        commit_messages(table._store, [writer.prepare_commit()])
    table.maintenance.rescale(8)
    _check_buckets(table, 8)
    assert table.count("v LIKE 'b%'") == 60
    assert table.count() == (120 if key else 240)


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("action", ["append", "delete", "compact", "overwrite"])
def test_what_others_do_meanwhile_is_kept(tmp_path: Path, action: str, key: bool) -> None:
    table = _make(tmp_path, 2, VECTORS, key=key)
    actions = {
        "append": lambda: table.append(_rows(500, 4)),
        "delete": lambda: table.delete("k = 7"),
        "compact": lambda: table.compact(full=True),
        "overwrite": lambda: table.overwrite(_rows(600, 4)),
    }
    assert table.maintenance.rescale(6, executor=Meanwhile(actions[action])).attempts == 2
    _check_buckets(table, 6)
    before = 120 if key else 180
    assert table.count() == {"append": before + 4, "delete": before - 1, "compact": before, "overwrite": 4}[action]
    assert data_files(table) >= {file.path for file in table.scan().plan().files}


def test_another_partition_is_no_conflict(tmp_path: Path) -> None:
    table = _make(tmp_path, 2, key=True)
    elsewhere = pa.table({"p": [0], "k": [500], "v": ["x"]}, _SCHEMA)
    assert table.maintenance.rescale(6, "p = 1", executor=Meanwhile(lambda: table.append(elsewhere))).attempts == 1
    assert table.count() == 121


def test_who_wrote_for_the_old_number_is_told(tmp_path: Path) -> None:
    table = _make(tmp_path, 2, key=True)
    with TableWriter(write_context(table._store)) as writer:
        writer.write(_rows(0, 10))
        message = writer.prepare_commit()
    table.maintenance.rescale(4)
    with pytest.raises(CommitConflictError, match="was rescaled meanwhile"):
        commit_messages(table._store, [message])
    assert table.count() == 120


def test_a_failure_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(tmp_path, 2, key=True)
    rows, there = _read(table), data_files(table)
    monkeypatch.setattr(TableStore, "try_create_snapshot", lambda self, snapshot: False)
    with pytest.raises(CommitError, match="other commits were faster"):
        table.maintenance.rescale(4, options={"commit.max-retries": "2", "commit.min-retry-wait": "1 ms"})
    monkeypatch.undo()
    assert (data_files(table), table.schema.options["bucket"]) == (there, "2")
    table.append(_rows(0, 2))
    assert _read(table) == rows
    damaged = sorted(Path(table.path).rglob("*.parquet"))[0]
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    there = data_files(table)
    with pytest.raises(CorruptFileError):
        table.maintenance.rescale(4, executor=LocalExecutor(1))
    assert (data_files(table), pp.Table.open(table.path).options["bucket"]) == (there, "2")


def test_endless_writers_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(tmp_path, 2, key=True)
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    options = {"commit.max-retries": "2"}
    with pytest.raises(CommitConflictError, match="changed by another commit"):
        table.maintenance.rescale(4, executor=Meanwhile(lambda: table.append(_rows(0, 2)), times=99), options=options)
    assert table.count() == 120


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    table = _make(tmp_path, 2, key=True)
    for number in (0, -1, -2):
        with pytest.raises(OptionError, match="can't have"):
            table.maintenance.rescale(number)
    with pytest.raises(OptionError, match="partition columns"):
        table.maintenance.rescale(4, "k = 1")
    with pytest.raises(ArgumentTypeError, match="bucket_num"):
        table.maintenance.rescale("many")  # type: ignore[arg-type]
    unaware = pp.Table.create(tmp_path / "u", _SCHEMA)
    with pytest.raises(UnsupportedError, match="bucket=-1"):
        unaware.maintenance.rescale(4)
    one = pp.Table.create(tmp_path / "one", _SCHEMA, options={"bucket": "1", "bucket-key": "k"})
    assert one.maintenance.rescale(3).partitions == 0
    assert one.options["bucket"] == "3"
