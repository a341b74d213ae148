"""Python starts with this where `tests/conftest.py` put its folder on the path: the daemons that fork Spark's Python
workers load once what each worker needs. A worker ends with each error and each planning of a query, and the next one
would spend half a second on it.
"""

import contextlib
import importlib
import sys

if "pyspark.daemon" in sys.orig_argv:
    for _name in (
        "numpy",
        "pandas",
        "pyarrow.parquet",
        "pyspark.worker",
        "pyspark.sql.datasource_internal",
        "paimon_pyds.spark.source",
        "paimon_pyds.spark.reader",
        "paimon_pyds.spark.row_writer",
        "paimon_pyds.spark.executor",
        "paimon_pyds.spark.system",
        "paimon_pyds.table",
        "paimon_pyds.engine.append",
        "paimon_pyds.engine.read.split_read",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(_name)
