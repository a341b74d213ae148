#!/usr/bin/env bash
# One would guess: an exception that DataSourceReader.partitions() of a Python data source raises fails the query, as
#   exceptions of schema(), reader() and read() do, whatever its class is.
# What happens: NotImplementedError and its subclasses are dropped, without a line in any log. Spark goes on with a single
#   partition that partitions() never made, and calls read() with it. A ValueError at the same place fails the query.
# Why it matters: a source that refuses a feature while it plans ("this table's files can't be read yet"), by an error that
#   derives from NotImplementedError, gives no rows, or others, where the user should have seen why.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.0.1 pyarrow==21.0.0 pandas==2.3.3
cat > "$home/source.py" <<'PY'
import os
import sys

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

os.environ["PYSPARK_PYTHON"] = sys.executable


class Source(DataSource):
    @classmethod
    def name(cls):
        return "refusing"

    def schema(self):
        return "n int"

    def reader(self, schema):
        return Reader(self.options["error"])


class Reader(DataSourceReader):
    def __init__(self, error):
        self.error = error

    def partitions(self):
        if self.error == "none":
            return [InputPartition([1, 2, 3])]
        kinds = {"ValueError": ValueError, "NotImplementedError": NotImplementedError}
        raise kinds[self.error]("files of version 2 can't be read yet")

    def read(self, partition):
        for number in getattr(partition, "value", None) or ():
            yield (number,)


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Source)
found = {}
for error in ("none", "ValueError", "NotImplementedError"):
    try:
        found[error] = spark.read.format("refusing").option("error", error).load().count()
    except Exception as failure:
        found[error] = "said" if "can't be read yet" in str(failure) else str(failure)[:200]
print(f"pyspark {pyspark.__version__}: {found}")
spark.stop()
raise SystemExit(found != {"none": 3, "ValueError": "said", "NotImplementedError": 0})
PY
"$home/venv/bin/python" "$home/source.py" 2> /dev/null
