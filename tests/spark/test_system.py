"""System tables in Spark: each of them, in one session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.functions import spark_partition_id

import paimon_pyds as pp
from paimon_pyds.ops.system.tables import NAMES
from paimon_pyds.ops.system.warehouse import WAREHOUSE_TABLES
from support.effort import sampled
from support.values import lines

pytestmark = pytest.mark.spark


def _stored(frame: Any) -> list[str]:
    return lines(frame.toArrow())


def _ours(table: pa.Table) -> list[str]:
    """The same as Spark has it: microseconds."""
    types = [pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type for f in table.schema]
    return lines(table.cast(pa.schema(list(zip(table.schema.names, types, strict=True)))))


@pytest.fixture
def table(path: str) -> pp.Table:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.int32(), False), ("s", pa.string())])
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file-index.bitmap.columns": "s"}
    made = pp.Table.create(path, schema, primary_key=["id", "p"], partition_by=["p"], options=options)
    for text in ("a", "b"):
        made.append(pa.table({"id": [1, 2, 3], "p": [1, 1, 2], "s": [text] * 3}, schema=schema))
    made.tags.create("t1")
    made.branches.create("b", tag="t1")
    return made


def test_each_system_table_by_name_and_by_path(spark: Any, frames: Any, table: pp.Table) -> None:
    warehouse = table.path.removesuffix("/db.db/t")
    for name in sampled(NAMES, 3):
        if name != "row_tracking":
            by_path = frames.load(f"{table.path}${name}")
            assert _stored(by_path) == _ours(table.system.read(name)), name
    by_name = spark.read.format("paimon").option("warehouse", warehouse)
    of_branch = by_name.option("table", "db.t$branch_b$snapshots").load()
    assert _stored(of_branch) == _ours(pp.Table.open(table.path, "b").system.read("snapshots"))
    assert {f.name: f.nullable for f in of_branch.schema}["snapshot_id"] is False
    for name in sampled(WAREHOUSE_TABLES, 1):
        frame = spark.read.format("paimon").option("warehouse", warehouse).option("table", f"sys.{name}").load()
        assert _stored(frame) == _ours(pp.Catalog(warehouse).system.read(name)), name


@pytest.mark.slow
def test_filter_columns_limit_and_changes(frames: Any, table: pp.Table) -> None:
    files = frames.load(f"{table.path}$files", filter="partition = '{1}'", columns="record_count,bucket", limit=1)
    assert files.columns == ["record_count", "bucket"]
    assert files.count() == 1
    changes = frames.load(f"{table.path}$audit_log", filter="rowkind = '+I' AND id > 1")
    assert sorted(row.id for row in changes.select("id").collect()) == [2, 3]
    seen = frames.load(f"{table.path}$snapshots")
    before = seen.count()
    table.append(pa.table({"id": [9], "p": [9], "s": ["c"]}, schema=table.arrow_schema))
    assert seen.count() > before


@pytest.mark.slow
def test_changes_that_are_named_are_read_by_several_tasks(frames: Any, path: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("s", pa.string())])
    options = {"bucket": "2", "changelog-producer": "lookup", "source.split.target-size": "1b"}
    table = pp.Table.create(path, schema, primary_key=["id"], options=options)
    for text in ("a", "b", "c"):
        table.append(pa.table({"id": list(range(20)), "s": [text] * 20}, schema))
    between = {"incremental-between": f"0,{table._store.latest_snapshot_id()}"}
    for name in ("audit_log", "binlog"):
        frame = frames.load(f"{path}${name}", **between)
        assert _stored(frame) == lines(table.system.scan(name, options=between).to_arrow())
        assert frame.select(spark_partition_id()).distinct().count() > 1
        few = frames.load(f"{path}${name}", filter="rowkind <> '+I'", columns="rowkind", **between)
        expected = table.system.scan(name, "rowkind <> '+I'", columns=["rowkind"], options=between).to_arrow()
        assert _stored(few) == lines(expected) != []


@pytest.mark.slow
def test_row_tracking(frames: Any, path: str) -> None:
    tracked = pp.Table.create(path, pa.schema([("a", pa.int64())]), options={"row-tracking.enabled": "true"})
    tracked.append(pa.table({"a": [1, 2]}))
    assert _stored(frames.load(f"{path}$row_tracking")) == lines(tracked.system.read("row_tracking"))
    tracked.append(pa.table({"a": [3]}))
    assert [row.a for row in frames.load(f"{path}$audit_log", incremental_between="1,2").collect()] == [3]


@pytest.mark.slow
def test_orphans_on_spark(spark: Any, table: pp.Table) -> None:
    from paimon_pyds.spark.maintenance import remove_orphan_files

    bucket = Path(table.path) / "p=1" / "bucket-0"
    old = time.time() - 3 * 86_400
    for name in ("data-x-0.parquet", "data-y-0.parquet"):
        (bucket / name).write_bytes(b"1234")
    for file in Path(table.path).rglob("*"):
        if file.name != "data-y-0.parquet":
            os.utime(file, (old, old))
    before = lines(table.scan().to_arrow())
    found = remove_orphan_files(spark, table.path, dry_run=True)
    assert found.files["path"].to_pylist() == [str(bucket / "data-x-0.parquet")]
    assert found.dry_run
    remove_orphan_files(spark, table.path, "1 day", dry_run=False)
    assert not (bucket / "data-x-0.parquet").exists()
    assert (bucket / "data-y-0.parquet").exists()
    assert lines(pp.Table.open(table.path).scan().to_arrow()) == before
