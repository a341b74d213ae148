"""Tables with a primary key from Spark: plain ``df.write``, whose tasks see rows of any bucket."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_reader import ManifestReader

pytestmark = pytest.mark.spark


def test_rows_are_updated_and_deleted_by_key(frames, path):
    frames.save("SELECT id AS k, 'a' AS v FROM range(100)", path, **{"primary-key": "K", "bucket": "2"})
    changes = "SELECT id AS k, 'b' AS v, IF(id < 110, '-D', '+U') AS op FROM range(90, 120)"
    frames.save(changes, path, **{"rowkind-column": "OP"})
    table = pp.Table.open(path)
    assert table.primary_key == ("k",)
    assert table.schema.field_names == ("k", "v")
    found = {row.k: row.v for row in frames.load(path).collect()}
    assert found == {**dict.fromkeys(range(90), "a"), **dict.fromkeys(range(110, 120), "b")}


def test_rows_of_two_tasks_are_never_equally_old(frames, path):
    frames.save("SELECT 0 AS k, 0 AS v", path, **{"primary-key": "k", "bucket": "1"})
    rows = frames.spark.sql("SELECT /*+ REPARTITION(3) */ INT(id % 4) AS k, INT(id) AS v FROM range(40)")
    rows.write.format("paimon").mode("append").save(path)
    table = pp.Table.open(path)
    entries = ManifestReader(table.store).live_files(table.snapshot())
    ranges = sorted(zip(*(entries[f"{end}_sequence_number"].to_pylist() for end in ("min", "max")), strict=True))
    assert len(ranges) == 4
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    ours = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert {row.k: row.v for row in frames.load(path).collect()} == ours
    assert sorted(ours) == [0, 1, 2, 3]
