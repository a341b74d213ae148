"""The JDBC catalog in SQLite: the rows of Java's tables, and its lock."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.catalog import Catalog, jdbc
from paimon_pyds.catalog.database import Database
from paimon_pyds.catalog.identifier import parse_identifier
from paimon_pyds.catalog.jdbc import CatalogLock
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    DatabaseNotFoundError,
    OptionError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.table import Table
from support.catalogs import SCHEMA, rows
from support.messages import ids_of
from support.side_by_side import PATIENT, append_side_by_side


def open_catalog(root: Path, **more: str) -> Catalog:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{root}/catalog.db", "warehouse": f"{root}/wh"}
    return Catalog.open(options | {name.replace("_", "-"): value for name, value in more.items()})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = open_catalog(tmp_path)
    opened.create_database("shop")
    return opened


def locking(root: Path, timeout: str = "1 min") -> Catalog:
    return open_catalog(
        root, **{"lock.enabled": "true", "lock-acquire-timeout": timeout, "lock-check-max-sleep": "20 ms"}
    )


def sql(root: Path, text: str, *values: object) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(root / "catalog.db")
    with connection:
        found = connection.execute(text, values).fetchall()
    connection.close()
    return found


def test_databases_and_tables_are_rows_as_java_keeps_them(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("shop.t", rows(1, 2))
    assert sql(tmp_path, "SELECT * FROM paimon_tables") == [("jdbc", "shop", "t")]
    assert sql(tmp_path, "SELECT * FROM paimon_database_properties ORDER BY property_key") == [
        ("jdbc", "shop", "exists", "true"),
        ("jdbc", "shop", "location", f"{tmp_path}/wh/shop.db"),
    ]
    assert (catalog.databases(), catalog.tables("shop"), ids_of(catalog.table("shop.t"))) == (["shop"], ["t"], [1, 2])
    assert open_catalog(tmp_path, catalog_key="other").databases() == []
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("shop")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    catalog.create_database("store")
    catalog.rename_table("shop.t", "store.u")
    assert (catalog.tables("shop"), ids_of(catalog.table("store.u"))) == ([], [1, 2])
    with pytest.raises(TableNotFoundError):
        catalog.table("shop.t")
    with pytest.raises(DatabaseNotFoundError):
        catalog.table("default.t")
    Table.create(tmp_path / "wh" / "shop.db" / "unnamed", SCHEMA)
    with pytest.raises(TableNotFoundError):
        catalog.table("shop.unnamed")
    assert catalog.exists("store.u") and not catalog.exists("shop.unnamed") and not catalog.exists("default.t")
    catalog.drop_table("store.u")
    assert (catalog.tables("store"), sql(tmp_path, "SELECT * FROM paimon_tables")) == ([], [])
    catalog.drop_database("store")
    assert catalog.databases() == ["shop"]


@pytest.mark.parametrize(("writers", "commits"), [(4, 3), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side_hold_the_lock(catalog: Catalog, tmp_path: Path, writers: int, commits: int) -> None:
    catalog.create_table("shop.t", SCHEMA, options=PATIENT)
    append_side_by_side(lambda: locking(tmp_path).table("shop.t"), rows, writers, commits)
    table = catalog.table("shop.t")
    assert (ids_of(table), len(table.snapshots.list())) == (list(range(writers * commits)), writers * commits)
    assert sql(tmp_path, "SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.parametrize("seconds", ["soon", 2.5, b"\xff"])
def test_a_lock_with_a_value_of_another_type(catalog: Catalog, tmp_path: Path, seconds: object) -> None:
    catalog.create_table("shop.t", SCHEMA)
    table = locking(tmp_path, "1 s").table("shop.t")
    insert = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.shop.t', '2999-01-01 00:00:00', ?)"
    sql(tmp_path, insert, seconds)
    with pytest.raises(StorageError, match=r"jdbc\.shop\.t has no whole number of seconds.*remove its row"):
        table.append(rows(1))
    assert ids_of(table) == []


def test_a_lock_that_another_holds(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("shop.t", SCHEMA)
    table, impatient = (locking(tmp_path, wait).table("shop.t") for wait in ("1 min", "1 s"))
    insert = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.shop.t', {}, 480)"
    sql(tmp_path, insert.format("CURRENT_TIMESTAMP"))
    with pytest.raises(CommitError, match=r"jdbc\.shop\.t was not free"):
        impatient.append(rows(1))
    with pytest.raises(CommitError, match=r"jdbc\.shop\.t was not free"):
        impatient.alter(add_columns={"n": "INT"})
    left = [path for path in Path(table.path).rglob("*") if path.is_file() and path.name != "schema-0"]
    assert (left, ids_of(table)) == ([], [])
    assert len(sql(tmp_path, "SELECT * FROM paimon_distributed_locks")) == 1
    sql(tmp_path, "DELETE FROM paimon_distributed_locks")
    sql(tmp_path, insert.format("datetime('now', '-500 seconds')"))
    table.append(rows(1))
    assert table.alter(add_columns={"n": "INT"}).id == 1
    assert (ids_of(table), sql(tmp_path, "SELECT * FROM paimon_distributed_locks")) == ([1], [])


def test_a_database_that_fails_after_the_snapshot_is_published(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.create_table("shop.t", SCHEMA)
    table = locking(tmp_path).table("shop.t")
    sql(
        tmp_path,
        "CREATE TRIGGER no_release BEFORE DELETE ON paimon_distributed_locks BEGIN SELECT RAISE(FAIL, 'broken'); END",
    )
    table.append(rows(1))
    assert ids_of(table) == [1]
    assert "stays until it expires" in caplog.text


def test_a_release_that_fails_in_the_driver_keeps_what_is_published(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_table("shop.t", SCHEMA)
    table = locking(tmp_path).table("shop.t")
    remove = CatalogLock._remove

    def fail(lock: CatalogLock, condition: str, *values: object) -> None:
        if condition == "acquired_at = ?":
            raise RuntimeError("the driver is broken")
        remove(lock, condition, *values)

    monkeypatch.setattr(CatalogLock, "_remove", fail)
    table.append(rows(1))
    assert ids_of(catalog.table("shop.t")) == [1]


def test_a_lock_that_expired_is_anothers(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who held it releases nothing of the next one, and learns that it has expired."""
    lock = locking(tmp_path)._backend._lock(parse_identifier("shop.t"))  # type: ignore[attr-defined]
    now = jdbc._now()
    with lock.held() as held, lock.held() as again:
        assert held() and again()
        monkeypatch.setattr(jdbc, "_now", lambda: now + 61)
        assert not held() and not again()
        sql(tmp_path, "UPDATE paimon_distributed_locks SET acquired_at = '2040-01-01 00:00:00'")
    assert sql(tmp_path, "SELECT lock_id FROM paimon_distributed_locks") == [("jdbc.shop.t",)]
    sql(tmp_path, "DELETE FROM paimon_distributed_locks")
    with pytest.raises(KeyboardInterrupt), lock.held():
        raise KeyboardInterrupt  # what was sent may still arrive
    assert len(sql(tmp_path, "SELECT lock_id FROM paimon_distributed_locks")) == 1


def test_names_and_files_stay_together(catalog: Catalog, tmp_path: Path) -> None:
    """When the database refuses a name, or its answer is lost, there are no files without a name, and the other way."""
    catalog.create_table("shop.t", rows(1))
    sql(tmp_path, "CREATE UNIQUE INDEX as_mysql ON paimon_tables(table_name COLLATE NOCASE)")
    with pytest.raises(AlreadyExistsError, match=r"shop\.T is the name of another table"):
        catalog.create_table("shop.T", SCHEMA)
    catalog.create_table("shop.u", rows(2))
    with pytest.raises(AlreadyExistsError, match=r"shop\.T is the name of another table"):
        catalog.rename_table("shop.u", "T")
    assert sorted(path.name for path in (tmp_path / "wh" / "shop.db").iterdir()) == ["t", "u"]
    assert (ids_of(catalog.table("shop.t")), ids_of(catalog.table("shop.u"))) == ([1], [2])
    shutil.rmtree(tmp_path / "wh" / "shop.db" / "u")
    catalog.drop_table("shop.u")
    assert catalog.tables("shop") == ["t"]
    Table.create(tmp_path / "wh" / "shop.db" / "v", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="does not name"):
        catalog.create_table("shop.v", SCHEMA)
    assert catalog.repair_table("shop.v").count() == catalog.repair_table("shop.v").count() == 0
    assert catalog.tables("shop") == ["t", "v"]
    with pytest.raises(TableNotFoundError, match="has no table w"):
        catalog.repair_table("shop.w")


def test_an_answer_of_the_database_that_is_lost(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Database.run

    def lost(database: Database, *statements: tuple[str, Sequence[object]]) -> list[tuple[Any, ...]]:
        found = run(database, *statements)
        if statements[0][0].startswith(("INSERT INTO paimon_tables", "UPDATE")):
            raise StorageError("the connection broke")
        return found

    monkeypatch.setattr(Database, "run", lost)
    catalog.create_table("shop.t", rows(1))
    catalog.rename_table("shop.t", "u")
    assert ids_of(catalog.table("shop.u")) == [1] and catalog.tables("shop") == ["u"]


def test_options_that_name_no_database(tmp_path: Path) -> None:
    for uri in ("jdbc:oracle://u:canary@h/db", "jdbc:mariadb://h/db", "file:x", ""):
        with pytest.raises(UnsupportedError) as caught:
            Catalog.open({"metastore": "jdbc", "uri": uri, "warehouse": str(tmp_path)})
        assert "canary" not in str(caught.value)
        assert ("write jdbc:mysql:" in str(caught.value)) == ("mariadb" in uri)
    with pytest.raises(OptionError):
        Catalog.open({"metastore": "jdbc", "uri": "jdbc:sqlite:x"})
    for name in ("", ":memory:", "file:x.db", f"{tmp_path}/x.db?busy_timeout=1", f"{tmp_path}/\0"):
        with pytest.raises(OptionError, match="names no file"):
            Catalog.open({"metastore": "jdbc", "uri": f"jdbc:sqlite:{name}", "warehouse": str(tmp_path)})
    for uri, told in (
        ("jdbc:postgresql://u:canary@h/db", "names no database"),
        ("postgresql://u:canary@h/db", "begins with postgresql:.*write jdbc:postgresql:"),
        ("jdbc:mysql:h", "names no database"),
        ("jdbc:postgresql://h/db?sslmod=canary", "did you mean sslmode"),
        ("jdbc:mysql://h/db?useSSL=canaries", "can't be"),
        ("jdbc:postgresql://h/db?connectTimeout=soon", "seconds"),
    ):
        with pytest.raises(OptionError, match=told) as refused:
            Catalog.open({"metastore": "jdbc", "uri": uri, "warehouse": str(tmp_path)})
        assert "canary" not in str(refused.value)
    with pytest.raises(OptionError, match="did you mean user"):
        Database.of("jdbc:mysql://h/db", {"usr": "x"})
    with pytest.raises(OptionError, match="lock-acquire-timeout must be"):
        locking(tmp_path, "soon")
    assert not list(tmp_path.iterdir())
    (tmp_path / "bad").write_text("no database at all, but long enough to have a header of its own" * 9)
    with pytest.raises(StorageError, match="database failed"):
        Catalog.open({"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/bad", "warehouse": str(tmp_path)})


def test_addresses_of_databases() -> None:
    postgres = Database.of(
        "jdbc:postgresql://[::1]:6000/my%20db?user=u&password=hush&sslmode=require&connectTimeout=5",
        {"password": "hush!"},
    )
    assert dict(postgres.arguments) == {
        "host": "::1", "port": 6000, "dbname": "my db", "user": "u", "password": "hush!", "sslmode": "require",
        "connect_timeout": 5, "autocommit": True,
    }  # fmt: skip
    mysql = Database.of("jdbc:mysql://h/db?useSSL=false", {"user": "u"})
    assert (mysql.arguments["host"], mysql.arguments["port"], mysql.arguments["ssl_disabled"]) == ("h", 3306, True)
    copy = pickle.loads(pickle.dumps(postgres))
    assert b"hush" not in pickle.dumps(postgres) and "hush" not in repr(postgres)
    with pytest.raises(CommitError, match="did not get the password"):
        copy.run(("SELECT 1", ()))


def test_a_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, module in (("postgresql", "psycopg"), ("mysql", "pymysql")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UnsupportedError, match=r"pip install 'paimon-pyds\["):
            Database.of(f"jdbc:{kind}://h/db", {}).run(("SELECT 1", ()))


@pytest.mark.parametrize("locks", [False, True])
def test_a_table_whose_first_rows_fail_is_taken_away_again(tmp_path: Path, locks: bool) -> None:
    catalog = locking(tmp_path) if locks else open_catalog(tmp_path)
    catalog.create_database("shop")
    with pytest.raises(SchemaError, match="NOT NULL"):
        catalog.create_table("shop.t", {"id": [1, None]}, primary_key="id")
    assert catalog.tables("shop") == []
    assert not list(tmp_path.rglob("schema-0"))
    assert catalog.create_table("shop.t", {"id": [1]}, primary_key="id").count() == 1

    def taken(after: str) -> Any:
        yield pa.table({"id": [1]})
        catalog.table(after).append({"id": [7]})
        yield pa.table({"id": ["x"]})

    with pytest.raises(SchemaError, match="column id is string"):
        catalog.create_table("shop.u", taken("shop.u"))
    assert catalog.table("shop.u").count() == 1


_VIEWS = (
    "CREATE TABLE paimon_views(catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, "
    "view_name VARCHAR(255) NOT NULL, view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key, database_name, view_name))"
)
"""As Java Paimon 2 makes it."""


def _view(root: Path, database: str, name: str, key: str = "jdbc") -> None:
    sql(root, "INSERT INTO paimon_views VALUES (?, ?, ?, ?)", key, database, name, "{}")


def test_views(catalog: Catalog, tmp_path: Path) -> None:
    """Their names are taken, and databases of views only are databases, also where they are made later."""
    catalog.create_table("shop.t", rows(1))
    assert (catalog.views("shop"), catalog.databases()) == ([], ["shop"])
    sql(tmp_path, _VIEWS)
    for database, name in (("shop", "v"), ("looks", "w"), ("looks", "a")):
        _view(tmp_path, database, name)
    _view(tmp_path, "shop", "of another", key="other")
    assert catalog.databases() == ["looks", "shop"]
    assert (catalog.tables("looks"), catalog.views("looks"), catalog.views("shop")) == ([], ["a", "w"], ["v"])
    with pytest.raises(AlreadyExistsError, match=r"shop\.v is a view.*another name"):
        catalog.create_table("shop.v", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"looks\.w is a view"):
        catalog.rename_table("shop.t", "looks.w")
    with pytest.raises(AlreadyExistsError, match="database looks already exists"):
        catalog.create_database("looks")
    catalog.create_database("looks", ignore_if_exists=True)
    for refused in (lambda: catalog.table("shop.v"), lambda: catalog.drop_table("shop.v")):
        with pytest.raises(TableNotFoundError, match=r"shop\.v is a view, not a table"):
            refused()
    assert not (tmp_path / "wh" / "shop.db" / "v").exists()
    for name, there in (("looks", "2 views"), ("shop", "1 table and 1 view")):
        with pytest.raises(OptionError, match=f"database {name} is not empty: it has {there}"):
            catalog.drop_database(name)
    catalog.drop_database("shop", cascade=True)
    assert catalog.databases() == ["looks"]
    assert sql(tmp_path, "SELECT view_name FROM paimon_views WHERE database_name = 'shop'") == [("of another",)]
    catalog.drop_database("looks", cascade=True)
    assert catalog.databases() == []
    with pytest.raises(DatabaseNotFoundError):
        catalog.views("looks")


@pytest.mark.parametrize("value", [5, 2.5, b"\xff", None])
def test_names_that_are_no_text(catalog: Catalog, tmp_path: Path, value: object) -> None:
    """SQLite takes any value in any column, where the table does not say NOT NULL."""
    catalog.create_table("shop.t", rows(1))
    for table in ("paimon_tables", "paimon_database_properties"):
        (text,) = sql(tmp_path, "SELECT sql FROM sqlite_master WHERE name = ?", table)[0]
        sql(tmp_path, f"ALTER TABLE {table} RENAME TO old_{table}")
        sql(tmp_path, str(text).replace("VARCHAR(255) NOT NULL", "BLOB"))
        sql(tmp_path, f"INSERT INTO {table} SELECT * FROM old_{table}")
    sql(tmp_path, "INSERT INTO paimon_tables VALUES ('jdbc', 'shop', ?)", value)
    calls = [lambda: catalog.tables("shop"), lambda: catalog.table("shop.t"), lambda: catalog.drop_table("shop.t")]
    for call in calls:
        with pytest.raises(StorageError, match=r"a name that is no text.*mend or remove that row"):
            call()
    sql(tmp_path, "DELETE FROM paimon_tables WHERE database_name = 'shop'")
    sql(tmp_path, "INSERT INTO paimon_database_properties VALUES ('jdbc', ?, 'exists', 'true')", value)
    for call in (catalog.databases, lambda: catalog.create_database("u"), lambda: catalog.drop_database("shop")):
        with pytest.raises(StorageError, match="a name that is no text"):
            call()
