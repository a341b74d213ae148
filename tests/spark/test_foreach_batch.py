"""`paimon_pyds.spark.foreach_batch`: upserts, deletes and merges of micro-batches, each once."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import LongType, StringType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from paimon_pyds.spark import foreach_batch

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("id", LongType()), StructField("v", StringType()), StructField("kind", StringType())])
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("kind", pa.string())])


class Query:
    """Files of rows with kinds, a micro-batch for each, given to a function."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root, self.count = spark, root, 0
        self.checkpoint = root / "checkpoint"
        (root / "in").mkdir()

    def add(self, *rows: tuple[int, str, str]) -> None:
        self.count += 1
        path = self.root / "in" / f"{self.count:04}.parquet"
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
        os.utime(path, (1_700_000_000 + self.count,) * 2)

    def run(self, function: Callable[..., None], *columns: str) -> None:
        read = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        frame = read.parquet(str(self.root / "in")).select(*(columns or ("id", "v", "kind")))
        writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(600)
        assert not query.isActive

    def forget(self, batch: int) -> None:
        for path in (self.checkpoint / "commits").iterdir():
            if path.name.lstrip(".").split(".")[0] == str(batch):
                path.unlink()

    @property
    def id(self) -> str:
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])


@pytest.fixture
def query(spark: Any, tmp_path: Path) -> Query:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return Query(spark, tmp_path)


def _rows(table: pp.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def _names(table: pp.Table) -> list[tuple[str, int]]:
    return [(s.commit_user, s.commit_identifier) for s in table.snapshots.list() if s.commit_kind.value != "COMPACT"]


def _given(spark: Any, function: Callable[..., None], *batches: tuple[int, list[tuple[int, str, str]]]) -> None:
    """Micro-batches by their numbers, as a query gives them, without one: its start takes seconds."""
    for number, rows in batches:
        pickle.loads(pickle.dumps(function))(spark.createDataFrame(rows, COLUMNS), number)


@pytest.mark.slow
@pytest.mark.over_connect
def test_rows_are_appended_once(query: Query, path: str) -> None:
    function = foreach_batch(path, name="loads")
    query.add((1, "a", "+I"), (2, "b", "+I"))
    query.add((3, "c", "+I"))
    query.run(function, "id", "v")
    query.forget(1)
    query.run(function, "id", "v")
    table = pp.Table.open(path)
    assert _rows(table) == [(1, "a"), (2, "b"), (3, "c")]
    assert _names(table) == [("loads", 0), ("loads", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"bucket": "2"}, {}])
def test_rows_with_kinds_are_upserts_and_deletes(spark: Any, path: str, options: dict[str, str]) -> None:
    table = pp.Table.create(path, "id BIGINT, v STRING", primary_key="id", options=options)
    second = (1, [(1, "a", "-D"), (2, "B", "+U"), (3, "c", "+I")])
    function = foreach_batch(path, name="changes", rowkind_column="kind")
    _given(spark, function, (0, [(1, "a", "+I"), (2, "b", "+I")]), second, second)
    assert _rows(table) == [(2, "B"), (3, "c")]
    assert _names(table) == [("changes", 0), ("changes", 1)]


@pytest.mark.slow
@pytest.mark.over_connect
def test_a_merge_with_clauses_is_made_once(query: Query, path: str) -> None:
    table, function = _merged_table(path, None)
    query.add((1, "+", "+U"), (3, "new", "+I"))
    query.add((2, "", "-D"), (1, "+", "+U"))
    query.run(function)
    query.forget(1)
    query.run(function)
    assert _rows(table) == [(1, "old++"), (3, "new")]
    assert _names(table)[1:] == [("merges", 0), ("merges", 1)]


@pytest.mark.slow
def test_a_merge_with_clauses_into_a_key_table(spark: Any, path: str) -> None:
    table, function = _merged_table(path, "id")
    second = (1, [(2, "", "-D"), (1, "+", "+U")])
    _given(spark, function, (0, [(1, "+", "+U"), (3, "new", "+I")]), second, second, second)
    assert _rows(table) == [(1, "old++"), (3, "new")]
    assert _names(table)[1:] == [("merges", 0), ("merges", 1)]


def _merged_table(path: str, key: str | None) -> tuple[pp.Table, Callable[..., None]]:
    table = pp.Table.create(path, "id BIGINT, v STRING", primary_key=key)
    table.append({"id": [1, 2], "v": ["old", "old"]})
    clauses = [pp.Delete("source.kind = '-D'"), pp.Update({"v": "concat(target.v, source.v)"})]
    insert = [pp.Insert({"id": "source.id", "v": "source.v"})]
    return table, foreach_batch(path, name="merges", on="id", when_matched=clauses, when_not_matched=insert)


@pytest.mark.slow
def test_deletes_by_key_are_made_once(spark: Any, path: str) -> None:
    table = pp.Table.create(path, "id BIGINT, v STRING")
    table.append({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    function = foreach_batch(path, name="deletes", operation="delete", operation_keys="id")
    keys = spark.sql("SELECT 2L AS id")
    function(keys, 0)
    table.append({"id": [2], "v": ["again"]})
    function(keys, 0)
    assert _rows(table) == [(1, "a"), (2, "again"), (3, "c")]


@pytest.mark.slow
def test_a_key_may_move_between_partitions(spark: Any, path: str) -> None:
    table = pp.Table.create(path, "id BIGINT, v STRING", primary_key="id", partition_by="v")
    function, second = foreach_batch(path, name="moves"), spark.sql("SELECT 1L AS id, 'b' AS v")
    function(spark.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b') AS t(id, v)"), 0)
    for _ in range(2):
        function(second, 1)
    assert _rows(table) == [(1, "b"), (2, "b")]


@pytest.mark.slow
def test_a_table_of_a_catalog(spark: Any, tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": str(tmp_path / "wh")}
    merges = foreach_batch("db.t", name="m", on="id", when_matched="update", when_not_matched="insert", options=options)
    pp.Catalog.open(options).create_database("db")
    first = spark.sql("SELECT 1L AS id, 'a' AS v")
    foreach_batch("db.t", name="w", options=options)(first, 0)
    for number, frame in enumerate([first, spark.sql("SELECT * FROM VALUES (1L, 'b'), (2L, 'c') AS t(id, v)")]):
        merges(frame, number)
    table = pp.Catalog.open(options).table("db.t")
    assert _rows(table) == [(1, "b"), (2, "c")]
    assert _names(table) == [("w", 0), ("m", 0), ("m", 1)]


@pytest.mark.slow
@pytest.mark.classic
def test_the_default_name_is_the_id_of_the_query(query: Query, path: str) -> None:
    query.add((1, "a", "+I"))
    query.run(foreach_batch(path), "id", "v")
    assert _names(pp.Table.open(path)) == [(query.id, 0)]


@pytest.mark.slow
@pytest.mark.over_connect
def test_micro_batches_that_come_again(spark: Any, path: str) -> None:
    """The function as Spark calls it, without a query and its worker."""
    frame = spark.createDataFrame([(1, "a", "+I"), (2, "b", "+I")], COLUMNS)
    writes = foreach_batch(path, name="w", primary_key="id", bucket=1, rowkind_column="kind")
    merges = foreach_batch(path, name="m", on="id", when_matched=[pp.Update({"v": "concat(target.v, source.v)"})])
    for function in (writes, merges, merges, writes):
        pickle.loads(pickle.dumps(function))(frame, 0)
    table = pp.Table.open(path)
    assert _rows(table) == [(1, "aa"), (2, "bb")]
    merges(frame.filter("id = 1"), 1)
    assert _rows(table) == [(1, "aaa"), (2, "bb")]
    assert _names(table) == [("w", 0), ("m", 0), ("m", 1)]
    with pytest.raises(OptionError, match="give foreach_batch a name"):
        foreach_batch(path)(frame, 0)  # no query runs this


@pytest.mark.slow
@pytest.mark.connect
def test_connect_needs_a_name(query: Query, path: str) -> None:
    query.add((1, "a", "+I"))
    with pytest.raises(Exception, match="give foreach_batch a name"):
        query.run(foreach_batch(path), "id", "v")


@pytest.mark.slow
@pytest.mark.over_connect
def test_a_named_write_is_made_once(frames: Any, path: str) -> None:
    for number, ids in ((1, "1"), (1, "1"), (2, "2"), (1, "1")):
        frames.save(f"SELECT {ids} AS id", path, commit_user="job", commit_identifier=number)
    table = pp.Table.open(path)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert _names(table) == [("job", 1), ("job", 2)]
    for options in ({"commit_user": "job"}, {"commit_user": "job", "commit_identifier": "x"}):
        with pytest.raises(Exception, match="commit-identifier"):
            frames.save("SELECT 1 AS id", path, **options)


def test_contradictions_are_refused() -> None:
    for given, text in (
        ({"when_matched": "update"}, "needs on"),
        ({"on": "id", "mode": "overwrite"}, "mode has no meaning"),
        ({"on": "id", "rowkind_column": "k"}, "rowkind_column has no meaning"),
        ({"mode": "ignore"}, "mode is 'append' or 'overwrite'"),
        ({"name": " "}, "needs a user"),
    ):
        with pytest.raises(OptionError, match=text):
            foreach_batch("/t", **given)  # type: ignore[arg-type]


def test_the_function_pickles_and_shows_no_secret() -> None:
    function = foreach_batch("/t", name="n", storage_options={"s3.secret-key": "hunter2"})
    assert "hunter2" not in repr(function)
    assert pickle.loads(pickle.dumps(function)).args[0].storage == {"s3.secret-key": "hunter2"}
