"""What every kind of catalog can do; `paimon_pyds.catalog.Catalog` is what users hold."""

from __future__ import annotations

from typing import Protocol

from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition
from paimon_pyds.storage import FileIO


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
