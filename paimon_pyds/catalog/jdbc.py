"""The JDBC catalog: a database names databases and tables as Java Paimon keeps them, a warehouse has their files.

Databases of SQLite are served. With ``lock.enabled`` commits hold a row of the lock table meanwhile, as Java's do.
(Source: Java Paimon 1.4, classes JdbcCatalog, JdbcUtils and JdbcCatalogLock.)
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from paimon_pyds.catalog.filesystem import FileSystemBackend
from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.commit.publisher import FileSystemPublisher
from paimon_pyds.ddl.create import TableDefinition
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options.option import parse_duration_ms
from paimon_pyds.redaction import redact

_log = logging.getLogger("paimon_pyds.catalog")
_SCHEME = "jdbc:sqlite:"
_BUSY_SECONDS = 60.0
_FIRST_SLEEP_SECONDS = 0.05
_MAX_SLEEP = ("lock-check-max-sleep", "8 s")
_WHERE = "catalog_key = ? AND database_name = ? AND table_name = ?"
_TABLES = """
CREATE TABLE IF NOT EXISTS paimon_tables(catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL,
 table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name));
CREATE TABLE IF NOT EXISTS paimon_database_properties(catalog_key VARCHAR(255) NOT NULL,
 database_name VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000),
 PRIMARY KEY (catalog_key, database_name, property_key));
"""
_LOCKS = """
CREATE TABLE IF NOT EXISTS paimon_distributed_locks(lock_id VARCHAR(255) NOT NULL,
 acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
 PRIMARY KEY (lock_id));
"""


class JdbcBackend(FileSystemBackend):
    """The `CatalogBackend` of a database.

    Args:
        options: ``uri`` (``jdbc:sqlite:/path``), ``warehouse``, ``catalog-key``, ``lock.enabled``,
            ``lock-acquire-timeout``, ``lock-check-max-sleep``; others are options of the storage.

    Raises:
        OptionError: an option is missing.
        UnsupportedError: another database than SQLite.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = dict(options)
        uri, self._key = given.pop("uri", ""), given.pop("catalog-key", "jdbc")
        if not uri.startswith(_SCHEME):
            kind = redact(uri).removeprefix("jdbc:").partition(":")[0]
            raise UnsupportedError(
                f"JDBC catalogs in {kind[:40] or 'no database'} are not supported",
                hint="the option uri must be jdbc:sqlite:/path; tables can be opened by their paths",
            )
        if "warehouse" not in given:
            raise OptionError("a JDBC catalog needs the option warehouse")
        self._file = uri.removeprefix(_SCHEME)
        if not self._file or self._file.startswith((":", "file:")) or "?" in self._file or "\0" in self._file:
            raise OptionError(
                f"{redact(uri)!r:.200} names no file",
                hint="the option uri must be jdbc:sqlite:/path, without parameters",
            )
        enabled = given.pop("lock.enabled", "false").strip().lower()
        waits = {name: given.pop(name, text) for name, text in (("lock-acquire-timeout", "8 min"), _MAX_SLEEP)}
        self._lock = None if enabled != "true" else _waits(waits)
        super().__init__(given.pop("warehouse"), given)
        with self._connected() as database:
            database.executescript(_TABLES + (_LOCKS if self._lock else ""))

    def databases(self) -> list[str]:
        with self._connected() as database:
            found = database.execute(
                "SELECT database_name FROM paimon_tables WHERE catalog_key = ? UNION "
                "SELECT database_name FROM paimon_database_properties WHERE catalog_key = ?",
                (self._key, self._key),
            )
            return sorted(name for (name,) in found)

    def has_database(self, name: str) -> bool:
        return name in self.databases()

    def create_database(self, name: str) -> None:
        rows = (("exists", "true"), ("location", self._database_path(name)))
        try:
            with self._connected() as database, database:
                database.executemany(
                    "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)",
                    [(self._key, name, *row) for row in rows],
                )
        except sqlite3.IntegrityError as error:
            raise AlreadyExistsError(f"database {name} already exists", path=self.warehouse) from error

    def drop_database(self, name: str) -> None:
        with self._connected() as database, database:
            for table in ("paimon_tables", "paimon_database_properties"):
                database.execute(
                    f"DELETE FROM {table} WHERE catalog_key = ? AND database_name = ?",
                    (self._key, name),
                )
        self._io.delete_tree(self._database_path(name))

    def tables(self, database: str) -> list[str]:
        with self._connected() as connection:
            found = connection.execute(
                "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ?",
                (self._key, database),
            )
            return sorted(name for (name,) in found)

    def store(self, identifier: Identifier) -> TableStore:
        store = super().store(identifier)
        store.publisher = None if self._lock is None else self._publisher(identifier)
        return store

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        with self._locked(identifier):
            if identifier.table in self.tables(identifier.database):
                raise AlreadyExistsError(f"table {identifier} already exists", path=self.path(identifier))
            super().create_table(identifier, definition)
            with self._connected() as database, database:
                database.execute("INSERT INTO paimon_tables VALUES (?, ?, ?)", self._row(identifier))
        return self.store(identifier)

    def drop_table(self, identifier: Identifier) -> None:
        path = self._existing(identifier)
        with self._connected() as database, database:
            database.execute(f"DELETE FROM paimon_tables WHERE {_WHERE}", self._row(identifier))
        self._io.delete_tree(path)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        with self._locked(identifier), self._locked(new):
            self._existing(identifier)
            if new.table in self.tables(new.database):
                raise AlreadyExistsError(f"table {new} already exists", path=self.path(new))
            super().rename_table(identifier, new)
            with self._connected() as database, database:
                database.execute(
                    f"UPDATE paimon_tables SET database_name = ?, table_name = ? WHERE {_WHERE}",
                    (new.database, new.table, *self._row(identifier)),
                )

    def _existing(self, identifier: Identifier) -> str:
        if identifier.table not in self.tables(identifier.database):
            what = f"database {identifier.database} has no table {identifier.table}"
            raise TableNotFoundError(what, path=self.path(identifier))
        return super()._existing(identifier)

    def _row(self, identifier: Identifier) -> tuple[str, str, str]:
        return (self._key, identifier.database, identifier.table)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _database(self._file) as database:
            yield database

    def _publisher(self, identifier: Identifier) -> LockedPublisher:
        assert self._lock is not None
        name = f"{self._key}.{identifier.database}.{identifier.object_name}"
        return LockedPublisher(self._file, name, self._lock)

    @contextmanager
    def _locked(self, identifier: Identifier) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        with self._publisher(identifier).locked():
            yield


class LockedPublisher(FileSystemPublisher):
    """The `SnapshotPublisher` of the file system, which holds the table's row in the lock table meanwhile.

    Args:
        file: the database.
        name: of the lock.
        waits: seconds after which a lock counts as left behind, which it is waited for; and between two looks at most.
    """

    def __init__(self, file: str, name: str, waits: tuple[float, float]) -> None:
        self._file, self._name, self._waits = file, name, waits

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        with self.locked():
            return super().publish(store, snapshot, latest)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. Raises CommitError when others hold it for too long."""
        timeout, longest = self._waits
        started, sleep = time.monotonic(), _FIRST_SLEEP_SECONDS
        while not self._acquired():
            if time.monotonic() - started > timeout:
                raise CommitError(
                    f"the lock {self._name} was not free within {timeout:g} seconds",
                    hint="another job holds it; lock-acquire-timeout says for how long it may",
                )
            sleep = min(sleep * 2, longest)
            time.sleep(sleep)
        held = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - held < timeout:  # else it may be another's by now
                self._release()

    def _acquired(self) -> bool:
        try:
            with _database(self._file) as database, database:
                database.execute(
                    "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND "
                    "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds",
                    (self._name,),
                )
                database.execute(
                    "INSERT INTO paimon_distributed_locks(lock_id, expire_time_seconds) VALUES (?, ?)",
                    (self._name, int(self._waits[0])),
                )
        except sqlite3.IntegrityError:
            return False
        return True

    def _release(self) -> None:
        """What is published is: a failure is logged, and the lock expires."""
        try:
            with _database(self._file) as database, database:
                database.execute("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", (self._name,))
        except (StorageError, sqlite3.Error) as error:
            _log.warning("the lock %s stays until it expires: %s", self._name, error)


@contextmanager
def _database(file: str) -> Iterator[sqlite3.Connection]:
    """A connection for one step. Raises StorageError; IntegrityError is the caller's."""
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY_SECONDS)) as database:
            yield database
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise StorageError(f"the catalog's database failed ({error})", path=file) from error


def _waits(texts: Mapping[str, str]) -> tuple[float, float]:
    timeout, longest = (parse_duration_ms(text, name) / 1000 for name, text in texts.items())
    return timeout, longest
