"""Where tables are found: catalogs of databases and tables."""

from __future__ import annotations

from paimon_pyds.catalog.catalog import Catalog
from paimon_pyds.catalog.identifier import Identifier, parse_identifier

__all__ = ["Catalog", "Identifier", "parse_identifier"]
