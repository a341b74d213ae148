"""Joins on the bucket key where partitions have bucket numbers of their own: Spark knows no layout, and shuffles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("key", [False, True], ids=["append", "keys"])
def test_a_join_finds_the_rows_of_each_partition(spark: Any, tmp_path: Path, key: bool) -> None:
    options = {"bucket": "2", **({} if key else {"bucket-key": "k"})}
    for name in ("a", "b"):
        table = pp.Table.create(tmp_path / name, "p INT, k INT, v INT", ["p", "k"] if key else None, ["p"], options)
        table.append([{"p": k % 2, "k": k, "v": k} for k in range(40)])
    pp.Table.open(tmp_path / "a").maintenance.rescale(5, "p = 1")
    pp.Table.open(tmp_path / "b").alter({"bucket": "3"})  # new partitions only
    pp.Table.open(tmp_path / "b").append([{"p": 2, "k": k, "v": k} for k in range(40)])
    numbers = pp.Table.open(tmp_path / "a").system.read("partitions").to_pylist()
    assert [row["total_buckets"] for row in numbers] == [2, 5]
    settings = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        for name in ("a", "b"):
            spark.read.format("paimon_pyds").load(str(tmp_path / name)).createOrReplaceTempView(f"joined_{name}")
        found = spark.sql("SELECT a.k, b.p FROM joined_a a JOIN joined_b b ON a.k = b.k").collect()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert sorted(map(tuple, found)) == sorted([(k, p) for k in range(40) for p in (k % 2, 2)])
