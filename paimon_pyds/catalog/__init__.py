"""Where tables are found: catalogs of databases and tables.

In: a warehouse or a server's address, and names of tables. Out: tables, databases, views, functions' names. Users
hold `Catalog`, which is the same for all `kinds`: `filesystem`, `jdbc` (with its lock), `hive` (with the metastore's)
or `rest`, whose requests are in `rest_client` and `base/json_http`. Other rooms use `catalog` and `config`.
"""

from __future__ import annotations

from paimon_pyds.catalog.catalog import Catalog
from paimon_pyds.catalog.identifier import Identifier, parse_identifier

__all__ = ["Catalog", "Identifier", "parse_identifier"]
