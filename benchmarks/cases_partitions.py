"""Writing few rows into each of many partitions, and rows of many columns: the cost of a file and of a column."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.registry import case, rust, rust_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.bench import Bench

PARTITIONS = (100, 1_500, 10_000)
COLUMNS = (10, 100, 1_000, 5_000)
VALUES = 20_000_000
"""Values of the tables of many columns: their rows are so many as to have them."""


def section(bench: Bench) -> None:
    for count in PARTITIONS:
        for kind, target in (("append", "≤ 1.2×"), ("key table", "≤ 1.5×")):
            for_both = {"partitions": count, "keys": kind == "key table"}
            bench.compare(
                f"{kind}: {count:,} rows into {count:,} partitions, CPU time",
                target if count == PARTITIONS[1] else "",
                ("ours_partitions", {"path": bench.path("ours_partitions"), **for_both}),
                ("rust_partitions", {"path": bench.path("rust_partitions"), **for_both}),
            )
        bench.compare(
            f"append: {count:,} rows into {count:,} partitions, against delta-rs, CPU time",
            "",
            ("ours_partitions", {"path": bench.path("ours_partitions"), "partitions": count, "keys": False}),
            ("delta_partitions", {"path": bench.path("delta_partitions"), "partitions": count}),
        )
    for count in COLUMNS:
        for_both = {"columns": count, "rows": VALUES // count}
        bench.compare(
            f"append {VALUES // count:,} rows × {count:,} columns, CPU time",
            "≤ 1.2×",
            ("ours_columns", {"path": bench.path("ours_columns"), **for_both}),
            ("rust_columns", {"path": bench.path("rust_columns"), **for_both}),
        )


def one_row_each(partitions: int) -> pa.Table:
    """A row for each partition."""
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(partitions)
    return pa.table(
        {
            "p": pa.array(numbers, pa.int32()),
            "id": pa.array(numbers, pa.int64()),
            "code": pa.array(numbers % 97, pa.int32()),
            "name": pa.array([f"name {i}" for i in range(partitions)]),
            "x": pa.array(np.random.default_rng(1).random(partitions)),
        }
    )


def _wide(rows: int, columns: int) -> pa.Table:
    """Columns of whole numbers and floats, of few values and of many."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)
    kinds = (
        lambda: pa.array(random.integers(0, 100, rows), pa.int64()),
        lambda: pa.array(random.random(rows)),
        lambda: pa.array(random.integers(0, 1 << 30, rows), pa.int32()),
    )
    return pa.table({f"c{i}": kinds[i % 3]() for i in range(columns)})


SQL_TYPES = {"int32": "INT", "int64": "BIGINT", "string": "STRING", "double": "DOUBLE"}


def _ours(path: str, rows: pa.Table, **create: Any) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, rows.schema, **create)
    table.append(rows.slice(0, 1))  # what a process loads once
    return {"seconds": computed(lambda: table.append(rows))[0]}


def _rust(path: str, rows: pa.Table, keys: str = "", clauses: str = "") -> dict[str, Any]:
    shutil.rmtree(path, ignore_errors=True)
    context, name = rust_sql(path)
    context.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
    columns = ", ".join(f"{field.name} {SQL_TYPES[str(field.type)]}" for field in rows.schema)
    context.sql(f"CREATE TABLE {name} ({columns}{keys}) {clauses}")
    builder = rust(path).new_batch_write_builder()

    def write(part: pa.Table) -> None:
        writer = builder.new_write()
        for batch in part.combine_chunks().to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())

    write(rows.slice(0, 1))
    return {"seconds": computed(lambda: write(rows))[0]}


@case
def ours_partitions(path: str, partitions: int, keys: bool) -> dict[str, Any]:
    options = {"primary_key": ["p", "id"], "options": {"bucket": "1"}} if keys else {}
    return _ours(path, one_row_each(partitions), partition_by=["p"], **options)


@case
def rust_partitions(path: str, partitions: int, keys: bool) -> dict[str, Any]:
    key, options = (", PRIMARY KEY (p, id)", " WITH ('bucket'='1')") if keys else ("", "")
    return _rust(path, one_row_each(partitions), key, f"PARTITIONED BY (p){options}")


@case
def delta_partitions(path: str, partitions: int) -> dict[str, Any]:
    from deltalake import write_deltalake

    shutil.rmtree(path, ignore_errors=True)
    rows = one_row_each(partitions)
    write_deltalake(path, rows.slice(0, 1), partition_by=["p"])  # what a process loads once
    return {"seconds": computed(lambda: write_deltalake(path, rows, mode="append"))[0]}


@case
def ours_columns(path: str, columns: int, rows: int) -> dict[str, Any]:
    return _ours(path, _wide(rows, columns))


@case
def rust_columns(path: str, columns: int, rows: int) -> dict[str, Any]:
    return _rust(path, _wide(rows, columns))
