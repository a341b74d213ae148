"""Columns that a DataFrame does not have: all ways to write, as `Table.append` has it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import write

pytestmark = pytest.mark.spark


def rows(path):
    return pp.Table.open(path).to_arrow().sort_by("id").to_pylist()


WAYS = {
    "plain": lambda frames, df, path, **options: frames.save(df, path, **options),
    "shuffled": lambda frames, df, path, **options: write(df, path, **options),
}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "bucket"), [("plain", "2"), ("shuffled", "-1")])
def test_rows_that_replace_others_need_all_columns(frames, path, way, bucket):
    pp.Table.create(path, "id BIGINT, p BIGINT, v BIGINT", primary_key="id", options={"bucket": bucket})
    save = WAYS[way]
    save(frames, frames.spark.sql("SELECT 1L AS id, 2L AS p, 3L AS v"), path)
    part = frames.spark.sql("SELECT id, 5L AS p FROM range(1, 3)")
    with pytest.raises(Exception, match=r"column 'v' is missing from the data.*missing-columns=null"):
        save(frames, part, path)
    assert rows(path) == [{"id": 1, "p": 2, "v": 3}]
    deletes = frames.spark.sql("SELECT 1L AS id, '-D' AS op")
    save(frames, deletes, path, rowkind_column="op")
    assert rows(path) == []
    save(frames, part, path, missing_columns="null")
    assert rows(path) == [{"id": 1, "p": 5, "v": None}, {"id": 2, "p": 5, "v": None}]
    with pytest.raises(Exception, match="'v' is missing"):
        save(frames, frames.spark.sql("SELECT 1L AS id, 2L AS p, '+U' AS op"), path, rowkind_column="op")


@pytest.mark.long
@pytest.mark.slow
def test_keys_that_move(frames, path):
    table = pp.Table.create(path, "id BIGINT, p BIGINT, v BIGINT", "id", "p")
    table.append([{"id": 1, "p": 2, "v": 3}])
    for query in ("SELECT 1L AS id, 4L AS p", "SELECT 1L AS id, 4L AS v"):
        with pytest.raises(Exception, match="is missing from the data"):
            write(frames.spark.sql(query), path)
        with pytest.raises(Exception, match="is missing from the data"):
            write(frames.spark.sql(f"{query}, '+I' AS op"), path, rowkind_column="op")
    assert rows(path) == [{"id": 1, "p": 2, "v": 3}]
    write(frames.spark.sql("SELECT 1L AS id, 4L AS p"), path, missing_columns="null")
    assert rows(path) == [{"id": 1, "p": 4, "v": None}]
    write(frames.spark.sql("SELECT 1L AS id, '-D' AS op"), path, rowkind_column="op")
    assert rows(path) == []


@pytest.mark.slow
def test_an_overwrite_and_append_tables_take_them(frames, path):
    pp.Table.create(path, [{"id": 1, "v": 2}], "id")
    frames.save("SELECT 2L AS id", path, "overwrite")
    assert rows(path) == [{"id": 2, "v": None}]
    append = f"{path}_append"
    pp.Table.create(append, [{"id": 1, "v": 2}])
    frames.save("SELECT 2L AS id", append)
    assert rows(append)[1] == {"id": 2, "v": None}
    with pytest.raises(Exception, match="missing-columns is refuse"):
        frames.save("SELECT 3L AS id", append, missing_columns="refuse")


@pytest.mark.slow
def test_members_of_structs(frames, path):
    pp.Table.create(path, [{"id": 1, "s": {"a": 1, "b": 2}}], "id", options={"bucket": "1"})
    part = "SELECT 1L AS id, named_struct('b', 3L) AS s"
    with pytest.raises(Exception, match=r"column s has no field 'a'.*missing-columns=null"):
        frames.save(part, path)
    frames.save(part, path, missing_columns="null")
    assert rows(path) == [{"id": 1, "s": {"a": None, "b": 3}}]


@pytest.mark.slow
def test_views_and_operations(frames, path):
    pp.Table.create(path, [{"id": 1, "v": 2}], "id", options={"bucket": "1"})
    frames.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW partly USING paimon OPTIONS (path '{path}')")
    nulls = "spark.sql.defaultColumn.useNullsForMissingDefaultValues"
    try:
        frames.spark.conf.set(nulls, "false")  # else Spark puts NULL there before rows come here
        for columns in ("", "(id)", "BY NAME"):
            with pytest.raises(Exception, match=r"NOT_ENOUGH_DATA_COLUMNS|CANNOT_FIND_DATA"):
                frames.spark.sql(f"INSERT INTO partly {columns} SELECT 1L AS id")
    finally:
        frames.spark.conf.unset(nulls)
    assert rows(path) == [{"id": 1, "v": 2}]
    with pytest.raises(Exception, match="the DataFrame has no column 'v'"):
        frames.save("SELECT 1L AS id", path, operation="upsert")
    with pytest.raises(Exception, match="missing-columns has no meaning for operation=upsert"):
        frames.save("SELECT 1L AS id", path, operation="upsert", missing_columns="null")
