"""SQL: temporary views, INSERT INTO, INSERT OVERWRITE, and tables of the catalog by WITH."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.spark import compat

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

_names = itertools.count()


@pytest.fixture
def view(spark, six):
    name = f"view_{next(_names)}"
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING paimon OPTIONS (path '{six.path}')")
    yield name
    spark.catalog.dropTempView(name)


def test_select(frames, view):
    assert frames.ids(f"SELECT id FROM {view} WHERE color = 'red' OR size > 2") == [1, 3, 4]
    assert frames.rows(f"SELECT color, count(*) FROM {view} GROUP BY color") == [
        ("blue", 1),
        ("green", 2),
        ("red", 2),
        (None, 1),
    ]
    assert frames.ids(f"SELECT a.id FROM {view} a JOIN {view} b ON a.id = b.id + 1 WHERE a.color = 'blue'") == [6]


def test_options_of_a_view(spark, frames, six):
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW red_ones USING paimon "
        f"OPTIONS (path '{six.path}', filter 'color = \\'red\\'', columns 'id', `scan.snapshot-id` '1')"
    )
    assert frames.rows("SELECT * FROM red_ones") == [(1,), (4,)]


def test_insert_into(frames, six, view):
    frames.spark.sql(f"INSERT INTO {view} VALUES (7, 'pink', 1.0)")
    frames.spark.sql(f"INSERT INTO {view} SELECT id + 10, color, size FROM {view} WHERE id = 1")
    frames.spark.sql(f"INSERT INTO {view} (size, id, color) SELECT 5, 8, NULL")
    frames.spark.sql(f"INSERT INTO {view} BY NAME SELECT 9 AS id, 2.5 AS size, 'x' AS color")
    assert frames.rows(frames.load(six.path, filter="id > 6")) == [
        (11, "red", 1.5), (7, "pink", 1.0), (8, None, 5.0), (9, "x", 2.5),
    ]  # fmt: skip
    assert len(six.snapshots.list()) == 6


@pytest.mark.slow
def test_a_view_shows_what_was_inserted_through_it(frames, view):
    count = f"SELECT count(*), max(id) FROM {view}"
    assert frames.rows(count) == [(6, 6)]
    frames.spark.sql(f"INSERT INTO {view} VALUES (7, 'pink', 1.0)")
    assert frames.rows(count) == [(7, 7)]
    frames.spark.sql(f"INSERT OVERWRITE {view} SELECT id + 10, color, size FROM {view} WHERE id = 7")
    assert frames.rows(count) == [(1, 17)]
    frames.spark.sql(f"REFRESH TABLE {view}")
    assert frames.rows(count) == [(1, 17)]


@pytest.mark.long
def test_a_view_of_a_table_that_several_tasks_read(spark, frames, path):
    """Spark 4.1 to 4.3 keep the plan of a view whatever REFRESH TABLE says: appended rows are seen, others of the view
    that is made again."""
    size = 4_000_000
    values = np.random.default_rng(1).random(size)  # 32 MB, which no codec makes less
    table = pp.Table.create(path, pa.schema([("id", pa.int64()), ("v", pa.float64())]))
    table.append(pa.table({"id": np.arange(size), "v": values}))
    define = f"CREATE OR REPLACE TEMPORARY VIEW large USING paimon OPTIONS (path '{path}')"
    spark.sql(define)
    tasks = "SELECT count(DISTINCT task) FROM (SELECT spark_partition_id() AS task, v FROM large WHERE v >= 0)"
    assert frames.rows(tasks)[0][0] > 1
    found = "SELECT count(v), min(id) FROM large"
    assert frames.rows(found) == [(size, 0)]
    spark.sql("INSERT INTO large VALUES (-1L, 0.5)")
    assert frames.rows(found) == [(size + 1, -1)]
    table.delete("id = 0")
    table.update({"id": "-2"}, "id = -1")
    kept = (size + 1, -1) if compat.plans_once() else (size, -2)
    assert frames.rows(found) == [kept]
    spark.sql("REFRESH TABLE large")
    assert frames.rows(found) == [kept]
    spark.sql(define)
    assert frames.rows(found) == [(size, -2)]
    spark.sql("INSERT OVERWRITE large SELECT 7L, 0.5")
    assert frames.rows(found) == [(size, -2) if compat.plans_once() else (1, 7)]


@pytest.mark.slow
def test_insert_overwrite(frames, six, view):
    frames.spark.sql(f"INSERT OVERWRITE {view} SELECT 1, 'only', NULL")
    assert frames.rows(frames.load(six.path)) == [(1, "only", None)]


def test_insert_that_does_not_fit(spark, six, view):
    before = [s.id for s in six.snapshots.list()]
    for query in ("VALUES (1)", "VALUES ('x', 'y', 'z')", "SELECT 1, 2, 3, 4"):
        with pytest.raises(Exception, match=r"INSERT|CAST|cast|columns"):
            spark.sql(f"INSERT INTO {view} {query}").collect()
    assert [s.id for s in six.snapshots.list()] == before


@pytest.mark.slow
def test_insert_into_a_partitioned_table_by_options_of_the_view(spark, frames, path):
    frames.save("SELECT id, int(id % 3) AS p FROM range(6)", path, partition_by="p")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW parts USING paimon "
        f"OPTIONS (path '{path}', `dynamic-partition-overwrite` 'true')"
    )
    spark.sql("INSERT OVERWRITE parts SELECT 100L, 1")
    assert frames.ids(frames.load(path)) == [0, 2, 3, 5, 100]


@pytest.mark.parametrize("name", ["where", "filter"])
def test_a_view_that_filters_is_read_only(spark, six, name):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW some USING paimon OPTIONS (path '{six.path}', {name} 'id > 1')")
    assert spark.table("some").count() == 5
    with pytest.raises(Exception, match=f"{name} is an option of reading"):
        spark.sql("INSERT INTO some VALUES (1, 'a', 1.0)").collect()


@pytest.mark.slow
def test_insert_into_a_new_table_through_a_view_with_columns(spark, frames, path):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW fresh (a INT, b STRING) USING paimon OPTIONS (path '{path}')")
    spark.sql("INSERT INTO fresh VALUES (1, 'x')")
    assert frames.rows(frames.load(path)) == [(1, "x")]


@pytest.mark.slow
def test_tables_of_the_catalog_need_their_path_again(spark, frames, six):
    name = f"catalogued_{next(_names)}"
    spark.sql(f"CREATE TABLE {name} USING paimon OPTIONS (path '{six.path}')")
    try:
        spark.sql(f"INSERT INTO {name} WITH (path='{six.path}') VALUES (7, 'pink', 1.0)")
        assert frames.ids(f"SELECT id FROM {name} WITH (path='{six.path}')") == [1, 2, 3, 4, 5, 6, 7]
        with pytest.raises(Exception, match=r"no table is named.*CREATE TEMPORARY VIEW"):
            spark.sql(f"SELECT * FROM {name}").collect()
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert pp.Table.open(six.path).count() == 7


def test_describe(frames, view):
    assert [(r[0], r[1]) for r in frames.spark.sql(f"DESCRIBE {view}").collect()] == [
        ("id", "int"), ("color", "string"), ("size", "double"),
    ]  # fmt: skip


def test_create_table_as_select_through_the_writer(spark, frames, six, path):
    target = path + "_copy"
    frames.save(frames.load(six.path), target, **{"file-index.bitmap.columns": "color"})
    assert pp.Table.open(target).scan("color = 'red'", columns=["id"]).to_arrow() == pa.table(
        {"id": pa.array([1, 4], pa.int32())}
    )
