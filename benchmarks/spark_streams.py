"""Streams in Spark, warm, in one session: a backlog of small snapshots against a batch read of the same rows."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.spark_session import spark_session

SNAPSHOTS = 1_000
ROWS = 100
_PAIRS = 3


def make(path: str) -> None:
    """A table of many snapshots, each of one file."""
    import pyarrow as pa

    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    names = ("snapshot.num-retained.min", "snapshot.num-retained.max")
    options = {"write-only": "true", **dict.fromkeys(names, str(2 * SNAPSHOTS))}
    table = pp.Table.create(path, "id BIGINT, name STRING", options=options)
    for n in range(SNAPSHOTS):
        table.append(pa.table({"id": range(n * ROWS, n * ROWS + ROWS), "name": [f"name {n}"] * ROWS}))


def backlog(spark: Any, path: str, checkpoint: Path) -> float:
    """Seconds of the micro-batch that reads all snapshots."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    stream = spark.readStream.format("paimon").option("scan.mode", "from-snapshot").option("scan.snapshot-id", "1")
    writer = stream.load(path).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    if sum(one["numInputRows"] for one in progress) != SNAPSHOTS * ROWS:
        raise SystemExit(f"other rows than those of the table: {progress}")
    return sum(one["durationMs"]["triggerExecution"] for one in progress) / 1000


def whole(spark: Any, path: str) -> float:
    """Seconds of a batch read."""
    start = time.perf_counter()
    spark.read.format("paimon").load(path).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    path = sys.argv[1]
    make(path)
    spark = spark_session()
    checkpoint = Path(f"{path}-checkpoint")
    backlog(spark, path, checkpoint)
    whole(spark, path)
    pairs = [(backlog(spark, path, checkpoint), whole(spark, path)) for _ in range(_PAIRS)]
    spark.stop()
    streams, batches = zip(*pairs, strict=True)
    ratio = statistics.median(a / b for a, b in pairs)
    print(json.dumps({"stream": statistics.median(streams), "batch": statistics.median(batches), "ratio": ratio}))


if __name__ == "__main__":
    main()
