"""Reads tables by Iceberg's Spark runtime: ``python iceberg_spark_worker.py JAR FILE``, and on each line a directory.

Rows go through the file; an answer is a line, ``ok`` or what is wrong. The runtime is of an older Spark than that of
the other tests: nothing of the project is imported.
"""

import sys

import pyarrow as pa
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1])
for key, value in {"ui.enabled": "false", "sql.session.timeZone": "UTC", "sql.shuffle.partitions": "1"}.items():
    builder = builder.config(f"spark.{key}", value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for line in sys.stdin:
    try:
        rows = spark.read.format("iceberg").load(line.rstrip("\n")).toArrow()
        with pa.OSFile(sys.argv[2], "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        print("ok", flush=True)
    except Exception as error:  # noqa: BLE001 - the test shows it
        print(str(error).replace("\n", " ")[:2000], flush=True)
