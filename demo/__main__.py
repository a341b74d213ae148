"""``python -m demo [DIRECTORY]``: the whole demonstration. Tables go to DIRECTORY, or to one removed at the end."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

import paimon_pyds as pp
from demo import examples, flights, story
from demo.measure import size_text, spark_view


def session(scratch: Path) -> Any:
    """A quiet local Spark."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.appName("paimon_pyds demo")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .getOrCreate()
    )
    return spark


def heading(text: str) -> None:
    """A line that parts the output."""
    print(f"\n── {text} {'─' * (96 - len(text))}\n", flush=True)


def run(directory: Path) -> None:
    """Write, query, explain."""
    heading("two worked examples: which positions do the bitmaps select?")
    examples.run(directory)

    heading("flights: written by Spark")
    data = flights.load()
    spark = session(directory)
    print(f"Spark {pyspark.__version__}, {data.num_rows:,} flights, {data.num_columns} columns")
    path = directory / "travel.db" / "flights"
    seconds = story.write(spark, data, path)
    table = pp.Table.open(str(path))
    plan = table.scan().plan()
    size = sum(task.size for task in plan.files)
    print(f"Written in {seconds:.1f} s: {table}")
    print(f"    partitioned by {', '.join(table.partition_by)}, {len(plan.files)} files, {size_text(size)}")
    for key, value in sorted(table.options.items()):
        print(f"    {key} = {value}")

    heading("flights: queried by Spark SQL and by the Arrow API")
    story.ask(spark, data, path)

    heading("Spark SQL over a temporary view")
    query = "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS delay FROM lax GROUP BY 1 ORDER BY 2 DESC"
    spark_view(spark, "lax", str(path), "dest = 'LAX' AND month BETWEEN 6 AND 8")
    print(
        "CREATE TEMPORARY VIEW lax USING paimon OPTIONS (path '…', filter \"dest = 'LAX' AND month BETWEEN 6 AND 8\")"
    )
    print(query)
    spark.sql(query).show()

    heading("how a scan narrows down: table.explain(\"tailnum = 'N136DL'\")")
    print(table.explain("tailnum = 'N136DL'"))
    spark.stop()


def main() -> None:
    """The command."""
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="paimon-demo-") as scratch:
        run(Path(scratch))


if __name__ == "__main__":
    main()
