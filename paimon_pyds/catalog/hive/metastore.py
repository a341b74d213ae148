"""What a Hive catalog needs of a metastore, and how requests fail. Entries are the structures of Hive's own
description, whichever metastore has them.

(Source: Apache Hive, hive_metastore.thrift.)
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from paimon_pyds.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.catalog.hive.settings import HiveSettings

MISSING = ("NoSuchObjectException", "UnknownDBException", "UnknownTableException")
"""Kinds of a `MetastoreError`: there is no such database, table or partition."""
VIEW = "VIRTUAL_VIEW"
"""The type of tables that are views."""
EXISTS = "AlreadyExistsException"
"""The kind of a `MetastoreError`: the name is taken."""


class MetastoreError(StorageError):
    """The metastore refuses a request. ``kind``: the name of Hive's exception."""

    def __init__(self, message: str, kind: str, **more: Any) -> None:
        super().__init__(message, **more)
        self.kind = kind


class ChangedEntryError(MetastoreError):
    """Another has changed an entry since it was read: read it again."""


class UnansweredRequestError(StorageError):
    """No response came to a request, which the metastore may have carried out."""


class Metastore(Protocol):
    """A metastore: by Thrift `paimon_pyds.catalog.hive.client`, or Glue. It pickles, and threads may share it.

    Methods raise MetastoreError: the metastore refuses; UnansweredRequestError: no response came, and the request may
    not be sent again; StorageError: it can't be reached. ``removes_files``: whether it removes the files of databases
    that are dropped.
    """

    settings: HiveSettings
    removes_files: bool

    @property
    def uri(self) -> str:
        """Where it is, for messages."""

    def knows_instants(self) -> bool:
        """Whether it has the type TIMESTAMP WITH LOCAL TIME ZONE."""

    def databases(self) -> list[str]:
        """The names of all databases."""

    def database(self, name: str) -> Any:
        """A database."""

    def create_database(self, database: Any) -> None:
        """Make a database."""

    def drop_database(self, name: str) -> None:
        """Remove a database with its tables."""

    def tables(self, database: str) -> Iterator[Any]:
        """All tables and views of a database."""

    def views(self, database: str) -> list[str]:
        """The names of the views of a database."""

    def table(self, database: str, name: str) -> Any:
        """A table or view."""

    def create_table(self, table: Any) -> None:
        """Name a table."""

    def alter_table(
        self, database: str, name: str, table: Any, properties: Mapping[str, str] | None = None, *, again: bool = True
    ) -> None:
        """Put a table in the place of the one of that name, which may get another name by that.

        Args:
            database: the name of its database.
            name: of the table so far.
            table: what was read before, changed.
            properties: of Hive's context of an alteration, such as ``CASCADE``, which changes partitions, too.
            again: whether the request has the same effect when it is repeated.

        Raises:
            ChangedEntryError: another has changed it since it was read, where the metastore compares.
            UnsupportedError: it can't give tables other names.
        """

    def drop_table(self, database: str, name: str, *, deletes: bool) -> None:
        """Remove a table. ``deletes``: with its files, where the metastore removes files."""

    def add_partitions(self, database: str, table: str, partitions: Sequence[Any]) -> None:
        """Name those partitions of a table that have no names yet."""

    def drop_partition(self, database: str, table: str, values: list[str]) -> None:
        """Name a partition no more. Raises MetastoreError of a kind of `MISSING`: it has no name."""


def structs() -> Any:
    """The module of Hive's structures. Raises UnsupportedError: it is not installed."""
    try:
        from pymetastore.hive_metastore import ttypes
    except ImportError:
        raise UnsupportedError(
            "Hive metastores need pymetastore", hint="pip install 'paimon-pyds[hive]'", feature="hive"
        ) from None
    return ttypes


def user_name() -> str:
    """The user of requests, the owner of what they make: HADOOP_USER_NAME, or the user of this process."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return str(os.getuid())
