"""The tables of a catalog in a connection of DuckDB, as views named DATABASE.TABLE."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.row_stream import library
from paimon_pyds.catalog.identifier import SYSTEM_DATABASE, parse_identifier, quoted_name
from paimon_pyds.errors import OptionError, PaimonError, UnsupportedError
from paimon_pyds.scan import Scan

if TYPE_CHECKING:
    import duckdb

    from paimon_pyds.base.row_stream import RowStream
    from paimon_pyds.catalog.catalog import Catalog

_OLDEST = (1, 5)
"""The first version whose relations hold their connections."""
STATES = ("snapshot", "tag", "timestamp")
"""What a state of a table is named by, as in ``t$snapshot_3``."""
MOST_FILES = 64
"""Files of a table up to which DuckDB may open all of their footers, rather than have manifests say which it needs."""
_PATTERN = re.compile(r"[*?\[\]{}\\]")
"""What DuckDB takes for a pattern of names of files."""


def connect(
    catalog: Catalog, tables: Iterable[str] | None, connection: Any, seen: Callable[[Any], None] | None = None
) -> duckdb.DuckDBPyConnection:
    """See `Catalog.duckdb`. ``seen``: called with each scan that a query runs; then all tables are read by scans."""
    from paimon_pyds.base.lazy_duckdb import dataset, knows_row_counts

    if connection is None:
        connection = new_enough().connect(config={"python_enable_replacements": False})
    names = [quoted_name(d, t) for d in catalog.databases() for t in catalog.tables(d)] if tables is None else tables
    names = [*names]
    spellings = _spellings(connection, names)
    for name in names:
        try:
            if len(spellings[_folded(_place(name))]) > 1:
                raise UnsupportedError(
                    "another table's name differs in case alone, and DuckDB takes both for one",
                    path=name,
                    hint="open one of them, in a connection of its own",
                )
            found = _rows(catalog, name)
            rows = dataset(found, seen)
        except PaimonError as error:
            if tables is not None:
                raise
            warnings.warn(f"{name} is left out: {error}", stacklevel=3)
            continue
        at = parse_identifier(name)
        database, table, hidden = map(quoted, (at.database, at.object_name, f"paimon:{at}"))
        connection.register(f"paimon:{at}", rows)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {database}")
        source = hidden
        if isinstance(found, Scan) and seen is None and knows_row_counts():
            source = _plain(connection, found, hidden) or hidden
        connection.execute(f"CREATE OR REPLACE VIEW {database}.{table} AS SELECT * FROM {source}")
    return connection  # type: ignore[no-any-return]


def _spellings(connection: Any, names: Iterable[str]) -> dict[tuple[bytes, ...], set[tuple[str, ...]]]:
    """The names of tables, and of the views that are there, by what DuckDB takes for one name."""
    views = connection.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    found: dict[tuple[bytes, ...], set[tuple[str, ...]]] = {}
    for place in (*map(_place, names), *views):
        found.setdefault(_folded(place), set()).add(place)
    return found


def _place(name: str) -> tuple[str, ...]:
    """Where the view of a table is. Raises InvalidNameError: it is no name."""
    at = parse_identifier(name)
    return at.database, at.object_name


def _folded(place: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode().lower() for name in place)  # of ASCII letters only, as DuckDB does


def new_enough() -> Any:
    """DuckDB's library. Raises UnsupportedError: it is not installed, or too old."""
    found = library("duckdb")
    if tuple(map(int, found.__version__.split(".")[:2])) < _OLDEST:
        raise UnsupportedError(
            f"SQL over a catalog does not work with DuckDB {found.__version__}", hint="pip install 'duckdb>=1.5'"
        )
    return found


def _rows(catalog: Catalog, name: str) -> RowStream:
    """A table, one of its states (``t$snapshot_3``, ``t$tag_a``, ``t$timestamp_2026-01-31 12:30:00``), or a system
    table. Errors as `Table.scan` and `CatalogSystem.scan`."""
    at = parse_identifier(name)
    if at.system is None and at.database != SYSTEM_DATABASE:
        return catalog.table(name).scan()
    word, _, value = (at.system or "").partition("_")
    if word not in STATES or not value:
        return catalog.system.scan(name)
    table = catalog.table(name.removesuffix(f"${at.system}"))
    if word != "snapshot":
        return table.scan(tag=value) if word == "tag" else table.scan(timestamp=value)
    if not value.isdecimal():
        raise OptionError(
            f"a snapshot has a number, not {value!r:.100}", hint=f"write {at.table}$tag_{value} for a tag"
        )
    return table.scan(snapshot=int(value))


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


def quoted(name: str) -> str:
    """A name in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'
