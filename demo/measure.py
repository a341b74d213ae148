"""One query, run three ways and measured: Spark SQL, the Arrow API, and plain Arrow over all rows as the judge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import paimon_pyds as pp


@dataclass(frozen=True, slots=True)
class Cost:
    """What a scan read. Bytes are those of data files and side indexes; embedded indexes come with the manifests."""

    files: int
    positions: int
    bytes_read: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's rows, and what it took to find them."""

    filter: str
    rows: int
    files_of_table: int
    files_planned: int
    full_scan: Cost
    arrow: Cost
    spark_seconds: float


def arrow_scan(path: str, filter_: str | None = None, columns: Sequence[str] | None = None) -> tuple[pa.Table, Cost]:
    """The rows of a freshly opened table, with what reading them cost."""
    traces: list[Any] = []
    started = time.perf_counter()
    scan = pp.Table.open(path).scan(filter_, columns=columns)
    rows = pa.Table.from_batches(scan.to_batches(on_file=traces.append), schema=scan.arrow_schema)
    seconds = time.perf_counter() - started
    selected = [t.rows if t.rows_after_index is None else t.rows_after_index for t in traces]
    cost = Cost(
        files=sum(1 for n in selected if n),
        positions=sum(selected),
        bytes_read=sum(t.counters.bytes_read for t in traces),
        seconds=seconds,
    )
    return rows, cost


def spark_view(spark: Any, name: str, path: str, filter_: str | None = None) -> None:
    """A temporary view of the table; its filter is answered by statistics and indexes, and exactly."""
    options = {"path": path} | ({} if filter_ is None else {"where": filter_})
    quoted = ", ".join(f"`{key}` {sql_text(value)}" for key, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING paimon OPTIONS ({quoted})")


def sql_text(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_rows(spark: Any, path: str, filter_: str, columns: Sequence[str]) -> tuple[list[tuple[Any, ...]], float]:
    """The same rows by Spark SQL, and the seconds that view, plan and query took."""
    started = time.perf_counter()
    spark_view(spark, "one_query", path, filter_)
    rows = [tuple(row) for row in spark.sql(f"SELECT {', '.join(columns)} FROM one_query").collect()]
    return rows, time.perf_counter() - started


def in_rows(table: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of a table as sorted tuples."""
    return sorted(zip(*(table.column(c).to_pylist() for c in columns), strict=True))


def size_text(size: int) -> str:
    """Bytes for people."""
    return f"{size / 1e6:.2f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"
