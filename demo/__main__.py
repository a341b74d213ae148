"""``python -m demo [WAREHOUSE]``: the whole demonstration. Its table goes to WAREHOUSE, or is removed at the end."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import paimon_pyds as pp
from demo import examples, flights, shop, story
from demo.measure import Answer, size_text, spark_view


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


def run(spark: Any, warehouse: Path, scratch: Path) -> list[Answer]:
    """Write, query, explain. The flights' table stays under ``warehouse``, with two small ones of a shop."""
    heading("two worked examples: which positions do the bitmaps select?")
    examples.run(scratch)

    heading("flights: written by Spark")
    data = flights.load()
    print(f"Spark {spark.version}, {data.num_rows:,} flights, {data.num_columns} columns", flush=True)
    path = warehouse / "travel.db" / "flights"
    seconds = story.write(spark, data, path)
    table = pp.Table.open(str(path))
    plan = table.scan().plan()
    size = sum(task.size for task in plan.files)
    print(f"Written in {seconds:.1f} s: {table}")
    print(f"    partitioned by {', '.join(table.partition_by)}, {len(plan.files)} files, {size_text(size)}")
    for key, value in sorted(table.options.items()):
        print(f"    {key} = {value}")

    heading("flights: queried by Spark SQL and by the Arrow API")
    answers = story.ask(spark, data, path)

    heading("Spark SQL over a temporary view")
    query = "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS delay FROM lax GROUP BY 1 ORDER BY 2 DESC"
    spark_view(spark, "lax", str(path), "dest = 'LAX' AND month BETWEEN 6 AND 8")
    print("CREATE TEMPORARY VIEW lax USING paimon OPTIONS (path '…', where \"dest = 'LAX' AND month BETWEEN 6 AND 8\")")
    print(query)
    spark.sql(query).show()

    heading("how a scan narrows down: table.explain(\"tailnum = 'N136DL'\")")
    print(table.explain("tailnum = 'N136DL'"))
    shop.write(warehouse)
    return answers


def next_steps(table: str, programs: str) -> str:
    """What can be typed after the demonstration."""
    return f"""The table is in {table}. To go on with it:

{programs}paimon-pyds count {table} --where "dest = 'ANC'"
{programs}paimon-pyds explain {table} --where "dest = 'ANC'" --html why.html
{programs}python -c "import paimon_pyds as pp; print(pp.Table.open('{table}').scan(limit=3).to_arrow().to_pylist())"
PYSPARK_PYTHON={programs}python {programs}pyspark
    spark.read.format("paimon").option("where", "dest = 'ANC'").load("{table}").show()"""


def main() -> None:
    """The command."""
    with tempfile.TemporaryDirectory(prefix="paimon-demo-") as made:
        scratch = Path(made)
        warehouse = Path(sys.argv[1]) if len(sys.argv) > 1 else scratch
        print("Starting Spark", flush=True)
        spark = session(scratch)
        try:
            run(spark, warehouse.resolve(), scratch)
        finally:
            spark.stop()
    if len(sys.argv) > 1:
        heading("going on")
        programs = os.path.relpath(Path(sys.executable).parent)
        print(next_steps(str(warehouse / "travel.db" / "flights"), f"{programs}{os.sep}"))


if __name__ == "__main__":
    main()
