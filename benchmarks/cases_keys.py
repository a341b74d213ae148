"""Tables with a primary key: what it costs to write them, and to merge on read (`make bench`, section ``keys``).

pypaimon-rust writes the tables that both sides read: two buckets, of four sorted runs each, whose keys overlap.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.clock import cpu_seconds, held_mib, median_of, peak_mib, timed
from benchmarks.data import SQL_COLUMNS, batches
from benchmarks.key_runs import LATER_RUNS, LATER_SHARE, key_runs
from benchmarks.registry import case, copy_of, ours, rust, rust_sql, size_of

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_ENGINES = ("deduplicate", "partial-update")
_FIRST_SHARE = 10
"""The first run has all keys: one for so many rows of the section's size."""
_RUNS = 5
_LOOKED_UP = 1_000
"""Keys that are looked up, and about as many rows that a filter on values finds: scattered over all keys."""
_SMALL_PAGES = {"parquet.page.row.count.limit": "256"}
"""Of tables that are looked up: a key costs a page of each column, a scan of all rows some microseconds a page."""


_MODES = {
    "merge on read": {},
    "merge on write": {"deletion-vectors.enabled": "true"},
    "copy on write": {"full-compaction.delta-commits": "1"},
}
_WITH_A_VALUE = 20
"""Rows that the filter finds, about."""
_UPSERTS = 8
_UPSERT_SHARE = 40
"""One row of so many gets a new version in each upsert."""


_BUCKET_KEYS = 2_000_000
_FOUND_AT_ONCE = 131_072


def section(bench: Bench) -> None:
    """All rows of the section."""
    keys = bench.rows // _FIRST_SHARE
    bench.compare(
        f"write {keys:,} rows in no order to 2 buckets", "≤ 1.0×",
        ("ours_keys_write", {"path": bench.path("keys_ours"), "keys": keys}),
        ("rust_keys_write", {"path": bench.path("keys_rust"), "keys": keys}),
    )  # fmt: skip
    rows = keys + LATER_RUNS * int(keys * LATER_SHARE)
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
    _beside_pypaimon(bench, keys, rows, paths["deduplicate"])
    _dynamic_buckets(bench)
    _found_keys(bench)
    _compacted(bench)
    _rescaled(bench)
    _modes(bench)


def _beside_pypaimon(bench: Bench, keys: int, rows: int, merged: str) -> None:
    """One run of each, as pypaimon needs most of a minute; other figures are medians."""
    table = {"path": bench.path("keys_pypaimon"), "keys": keys}
    write = f"write {keys:,} rows in no order to 2 buckets"
    bench.once(
        write, "≤ 0.025×", bench.run("ours_keys_write", **table), "pypaimon", bench.pypaimon("keys_write", **table)
    )
    merge = f"merge {rows:,} rows in 2 buckets of 4 runs"
    ours_read, theirs = bench.run("ours_merged", path=merged), bench.pypaimon("keys_merged", path=merged)
    bench.once(merge, "≤ 0.033×", ours_read, "pypaimon", theirs)


def _dynamic_buckets(bench: Bench) -> None:
    """Of a table with ``bucket=-1``: new keys, those that it has, and the memory that finding them takes."""
    keys = bench.rows // 2
    for known in (False, True):
        bench.compare(
            f"write {keys:,} rows with {'known' if known else 'new'} keys to dynamic buckets", "≤ 1.0×",
            ("ours_dynamic_write", {"path": bench.path("dynamic_ours"), "keys": keys, "known": known}),
            ("rust_dynamic_write", {"path": bench.path("dynamic_rust"), "keys": keys, "known": known}),
        )  # fmt: skip
    for known in (False, True):
        found = bench.run("ours_assigner", path=bench.path("dynamic_index"), keys=bench.rows, known=known)
        if found:
            bench.add(
                f"find the buckets of {bench.rows:,} {'known' if known else 'new'} keys", f"{found['seconds']:.3f} s",
                f"{found['bytes']:.1f} bytes a key, {found['most']:.1f} at most", "", "≤ 10 bytes",
                f"{found['peak_mib']:.0f} MiB",
            )  # fmt: skip


def _compacted(bench: Bench) -> None:
    """Full compaction, as rows that a core merges in a second: ours and Java Paimon's of copies of one table."""
    path, rows = bench.path("keys_compacted"), bench.rows
    bench.run("ours_found_table", path=path, rows=rows, runs=1 + LATER_RUNS, options={})
    found = bench.run("ours_compaction", path=path, rows=rows)
    java = bench.java_compaction(path)
    if found and java:
        what = f"full compaction of {rows:,} rows in {1 + LATER_RUNS} runs, CPU time"
        bench.once(what, "≤ 1.0×", found, "Java", java)


def _rescaled(bench: Bench) -> None:
    """From 4 to 16 buckets, and a full compaction of the same rows, by CPU time."""
    rows = bench.rows
    for what, runs in (("1 run", 1), (f"{1 + LATER_RUNS} runs", 1 + LATER_RUNS)):
        path = bench.path(f"keys_rescaled_{runs}")
        bench.run("ours_found_table", path=path, rows=rows, runs=runs, options={"bucket": "4"})
        arguments = {"path": path, "rows": rows}
        case = f"rescale {rows:,} rows in {what} from 4 to 16 buckets: against full compaction, CPU time"
        bench.compare(case, "≤ 1.2×", ("ours_rescale", arguments), ("ours_compaction", arguments))


def _found_keys(bench: Bench) -> None:
    """Few rows by key, and by a value with a bitmap index: scattered over all keys, and neighbours."""
    for runs, what in ((1, "compacted"), (1 + LATER_RUNS, f"in {1 + LATER_RUNS} runs")):
        path, rows = bench.path(f"keys_lookup_{runs}"), bench.rows
        bench.run("ours_found_table", path=path, rows=rows, runs=runs, options=_SMALL_PAGES)
        for near in (False, True):
            keys = f"{_LOOKED_UP:,} {'neighbouring' if near else 'scattered'} keys of {rows:,}"
            bench.compare(
                f"look up {keys}, {what}: against a scan", "≤ 0.05×",
                ("ours_lookup", {"path": path, "rows": rows, "near": near}), ("ours_merged", {"path": path}),
            )  # fmt: skip
        path, rows = bench.path(f"keys_value_{runs}"), bench.rows // 2
        options = {**_SMALL_PAGES, "file-index.bitmap.columns": "code"}
        arguments = {"path": path, "where": ("code", 17)}
        for near in (True, False):
            bench.run("ours_found_table", path=path, rows=rows, runs=runs, options=options, near=near)
            kind = "neighbouring" if near else "scattered"
            by_value = f"filter on a value with a bitmap index, about {_LOOKED_UP:,} {kind} of {rows:,} rows, {what}"
            bench.compare(by_value, "≤ 0.2×", ("ours_merged", arguments), ("rust_merged", arguments))
        if runs > 1:
            everything = ("ours_merged", {**arguments, "use_index": False})
            bench.compare(f"{by_value}: against merging all", "≤ 0.2×", ("ours_merged", arguments), everything)


def _modes(bench: Bench) -> None:
    """What each mode costs those who write and those who read: the README's table of modes."""
    rows = bench.rows // 5
    for mode, options in _MODES.items():
        found = bench.run("ours_mode", path=bench.path(f"keys_{mode.replace(' ', '_')}"), rows=rows, options=options)
        if found:
            bench.add(
                f"{_UPSERTS} upserts of {rows // _UPSERT_SHARE:,} scattered rows into {rows:,}, {mode}",
                f"{found['seconds']:.3f} s each, {found['written'] / 2**20:.0f} MiB written in all",
                f"read all {found['read']:.3f} s, filter on a value {found['filter']:.3f} s",
                "", "", f"{found['peak_mib']:.0f} MiB",
            )  # fmt: skip


@case
def ours_mode(path: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    """Median seconds of an upsert, of reading all rows afterwards, and of a filter on a value with a bitmap index."""
    import paimon_pyds as pp

    options = {"bucket": "2", "file-index.bitmap.columns": "code", **options}
    shutil.rmtree(path, ignore_errors=True)
    rng = np.random.default_rng(7)

    def upsert(ids: Any) -> pa.RecordBatch:
        batch = next(batches(len(ids), len(ids), seed=int(ids[0])))
        code = pa.array(rng.integers(0, rows // _WITH_A_VALUE, len(ids), dtype=np.int32))
        return batch.set_column(0, batch.schema.field(0), pa.array(ids)).set_column(1, batch.schema.field(1), code)

    base = upsert(np.arange(rows))
    table = pp.Table.create(path, base.schema, ["id"], options=options)
    table.append([base])
    table.compact(full=True)
    before = size_of(path)
    taken = []
    for _ in range(_UPSERTS):
        changes = upsert(rng.choice(rows, rows // _UPSERT_SHARE, replace=False))
        taken.append(timed(lambda rows=changes: table.append([rows]))[0])
    read, _ = median_of(lambda: sum(b.num_rows for b in ours(path).scan().to_batches()), _RUNS)
    kept, _ = median_of(lambda: sum(b.num_rows for b in ours(path).scan("code = 17").to_batches()), _RUNS)
    return {"seconds": sorted(taken)[_UPSERTS // 2], "read": read, "filter": kept, "written": size_of(path) - before}


@case
def ours_found_table(path: str, rows: int, runs: int, options: dict[str, str], near: bool = False) -> None:
    """Keys from 0 on, each in one of the runs: all of these have keys everywhere. One run alone is compacted.

    ``near``: keys that follow one another have the same code.
    """
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    rng = np.random.default_rng(5)
    run_of, codes = rng.integers(0, runs, rows), max(1, rows // _LOOKED_UP)
    for run in range(runs):
        ids = np.flatnonzero(run_of == run)
        batch = next(batches(len(ids), len(ids), seed=run))
        batch = batch.set_column(0, batch.schema.field(0), pa.array(ids))
        code = (ids // _LOOKED_UP).astype(np.int32) if near else rng.integers(0, codes, len(ids), dtype=np.int32)
        batch = batch.set_column(1, batch.schema.field(1), pa.array(code))
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
def ours_lookup(path: str, rows: int, near: bool = False) -> dict[str, Any]:
    scattered = np.random.default_rng(6).choice(rows, _LOOKED_UP, replace=False)
    keys = pa.table({"id": rows // 2 + np.arange(_LOOKED_UP) if near else scattered})
    seconds, found = median_of(lambda: ours(path).lookup(keys).num_rows, _RUNS)
    return {"seconds": seconds, "rows": found}


@case
def ours_compaction(path: str, rows: int) -> dict[str, Any]:
    """Seconds of CPU time; the table stays as it is."""
    import paimon_pyds as pp

    table = pp.Table.open(copy_of(path, "keys_compacted_ours"))
    before = cpu_seconds()
    elapsed, summary = timed(lambda: table.compact(full=True, options={"compaction.force-rewrite-all-files": "true"}))
    assert summary.rows == rows
    return {"seconds": cpu_seconds() - before, "elapsed": elapsed}


@case
def ours_rescale(path: str, rows: int) -> dict[str, Any]:
    """Seconds of CPU time; the table stays as it is."""
    import paimon_pyds as pp

    table = pp.Table.open(copy_of(path, "keys_rescaled_ours"))
    before = cpu_seconds()
    elapsed, summary = timed(lambda: table.maintenance.rescale(16))
    assert summary.rows == rows
    return {"seconds": cpu_seconds() - before, "elapsed": elapsed}


def _dynamic_runs(keys: int) -> list[pa.RecordBatch]:
    """The same keys twice, in no order."""
    rng = np.random.default_rng(8)
    runs = (next(batches(keys, keys, seed=seed)) for seed in range(2))
    return [run.set_column(0, run.schema.field(0), pa.array(rng.permutation(keys))) for run in runs]


@case
def ours_dynamic_write(path: str, keys: int, known: bool) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    first, second = _dynamic_runs(keys)
    table = pp.Table.create(path, first.schema, ["id"])
    seconds = timed(lambda: table.append([first]))[0]
    return {"seconds": timed(lambda: ours(path).append([second]))[0] if known else seconds}


@case
def rust_dynamic_write(path: str, keys: int, known: bool) -> dict[str, Any]:
    first, second = _dynamic_runs(keys)
    _rust_new(path, "deduplicate", buckets=-1)
    seconds = timed(lambda: _rust_append(path, first))[0]
    return {"seconds": timed(lambda: _rust_append(path, second))[0] if known else seconds}


@case
def ours_assigner(path: str, keys: int, known: bool) -> dict[str, Any]:
    """Seconds to find the buckets of keys, those of a hash index that is read first or new ones, which are handed out
    for one; bytes of memory for each key, when all are found and at most."""
    import paimon_pyds as pp
    from paimon_pyds.base.options import TableOptions
    from paimon_pyds.base.row import EMPTY_ROW, hash_rows
    from paimon_pyds.keys.bucket.assigner import PartitionedRows
    from paimon_pyds.keys.bucket.dynamic import DynamicBuckets, KeyShare
    from paimon_pyds.keys.bucket.hash_index import HashIndex
    from paimon_pyds.metadata.partition import PartitionBucket

    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, pa.schema([pa.field("id", pa.int64(), False)]), ["id"])
    types = [table.schema.field("id").type]

    def rows(start: int, stop: int) -> pa.RecordBatch:
        return pa.record_batch({"id": np.arange(start, min(keys, stop))})

    index = HashIndex(table._store, table.schema, ())
    entries = []
    for bucket in range(-(-keys // _BUCKET_KEYS)):
        first = bucket * _BUCKET_KEYS
        hashes = hash_rows(rows(first, first + _BUCKET_KEYS).columns, types)
        entries.append(index.write(PartitionBucket(EMPTY_ROW, bucket), [hashes], [])[0])
    index = HashIndex(table._store, table.schema, entries if known else ())
    assigner = DynamicBuckets(table.schema, TableOptions({}), index, KeyShare())

    def find() -> None:
        for start in range(0, keys, _FOUND_AT_ONCE):
            batch = rows(start, start + _FOUND_AT_ONCE)
            assigner.assign(PartitionedRows(batch, [EMPTY_ROW], np.zeros(batch.num_rows, np.int64)))

    held, peak = held_mib(), peak_mib()
    seconds, found = timed(find)[0], held_mib() - held
    new = sum(len(hashes) for _, hashes in assigner.new_hashes())
    assert bool(new) is not known
    return {"seconds": seconds, "bytes": found * 2**20 / keys, "most": (peak_mib() - peak) * 2**20 / keys}


@case
def ours_keys_write(path: str, keys: int) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    rows = next(key_runs(keys))
    table = pp.Table.create(path, rows.schema, ["id"], options={"bucket": "2"})
    return {"seconds": timed(lambda: table.append([rows]))[0]}


@case
def rust_keys_write(path: str, keys: int) -> dict[str, Any]:
    rows = next(key_runs(keys))
    _rust_new(path, "deduplicate")
    return {"seconds": timed(lambda: _rust_append(path, rows))[0]}


@case
def ours_keys_table(path: str, keys: int, engine: str) -> None:
    """The table that both sides read."""
    _rust_new(path, engine)
    for run in key_runs(keys):
        _rust_append(path, run)


def _rust_new(path: str, engine: str, buckets: int = 2) -> None:
    shutil.rmtree(path, ignore_errors=True)
    context, name = rust_sql(path)
    context.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
    columns = SQL_COLUMNS.replace("id BIGINT", "id BIGINT NOT NULL")
    options = f"'bucket'='{buckets}', 'merge-engine'='{engine}'"
    context.sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id)) WITH ({options})")


def _rust_append(path: str, rows: pa.RecordBatch) -> None:
    builder = rust(path).new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(rows)
    builder.new_commit().commit(writer.prepare_commit())


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
