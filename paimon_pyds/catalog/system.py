"""System tables of a catalog, and of its tables by their names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.row_stream import public_names
from paimon_pyds.catalog.identifier import DEFAULT_DATABASE, SYSTEM_DATABASE, Identifier, parse_identifier
from paimon_pyds.errors import OptionError
from paimon_pyds.sql.predicate.argument import one_condition
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from paimon_pyds.base.row_stream import RowStream
    from paimon_pyds.catalog.catalog import Catalog
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.typing import Filter, SystemArguments


class CatalogSystem:
    """System tables of a catalog: ``catalog.system``."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __dir__(self) -> list[str]:
        return public_names(self)

    def __repr__(self) -> str:
        return f"<system of {self._catalog!r}: read, scan>"

    def read(self, name: str, where: Filter = None, **query: Unpack[SystemArguments]) -> pa.Table:
        """A system table in memory.

        Args:
            name: as for `scan`.
            where: a condition on its columns.
            **query: as for `scan`.

        Returns:
            The rows.

        Raises:
            OptionError: no system table, with similar names.
            DatabaseNotFoundError, TableNotFoundError, BranchNotFoundError: with similar names.
        """
        return self.scan(name, where, **query).to_arrow()

    def scan(self, name: str, where: Filter = None, **query: Unpack[SystemArguments]) -> RowStream:
        """A query on a system table of a table (``db.t$files``, ``db.t$branch_b$files``) or of the whole catalog.

        Args:
            name: for the catalog ``sys.tables``, ``sys.partitions``, ``sys.all_table_options`` or
                ``sys.catalog_options``; ``sys.`` can be left out.
            where: a condition on the columns of the system table; ``filter`` is another name for it.
            **query: as for ``table.system.scan``; the tables of the catalog take no ``options``.

        Returns:
            The query; metadata is read when rows are taken.

        Raises:
            OptionError: no system table, with similar names.
            DatabaseNotFoundError, TableNotFoundError, BranchNotFoundError: with similar names.
        """
        identifier = parse_identifier(name, DEFAULT_DATABASE if "$" in str(name) else SYSTEM_DATABASE)
        system: Any = identifier.system
        if system is not None:
            table = Table(self._catalog._store(replace(identifier, system=None)))
            return table.system.scan(system, where, **query)
        if identifier.database != SYSTEM_DATABASE:
            raise OptionError(f"{identifier} is no system table", hint=f"write {identifier}$files, or sys.tables")
        if query.pop("options", None):
            raise OptionError("a system table of the whole catalog takes no options of a scan")
        from paimon_pyds.ops.system.warehouse import Warehouse, warehouse_scan

        def store(database: str, table: str) -> TableStore:
            return self._catalog._backend.store(Identifier(database, table))

        warehouse = Warehouse(self._catalog.databases, self._catalog.tables, store, self._catalog._options)
        where = one_condition(where, query.get("filter"))
        return warehouse_scan(warehouse, identifier.table).narrowed(where, query.get("columns"), query.get("limit"))
