"""Catalog: what users hold of a warehouse, whichever kind of catalog names its tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import path_like
from paimon_pyds.base.row_stream import public_names
from paimon_pyds.base.secrets import RedactedDict, counted, redact
from paimon_pyds.catalog.filesystem import FileSystemBackend
from paimon_pyds.catalog.identifier import (
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    Identifier,
    checked_object_name,
    parse_identifier,
)
from paimon_pyds.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    DatabaseNotFoundError,
    NotFoundError,
    OptionError,
    TableNotFoundError,
    UnsupportedError,
    suggest,
)
from paimon_pyds.ops.ddl.create import TakeBack, unmade_on_failure
from paimon_pyds.table import Table, table_definition

if TYPE_CHECKING:
    from typing import Unpack

    import duckdb
    import pyarrow as pa
    from duckdb import DuckDBPyRelation

    from paimon_pyds.base.types import DataField
    from paimon_pyds.catalog.filesystem import CatalogBackend
    from paimon_pyds.catalog.system import CatalogSystem
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.ops.ddl.alter import SchemaChanges
    from paimon_pyds.typing import OptionValues, Rows


class Catalog:
    """Databases and their tables, in a warehouse directory; `open` opens other kinds of catalogs.

    Tables are named ``db.t`` (or ``t``, in ``default``); a branch is ``db.t$branch_b``.

    Args:
        warehouse: the directory, or its address in an object store.
        storage_options: credentials and endpoints of the storage; they are not shown anywhere.
    """

    def __init__(self, warehouse: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> None:
        if isinstance(warehouse, Mapping):
            raise ArgumentTypeError("Catalog(warehouse) takes a path; Catalog.open takes options")
        path_like("warehouse", warehouse)
        self._backend: CatalogBackend = FileSystemBackend(warehouse, dict(storage_options or {}))
        self._options = RedactedDict({"warehouse": self._backend.warehouse, **(storage_options or {})})

    @classmethod
    def open(cls, options: str | os.PathLike[str] | Mapping[str, str]) -> Catalog:
        """Open a catalog of any kind.

        Args:
            options: a warehouse directory, or the options of a catalog by the names that Java Paimon gives them:
                ``metastore`` (``filesystem``, which is the default, ``jdbc``, ``hive`` or ``rest``), ``warehouse``,
                ``uri``; ``catalog-key`` and ``lock.enabled`` of JDBC; ``hive-conf-dir``, ``lock.enabled`` and others of
                Hive; ``token``, ``token.provider``, ``dlf.…`` and ``header.…`` of REST. Others are options of the
                storage.

        Returns:
            The catalog.

        Raises:
            OptionError: an option that is missing or that nothing knows.
            UnsupportedError: a kind of catalog that is not supported.
            PaimonError: the catalog refuses or can't be reached.
        """
        if not isinstance(options, Mapping):
            return cls(options)
        from paimon_pyds.catalog.kinds import backend_of, checked_options

        kind, given = checked_options(options)
        if kind == "filesystem":
            return cls(given.pop("warehouse"), given)
        catalog = cls.__new__(cls)
        catalog._backend = backend_of(kind, given)
        catalog._options = RedactedDict({"metastore": kind, **given})
        return catalog

    @classmethod
    def configured(cls, name: str, more: Mapping[str, str] | None = None) -> Catalog:
        """Open the catalog of that name in the config file: see `paimon_pyds.catalog.config`.

        Args:
            name: such as ``prod`` of ``[catalogs.prod]``.
            more: options that take precedence.

        Returns:
            The catalog.

        Raises:
            OptionError: there is no such catalog; and what `open` raises.
        """
        from paimon_pyds.catalog.config import catalog_options

        return cls.open({**catalog_options(name), **(more or {})})

    @property
    def warehouse(self) -> str:
        """Where the warehouse is, or what it is called."""
        return self._backend.warehouse

    def __dir__(self) -> list[str]:
        return public_names(self, ("missing_hint",))

    def __repr__(self) -> str:
        return f"Catalog({redact(self.warehouse)!r})"

    # ---------------------------------------------------------------------------------------- databases

    def databases(self) -> list[str]:
        """The names of all databases, by name. Warns where the warehouse does not exist."""
        return self._databases()

    def _databases(self) -> list[str]:
        found = self._backend.databases()
        if set(found) <= {DEFAULT_DATABASE} and (hint := self.missing_hint()):
            warnings.warn(f"no database is at {redact(self.warehouse)}: {hint}", stacklevel=3)
        return found

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Make a database.

        Args:
            name: of the database.
            ignore_if_exists: do nothing where there is one of this name.

        Raises:
            AlreadyExistsError: it is there.
            OptionError: a name that can't be one.
        """
        if checked_object_name(name, "database") == SYSTEM_DATABASE:
            raise OptionError(f"the name {name} is reserved by Paimon: choose another")
        try:
            self._backend.create_database(name)
        except AlreadyExistsError:
            if not ignore_if_exists:
                raise

    def drop_database(self, name: str, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Remove a database.

        Args:
            name: of the database.
            cascade: remove its tables and views, too.
            ignore_if_not_exists: do nothing where there is no such database.

        Raises:
            DatabaseNotFoundError: it does not exist.
            OptionError: it has tables or views and ``cascade`` is not given, or it is ``default`` of a warehouse
                directory.
        """
        if not self._backend.has_database(checked_object_name(name, "database")):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        tables, views = ([], []) if cascade else (self._backend.tables(name), self._backend.views(name))
        if tables or views:
            found = {"table": len(tables), "view": len(views)}
            there = " and ".join(counted(number, what) for what, number in found.items() if number)
            raise OptionError(f"database {name} is not empty: it has {there}", hint="cascade=True drops them too")
        self._backend.drop_database(name)

    def tables(self, database: str | None = None) -> list[str]:
        """The names of the tables of a database, by name.

        Without a name it is ``default``; warns where that has no table, and other databases do or the warehouse does
        not exist.

        Args:
            database: its name; ``default`` when None.

        Returns:
            Their names, without the database.

        Raises:
            DatabaseNotFoundError: no such database.
        """
        named, database = database is not None, database or DEFAULT_DATABASE
        if not self._backend.has_database(checked_object_name(database, "database")):
            raise self._no_database(database)
        found = self._backend.tables(database)
        if not found and not named:
            others = [name for name in self._databases() if name != database]
            if others:
                text = f"the database {database} has no table: name another one, such as tables({others[0]!r})"
                warnings.warn(text, stacklevel=2)
        return found

    def views(self, database: str | None = None) -> list[str]:
        """The names of the views of a database, by name; Java Paimon 2 has some in JDBC catalogs.

        A table can't have the name of a view, and a view can't be read here.

        Args:
            database: its name; ``default`` when None.

        Returns:
            Their names, without the database.

        Raises:
            DatabaseNotFoundError: no such database.
        """
        database = database or DEFAULT_DATABASE
        if not self._backend.has_database(checked_object_name(database, "database")):
            raise self._no_database(database)
        return self._backend.views(database)

    def missing_hint(self) -> str | None:
        """A hint where the warehouse does not exist, or is something else; None for a warehouse."""
        return self._backend.missing_hint()

    # ------------------------------------------------------------------------------------------- tables

    def table(self, name: str) -> Table:
        """The table of that name.

        Args:
            name: such as ``"shop.orders"``, or ``"shop.orders$branch_b"``.

        Returns:
            The table.

        Raises:
            DatabaseNotFoundError, TableNotFoundError, BranchNotFoundError: with similar names.
            UnsupportedError: a system table (``db.t$files``).
        """
        return Table(self._store(self._of_table(name)))

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name, or a branch (``db.t$branch_b``).

        Args:
            name: such as ``"shop.orders"``.

        Returns:
            True where there is one.

        Raises:
            UnsupportedError: the name of a system table.
            StorageError: the storage can't say.
        """
        try:
            self._backend.store(self._of_table(name))
        except NotFoundError:
            return False
        return True

    def _store(self, identifier: Identifier) -> TableStore:
        try:
            return self._backend.store(identifier)
        except TableNotFoundError as error:
            raise self._not_found(identifier, error) from error

    @property
    def system(self) -> CatalogSystem:
        """System tables of the catalog and its tables: ``catalog.system.read("sys.tables")``."""
        from paimon_pyds.catalog.system import CatalogSystem

        return CatalogSystem(self)

    def duckdb(
        self, tables: Sequence[str] | None = None, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A connection of DuckDB with the tables of this catalog, for SQL over all of them.

        Each table is a view named DATABASE.TABLE, of the state at this call. Queries read only the columns, files and
        pages that they need: comparisons of columns with constants are answered by statistics and indexes first.

        Args:
            tables: the names of those that are wanted; all by default, without those that can't be read, which a
                warning names. Named as ``"db.t$snapshot_3"``, ``"db.t$tag_a"``, ``"db.t$timestamp_2026-01-31"``,
                ``"db.t$branch_b"`` or ``"db.t$files"``, views show other states and system tables.
            connection: the connection that gets the views; a new one in memory by default.

        Returns:
            The connection.

        Raises:
            UnsupportedError: duckdb is not installed, or a table of ``tables`` can't be read.
            TableNotFoundError: a table of ``tables`` is not there.
        """
        from paimon_pyds.catalog.duckdb_tables import connect

        return connect(self, tables, connection)

    def sql(self, query: str) -> DuckDBPyRelation:
        """The result of a query of DuckDB over tables named DATABASE.TABLE, of their newest states.

        Other states are ``db.t AT (VERSION => 3)``, ``AT (VERSION => 'a tag')`` and
        ``AT (TIMESTAMP => '2026-01-31 12:30:00')``; branches and system tables are ``db."t$branch_b"`` and
        ``db."t$files"``. Only the tables that it names are opened. The other notes on `duckdb` hold.

        Args:
            query: a query that reads.

        Returns:
            The relation: ``fetchall()``, ``df()``, ``to_arrow_table()``, or data for ``table.append``.

        Raises:
            UnsupportedError: duckdb is not installed, or the query changes something.
            SnapshotNotFoundError, TagNotFoundError: no such state.
            OptionError: a state that is no constant, or no such system table.
        """
        from paimon_pyds.catalog.duckdb_query import query as run

        return run(self, query)

    def path(self, name: str) -> str:
        """Where the table of that name is, or would be.

        Args:
            name: such as ``"shop.orders"``.

        Returns:
            The path, or the address in an object store.
        """
        return self._backend.path(parse_identifier(name))

    def create_table(  # noqa: PLR0913 (the arguments of Table.create)
        self,
        name: str,
        schema: pa.Schema | Sequence[DataField] | str | Rows,
        primary_key: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        options: OptionValues | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make a table.

        Args:
            name: such as ``"shop.orders"``.
            schema: this and what follows as for `Table.create`; where the rows of data don't fit, the table stays in a
                REST catalog, without rows.
            primary_key: names of columns, in a list or in a text between commas.
            partition_by: names of columns, as those of the key.
            options: table options.
            comment: about the table.
            ignore_if_exists: return the table that already exists, whatever its schema is; rows of data are not added.

        Returns:
            The new table.

        Raises:
            DatabaseNotFoundError: its database does not exist.
            AlreadyExistsError: the table already exists.
        """
        identifier = self._plain(name)
        if not self._backend.has_database(identifier.database):
            raise self._no_database(identifier.database)
        definition, rows = table_definition(schema, primary_key, partition_by, options, comment)
        try:
            made = Table(self._backend.create_table(identifier, definition))
        except AlreadyExistsError:
            if not ignore_if_exists:
                raise
            return self.table(name)
        if rows is not None:
            with unmade_on_failure(made._store, taking_back(self, name)):
                made.append(rows, missing_columns="null")
        return made

    def drop_table(self, name: str, ignore_if_not_exists: bool = False) -> None:
        """Remove a table and everything in its directory; data files at external paths stay.

        Args:
            name: such as ``"shop.orders"``.
            ignore_if_not_exists: do nothing where there is no such table.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: it does not exist.
        """
        identifier = self._plain(name)
        try:
            self._backend.drop_table(identifier)
        except (TableNotFoundError, DatabaseNotFoundError) as error:
            if not ignore_if_not_exists:
                raise self._not_found(identifier, error) from error

    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table another name; ``new_name`` without a database stays in the same one.

        Args:
            name: such as ``"shop.orders"``.
            new_name: the new name.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: the table, or the database it goes to, does not exist.
            AlreadyExistsError: there is something of the new name.
        """
        old = self._plain(name)
        new = self._plain(new_name, old.database)
        if not self._backend.has_database(new.database):
            raise self._no_database(new.database)
        try:
            self._backend.rename_table(old, new)
        except TableNotFoundError as error:
            found = self._not_found(old, error)
            found.hint = error.hint or found.hint
            raise found from error

    def repair_table(self, name: str) -> Table:
        """Bring the catalog's entry of a table in line with the table's files, which stay as they are.

        A Hive metastore or AWS Glue gets the table's columns, options and partitions, a JDBC catalog its name: where
        they lack the table, or missed a change. The files are where the catalog says, or would put them.
        (Source: Paimon documentation, the procedure sys.repair.)

        Args:
            name: such as ``"shop.orders"``.

        Returns:
            The table.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: no files of it are there, or a metastore lacks its database.
            AlreadyExistsError: the name is that of a view, or of a table that is not Paimon's.
            UnsupportedError: a warehouse directory or a REST catalog, which have nothing to repair.
        """
        identifier = self._plain(name)
        try:
            self._backend.repair_table(identifier)
        except (TableNotFoundError, DatabaseNotFoundError) as error:
            raise self._not_found(identifier, error) from error
        return self.table(name)

    def alter_table(
        self,
        name: str,
        set_options: OptionValues | None = None,
        unset_options: Sequence[str] = (),
        **changes: Unpack[SchemaChanges],
    ) -> TableSchema:
        """Change a table's options or columns.

        Args:
            name: such as ``"shop.orders"``.
            set_options: new values of table options.
            unset_options: table options that get their defaults again.
            **changes: as for `Table.alter`.

        Returns:
            The new schema.

        Raises:
            DatabaseNotFoundError, TableNotFoundError: with similar names.
            SchemaError, OptionError, UnsupportedError, CommitError: as for `Table.alter`.
        """
        return self.table(name).alter(set_options, unset_options, **changes)

    # ------------------------------------------------------------------------------------------ helpers

    def _of_table(self, name: str) -> Identifier:
        identifier = parse_identifier(name)
        if identifier.system is not None or identifier.database == SYSTEM_DATABASE:
            raise UnsupportedError(f"{identifier} is a system table", hint=f'.system.read("{identifier}") reads it')
        return identifier

    def _plain(self, name: str, default_database: str = DEFAULT_DATABASE) -> Identifier:
        identifier = parse_identifier(name, default_database)
        if identifier.branch is not None or identifier.system is not None:
            raise OptionError(f"{identifier} names a part of a table", hint=f"name the table, {identifier.table}")
        return identifier

    def _not_found(self, identifier: Identifier, error: NotFoundError) -> NotFoundError:
        """The error for a table that is not there, with the names that are."""
        if not self._backend.has_database(identifier.database):
            return self._no_database(identifier.database)
        if identifier.table in self._backend.views(identifier.database):
            what = f"{identifier.database}.{identifier.table} is a view, not a table"
            instead = "read it by Java Paimon 2, or the tables that its SQL names"
            return TableNotFoundError(what, path=error.path, hint=instead)
        others = [name for name in self._backend.tables(identifier.database) if name != identifier.table]
        hint = suggest(identifier.table, others, "its tables")
        if not hint and identifier.database == DEFAULT_DATABASE:
            hint = "name the database, too: database.table"
        what = f"database {identifier.database} has no table {identifier.table}"
        return TableNotFoundError(what, path=error.path, hint=hint)

    def _no_database(self, name: str) -> DatabaseNotFoundError:
        hint = self.missing_hint() or suggest(name, self.databases(), "databases")
        return DatabaseNotFoundError(f"the warehouse has no database {name!r:.100}", path=self.warehouse, hint=hint)


def taking_back(catalog: Catalog, name: str) -> TakeBack:
    """What takes a table away again that was made just now, and that nobody has used since. ``name``: of the table."""
    return partial(catalog._backend.take_back, catalog._plain(name))
