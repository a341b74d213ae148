"""Tables that Java Paimon wrote, through Spark: the rows that Arrow gives. tests/java/conformance compares those with
Java's."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import conform_batch
from support.fixtures import ROOT, fixture_dir, json_lines, requires_shared, table_path, unpacked
from support.v2_fixtures import v2_table

pytestmark = [pytest.mark.spark, requires_shared]

TABLES = (
    "append_all_types", "append_default_values", "append_dv32_part", "empty_snapshot", "evolve_append",
    "part_other_types",
)  # fmt: skip
"""What Spark gets of types, partitions and splits: all tables are read in tests/java/conformance."""


def sorted_rows(batches):
    return sorted(repr(tuple(row.values())) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_rows(frames, time_type, name):
    table = pp.Table.open(table_path(name))
    columns = [f.name for f in table.schema.fields if time_type or f.type.kind.value != "TIME"]
    frame = frames.load(str(table_path(name)), columns=",".join(f"`{c}`" for c in columns))
    target = compat.target_schema(frame.schema)
    expected = [conform_batch(batch, target) for batch in table.scan(columns=columns).to_batches()]
    assert sorted_rows(frame.toArrow().to_batches()) == sorted_rows(expected)
    assert frame.columns == columns


def test_a_variant_column_is_spark_s(spark, frames, tmp_path):
    """Spark's own functions read the values, those of Java and those that Spark's wrote here; other columns alone are
    read as well."""
    path = str(table_path("append_variant"))
    theirs = frames.load(path).selectExpr("id", "to_json(va) AS json").collect()
    values = {row["id"]: row["va"] for row in json_lines(fixture_dir("append_variant") / "input" / "00.jsonl")}
    assert {row.id: row.json for row in theirs} == {
        i: None if v is None else json.dumps(json.loads(v["json"]), separators=(",", ":")) for i, v in values.items()
    }
    assert frames.load(path, columns="id").count() == len(values)
    ours = str(tmp_path / "t")
    rows = spark.sql("SELECT parse_json('{\"a\":[1.5,\"x\"]}') v, array(parse_json('[2]'), null) l, 1 n")
    rows.write.format("paimon").mode("append").save(ours)
    found = frames.load(ours).where("variant_get(v, '$.a[1]', 'string') = 'x'")
    parts = found.selectExpr("variant_get(v, '$.a[0]', 'double')", "to_json(l[0])", "l[1]")
    assert parts.collect() == [(1.5, "[2]", None)]
    assert pp.variant_values(pp.Table.open(ours).scan().to_arrow()["v"]) == [{"a": [Decimal("1.5"), "x"]}]


@pytest.mark.slow
def test_partitions_of_two_branches(frames):
    """With scan.fallback-branch the plan of a query is of both."""
    path = str(v2_table("fallback_branch"))
    assert sorted(row["v"] for row in frames.load(path).collect()) == ["fb3", "main1", "main2"]
    few = frames.load(path, filter="dt = 'd3'")
    assert few.count() == 1
    for options, count in (({"filter": "id = 5"}, 0), ({"filter": "dt > 'd1'"}, 2), ({"limit": "2"}, 2)):
        assert frames.load(path, **options).count() == count
    assert [row["v"] for row in frames.load(path, topn="dt desc, v, 2").collect()] == ["fb3", "main2"]


@pytest.mark.slow
def test_chain_tables(frames):
    path = unpacked(ROOT / "tests" / "fixtures" / "chain_tables.tar.xz") / "c_dedup"
    rows = sorted(json.loads((path / "rows.json").read_text()), key=lambda row: (row["g"], row["dt"], row["k"]))
    found = frames.load(str(path)).orderBy("g", "dt", "k").collect()
    assert [row.asDict() for row in found] == rows
    last = [row for row in rows if row["dt"] > "20250131"]
    assert frames.load(str(path), filter="dt > '20250131'").count() == len(last)
    best = frames.load(str(path), topn="g desc, dt desc, k desc, 2").collect()
    assert [row.asDict() for row in best] == rows[:-3:-1]


@pytest.mark.slow
def test_rows_that_wait_for_their_buckets_are_merged_in(frames, tmp_path):
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    path = str(tmp_path / "t")
    table = pp.Table.create(path, "p STRING NOT NULL, k INT NOT NULL, v INT", "p, k", "p", options=options)
    for value in (1, 2):
        table.append([{"p": p, "k": k, "v": value} for p in "xy" for k in range(3)])
        if value == 1:
            table.compact()
    table.append([{"p": "x", "k": 9, "v": 9}])
    assert sorted(row["v"] for row in frames.load(path).collect()) == [1] * 6
    merged = {"postpone__merge-on-read": "true"}
    assert sorted(row["v"] for row in frames.load(path, **merged).collect()) == [2] * 6 + [9]
    assert frames.load(path, filter="v = 9", **merged).count() == 1
    assert frames.load(path, limit="4", **merged).count() == 4
    assert [row["k"] for row in frames.load(path, topn="v desc, k desc, p, 2", **merged).collect()] == [9, 2]
