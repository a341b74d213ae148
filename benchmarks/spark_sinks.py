"""Streams in Spark: micro-batches into our tables and into Parquet, and one large micro-batch beside a batch write.

One session; the sinks take turns, and their first micro-batches, which warm up, don't count.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.data import batches
from benchmarks.spark_session import spark_session

_BATCHES, _WARM_UPS, _RUNS = 12, 4, 3
_SINKS: dict[str, tuple[str, dict[str, str]]] = {
    "append": ("paimon", {}),
    "key": ("paimon", {"primary-key": "id", "bucket": "1"}),
    "parquet": ("parquet", {}),
}


def _files(directory: Path, rows: int, count: int) -> Path:
    """Parquet files of ``rows`` rows each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True)
    for number in range(count):
        path = directory / f"{number:03}.parquet"
        pq.write_table(pa.Table.from_batches(batches(rows, seed=number + 1)), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return directory


def _stream(spark: Any, source: Path, sink: str, out: Path, files: int | None) -> list[float]:
    """The seconds of each micro-batch of a query from all files of a directory; ``files`` of them at a time."""
    form, options = _SINKS[sink]
    read = spark.readStream.schema(spark.read.parquet(str(source)).schema)
    read = read if files is None else read.option("maxFilesPerTrigger", files)
    writer = read.parquet(str(source)).writeStream.format(form).options(**options)
    writer = writer.option("checkpointLocation", f"{out}-checkpoint").trigger(availableNow=True)
    query = writer.start(str(out))
    query.awaitTermination()
    done = [p for p in query.recentProgress if p["numInputRows"]]
    return [p["durationMs"]["triggerExecution"] / 1000 for p in done]


def _micro_batches(spark: Any, root: Path, rows: int) -> list[dict[str, Any]]:
    source = _files(root / f"in-{rows}", rows, _BATCHES)
    taken: dict[str, list[float]] = {sink: [] for sink in _SINKS}
    for run in range(_RUNS):
        for sink in _SINKS:
            seconds = _stream(spark, source, sink, root / f"{sink}-{rows}-{run}", 1)
            taken[sink] += seconds[_WARM_UPS:]
    median = {sink: statistics.median(seconds) for sink, seconds in taken.items()}
    return [
        {
            "what": f"a micro-batch of {rows:,} rows ({sink})", "ours": median[sink], "peer": median["parquet"],
            "peer_name": "parquet", "ratio": median[sink] / median["parquet"], "target": "≤ 1.3×",
        }
        for sink in _SINKS if sink != "parquet"
    ]  # fmt: skip


def _one_large(spark: Any, root: Path, rows: int) -> dict[str, Any]:
    source, pairs = _files(root / "in-large", rows // 8, 8), []
    for run in range(2):
        start = time.perf_counter()
        spark.read.parquet(str(source)).write.format("paimon").mode("append").save(str(root / f"batch-{run}"))
        batch = time.perf_counter() - start
        pairs.append((sum(_stream(spark, source, "append", root / f"large-{run}", None)), batch))
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    what = f"{rows:,} rows in one micro-batch, against our batch append"
    return {"what": what, "ours": ours, "peer": peer, "peer_name": "ours", "ratio": ratio, "target": "≤ 1.2×"}


def main() -> None:
    root, rows = Path(sys.argv[1]) / "streams", int(sys.argv[2])
    spark = spark_session()
    found = [row for size in (1, 100_000) for row in _micro_batches(spark, root, size)]
    print(json.dumps({"rows": [*found, _one_large(spark, root, rows)]}))
    spark.stop()


if __name__ == "__main__":
    main()
