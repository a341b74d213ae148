"""Spark: the same queries through our source and through Spark's own Parquet source, warm, in one session."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks.spark_session import spark_session

_WARM_UPS = 10
_PAIRS = 21
_SCANS = 5


def _alternate(ours: Callable[[], Any], peer: Callable[[], Any], pairs: int) -> dict[str, float]:
    """Medians of both, and of their ratio. They take turns, as a JVM gets faster for a hundred queries."""
    for _ in range(min(_WARM_UPS, pairs)):
        ours()
        peer()
    a, b = [], []
    for _ in range(pairs):
        a.append(_seconds(ours))
        b.append(_seconds(peer))
    ratio = statistics.median(x / y for x, y in zip(a, b, strict=True))
    return {"ours": statistics.median(a), "peer": statistics.median(b), "ratio": ratio}


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


def _ready(spark: Any, path: str, columns: tuple[str, ...]) -> Callable[[], Any]:
    """The same of a Python data source that has the batches in a file of Arrow's: as fast as this API can be."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    from paimon_pyds import Table

    rows = Table.open(path).scan(columns=list(columns)).to_arrow()
    file, name = f"{path}-{len(columns)}.arrow", f"ready{len(columns)}"
    with pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=65_536)
    schema, halves = spark.read.parquet(f"{path}-parquet").select(*columns).schema, 2

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(half) for half in range(halves)]

        def read(self, partition: InputPartition) -> Any:
            import pyarrow as pa

            batches = pa.ipc.open_file(pa.memory_map(file))
            for number in range(partition.value, batches.num_record_batches, halves):
                yield batches.get_batch(number)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Source)
    wanted = [f"max({column})" for column in columns]
    return lambda: spark.read.format(name).load().selectExpr(*wanted).collect()


def _many(spark: Any, path: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """All rows of many small files in as many partitions: ours, and Spark's Parquet of the same files."""
    wanted = ["count(id)", "max(code)", "max(name)"]

    def ours() -> Any:
        return spark.read.format("paimon").load(path).selectExpr(*wanted).collect()

    def parquet() -> Any:
        return spark.read.parquet(f"{path}/p=*/bucket-0/*.parquet").selectExpr(*wanted).collect()

    if ours() != parquet():
        raise SystemExit(f"different answers: {ours()} and {parquet()}")
    return ours, parquet


def _seconds(query: Callable[[], Any]) -> float:
    start = time.perf_counter()
    query()
    return time.perf_counter() - start


def main() -> None:
    large, small, many = sys.argv[1:]
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
        ours, parquet = _scans(spark, large, columns)
        result[name] = _alternate(ours, parquet, _SCANS)
        result[f"{name}_ready"] = _alternate(ours, _ready(spark, large, columns), _SCANS)
    result["many"] = _alternate(*_many(spark, many), _SCANS)
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
