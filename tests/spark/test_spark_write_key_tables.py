"""Tables with a primary key from Spark: plain ``df.write``, whose tasks see rows of any bucket."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.spark import compact, write
from paimon_pyds.spark.executor import SparkExecutor
from support.dynamic_buckets import bucket_keys

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_rows_are_updated_and_deleted_by_key(frames, path):
    frames.save("SELECT id AS k, 'a' AS v FROM range(100)", path, **{"primary-key": "K", "bucket": "2"})
    changes = "SELECT id AS k, 'b' AS v, IF(id < 110, '-D', '+U') AS op FROM range(90, 120)"
    frames.save(changes, path, **{"rowkind-column": "OP"})
    table = pp.Table.open(path)
    assert table.primary_key == ("k",)
    assert table.schema.field_names == ("k", "v")
    found = {row.k: row.v for row in frames.load(path).collect()}
    assert found == {**dict.fromkeys(range(90), "a"), **dict.fromkeys(range(110, 120), "b")}


@pytest.mark.slow
def test_rows_of_two_tasks_are_never_equally_old(frames, path):
    frames.save("SELECT 0 AS k, 0 AS v", path, **{"primary-key": "k", "bucket": "1"})
    rows = frames.spark.sql("SELECT /*+ REPARTITION(3) */ INT(id % 4) AS k, INT(id) AS v FROM range(40)")
    rows.write.format("paimon").mode("append").save(path)
    table = pp.Table.open(path)
    entries = ManifestReader(table._store).live_files(table.snapshots.latest())
    ranges = sorted(zip(*(entries[f"{end}_sequence_number"].to_pylist() for end in ("min", "max")), strict=True))
    assert len(ranges) == 4
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    ours = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert {row.k: row.v for row in frames.load(path).collect()} == ours
    assert sorted(ours) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("by_function", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_writes_compact_the_buckets_that_they_touched(frames, path, monkeypatch, by_function):
    """By the process that commits, or by the workers, where the session is at hand."""
    rows = frames.spark.sql("SELECT INT(id) AS k, INT(id) AS v FROM range(40)").coalesce(1)
    options = {"primary-key": "k", "bucket": "2", "num-sorted-run.compaction-trigger": "2"}
    tasks = []
    real = SparkExecutor.map
    monkeypatch.setattr(SparkExecutor, "map", lambda self, f, given: tasks.append(len(given)) or real(self, f, given))
    for _ in range(2):
        if by_function:
            write(rows, path, options=options)
        else:
            frames.save("SELECT INT(id) AS k, INT(id) AS v FROM range(40)", path, **options)
    table = pp.Table.open(path)
    assert ManifestReader(table._store).live_files(table.snapshots.latest())["level"].to_pylist() == [2, 2]
    assert tasks == ([1] if by_function else [])  # small buckets are one task
    assert "write-only" not in table.options
    assert {row.k for row in frames.load(path).collect()} == set(range(40))
    write(rows, path, options={"write-only": "true"})
    assert ManifestReader(table._store).live_files(table.snapshots.latest()).num_rows == 4


@pytest.mark.slow
def test_tasks_of_a_write_agree_on_the_buckets_of_new_partitions(frames, path):
    options = {"primary-key": "p,k", "partition-by": "p", "bucket": "-2", "postpone.target-row-num-per-bucket": "10"}
    rows = "SELECT INT(id % 2) AS p, INT(id) AS k, INT(id) AS v FROM range(0, 100, 1, 4)"
    frames.save(rows, path, **options)
    table = pp.Table.open(path)
    assert [row["total_buckets"] for row in table.system.read("partitions").to_pylist()] == [8, 8]
    assert {row.k for row in frames.load(path).collect()} == set(range(100))
    assert not list(Path(path).rglob("bucket-postpone/*"))
    waits = {**options, "postpone.batch-write-fixed-bucket": "false"}
    frames.save("SELECT INT(id % 2) AS p, INT(id) AS k, -1 AS v FROM range(0, 60, 1, 3)", path, **waits)
    assert table.count("v = -1") == 0
    assert compact(frames.spark, path).files_before == 6
    assert table.count("v = -1") == 60
    assert table.count() == 100


@pytest.mark.slow
def test_tasks_that_see_the_same_keys_put_them_into_one_bucket(frames, path):
    options = {"primary-key": "k", "dynamic-bucket.target-row-num": "100"}
    found = {}
    for last, mode in ((150, "append"), (400, "append"), (40, "overwrite")):
        rows = f"SELECT /*+ REPARTITION(3) */ INT(id % {last}) AS k, {last} AS v FROM range({3 * last})"
        frames.save(rows, path, mode, **options)
        found = dict.fromkeys(range(last), last) if mode == "overwrite" else found | dict.fromkeys(range(last), last)
        table = pp.Table.open(path)
        assert {row.k: row.v for row in frames.load(path).collect()} == found
        assert table.count() == sum(map(len, bucket_keys(table).values())) == len(found)
