"""Apache Paimon tables for Spark and for Arrow, without a jar.

    import paimon_pyds as pp
    table = pp.Table.open("/warehouse/shop.db/orders")
    table.scan("status = 'PENDING'").to_arrow()

Everything is imported on first use: `import paimon_pyds` itself costs a millisecond.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds import cdc as cdc
    from paimon_pyds import errors as errors
    from paimon_pyds import spark as spark
    from paimon_pyds.base.progress import ProgressEvent as ProgressEvent
    from paimon_pyds.base.progress import show_progress as show_progress
    from paimon_pyds.base.variant.encode import variant_array as variant_array
    from paimon_pyds.base.variant.python import variant_values as variant_values
    from paimon_pyds.catalog import Catalog as Catalog
    from paimon_pyds.engine.rowlevel.clauses import Delete as Delete
    from paimon_pyds.engine.rowlevel.clauses import Insert as Insert
    from paimon_pyds.engine.rowlevel.clauses import Update as Update
    from paimon_pyds.ops.migration.migrate import migrate as migrate
    from paimon_pyds.spark.source import register as register
    from paimon_pyds.table import Table as Table

__version__ = "0.1.0"
_WHERE = {
    "Catalog": "paimon_pyds.catalog",
    "Delete": "paimon_pyds.engine.rowlevel.clauses",
    "Insert": "paimon_pyds.engine.rowlevel.clauses",
    "ProgressEvent": "paimon_pyds.base.progress",
    "Table": "paimon_pyds.table",
    "Update": "paimon_pyds.engine.rowlevel.clauses",
    "migrate": "paimon_pyds.ops.migration.migrate",
    "register": "paimon_pyds.spark",
    "show_progress": "paimon_pyds.base.progress",
    "variant_array": "paimon_pyds.base.variant.encode",
    "variant_values": "paimon_pyds.base.variant.python",
}
__all__ = sorted([*_WHERE, "__version__", "errors"])


if not TYPE_CHECKING:  # checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            from paimon_pyds.base.cache import collection_paused

            with collection_paused():  # modules stay: searches for cycles among them find nothing
                globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)  # only once
            return globals()[name]
        if name in ("cdc", "errors", "spark"):
            return importlib.import_module(f"paimon_pyds.{name}")
        raise AttributeError(f"module 'paimon_pyds' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted([*__all__, "cdc", "spark"])
