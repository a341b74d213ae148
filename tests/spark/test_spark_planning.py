"""What happens in Spark's planning processes, called as Spark calls it."""

from __future__ import annotations

import pickle
import shutil

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.datasource import InputPartition

import paimon_pyds as pp
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.spark.options import parse_read_options
from paimon_pyds.spark.plans import planned
from paimon_pyds.spark.source import PaimonDataSource
from paimon_pyds.spark.state import Pin, open_state

pytestmark = pytest.mark.spark


def source(path: str, **options: str) -> PaimonDataSource:
    return PaimonDataSource({"path": path, **{k.replace("_", "-"): v for k, v in options.items()}})


def test_a_source_is_pinned_when_it_is_pickled(six):
    made = pickle.loads(pickle.dumps(source(six.path)))
    assert made._pin == Pin(2, 0)
    six.append(pa.table({"id": pa.array([7], pa.int32()), "color": ["x"], "size": [0.0]}))
    partitions = made.reader(made.schema()).partitions()
    assert sum(p.split.row_count for p in partitions) == 6
    assert source(six.path, **{"scan.snapshot-id": "1"}).__getstate__()["_pin"] is None
    assert source(six.path + "x").__getstate__()["_pin"] is None  # no table yet: the read itself will say so


def test_a_pinned_snapshot_that_is_gone_is_said_to_be(six):
    made = source(six.path)
    schema = made.schema()
    made = pickle.loads(pickle.dumps(made))
    fields = six.arrow_schema
    shutil.rmtree(six.path)
    pp.Table.create(six.path, fields).append(pa.table({"id": pa.array([7], pa.int32()), "color": ["x"], "size": [0.0]}))
    with pytest.raises(SnapshotNotFoundError, match=r"was loaded from is gone: snapshot 2 .*load the table"):
        made.reader(schema).partitions()


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
    assert reader.partitions() == []
    assert list(reader.read(None)) == []
    assert list(reader.read(InputPartition(None))) == []


def test_plans_are_made_once_for_a_snapshot_and_a_predicate(six):
    def plan(filter_, **more):
        options = parse_read_options({"path": six.path, "filter": filter_, **more})
        state = open_state(options, None)
        return planned(state, state.scan())

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
    ("name", "start"), [("why.html", "<!DOCTYPE html>"), ("why.json", '{"table"'), ("why", "Scan of")]
)
def test_explain_to_a_file_of_its_kind(six, tmp_path, name, start):
    made = source(six.path, filter="color = 'blue'", explain=str(tmp_path / name))
    made.reader(made.schema()).partitions()
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert text.startswith(start) and "blue" in text


def test_a_limit_is_one_partition(six):
    made = source(six.path, limit="3", **{"source.split.target-size": "1 kb"})
    reader = made.reader(made.schema())
    (partition,) = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 3


def test_big_tables_are_spread_over_the_cores_of_the_driver(six, monkeypatch):
    from paimon_pyds.spark import reader as module

    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    made = source(six.path)
    assert [p.split.row_count for p in made.reader(made.schema()).partitions()] == [4, 2]


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
    monkeypatch.setattr(module, "_TASK_BYTES", 1)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    plain = {} if filter_ is None else {"filter": filter_}
    made = source(table.path, **plain, **{"metadata-columns": "__paimon_row_index", "source.split.open-file-cost": "1"})
    reader = made.reader(made.schema())
    partitions = reader.partitions()
    assert len(partitions) == (3 if file_format == "parquet" else 1)
    assert sum(p.split.row_count for p in partitions) == 60_000
    rows = pa.Table.from_batches([b for p in partitions for b in reader.read(p)])
    columns = ["id", "color", "size", "__paimon_row_index"]
    assert rows.select(columns).to_pylist() == table.scan(filter_, columns=columns).to_arrow().to_pylist()
