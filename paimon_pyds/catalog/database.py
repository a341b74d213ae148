"""Databases that hold a JDBC catalog: SQLite, PostgreSQL, MySQL, by their DB-API drivers (PEP 249).

Addresses are those of Java's drivers: ``jdbc:sqlite:/path``, ``jdbc:postgresql://host:port/database`` and
``jdbc:mysql://host:port/database``, with parameters behind ``?`` as these drivers call them.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import names_secret, raise_alone, redact
from paimon_pyds.base.text import whole_number
from paimon_pyds.errors import AlreadyExistsError, CommitError, OptionError, StorageError, UnsupportedError, suggest

TIMEOUT_SECONDS = 60
"""Seconds that a connection, an answer, or a database of SQLite that is locked, is waited for."""
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^/:?\[\]@,]*)(?::(?P<port>[0-9]{1,5}))?/(?P<database>[^/?]+)")
_PARAMETERS = {
    "postgresql": {
        "user": "user",
        "password": "password",
        "sslmode": "sslmode",
        "sslrootcert": "sslrootcert",
        "sslcert": "sslcert",
        "sslkey": "sslkey",
        "ApplicationName": "application_name",
        "connectTimeout": "connect_timeout",
    },
    "mysql": {"user": "user", "password": "password", "sslMode": "ssl", "useSSL": "ssl"},
}
"""Parameters of Java's drivers as those of Python's call them."""
_SSL = {"disabled": True, "false": True, "required": False, "true": False}
"""Values of MySQL's parameters, and whether they switch encryption off."""
_DRIVERS = {"postgresql": ("psycopg", "postgres"), "mysql": ("pymysql", "mysql")}
"""Modules, and the extras that bring them."""
_EXISTING = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY(current_schemas(false))",
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
}


_ROLLED_BACK = frozenset({"40001", "40P01", 1213, 1205})
"""SQLSTATE, or MySQL's number, of what a server rolled back because of others: deadlocks, and waits that were too long.
InnoDB has deadlocks of single inserts, too. (Source: "Locks Set by Different SQL Statements in InnoDB".)"""
_MADE_MEANWHILE = frozenset({"42P07", "42710"})
"""SQLSTATE of a table, or its type, that another client has just made: ``IF NOT EXISTS`` looks first."""


class _RolledBackError(StorageError):
    """Nothing was done: it can be tried again."""


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a catalog. Each call connects anew. Copies for other processes have no password.

    Attributes:
        kind: ``sqlite``, ``postgresql`` or ``mysql``.
        arguments: those of the driver's ``connect``.
        without_password: whether this is a copy that lost one.
    """

    kind: str
    arguments: Mapping[str, Any]
    without_password: bool = False

    @classmethod
    def of(cls, uri: str, properties: Mapping[str, str]) -> Database:
        """The database of an address.

        ``properties``: of the connection, as ``jdbc.…`` options name them without that prefix: ``user``, ``password``.

        Raises:
            OptionError: an address that names none, or an unknown parameter.
            UnsupportedError: another kind of database, or one without its driver.
        """
        scheme, kind, rest = (*uri.split(":", 2), "", "")[:3]
        if scheme in _EXISTING:
            raise OptionError(f"the option uri begins with {scheme}:", hint=f"write jdbc:{scheme}: instead")
        if scheme != "jdbc" or kind not in _EXISTING:
            raise UnsupportedError(
                f"JDBC catalogs in {redact(uri).removeprefix('jdbc:').partition(':')[0][:40] or 'no database'} are not"
                " supported",
                hint="write jdbc:mysql:, by which MariaDB is reached, too, and which Java's lock wants"
                if kind == "mariadb"
                else "the option uri must be jdbc:sqlite:/path, jdbc:postgresql://host/db or jdbc:mysql://host/db;"
                " tables can be opened by their paths",
                feature="other-catalogs",
            )
        if kind == "sqlite":
            if not rest or rest.startswith((":", "file:")) or "?" in rest or "\0" in rest:
                raise OptionError(
                    f"{redact(uri)!r:.200} names no file",
                    hint="the option uri must be jdbc:sqlite:/path, without parameters",
                )
            return cls(kind, {"database": rest, "timeout": TIMEOUT_SECONDS, "isolation_level": None})
        address, _, query = rest.removeprefix("//").partition("?")
        found = _ADDRESS.fullmatch(address)
        if found is None or not rest.startswith("//"):
            raise OptionError(
                f"the option uri names no database of {kind}", hint=f"jdbc:{kind}://host:port/database; jdbc.user,"
                " jdbc.password are options of their own"
            )  # fmt: skip
        arguments = _arguments(kind, [*parse_qsl(query, keep_blank_values=True), *properties.items()])
        name = "dbname" if kind == "postgresql" else "database"
        arguments |= {"host": (found["host"] or "localhost").strip("[]"), name: unquote(found["database"])}
        port = int(found["port"] or (5432 if kind == "postgresql" else 3306))
        arguments |= {"port": port, "autocommit": True}
        if kind == "mysql":  # what PostgreSQL's driver has no arguments for, see `_ends_in_time`
            arguments |= {"read_timeout": TIMEOUT_SECONDS, "write_timeout": TIMEOUT_SECONDS}
        return cls(kind, {"connect_timeout": TIMEOUT_SECONDS, **arguments})

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {k: v for k, v in self.arguments.items() if not names_secret(k)}
        return (Database, (self.kind, kept, self.without_password or len(kept) < len(self.arguments)))

    def __repr__(self) -> str:
        return f"Database({self})"

    def __str__(self) -> str:
        """The address without secrets."""
        given = self.arguments
        if self.kind == "sqlite":
            return str(given["database"])
        return f"jdbc:{self.kind}://{given['host']}:{given['port']}/{given.get('dbname', given.get('database'))}"

    def run(self, *statements: tuple[str, Sequence[object]]) -> list[tuple[Any, ...]]:
        """The rows of the last of these statements, which happen all or not at all. Parameters stand as ``?``.
        Raises AlreadyExistsError: a row with this key is there; StorageError: the database failed, or can't be reached.
        """
        return Retry(Pauses(0.02, 0.02, jitter=0.95), 10).call(lambda: self._run(statements), _RolledBackError)

    def _run(self, statements: Sequence[tuple[str, Sequence[object]]]) -> list[tuple[Any, ...]]:
        with self._connected() as connection, closing(connection.cursor()) as cursor:
            if len(statements) > 1:
                cursor.execute("BEGIN")
            for text, values in statements:
                cursor.execute(text if self.kind == "sqlite" else text.replace("?", "%s"), tuple(values))
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            if len(statements) > 1:
                cursor.execute("COMMIT")
            return found

    def tables(self) -> set[str]:
        """The names of the tables that are there."""
        return {name for (name,) in self.run((_EXISTING[self.kind], ()))}

    def make_tables(self, tables: Mapping[str, str]) -> None:
        """Make tables that are not there; others may make them at the same time.

        ``tables``: names, and what stands between the parentheses of ``CREATE TABLE``.
        """
        there = self.tables()
        for name, columns in tables.items():
            if name not in there:
                with suppress(AlreadyExistsError):  # PostgreSQL says so to the slower of two
                    self.run((f"CREATE TABLE IF NOT EXISTS {name}({columns})", ()))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection in which each statement is a transaction."""
        if self.without_password:
            raise CommitError("this process did not get the password of the catalog: it can't commit", path=str(self))
        connect, driver = _driver(self.kind)
        begin, connected = time.monotonic(), False
        try:
            with closing(self._once_it_runs(connect, driver)) as connection, self._ends_in_time(connection):
                connected = True
                yield connection
        except driver.IntegrityError as error:
            raise_alone(AlreadyExistsError("the catalog has this row already", path=str(self)), self._cause(error))
        except driver.Error as error:
            codes = {getattr(error, "sqlstate", None), *error.args[:1]}
            if _MADE_MEANWHILE & codes:
                raise_alone(
                    AlreadyExistsError("the catalog has this table already", path=str(self)), self._cause(error)
                )
            kind, waited, hint = StorageError, time.monotonic() - begin, None
            if _ROLLED_BACK & codes:
                kind = _RolledBackError
            elif self.kind != "sqlite" and (not connected or waited >= TIMEOUT_SECONDS):
                hint = (
                    "check the address, that the server runs and answers there, and user and password;"
                    f" {waited:.0f} s were waited"
                )
            raise_alone(kind(f"the catalog's database failed ({self._cause(error)})", path=str(self), hint=hint))
        except RuntimeError as error:  # PyMySQL: this server's way to take passwords needs another package
            raise_alone(UnsupportedError(f"the database's driver can't connect: {self._cause(error)}", path=str(self)))

    @contextmanager
    def _ends_in_time(self, connection: Any) -> Iterator[None]:
        """Break a connection to PostgreSQL that is in use for too long. Its driver waits for answers without end, the
        server's ``statement_timeout`` ends nothing when the server is silent, and poolers refuse it."""
        if self.kind != "postgresql":
            yield
            return
        # A copy: the number of one that is closed may be another's by the time this one is broken.
        with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line:
            timer = threading.Timer(TIMEOUT_SECONDS, _break, (line,))
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                timer.join()

    def _once_it_runs(self, connect: Callable[..., Any], driver: Any) -> Any:
        """A connection. A server of PostgreSQL that is starting, or recovering from a crash, is waited for."""
        retry = Retry(Pauses(0.2, 0.2), seconds=TIMEOUT_SECONDS)
        while True:
            try:
                return connect(**self.arguments)
            except driver.OperationalError:
                if self.kind != "postgresql" or retry.exhausted:
                    raise
                target = {name: self.arguments[name] for name in ("host", "port", "dbname")}
                text = driver.conninfo.make_conninfo("", **target, connect_timeout=2)  # others stand still meanwhile
                if driver.pq.PGconn.ping(text.encode()) != driver.pq.Ping.REJECT:
                    raise
            retry.next()

    def _cause(self, error: Exception) -> Exception:
        """The error without what must not be shown."""
        secrets = [str(value) for key, value in self.arguments.items() if names_secret(key)]
        return type(error)(redact(" ".join(str(error).split()), secrets))


def _break(line: socket.socket) -> None:
    with suppress(OSError):  # the server was faster
        line.shutdown(socket.SHUT_RDWR)


def _driver(kind: str) -> tuple[Callable[..., Any], Any]:
    """What connects, and the driver's module. Raises UnsupportedError."""
    if kind == "sqlite":
        import sqlite3

        return sqlite3.connect, sqlite3
    name, extra = _DRIVERS[kind]
    try:
        module: Any = import_module(name)
    except ImportError:
        raise UnsupportedError(
            f"a catalog in {kind} needs the package {name}", hint=f"pip install 'paimon-pyds[{extra}]'"
        ) from None
    return module.connect, module


def _arguments(kind: str, given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    known = _PARAMETERS[kind]
    arguments: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            raise OptionError(
                f"a catalog in {kind} does not take the parameter {name:.80}", hint=suggest(name, known, "there are")
            )
        if known[name] == "ssl":
            if text.lower() not in _SSL:
                raise OptionError(f"the parameter {name} can't be {text!r:.40}", hint="DISABLED or REQUIRED")
            arguments |= {"ssl_disabled": True} if _SSL[text.lower()] else {"ssl": {"check_hostname": False}}
        elif known[name] == "connect_timeout":
            seconds = whole_number(text)
            if seconds is None or seconds < 0:
                raise OptionError(f"the parameter {name} must be a number of seconds")
            arguments["connect_timeout"] = seconds
        else:
            arguments[known[name]] = text
    return arguments
