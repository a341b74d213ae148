"""The tables of a catalog in a connection of DuckDB, as views named DATABASE.TABLE."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.frames import library
from paimon_pyds.catalog.identifier import parse_identifier, quoted_name
from paimon_pyds.errors import PaimonError

if TYPE_CHECKING:
    import duckdb

    from paimon_pyds.catalog.catalog import Catalog


def connect(catalog: Catalog, tables: Iterable[str] | None, connection: Any) -> duckdb.DuckDBPyConnection:
    """See `Catalog.duckdb`."""
    from paimon_pyds.base.lazy_duckdb import dataset

    if connection is None:
        connection = library("duckdb").connect(config={"python_enable_replacements": False})
    names = [quoted_name(d, t) for d in catalog.databases() for t in catalog.tables(d)] if tables is None else tables
    for name in names:
        try:
            rows = dataset(catalog.table(name).scan())
        except PaimonError as error:
            if tables is not None:
                raise
            warnings.warn(f"{name} is left out: {error}", stacklevel=3)
            continue
        at = parse_identifier(name)
        database, table, hidden = map(_quoted, (at.database, at.object_name, f"paimon:{at}"))
        connection.register(f"paimon:{at}", rows)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {database}")
        connection.execute(f"CREATE OR REPLACE VIEW {database}.{table} AS SELECT * FROM {hidden}")
    return connection  # type: ignore[no-any-return]


def query(catalog: Catalog, sql: str) -> duckdb.DuckDBPyRelation:
    """The result of a query over the tables that it names; all of the catalog where DuckDB does not name them all.

    Raises what DuckDB raises."""
    library_ = library("duckdb")
    try:
        named = library_.connect().get_table_names(sql, qualified=True)
        spelled = [name.replace('"', "`") for name in sorted(named)]
        tables = [name for name in spelled if _is_name(name) and catalog.exists(name)]
        relation: duckdb.DuckDBPyRelation = connect(catalog, tables, None).sql(sql)
    except (library_.BinderException, library_.CatalogException):  # it looks for joined tables before it names them
        relation = connect(catalog, None, None).sql(sql)
    return relation


def _is_name(text: str) -> bool:
    """Whether it may be a table of the catalog: files are named in queries, too."""
    try:
        return parse_identifier(text).system is None
    except PaimonError:
        return False


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
