"""df.write.format("paimon"): creation, append, overwrite, casts, refusals; on an error the table is as it was."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import LongType, StringType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds.errors import CommitConflictError, OptionError, PaimonError, SchemaError
from paimon_pyds.spark import write
from paimon_pyds.spark.options import parse_write_options
from paimon_pyds.spark.writer import open_writer

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def data_files(path: str) -> set[str]:
    return {str(f.relative_to(path)) for f in Path(path).rglob("data-*")}


def state(path: str) -> tuple[object, ...]:
    table = pp.Table.open(path)
    return [s.id for s in table.snapshots.list()], data_files(path), table.schema


def test_a_table_is_made_with_its_options(frames, path):
    frames.save(
        "SELECT 1 AS Id, 'a' AS color, DATE'2024-01-01' AS dt",
        path,
        partition_by="DT",
        comment="colours",
        **{"file-index.bitmap.columns": "Color,Id", "file-index.bitmap.Id.version": "1", "file.format": "orc"},
    )
    table = pp.Table.open(path)
    assert table.partition_by == ("dt",)
    assert table.schema.comment == "colours"
    assert [(f.name, str(f.type)) for f in table.schema.fields] == [
        ("Id", "INT NOT NULL"), ("color", "STRING NOT NULL"), ("dt", "DATE NOT NULL"),
    ]  # fmt: skip
    assert table.options["file-index.bitmap.Id.version"] == "1"
    assert [f.rsplit(".")[-1] for f in table.scan().plan().paths] == ["orc"]
    assert frames.rows(frames.load(path).selectExpr("Id", "color", "string(dt)")) == [(1, "a", "2024-01-01")]


@pytest.mark.slow
def test_rows_are_not_appended_where_java_would_merge_them(frames, path):
    with pytest.raises(Exception, match=r"upsert-key=id can't be appended to.*paimon_pyds\.spark\.merge"):
        frames.save("SELECT 1 AS id, 'a' AS v", path, upsert_key="id")
    assert not Path(path).exists()
    frames.save("SELECT 1 AS id, 'a' AS v", path, mode="overwrite", upsert_key="id")
    before = data_files(path)
    more = frames.spark.sql("SELECT 1 AS id, 'b' AS v UNION ALL SELECT 2, 'b'")
    for append in (lambda: frames.save(more, path), lambda: write(more, path)):
        with pytest.raises(Exception, match="upsert-key=id can't be appended to"):
            append()
    assert data_files(path) == before


def test_append_and_overwrite(frames, path):
    frames.save("SELECT id FROM range(3)", path)
    frames.save("SELECT id + 10 AS id FROM range(2)", path)
    assert frames.ids(frames.load(path)) == [0, 1, 2, 10, 11]
    frames.save("SELECT id FROM range(1)", path, mode="overwrite")
    assert frames.ids(frames.load(path)) == [0]
    frames.save("SELECT id FROM range(0)", path, mode="overwrite")
    assert frames.load(path).count() == 0
    assert [s.commit_kind.value for s in pp.Table.open(path).snapshots.list()] == [
        "APPEND",
        "APPEND",
        "OVERWRITE",
        "OVERWRITE",
    ]


@pytest.mark.slow
def test_many_tasks_make_one_snapshot(frames, path):
    frames.save(frames.spark.range(0, 25_000, 1, 4).selectExpr("id", "id % 3 AS p"), path, partition_by="p")
    table = pp.Table.open(path)
    assert len(table.snapshots.list()) == 1
    assert table.count() == 25_000
    assert sorted(table.scan("p = 2", columns=["id"]).to_arrow()["id"].to_pylist()) == list(range(2, 25_000, 3))


def test_rows_of_nothing(frames, path):
    frames.save("SELECT id FROM range(0)", path)
    table = pp.Table.open(path)
    assert table.count() == 0
    assert frames.load(path).collect() == []


@pytest.mark.slow
def test_columns_are_matched_by_name(frames, six):
    frames.save("SELECT 9.5D AS SIZE, 'pink' AS color, 7 AS id", six.path)
    frames.save("SELECT 8 AS id", six.path)
    frames.save("SELECT 9 AS id, NULL AS color, NULL AS size", six.path)
    assert frames.rows(frames.load(six.path, filter="id > 6")) == [(7, "pink", 9.5), (8, None, None), (9, None, None)]


@pytest.mark.slow
def test_values_are_cast_where_nothing_is_lost(frames, path):
    pp.Table.create(
        path,
        pa.schema(
            [
                ("small", pa.int8()),
                ("big", pa.int64()),
                ("real", pa.float64()),
                ("money", pa.decimal128(12, 3)),
                ("ms", pa.timestamp("ms")),
                ("ns", pa.timestamp("ns", "UTC")),
                ("list", pa.list_(pa.int64())),
            ]
        ),
    )
    frames.save(
        "SELECT 12L AS small, 3 AS big, 1.5BD AS real, 2.5BD AS money, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS ms,"
        " TIMESTAMP'2024-01-01 00:00:00.000001Z' AS ns, array(1, NULL) AS list",
        path,
    )
    row = pp.Table.open(path).scan().to_arrow()
    assert row["ms"].cast(pa.int64()).to_pylist() == [-1]
    assert row["ns"].cast(pa.int64()).to_pylist() == [1704067200000001000]
    assert row.select(["small", "big", "real", "list"]).to_pylist() == [
        {"small": 12, "big": 3, "real": 1.5, "list": [1, None]}
    ]
    assert str(row["money"][0]) == "2.500"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS id, 'x' AS nope", "the table has no column 'nope'"),
        ("SELECT 'x' AS id", "column id is string in the data and INT in the table"),
        ("SELECT 5000000000 AS id", "column id is int64 and does not fit int32"),
        ("SELECT 1.5D AS id", "column id is double in the data and INT in the table"),
        ("SELECT 1 AS id, 2 AS ID", "same name|several incoming columns|COLUMN_ALREADY_EXISTS|no column"),
        ("SELECT 1 AS id, array(1) AS color", "column color is list"),
        ("SELECT explode(array(1, NULL)) AS id, 'a' AS color", "column id is NOT NULL, and 1 of 2 rows have no value"),
        ("SELECT 'a' AS color", "the column 'id' is NOT NULL and missing"),
    ],
)
def test_rows_that_do_not_fit_leave_the_table_as_it_was(frames, path, query, message):
    schema = pa.schema([pa.field("id", pa.int32(), False), ("color", pa.string())])
    table = pp.Table.create(path, schema)
    table.append(pa.table({"id": [1], "color": ["red"]}, schema=schema))
    before = state(path)
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=message):
            frames.save(query, path, mode=mode)
    assert state(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_members_of_structs_that_the_table_lacks_are_refused(frames, path, mode):
    """They were left out, and nothing said so."""
    pp.Table.create(path, "id INT, one ROW<x INT, y STRING>, many ARRAY<ROW<x INT>>, named MAP<STRING, ROW<x INT>>")
    frames.save("SELECT 1 AS id, named_struct('Y', 'a', 'x', 1) AS one, array(named_struct('x', 2)) AS many", path)
    before = state(path)
    for column, place in [
        ("named_struct('x', 1, 'y', 'a', 'why', 2) AS one", "column one of the table has no field 'why'"),
        ("array(named_struct('x', 2, 'z', 3)) AS many", "column many.element of the table has no field 'z'"),
        ("map('k', named_struct('x', 2, 'z', 3)) AS named", "column named.value of the table has no field 'z'"),
    ]:
        with pytest.raises(Exception, match=place):
            frames.save(f"SELECT 1 AS id, {column}", path, mode=mode)
    with pytest.raises(Exception, match="column one of the table has no field 'why'"):
        query = "SELECT 1 AS id, named_struct('x', 1, 'y', 'a', 'why', 2) AS one, many, named FROM t"
        frames.load(path).createOrReplaceTempView("t")
        frames.save(query, path, operation="upsert", operation_keys="id")
    assert state(path) == before


def test_a_task_that_fails_publishes_nothing(frames, path):
    frames.save("SELECT id, 1 AS one FROM range(2)", path)
    before = [s.id for s in pp.Table.open(path).snapshots.list()]
    rows = frames.spark.range(0, 4, 1, 4).selectExpr(
        "id", "CASE WHEN id < 3 THEN 1 ELSE raise_error('boom') END AS one"
    )
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="boom"):
            frames.save(rows, path, mode)
    assert [s.id for s in pp.Table.open(path).snapshots.list()] == before
    assert frames.ids(frames.load(path)) == [0, 1]


def driver_and_task(path):
    """A writer as the driver makes it, and what a task gives for three rows."""
    schema = StructType([StructField("ID", LongType()), StructField("p", StringType())])
    options = parse_write_options({"path": path, "partition-by": "p"}, overwrite=False)
    writer = open_writer(schema, options, overwrite=False)
    batch = pa.record_batch({"ID": pa.array([1, 2, 3]), "p": pa.array(["a", "b", None])})
    message = pickle.loads(pickle.dumps(writer)).write(iter([batch, batch.slice(0, 0)]))
    return pickle.loads(pickle.dumps(writer)), pickle.loads(pickle.dumps(message))


def test_a_task_that_runs_into_a_bad_row_removes_its_files(path):
    writer, _ = driver_and_task(path)
    before = data_files(path)
    good = pa.record_batch({"ID": pa.array(range(300_000)), "p": pa.array(["a"] * 300_000)})
    bad = pa.record_batch({"ID": pa.array(["x"]), "p": pa.array(["a"])})
    with pytest.raises(SchemaError, match="column ID is string"):
        writer.write(iter([good, bad]))
    assert data_files(path) == before


@pytest.mark.slow
def test_a_missing_table_is_not_made_when_told_so(frames, path):
    with pytest.raises(Exception, match="no Paimon table is here"):
        frames.save("SELECT 1 AS id", path, create_if_missing="false")
    assert not os.path.exists(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition-by": "nope"}, "partition-by names 'nope', which is not a column"),
        ({"bucket": "many"}, "bucket"),
        ({"merge-engin": "x"}, "there is no option merge-engin.*did you mean merge-engine"),
        ({"primary-key": "id", "bucket": "-3"}, "bucket=-3"),
        ({"primary-key": "nope", "bucket": "1"}, "primary-key names 'nope', which is not a column"),
        ({"rowkind-column": "nope"}, "rowkind-column names 'nope', which is not a column"),
        ({"file-index.bitmap.columns": "nope"}, "nope"),
    ],
)
def test_a_table_that_can_not_be_made_is_not_made(frames, path, options, message):
    with pytest.raises(Exception, match=message):
        frames.save("SELECT 1 AS id", path, **options)
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rowkind-column": "op"}, "for tables with a primary key only"),
        ({"rowkind-column": "id", "primary-key": "op", "bucket": "1"}, "column id is int64 in the data and STRING"),
        ({"overwrite-partition": "nope=1"}, "overwrite-partition: 'nope' is no partition column"),
        ({"overwrite-partition": "id=x", "partition-by": "id"}, "overwrite-partition: column id: 'x' is not"),
        ({"assigned-buckets": ""}, "assigned-buckets is for rows with the dynamic buckets"),
    ],
)
def test_a_table_is_not_left_behind_by_a_write_that_is_refused(path, options, message):
    """It stayed, empty, with a shape that the next write could not change."""
    schema = StructType([StructField("op", StringType()), StructField("id", LongType())])
    overwrite = "overwrite-partition" in options
    parsed = parse_write_options({"path": path, **options}, overwrite=overwrite)
    with pytest.raises(PaimonError, match=message):
        open_writer(schema, parsed, overwrite=overwrite)
    assert not os.path.exists(path)
    table = pp.Table.create(path, pa.schema([("op", pa.string()), ("id", pa.int64())]))
    with pytest.raises(PaimonError):
        open_writer(schema, parsed, overwrite=overwrite)
    assert pp.Table.open(path).schema == table.schema


@pytest.mark.slow
def test_a_table_whose_first_rows_fail_is_taken_away_again(frames, path):
    """What tasks refuse, as in `Table.create`; a table of somebody else stays. So does one where tasks that Spark has
    stopped have left files: hence one task."""
    bad = frames.spark.sql("SELECT CAST(IF(id = 3, NULL, id) AS BIGINT) AS id FROM range(0, 4, 1, 1)")
    for save in (lambda: frames.save(bad, path, primary_key="id"), lambda: write(bad, path, primary_key="id")):
        with pytest.raises(Exception, match="NOT NULL"):
            save()
        assert not os.path.exists(path)
    catalog = pp.Catalog(os.path.dirname(os.path.dirname(path)))
    of_catalog = {"metastore": "filesystem", "warehouse": catalog.warehouse, "primary-key": "id"}
    catalog.create_database("db", ignore_if_exists=True)
    for save in (lambda: frames.save(bad, "db.t", **of_catalog), lambda: write(bad, "db.t", options=of_catalog)):
        with pytest.raises(Exception, match="NOT NULL"):
            save()
        assert catalog.tables("db") == []
    table = pp.Table.create(path, {"id": [1]}, primary_key="id")
    with pytest.raises(Exception, match="NOT NULL"):
        frames.save(bad, path, primary_key="id")
    assert table.count() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition-by": "color"}, "partition-by is color, and the table is partitioned by nothing"),
        ({"bucket": "4", "bucket-key": "id"}, "bucket is 4 here and -1 in the table"),
        ({"primary-key": "id"}, "primary-key is id, and the table's primary key is empty"),
        ({"rowkind-column": "id"}, "for tables with a primary key only"),
    ],
)
def test_options_that_contradict_the_table(frames, six, options, message):
    with pytest.raises(Exception, match=message):
        frames.save("SELECT 1 AS id", six.path, **options)


@pytest.mark.slow
def test_options_of_one_write(frames, six):
    frames.save("SELECT 7 AS id", six.path, **{"file.format": "avro", "bucket": "-1"})
    assert sorted(f.rsplit(".")[-1] for f in six.scan().plan().paths) == ["avro", "parquet", "parquet"]
    assert "file.format" not in pp.Table.open(six.path).options


@pytest.fixture
def days(frames, path):
    frames.save("SELECT id, string(id % 3) AS day, int(id % 2) AS hour FROM range(6)", path, partition_by="day,hour")
    return path


@pytest.mark.slow
def test_overwrite_of_named_partitions(frames, days):
    frames.save("SELECT 100L AS id, '1' AS day, 1 AS hour", days, "overwrite", overwrite_partition="day=1")
    assert frames.ids(frames.load(days)) == [0, 2, 3, 5, 100]
    frames.save("SELECT 101L AS id, '1' AS day, 1 AS hour", days, "overwrite", overwrite_partition="Day='1',HOUR=1")
    assert frames.ids(frames.load(days)) == [0, 2, 3, 5, 101]
    frames.save(
        "SELECT 101L AS id, '1' AS day, 1 AS hour FROM range(0)", days, "overwrite", overwrite_partition="day=0"
    )
    assert frames.ids(frames.load(days)) == [2, 5, 101]


@pytest.mark.slow
def test_dynamic_overwrite(frames, days):
    frames.save("SELECT 100L AS id, '1' AS day, 1 AS hour", days, "overwrite", dynamic_partition_overwrite="true")
    assert frames.ids(frames.load(days)) == [0, 2, 3, 4, 5, 100]
    frames.save(
        "SELECT 1L AS id, '1' AS day, 1 AS hour FROM range(0)", days, "overwrite", dynamic_partition_overwrite="true"
    )
    assert frames.ids(frames.load(days)) == [0, 2, 3, 4, 5, 100]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overwrite-partition": "nope=1"}, "overwrite-partition: 'nope' is no partition column"),
        ({"overwrite-partition": "day=2"}, "are outside of the overwritten one"),
        ({"overwrite-partition": "hour=x"}, "overwrite-partition: column hour: 'x' is not an integer"),
    ],
)
def test_overwrites_that_make_no_sense(frames, days, options, message):
    before = state(days)
    with pytest.raises(Exception, match=message):
        frames.save("SELECT 100L AS id, '1' AS day, 1 AS hour", days, "overwrite", **options)
    assert state(days) == before


@pytest.mark.slow
def test_null_partitions(frames, path):
    frames.save("SELECT id, IF(id = 1, NULL, string(id)) AS p FROM range(3)", path, partition_by="p")
    assert frames.rows(frames.load(path, filter="p IS NULL")) == [(1, None)]
    frames.save("SELECT 9L AS id, string(NULL) AS p", path, "overwrite", overwrite_partition="p=NULL")
    assert frames.rows(frames.load(path)) == [(0, "0"), (2, "2"), (9, None)]


def test_write_in_python(frames, path):
    df = frames.spark.sql("SELECT id, string(id) AS name, DATE'2024-01-01' AS `odd,day` FROM range(3)")
    write(
        df,
        path,
        partition_by=["odd,day"],
        create_if_missing=True,
        options={"file-index.bitmap.columns": ["id", "name"]},
    )
    table = pp.Table.open(path)
    assert table.partition_by == ("odd,day",)
    assert table.options["file-index.bitmap.columns"] == "id,name"
    write(df.where("id = 0"), path, mode="overwrite", overwrite_partition={"odd,day": "2024-01-01"})
    assert table.count() == 1
    with pytest.raises(OptionError, match="mode is 'append', 'overwrite', 'error' or 'ignore', not 'upsert'"):
        write(df, path, mode="upsert")
    with pytest.raises(OptionError, match="partition-by is given twice"):
        write(df, path, partition_by=["a"], options={"partition-by": "a"})


@pytest.mark.slow
def test_fixed_buckets(frames, path):
    frames.save("SELECT int(id) AS id FROM range(100)", path, bucket=4, bucket_key="id")
    table = pp.Table.open(path)
    assert frames.load(path, metadata_columns="__paimon_bucket").select("__paimon_bucket").distinct().count() == 4
    assert table.count("id = 17") == 1
    assert len(table.scan("id = 17").plan().files) == 1


def test_a_table_that_another_writer_has_just_made_keeps_its_shape(path, monkeypatch):
    schema = StructType([StructField("id", LongType()), StructField("p", StringType())])
    create = pp.Table.create

    def slower(*args, **kwargs):
        create(path, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"])
        return create(*args, **kwargs)

    monkeypatch.setattr(pp.Table, "create", slower)
    options = parse_write_options({"path": path, "partition-by": "id"}, overwrite=False)
    with pytest.raises(OptionError, match="partition-by is id, and the table is partitioned by p"):
        open_writer(schema, options, overwrite=False)


@pytest.mark.slow
def test_what_to_do_where_a_table_exists(spark, frames, path):
    rows = spark.sql("SELECT 1 AS id")
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        rows.write.format("paimon").save(path)  # Spark's own default
    frames.save(rows, path, if_exists="error")
    with pytest.raises(Exception, match="a table already exists"):
        frames.save(rows, path, if_exists="error")
    frames.save(rows, path, if_exists="ignore")
    write(rows, path, "ignore")
    with pytest.raises(Exception, match="a table already exists"):
        write(rows, path, "errorifexists")
    assert frames.ids(frames.load(path)) == [1]
    assert len(pp.Table.open(path).snapshots.list()) == 1
    with pytest.raises(Exception, match="if-exists is append, error or ignore"):
        frames.save(rows, path, if_exists="fail")
    with pytest.raises(Exception, match="if-exists=error needs mode"):
        frames.save(rows, path, mode="overwrite", if_exists="error")


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_the_first_of_two_writers_that_both_found_nothing_wins(spark, path, mode):
    """Also where both have written their files before the first one commits."""
    schema = spark.sql("SELECT 1L AS id").schema
    options = parse_write_options({"path": path, "if-exists": mode}, overwrite=False)
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    writers = [open_writer(schema, options, overwrite=False) for _ in range(2)]
    messages = [writer.write(iter([rows])) for writer in writers]
    writers[0].commit([messages[0]])
    with pytest.raises(CommitConflictError, match="another commit was the table's first"):
        writers[1].commit([messages[1]])
    assert pp.Table.open(path).count() == 1
    assert len(data_files(path)) == 1, "what lost is removed"


def tagged(path: str) -> list[int]:
    return [snapshot.id for snapshot in pp.Table.open(path).tags.list().values()]


def test_a_write_that_has_to_be_the_first_is_followed_by_a_tag(spark, path):
    given = {"path": path, "if-exists": "error", "tag.automatic-creation": "batch"}
    writer = open_writer(
        spark.sql("SELECT 1L AS id").schema, parse_write_options(given, overwrite=False), overwrite=False
    )
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"id": [1]})]))])
    assert tagged(path) == [1]


@pytest.mark.slow
def test_a_write_of_keys_in_any_partition_is_followed_by_a_tag(spark, path):
    options = {"bucket": "-1", "write-only": "true", "tag.automatic-creation": "batch"}
    write(spark.sql("SELECT 1L AS id, 2L AS p"), path, primary_key="id", partition_by="p", options=options)
    assert tagged(path) == [1]


@pytest.mark.slow
def test_a_delete_of_rows_by_their_positions_is_followed_by_a_tag(spark, frames, path):
    frames.save("SELECT id FROM range(3)", path, **{"tag.automatic-creation": "batch", "bucket": "-1"})
    before = tagged(path)
    rows = frames.load(path, filter="id = 1", metadata_columns="__paimon_file_path,__paimon_row_index")
    frames.save(rows, path, operation="delete")
    assert before and pp.Table.open(path).count() == 2 and tagged(path) != before
