"""The JDBC catalog: a database names databases and tables as Java Paimon keeps them, a warehouse has their files.

With ``lock.enabled`` commits hold a row of the lock table meanwhile, as Java's do; under it tables can be changed where
the store can't create a file only if it is absent.
Java Paimon 2 keeps views there, too: their names are taken, and they are removed with their database.
(Source: Java Paimon 1.4, and for views 2.0, classes JdbcCatalog, JdbcUtils, JdbcCatalogLock and those named
…DistributedLockDialect.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

from paimon_pyds.base.options.option import Kind, parse_duration_ms, parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import redact
from paimon_pyds.catalog.database import Database
from paimon_pyds.catalog.filesystem import FileSystemBackend
from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    CommitOutcomeUnknownError,
    OptionError,
    PaimonError,
    StorageError,
    TableNotFoundError,
)
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, remove_table, unmake
from paimon_pyds.storage import FileIO, Lockable

_log = logging.getLogger("paimon_pyds.catalog")
_PROPERTIES = "jdbc."
_WAITS = {"lock-acquire-timeout": "8 min", "lock-check-max-sleep": "8 s"}
"""The options of `CatalogLock.waits`, and their defaults."""
_LOOK = "SELECT acquired_at, expire_time_seconds FROM paimon_distributed_locks WHERE lock_id = ?"
_WHERE = "catalog_key = ? AND database_name = ? AND table_name = ?"
_NAMES = "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL"
_TABLES = {
    "paimon_tables": f"{_NAMES}, table_name VARCHAR(255) NOT NULL,"
    " PRIMARY KEY (catalog_key, database_name, table_name)",
    "paimon_database_properties": f"{_NAMES}, property_key VARCHAR(255), property_value VARCHAR(1000),"
    " PRIMARY KEY (catalog_key, database_name, property_key)",
}
_VIEWS = "paimon_views"
_LOCKS = {
    "paimon_distributed_locks": "lock_id VARCHAR(255) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT"
    " NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id)"
}
_AGE_SECONDS = {
    "sqlite": "strftime('%s', 'now') - strftime('%s', acquired_at)",
    "mysql": "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
}
"""How old a lock is. PostgreSQL can't compute it: times there are those of their writers' time zones, see `_Lock`."""


class JdbcBackend(FileSystemBackend):
    """The `CatalogBackend` of a database.

    ``options``: ``uri`` (see `paimon_pyds.catalog.database`), ``jdbc.user``, ``jdbc.password``, ``warehouse``,
    ``catalog-key``, ``lock.enabled``, ``lock-acquire-timeout``, ``lock-check-max-sleep``; others are options of the
    storage.
    Raises OptionError: an option is missing; UnsupportedError: a kind of database that is not supported.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = dict(options)
        uri, self._key = given.pop("uri", ""), given.pop("catalog-key", "jdbc")
        properties = {k.removeprefix(_PROPERTIES): given.pop(k) for k in options if k.startswith(_PROPERTIES)}
        self._database = Database.of(uri, properties)
        if "warehouse" not in given:
            raise OptionError("a JDBC catalog needs the option warehouse")
        enabled = parse_value("lock.enabled", Kind.BOOLEAN, given.pop("lock.enabled", "false"))
        waits = {name: given.pop(name, text) for name, text in _WAITS.items()}
        self._waits = _waits(waits) if enabled else None
        self._views_seen = False
        super().__init__(given.pop("warehouse"), given)
        self._database.make_tables(_TABLES | (_LOCKS if self._waits else {}))

    def missing_hint(self) -> str | None:
        return None  # the first table makes its directory

    def databases(self) -> list[str]:
        tables = (*_TABLES, *([_VIEWS] if self._has_views() else []))
        text = " UNION ".join(f"SELECT database_name FROM {table} WHERE catalog_key = ?" for table in tables)
        return self._names(text, *(self._key for _ in tables))

    def has_database(self, name: str) -> bool:
        return name in self.databases()

    def create_database(self, name: str) -> None:
        taken = AlreadyExistsError(f"database {name} already exists", path=self.warehouse)
        if self.has_database(name):
            raise taken
        rows = (("exists", "true"), ("location", self._database_path(name)))
        insert = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)"
        try:
            self._database.run(*((insert, (self._key, name, *row)) for row in rows))
        except AlreadyExistsError as error:
            raise taken from error

    def drop_database(self, name: str) -> None:
        where = "WHERE catalog_key = ? AND database_name = ?"
        tables = (*_TABLES, *([_VIEWS] if self._has_views() else []))
        self._database.run(*((f"DELETE FROM {table} {where}", (self._key, name)) for table in tables))
        self._io.delete_tree(self._database_path(name))

    def tables(self, database: str) -> list[str]:
        text = "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ?"
        return self._names(text, self._key, database)

    def views(self, database: str) -> list[str]:
        if not self._has_views():
            return []
        text = f"SELECT view_name FROM {_VIEWS} WHERE catalog_key = ? AND database_name = ?"
        return self._names(text, self._key, database)

    def _has_views(self) -> bool:
        """Whether there is a table of views; once there is one, it stays."""
        self._views_seen = self._views_seen or _VIEWS in self._database.tables()
        return self._views_seen

    def _names(self, text: str, *values: object) -> list[str]:
        """Names of databases, tables or views, in order."""
        found = [name for (name,) in self._database.run((text, values))]
        for name in found:
            if not isinstance(name, str):  # in SQLite a column takes any value
                raise StorageError(
                    f"the catalog's database has a name that is no text: {name!r:.80}",
                    path=str(self._database),
                    hint="mend or remove that row",
                )
        return sorted(found)

    def store(self, identifier: Identifier) -> TableStore:
        store = super().store(identifier)
        lock = self._lock(identifier)
        store.publisher = None if lock is None else LockedPublisher(lock)
        return store

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        path = self.path(identifier)
        with self._locked(identifier):
            if self._has_row(identifier):
                raise AlreadyExistsError(f"table {identifier} already exists", path=path)
            self._check_no_view(identifier)
            if self._is_table(path):
                raise AlreadyExistsError(
                    f"a table that the catalog does not name is where {identifier} would be",
                    path=path,
                    hint="another job may be making it; else repair_table names it in the catalog, or remove it",
                )
            super().create_table(identifier, definition)
            self._insert(identifier, lambda: self._io.delete_tree(path))
        return self.store(identifier)

    def drop_table(self, identifier: Identifier) -> None:
        path = self.path(identifier)
        if not self._has_row(identifier):
            raise TableNotFoundError(f"database {identifier.database} has no table {identifier.table}", path=path)
        self._database.run((f"DELETE FROM paimon_tables WHERE {_WHERE}", self._row(identifier)))
        remove_table(self._io, path)

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        with self._locked(identifier):  # as commits are
            if root == self.path(identifier) and unmake(io, root, digest):
                self._database.run((f"DELETE FROM paimon_tables WHERE {_WHERE}", self._row(identifier)))

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        first, second = sorted((identifier, new), key=str)  # so that two renames don't wait for one another
        with self._locked(first), self._locked(second):
            self._existing(identifier)
            if self._has_row(new):
                raise AlreadyExistsError(f"table {new} already exists", path=self.path(new))
            self._check_no_view(new)
            super().rename_table(identifier, new)
            update = f"UPDATE paimon_tables SET database_name = ?, table_name = ? WHERE {_WHERE}"
            back = partial(self._io.rename, self.path(new), self.path(identifier))
            self._name((update, (new.database, new.table, *self._row(identifier))), new, back)

    def repair_table(self, identifier: Identifier) -> None:
        super()._existing(identifier)
        with self._locked(identifier):
            if not self._has_row(identifier):
                self._check_no_view(identifier)
                self._insert(identifier, lambda: None)

    def _insert(self, identifier: Identifier, undo: Callable[[], object]) -> None:
        """Name a table whose files are there."""
        self._name(("INSERT INTO paimon_tables VALUES (?, ?, ?)", self._row(identifier)), identifier, undo)

    def _name(self, statement: tuple[str, Sequence[object]], new: Identifier, undo: Callable[[], object]) -> None:
        """Give the files of a table their name; where the database does not, they go back."""
        try:
            self._database.run(statement)
        except PaimonError as error:
            if self._has_row(new):
                return  # the answer was lost
            undo()
            if isinstance(error, AlreadyExistsError):  # MySQL does not distinguish upper and lower case
                raise AlreadyExistsError(f"{new} is the name of another table to the database") from error
            raise

    def _check_no_view(self, identifier: Identifier) -> None:
        if identifier.table in self.views(identifier.database):
            hint = "take another name, or drop the view by Java Paimon"
            raise AlreadyExistsError(f"{identifier} is a view", path=self.path(identifier), hint=hint)

    def _has_row(self, identifier: Identifier) -> bool:
        return identifier.table in self.tables(identifier.database)

    def _existing(self, identifier: Identifier) -> str:
        if not self._has_row(identifier):
            what = f"database {identifier.database} has no table {identifier.table}"
            raise TableNotFoundError(what, path=self.path(identifier))
        return super()._existing(identifier)

    def _row(self, identifier: Identifier) -> tuple[str, str, str]:
        return (self._key, identifier.database, identifier.table)

    def _io_of(self, identifier: Identifier) -> FileIO:
        lock = self._lock(identifier)
        return self._io.with_lock(lock.held) if lock is not None and isinstance(self._io, Lockable) else self._io

    def _lock(self, identifier: Identifier) -> CatalogLock | None:
        name = f"{self._key}.{identifier.database}.{identifier.object_name}"
        return None if self._waits is None else CatalogLock(self._database, name, self._waits)

    def _locked(self, identifier: Identifier) -> AbstractContextManager[object]:
        lock = self._lock(identifier)
        return nullcontext() if lock is None else lock.held()


class LockedPublisher(FileSystemPublisher):
    """The `SnapshotPublisher` of the file system, which holds the table's row in the lock table meanwhile, for schemas,
    too: Java looks first and writes then, under the lock."""

    def __init__(self, lock: CatalogLock) -> None:
        self._lock = lock

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        with self._lock.held():
            return super().publish(store, snapshot, latest)

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        """See `SnapshotPublisher`. None when another was faster: the caller finds out."""
        with self._lock.held():
            return new if store.try_create_schema(new) else None


class _HeldHere(threading.local):
    """The locks that this thread holds, and when each expires."""

    def __init__(self) -> None:
        self.until: dict[tuple[str, str], float] = {}


_held_here = _HeldHere()


def _now() -> float:
    """Seconds, also those that a machine sleeps: others' clocks go on meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True)
class CatalogLock:
    """A row of the lock table, which one writer of a table holds at a time.

    A lock is removed that its writer left behind. Where the times of locks are of no use (Java's driver for PostgreSQL
    writes them in the time zone of its JVM, another's clock reads them hours off) that is one which was seen unchanged
    for as long as it may be held.

    ``database``: where the lock table is. ``waits``: seconds after which a lock counts as left behind, which it is
    waited for; and between two looks at most.
    """

    database: Database
    name: str
    waits: tuple[float, float]

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Hold the lock, which this thread may hold already; gives a function that says whether it still holds.
        Raises CommitError when others hold it for too long."""
        key = (str(self.database), self.name)
        held = _held_here.until
        if key in held:
            yield lambda: _now() < held[key]
            return
        acquired_at, held[key] = self._acquire()
        # Otherwise what was sent may have its effect yet: the lock stays until it expires
        release = False
        try:
            yield lambda: _now() < held[key]
            release = True
        except Exception as error:
            release = not isinstance(error, CommitOutcomeUnknownError)
            raise
        finally:
            del held[key]
            if release:
                self._release(acquired_at)

    @property
    def _seconds(self) -> int:
        return max(int(self.waits[0]), 1)

    def _acquire(self) -> tuple[object, float]:
        """The time in the row that was made, and that at which it expires by `_now`."""
        timeout, longest = self.waits
        retry = Retry(Pauses(0.1, longest), seconds=timeout)
        seen: tuple[Any, ...] | None = None
        since = retry.began
        while True:
            age = _AGE_SECONDS.get(self.database.kind)
            if age is not None:
                self._remove(f"{age} > expire_time_seconds")
            until = _now() + self._seconds
            made = self._insert()
            if made is not None:
                return made, until
            now, row = time.monotonic(), self._row()
            if row != seen:
                seen, since = row, now
            elif row is not None and now - since > row[1]:
                self._remove("acquired_at = ?", row[0])
                continue
            what = f"the lock {self.name} was not free within {timeout:g} seconds"
            hint = "another job holds it; lock-acquire-timeout says for how long it may"
            retry.again(CommitError(what, hint=hint))

    def _insert(self) -> object:
        """Make the row; the time in it, or None where another has made one."""
        columns, values, row = "lock_id, expire_time_seconds", "?, ?", [self.name, self._seconds]
        if self.database.kind == "postgresql":  # as Java's driver, by the clock of this process's time zone
            columns, values = f"{columns}, acquired_at", f"{values}, now() AT TIME ZONE CAST(? AS interval)"
            row.append(str(datetime.now().astimezone().utcoffset()))
        insert = f"INSERT INTO paimon_distributed_locks({columns}) VALUES ({values})"
        try:
            return self.database.run((insert, row), (_LOOK, (self.name,)))[0][0]
        except AlreadyExistsError:
            return None

    def _row(self) -> tuple[Any, ...] | None:
        rows = self.database.run((_LOOK, (self.name,)))
        if rows and not isinstance(rows[0][1], int):  # in SQLite a column takes any value
            raise StorageError(
                f"the row of the lock {self.name} has no whole number of seconds: {rows[0][1]!r:.80}",
                path=str(self.database),
                hint="remove its row from paimon_distributed_locks if no job holds it",
            )
        return rows[0] if rows else None

    def _remove(self, condition: str, *values: object) -> None:
        text = f"DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND {condition}"
        self.database.run((text, (self.name, *values)))

    def _release(self, acquired_at: object) -> None:
        """Remove the row, unless it is another's by now. A published snapshot stays published: whatever fails here is
        logged, and the lock expires."""
        try:
            self._remove("acquired_at = ?", acquired_at)
        except Exception as error:  # noqa: BLE001 - raised, it would have the files of a snapshot removed
            _log.warning("the lock %s stays until it expires: %s", self.name, redact(str(error)))


def _waits(texts: Mapping[str, str]) -> tuple[float, float]:
    timeout, longest = (parse_duration_ms(text, name) / 1000 for name, text in texts.items())
    return timeout, longest
