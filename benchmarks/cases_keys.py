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
_LOOKED_UP = 1_000
"""Keys that are looked up, and about as many rows that a filter on values finds: scattered over all keys."""
_SMALL_PAGES = {"parquet.page.row.count.limit": "512"}
"""Of tables that are looked up: a key costs a page of each column, a scan of all rows some microseconds a page."""


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
    _found_keys(bench)


def _found_keys(bench: Bench) -> None:
    """Few rows, scattered over all keys: by key, and by a value with a bitmap index."""
    for runs, what in ((1, "compacted"), (1 + _LATER_RUNS, f"in {1 + _LATER_RUNS} runs")):
        path, rows = bench.path(f"keys_lookup_{runs}"), bench.rows
        bench.run("ours_found_table", path=path, rows=rows, runs=runs, options=_SMALL_PAGES)
        bench.compare(
            f"look up {_LOOKED_UP:,} scattered keys of {rows:,}, {what}: against a scan", "≤ 0.05×",
            ("ours_lookup", {"path": path, "rows": rows}), ("ours_merged", {"path": path}),
        )  # fmt: skip
        path, rows = bench.path(f"keys_value_{runs}"), bench.rows // 2
        options = {**_SMALL_PAGES, "file-index.bitmap.columns": "code"}
        bench.run("ours_found_table", path=path, rows=rows, runs=runs, options=options)
        arguments = {"path": path, "where": ("code", 17)}
        by_value = f"filter on a value with a bitmap index, about {_LOOKED_UP:,} of {rows:,} rows, {what}"
        bench.compare(by_value, "≤ 0.2×", ("ours_merged", arguments), ("rust_merged", arguments))
        if runs > 1:
            everything = ("ours_merged", {**arguments, "use_index": False})
            bench.compare(f"{by_value}: against merging all", "≤ 0.2×", ("ours_merged", arguments), everything)


@case
def ours_found_table(path: str, rows: int, runs: int, options: dict[str, str]) -> None:
    """Keys from 0 on, each in one of the runs: all of these have keys everywhere. One run alone is compacted."""
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    rng = np.random.default_rng(5)
    run_of, codes = rng.integers(0, runs, rows), max(1, rows // _LOOKED_UP)
    for run in range(runs):
        ids = np.flatnonzero(run_of == run)
        batch = next(batches(len(ids), len(ids), seed=run))
        batch = batch.set_column(0, batch.schema.field(0), pa.array(ids))
        code = pa.array(rng.integers(0, codes, len(ids), dtype=np.int32))
        batch = batch.set_column(1, batch.schema.field(1), code)
        instants = pa.array(1_700_000_000_000_000 + rng.integers(0, 10**13, len(ids)), pa.timestamp("us"))
        batch = batch.append_column("at", instants)
        if not run:
            table = pp.Table.create(
                path, batch.schema, ["id"], options={"bucket": "2", "write-only": "true", **options}
            )
        table.append([batch])
    if runs == 1:
        table.compact(full=True)


@case
def ours_lookup(path: str, rows: int) -> dict[str, Any]:
    keys = pa.table({"id": np.random.default_rng(6).choice(rows, _LOOKED_UP, replace=False)})
    seconds, found = median_of(lambda: ours(path).lookup(keys).num_rows, _RUNS)
    return {"seconds": seconds, "rows": found}


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
def ours_merged(
    path: str, where: tuple[str, int] | None = None, columns: list[str] | None = None, use_index: bool = True
) -> dict[str, Any]:
    options = None if use_index else {"file-index.read.enabled": "false"}

    def query() -> int:
        filter_ = f"{where[0]} = {where[1]}" if where else None
        scan = ours(path).scan(filter_, columns=columns or None, options=options)
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
