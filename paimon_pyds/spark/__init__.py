"""Paimon tables in Spark: the data source, and functions that take a DataFrame or a session.

The only room that imports pyspark. Everything is imported on first use: Spark's planning processes pass through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.spark.distribution import bucket as bucket
    from paimon_pyds.spark.functions import compact as compact
    from paimon_pyds.spark.functions import delete as delete
    from paimon_pyds.spark.functions import merge as merge
    from paimon_pyds.spark.functions import rescale as rescale
    from paimon_pyds.spark.functions import rewrite_file_index as rewrite_file_index
    from paimon_pyds.spark.functions import update as update
    from paimon_pyds.spark.functions import write as write
    from paimon_pyds.spark.maintenance import remove_orphan_files as remove_orphan_files
    from paimon_pyds.spark.source import PaimonDataSource as PaimonDataSource
    from paimon_pyds.spark.source import PaimonPydsDataSource as PaimonPydsDataSource
    from paimon_pyds.spark.source import register as register

__all__ = [
    "PaimonDataSource",
    "PaimonPydsDataSource",
    "bucket",
    "compact",
    "delete",
    "merge",
    "register",
    "remove_orphan_files",
    "rescale",
    "rewrite_file_index",
    "update",
    "write",
]

_OF_SOURCE = ("PaimonDataSource", "PaimonPydsDataSource", "register")
_ELSEWHERE = {"bucket": "distribution", "remove_orphan_files": "maintenance"}


if not TYPE_CHECKING:  # checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'paimon_pyds.spark' has no attribute {name!r}")
        import importlib

        module = "source" if name in _OF_SOURCE else _ELSEWHERE.get(name, "functions")
        return getattr(importlib.import_module(f"paimon_pyds.spark.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
