"""Tables with a primary key: what it costs to write them, and to merge on read (`make bench`, section ``keys``).

pypaimon-rust writes the tables that both sides read: two buckets, of four sorted runs each, whose keys overlap.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.data import SQL_COLUMNS, batches
from benchmarks.registry import case, median_of, ours, rust, rust_sql, timed

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_ENGINES = ("deduplicate", "partial-update")
_FIRST_SHARE = 10
"""The first run has all keys: one for so many rows of the section's size."""
_LATER_RUNS = 3
_LATER_SHARE = 0.3
"""Each later run has so many of the keys of the first."""
_RUNS = 5


def section(bench: Bench) -> None:
    """All rows of the section."""
    keys = bench.rows // _FIRST_SHARE
    bench.compare(
        f"write {keys:,} rows in no order to 2 buckets", "≤ 1.0×",
        ("ours_keys_write", {"path": bench.path("keys_ours"), "keys": keys}),
        ("rust_keys_write", {"path": bench.path("keys_rust"), "keys": keys}),
    )  # fmt: skip
    rows = keys + _LATER_RUNS * int(keys * _LATER_SHARE)
    paths = {engine: bench.path(f"keys_{engine.replace('-', '_')}") for engine in _ENGINES}
    for engine, path in paths.items():
        bench.run("ours_keys_table", path=path, keys=keys, engine=engine)
    for what, engine, query in (
        ("", "deduplicate", {}),
        (", one key", "deduplicate", {"where": ("id", keys // 2)}),
        (", 1 of 1,000 values", "deduplicate", {"where": ("code", 17)}),
        (", one column", "deduplicate", {"columns": ["price"]}),
        (", rows counted", "deduplicate", {"columns": []}),
        (", partial-update", "partial-update", {}),
    ):
        arguments = {"path": paths[engine], **query}
        bench.compare(
            f"merge {rows:,} rows in 2 buckets of 4 runs{what}", "≤ 1.0×",
            ("ours_merged", arguments), ("rust_merged", arguments),
        )  # fmt: skip


@case
def ours_keys_write(path: str, keys: int) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    rows = next(_runs(keys))
    table = pp.Table.create(path, rows.schema, ["id"], options={"bucket": "2"})
    return {"seconds": timed(lambda: table.append([rows]))[0]}


@case
def rust_keys_write(path: str, keys: int) -> dict[str, Any]:
    rows = next(_runs(keys))
    _rust_new(path, "deduplicate")
    return {"seconds": timed(lambda: _rust_append(path, rows))[0]}


@case
def ours_keys_table(path: str, keys: int, engine: str) -> None:
    """The table that both sides read."""
    _rust_new(path, engine)
    for run in _runs(keys):
        _rust_append(path, run)


def _rust_new(path: str, engine: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    context, name = rust_sql(path)
    context.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
    columns = SQL_COLUMNS.replace("id BIGINT", "id BIGINT NOT NULL")
    options = f"'bucket'='2', 'merge-engine'='{engine}'"
    context.sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id)) WITH ({options})")


def _rust_append(path: str, rows: pa.RecordBatch) -> None:
    builder = rust(path).new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(rows)
    builder.new_commit().commit(writer.prepare_commit())


def _runs(keys: int) -> Iterator[pa.RecordBatch]:
    """The rows of each commit, in no order."""
    rng = np.random.default_rng(4)
    for number in range(1 + _LATER_RUNS):
        rows = int(keys * _LATER_SHARE) if number else keys
        batch = next(batches(rows, rows, seed=number))
        yield batch.set_column(0, batch.schema.field(0), pa.array(rng.choice(keys, rows, replace=False)))


@case
def ours_merged(path: str, where: tuple[str, int] | None = None, columns: list[str] | None = None) -> dict[str, Any]:
    def query() -> int:
        scan = ours(path).scan(f"{where[0]} = {where[1]}" if where else None, columns=columns or None)
        return scan.count() if columns == [] else sum(batch.num_rows for batch in scan.to_batches())

    seconds, rows = median_of(query, _RUNS)
    return {"seconds": seconds, "rows": rows}


@case
def rust_merged(path: str, where: tuple[str, int] | None = None, columns: list[str] | None = None) -> dict[str, Any]:
    """It counts by reading the key."""

    def query() -> int:
        builder = rust(path).new_read_builder()
        if where:
            builder = builder.with_filter({"method": "equal", "field": where[0], "literals": [where[1]]})
        if columns is not None:
            builder = builder.with_projection(columns or ["id"])
        splits = builder.new_scan().plan().splits()
        return sum(batch.num_rows for batch in builder.new_read().read(splits))

    seconds, rows = median_of(query, _RUNS)
    return {"seconds": seconds, "rows": rows}
