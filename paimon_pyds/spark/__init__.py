"""Paimon tables in Spark: the data source, and functions that take a DataFrame or a session.

In: options, filters and batches of Spark. Out: its partitions, batches and commit messages. `source` is the data
source, `reader` and `writer` its two sides, `functions` what users call; `compat` holds all differences of Spark's
versions. The only room that imports pyspark, and no other room uses it. Everything is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.spark import index as index
    from paimon_pyds.spark import maintenance as maintenance
    from paimon_pyds.spark.distribution import bucket as bucket
    from paimon_pyds.spark.functions import compact as compact
    from paimon_pyds.spark.functions import delete as delete
    from paimon_pyds.spark.functions import merge as merge
    from paimon_pyds.spark.functions import update as update
    from paimon_pyds.spark.functions import write as write
    from paimon_pyds.spark.micro_batches import foreach_batch as foreach_batch
    from paimon_pyds.spark.source import PaimonDataSource as PaimonDataSource
    from paimon_pyds.spark.source import PaimonPydsDataSource as PaimonPydsDataSource
    from paimon_pyds.spark.source import register as register

_WHERE = {
    "bucket": "distribution",
    "foreach_batch": "micro_batches",
    **dict.fromkeys(("compact", "delete", "merge", "update", "write"), "functions"),
    **dict.fromkeys(("PaimonDataSource", "PaimonPydsDataSource", "register"), "source"),
}
__all__ = sorted([*_WHERE, "index", "maintenance"])


if not TYPE_CHECKING:  # checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'paimon_pyds.spark' has no attribute {name!r}")
        import importlib

        try:
            found = importlib.import_module(f"paimon_pyds.spark.{_WHERE.get(name, name)}")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            raise ModuleNotFoundError(_needs_spark(), name=error.name) from None
        return getattr(found, name) if name in _WHERE else found


def _needs_spark() -> str:
    try:
        import pyspark
    except ModuleNotFoundError:
        found = "pyspark is not installed"
    else:
        found = f"this is pyspark {pyspark.__version__}"
    return f"paimon_pyds.spark needs Spark 4.0 or later, and {found}: pip install 'paimon-pyds[spark]'"


def __dir__() -> list[str]:
    return __all__
