"""Which tables DuckDB reads from files itself, with the same rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.lazy_duckdb import knows_row_counts
from paimon_pyds.catalog import duckdb_tables
from support.counting_io import counted

duckdb = pytest.importorskip("duckdb")
ROWS = {"id": [1, 2, 3], "p": ["01", "02", "02"], "v": [1.5, None, 2.5]}


def views(catalog: pp.Catalog, connection: Any = None) -> tuple[list[Any], list[Any], bool]:
    """The rows of the view and of the scan, and whether DuckDB reads the files of the view itself."""
    connection = catalog.duckdb(["db.t"], connection)
    rows, scanned = (connection.sql(f"SELECT * FROM {t} ORDER BY id").fetchall() for t in ("db.t", '"paimon:db.t"'))
    return rows, scanned, reads_files(connection, "db.t")


def reads_files(connection: Any, table: str) -> bool:
    return "PARQUET" in str(connection.sql(f"EXPLAIN SELECT * FROM {table}").fetchall()).upper()


def made(path: Path, **given: Any) -> tuple[pp.Catalog, pp.Table]:
    catalog = pp.Catalog(path)
    catalog.create_database("db")
    return catalog, catalog.create_table("db.t", ROWS, **given)


def swap_names(table: pp.Table) -> None:
    table.alter(rename_columns={"id": "x"})
    table.alter(rename_columns={"v": "id"})
    table.alter(rename_columns={"x": "v"})


@pytest.mark.parametrize(
    ("given", "change", "plain"),
    [
        ({}, lambda t: None, True),
        ({"partition_by": ["p"]}, lambda t: None, True),
        ({}, lambda t: t.append({"id": [4], "p": ["x"], "v": [0.5]}), True),
        ({}, lambda t: t.alter({"snapshot.time-retained": "2 h"}), True),
        ({}, lambda t: t.delete("id = 2"), True),
        ({"primary_key": "id"}, lambda t: None, False),
        ({"options": {"deletion-vectors.enabled": "true"}}, lambda t: t.delete("id = 2"), False),
        ({"options": {"file-index.bitmap.columns": "id"}}, lambda t: None, False),
        ({"options": {"file.format": "orc"}}, lambda t: None, False),
        ({}, lambda t: t.alter(add_columns={"more": "INT"}), False),
        ({}, swap_names, False),
        ({}, lambda t: t.delete("true"), False),
    ],
)
def test_tables_that_are_plain(given: Any, change: Callable[[pp.Table], Any], plain: bool, tmp_path: Path) -> None:
    catalog, table = made(tmp_path, **given)
    change(table)
    rows, scanned, is_plain = views(catalog)
    assert rows == scanned
    assert is_plain == (plain and knows_row_counts())


@pytest.mark.parametrize("name", ["a[b]", "a*", "a=1", "it's", "{a}", "ä b", "a\\b"])
def test_names_of_directories(name: str, tmp_path: Path) -> None:
    rows, scanned, _ = views(made(tmp_path / name)[0])
    assert rows == scanned
    assert len(rows) == 3


def test_many_files_are_left_to_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_tables, "MOST_FILES", 2)
    catalog, table = made(tmp_path)
    table.append(ROWS)
    assert views(catalog)[2] == knows_row_counts()
    table.append(ROWS)
    rows, scanned, plain = views(catalog)
    assert rows == scanned
    assert not plain


def test_a_connection_without_files(tmp_path: Path) -> None:
    connection = duckdb.connect(config={"enable_external_access": "false"})
    rows, scanned, plain = views(made(tmp_path)[0], connection)
    assert rows == scanned
    assert not plain


def test_files_that_are_damaged_or_gone(tmp_path: Path) -> None:
    catalog, _ = made(tmp_path)
    [file] = tmp_path.rglob("*.parquet")
    file.write_bytes(b"PAR1")
    connection = catalog.duckdb()
    with pytest.raises(duckdb.Error, match=file.name):
        connection.sql("SELECT * FROM db.t").fetchall()


TYPES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False], "TINYINT": [-128, 127], "SMALLINT": [-32768, 32767], "INT": [-(2**31), 7],
    "BIGINT": [-(2**63), 7], "FLOAT": [float("nan"), -0.0], "DOUBLE": [float("inf"), 1e-300],
    "DECIMAL(5, 2)": [Decimal("-1.50"), Decimal("999.99")], "DECIMAL(18, 0)": [Decimal(-1), Decimal(10**17)],
    "DECIMAL(38, 10)": [Decimal("-1.5"), Decimal(10**27)], "CHAR(3)": ["a", "ä"], "VARCHAR(5)": ["", "日本"],
    "STRING": ["a\0b", "x" * 300], "BINARY(2)": [b"\0\1", b"ab"], "BYTES": [b"", b"\xff"],
    "DATE": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], "TIME(3)": [datetime.time(1, 2, 3), datetime.time()],
    "TIMESTAMP(0)": [datetime.datetime(1960, 1, 1, 1, 1, 1), datetime.datetime(2000, 1, 1)],
    "TIMESTAMP(3)": [datetime.datetime(1960, 1, 1, 1, 1, 1, 5000), datetime.datetime(2000, 1, 1)],
    "TIMESTAMP(6)": [datetime.datetime(1960, 1, 1, 1, 1, 1, 5), datetime.datetime(2000, 1, 1)],
    "TIMESTAMP(9)": [datetime.datetime(1960, 1, 1, 1, 1, 1, 5), datetime.datetime(2000, 1, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC), None],
    "ARRAY<INT>": [[1, None], []],
}  # fmt: skip


def test_values_of_all_types(tmp_path: Path) -> None:
    catalog = pp.Catalog(tmp_path)
    catalog.create_database("db")
    connection = duckdb.connect()
    plain = []
    for number, (type_, values) in enumerate(TYPES.items()):
        name = f"db.t{number}"
        table = catalog.create_table(name, f"id INT, v {type_}")
        table.append({"id": [1, 2, 3], "v": [*values, None]})
        catalog.duckdb([name], connection)
        both = [connection.sql(f"SELECT * FROM {at} ORDER BY id").to_arrow_table() for at in (name, f'"paimon:{name}"')]
        assert both[0].schema == both[1].schema
        assert str(both[0].to_pylist()) == str(both[1].to_pylist())
        plain += [type_] if reads_files(connection, name) else []
    assert {"INT", "STRING", "DATE", "DECIMAL(18, 0)", "DOUBLE"} <= set(plain) or not knows_row_counts()


def test_files_of_which_one_has_another_type(tmp_path: Path) -> None:
    """Other writers may leave out that bytes are a text: DuckDB would show these bytes in another way."""
    import pyarrow.parquet as pq

    catalog, table = made(tmp_path)
    table.append({"id": [4], "p": ["ä"], "v": [0.5]})
    newest = table.scan("id = 4").plan().paths[0]
    rows = pq.read_table(newest)
    pq.write_table(rows.set_column(1, "p", pa.array(["ä".encode()])), newest)
    assert not reads_files(catalog.duckdb(["db.t"]), "db.t")


def test_other_stores_than_the_local_disk(tmp_path: Path) -> None:
    _, table = made(tmp_path)
    assert table.scan().plain_files(64)
    assert pp.Table(counted(table.path)[0]).scan().plain_files(64) is None
