"""The system tables of a whole warehouse, which Java Paimon has in the database ``sys``.

As in Java, what only a catalog with a server knows of a table (its owner, its size) is NULL in others.
(Source: Paimon documentation, concepts/system-tables, "Global System Table".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from paimon_pyds.base.secrets import redact, shown
from paimon_pyds.base.text import whole_number
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.base.zones import local_instant_ms
from paimon_pyds.errors import NotFoundError, OptionError, suggest
from paimon_pyds.metadata.partition import partition_texts
from paimon_pyds.metadata.paths import DEFAULT_PARTITION_NAME
from paimon_pyds.ops.system.scan import Request, SystemScan, batches_of
from paimon_pyds.ops.system.tables import summed_files

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.metadata.store import TableStore

_Rows: TypeAlias = Iterator[tuple[Any, ...]]
_TABLES = parse_columns("""
    database_name STRING, table_name STRING, table_type STRING, partitioned BOOLEAN, primary_key BOOLEAN, owner STRING,
    created_at BIGINT, created_by STRING, updated_at BIGINT, updated_by STRING, record_count BIGINT,
    file_size_in_bytes BIGINT, file_count BIGINT, last_file_creation_time BIGINT""")
_AUDITED = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy")
_PARTITIONS = parse_columns("""
    database_name STRING, table_name STRING, partition_name STRING, record_count BIGINT, file_size_in_bytes BIGINT,
    file_count BIGINT, last_file_creation_time BIGINT, done BOOLEAN""")
_TABLE_OPTIONS = parse_columns("database_name STRING, table_name STRING, key STRING, value STRING")
_CATALOG_OPTIONS = parse_columns("key STRING NOT NULL, value STRING NOT NULL")


@dataclass(frozen=True)
class Warehouse:
    """A catalog, as these tables see it.

    Attributes:
        databases: gives the names of databases.
        tables: of a database the names of its tables.
        store: of a database and a table its metadata.
        options: what the catalog was opened with.
    """

    databases: Callable[[], list[str]]
    tables: Callable[[str], list[str]]
    store: Callable[[str, str], TableStore]
    options: Mapping[str, str]


def warehouse_scan(warehouse: Warehouse, name: str) -> SystemScan:
    """A query on a system table of a warehouse: ``tables``, ``partitions``, ``all_table_options``, ``catalog_options``.
    Raises OptionError: another name, with similar ones."""
    wanted = name.lower()
    if wanted not in WAREHOUSE_TABLES:
        hint = suggest(wanted, WAREHOUSE_TABLES, "those of a warehouse")
        raise OptionError(
            f"no system table of a warehouse is named {name!r:.60}", hint=f"{hint}; db.t$files is of a table"
        )
    fields, rows = WAREHOUSE_TABLES[wanted]
    return SystemScan(fields, partial(_read, warehouse, fields, rows))


def _read(
    warehouse: Warehouse, fields: Sequence[DataField], rows: Callable[[Warehouse, Request], _Rows], request: Request
) -> Iterator[pa.RecordBatch]:
    return batches_of(fields, request, rows(warehouse, request))


def _stores(warehouse: Warehouse, request: Request) -> Iterator[tuple[str, str, TableStore]]:
    """The tables that the filter may keep; one that is dropped meanwhile is passed over."""
    for database in request.kept(_TABLES[0], warehouse.databases()):
        try:
            tables = warehouse.tables(database)
        except NotFoundError:
            continue
        for table in request.kept(_TABLES[1], tables):
            try:
                store = warehouse.store(database, table)
                store.latest_schema()
            except NotFoundError:
                continue
            yield database, table, store


def _tables(warehouse: Warehouse, request: Request) -> _Rows:
    for database, table, store in _stores(warehouse, request):
        schema = store.latest_schema()
        owner, created, creator, updated, updater = map(schema.options.get, _AUDITED)
        times = [None if t is None else whole_number(t) for t in (created, updated)]
        kind, flags = schema.options.get("type", "table"), (bool(schema.partition_keys), bool(schema.primary_keys))
        yield database, table, kind, *flags, owner, times[0], creator, times[1], updater, *[None] * 4


def _partitions(warehouse: Warehouse, request: Request) -> _Rows:
    for database, table, store in _stores(warehouse, request):
        schema = store.latest_schema()
        if schema.partition_keys:
            for row in summed_files(store, store.latest_snapshot(), by_bucket=False):
                texts = partition_texts(schema.partition_fields, row["partition"], schema.options)
                default = schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
                name = "/".join(f"{key}={default if value is None else value}" for key, value in texts.items())
                sums = [row[c] for c in ("row_count_sum", "file_size_sum", "row_count_count")]
                last = row["creation_time_max"]
                yield database, table, name, *sums, None if last is None else local_instant_ms(last), False


def _all_table_options(warehouse: Warehouse, request: Request) -> _Rows:
    for database, table, store in _stores(warehouse, request):
        options = {**store.latest_schema().options, "path": redact(store.root)}
        yield from ((database, table, key, shown(key, value)) for key, value in options.items())


def _catalog_options(warehouse: Warehouse, request: Request) -> _Rows:
    return ((key, redact(shown(key, value))) for key, value in warehouse.options.items())


WAREHOUSE_TABLES: Final[Mapping[str, tuple[tuple[DataField, ...], Callable[[Warehouse, Request], _Rows]]]] = {
    "tables": (_TABLES, _tables),
    "partitions": (_PARTITIONS, _partitions),
    "all_table_options": (_TABLE_OPTIONS, _all_table_options),
    "catalog_options": (_CATALOG_OPTIONS, _catalog_options),
}
"""The columns of each system table of a warehouse, and what makes its rows."""
