"""SQL of DuckDB over the tables of a catalog, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.catalog.duckdb_tables import query
from paimon_pyds.cli.main import main
from paimon_pyds.errors import TableNotFoundError

duckdb = pytest.importorskip("duckdb")


@pytest.fixture
def catalog(tmp_path: Path) -> pp.Catalog:
    made = pp.Catalog(tmp_path)
    made.create_database("shop")
    made.create_database("people")
    made.create_table("shop.orders", {"id": [1, 2, 3], "customer": [7, 8, 7]})
    made.create_table('shop.`odd "name`', {"id": [1]})
    made.create_table("people.customers", {"id": [7, 8], "name": ["Ada", "Bo"]}, primary_key="id")
    made.create_table("default.empty", "id INT")
    return made


JOIN = (
    """SELECT name, count(*) FROM shop.orders JOIN people.customers c ON customer = c.id GROUP BY name ORDER BY name"""
)


def test_all_tables_are_there(catalog: pp.Catalog) -> None:
    connection = catalog.duckdb()
    assert connection.sql(JOIN).fetchall() == [("Ada", 2), ("Bo", 1)]
    assert connection.sql('SELECT * FROM shop."odd ""name"').fetchall() == [(1,)]
    assert connection.sql('SELECT count(*) FROM "default".empty').fetchall() == [(0,)]
    plan = connection.sql("EXPLAIN SELECT id FROM shop.orders WHERE id = 2").fetchall()[0][1]
    assert "Filters" in plan
    with pytest.raises(duckdb.CatalogException):
        connection.sql("SELECT * FROM catalog")  # no variables of Python


def test_the_state_is_that_of_the_call(catalog: pp.Catalog) -> None:
    own = duckdb.connect()
    assert catalog.duckdb(["shop.orders"], own) is own
    catalog.table("shop.orders").append({"id": [4], "customer": [8]})
    assert own.sql("SELECT count(*) FROM shop.orders").fetchall() == [(3,)]
    catalog.duckdb(["shop.orders"], own)
    assert own.sql("SELECT count(*) FROM shop.orders").fetchall() == [(4,)]


def test_tables_that_can_not_be_read(catalog: pp.Catalog, tmp_path: Path) -> None:
    path = tmp_path / "shop.db" / "orders" / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"]["query-auth.enabled"] = "true"
    path.write_text(json.dumps(schema))
    with pytest.warns(UserWarning, match=r"shop.*orders.* is left out: .*query-auth"):
        connection = catalog.duckdb()
    assert connection.sql("SELECT count(*) FROM people.customers").fetchall() == [(2,)]
    with pytest.raises(TableNotFoundError):
        catalog.duckdb(["shop.nothing"])


def test_a_query_opens_the_tables_that_it_names(catalog: pp.Catalog, tmp_path: Path) -> None:
    (tmp_path / "shop.db" / "orders" / "schema" / "schema-0").write_text("damaged")
    assert query(catalog, "SELECT name FROM people.customers WHERE id = 8").fetchall() == [("Bo",)]
    assert query(catalog, "WITH c AS (SELECT 1 AS x) SELECT x FROM c").fetchall() == [(1,)]


def test_the_command(catalog: pp.Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", JOIN, "--warehouse", str(tmp_path), "--output", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"name": "Ada", "count_star()": 2}, {"name": "Bo", "count_star()": 1},
    ]  # fmt: skip
    assert main(["sql", "SELECT * FROM shop.nothing", "--warehouse", str(tmp_path)]) == 1
    assert "nothing" in capsys.readouterr().err
    assert main(["sql", "SELECT 1"]) != 0
