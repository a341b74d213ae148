"""Python starts with this where `tests/conftest.py` put its folder on the path: the daemons that fork Spark's Python
workers load other projects' libraries once. A worker ends with each error, and the next one would load them again. What
this project has is loaded by each worker, as everywhere.
"""

import contextlib
import importlib
import sys

if "pyspark.daemon" in sys.orig_argv:
    for _name in ("numpy", "pandas", "pyarrow.parquet", "pyspark.worker", "pyspark.sql.datasource_internal"):
        with contextlib.suppress(ImportError):
            importlib.import_module(_name)
