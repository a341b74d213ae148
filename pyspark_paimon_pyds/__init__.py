"""Lets Spark find the data source ``paimon_pyds`` without registration: Spark imports every module named ``pyspark_…``.

A module of that kind that raises would break every Python data source of the session, so this one never does.
"""

import logging

try:
    from paimon_pyds.spark.source import PaimonPydsDataSource as DefaultSource
except Exception:
    logging.getLogger(__name__).warning(
        "paimon_pyds can't be imported by Spark's Python worker: the data source 'paimon_pyds' is not there. "
        "PYSPARK_PYTHON must be the interpreter that paimon-pyds is installed for.",
        exc_info=True,
    )
else:
    __all__ = ["DefaultSource"]
