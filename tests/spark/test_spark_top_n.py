"""The option ``topn``: the first rows in an order, exactly so many, as Spark's own ORDER BY … LIMIT has them."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

import paimon_pyds as pp

NAN = float("nan")
INDEXES = {"file-index.range-bitmap.columns": "amount,score", "file-index.bitmap.columns": "color"}

pytestmark = pytest.mark.over_connect


@pytest.fixture
def orders(path):
    """Three files: with indexes, without, and one whose rows are partly deleted."""
    schema = pa.schema([("id", pa.int64()), ("amount", pa.int32()), ("score", pa.float64()), ("color", pa.string())])
    table = pp.Table.create(path, schema, options={**INDEXES, "deletion-vectors.enabled": "true"})
    scores = [0.0, -0.0, NAN, None, 1.5, -3.0]

    def rows(first, n):
        ids = range(first, first + n)
        amounts = [None if i % 7 == 0 else i * 37 % 50 for i in ids]
        return pa.table(
            [list(ids), amounts, [scores[i % 6] for i in ids], ["red" if i % 3 else "blue" for i in ids]],
            schema=schema,
        )

    table.append(rows(0, 40))
    table.delete("amount > 45")
    table.alter(unset_options=list(INDEXES))
    table.append(rows(40, 40))
    table.alter(INDEXES)
    table.append(rows(80, 40))
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "n"),
    [
        ("amount desc, id", 10),
        ("amount, id", 25),
        ("amount desc nulls first, id desc", 25),
        ("score desc, color, id", 50),
        ("color, amount desc, id", 200),
        ("id", 0),
    ],
)
def test_rows_are_those_of_spark(frames, orders, columns, n):
    frame = frames.load(orders.path, topn=f"{columns}, {n}")
    everything = frames.load(orders.path)
    everything.createOrReplaceTempView("everything")
    expected = frames.spark.sql(f"SELECT * FROM everything ORDER BY {columns} LIMIT {n}").collect()
    found = frame.collect()
    assert [repr(r) for r in found] == [repr(r) for r in expected]
    assert frame.count() == len(expected) == min(n, everything.count())


@pytest.mark.slow
def test_with_a_filter_columns_and_a_limit(frames, orders):
    frame = frames.load(orders.path, topn="amount desc, id, 5", filter="color = 'blue'", columns="color, id", limit=4)
    everything = frames.load(orders.path)
    everything.createOrReplaceTempView("everything")
    query = "SELECT color, id FROM everything WHERE color = 'blue' ORDER BY amount DESC, id LIMIT 4"
    assert frame.collect() == frames.spark.sql(query).collect()
    assert frames.load(orders.path, topn="id, 5", filter="false").count() == 0


@contextlib.contextmanager
def pushing(spark):
    """The session with Spark's setting on."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:pushdown is on")
def test_conditions_of_spark_are_about_the_chosen_rows(frames, orders):
    with pushing(frames.spark):
        frame = frames.load(orders.path, topn="id desc, 10", pushdown="on")
        assert [r.id for r in frame.where("id < 113").collect()] == [112, 111, 110]
        assert frame.where("id < 50").count() == 0


def test_one_task_finds_them(orders):
    from pyspark.sql.types import LongType, StructField, StructType

    from paimon_pyds.spark.options import parse_read_options
    from paimon_pyds.spark.reader import PaimonReader, TopNPartition

    options = parse_read_options({"path": orders.path, "topn": "amount desc, id, 3"})
    (partition,) = PaimonReader(StructType([StructField("id", LongType())]), options, None).plan()
    assert isinstance(partition, TopNPartition)
    assert repr(partition) == "TopNPartition(3 rows of 3 files)"
