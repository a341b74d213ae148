"""Tables by their names in a catalog, which a config file or the environment describes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.catalog.config import catalog_options
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, SecurityError
from support.rest_catalog import TOKEN, rest_catalog


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PAIMON_PYDS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    def written(text: str, mode: int = 0o600) -> Path:
        file = tmp_path / "config" / "paimon-pyds.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    return written


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def result(*arguments: str, status: int = 0) -> str:
        assert main(arguments) == status, capsys.readouterr().err
        captured = capsys.readouterr()
        assert TOKEN not in captured.out + captured.err
        return captured.err if status else captured.out

    return result


def sqlite(tmp_path: Path) -> str:
    uri, warehouse = f"jdbc:sqlite:{tmp_path}/catalog.db", tmp_path / "wh"
    return f'[catalogs.local]\nmetastore = "jdbc"\nuri = "{uri}"\nwarehouse = "{warehouse}"\n"lock.enabled" = true\n'


@pytest.mark.parametrize("kind", ["rest", "jdbc"])
def test_all_commands(tmp_path: Path, config, run, monkeypatch, kind: str) -> None:
    with rest_catalog(tmp_path / "rest") as server:
        rest = f'[catalogs.local]\nmetastore = "rest"\nuri = "{server.address}"\ntoken = "{TOKEN}"\n'
        config(rest if kind == "rest" else sqlite(tmp_path))
        run("create-database", "shop", "--catalog", "local")
        monkeypatch.setenv("PAIMON_PYDS_CATALOG", "local")
        run("create", "shop.orders", "id INT, name STRING")
        (tmp_path / "rows.csv").write_text("id,name\n1,a\n2,b\n")
        assert "2 rows" in run("append", "shop.orders", str(tmp_path / "rows.csv"))
        run(
            "append", "shop.more", str(tmp_path / "rows.csv"), "--create", "--primary-key", "id", "--option", "bucket=1"
        )
        if kind == "rest":
            assert len(server.bodies) == 2  # commits went through the catalog
        assert run("scan", "shop.orders", "--filter", "id = 2", "--output", "csv") == "id,name\n2,b\n"
        assert run("count", "shop.more").startswith("2")
        (tmp_path / "null.csv").write_text("id,name\n1,a\n,b\n")
        refused = ("append", "shop.refused", str(tmp_path / "null.csv"), "--create", "--primary-key", "id")
        assert "NOT NULL" in run(*refused, status=1)
        if kind == "rest":  # its server could not tell that nobody has written to it meanwhile
            run("drop", "shop.refused", "--yes")
        run("rename", "shop.more", "shop.other")
        listed = run("tables", "--database", "shop", "--output", "csv").splitlines()
        assert [line.split(",")[:2] for line in listed[1:]] == [["shop", "orders"], ["shop", "other"]]
        path = listed[1].split(",")[2]
        assert run("count", path.removeprefix("file:")).startswith("2")  # what has a slash is a path
        assert "orders" in run("system", "read", "tables", "--output", "csv")
        assert "orders" in run("scan", "shop.ordres", status=1)  # did you mean
        run("drop", "shop.other", "--yes")
        assert "shop,other" not in run("tables", "--output", "csv")
        run("drop-database", "shop", "--cascade", "--yes")
        assert run("tables", "--output", "csv").splitlines()[1:] == []


def test_a_database_with_views_is_dropped_with_them(tmp_path: Path, config, run, monkeypatch) -> None:
    config(sqlite(tmp_path))
    monkeypatch.setenv("PAIMON_PYDS_CATALOG", "local")
    run("create-database", "shop")
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        connection.execute("CREATE TABLE paimon_views(catalog_key, database_name, view_name, view_schema)")
        connection.execute("INSERT INTO paimon_views VALUES ('jdbc', 'shop', 'v', '{}')")
    assert "it has 1 view" in run("drop-database", "shop", "--yes", status=1)
    assert "with 0 tables and 1 view" in run("drop-database", "shop", "--cascade", status=1)
    run("drop-database", "shop", "--cascade", "--yes")
    assert "has no database 'shop'" in run("tables", "--database", "shop", status=1)


@pytest.mark.parametrize("kind", ["rest", "jdbc"])
def test_changes_of_a_table(tmp_path: Path, config, run, monkeypatch, kind: str) -> None:
    monkeypatch.setenv("PAIMON_PYDS_CATALOG", "local")
    with rest_catalog(tmp_path / "rest") as server:
        rest = f'[catalogs.local]\nmetastore = "rest"\nuri = "{server.address}"\ntoken = "{TOKEN}"\n'
        config(rest if kind == "rest" else sqlite(tmp_path))
        catalog = pp.Catalog.configured("local")
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", pa.table({"id": [1, 2]}))
        run("alter", "shop.t", "--add-columns", "name STRING", "--set", "snapshot.num-retained.max=50")
        catalog.table("shop.t").append({"id": [5], "name": ["y"]})
        run("tags", "create", "shop.t", "one")
        run("branches", "create", "shop.t", "a", "--tag", "one")
        run("branches", "rename", "shop.t", "a", "b")
        catalog.table("shop.t$branch_b").append({"id": [3], "name": ["x"]})
        assert run("count", "shop.t", "--branch", "b").startswith("4")
        table.append({"id": [4]})
        run("snapshots", "rollback", "shop.t", "--snapshot", "2", "--yes")
        assert run("count", "shop.t").startswith("3")
        run("branches", "fast-forward", "shop.t", "b", "--yes")
        assert run("scan", "shop.t", "--filter", "name = 'x'", "--output", "csv") == "id,name\n3,x\n"
        run("branches", "delete", "shop.t", "b", "--yes")
        run("snapshots", "expire", "shop.t", "--retain-max", "1", "--retain-min", "1")
        run("tags", "delete", "shop.t", "one", "--yes")
        run("compact", "shop.t", "--full")
        assert run("count", "shop.t").startswith("4")


def test_environment(tmp_path: Path, config, monkeypatch) -> None:
    monkeypatch.setenv("PAIMON_PYDS_CATALOG", "one")
    monkeypatch.setenv("PAIMON_PYDS_URI", "http://one")
    monkeypatch.setenv("PAIMON_PYDS_TOKEN", TOKEN)
    config(
        '[catalogs.one]\nuri = "http://before"\nwarehouse = "w"\ns3.endpoint = "e"\n[catalogs.two]\nuri = "http://two"\n'
    )
    one = catalog_options("one")
    assert one == {"uri": "http://one", "warehouse": "w", "token": TOKEN, "s3.endpoint": "e"}
    assert TOKEN not in repr(one)
    assert catalog_options("two") == {"uri": "http://two"}  # another server gets no token of the first
    with pytest.raises(OptionError, match=r"no catalog 'twoo'.*two"):
        catalog_options("twoo")
    monkeypatch.setenv("PAIMON_PYDS_CONFIG", str(tmp_path / "none.toml"))
    assert catalog_options("one") == {"uri": "http://one", "token": TOKEN}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_with_secrets_that_others_can_read(config, run, mode: int) -> None:
    text = f'[catalogs.one]\nmetastore = "rest"\nuri = "http://127.0.0.1:9"\ntoken = "{TOKEN}"\n'
    file = config(text, mode)
    with pytest.raises(SecurityError, match="chmod 600"):
        catalog_options("one")
    assert str(file) in run("tables", "--catalog", "one", status=1)
    config(text, 0o600)
    assert catalog_options("one")["token"] == TOKEN
    config('[catalogs.one]\nuri = "http://u"\n', mode)
    assert catalog_options("one") == {"uri": "http://u"}


@pytest.mark.parametrize(
    "text", [f"token = '{TOKEN}", "catalogs = 1", "[catalogs]\none = 2", "[catalogs.one]\nuri = [1]", "\xff[", "["]
)
def test_what_is_no_config(config, text: str) -> None:
    config(text)
    with pytest.raises(OptionError, match=r"paimon-pyds\.toml") as caught:
        catalog_options("one")
    assert TOKEN not in str(caught.value)


def test_mistakes(tmp_path: Path, config, run) -> None:
    config(sqlite(tmp_path))
    assert "is a path" in run("count", "/wh/shop.db/t", "--catalog", "local", status=1)
    assert "local" in run("count", "shop.t", "--catalog", "loca", status=1)
    assert "--catalog" in run("tables", status=1)
    assert "--catalog" in run("tables", str(tmp_path), "--catalog", "local", status=1)
