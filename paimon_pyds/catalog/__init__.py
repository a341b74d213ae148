"""Where tables are found: a warehouse directory of databases and tables."""

from __future__ import annotations

from paimon_pyds.catalog.filesystem import Catalog, Identifier, parse_identifier

__all__ = ["Catalog", "Identifier", "parse_identifier"]
