"""The flights' story: write from a Spark DataFrame, then ask questions that indexes and partitions answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

import paimon_pyds as pp
from demo.measure import Answer, arrow_scan, in_rows, size_text, spark_rows

OPTIONS = {
    "partition-by": "month",
    "file-index.bitmap.columns": "carrier,origin,dest",
    "file-index.bloom-filter.columns": "tailnum",
    "file-index.bloom-filter.tailnum.items": "4000",
    "file-index.bloom-filter.tailnum.fpp": "0.01",
}
KEY = ("month", "day", "sched_dep_time", "carrier", "flight")

QUERIES: tuple[tuple[str, str, Callable[[], pc.Expression]], ...] = (
    ("a rare destination", "dest = 'ANC'", lambda: pc.field("dest") == "ANC"),
    ("an airline", "carrier = 'HA'", lambda: pc.field("carrier") == "HA"),
    ("one aircraft, once", "tailnum = 'N136DL'", lambda: pc.field("tailnum") == "N136DL"),
    (
        "several columns",
        "carrier IN ('OO', 'YV') AND origin <> 'EWR' AND dest NOT IN ('CLT', 'IAD')",
        lambda: (
            pc.field("carrier").isin(["OO", "YV"])
            & (pc.field("origin") != "EWR")
            & ~pc.field("dest").isin(["CLT", "IAD"])
        ),
    ),
    (
        "one month, very late",
        "month = 7 AND dest = 'SFO' AND dep_delay > 300",
        lambda: (pc.field("month") == 7) & (pc.field("dest") == "SFO") & (pc.field("dep_delay") > 300),
    ),
    ("nothing at all", "dest = 'XYZ'", lambda: pc.field("dest") == "XYZ"),
)


def write(spark: Any, flights: pa.Table, path: Path, progress: bool = True) -> float:
    """The flights as a Paimon table, written by Spark, one file for each month; the seconds it took."""
    # pyspark (4.0.5 and 4.3.0) makes an empty DataFrame of an Arrow table whose first chunk is empty
    df = spark.createDataFrame(flights.combine_chunks()).repartition("month")
    started = time.perf_counter()
    with data_files_seen(path, progress):
        df.write.format("paimon").mode("overwrite").options(**OPTIONS).option("path", str(path)).save()
    return time.perf_counter() - started


@contextmanager
def data_files_seen(path: Path, progress: bool) -> Iterator[None]:
    """A progress bar of the data files that a running job has written so far."""
    done = threading.Event()

    def watch() -> None:
        with tqdm(desc="writing the table", unit=" files", disable=None if progress else True, leave=False) as bar:
            while not done.wait(0.2):
                bar.update(len(list(path.glob("month=*/bucket-*/*.parquet"))) - bar.n)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def ask(spark: Any, flights: pa.Table, path: Path, say: Callable[[str], None] = print) -> list[Answer]:
    """Every query by Spark SQL and by the Arrow API, checked against plain Arrow over all rows."""
    files = len(pp.Table.open(str(path)).scan().plan().files)
    everything, full_scan = arrow_scan(str(path))
    if everything.num_rows != flights.num_rows:
        raise AssertionError(f"{flights.num_rows:,} rows were written, {everything.num_rows:,} read")
    say(f"Full scan: {everything.num_rows:,} rows, {files} files, {size_text(full_scan.bytes_read)} read, "
        f"{full_scan.seconds:.3f} s\n")  # fmt: skip
    spark_rows(spark, str(path), "dest = 'LEX'", KEY)  # starts Spark's Python workers, so that times compare
    answers = []
    for title, text, expression in QUERIES:
        rows, cost = arrow_scan(str(path), text)
        from_spark, spark_seconds = spark_rows(spark, str(path), text, KEY)
        judge = in_rows(flights.filter(expression()), KEY)
        if in_rows(rows, KEY) != judge or sorted(from_spark) != judge:
            raise AssertionError(f"{text}: {len(judge)} rows expected, Arrow {rows.num_rows}, Spark {len(from_spark)}")
        planned = len(pp.Table.open(str(path)).scan(text).plan().files)
        answer = Answer(text, rows.num_rows, files, planned, full_scan, cost, spark_seconds)
        answers.append(answer)
        say(describe(title, answer))
    return answers


def describe(title: str, a: Answer) -> str:
    """One query for people."""
    skipped = a.files_of_table - a.arrow.files
    all_bytes = a.full_scan.bytes_read
    share = 100 * a.arrow.bytes_read / all_bytes
    milliseconds = [f"{1000 * seconds:.0f} ms" for seconds in (a.arrow.seconds, a.full_scan.seconds, a.spark_seconds)]
    return "\n".join(
        [
            f"{title}:  {a.filter}",
            f"    rows            {a.rows:,} (Spark SQL, Arrow API and a plain filter over all rows agree)",
            f"    files           {a.files_planned} planned, {a.arrow.files} read, {skipped} skipped",
            f"    row positions   {a.arrow.positions:,} selected by partitions, statistics and indexes",
            f"    bytes           {size_text(a.arrow.bytes_read)} read, {share:.1f} % of {size_text(all_bytes)}",
            "    time            Arrow {} (full scan {}), Spark SQL {}".format(*milliseconds),
            "",
        ]
    )
