"""The file system catalog: ``<warehouse>/<database>.db/<table>``, as Java Paimon lays it out. It keeps no state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from paimon_pyds.catalog.identifier import DEFAULT_DATABASE, Identifier, checked_object_name
from paimon_pyds.errors import AlreadyExistsError, OptionError, StorageError, TableNotFoundError, UnsupportedError
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.store import TableStore, cache_of
from paimon_pyds.ops.ddl.blob_columns import check_movable
from paimon_pyds.ops.ddl.create import TableDefinition, create_table, remove_table, unmake
from paimon_pyds.storage import FileIO, open_file_io

_SUFFIX = ".db"


class FileSystemBackend:
    """The `CatalogBackend` of a warehouse directory. The database ``default`` is always there.

    ``warehouse``: the directory, or its address in an object store. ``storage_options``: credentials and endpoints of
    the storage.
    """

    def __init__(self, warehouse: str | os.PathLike[str], storage_options: Mapping[str, str]) -> None:
        self._io, self.warehouse = open_file_io(warehouse, storage_options)
        self._external = ExternalPaths.of(storage_options)
        self._local_cache = cache_of(storage_options)

    def databases(self) -> list[str]:
        entries = self._io.list(self.warehouse)
        found = {s.name.removesuffix(_SUFFIX) for s in entries if s.is_dir and s.name.endswith(_SUFFIX)}
        return sorted((found | {DEFAULT_DATABASE}) - {""})

    def has_database(self, name: str) -> bool:
        return name == DEFAULT_DATABASE or self._io.exists(self._database_path(name))

    def create_database(self, name: str) -> None:
        if self.has_database(name):
            raise AlreadyExistsError(f"database {name} already exists", path=self.warehouse)
        self._io.make_dir(self._database_path(name))

    def drop_database(self, name: str) -> None:
        if name == DEFAULT_DATABASE:
            raise OptionError("the database default can't be dropped", hint="drop its tables instead")
        self._io.delete_tree(self._database_path(name))

    def missing_hint(self) -> str | None:
        here = self._io.list(self.warehouse)
        if any(s.is_dir and s.name.endswith(_SUFFIX) for s in here):
            return None
        if self._is_table(self.warehouse):
            return "this is a table, in a database of a warehouse"
        parent, _, name = self.warehouse.rpartition("/")
        if here and name.endswith(_SUFFIX):
            return f"this is a database, and its warehouse is {parent}"
        if here:
            return f"no directory in it is a database, named NAME{_SUFFIX}"
        return None if self._io.exists(self.warehouse) else "nothing is there; the first database or table makes it"

    def tables(self, database: str) -> list[str]:
        path = self._database_path(database)
        return [s.name for s in self._io.list(path) if s.is_dir and self._is_table(f"{path}/{s.name}")]

    def views(self, database: str) -> list[str]:
        return []

    def path(self, identifier: Identifier) -> str:
        return f"{self._database_path(identifier.database)}/{identifier.table}"

    def store(self, identifier: Identifier) -> TableStore:
        io, path = self._io_of(identifier), self._existing(identifier)
        store = TableStore(io, path, external=self._external, local_cache=self._local_cache)
        return store.for_branch(identifier.branch or store.branch)

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        path = self.path(identifier)
        if self._is_table(path):
            raise AlreadyExistsError(f"table {identifier} already exists", path=path)
        io = self._io_of(identifier)
        return create_table(io, path, definition, external=self._external, local_cache=self._local_cache)

    def drop_table(self, identifier: Identifier) -> None:
        remove_table(self._io, self._existing(identifier))

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        unmake(io, root, digest)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        source, target = self._existing(identifier), self.path(new)
        if self._io.exists(target):
            raise AlreadyExistsError(f"table {new} already exists", path=target)
        check_movable(self.store(identifier))
        self._io.make_dir(self._database_path(new.database))
        try:
            self._io.rename(source, target)
        except FileNotFoundError as error:
            raise StorageError("the table was removed while it was renamed", path=source) from error

    def repair_table(self, identifier: Identifier) -> None:
        raise UnsupportedError(
            "a warehouse directory has no entries of tables, only their files: there is nothing to repair",
            hint="table.maintenance.repair() mends damaged files",
        )

    def _existing(self, identifier: Identifier) -> str:
        path = self.path(identifier)
        if not self._is_table(path):
            raise TableNotFoundError(f"database {identifier.database} has no table {identifier.table}", path=path)
        return path

    def _database_path(self, name: str) -> str:
        return f"{self.warehouse}/{checked_object_name(name, 'database')}{_SUFFIX}"

    def _io_of(self, identifier: Identifier) -> FileIO:
        """What a table's files are read and written by."""
        return self._io

    def _is_table(self, path: str) -> bool:
        return any(s.name.startswith("schema-") for s in self._io.list(f"{path}/schema"))


class CatalogBackend(Protocol):
    """The operations of one kind of catalog. Names are valid when they arrive here.

    Methods raise TableNotFoundError, DatabaseNotFoundError and AlreadyExistsError; hints are the caller's.
    """

    warehouse: str

    def databases(self) -> list[str]:
        """The names of all databases, by name."""

    def has_database(self, name: str) -> bool:
        """Whether there is such a database."""

    def create_database(self, name: str) -> None:
        """Make a database."""

    def drop_database(self, name: str) -> None:
        """Remove a database with its tables and views."""

    def missing_hint(self) -> str | None:
        """Why no database is there, when that is more than that none was made; None where there may be some."""

    def tables(self, database: str) -> list[str]:
        """The names of the tables of a database that exists, by name."""

    def views(self, database: str) -> list[str]:
        """The names of the views of a database that exists, by name, where the catalog keeps any besides tables."""

    def path(self, identifier: Identifier) -> str:
        """Where the table is, or would be."""

    def store(self, identifier: Identifier) -> TableStore:
        """The table, on the branch that is named."""

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        """Make a table in a database that exists."""

    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table with its data."""

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        """Remove a table that was made just now if nobody has used it since: see
        `paimon_pyds.ops.ddl.create.unmake`. It stays where the catalog can't check that and remove it in one step."""

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Give a table another name; the database that it goes to exists."""

    def repair_table(self, identifier: Identifier) -> None:
        """Name a table in a database that exists as its files say it is.
        Raises UnsupportedError: the catalog has nothing but the files, or does not go by them."""
