"""Spark: the same queries through our source and through Spark's own Parquet source, warm, in one session."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.spark_session import spark_session

_WARM_UPS = 10
_PAIRS = 21
_SCANS = 5


def _alternate(ours: Callable[[], Any], parquet: Callable[[], Any], pairs: int) -> dict[str, float]:
    """Medians of both, and of their ratio. They take turns, as a JVM gets faster for a hundred queries."""
    for _ in range(min(_WARM_UPS, pairs)):
        ours()
        parquet()
    a, b = [], []
    for _ in range(pairs):
        a.append(_seconds(ours))
        b.append(_seconds(parquet))
    ratio = statistics.median(x / y for x, y in zip(a, b, strict=True))
    return {"ours": statistics.median(a), "parquet": statistics.median(b), "ratio": ratio}


def _scans(spark: Any, path: str, columns: tuple[str, ...]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """All rows of some columns, of which Spark needs each value: ours, and Spark's Parquet."""
    wanted = [f"max({name})" for name in columns]

    def ours() -> Any:
        return spark.read.format("paimon").option("columns", ",".join(columns)).load(path).selectExpr(*wanted).collect()

    def parquet() -> Any:
        return spark.read.parquet(f"{path}-parquet").selectExpr(*wanted).collect()

    if ours() != parquet():
        raise SystemExit(f"different answers: {ours()} and {parquet()}")
    return ours, parquet


def _seconds(query: Callable[[], Any]) -> float:
    start = time.perf_counter()
    query()
    return time.perf_counter() - start


def main() -> None:
    large, small = sys.argv[1], sys.argv[2]
    spark = spark_session()
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
        result[name] = _alternate(ours, parquet, _PAIRS)
    for name, columns in (("full", ("id", "code", "price", "name")), ("narrow", ("id",))):
        result[name] = _alternate(*_scans(spark, large, columns), _SCANS)
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
