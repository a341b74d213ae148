"""Paimon tables in Spark: the data source, and functions that take a DataFrame or a session.

The only room that imports pyspark. Everything is imported on first use: Spark's planning processes pass through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.spark.frames import write as write
    from paimon_pyds.spark.maintenance import compact as compact
    from paimon_pyds.spark.maintenance import rewrite_file_index as rewrite_file_index
    from paimon_pyds.spark.register import register as register
    from paimon_pyds.spark.row_functions import delete as delete
    from paimon_pyds.spark.row_functions import merge as merge
    from paimon_pyds.spark.row_functions import update as update
    from paimon_pyds.spark.source import PaimonDataSource as PaimonDataSource
    from paimon_pyds.spark.source import PaimonPydsDataSource as PaimonPydsDataSource

__all__ = [
    "PaimonDataSource",
    "PaimonPydsDataSource",
    "compact",
    "delete",
    "merge",
    "register",
    "rewrite_file_index",
    "update",
    "write",
]

_WHERE = {
    "PaimonDataSource": "source",
    "PaimonPydsDataSource": "source",
    "compact": "maintenance",
    "delete": "row_functions",
    "merge": "row_functions",
    "register": "register",
    "rewrite_file_index": "maintenance",
    "update": "row_functions",
    "write": "frames",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'paimon_pyds.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"paimon_pyds.spark.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
