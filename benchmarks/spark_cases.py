"""Spark: the same filtered query through our source and through Spark's own Parquet source, warm, in one session."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def _median_seconds(query: Callable[[], Any], runs: int) -> float:
    query()
    query()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        query()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    large, small = sys.argv[1], sys.argv[2]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    import paimon_pyds

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "3g").config("spark.sql.session.timeZone", "UTC")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    paimon_pyds.register(spark)
    condition = "code = 17 AND price < 0.5"
    result = {}
    for name, path in (("large", large), ("small", small)):

        def ours(path: str = path) -> Any:
            frame = spark.read.format("paimon").option("filter", condition).load(path)
            return frame.filter(condition).agg({"id": "sum", "price": "sum"}).collect()

        def parquet(path: str = path) -> Any:
            frame = spark.read.parquet(f"{path}-parquet")
            return frame.filter(condition).agg({"id": "sum", "price": "sum"}).collect()

        a, b = ours()[0], parquet()[0]
        if a["sum(id)"] != b["sum(id)"]:
            raise SystemExit(f"different answers: {a} and {b}")
        result[name] = {"ours": _median_seconds(ours, 7), "parquet": _median_seconds(parquet, 7)}
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
