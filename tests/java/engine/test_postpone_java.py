"""Tables with bucket=-2 beside Java Paimon: rows that wait are taken in by either, and both go on with the table."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.compaction import VECTORS, live
from support.effort import sampled
from support.fixtures import requires_shared, table_path
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [requires_java_oracle, pytest.mark.java]

_NAMES = ("deduplicate", "sequence", "partial_removing", "groups_aggregates_ignoring", "aggregation_removing")
_TABLES: dict[str, dict[str, str]] = {
    **{name: ENGINES[name] for name in _NAMES},
    "first_row": {"merge-engine": "first-row"},
    "vectors": VECTORS,
    "changelog": {"changelog-producer": "input"},
}
_WAITING = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
_KINDS = {"rowkind-column": "_kind"}


def _sorted(table: pp.Table) -> list[str]:
    return sorted(lines(table.scan().to_arrow()))


def _rows(name: str, random: Random) -> list[dict[str, Any]]:
    rows = random_rows(random)
    return [{**row, "_kind": "+I"} for row in rows] if name == "first_row" else rows


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    floats = [{**row, "u": None if row["u"] is None else float(row["u"])} for row in rows]
    return pa.Table.from_pylist(floats, pa.schema([*SCHEMA, ("_kind", pa.string())]))


def test_either_takes_in_what_the_other_wrote(oracle: Oracle, tmp_path: Path) -> None:
    """In the order it came: as the same rows, written at once, in a table with a fixed bucket."""
    names = sampled(_TABLES, 2)
    writes = {name: [_rows(name, Random(f"{name}{n}")) for n in range(4)] for name in names}
    java, ours = ([tmp_path / "db.db" / f"{who}_{name}" for name in names] for who in ("java", "ours"))
    with oracle.batch() as batch:
        for name in names:
            for table, own in ((f"java_{name}", _WAITING), (f"ours_{name}", _WAITING), (name, {"bucket": "1"})):
                batch.create(tmp_path, f"db.{table}", SCHEMA, primary_keys=["k"], options={**own, **_TABLES[name]})
            write_kinds(batch, tmp_path, name, [row for rows in writes[name][:3] for row in rows])
            write_kinds(batch, tmp_path, name, writes[name][3])
            for rows in writes[name][:3]:
                write_kinds(batch, tmp_path, f"java_{name}", rows)
            batch.compact(tmp_path, f"db.{name}")
        expected = {name: batch.read(tmp_path, f"db.{name}") for name in names}
        empty = batch.read(tmp_path, f"db.java_{names[0]}")
    assert empty.lines == []
    for name, path in zip(names, ours, strict=True):
        table = pp.Table.open(path)
        for rows in writes[name][:3]:
            table.append(_arrow(rows), options=_KINDS)
        assert table.count() == 0
    oracle.program("PostponeOracle", 3, *ours)
    for name, path in zip(names, java, strict=True):  # Java's rows, and then some of ours, are taken in here
        table = pp.Table.open(path)
        table.compact(options={"postpone.default-bucket-num": "2"})
        assert set(live(table)["total_buckets"].to_pylist()) == {2}
        table.append(_arrow(writes[name][3]), options=_KINDS)
        table.compact(full=True)
        assert _sorted(table) == expected[name].lines, name
    with oracle.batch() as batch:  # ours are in their buckets, and then come some of Java's
        for name in names:
            write_kinds(batch, tmp_path, f"ours_{name}", writes[name][3])
    for path in ours[:2]:
        pp.Table.open(path).compact()
    oracle.program("PostponeOracle", 5, *ours[2:])
    for path in ours:
        assert set(live(pp.Table.open(path))["total_buckets"].to_pylist()) == {3}
        pp.Table.open(path).compact(full=True)
    with oracle.batch() as batch:
        read = {
            name: (batch.read(tmp_path, f"db.java_{name}"), batch.read(tmp_path, f"db.ours_{name}")) for name in names
        }
    for name, (of_java, of_ours) in read.items():
        assert of_java.lines == of_ours.lines == expected[name].lines, name


def test_java_reads_batch_writes_at_once(oracle: Oracle, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
    options = {"bucket": "-2", "postpone.target-row-num-per-bucket": "10"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, partition_keys=["p"], primary_keys=["p", "k"], options=options)
    table = pp.Table.open(tmp_path / "db.db" / "t")
    rows = pa.table({"p": [k % 2 for k in range(60)], "k": range(60), "v": ["a"] * 60}, schema)
    table.append(rows)
    table.append(pa.table({"p": [0, 7], "k": [2, 2], "v": ["b", "b"]}, schema))
    with oracle.batch() as batch:
        first = batch.read(tmp_path, "db.t")
        one = batch.read(tmp_path, "db.t", filter={"op": "eq", "field": "k", "literals": [2]})
        batch.write(tmp_path, "db.t", [{"p": 1, "k": 3, "v": "c"}])
    assert (len(first.lines), len(one.lines)) == (61, 2)
    assert first.lines == _sorted(table)
    table.overwrite(pa.table({"p": [0], "k": [1], "v": ["d"]}, schema), {"p": 0})
    assert table.maintenance.rescale(2, "p = 1").partitions == 1
    table.compact()
    assert table.count("v = 'c'") == 1
    with oracle.batch() as batch:
        last = batch.read(tmp_path, "db.t")
    assert last.lines == _sorted(table)
    assert len(last.lines) == 32


@requires_shared
def test_rows_that_wait_in_a_table_of_java(tmp_path: Path, oracle: Oracle) -> None:
    shutil.copytree(table_path("pk_postpone"), tmp_path / "db.db" / "t")
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert table.count() == 0
    assert table.compact().rows == table.count() > 0
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert read.lines == _sorted(table)
