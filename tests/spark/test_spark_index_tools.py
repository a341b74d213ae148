"""Maintenance on Spark: the same work, on the workers of a session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.progress import phase, shown
from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.spark import index, maintenance
from paimon_pyds.spark.executor import SparkExecutor
from support.progress import Seen

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def _table(path: Path) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("color", pa.string())])
    table = pp.Table.create(path, schema, options={"file-index.in-manifest-threshold": "100b"})
    for first in range(3):
        table.append(pa.table({"id": range(1000 * first, 1000 * first + 1000), "color": ["red", "blue"] * 500}))
    table.alter({"file-index.bitmap.columns": "color", "file-index.range-bitmap.columns": "id"})
    return table


def test_indexes_are_built_by_the_workers(spark: Any, tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    seen = Seen()
    summary = index.build(spark, table.path, progress=seen)
    assert (summary.rewritten, summary.built, summary.rows) == (3, 6, 3000)
    assert seen.done("indexing") == 3000
    assert table.count("color = 'red' AND id < 1500") == 750
    assert table.explain("id = 1500").steps[-1].rows == 1
    report = table.index.verify(executor=SparkExecutor(spark, partitions=1))
    assert (report.ok, report.indexes) == (True, 6)
    # What a worker says of a damaged file arrives as it is, and nothing is left behind.
    before = sorted(p.name for p in Path(table.path).rglob("*.index"))
    damaged = sorted(Path(table.path).rglob("*.parquet"))[1]
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    with pytest.raises(CorruptFileError, match="Parquet"):
        table.index.build(rebuild=True, executor=SparkExecutor(spark, partitions=2))
    assert sorted(p.name for p in Path(table.path).rglob("*.index")) == before
    assert len(table.snapshots.list()) == 4


@pytest.mark.slow
def test_checks_and_repairs_run_on_the_workers(spark: Any, tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    index.build(spark, table)
    assert index.verify(spark, table.path, "TRUE").indexes == 6
    assert maintenance.verify(spark, table, deep=True).ok
    Path(table._store.paths.latest_hint).write_text("99")
    (finding,) = maintenance.verify(spark, table.path).findings
    assert finding.kind == "hint-ahead"
    assert [f.kind for f in maintenance.repair(spark, table.path, dry_run=True).mends] == ["hint-ahead"]
    assert [f.kind for f in maintenance.repair(spark, table.path).mended] == ["hint-ahead"]
    assert maintenance.verify(spark, table.path).ok


@pytest.mark.connect
def test_spark_connect_tells_how_many_tasks_are_done(spark: Any) -> None:
    seen = Seen()
    spark.conf.set("spark.connect.progress.reportInterval", "100ms")
    with shown("sleep", seen), phase("sleeping"):
        assert list(SparkExecutor(spark).map(time.sleep, [1] * 4)) == [None] * 4
    spark.conf.unset("spark.connect.progress.reportInterval")
    counts = [(e.done["tasks"], e.total["tasks"]) for e in seen.events if "tasks" in e.done]
    assert counts
    assert all(0 <= done <= total for done, total in counts)
    assert max(counts)[0] > 0


def test_no_task_starts_no_job() -> None:
    assert list(SparkExecutor(None).map(str, [])) == []  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="partition"):
        SparkExecutor(None, partitions=0)  # type: ignore[arg-type]
