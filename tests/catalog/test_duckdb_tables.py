"""SQL of DuckDB over the tables of a catalog, in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import (
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TagNotFoundError,
    UnsupportedError,
)
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO

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


def test_an_old_duckdb_is_refused(catalog: pp.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", "1.4.4")
    for call in (catalog.duckdb, lambda: catalog.sql("SELECT 1")):
        with pytest.raises(UnsupportedError, match=r"DuckDB 1\.4\.4 — pip install 'duckdb>=1\.5'"):
            call()


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


def test_names_that_differ_in_case(catalog: pp.Catalog) -> None:
    """DuckDB takes them for one: it would give the rows of the other table."""
    catalog.create_table("shop.Orders", {"id": [9]})
    with pytest.warns(UserWarning, match="differs in case") as told:
        connection = catalog.duckdb()
    assert len(told) == 2
    for name in ("orders", "Orders"):
        with pytest.raises(duckdb.CatalogException):
            connection.sql(f"SELECT * FROM shop.{name}")
    assert catalog.sql("SELECT count(*) FROM shop.orders").fetchall() == [(3,)]
    assert catalog.sql("SELECT id FROM shop.Orders").fetchall() == [(9,)]
    with pytest.raises(UnsupportedError, match="differs in case"):
        catalog.sql("SELECT * FROM shop.orders a, shop.Orders b")
    one = catalog.duckdb(["shop.orders"])
    with pytest.raises(UnsupportedError, match="connection of its own"):
        catalog.duckdb(["shop.Orders"], one)
    assert catalog.duckdb(["shop.orders"], one).sql("SELECT count(*) FROM shop.orders").fetchall() == [(3,)]


def test_a_query_opens_the_tables_that_it_names(catalog: pp.Catalog, tmp_path: Path) -> None:
    (tmp_path / "shop.db" / "orders" / "schema" / "schema-0").write_text("damaged")
    for alias in ("", "c", "AS c"):
        query = f"SELECT name FROM people.customers {alias} WHERE id = 8"
        assert catalog.sql(query).fetchall() == [("Bo",)]
    assert catalog.sql("WITH c AS (SELECT 1 AS x) SELECT x FROM c").fetchall() == [(1,)]


@pytest.fixture
def states(catalog: pp.Catalog) -> pp.Catalog:
    """Orders in three states: a tag of the second, and a branch."""
    orders = catalog.table("shop.orders")
    orders.append({"id": [4], "customer": [8]})
    orders.tags.create("a tag")
    orders.branches.create("b")
    orders.delete("id < 4")
    return catalog


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("shop.orders", 1),
        ("shop.orders AT (VERSION => 1)", 3),
        ("shop.orders at(version => 2) AS o", 4),
        ("shop.orders AT (VERSION => 'a tag') o", 4),
        ('"shop" . "orders" /* AT */ AT (VERSION => \'a tag\')', 4),
        ("shop.orders AT (TIMESTAMP => TIMESTAMP '2999-01-01 00:00:00') JOIN people.customers ON customers.id > 7", 1),
        ("shop.orders AT (TIMESTAMP => '2999-01-01')", 1),
        ("shop.orders AT (VERSION => 1) JOIN shop.orders AT (VERSION => 2) o USING (id) WHERE o.id < 3", 2),
        ("shop.orders, shop.orders AT (VERSION => 1) old WHERE old.id <> orders.id", 3),
        ("shop.orders WHERE 'x AT (VERSION => 1)' <> 'it''s' -- AT (VERSION => 1)", 1),
        ('shop."orders$snapshot_1"', 3),
        ('shop."orders$tag_a tag"', 4),
        ('shop."orders$branch_b"', 0),
        ('shop."orders$snapshots"', 3),
        ("shop.\"orders$tags\" WHERE tag_name = 'a tag'", 1),
        ("sys.tables WHERE table_name = 'orders'", 1),
        ("empty", 0),
    ],
)
def test_states_and_system_tables(source: str, count: int, states: pp.Catalog) -> None:
    source = source if source != "empty" else 'people.customers JOIN "default".empty USING (id)'
    assert states.sql(f"SELECT count(*) FROM {source}").fetchall() == [(count,)]


def test_states_of_a_connection(states: pp.Catalog) -> None:
    names = ["shop.orders$snapshot_1", "shop.orders$tag_a tag", "shop.orders$files", "shop.orders"]
    connection = states.duckdb(names)
    found = [connection.sql(f'SELECT count(*) FROM shop."{n.partition(".")[2]}"').fetchall()[0][0] for n in names]
    assert found == [3, 4, 1, 1]


@pytest.mark.parametrize(
    ("query", "error", "text"),
    [
        ("FROM shop.orders AT (VERSION => 9)", SnapshotNotFoundError, "9"),
        ("FROM shop.orders AT (VERSION => 'no')", TagNotFoundError, "no"),
        ("FROM shop.orders AT (VERSION => 1 + 1)", OptionError, "constant"),
        ("FROM shop.orders AT (TIMESTAMP => now())", OptionError, "constant"),
        ("FROM shop.nothing AT (VERSION => 1)", TableNotFoundError, "nothing"),
        ('FROM shop."orders$snapshot_x"', OptionError, "number"),
        ('FROM shop."orders$snapshotz"', OptionError, "snapshots"),
        ("INSERT INTO shop.orders VALUES (1, 2)", UnsupportedError, "INSERT.*\n?.*append"),
        ("create table shop.x AS SELECT 1", UnsupportedError, "CREATE"),
    ],
)
def test_queries_that_are_refused(query: str, error: type[PaimonError], text: str, states: pp.Catalog) -> None:
    with pytest.raises(error, match=text):
        states.sql(query)


def test_rows_of_a_query_are_appended(states: pp.Catalog) -> None:
    table = states.table("shop.orders")
    table.append(states.sql("SELECT id + 10 AS id, customer FROM shop.orders AT (VERSION => 1)"))
    assert table.count("id > 10") == 3


class Counting(LocalFileIO):
    """Counts the bytes that are read of data files and their indexes."""

    def __init__(self) -> None:
        self.bytes = 0

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.bytes += length
        return super().read_range(path, offset, length)

    def read_bytes(self, path: str) -> bytes:
        data = super().read_bytes(path)
        self.bytes += len(data)
        return data


@cache
def _mixed_rows() -> pa.Table:
    count = 100_000
    rows = pa.table({
        "code": pa.array(range(count), pa.int32()), "name": [f"n{i}" for i in range(count)],
        "day": pa.array([i % 20_000 for i in range(count)], pa.date32()),
        "price": pa.array([Decimal(i) + Decimal("0.25") for i in range(count)], pa.decimal128(9, 2)),
        "text": [f"{i * 7919:x}" * 5 for i in range(count)],
    })  # fmt: skip
    return rows.take(pa.array([i * 7919 % count for i in range(count)]))


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"file-index.bitmap.columns": "code"}, "code = 7"),
        ({"file-index.bloom-filter.columns": "name"}, "name = 'n77'"),
        ({"file-index.range-bitmap.columns": "day"}, "day = DATE '1970-03-01'"),
        ({"file-index.range-bitmap.columns": "price"}, "price = 7.25"),
        (
            {"file-index.bitmap.columns": "code"},
            "code IN (3, 7, 500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510)",
        ),
    ],
)
def test_a_point_query_reads_no_more_than_a_scan(options: dict[str, str], condition: str, tmp_path: Path) -> None:
    rows = _mixed_rows()
    made = pp.Table.create(tmp_path / "t", rows.slice(0, 0), options={**options, "bucket": "-1"})
    made.append(rows)

    def read(run: Callable[[pp.Table], int]) -> tuple[int, int]:
        METADATA_CACHE.clear()
        OPEN_INDEXES.clear()
        io = Counting()
        return run(pp.Table(TableStore(io, made.path))), io.bytes

    by_scan = read(lambda t: t.scan(condition).to_arrow().num_rows)
    by_sql = read(lambda t: len(t.to_duckdb(duckdb.connect()).filter(condition).fetchall()))
    assert by_sql[0] == by_scan[0] > 0
    assert by_sql[1] <= by_scan[1]
    assert by_sql[1] < sum(file.stat().st_size for file in tmp_path.rglob("*.parquet")) / 3


def test_the_command_explains(catalog: pp.Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"file-index.bitmap.columns": "id"}
    catalog.create_table("shop.indexed", {"id": list(range(1000))}, options=options)
    query = "SELECT count(*) FROM shop.indexed WHERE id = 7"
    assert main(["sql", query, "--explain", "--warehouse", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "bitmap" in text
    assert "Filters" in text


def test_the_command(catalog: pp.Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", JOIN, "--warehouse", str(tmp_path), "--output", "json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"name": "Ada", "count_star()": 2}, {"name": "Bo", "count_star()": 1},
    ]  # fmt: skip
    assert main(["sql", "SELECT * FROM shop.nothing", "--warehouse", str(tmp_path)]) == 1
    assert "nothing" in capsys.readouterr().err
    assert main(["sql", "SELECT 1"]) != 0
