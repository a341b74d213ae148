"""The questions of TPC-H: DuckDB's SQL over a catalog, against DuckDB alone over the same Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.registry import case
from benchmarks.tpch import QUESTIONS, TABLES, generate, load, question

if TYPE_CHECKING:
    from benchmarks.bench import Bench

SCALE = 0.1
INDEXED = {
    "lineitem": {"file-index.bitmap.columns": "l_shipmode"},
    "orders": {"file-index.bitmap.columns": "o_orderstatus"},
    "part": {"file-index.bitmap.columns": "p_brand"},
    "partsupp": {"file-index.bloom-filter.columns": "ps_suppkey"},
    "customer": {"file-index.bitmap.columns": "c_mktsegment"},
}
"""Tables with indexes are read by scans, and others, whose files are plain, by DuckDB."""


def section(bench: Bench) -> None:
    for database, what, target in (
        ("plain", "the 22 questions of TPC-H, scale 0.1, CPU time", "≤ 1.5×"),
        ("indexed", "the same, tables with indexes", ""),
    ):
        path = bench.path(f"tpch_{database}")
        bench.run("ours_tpch_tables", path=path, database=database)
        arguments = {"path": path, "database": database}
        bench.compare(what, target, ("ours_tpch", arguments), ("duckdb_tpch", arguments))


@case
def ours_tpch_tables(path: str, database: str) -> dict[str, Any]:
    import paimon_pyds as pp

    if not (Path(path) / "warehouse").exists():
        files = generate(Path(path) / "files", SCALE)
        load(pp.Catalog(Path(path) / "warehouse"), database, files, INDEXED if database == "indexed" else {})
    return {"seconds": 0.0}


@case
def ours_tpch(path: str, database: str) -> dict[str, Any]:
    import paimon_pyds as pp

    return _answers(pp.Catalog(Path(path) / "warehouse").duckdb(), {table: f"{database}.{table}" for table in TABLES})


@case
def duckdb_tpch(path: str, database: str) -> dict[str, Any]:
    import duckdb

    where = Path(path) / "warehouse" / f"{database}.db"
    files = {table: [str(file) for file in (where / table).rglob("*.parquet")] for table in TABLES}
    return _answers(duckdb.connect(), {table: f"read_parquet({files[table]})" for table in TABLES})


def _answers(connection: Any, tables: dict[str, str]) -> dict[str, Any]:
    """The sum of the least time of each of three runs."""
    seconds = 0.0
    for number in QUESTIONS:
        text = question(number, tables, SCALE)
        seconds += min(computed(lambda: connection.sql(text).fetchall())[0] for _ in range(3))  # noqa: B023 - called here
    return {"seconds": seconds}
