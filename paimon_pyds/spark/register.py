"""Registering the data source with a session that is running already.

Spark looks for data sources once, when the first one is used: a package installed later is found by `register` only.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

__all__ = ["register"]

_log = logging.getLogger("paimon_pyds.spark")


def register(spark: Any, pushdown: bool = False) -> None:
    """Make the formats ``paimon`` and ``paimon_pyds`` known to a session.

    Where Paimon's jar holds the name ``paimon``, only the second is.

    Args:
        spark: a session, classic or Connect.
        pushdown: let Spark hand its filters to the source, without the option ``pushdown`` on each read. Spark before
            version 5 mixes the filters of several queries on one DataFrame up and gives silently wrong rows: a warning
            says so. The option ``filter`` is safe everywhere.
    """
    from paimon_pyds.spark import compat, source

    first, second = source.PaimonDataSource, source.PaimonPydsDataSource
    if pushdown:
        if compat.SUPPORTS_PUSHDOWN:
            first, second = source.PaimonPushdownDataSource, source.PaimonPydsPushdownDataSource
            _switch_on(spark)
        else:
            warnings.warn("this Spark hands no filters to Python data sources (4.1 does); use option('filter', …)")
    known = _name_is_taken(spark, second)
    if _name_is_taken(spark, first) and not known:
        _log.warning("the format 'paimon' belongs to a jar of this session; use format('paimon_pyds')")


def _name_is_taken(spark: Any, source: Any) -> bool:
    """Register a source; True when its name is taken: by a jar, or (Spark 4.0) by this package, found on the path."""
    try:
        spark.dataSource.register(source)
    except Exception as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        return True
    return False


def _switch_on(spark: Any) -> None:
    """The setting without which Spark refuses readers that take filters."""
    from paimon_pyds.spark import compat
    from paimon_pyds.spark.reader import LEAK_WARNING

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    if compat.pushdown_leaks():
        warnings.warn(LEAK_WARNING, RuntimeWarning, stacklevel=3)
        _log.warning(LEAK_WARNING)
