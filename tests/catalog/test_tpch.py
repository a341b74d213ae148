"""The questions of TPC-H over tables of a catalog have the answers that DuckDB gives over Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from benchmarks.tpch import QUESTIONS, TABLES, generate, load, question
from support.effort import LONG, sampled

duckdb = pytest.importorskip("duckdb")
SCALE = 0.1 if LONG else 0.01
INDEXED = {
    "lineitem": {"file-index.bitmap.columns": "l_shipmode,l_returnflag", "target-file-size": "1 mb"},
    "orders": {"file-index.range-bitmap.columns": "o_orderdate", "target-file-size": "1 mb"},
    "part": {"file-index.bloom-filter.columns": "p_size"},
    "partsupp": {"file.format": "orc"},
    "customer": {"file-index.bitmap.columns": "c_mktsegment"},
    "supplier": {"file.format": "avro"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A connection with the tables plain, with indexes and of other formats, and as Parquet files."""
    path: Path = tmp_path_factory.mktemp("tpch")
    try:
        files = generate(path / "files", SCALE)
    except FileNotFoundError:
        pytest.skip("tpchgen-cli is not installed")
    catalog = pp.Catalog(path / "warehouse")
    load(catalog, "plain", files, {})
    load(catalog, "indexed", files, INDEXED)
    connection = catalog.duckdb()
    connection.execute("CREATE SCHEMA parquet")
    for table, file in files.items():
        connection.execute(f"CREATE VIEW parquet.{table} AS FROM read_parquet('{file}')")
    return connection


def answer(connection: Any, number: int, schema: str) -> list[tuple[Any, ...]]:
    return connection.sql(question(number, {table: f"{schema}.{table}" for table in TABLES}, SCALE)).fetchall()


@pytest.mark.parametrize("number", sampled(QUESTIONS, 5))
def test_answers_are_those_of_parquet_files(number: int, world: Any) -> None:
    expected = answer(world, number, "parquet")
    assert answer(world, number, "plain") == expected
    assert answer(world, number, "indexed") == expected
