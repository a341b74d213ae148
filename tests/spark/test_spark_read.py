"""spark.read.format("paimon"): options, projections, pinned snapshots, metadata columns."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.format_tables import format_table

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def test_all_rows(frames, six):
    frame = frames.load(six.path)
    assert frame.schema.simpleString() == "struct<id:int,color:string,size:double>"
    assert frames.rows(frame) == [
        (1, "red", 1.5), (2, "green", None), (3, None, 2.5), (4, "red", 3.5), (5, "green", None), (6, "blue", 0.5),
    ]  # fmt: skip
    assert frame.count() == 6


def test_the_second_name(spark, six):
    assert spark.read.format("paimon_pyds").load(six.path).count() == 6


@pytest.mark.slow
def test_the_table_by_warehouse_and_name(spark, six):
    warehouse = str(Path(six.path).parents[1])
    assert spark.read.format("paimon").options(warehouse=warehouse, table="db.t").load().count() == 6
    assert spark.read.format("paimon").options(warehouse=warehouse, database="db", table="t").load().count() == 6


@pytest.mark.slow
def test_a_format_table(frames, tmp_path):
    table = format_table(tmp_path / "t", "id INT, d DATE, p STRING", "csv", ["p"])
    for p, ids in (("x", (1, 2)), ("y", (3,))):
        (tmp_path / "t" / f"p={p}").mkdir()
        (tmp_path / "t" / f"p={p}" / "a.csv").write_text("".join(f"{i},2020-01-0{i}\n" for i in ids))
    assert frames.load(table.path).count() == 3
    frame = frames.load(table.path, filter="p = 'x' AND d > '2020-01-01'")
    assert [tuple(map(str, row)) for row in frames.rows(frame)] == [("2", "2020-01-02", "x")]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("color = 'red' OR size > 2", [1, 3, 4]),
        ("id = 99", []),
        ("upper(color) = 'RED' AND id + 1 > 2", [4]),
    ],
)
def test_filter(frames, six, text, ids):
    assert frames.ids(frames.load(six.path, filter=text)) == ids


@pytest.mark.slow
def test_filter_and_spark_filters_together(frames, six):
    frame = frames.load(six.path, filter="color = 'red' OR color = 'green'")
    assert frames.ids(frame.where("size IS NULL")) == [2, 5]
    assert frames.ids(frame.where("id < 3")) == [1, 2]
    assert frame.count() == 4


def test_columns(frames, six):
    frame = frames.load(six.path, columns="size, ID", filter="color = 'blue'")
    assert frame.columns == ["size", "id"]
    assert frames.rows(frame) == [(0.5, 6)]


@pytest.mark.slow
def test_limit(frames, six):
    assert frames.load(six.path, limit=5).count() == 5
    assert frames.load(six.path, limit=0).count() == 0
    assert frames.load(six.path, limit=100).count() == 6
    assert frames.load(six.path, limit=1, filter="color = 'green'").count() == 1


def test_a_schema_is_a_projection(spark, six):
    def load(schema):
        return spark.read.format("paimon").schema(schema).load(six.path)

    assert sorted(tuple(r) for r in load("COLOR string, id long").where("id > 4").collect()) == [
        ("blue", 6),
        ("green", 5),
    ]
    assert load("size double").columns == ["size"]
    assert load("id int, __paimon_bucket int").where("id = 1").collect() == [(1, 0)]


def test_a_schema_that_does_not_fit(spark, six):
    def read(schema):
        spark.read.format("paimon").schema(schema).load(six.path).collect()

    with pytest.raises(Exception, match="names a column 'nope' that the table does not have"):
        read("nope string")
    with pytest.raises(Exception, match="column id is INT in the table and string in the schema given"):
        read("id string")
    with pytest.raises(Exception, match="column color is NOT NULL, and 1 of"):
        read("color string not null")


def nested(path: str) -> pp.Table:
    table = pp.Table.create(
        path,
        pa.schema(
            [
                pa.field("id", pa.int32(), nullable=False),
                (
                    "info",
                    pa.struct([("name", pa.string()), ("size", pa.struct([("w", pa.int32()), ("h", pa.int32())]))]),
                ),
                ("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.int64())]))),
            ]
        ),
    )
    rows = [
        {"id": 1, "info": {"name": "a", "size": {"w": 1, "h": 2}}, "tags": [{"k": "x", "v": 1}, None]},
        {"id": 2, "info": None, "tags": None},
        {"id": 3, "info": {"name": None, "size": None}, "tags": []},
    ]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    return table


def test_members_of_structs(frames, path):
    nested(path)
    frame = frames.load(path, columns="info.size.h, id")
    assert frame.schema.simpleString() == "struct<info:struct<size:struct<h:int>>,id:int>"
    assert frame.selectExpr("id", "info.size.h").orderBy("id").collect() == [(1, 2), (2, None), (3, None)]
    projected = frames.spark.read.format("paimon").schema("id int, tags array<struct<v: bigint>>").load(path)
    assert [r.tags for r in projected.orderBy("id").collect()] == [[(1,), None], None, []]


def seven(table):
    table.append(pa.table({"id": pa.array([7], pa.int32()), "color": ["red"], "size": [0.0]}))


def test_each_query_reads_the_newest_snapshot_unless_one_is_named(spark, frames, six):
    frame, first = frames.load(six.path), frames.load(six.path, scan__snapshot_id=1)
    by_schema = spark.read.format("paimon").schema("id int").load(six.path)
    frame.createOrReplaceTempView("newest")
    assert frame.count() == by_schema.count() == 6
    seven(six)
    assert frame.count() == frame.where("id > 0").count() == by_schema.count() == 7
    assert frames.ids("SELECT id FROM newest WHERE color = 'red'") == [1, 4, 7]
    assert frames.rows("SELECT count(*) FROM newest a JOIN newest b ON a.id = b.id") == [(7,)]
    six.delete("id < 7")
    assert frame.count() == 1
    assert first.count() == 4
    assert frames.ids("SELECT id FROM newest UNION ALL SELECT id + 10 FROM newest") == [7, 17]


@pytest.mark.slow
def test_what_is_cached_stays_until_it_is_not(frames, six):
    frame = frames.load(six.path).cache()
    assert frame.count() == 6
    seven(six)
    assert frame.count() == 6
    assert frame.unpersist(True).count() == 7


@pytest.mark.classic  # Connect analyses a plan anew once its session no longer caches it
def test_the_columns_are_those_of_the_load(frames, six):
    frame = frames.load(six.path)
    six.alter(add_columns={"extra": "STRING"})
    assert frame.where("id = 1").collect() == [(1, "red", 1.5)]
    six.alter(rename_columns={"color": "colour"})
    assert frame.where("color = 'blue'").collect() == [(6, "blue", 0.5)]
    assert frames.load(six.path).where("id = 1").collect() == [(1, "red", 1.5, None)]
    other = frames.load(six.path)
    six.alter(drop_columns=["size"])
    with pytest.raises(Exception, match=r"column size was dropped after the table was loaded.*load the table again"):
        other.collect()


@pytest.mark.slow
def test_an_empty_table_that_gets_rows(frames, path):
    table = pp.Table.create(path, pa.schema([("a", pa.int32())]))
    frame = frames.load(path)
    assert frame.collect() == []
    assert frame.count() == 0
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    assert frame.count() == 1


@pytest.mark.slow
def test_time_travel(frames, six):
    assert frames.load(six.path, scan__snapshot_id=1).count() == 4
    assert frames.load(six.path, scan__version="2").count() == 6
    assert frames.load(six.path, scan__timestamp_millis=six.snapshots.list()[0].time_millis).count() in (4, 6)
    assert frames.ids(frames.load(six.path, incremental_between="1,2")) == [5, 6]


@pytest.mark.slow
def test_time_travel_reads_with_the_schema_of_that_snapshot(frames, six):
    six.alter(add_columns={"extra": "STRING"})
    assert frames.load(six.path).columns == ["id", "color", "size", "extra"]
    assert frames.load(six.path).where("extra IS NULL").count() == 6
    assert frames.load(six.path, scan__snapshot_id=2).columns == ["id", "color", "size"]


@pytest.mark.slow
def test_metadata_columns(frames, six):
    frame = frames.load(six.path, metadata_columns="__paimon_row_index, __paimon_file_path, __paimon_bucket")
    assert frame.columns == ["id", "color", "size", "__paimon_row_index", "__paimon_file_path", "__paimon_bucket"]
    rows = frame.select("id", "__paimon_row_index", "__paimon_bucket").collect()
    assert sorted(tuple(r) for r in rows) == [(1, 0, 0), (2, 1, 0), (3, 2, 0), (4, 3, 0), (5, 0, 0), (6, 1, 0)]
    files = {r[0] for r in frame.select("__paimon_file_path").collect()}
    assert files == set(six.scan().plan().paths)
    assert frames.load(six.path, columns="__paimon_row_index,id", filter="id = 2").collect() == [(2, 1)]


@pytest.mark.slow
def test_explain_to_a_file(frames, six, tmp_path):
    target = tmp_path / "why.txt"
    assert frames.load(six.path, filter="color = 'blue'", explain=target).count() == 1
    assert "color = 'blue'" in target.read_text()


@pytest.mark.slow
def test_partitions_of_data_are_few_for_a_small_table(frames, path):
    table = pp.Table.create(path, pa.schema([("a", pa.int32())]))
    for i in range(6):
        table.append(pa.table({"a": pa.array([i], pa.int32())}))
    query = "spark_partition_id() AS task"
    assert len({r.task for r in frames.load(path).selectExpr(query).collect()}) <= 2
    assert len({r.task for r in frames.load(path, source__split__target_size="1 kb").selectExpr(query).collect()}) == 6


@pytest.mark.slow
def test_a_table_made_anew_at_the_same_place(frames, path):
    for value in (1, 2):
        table = pp.Table.create(path, pa.schema([("a", pa.int32())]))
        table.append(pa.table({"a": pa.array([value], pa.int32())}))
        assert frames.load(path).collect() == [(value,)]
        shutil.rmtree(path)


def test_comments_and_nullability(frames, path):
    schema = pa.schema([pa.field("a", pa.int32(), False, {"comment": "the key"}), ("b", pa.string())])
    pp.Table.create(path, schema)
    fields = frames.load(path).schema.fields
    assert [(f.name, f.nullable, f.metadata) for f in fields] == [("a", False, {"comment": "the key"}), ("b", True, {})]
