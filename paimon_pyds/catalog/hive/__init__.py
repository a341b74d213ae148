"""Catalogs in a Hive metastore: `backend` for databases and tables, `publisher` for commits, under the `lock`.

In: the options of a catalog, which are `settings`. Out: tables, whose entries in the metastore `table` writes
and reads. `client` sends requests to a `metastore`.
"""

from __future__ import annotations

from paimon_pyds.catalog.hive.backend import HiveBackend

__all__ = ["HiveBackend"]
