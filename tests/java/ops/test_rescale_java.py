"""Rescaled tables beside Java Paimon: it goes on with what was rescaled here, and what it rescaled is read here."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import parse_type
from paimon_pyds.keys.bucket import bucket_of
from support.compaction import VECTORS, live
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.oracle import Oracle, requires_java_oracle
from support.values import dumps, lines

pytestmark = [requires_java_oracle, pytest.mark.java]

_APPEND = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
_NAMES = ("deduplicate", "sequence", "partial_removing", "groups_aggregates_ignoring", "aggregation_first")
_TABLES: dict[str, dict[str, str]] = {
    **{name: ENGINES[name] for name in _NAMES},
    "first_row": {"merge-engine": "first-row"},
    "vectors": VECTORS,
    "lookup": {"changelog-producer": "lookup"},
}


def _sorted(table: pp.Table) -> list[str]:
    return sorted(lines(table.scan().to_arrow()))


def test_java_goes_on_with_key_tables_that_were_rescaled(oracle: Oracle, tmp_path: Path) -> None:
    random, before = Random(5), {}
    tables = {name: tmp_path / "db.db" / name for name in _TABLES}

    def java_writes(name: str, *options: str) -> None:
        rows = random_rows(random)
        if name == "first_row":
            rows = [{**row, "_kind": "+I"} for row in rows]
        write_kinds(batch, tmp_path, name, rows, *options)

    with oracle.batch() as batch:
        for name, options in _TABLES.items():
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options={"bucket": "2", **options})
            for _ in range(3):
                java_writes(name)
            before[name] = batch.read(tmp_path, f"db.{name}")
    for path in tables.values():
        assert pp.Table.open(path).maintenance.rescale(3).partitions == 1
    with oracle.batch() as batch:
        after = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        for name in tables:
            java_writes(name)
            java_writes(name)
        written = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        for name in tables:
            batch.compact(tmp_path, f"db.{name}")
        compacted = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
    for name, path in tables.items():
        table = pp.Table.open(path)
        assert after[name].lines == before[name].lines, name
        assert compacted[name].lines == _sorted(table), name
        if name not in ("first_row", "vectors"):  # their new rows can be seen once they are compacted
            assert written[name].lines == compacted[name].lines, name
        assert set(live(table)["total_buckets"].to_pylist()) == {3}


def test_java_goes_on_with_buckets_of_append_tables(oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(
        tmp_path / "db.db" / "t", _APPEND, partition_by=["p"], options={"bucket": "2", "bucket-key": "k", **VECTORS}
    )
    table.append(pa.table({"p": [k % 2 for k in range(60)], "k": range(60), "v": ["a"] * 60}, _APPEND))
    table.delete("k < 9")
    table.alter({"bucket": "6"})
    table.maintenance.rescale(where="p = 1")
    table.append(pa.table({"p": [0, 0], "k": [100, 101], "v": ["d"] * 2}, _APPEND))  # into the buckets that p=0 has
    more = [{"p": 1, "k": k, "v": "b"} for k in range(60, 80)]
    keys = {bool(bucket < 2): k for k, bucket in enumerate(bucket_of([pa.array(range(40))], [parse_type("BIGINT")], 6))}
    where: dict[str, Any] = {"op": "eq", "field": "k", "literals": [33]}
    with oracle.batch() as batch:
        first = batch.read(tmp_path, "db.t")
        one = batch.read(tmp_path, "db.t", filter=where)
        batch.write(tmp_path, "db.t", more)
        refused = batch.write(tmp_path, "db.t", [{"p": 0, "k": keys[True], "v": "b"}], allow_fail=True)
        batch.write(tmp_path, "db.t", [{"p": 5, "k": 2, "v": "b"}, {"p": 0, "k": keys[False], "v": "c"}])
        last = batch.read(tmp_path, "db.t")
    assert (len(first.lines), len(one.lines), len(last.lines)) == (53, 1, 75)
    assert "new bucket num 6" in refused.error
    assert last.lines == _sorted(table)
    # Java looks at the bucket that it writes to, and only there refuses another number.
    assert {(f.partition[-8], f.total_buckets) for f in table.scan().plan().files} == {(0, 2), (0, 6), (1, 6), (5, 6)}
    assert table.count(f"k = {keys[False]} AND v = 'c'") == 1
    assert table.maintenance.rescale(4).partitions == 3
    assert last.lines == _sorted(table)


@pytest.mark.parametrize("key", [False, True])
def test_what_java_rescaled_is_read_and_written(oracle: Oracle, tmp_path: Path, key: bool) -> None:
    schema = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
    rows = [{"p": k % 2, "k": k, "v": f"a{k % 3}"} for k in range(80)]
    ones = [row for row in rows if row["p"] == 1]
    keyed: dict[str, Any] = {"primary_keys": ["p", "k"]} if key else {}
    options = {"bucket": "2", "bucket-key": "k"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, partition_keys=["p"], options=options, **keyed)
        batch.write(tmp_path, "db.t", rows)
        batch.alter(tmp_path, "db.t", {"op": "set", "key": "bucket", "value": "5"})
        path = oracle.scratch_file(".jsonl")
        path.write_text("".join(dumps(row) + "\n" for row in ones))
        batch.add("write", tmp_path, "db.t", path, "--overwrite-partition", "p=1")
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert [row["total_buckets"] for row in table.system.read("partitions").to_pylist()] == [2, 5]
    for k in (0, 7, 33, 34, 79):
        plan = table.scan(f"p = {k % 2} AND k = {k}").plan()
        assert len(plan.files) == 1
        assert table.scan(f"k = {k}").to_arrow().to_pylist() == [rows[k]]
    table.append(pa.table({"p": [1, 3], "k": [81, 83], "v": ["b", "b"]}, schema))
    assert table.maintenance.rescale(4).partitions == 3
    table.append(pa.table({"p": [0, 1], "k": [82, 85], "v": ["b", "b"]}, schema))
    with oracle.batch() as batch:
        batch.write(tmp_path, "db.t", [{"p": 0, "k": 86, "v": "c"}])
        last = batch.read(tmp_path, "db.t")
    assert (len(last.lines), last.lines) == (85, _sorted(table))
