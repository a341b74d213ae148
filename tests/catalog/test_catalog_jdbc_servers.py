"""The JDBC catalog in PostgreSQL and MariaDB (by MySQL's protocol)."""

from __future__ import annotations

import pickle
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.catalog import Catalog
from paimon_pyds.catalog import database as module
from paimon_pyds.catalog.database import Database
from paimon_pyds.errors import AlreadyExistsError, CommitError, OptionError, StorageError, TableNotFoundError
from paimon_pyds.table import Table
from support.catalogs import SCHEMA, rows
from support.effort import sampled
from support.messages import ids_of
from support.servers import PASSWORD
from support.side_by_side import PATIENT, append_side_by_side

LOCK = {"lock.enabled": "true", "lock-acquire-timeout": "1 min", "lock-check-max-sleep": "100 ms"}


@pytest.fixture(params=sampled(["postgres", "mariadb"], 1))
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    pytest.importorskip({"postgres": "psycopg", "mariadb": "pymysql"}[request.param])
    found = request.getfixturevalue(request.param)
    return {**found, "warehouse": str(tmp_path / "wh"), "catalog-key": f"k{uuid.uuid4().hex[:8]}"}


def sql(options: dict[str, str], text: str, *values: object) -> list[tuple[Any, ...]]:
    return database(options).run((text, values))


def database(options: dict[str, str]) -> Database:
    properties = {k.removeprefix("jdbc."): v for k, v in options.items() if k.startswith("jdbc.")}
    return Database.of(options["uri"], properties)


def test_databases_and_tables(options: dict[str, str]) -> None:
    catalog = Catalog.open(options)
    key = options["catalog-key"]
    catalog.create_database("shop")
    catalog.create_table("shop.t", rows(1, 2))
    where = "FROM paimon_database_properties WHERE catalog_key = ?"
    assert sql(options, "SELECT * FROM paimon_tables WHERE catalog_key = ?", key) == [(key, "shop", "t")]
    assert sql(options, f"SELECT property_value {where} AND property_key = 'location'", key) == [
        (f"{options['warehouse']}/shop.db",)
    ]
    assert (catalog.databases(), catalog.tables("shop"), ids_of(catalog.table("shop.t"))) == (["shop"], ["t"], [1, 2])
    assert Catalog.open(options | {"catalog-key": "other"}).databases() == []
    for again in (lambda: catalog.create_database("shop"), lambda: catalog.create_table("shop.t", SCHEMA)):
        with pytest.raises(AlreadyExistsError):
            again()
    catalog.create_database("it's")
    catalog.rename_table("shop.t", "it's.u")
    assert (catalog.tables("shop"), ids_of(catalog.table("it's.u"))) == ([], [1, 2])
    with pytest.raises(TableNotFoundError):
        catalog.table("shop.t")
    catalog.drop_table("it's.u")
    catalog.drop_database("it's")
    assert catalog.databases() == ["shop"]
    assert PASSWORD not in repr(catalog) + repr(catalog.__dict__)


def test_views(options: dict[str, str]) -> None:
    """As Java Paimon 2 keeps them: their names are taken, and they go with their database."""
    catalog, key = Catalog.open(options), options["catalog-key"]
    catalog.create_database("shop")
    catalog.create_table("shop.t", rows(1))
    assert catalog.views("shop") == []
    names = "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, view_name VARCHAR(255) NOT NULL"
    keys = "PRIMARY KEY (catalog_key, database_name, view_name)"
    sql(options, f"CREATE TABLE IF NOT EXISTS paimon_views({names}, view_schema TEXT NOT NULL, {keys})")
    try:
        for database, name in (("shop", "v"), ("looks", "w")):
            sql(options, "INSERT INTO paimon_views VALUES (?, ?, ?, ?)", key, database, name, "{}")
        assert (catalog.databases(), catalog.views("looks"), catalog.tables("shop")) == (
            ["looks", "shop"],
            ["w"],
            ["t"],
        )
        for refused in (
            lambda: catalog.create_table("shop.v", SCHEMA),
            lambda: catalog.rename_table("shop.t", "shop.v"),
        ):
            with pytest.raises(AlreadyExistsError, match=r"shop\.v is a view"):
                refused()
        with pytest.raises(OptionError, match="it has 1 view"):
            catalog.drop_database("looks")
        for name in ("shop", "looks"):
            catalog.drop_database(name, cascade=True)
        assert sql(options, "SELECT * FROM paimon_views WHERE catalog_key = ?", key) == []
    finally:
        sql(options, "DROP TABLE paimon_views")


@pytest.mark.parametrize(("writers", "commits"), [(3, 2), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side_hold_the_lock(options: dict[str, str], writers: int, commits: int) -> None:
    catalog = Catalog.open(options)
    catalog.create_database("shop")
    catalog.create_table("shop.t", SCHEMA, options=PATIENT)
    append_side_by_side(lambda: Catalog.open(options | LOCK).table("shop.t"), rows, writers, commits)
    table = catalog.table("shop.t")
    assert (ids_of(table), len(table.snapshots.list())) == (list(range(writers * commits)), writers * commits)
    assert (
        sql(options, "SELECT * FROM paimon_distributed_locks WHERE lock_id LIKE ?", f"{options['catalog-key']}%") == []
    )


@pytest.mark.parametrize("written", ["hours ago", "hours ahead"])
def test_a_lock_that_another_holds(options: dict[str, str], written: str) -> None:
    """The time of a lock may be that of another time zone: PostgreSQL's type has none."""
    catalog = Catalog.open(options | LOCK)
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", SCHEMA)
    impatient = Catalog.open(options | LOCK | {"lock-acquire-timeout": "300 ms"}).table("shop.t")
    sign = "-" if written == "hours ago" else "+"
    now = f"now() {sign} interval '9' hour" if "postgresql" in options["uri"] else "now()"
    name = f"{options['catalog-key']}.shop.t"
    sql(options, f"INSERT INTO paimon_distributed_locks VALUES (?, {now}, 480)", name)
    with pytest.raises(CommitError, match="was not free"):
        impatient.append(rows(1))
    assert (
        ids_of(table) == [] and len(sql(options, "SELECT 1 FROM paimon_distributed_locks WHERE lock_id = ?", name)) == 1
    )
    sql(options, "UPDATE paimon_distributed_locks SET expire_time_seconds = 0 WHERE lock_id = ?", name)
    table.append(rows(1))  # nobody renewed it for as long as it holds
    assert ids_of(table) == [1]
    assert sql(options, "SELECT 1 FROM paimon_distributed_locks WHERE lock_id = ?", name) == []


def test_passwords_stay_where_they_are(options: dict[str, str]) -> None:
    catalog = Catalog.open(options | LOCK)
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", rows(1))
    sent = pickle.dumps(table._store)
    assert PASSWORD.encode() not in sent
    task = Table(pickle.loads(sent))
    assert ids_of(task) == [1]
    with pytest.raises(CommitError, match="password of the catalog"):
        task.append(rows(2))
    with pytest.raises(StorageError, match="database failed") as caught:
        Catalog.open(options | {"jdbc.password": "canary-canary"})
    assert "canary" not in str(caught.value) and PASSWORD not in str(caught.value)
    nobody = options["uri"].replace(options["uri"].split(":")[-1], "1/shop")
    with pytest.raises(StorageError, match="database failed"):
        Catalog.open(options | {"uri": nobody})


def test_tables_that_another_makes_meanwhile(postgres: dict[str, str]) -> None:
    """PostgreSQL looks for the table, then finds the type that belongs to the other one: here it is alone."""
    pytest.importorskip("psycopg")
    sql(postgres, "CREATE TYPE made_meanwhile AS ENUM ()")
    with pytest.raises(AlreadyExistsError):
        sql(postgres, "CREATE TABLE IF NOT EXISTS made_meanwhile(a INT)")
    database(postgres).make_tables({"made_meanwhile": "a INT"})
    sql(postgres, "DROP TYPE made_meanwhile")


_TURNS_AWAY = """
import socket, struct
said = b"SFATAL\\0VFATAL\\0C57P03\\0Mthe database system is starting up\\0\\0"
encryption = {struct.pack("!i", code) for code in (80877103, 80877104)}  # what clients ask for first: TLS, GSSAPI
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
for _ in range(4):  # connections, and questions whether the server runs, by turns
    with listening.accept()[0] as connection:
        while connection.recv(1000)[4:8] in encryption:
            connection.sendall(b"N")
        connection.sendall(b"E" + struct.pack("!i", len(said) + 4) + said)
"""
"""A server of PostgreSQL that is recovering, and gone afterwards."""


@pytest.mark.parametrize("patience", [60, 0])
def test_a_server_that_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch, patience: int) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", patience)
    with subprocess.Popen([sys.executable, "-c", _TURNS_AWAY], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        there = Database.of(f"jdbc:postgresql://127.0.0.1:{server.stdout.readline().strip()}/x", {})
        with pytest.raises(StorageError, match="refused" if patience else "starting up"):
            there.run(("SELECT 1", ()))
        assert patience == 0 or server.wait(30) == 0
        server.kill()


@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """MySQL's does not even greet; PostgreSQL's takes the user, and is silent afterwards."""
    pytest.importorskip({"postgresql": "psycopg", "mysql": "pymysql"}[kind])
    listening = socket.create_server(("127.0.0.1", 0))
    there = f"jdbc:{kind}://127.0.0.1:{listening.getsockname()[1]}/x"
    accepted: list[socket.socket] = []

    def greet() -> None:
        accepted.append(listening.accept()[0])
        while accepted[0].recv(1000)[4:8] in {struct.pack("!i", code) for code in (80877103, 80877104)}:
            accepted[0].sendall(b"N")
        accepted[0].sendall(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")

    thread = threading.Thread(target=greet if kind == "postgresql" else list)
    thread.start()
    if kind == "mysql":
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    database = Database.of(there, {"user": "a", "password": "hush"})
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(StorageError, match=r"that the server runs and answers there.*0 s were waited"):
        database.run(("SELECT 1", ()))
    thread.join()
    for held in (listening, *accepted):
        held.close()


def test_a_server_that_refuses_connections() -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        there = f"jdbc:postgresql://127.0.0.1:{nobody.getsockname()[1]}/x"
    with pytest.raises(StorageError, match=r"refused.*check the address"):
        Database.of(there, {}).run(("SELECT 1", ()))


@pytest.mark.parametrize("fails", [3, 99])
def test_what_the_server_rolled_back_is_tried_again(monkeypatch: pytest.MonkeyPatch, fails: int) -> None:
    """InnoDB has deadlocks of single inserts, where a row of the same key was removed just before."""
    driver = pytest.importorskip("pymysql")
    left = [driver.err.OperationalError(1213, "Deadlock found when trying to get lock")] * fails

    class Cursor(sqlite3.Cursor):
        def execute(self, text: str, values: tuple[object, ...] = ()) -> Cursor:  # type: ignore[override]
            if left:
                raise left.pop()
            super().execute(text, values)
            return self

    class Connection(sqlite3.Connection):
        def cursor(self) -> Cursor:  # type: ignore[override]
            return super().cursor(Cursor)

    monkeypatch.setattr(
        module, "_driver", lambda kind: (lambda **_: sqlite3.connect(":memory:", factory=Connection), driver)
    )
    found = Database.of("jdbc:mysql://h/db", {})
    if fails == 3:
        assert found.run(("SELECT 7", ())) == [(7,)] and not left
    else:
        with pytest.raises(StorageError, match="Deadlock found"):
            found.run(("SELECT 7", ()))
