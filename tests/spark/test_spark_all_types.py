"""Every type that Spark and Paimon share, both ways: Spark writes and reads, Arrow reads and writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from support.spark_columns import COLUMNS, query

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def same(a: pa.Table, b: pa.Table) -> None:
    """Equal tables, NaN equal to NaN, whatever the fields inside lists and maps are called."""
    assert a.schema.names == b.schema.names
    assert repr(a.sort_by("id").to_pylist()) == repr(b.sort_by("id").to_pylist())


def test_spark_writes_what_spark_and_arrow_read(frames, path):
    frame = frames.spark.sql(query(COLUMNS))
    frames.save(frame, path)
    table = pp.Table.open(path)
    assert {f.name: str(f.type) for f in table.schema.fields} == {
        "id": "INT NOT NULL", **{name: type_ for name, (type_, _) in COLUMNS.items()},
    }  # fmt: skip
    back = frames.load(path)
    assert back.schema == frame.schema
    same(back.toArrow(), frame.toArrow())
    same(table.scan().to_arrow(), frame.toArrow())


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_file_formats(frames, path, file_format):
    columns = dict(COLUMNS)
    if file_format == "orc":  # what ORC's timestamps can't hold is refused by name: see tests/format
        columns["at"] = (
            "TIMESTAMP(6)",
            ["TIMESTAMP_NTZ'1900-01-01 00:00:00.000001'", "TIMESTAMP_NTZ'2262-01-01 00:00:00'"],
        )
        columns["utc"] = ("TIMESTAMP(6) WITH LOCAL TIME ZONE", ["TIMESTAMP'2024-03-31 01:30:00+01:00'"])
        columns.pop("deep")
    frame = frames.spark.sql(query(columns))
    frames.save(frame, path, file__format=file_format)
    same(frames.load(path).toArrow(), frame.toArrow())


PARTITION_TYPES = ("yes", "tiny", "small", "int", "big", "dec", "text", "day", "at", "utc")


@pytest.mark.slow
def test_partitions_of_every_type(frames, path):
    columns = {name: COLUMNS[name] for name in PARTITION_TYPES}
    columns["text"] = ("STRING", ["'äß€'", "'a b/c=d%'"])
    frame = frames.spark.sql(query(columns))
    frames.save(frame, path, partition_by=",".join(PARTITION_TYPES))
    same(frames.load(path).toArrow(), frame.toArrow())
    assert len(pp.Table.open(path).scan().plan().files) == len(frame.collect())


ARROW = pa.table(
    {
        "id": pa.array([0, 1, 2, 3], pa.int32()),
        "char": pa.array(["abc", "", None, "x"]),
        "s": pa.array([-1, 0, None, 86_400], pa.int64()).cast(pa.timestamp("s")),
        "ms": pa.array([-1, 0, None, 86_400_001], pa.int64()).cast(pa.timestamp("ms", "UTC")),
        "ns": pa.array([-1, 1999, None, -1001], pa.int64()).cast(pa.timestamp("ns")),
        "nested": pa.array([[-1, None], [], None, [1999]], pa.list_(pa.int64())).cast(
            pa.list_(pa.timestamp("ns", "UTC"))
        ),
        "fixed": pa.array([b"ab", b"\x00\x01", None, b"zz"], pa.binary(2)),
    }
)


def test_arrow_writes_what_spark_reads(frames, path):
    table = pp.Table.create(path, ARROW.schema)
    table.append(ARROW)
    back = frames.load(path).toArrow().sort_by("id")

    def micros(name):
        return back[name].combine_chunks().cast(pa.int64()).to_pylist()

    assert micros("s") == [-1_000_000, 0, None, 86_400_000_000]
    assert micros("ms") == [-1000, 0, None, 86_400_001_000]
    assert micros("ns") == [-1, 1, None, -2]  # rounded down, not towards zero
    assert back["nested"].combine_chunks().cast(pa.list_(pa.int64())).to_pylist() == [[-1, None], [], None, [1]]
    assert back["fixed"].to_pylist() == ARROW["fixed"].to_pylist()
    assert back["char"].to_pylist() == ARROW["char"].to_pylist()


@pytest.mark.slow
def test_not_null_members_of_nullable_structs(frames, path):
    frame = frames.spark.sql(
        "SELECT id, IF(id = 1, NULL, named_struct('a', id, 'b', named_struct('c', 'x', 'd', array(1)))) AS s"
        " FROM range(3)"
    )
    frames.save(frame, path)
    row = "ROW<a BIGINT NOT NULL, b ROW<c STRING NOT NULL, d ARRAY<INT NOT NULL> NOT NULL> NOT NULL>"
    assert str(pp.Table.open(path).schema.fields[1].type) == row
    assert frames.load(path).schema == frame.schema
    assert (
        frames.rows(frames.load(path)) == frames.rows(frame) == [(0, (0, ("x", [1]))), (1, None), (2, (2, ("x", [1])))]
    )


def test_time_columns_both_ways(frames, path, time_type):
    if not time_type:
        pytest.skip("this Spark has no TIME")
    frame = frames.spark.sql(
        "SELECT * FROM VALUES (1, TIME'23:59:59.999'), (2, NULL), (3, TIME'00:00:00') AS v(id, clock)"
    )
    frames.save(frame, path)
    assert str(pp.Table.open(path).schema.fields[1].type) == "TIME(6)"
    assert frames.load(path).schema["clock"] == frame.schema["clock"]
    same(frames.load(path).toArrow(), frame.toArrow())
    with pytest.raises(Exception, match=r"column clock .* does not fit .*TIME columns hold milliseconds"):
        frames.save(frames.spark.sql("SELECT 4 AS id, TIME'00:00:00.000001' AS clock"), path)
    assert pp.Table.open(path).count() == 3


def test_time_columns(frames, path, time_type):
    schema = pa.schema([("id", pa.int32()), ("clock", pa.time32("ms"))])
    pp.Table.create(path, schema).append(pa.table({"id": [1], "clock": [dt.time(1, 2, 3, 4000)]}, schema=schema))
    assert frames.rows(frames.load(path, columns="id")) == [(1,)]
    if not time_type:
        with pytest.raises(Exception, match=r"column clock has the type TIME\(3\).*option\('columns'"):
            frames.load(path).collect()
        assert frames.spark.read.format("paimon").schema("id int").load(path).count() == 1
    else:
        assert frames.rows(frames.load(path)) == [(1, dt.time(1, 2, 3, 4000))]


@pytest.mark.slow
def test_lengths_hold(frames, path):
    from paimon_pyds.base.types import DataField, parse_type

    fields = [
        DataField(0, "c", parse_type("CHAR(3)")),
        DataField(1, "v", parse_type("VARCHAR(2)")),
        DataField(2, "b", parse_type("VARBINARY(2)")),
    ]
    pp.Table.create(path, fields)
    frames.save("SELECT 'abc' AS c, 'äß' AS v, X'0001' AS b", path)
    assert frames.load(path).collect() == [("abc", "äß", b"\x00\x01")]
    for bad in ("'abcd' AS c", "'abc' AS v", "X'000102' AS b"):
        with pytest.raises(Exception, match="does not fit"):
            frames.save(f"SELECT {bad}", path)


@pytest.mark.slow
def test_filters_on_every_type(frames, path):
    """One query for each text: the option `filter` on one side, Spark on the other, counted in one action."""
    frames.save(query(COLUMNS), path)
    frame = frames.load(path).cache()
    atoms = [name for name, (type_, _) in COLUMNS.items() if "<" not in type_]
    texts = [f"`{name}` IS {word}NULL" for name in ("yes", "wide", "utc", "map", "row") for word in ("", "NOT ")]
    texts += [f"`{name}` = {COLUMNS[name][1][-1]}" for name in atoms]
    texts += ["`row`.a = 1", "`row`.b.c = 'x'", "`map`['a'] = 1.5D", "`text` > '' AND NOT `yes`"]
    counts = frame.selectExpr(*(f"count_if({text})" for text in texts)).collect()[0]
    table = pp.Table.open(path)
    found = {text: table.count(text, options={"timezone": "UTC"}) for text in texts}
    assert found == dict(zip(texts, counts, strict=True))
    assert min(found.values()) > 0
    frame.unpersist()
    for text in texts[-6:]:
        assert frames.load(path, filter=text).count() == found[text], text


@pytest.mark.slow
def test_decimals_of_another_scale(frames, path):
    pp.Table.create(path, pa.schema([("d", pa.decimal128(10, 2))]))
    frames.save("SELECT 1.5BD AS d", path)
    frames.save("SELECT cast(2 AS DECIMAL(20, 0)) AS d", path)
    assert frames.ids(frames.load(path)) == [Decimal("1.50"), Decimal("2.00")]
    with pytest.raises(Exception, match="column d"):
        frames.save("SELECT 1.555BD AS d", path)
