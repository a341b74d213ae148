"""The file system catalog: ``<warehouse>/<database>.db/<table>``, as Java Paimon lays it out, and names of tables:
``db.t``, ``t$branch_b``, ``t$files``, with `back quotes` around parts that hold a dot. It keeps no state."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_pyds.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    suggest,
)
from paimon_pyds.redaction import redact
from paimon_pyds.storage import open_file_io

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from paimon_pyds.ddl.alter import SchemaChanges
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.table import Table
    from paimon_pyds.types import DataField
    from paimon_pyds.typing import OptionValues, Rows

DEFAULT_DATABASE = "default"
_BRANCH = "branch_"
_QUOTED = re.compile(r"(?:(?P<database>`(?:[^`]|``)+`|[^`.$]+)\.)?(?P<table>`(?:[^`]|``)+`|[^`$]+)(?P<suffix>\$[^`]*)?")
_SUFFIX = ".db"
_SYSTEM_DATABASE = "sys"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's name, taken apart.

    ``branch`` comes from ``t$branch_b``; ``system`` from ``t$files``, a system table of ``t``.
    """

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    def __str__(self) -> str:
        suffix = f"${_BRANCH}{self.branch}" if self.branch else ""
        return f"{self.database}.{self.table}{suffix}" + (f"${self.system}" if self.system else "")


def parse_identifier(name: str, default_database: str = DEFAULT_DATABASE) -> Identifier:
    """Take a name apart: ``t``, ``db.t``, ```db`.`t.x```, each with ``$branch_b`` and ``$system`` after the table.

    A name without quotes is cut at its first dot, as in Java Paimon.

    Raises:
        OptionError: not a name of that form.
    """
    parts = _split(name)
    if len(parts) == 1:
        parts = [default_database, parts[0]]
    database, table, *rest = (checked_object_name(parts[0], "database"), *parts[1].split("$"))
    checked_object_name(table, "table")
    branch = system = None
    if rest and rest[0].startswith(_BRANCH):
        branch = rest.pop(0).removeprefix(_BRANCH)
    if rest:
        system = rest.pop(0)
    if rest or branch == "" or system == "":
        raise _bad(name)
    return Identifier(database, table, None if branch == "main" else branch, system)


def _split(name: str) -> list[str]:
    text = name.strip()
    match = _QUOTED.fullmatch(text) if "`" in text else None
    if not text or (match is None and "`" in text):
        raise _bad(name)
    if match is None:
        return text.split(".", 1)
    table = _unquoted(match["table"]) + (match["suffix"] or "")
    return [table] if match["database"] is None else [_unquoted(match["database"]), table]


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def checked_object_name(name: str, what: str) -> str:
    """A name that can be a directory of the warehouse. Raises OptionError."""
    if not name.strip() or name in (".", "..") or "/" in name or "\0" in name or "$" in name:
        raise OptionError(f"{name!r:.100} is not a name of a {what}")
    return name


def _bad(name: str) -> OptionError:
    return OptionError(
        f"{name!r:.200} is not a name of a table", hint="write db.table, or `db`.`table` when a name has a dot"
    )


class Catalog:
    """A warehouse directory: databases and their tables.

    The database ``default`` is always there. Tables are named ``db.t`` (or ``t``, in ``default``); a branch is
    ``db.t$branch_b``.

    Args:
        warehouse: the directory, or its address in an object store.
        storage_options: credentials and endpoints of the storage; they are not shown anywhere.
    """

    def __init__(self, warehouse: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> None:
        self._io, self._root = open_file_io(warehouse, storage_options)
        self._storage_options = dict(storage_options or {})

    @property
    def warehouse(self) -> str:
        """Where the warehouse is."""
        return self._root

    def __repr__(self) -> str:
        return f"Catalog({redact(self._root)!r})"

    # ---------------------------------------------------------------------------------------- databases

    def databases(self) -> list[str]:
        """The names of all databases, by name."""
        found = {
            s.name.removesuffix(_SUFFIX) for s in self._io.list(self._root) if s.is_dir and s.name.endswith(_SUFFIX)
        }
        return sorted((found | {DEFAULT_DATABASE}) - {""})

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Make a database.

        Raises:
            AlreadyExistsError: it is there.
            OptionError: a name that can't be one.
        """
        if checked_object_name(name, "database") == _SYSTEM_DATABASE:
            raise OptionError(f"the name {name} is reserved by Paimon: choose another")
        if self._has_database(name):
            if ignore_if_exists:
                return
            raise AlreadyExistsError(f"database {name} already exists", path=self._root)
        self._io.make_dir(self._database_path(name))

    def drop_database(self, name: str, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Remove a database; with ``cascade`` its tables too.

        Raises:
            DatabaseNotFoundError: it does not exist.
            OptionError: it has tables and ``cascade`` is not given, or it is ``default``.
        """
        if not self._has_database(name):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        if name == DEFAULT_DATABASE:
            raise OptionError("the database default can't be dropped", hint="drop its tables instead")
        tables = self.tables(name)
        if tables and not cascade:
            raise OptionError(
                f"database {name} is not empty: it has {len(tables)} tables", hint="cascade=True drops them too"
            )
        self._io.delete_tree(self._database_path(name))

    def tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """The names of the tables of a database, by name. Raises DatabaseNotFoundError."""
        if not self._has_database(database):
            raise self._no_database(database)
        path = self._database_path(database)
        return [s.name for s in self._io.list(path) if s.is_dir and self._is_table(f"{path}/{s.name}")]

    # ------------------------------------------------------------------------------------------- tables

    def table(self, name: str) -> Table:
        """The table of that name.

        Raises:
            DatabaseNotFoundError, TableNotFoundError, BranchNotFoundError: with similar names.
            UnsupportedError: a system table (``db.t$files``).
        """
        from paimon_pyds.table import Table

        identifier = parse_identifier(name)
        if identifier.system is not None:
            raise UnsupportedError(
                f"{identifier} is a system table",
                hint=f'open {identifier.table} and ask for .system("{identifier.system}")',
            )
        return Table.open(self._existing(identifier), identifier.branch, self._storage_options)

    def path(self, name: str) -> str:
        """Where the table of that name is, or would be."""
        return self._table_path(parse_identifier(name))

    def create_table(  # noqa: PLR0913 (the arguments of Table.create)
        self,
        name: str,
        schema: pa.Schema | Sequence[DataField] | Rows,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: OptionValues | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make a table.

        Args:
            name: such as ``"shop.orders"``.
            schema: this and what follows as for `Table.create`.
            primary_key: names of columns.
            partition_by: names of columns.
            options: table options.
            comment: about the table.
            ignore_if_exists: return the table that already exists, whatever its schema is.

        Raises:
            DatabaseNotFoundError: its database does not exist.
            AlreadyExistsError: the table already exists.
        """
        from paimon_pyds.table import Table

        identifier = self._plain(name)
        if not self._has_database(identifier.database):
            raise self._no_database(identifier.database)
        path = self._table_path(identifier)
        if self._is_table(path):
            if ignore_if_exists:
                return self.table(name)
            raise AlreadyExistsError(f"table {identifier} already exists", path=path)
        return Table.create(
            path, schema, primary_key, partition_by, dict(options or {}), comment, storage_options=self._storage_options
        )

    def drop_table(self, name: str, ignore_if_not_exists: bool = False) -> None:
        """Remove a table and everything in its directory; data files at external paths stay.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: it does not exist.
        """
        try:
            path = self._existing(self._plain(name))
        except (TableNotFoundError, DatabaseNotFoundError):
            if ignore_if_not_exists:
                return
            raise
        self._io.delete_tree(path)

    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table another name; ``new_name`` without a database stays in the same one.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: the table, or the database it goes to, does not exist.
            AlreadyExistsError: there is something of the new name.
        """
        old = self._plain(name)
        new = self._plain(new_name, old.database)
        source = self._existing(old)
        if not self._has_database(new.database):
            raise self._no_database(new.database)
        target = self._table_path(new)
        if self._io.exists(target):
            raise AlreadyExistsError(f"table {new} already exists", path=target)
        self._io.make_dir(self._database_path(new.database))
        try:
            self._io.rename(source, target)
        except FileNotFoundError as error:
            raise StorageError("the table was removed while it was renamed", path=source) from error

    def alter_table(
        self,
        name: str,
        set_options: OptionValues | None = None,
        unset_options: Sequence[str] = (),
        **changes: Unpack[SchemaChanges],
    ) -> TableSchema:
        """Change a table's options or columns; the arguments are those of `Table.alter`."""
        return self.table(name).alter(set_options, unset_options, **changes)

    # ------------------------------------------------------------------------------------------ helpers

    def _plain(self, name: str, default_database: str = DEFAULT_DATABASE) -> Identifier:
        identifier = parse_identifier(name, default_database)
        if identifier.branch is not None or identifier.system is not None:
            raise OptionError(f"{identifier} names a part of a table", hint=f"name the table, {identifier.table}")
        return identifier

    def _existing(self, identifier: Identifier) -> str:
        path = self._table_path(identifier)
        if not self._is_table(path):
            if not self._has_database(identifier.database):
                raise self._no_database(identifier.database)
            raise TableNotFoundError(
                f"database {identifier.database} has no table {identifier.table}",
                path=path,
                hint=suggest(identifier.table, self.tables(identifier.database), "its tables"),
            )
        return path

    def _database_path(self, name: str) -> str:
        return f"{self._root}/{checked_object_name(name, 'database')}{_SUFFIX}"

    def _table_path(self, identifier: Identifier) -> str:
        return f"{self._database_path(identifier.database)}/{identifier.table}"

    def _is_table(self, path: str) -> bool:
        return any(s.name.startswith("schema-") for s in self._io.list(f"{path}/schema"))

    def _has_database(self, name: str) -> bool:
        return name == DEFAULT_DATABASE or self._io.exists(self._database_path(name))

    def _no_database(self, name: str) -> DatabaseNotFoundError:
        hint = suggest(name, self.databases(), "databases")
        if not self._io.exists(self._root):
            hint = "the warehouse does not exist either"
        return DatabaseNotFoundError(f"the warehouse has no database {name!r:.100}", path=self._root, hint=hint)
