"""The Spark that the benchmarks run: on two cores, quiet, and with this package's data source."""

from __future__ import annotations

import os
import sys
from typing import Any


def spark_session() -> Any:
    """A classic session; the caller stops it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    import paimon_pyds

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "3g").config("spark.sql.session.timeZone", "UTC")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    paimon_pyds.register(spark)
    return spark
