"""The Hive catalog: a Hive metastore names databases and tables as Java Paimon keeps them, for Hive, Spark and Flink.

A table's schema is that of its files; the metastore has a copy of its columns and options for others to see, and with
``metastore.partitioned-table`` its partitions. With ``lock.enabled``, which is the default where the warehouse is an
object store, commits hold a lock of the metastore meanwhile, as Java's do.
(Source: Java Paimon 1.4, classes HiveCatalog, HiveCatalogLock and AddPartitionCommitCallback.)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Any

from paimon_pyds.catalog.hive.client import MetastoreClient
from paimon_pyds.catalog.hive.lock import lock_of
from paimon_pyds.catalog.hive.metastore import EXISTS, MISSING, VIEW, Metastore, MetastoreError, UnansweredRequestError
from paimon_pyds.catalog.hive.publisher import HivePublisher
from paimon_pyds.catalog.hive.settings import HiveSettings, storage_options
from paimon_pyds.catalog.hive.table import (
    database_location,
    format_schema,
    is_external,
    is_paimon,
    is_partitioned,
    location_of,
    new_database,
    new_table,
    wants_external,
)
from paimon_pyds.catalog.identifier import DEFAULT_DATABASE, Identifier
from paimon_pyds.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    OptionError,
    PaimonError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.directory_store import DirectoryStore
from paimon_pyds.metadata.paths import MAIN_BRANCH, ExternalPaths
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.metadata.store import TableStore, cache_of
from paimon_pyds.ops.ddl.blob_columns import check_movable
from paimon_pyds.ops.ddl.create import TableDefinition, create_table, remove_table, table_schema, unmake
from paimon_pyds.storage import FileIO, Lockable, normalise_location, open_file_io, options_of_store, scheme_of

_NO_OBJECT_STORES = ("file", "hdfs", "viewfs")


class HiveBackend:
    """The `CatalogBackend` of a Hive metastore.

    ``options``: those of `paimon_pyds.catalog.hive.settings`, and of the storage.
    Raises OptionError: an option is missing; UnsupportedError: a metastore that is not supported.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = HiveSettings.of(options)
        self._storage = storage_options(options)
        given = self._settings.warehouse
        self._io, self.warehouse = open_file_io(given, self._storage)
        self._root = f"file:{self.warehouse}" if scheme_of(self.warehouse) == "file" else given.rstrip("/")
        locked = self._settings.lock
        self._client: Metastore
        self._locks: MetastoreClient | None = None
        if self._settings.glue is not None:
            from paimon_pyds.catalog.hive.glue import GlueClient

            self._client = GlueClient(self._settings)
            return
        self._client = client = MetastoreClient(self._settings)
        if scheme_of(self.warehouse) not in _NO_OBJECT_STORES if locked is None else locked:
            self._locks = client

    # ---------------------------------------------------------------------------------------------------- databases

    def databases(self) -> list[str]:
        return sorted(self._client.databases())

    def has_database(self, name: str) -> bool:
        return self._found_database(name) is not None

    def create_database(self, name: str) -> None:
        location = f"{self._root}/{name}.db"
        if self._settings.in_properties:
            io, path = self._at(location)
            io.make_dir(path)
        try:
            self._client.create_database(new_database(self._settings, name, location))
        except MetastoreError as error:
            if error.kind == EXISTS:
                raise AlreadyExistsError(f"database {name} already exists", path=self._client.uri) from error
            raise
        except UnansweredRequestError:
            if not self.has_database(name):
                raise

    def drop_database(self, name: str) -> None:
        if name == DEFAULT_DATABASE:
            raise OptionError("the database default can't be dropped", hint="drop its tables instead")
        found = self._existing_database(name)
        tables = [table for table in self._client.tables(name) if table.tableType != VIEW]
        foreign = [table.tableName for table in tables if not self._shows(table)]
        if foreign:
            raise OptionError(
                f"database {name} has tables of other kinds than Paimon's, such as {min(foreign)}",
                hint="drop them by Hive first",
            )
        if not self._client.removes_files:  # others in the directory stay
            for table in tables:
                self.drop_table(Identifier(name, table.tableName))
        elif self._settings.in_properties:
            io, path = self._at(self._place_of(name, found))
            io.delete_tree(path)
        try:
            self._client.drop_database(name)
        except UnansweredRequestError:
            if self.has_database(name):
                raise

    def missing_hint(self) -> str | None:
        return None

    def _found_database(self, name: str) -> Any:
        """What the metastore has of a database; None without it."""
        try:
            return self._client.database(name)
        except MetastoreError as error:
            if error.kind in MISSING:
                return None
            raise

    def _existing_database(self, name: str) -> Any:
        found = self._found_database(name)
        if found is None:
            raise DatabaseNotFoundError(f"there is no database {name}", path=self._client.uri)
        return found

    def _place_of(self, name: str, database: Any) -> str:
        """Where the tables of a database go."""
        return database_location(self._settings, database) or f"{self._root}/{name}.db"

    def _place_of_new(self, identifier: Identifier, database: Any, path: str | None = None) -> str:
        """Where a table goes that the metastore does not name yet. ``path``: its own option."""
        location = path or f"{self._place_of(identifier.database, database)}/{identifier.table}"
        return f"file:{normalise_location(location)}" if scheme_of(location) == "file" else location

    # ------------------------------------------------------------------------------------------------------- tables

    def tables(self, database: str) -> list[str]:
        return sorted(table.tableName for table in self._client.tables(database) if self._shows(table))

    def views(self, database: str) -> list[str]:
        return sorted(self._client.views(database))

    def path(self, identifier: Identifier) -> str:
        table = self._found(identifier)
        if table is not None:
            return normalise_location(self._location(identifier, table))
        database = self._existing_database(identifier.database)
        return normalise_location(f"{self._place_of(identifier.database, database)}/{identifier.table}")

    def store(self, identifier: Identifier) -> TableStore:
        table = self._existing(identifier)
        location, branch = self._location(identifier, table), identifier.branch or MAIN_BRANCH
        if not is_paimon(table):
            io, path = self._at(location)
            schema = format_schema(table)
            if schema is None:  # it was another table when it was looked for
                raise self._missing(identifier)
            return DirectoryStore(io, path, schema).for_branch(branch)
        io, path = self._at(location, identifier)
        if not _is_table(io, path):
            raise self._missing(identifier, path)
        return self._store(io, path, identifier).for_branch(branch)

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        schema = table_schema(definition)
        if schema.options.get("type", "table") == "format-table":
            raise UnsupportedError(
                "format tables are not made in a Hive metastore",
                hint="make it by Hive or Java",
                feature="format-tables",
            )
        is_partitioned(schema)
        database = self._existing_database(identifier.database)
        external = wants_external(self._settings, schema.options)
        location = self._place_of_new(identifier, database, schema.options.get("path"))
        io, path = self._at(location, identifier)
        self._check_free(identifier)
        entry = new_table(self._client, (identifier.database, identifier.table), schema, location, external=external)
        with self._locked(identifier):
            registers = external and _is_table(io, path)
            store = self._store(io, path, identifier)
            if registers:
                schema = _registered(store, schema, definition)
                entry = new_table(
                    self._client, (identifier.database, identifier.table), schema, location, external=external
                )
            else:
                try:
                    create_table(io, path, definition)
                except AlreadyExistsError as error:  # a process has died between the two, or Java
                    raise AlreadyExistsError(
                        "files of a table are there, which the metastore does not name",
                        path=path,
                        hint="another job may be making it; else repair_table names it there, or remove them",
                    ) from error
                schema = store.latest_schema()
        try:
            self._register(identifier, entry, again=not registers)
        except BaseException:
            if not registers:
                with suppress(PaimonError, OSError):
                    unmake(io, path, schema_digest(schema))
            raise
        return store

    def drop_table(self, identifier: Identifier) -> None:
        table = self._existing(identifier)
        location, external = self._location(identifier, table), is_external(table)
        io, path = self._at(location, identifier)
        self._forget(identifier, deletes=not external)
        if not external:  # Java does it, too: a metastore may not reach the storage
            remove_table(io, path)

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        with self._locked(identifier):  # as commits are
            table = self._found(identifier)
            if table is None or normalise_location(self._location(identifier, table)) != root:
                return
            if unmake(io, root, digest):
                self._forget(identifier, deletes=False)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        names = sorted((identifier, new), key=str)  # so that two renames don't wait for one another
        with ExitStack() as locks:
            for name in names:
                locks.enter_context(self._locked(name))
            self._check_free(new)
            table = self._existing(identifier)
            before = self._location(identifier, table)
            if not is_external(table) and _is_table(*self._at(before)):
                check_movable(self.store(identifier))
            table.dbName, table.tableName = new.database, new.table
            self._rename(identifier, new, table)
            after = self._location(new, self._existing(new))
            io, path = self._at(before)
            other, target = self._at(after)
            # A metastore moves the files of some tables itself.
            if not is_external(table) and path != target and _is_table(io, path):
                other.make_dir(target.rpartition("/")[0])
                io.rename(path, target)

    def repair_table(self, identifier: Identifier) -> None:
        entry = self._found(identifier)
        if entry is None:
            location = self._place_of_new(identifier, self._existing_database(identifier.database))
        elif is_paimon(entry):
            location = self._location(identifier, entry)
        else:
            raise self._taken(identifier, entry)
        io, path = self._at(location, identifier)
        if not _is_table(io, path):
            raise self._missing(identifier, path)
        store = self._store(io, path, identifier)
        with self._locked(identifier):
            schema, name = store.latest_schema(), (identifier.database, identifier.table)
            if entry is None:
                external = wants_external(self._settings, schema.options)
                new = new_table(self._client, name, schema, location, external=external)
                self._register(identifier, new, again=True)
            try:
                self._publisher(identifier).repair(store, schema)
            except MetastoreError as error:
                if error.kind in MISSING and self._found(identifier) is None:
                    raise self._missing(identifier) from error  # it was dropped meanwhile
                raise

    def _shows(self, table: Any) -> bool:
        """Whether a table of the metastore is one of this catalog."""
        if is_paimon(table):
            return True
        try:
            return self._settings.format_tables and format_schema(table) is not None
        except UnsupportedError:  # a column of a type that Paimon lacks
            return False

    def _found(self, identifier: Identifier) -> Any:
        """What the metastore has under a name, be it a view or another's table; None without it."""
        try:
            return self._client.table(identifier.database, identifier.table)
        except MetastoreError as error:
            if error.kind in MISSING:
                return None
            raise

    def _existing(self, identifier: Identifier) -> Any:
        """What the metastore has of a table of this catalog. Raises TableNotFoundError."""
        table = self._found(identifier)
        if table is None or not self._shows(table):
            raise self._missing(identifier)
        return table

    def _missing(self, identifier: Identifier, path: str | None = None) -> TableNotFoundError:
        what = f"database {identifier.database} has no table {identifier.table}"
        return TableNotFoundError(what, path=path or self._client.uri)

    def _check_free(self, identifier: Identifier) -> None:
        """Raise AlreadyExistsError where the metastore has something of this name."""
        table = self._found(identifier)
        if table is not None:
            raise self._taken(identifier, table)

    def _taken(self, identifier: Identifier, table: Any) -> AlreadyExistsError:
        what = "view" if table.tableType == VIEW else "table"
        kind = "" if self._shows(table) or what == "view" else ", of another kind than Paimon's,"
        return AlreadyExistsError(f"{what} {identifier}{kind} already exists", path=self._client.uri)

    def _location(self, identifier: Identifier, table: Any) -> str:
        location = location_of(self._settings, table)
        return (
            location
            or f"{self._place_of(identifier.database, self._existing_database(identifier.database))}/{identifier.table}"
        )

    def _register(self, identifier: Identifier, table: Any, *, again: bool) -> None:
        """Have the metastore name a table. ``again``: it may name the same files already, as somebody repairs the
        table at the same time."""
        try:
            self._client.create_table(table)
        except MetastoreError as error:
            if error.kind != EXISTS:
                raise
            if not (again and self._names_files_of(identifier, table)):
                raise AlreadyExistsError(f"table {identifier} already exists", path=self._client.uri) from error
        except UnansweredRequestError:
            if not self._names_files_of(identifier, table):
                raise

    def _names_files_of(self, identifier: Identifier, table: Any) -> bool:
        """Whether the metastore has an entry of that name, whose files are those of ``table``."""
        found = self._found(identifier)
        if found is None or not is_paimon(found):
            return False
        there, wanted = (location_of(self._settings, one) for one in (found, table))
        return there is not None and wanted is not None and normalise_location(there) == normalise_location(wanted)

    def _forget(self, identifier: Identifier, *, deletes: bool) -> None:
        """Have the metastore name a table no more. ``deletes``: it removes the files."""
        try:
            self._client.drop_table(identifier.database, identifier.table, deletes=deletes)
        except MetastoreError as error:
            if error.kind in MISSING:
                raise self._missing(identifier) from error
            raise
        except UnansweredRequestError:
            if self._found(identifier) is not None:
                raise

    def _rename(self, identifier: Identifier, new: Identifier, table: Any) -> None:
        """Have the metastore put a table in the place of the one of that name. ``new``: the name of the table."""
        try:
            self._client.alter_table(identifier.database, identifier.table, table, again=False)
        except UnansweredRequestError:
            if self._found(identifier) is not None or self._found(new) is None:
                raise

    # ------------------------------------------------------------------------------------------------------ storage

    def _at(self, location: str, identifier: Identifier | None = None) -> tuple[FileIO, str]:
        """What reads and writes the files of a location, and how that spells it. ``identifier``: the table whose lock
        stores need that can't create a file only if absent."""
        cache = {key: text for key, text in self._storage.items() if key.startswith("local-cache.")}
        io, path = open_file_io(location, {**options_of_store(location, self._storage), **cache})
        if identifier is not None and self._locks is not None and isinstance(io, Lockable):
            io = io.with_lock(lock_of(self._locks, identifier).held)
        return io, path

    def _store(self, io: FileIO, path: str, identifier: Identifier) -> TableStore:
        external, cache = ExternalPaths.of(self._storage), cache_of(self._storage)
        return TableStore(io, path, external=external, publisher=self._publisher(identifier), local_cache=cache)

    def _publisher(self, identifier: Identifier) -> HivePublisher:
        return HivePublisher(self._client, identifier, locks=self._locks)

    def _locked(self, identifier: Identifier) -> AbstractContextManager[object]:
        return nullcontext() if self._locks is None else lock_of(self._locks, identifier).held()


def _is_table(io: FileIO, path: str) -> bool:
    return any(s.name.startswith("schema-") for s in io.list(f"{path}/schema"))


def _registered(store: TableStore, wanted: TableSchema, definition: TableDefinition) -> TableSchema:
    """The schema of a table that is there already and gets a name. Raises SchemaError: it is another one."""
    there = store.latest_schema()
    columns = [(f.name, f.type) for f in there.fields]
    options = {key: text for key, text in wanted.options.items() if key not in ("owner", "path")}
    if (
        [(f.name, f.type) for f in wanted.fields] != columns
        or (definition.primary_key and wanted.primary_keys != there.primary_keys)
        or (definition.partition_by and wanted.partition_keys != there.partition_keys)
        or any(there.options.get(key) != text for key, text in options.items())
    ):
        raise SchemaError(
            "a table with other columns, keys or options is there already",
            path=store.root,
            hint="give its own to name it in the catalog, or choose another path",
        )
    return there
