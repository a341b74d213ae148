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

        if name not in _WHERE:
            return importlib.import_module(f"paimon_pyds.spark.{name}")
        return getattr(importlib.import_module(f"paimon_pyds.spark.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
