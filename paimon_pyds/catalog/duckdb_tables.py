"""The tables of a catalog in a connection of DuckDB, as views named DATABASE.TABLE."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.frames import library
from paimon_pyds.catalog.identifier import parse_identifier, quoted_name
from paimon_pyds.errors import PaimonError

if TYPE_CHECKING:
    import duckdb

    from paimon_pyds.catalog.catalog import Catalog
    from paimon_pyds.scan import Scan

MOST_FILES = 64
"""Files of a table up to which DuckDB may open all of their footers, rather than have manifests say which it needs."""
_PATTERN = re.compile(r"[*?\[\]{}\\]")
"""What DuckDB takes for a pattern of names of files."""


def connect(catalog: Catalog, tables: Iterable[str] | None, connection: Any) -> duckdb.DuckDBPyConnection:
    """See `Catalog.duckdb`."""
    from paimon_pyds.base.lazy_duckdb import dataset, knows_row_counts

    if connection is None:
        connection = library("duckdb").connect(config={"python_enable_replacements": False})
    names = [quoted_name(d, t) for d in catalog.databases() for t in catalog.tables(d)] if tables is None else tables
    for name in names:
        try:
            scan = catalog.table(name).scan()
            rows = dataset(scan)
        except PaimonError as error:
            if tables is not None:
                raise
            warnings.warn(f"{name} is left out: {error}", stacklevel=3)
            continue
        at = parse_identifier(name)
        database, table, hidden = map(_quoted, (at.database, at.object_name, f"paimon:{at}"))
        connection.register(f"paimon:{at}", rows)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {database}")
        source = (_plain(connection, scan, hidden) if knows_row_counts() else None) or hidden
        connection.execute(f"CREATE OR REPLACE VIEW {database}.{table} AS SELECT * FROM {source}")
    return connection  # type: ignore[no-any-return]


def _plain(connection: Any, scan: Scan, hidden: str) -> str | None:
    """The rows of a scan as DuckDB reads them from files itself, in which case it decodes them faster and looks into
    them for joins; None where only the scan has the same rows, or answers by indexes and statistics of many files."""
    try:
        files = scan.plain_files(MOST_FILES)
        if not files or any(_PATTERN.search(path) for path in files):
            return None
        wanted = _columns(connection, hidden)
        same = all(_columns(connection, _parquet([path])) == wanted for path in files)
    except (PaimonError, library("duckdb").Error):  # queries raise it again; and DuckDB may be set to open no files
        return None
    return _parquet(files) if same else None


def _parquet(paths: Sequence[str]) -> str:
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def _columns(connection: Any, source: str) -> list[tuple[str, str]]:
    """The names and types of columns."""
    return [row[:2] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]


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
