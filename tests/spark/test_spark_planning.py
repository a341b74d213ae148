"""What happens in Spark's planning processes, called as Spark calls it."""

from __future__ import annotations

import pickle
import shutil

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

import paimon_pyds as pp
from paimon_pyds.errors import NotFoundError, SchemaError, SnapshotNotFoundError
from paimon_pyds.spark import compat
from paimon_pyds.spark.options import parse_read_options
from paimon_pyds.spark.reader import planned as plan_of
from paimon_pyds.spark.source import PaimonDataSource
from paimon_pyds.spark.state import Loaded, open_state
from support.fixtures import table_path

pytestmark = pytest.mark.spark


def source(path: str, **options: str) -> PaimonDataSource:
    return PaimonDataSource({"path": path, **{k.replace("_", "-"): v for k, v in options.items()}})


def row(id_: int) -> pa.Table:
    return pa.table({"id": pa.array([id_], pa.int32()), "color": ["x"], "size": [0.0]})


def planned(made: PaimonDataSource, schema: StructType | None = None):
    """A query as Spark runs it: the source is unpickled, its reader planned, pickled, and used in tasks."""
    made = pickle.loads(pickle.dumps(made))
    reader = made.reader(made.schema() if schema is None else schema)
    tasks = pickle.dumps(reader)
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    return pickle.loads(tasks), partitions or [InputPartition(None)]


def ids(reader, partitions):
    return sorted(i for p in partitions for batch in reader.read(p) for i in batch.column(0).to_pylist())


@pytest.fixture(params=["once", "each query"])
def late(request, monkeypatch):
    """Whether Spark keeps partitions for all queries, as 4.1 to 4.3 do, or plans each query."""
    monkeypatch.setattr(compat, "plans_once", lambda: request.param == "once")
    return request.param == "once"


def test_a_source_that_is_pickled_knows_the_columns_of_its_load(six):
    made = pickle.loads(pickle.dumps(source(six.path)))
    assert made._loaded == Loaded.of(six.schema)
    six.append(row(7))
    assert ids(*planned(made)) == [1, 2, 3, 4, 5, 6, 7]
    assert source(six.path + "x").__getstate__()["_loaded"] is None  # no table yet: the read itself will say so


def test_each_planning_reads_the_newest_snapshot_unless_one_is_named(six, late):
    newest, first = source(six.path), source(six.path, **{"scan.snapshot-id": "1"})
    schema = newest.schema()
    assert ids(*planned(newest, schema)) == [1, 2, 3, 4, 5, 6]
    six.append(row(7))
    assert ids(*planned(newest, schema)) == [1, 2, 3, 4, 5, 6, 7]
    six.delete("id < 3")
    assert ids(*planned(newest, schema)) == [3, 4, 5, 6, 7]
    assert ids(*planned(first, schema)) == [1, 2, 3, 4]


def test_a_table_that_was_dropped_and_made_again_is_not_read_by_an_old_load(six, late):
    made = source(six.path)
    schema = made.schema()
    old = planned(made, schema)
    fields = six.arrow_schema
    shutil.rmtree(six.path)
    pp.Table.create(six.path, fields).append(row(7))
    with pytest.raises(NotFoundError, match=r"was dropped, and there is another one now .*load the table again"):
        made.reader(schema).partitions()
    if late:
        with pytest.raises(NotFoundError, match="there is another one now"):
            ids(*old)
    first = source(six.path, **{"scan.snapshot-id": "1"})
    first._loaded = made._loaded
    with pytest.raises(NotFoundError, match="there is another one now"):
        first.reader(schema).partitions()


def test_the_columns_of_the_load_are_read_whatever_they_are_called_now(six):
    made, filtered = source(six.path), source(six.path, filter="color = 'x'", columns="size, color")
    schema, of_filtered = made.schema(), filtered.schema()
    six.alter(add_columns={"extra": "INT"}, rename_columns={"color": "colour", "size": "color"})
    six.append(pa.table({"extra": [1], "color": [9.5], "colour": ["x"], "id": pa.array([7], pa.int32())}))
    reader, partitions = planned(made, schema)
    (last,) = [
        b.slice(i, 1) for p in partitions for b in reader.read(p) for i in range(b.num_rows) if b[0][i].as_py() == 7
    ]
    assert last.to_pylist() == [{"id": 7, "color": "x", "size": 9.5}]
    reader, partitions = planned(filtered, of_filtered)
    assert [b.to_pylist() for p in partitions for b in reader.read(p)] == [[{"size": 9.5, "color": "x"}]]


def test_columns_that_are_gone_are_refused_where_they_are_used(six):
    whole, part = source(six.path), source(six.path, columns="id")
    by_filter, by_order = (
        source(six.path, columns="id", filter="size > 0"),
        source(six.path, columns="id", topn="size, 1"),
    )
    made = {each: each.schema() for each in (whole, part, by_filter, by_order)}
    six.alter(drop_columns=["size"])
    six.alter(add_columns={"size": "DOUBLE"})  # another column of the same name
    for each in (whole, by_filter, by_order):
        with pytest.raises(
            SchemaError, match=r"column size was dropped after the table was loaded .*load the table again"
        ):
            each.reader(made[each]).partitions()
    assert ids(*planned(part, made[part])) == [1, 2, 3, 4, 5, 6]


def test_a_wider_type_is_read_as_the_narrow_one_while_values_fit(six):
    made = source(six.path, filter="id > 4")
    schema = made.schema()
    six.alter(change_types={"id": "BIGINT"})
    assert ids(*planned(made, schema)) == [5, 6]
    six.append(pa.table({"id": [2**40], "color": ["x"], "size": [0.0]}))
    with pytest.raises(SchemaError, match="column id is int64 and does not fit int32"):
        ids(*planned(made, schema))
    six.alter(change_types={"id": "STRING"})
    with pytest.raises(SchemaError, match=r"column id was loaded as INT, and is STRING now .*load the table again"):
        made.reader(schema).partitions()


# ------------------------------------------------------------------- Spark 4.1 to 4.3: partitions serve later queries


@pytest.fixture
def kept(six, monkeypatch):
    """Two partitions, planned at snapshot 2."""
    from paimon_pyds.spark import reader as module

    monkeypatch.setattr(compat, "plans_once", lambda: True)
    monkeypatch.setattr(module, "TASK_BYTES", 1)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    reader, partitions = planned(source(six.path))
    assert len(partitions) == 2
    return lambda: ids(reader, partitions)


def test_one_kept_partition_reads_whatever_the_table_holds_now(path, monkeypatch):
    monkeypatch.setattr(compat, "plans_once", lambda: True)
    table = pp.Table.create(path, pa.schema([("a", pa.int32())]))
    kept = planned(source(path, filter="a > 0"))
    top = planned(source(path, topn="a desc, 1"))
    limited = planned(source(path, limit="1"))
    assert ids(*kept) == ids(*top) == ids(*limited) == []
    table.append(pa.table({"a": pa.array([0, 1, 2], pa.int32())}))
    assert (ids(*kept), ids(*top), len(ids(*limited))) == ([1, 2], [2], 1)
    table.delete("a = 2")
    assert (ids(*kept), ids(*top), len(ids(*limited))) == ([1], [1], 1)
    table.overwrite(pa.table({"a": pa.array([7, 8], pa.int32())}))
    assert (ids(*kept), ids(*top), len(ids(*limited))) == ([7, 8], [8], 1)


def test_kept_partitions_gain_the_rows_of_later_appends(six, kept):
    six.append(row(7))
    assert kept() == [1, 2, 3, 4, 5, 6, 7]
    six.compact(full=True)
    six.append(row(8))
    assert kept() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_kept_partitions_stay_at_the_last_snapshot_that_only_added_rows(six, kept, caplog):
    six.append(row(7))
    six.delete("id = 1")
    six.append(row(8))
    assert kept() == [1, 2, 3, 4, 5, 6, 7]
    assert "snapshot 3 is read, and there are newer ones" in caplog.text


def test_kept_partitions_of_a_table_with_a_primary_key_stay_at_their_snapshot(tmp_path, monkeypatch):
    """Later appends may change rows or take them away."""
    from paimon_pyds.spark import reader as module

    monkeypatch.setattr(compat, "plans_once", lambda: True)
    monkeypatch.setattr(module, "TASK_BYTES", 1)
    path, later = tmp_path / "t", tmp_path / "later"
    shutil.copytree(table_path("pk_dedup_mor"), path)
    later.mkdir()
    for name in ("snapshot-3", "snapshot-4", "LATEST"):
        (path / "snapshot" / name).rename(later / name)
    before = sorted(pp.Table.open(path).scan(columns=["id"]).to_arrow()["id"].to_pylist())
    reader, partitions = planned(source(str(path)))
    assert len(partitions) > 1
    for kept in later.iterdir():
        kept.rename(path / "snapshot" / kept.name)
    assert ids(reader, partitions) == before


def test_kept_partitions_of_a_table_that_was_made_again_are_refused(six, kept):
    fields = six.arrow_schema
    shutil.rmtree(six.path)
    pp.Table.create(six.path, fields).append(row(7))
    with pytest.raises(NotFoundError, match="there is another one now"):
        kept()


def test_kept_partitions_of_a_snapshot_that_was_rolled_back_are_refused(six, kept, tmp_path):
    six.append(row(7))
    for number in (2, 3):
        shutil.move(f"{six.path}/snapshot/snapshot-{number}", tmp_path / f"{number}")
    six.append(row(9))
    with pytest.raises(SnapshotNotFoundError, match="was rolled back since Spark planned"):
        kept()


def test_a_task_gets_no_secrets_and_little_else(six):
    made = source(six.path, **{"s3.secret-key": "canary-7531"})
    reader = made.reader(made.schema())
    first = pickle.dumps(reader)
    partitions = reader.partitions()
    assert b"canary" not in first
    assert pickle.dumps(reader) == first
    assert len(first) < 1000
    assert len(pickle.dumps(partitions)) < 2500
    assert len(partitions) == 1
    rows = [batch.num_rows for batch in pickle.loads(first).read(pickle.loads(pickle.dumps(partitions))[0])]
    assert sum(rows) == 6


def test_an_empty_plan_still_has_a_task(path):
    pp.Table.create(path, pa.schema([("a", pa.int32())]))
    made = source(path)
    reader = made.reader(made.schema())
    assert reader.plan() == []
    assert list(reader.read(None)) == []
    assert list(reader.read(InputPartition(None))) == []


def test_plans_are_made_once_for_a_snapshot_and_a_predicate(six):
    def plan(filter_, **more):
        options = parse_read_options({"path": six.path, "filter": filter_, **more})
        state = open_state(options, None)
        return plan_of(state, state.scan())

    first = plan("id = 1")
    assert plan("id = 1") is first
    assert plan("id = 2") is not first
    assert plan("id = 1", limit="1") is not first
    assert plan("id = 1", **{"source.split.target-size": "1 kb"}) is not first
    six.append(pa.table({"id": pa.array([7], pa.int32()), "color": ["x"], "size": [0.0]}))
    assert plan("id = 1") is not first


def test_explain_to_the_log(six, capfd):
    made = source(six.path, filter="color = 'blue'", explain="log")
    made.reader(made.schema()).partitions()
    assert "color = 'blue'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "start"), [("why.html", "<!DOCTYPE html>"), ("why.json", '{"table"'), ("why.txt", "Reads up to")]
)
def test_explain_to_a_file_of_its_kind(six, tmp_path, name, start):
    made = source(six.path, filter="color = 'blue'", explain=str(tmp_path / name))
    made.reader(made.schema()).partitions()
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith(start) and "blue" in text


def test_a_limit_is_one_partition(six):
    made = source(six.path, limit="3", **{"source.split.target-size": "1 kb"})
    reader = made.reader(made.schema())
    (partition,) = reader.plan()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 3


def test_big_tables_are_spread_over_the_cores_of_the_driver(six, monkeypatch):
    from paimon_pyds.spark import reader as module

    monkeypatch.setattr(module, "TASK_BYTES", 1)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    made = source(six.path)
    assert [sum(split.row_count for split in p.splits) for p in made.reader(made.schema()).plan()] == [4, 2]


@pytest.mark.parametrize("filter_", [None, "color = 'c3'", "id > 40000 AND size < 0.5", "color IN ('c1', 'c2')"])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_large_file_is_read_by_several_tasks_each_a_window_of_its_rows(tmp_path, monkeypatch, filter_, file_format):
    from paimon_pyds.spark import reader as module

    numbers = pa.array(range(60_000), pa.int32())
    colors = pa.array([f"c{i * 7 % 11}" for i in range(60_000)])
    sizes = pa.array([i * 13 % 1000 / 1000 for i in range(60_000)])
    options = {"file-index.bitmap.columns": "color", "file.format": file_format}
    schema = pa.schema([("id", pa.int32()), ("color", pa.string()), ("size", pa.float64())])
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    table.append(pa.table([numbers, colors, sizes], schema=schema))
    monkeypatch.setattr(module, "TASK_BYTES", 1)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    plain = {} if filter_ is None else {"filter": filter_}
    made = source(table.path, **plain, **{"metadata-columns": "__paimon_row_index", "source.split.open-file-cost": "1"})
    reader = made.reader(made.schema())
    partitions = reader.plan()
    assert len(partitions) == (3 if file_format == "parquet" else 1)
    assert sum(split.row_count for p in partitions for split in p.splits) == 60_000
    rows = pa.Table.from_batches([b for p in partitions for b in reader.read(p)])
    columns = ["id", "color", "size", "__paimon_row_index"]
    assert rows.select(columns).to_pylist() == table.scan(filter_, columns=columns).to_arrow().to_pylist()


def test_planning_keeps_decoded_manifests_for_the_next_one(spark, tmp_path):
    path, cache = str(tmp_path / "t"), tmp_path / "cache"
    table = pp.Table.create(
        path,
        pa.schema([("i", pa.int64()), ("s", pa.string())]),
        options={"metadata.stats-mode": "full", "manifest.compression": "null"},
    )
    table.append([{"i": 1, "s": "x" * (80 << 10)}])
    options = {"local-cache.enabled": "true", "local-cache.dir": str(cache)}
    assert [row.i for row in spark.read.format("paimon").options(**options).load(path).select("i").collect()] == [1]
    (kept,) = cache.iterdir()
    assert kept.name.endswith(".kept")
