from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.catalog import Catalog
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    DatabaseNotFoundError,
    OptionError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.store import TableStore
from support.fixtures import DEV, requires_shared

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(tmp_path / "wh")
    made.create_database("shop")
    return made


def test_databases(catalog: Catalog) -> None:
    assert catalog.databases() == ["default", "shop"]
    assert os.path.isdir(f"{catalog.warehouse}/shop.db")
    with pytest.raises(AlreadyExistsError, match="database shop"):
        catalog.create_database("shop")
    catalog.create_database("shop", ignore_if_exists=True)
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("default")
    for name in ("", "a/b", "..", "sys", "a$b"):
        with pytest.raises(OptionError):
            catalog.create_database(name)
    catalog.drop_database("shop")
    assert catalog.databases() == ["default"]
    with pytest.raises(DatabaseNotFoundError):
        catalog.drop_database("shop")
    catalog.drop_database("shop", ignore_if_not_exists=True)
    with pytest.raises(OptionError, match="can't be dropped"):
        catalog.drop_database("default")


def test_a_database_with_tables_is_dropped_on_purpose_only(catalog: Catalog) -> None:
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(OptionError, match=r"not empty.*cascade"):
        catalog.drop_database("shop")
    assert catalog.tables("shop") == ["t"]
    catalog.drop_database("shop", cascade=True)
    assert catalog.databases() == ["default"] and not os.path.exists(f"{catalog.warehouse}/shop.db")


def test_tables(catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.orders", SCHEMA, partition_by=["name"], options={"write-only": "true"}, comment="c"
    )
    assert table.path == f"{catalog.warehouse}/shop.db/orders" == catalog.path("shop.orders")
    assert (table.partition_by, table.options, table.schema.comment) == (("name",), {"write-only": "true"}, "c")
    catalog.create_table("plain", SCHEMA)
    os.makedirs(f"{catalog.warehouse}/shop.db/not_a_table/schema")
    Path(f"{catalog.warehouse}/shop.db/file").touch()
    assert catalog.tables("shop") == ["orders"] and catalog.tables() == ["plain"] == catalog.tables("default")
    assert catalog.table("shop.orders").schema == table.schema == catalog.table("`shop`.`orders`").schema
    with pytest.raises(AlreadyExistsError, match=r"shop\.orders"):
        catalog.create_table("shop.orders", SCHEMA)
    assert catalog.create_table("shop.orders", SCHEMA, ignore_if_exists=True).schema == table.schema


def test_which_tables_exist(catalog: Catalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.branches.create("b")
    catalog.create_table("plain", SCHEMA)
    found = {name: catalog.exists(name) for name in ("shop.orders", "plain", "default.plain", "`shop`.`orders`")}
    assert all(found.values())
    assert catalog.exists("shop.orders$branch_b") and not catalog.exists("shop.orders$branch_c")
    for name in ("shop.order", "orders", "nowhere.orders", "shop"):
        assert not catalog.exists(name)
    assert not Catalog(f"{catalog.warehouse}/none").exists("shop.orders")
    for name in ("shop.orders$files", "sys.tables"):
        with pytest.raises(UnsupportedError, match="system table"):
            catalog.exists(name)
    with pytest.raises(OptionError):
        catalog.exists("a/b")


def test_what_is_missing_is_named_with_what_is_near(catalog: Catalog) -> None:
    catalog.create_table("shop.orders", SCHEMA)
    calls: list[Any] = [catalog.table, catalog.drop_table, lambda n: catalog.rename_table(n, "x"), catalog.alter_table]
    for call in calls:
        with pytest.raises(TableNotFoundError, match=r"no table order.*did you mean orders"):
            call("shop.order")
        with pytest.raises(DatabaseNotFoundError, match=r"no database 'shp'.*did you mean shop"):
            call("shp.orders")
    with pytest.raises(DatabaseNotFoundError):
        catalog.tables("shp")
    with pytest.raises(DatabaseNotFoundError):
        catalog.create_table("shp.orders", SCHEMA)
    with pytest.raises(DatabaseNotFoundError):
        catalog.rename_table("shop.orders", "shp.orders")
    catalog.drop_table("shop.order", ignore_if_not_exists=True)
    catalog.drop_table("shp.order", ignore_if_not_exists=True)
    with pytest.raises(BranchNotFoundError, match="no branch 'b'"):
        catalog.table("shop.orders$branch_b")
    with pytest.raises(UnsupportedError, match="system table"):
        catalog.table("shop.orders$files")


def test_a_warehouse_that_is_not_there(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "nowhere")
    for listed, found in ((catalog.databases, ["default"]), (catalog.tables, [])):
        with pytest.warns(UserWarning, match=r"no database is at .*/nowhere: nothing is there") as seen:
            assert listed() == found
        assert seen[0].filename == __file__
    with pytest.raises(DatabaseNotFoundError, match="nothing is there; the first database or table makes it"):
        catalog.table("a.b")
    assert not (tmp_path / "nowhere").exists()
    catalog.create_table("t", SCHEMA)
    assert catalog.tables() == ["t"] and catalog.databases() == ["default"]


def test_a_catalog_pickles_and_warns_where_its_default_database_is_empty(catalog: Catalog) -> None:
    assert not hasattr(catalog, "nonsense") and pickle.loads(pickle.dumps(catalog)).databases() == ["default", "shop"]
    with pytest.warns(UserWarning, match=r"default has no table: name another one, such as tables\('shop'\)") as seen:
        assert catalog.tables() == []
    assert seen[0].filename == __file__


def test_a_warehouse_that_is_something_else(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    (tmp_path / "empty").mkdir()
    assert Catalog(tmp_path / "empty").databases() == ["default"]  # a new one
    of_parts = {
        table.path: "this is a table",
        os.path.dirname(table.path): f"this is a database, and its warehouse is {catalog.warehouse}$",
        str(tmp_path): r"no directory in it is a database, named NAME\.db",
    }
    for path, hint in of_parts.items():
        with pytest.warns(UserWarning, match=hint):
            Catalog(path).databases()


def test_rename(catalog: Catalog) -> None:
    catalog.create_table("shop.a", SCHEMA)
    catalog.create_table("shop.b", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"shop\.b"):
        catalog.rename_table("shop.a", "shop.b")
    catalog.rename_table("shop.a", "c")
    assert catalog.tables("shop") == ["b", "c"]
    catalog.rename_table("shop.c", "default.d")
    assert catalog.tables("shop") == ["b"] and catalog.tables() == ["d"]
    for name in ("shop.x$branch_b", "shop.x$files", "a/b"):
        with pytest.raises(OptionError):
            catalog.rename_table("shop.b", name)


def test_drop(catalog: Catalog) -> None:
    catalog.create_table("shop.a", SCHEMA)
    for name in ("shop.a$branch_b", "shop.a$files"):
        with pytest.raises(OptionError, match="name the table, a"):
            catalog.drop_table(name)
    catalog.drop_table("shop.a")
    assert catalog.tables("shop") == [] and not os.path.exists(catalog.path("shop.a"))


def test_dropping_takes_tables_only(catalog: Catalog) -> None:
    directory = Path(catalog.warehouse) / "shop.db" / "precious"
    directory.mkdir()
    (directory / "data").touch()
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("shop.precious")
    assert (directory / "data").exists()


def test_alter(catalog: Catalog) -> None:
    catalog.create_table("shop.a", SCHEMA)
    schema = catalog.alter_table("shop.a", set_options={"write-only": "true"}, add_columns={"n": "INT"})
    assert schema == catalog.table("shop.a").schema and schema.field_names == ("id", "name", "n")
    with pytest.raises(SchemaError):
        catalog.alter_table("shop.a", drop_columns=["nope"])


def test_names_with_dots_and_signs(catalog: Catalog) -> None:
    catalog.create_database("a.b")
    catalog.create_table("`a.b`.`t.é 1`", SCHEMA)
    assert catalog.tables("a.b") == ["t.é 1"] and catalog.table("`a.b`.`t.é 1`").schema.field_names == ("id", "name")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, {"s3.secret-key": "hush"})
    assert repr(catalog) == f"Catalog({str(tmp_path)!r})"
    assert Catalog("s3://bucket/wh", {"s3.secret-key": "hush"}).warehouse == "s3://bucket/wh"
    assert "hush" not in repr(Catalog("s3://bucket/wh", {"s3.secret-key": "hush"}))
    assert pickle.loads(pickle.dumps(catalog)).warehouse == str(tmp_path)


@requires_shared
def test_a_warehouse_of_java(tmp_path: Path) -> None:
    assert DEV is not None
    shutil.copytree(DEV / "tags_branches" / "table", tmp_path / "wh")
    catalog = Catalog(f"file://{tmp_path}/wh")
    assert catalog.databases() == ["db", "default"] and catalog.tables("db") == ["t"]
    assert (
        len(catalog.table("db.t").snapshots.list()) == 3 and len(catalog.table("db.t$branch_b1").snapshots.list()) == 2
    )
    assert catalog.table("db.t$branch_empty").snapshots.list() == []
    with pytest.raises(BranchNotFoundError, match="branches: b1, empty"):
        catalog.table("db.t$branch_x")
    catalog.rename_table("db.t", "u")
    assert TableStore.open(catalog.path("db.u")).latest_snapshot_id() == 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"warehouse": "/wh", "warehous": "q"}, r"unknown option 'warehous' — did you mean warehouse\?"),
        ({"warehouse": "/wh", "uri": "http://h"}, "has no option uri — the option metastore"),
        (
            {"metastor": "rest", "uri": "http://h", "token": "x"},
            r"unknown option 'metastor' — did you mean metastore\?",
        ),
        ({"metastore": "jdbc", "lock.enable": "true"}, r"unknown option 'lock.enable' — did you mean lock\.enabled"),
        ({"warehouse": "/wh", "foo": "x"}, "unknown option 'foo' — there are: metastore, warehouse, and the options"),
        ({"warehouse": "/wh", "s3.acces-key": "x"}, "unknown option 's3.acces-key' — did you mean s3.access-key"),
        ({"warehouse": "/wh", "uri": 5}, "the option uri must be a text"),
    ],
)
def test_options_that_no_catalog_has(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        Catalog.open(options)


def test_a_table_whose_first_rows_fail_is_taken_away_again(catalog: Catalog) -> None:
    with pytest.raises(SchemaError, match="NOT NULL"):
        catalog.create_table("shop.t", {"id": [1, None]}, primary_key="id")
    assert catalog.tables("shop") == []
    assert catalog.create_table("shop.t", {"id": [1]}, primary_key="id").count() == 1
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", {"id": [1, None]}, primary_key="id")
    assert catalog.table("shop.t").count() == 1
