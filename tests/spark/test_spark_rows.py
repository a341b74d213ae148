"""Rows deleted, updated, merged and replaced from Spark: functions on a session, and df.write with an operation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from paimon_pyds.spark import delete, merge, update
from paimon_pyds.spark.options import parse_write_options
from support.effort import sampled

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

_SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string()), ("price", pa.float64()), ("p", pa.int32())])
_MODES = {"vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}, "rewrite": {}}
PLACE = "__paimon_file_path,__paimon_row_index"


@pytest.fixture(params=sampled(_MODES, 1))
def table(request: pytest.FixtureRequest, path: str) -> pp.Table:
    options = {"file-index.bitmap.columns": "color,id", **_MODES[request.param]}
    made = pp.Table.create(path, _SCHEMA, partition_by=["p"], options=options)
    for start in (0, 6):
        ids = range(start, start + 6)
        made.append([{"id": i, "color": "red" if i % 3 else "blue", "price": i * 1.5, "p": i % 2} for i in ids])
    return made


def ids(table: pp.Table, filter: str | None = None) -> list[int]:
    return sorted(table.scan(filter, columns=["id"]).to_arrow()["id"].to_pylist())


def test_delete_and_update_on_a_session(spark: Any, table: pp.Table) -> None:
    gone = delete(spark, table.path, "color = 'blue' AND id > 2")
    assert (gone.rows_deleted, ids(table)) == (3, [0, 1, 2, 4, 5, 7, 8, 10, 11])
    set_ = {"price": "price + 100", "color": "upper(color)"}
    assert update(spark, table.path, set_, "id % 2 = 0").rows_updated == 5
    assert ids(table, "price >= 100") == [0, 2, 4, 8, 10]
    assert ids(table, "color IN ('BLUE', 'RED')") == [0, 2, 4, 8, 10]
    assert delete(spark, table.path, "p = 1").rows_deleted == 4
    assert ids(table) == [0, 2, 4, 8, 10]


def test_merge_of_a_dataframe(spark: Any, table: pp.Table) -> None:
    source = spark.sql("SELECT id, 'green' AS color, 0.5D AS price, CAST(id % 2 AS INT) AS p FROM range(10, 14)")
    done = merge(spark, table.path, source, ["id"], when_matched="update", when_not_matched="insert")
    assert (done.rows_updated, done.rows_inserted) == (2, 2)
    assert ids(table, "color = 'green'") == [10, 11, 12, 13]
    assert ids(table) == list(range(14))


@pytest.mark.slow
def test_a_merge_rounds_what_an_append_rounds(spark: Any, path: str) -> None:
    fields = [
        ("id", pa.int64()),
        ("d", pa.decimal128(6, 2)),
        ("t", pa.timestamp("ms")),
        ("a", pa.list_(pa.timestamp("ms"))),
    ]
    made = pp.Table.create(path, pa.schema(fields))
    time = "timestamp_ntz '2026-01-01 00:00:00.123987'"
    source = spark.sql(f"SELECT 1L AS id, 1.255D AS d, {time} AS t, array({time}) AS a")
    merge(spark, path, source, "id", when_not_matched="insert")
    source.write.format("paimon").mode("append").save(path)
    merged, appended = made.to_arrow().to_pylist()
    assert merged == appended and merged["t"].microsecond == 123_000


@pytest.mark.slow
def test_new_versions_of_rows_with_a_primary_key(spark: Any, path: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), *list(_SCHEMA)[1:]])
    made = pp.Table.create(path, schema, primary_key=["id"], options={"bucket": "3", "missing-columns": "null"})
    for price in (1.0, 2.0):
        made.append([{"id": i, "color": "red" if i % 3 else "blue", "price": price} for i in range(int(6 * price))])
    assert delete(spark, path, "color = 'blue' AND price > 1").rows_deleted == 4
    assert update(spark, path, {"price": "price * id"}, "id % 2 = 0").rows_updated == 4
    source = spark.sql("SELECT id, 'green' AS color, 0.5D AS price, 7 AS p FROM range(10, 14)")
    done = merge(spark, path, source, ["id"], when_matched="update", when_not_matched="insert")
    assert (done.rows_updated, done.rows_inserted) == (2, 2)
    assert ids(made) == [1, 2, 4, 5, 7, 8, 10, 11, 12, 13]
    assert ids(made, "price >= 4 AND p IS NULL") == [2, 4, 8]


def test_columns_of_spark_are_asked_for_as_text(spark: Any, table: pp.Table) -> None:
    from pyspark.sql import functions as F

    with pytest.raises(OptionError, match="SQL text"):
        delete(spark, table.path, F.col("id") > 1)
    with pytest.raises(OptionError, match="SQL text"):
        update(spark, table.path, {"price": F.col("price") * 2})


def test_delete_takes_keys_of_a_dataframe_or_of_any_frame(spark: Any, table: pp.Table) -> None:
    keys = spark.sql("SELECT id AS ID, IF(id % 2 = 0, 'red', 'blue') AS color FROM range(8) UNION ALL SELECT 9, NULL")
    assert delete(spark, table.path, matching=keys).rows_deleted == 3  # 2 and 4 are red, 3 is blue
    assert ids(table) == [0, 1, 5, 6, 7, 8, 9, 10, 11]
    assert delete(spark, table.path, "id > 6", matching={"p": pa.array([1, None], pa.int32())}).rows_deleted == 3
    assert ids(table) == [0, 1, 5, 6, 8, 10]
    assert delete(spark, table.path, matching=spark.sql("SELECT 8L AS id FROM range(30000)")).rows_deleted == 1
    with pytest.raises(OptionError, match="more than 20,000 different ones") as refused:
        delete(spark, table.path, matching=spark.range(30_000))
    assert "paimon.merge(" in str(refused.value)
    with pytest.raises(OptionError, match="needs a condition"):
        delete(spark, table.path)


@pytest.mark.slow
def test_rows_are_deleted_by_where_they_lie(frames: Any, table: pp.Table) -> None:
    there = frames.load(table.path, filter="id IN (1, 4, 7)", metadata_columns=PLACE)
    frames.save(there, table.path, operation="delete")
    assert ids(table) == [0, 2, 3, 5, 6, 8, 9, 10, 11]
    last = table.snapshots.latest()
    frames.save(there.limit(0), table.path, operation="delete")
    assert table.snapshots.latest() == last  # nothing named, nothing done


@pytest.mark.slow
def test_rows_are_replaced_where_they_lie(frames: Any, table: pp.Table) -> None:
    new = _doubled(frames.load(table.path, filter="color = 'blue'", metadata_columns=PLACE))
    first = table.snapshots.latest().id
    frames.save(new, table.path, operation="upsert")
    assert ids(table) == list(range(12))
    assert ids(table, "color = 'blue!'") == [0, 3, 6, 9]
    assert table.scan("id = 9").to_arrow().to_pylist() == [{"id": 9, "color": "blue!", "price": 27.0, "p": 1}]
    # They have moved: a DataFrame of the snapshot before, with its places, does not fit any more.
    before = table.snapshots.latest()
    old = frames.load(table.path, filter="color = 'blue'", metadata_columns=PLACE, scan__snapshot_id=first)
    with pytest.raises(Exception, match=r"gone by now|not in the table"):
        frames.save(_doubled(old), table.path, operation="upsert")
    assert table.snapshots.latest() == before


def _doubled(there: Any) -> Any:
    return there.selectExpr("id", "concat(color, '!') AS color", "price * 2 AS price", "p", *PLACE.split(","))


@pytest.mark.slow
def test_rows_are_deleted_by_keys(frames: Any, table: pp.Table) -> None:
    frames.save("SELECT * FROM VALUES (1L), (1L), (7L), (99L), (CAST(NULL AS BIGINT)) AS k(ID)", table.path,
                operation="delete")  # fmt: skip
    assert ids(table) == [0, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    frames.save("SELECT id, 'ignored' AS color FROM range(2, 4)", table.path, operation="delete", operation_keys="id")
    assert ids(table) == [0, 4, 5, 6, 8, 9, 10, 11]


@pytest.mark.slow
def test_rows_are_upserted_by_keys(frames: Any, table: pp.Table) -> None:
    rows = "SELECT id, 'green' AS color, 0.5D AS price, CAST(id % 2 AS INT) AS p FROM range(10, 14)"
    frames.save(rows, table.path, operation="upsert", operation_keys="id")
    assert ids(table, "color = 'green'") == [10, 11, 12, 13]
    assert ids(table) == list(range(14))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "options", "says"),
    [
        ("SELECT 1L AS id", {"operation": "upsert"}, "which columns find the old rows"),
        ("SELECT 1L AS id", {"operation": "upsert", "operation_keys": "id"}, "has no column 'color'"),
        ("SELECT 1L AS nope", {"operation": "delete"}, "the table has no column 'nope'"),
        ("SELECT 'x' AS id", {"operation": "delete"}, "column id is string in the data and BIGINT in the table"),
        ("SELECT 1L AS id", {"operation": "remove"}, "operation is delete or upsert"),
        ("SELECT 1L AS id", {"operation_keys": "id"}, "needs the option operation"),
    ],
)
def test_what_does_not_fit_is_refused(frames: Any, path: str, query: str, options: dict[str, str], says: str) -> None:
    table = pp.Table.create(path, _SCHEMA)
    before = table.snapshots.latest()
    with pytest.raises(Exception, match=says):
        frames.save(query, table.path, **options)
    assert table.snapshots.latest() == before


def test_an_operation_is_no_overwrite() -> None:
    with pytest.raises(OptionError, match=r"mode\('append'\)"):
        parse_write_options({"path": "/t", "operation": "delete"}, overwrite=True)
    with pytest.raises(OptionError, match="has no meaning"):
        parse_write_options({"path": "/t", "operation": "delete", "partition-by": "p"}, overwrite=False)
