"""Functions of SQL in conditions and values that Spark hands over: the rows are those that Spark itself finds."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import delete, merge, update
from support.spark_zone import zone

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([
    ("id", pa.int64()), ("tags", pa.list_(pa.string())), ("attrs", pa.map_(pa.string(), pa.int32())),
    ("ts", pa.timestamp("us", "UTC")), ("words", pa.string()),
])  # fmt: skip
ZONE = "America/Los_Angeles"
CONDITIONS = [
    "exists(tags, t -> t LIKE 'b%') AND id > 2",
    "array_contains(tags, 'red') OR element_at(attrs, 'x') = 1",
    "date_format(ts, 'yyyy-MM-dd HH') = '2024-11-03 01'",
    "size(split(words, ' ')) = 2 AND regexp_like(words, '^[a-c]')",
    "pmod(hash(id, words), 3) = 1",
]


@pytest.fixture
def table(path: str) -> pp.Table:
    made = pp.Table.create(path, SCHEMA, options={"file-index.bitmap.columns": "id"})
    tags = [["red"], ["blue", "red"], [], None, ["black", None]]
    attrs = [[("x", 1)], [("y", 2)], [], None, [("x", None)]]
    rows = [
        (n, tags[n % 5], attrs[n % 5], dt.datetime(2024, 11, 3, 7 + n % 4, n * 7 % 60, tzinfo=dt.UTC),
         ["a b", "b", None, "c d e", "cc x"][n % 5])
        for n in range(20)
    ]  # fmt: skip
    made.append(pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], SCHEMA))
    return made


@pytest.mark.slow
def test_reads_and_row_operations(spark: Any, table: pp.Table) -> None:
    with zone(spark, ZONE):
        whole = spark.read.format("paimon").load(table.path)
        expected = {c: sorted(row.id for row in whole.where(c).select("id").collect()) for c in CONDITIONS}
        for condition, ids in expected.items():
            assert 0 < len(ids) < 20, condition
            reader = spark.read.format("paimon").option("timezone", ZONE).option("where", condition)
            assert sorted(row.id for row in reader.load(table.path).select("id").collect()) == ids, condition
        done = update(spark, table.path, {"words": "array_join(transform(tags, t -> upper(t)), '+')"}, CONDITIONS[0])
        assert done.rows_updated == len(expected[CONDITIONS[0]])
        gone = delete(spark, table.path, CONDITIONS[2])
        assert gone.rows_deleted == len(expected[CONDITIONS[2]])
        source = spark.sql("SELECT 0L AS id, 'p q' AS text UNION ALL SELECT 100L, 'r'")
        merge(
            spark,
            table.path,
            source,
            "id",
            when_matched="AND size(split(source.text, ' ')) > 1 THEN UPDATE SET tags = split(source.text, ' ')",
            when_not_matched="INSERT (id, tags) VALUES (source.id, array(source.text))",
        )
    assert table.scan("id IN (0, 100)", columns=["tags"]).to_arrow()["tags"].to_pylist() == [["p", "q"], ["r"]]
    upper = table.scan("words = 'BLACK' OR words = 'BLUE+RED'").count()
    assert upper == len(set(expected[CONDITIONS[0]]) - set(expected[CONDITIONS[2]]))
