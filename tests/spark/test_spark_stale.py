"""DataFrames and views that outlive a change of their table. Spark 4.1 to 4.3 plan them once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds import spark as paimon
from paimon_pyds.spark import compat

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

FILES = 6
SEVERAL_TASKS = "`source.split.target-size` '4mb'"
"""A file counts as 4 MB at least."""
_names = itertools.count()


@pytest.fixture
def table(path: str) -> pp.Table:
    """Six files of one row."""
    return files(path, FILES)


@pytest.fixture
def view(spark: Any) -> Iterator[Any]:
    """Makes temporary views."""
    made = []

    def make(path: str, *options: str) -> str:
        made.append(f"stale_{next(_names)}")
        given = ", ".join([f"path '{path}'", *options])
        spark.sql(f"CREATE TEMPORARY VIEW {made[-1]} USING paimon OPTIONS ({given})")
        return made[-1]

    yield make
    for name in made:
        spark.catalog.dropTempView(name)


def files(path: str, count: int) -> pp.Table:
    """A table of so many files of one row."""
    table = pp.Table.create(path, "id BIGINT", options={"write-only": True})
    for n in range(count):
        table.append({"id": [n]})
    return table


def tasks_of(spark: Any, name: str) -> int:
    return len({row[0] for row in spark.sql(f"SELECT spark_partition_id(), id FROM {name}").collect()})


@pytest.mark.slow
def test_a_view_of_many_small_files_is_one_task_and_always_new(spark, frames, path, view):
    table = files(path, 30)
    name = view(path)
    count = f"SELECT count(*), min(id), max(id) FROM {name}"
    assert frames.rows(count) == [(30, 0, 29)] and tasks_of(spark, name) == 1
    paimon.delete(spark, path, "id < 10")
    assert frames.rows(count) == [(20, 10, 29)]
    table.update({"id": "100"}, "id = 29")
    assert frames.rows(count) == [(20, 10, 100)]
    table.overwrite({"id": [7]})
    assert frames.rows(count) == [(1, 7, 7)]


@pytest.mark.slow
def test_a_change_of_the_session_is_not_passed_over(spark, frames, table, view):
    """Several tasks can't agree on another snapshot than the planned one: the query fails, and says what to do."""
    name = view(table.path, SEVERAL_TASKS)
    assert tasks_of(spark, name) > 1
    for change, rows in (
        (lambda: paimon.delete(spark, table.path, "id = 0"), FILES - 1),
        (lambda: paimon.update(spark, table, {"id": "id + 10"}, "id = 1"), FILES - 1),
        (lambda: paimon.merge(spark, table.path, [{"id": 2}], "id", when_matched="delete"), FILES - 2),
        (lambda: paimon.write(spark.range(3), table.path, "overwrite"), 3),
    ):
        change()
        if compat.plans_once():
            with pytest.raises(Exception, match=r"rows were changed .* load it again"):
                spark.table(name).collect()
            name = view(table.path, SEVERAL_TASKS)
        assert spark.table(name).count() == rows


def test_what_others_change_is_seen_by_the_next_load(spark, frames, table, view):
    name = view(table.path, SEVERAL_TASKS)
    assert spark.table(name).count() == FILES
    table.delete("id = 0")
    spark.sql(f"REFRESH TABLE {name}")
    assert spark.table(name).count() == FILES - (not compat.plans_once())
    assert frames.load(table.path, source__split__target_size="4mb").count() == FILES - 1


@pytest.mark.slow
def test_rows_with_a_key_that_the_session_writes(spark, frames, path, view):
    keyed = pp.Table.create(path, "id BIGINT, v INT", "id", options={"bucket": 4})
    keyed.append({"id": list(range(100)), "v": [0] * 100})
    name = view(path, SEVERAL_TASKS)
    query = f"SELECT count(*), sum(v) FROM {name}"
    assert frames.rows(query) == [(100, 0)] and tasks_of(spark, name) > 1
    paimon.write(spark.range(50, 150).selectExpr("id", "1 AS v"), path)
    if compat.plans_once():
        with pytest.raises(Exception, match=r"rows were changed .* load it again"):
            frames.rows(query)
    else:
        assert frames.rows(query) == [(150, 100)]


@pytest.mark.slow
def test_a_view_over_a_table_of_the_catalog_is_planned_by_each_query(spark, frames, table):
    name = f"catalogued_{next(_names)}"
    spark.sql(f"CREATE TABLE {name} USING paimon OPTIONS (path '{table.path}')")
    try:
        again = f"WITH (`path` = '{table.path}', `source.split.target-size` = '4mb')"
        spark.sql(f"CREATE TEMPORARY VIEW {name}_now AS SELECT * FROM {name} {again}")
        assert tasks_of(spark, f"{name}_now") > 1
        cached = spark.table(f"{name}_now").cache()
        assert len(cached.take(1)) == 1
        paimon.delete(spark, table.path, "id IN (0, 5)")
        spark.catalog.dropTempView(f"{name}_now")
        spark.sql(f"CREATE TEMPORARY VIEW {name}_now AS SELECT * FROM {name} {again}")
        assert frames.ids(f"SELECT id FROM {name}_now") == [1, 2, 3, 4]
        table.append({"id": [6]})
        table.delete("id = 1")
        assert frames.ids(f"SELECT id FROM {name}_now") == [2, 3, 4, 6]
    finally:
        spark.sql(f"DROP VIEW {name}_now")
        spark.sql(f"DROP TABLE {name}")


def test_a_cached_frame_is_of_one_snapshot(spark, frames, table):
    cached = frames.load(table.path, source__split__target_size="4mb").cache()
    try:
        assert len(cached.take(1)) == 1
        table.compact(full=True)
        table.delete("id IN (0, 5)")
        assert frames.ids(cached) == list(range(FILES))
    finally:
        cached.unpersist()


@pytest.mark.slow
def test_time_travel_stays_where_it_is(spark, frames, table, view):
    name = view(table.path, SEVERAL_TASKS, f"`scan.snapshot-id` '{FILES}'")
    paimon.delete(spark, table.path, "id = 0")
    assert spark.table(name).count() == FILES
