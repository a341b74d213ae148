"""Changing rows: DELETE, UPDATE, MERGE of one row in a thousand, and reading beside deleted rows (section ``rows``).

Each measurement changes a fresh copy of a table. pypaimon-rust is at its best on a table with row tracking, data
evolution and deletion vectors; on a plain append table it rewrites files. delta-rs rewrites files, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.clock import median_of, timed
from benchmarks.data import SCHEMA, batches
from benchmarks.registry import case, copy_of, ours, ours_new, rust, rust_new, rust_sql

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_VECTORS = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "code"}
_BEST = {**_VECTORS, "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
_CODE = 17
_SHARE = 1000
_NEW = 10
"""One in so many rows of a merge is new."""


def section(bench: Bench) -> None:
    """All rows of the section."""
    tables = {name: bench.path(f"rows_{name}") for name in ("ours", "best", "plain", "delta")}
    for name, path in tables.items():
        bench.run(f"{name}_rows_table", path=path, rows=bench.rows)
    on = {name: {"path": path} for name, path in tables.items()}
    what = f"1 of 1,000 of {bench.rows:,} rows, scattered"
    mine = ("ours_delete", on["ours"])
    bench.compare(f"delete {what}: vectors against rewriting", "≤ 0.1×", mine, ("ours_delete_rewriting", on["ours"]))
    bench.compare(f"delete {what}: row tracking and data evolution there", "≤ 0.33×", mine, ("rust_delete", on["best"]))
    bench.compare(f"delete {what}: plain append table there", "≤ 0.33×", mine, ("rust_delete", on["plain"]))
    bench.compare(f"delete {what}", "≤ 0.33×", mine, ("delta_delete", on["delta"]))
    bench.compare(f"update {what}", "≤ 0.5×", ("ours_update", on["ours"]), ("rust_update", on["best"]))
    merge = {"rows": bench.rows}
    mine = ("ours_merge", {**on["ours"], **merge})
    bench.compare(f"merge {bench.rows // _SHARE:,} changes", "≤ 0.5×", mine, ("rust_merge", {**on["best"], **merge}))
    bench.compare(f"merge {bench.rows // _SHARE:,} changes", "≤ 1.0×", mine, ("delta_merge", {**on["delta"], **merge}))
    few, many = bench.rows // 5, bench.rows * 6 // 5
    ours_few, delta_few = _large_merges(bench, few)
    bench.compare(f"merge {few // 2:,} changes into {few:,} rows", "≤ 1.0×", ours_few, delta_few)
    ours_many, delta_many = (bench.run(name, **arguments) for name, arguments in _large_merges(bench, many))
    bench.once(f"merge {many // 2:,} changes into {many:,} rows", "≤ 1.5×", ours_many, "delta", delta_many)
    deleted = bench.path("rows_deleted")
    bench.run("ours_deleted_table", path=tables["ours"], target=deleted)
    bench.compare(
        f"read {bench.rows:,} rows, 1 % deleted against none", "≤ 1.1×",
        ("ours_read", {"path": deleted}), ("ours_read", on["ours"]),
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- tables


def _large_merges(bench: Bench, rows: int) -> list[tuple[str, dict[str, Any]]]:
    """Half as many changes as a new table has rows, of ours and of delta-rs."""
    found = []
    for name in ("ours", "delta"):
        table = {"path": bench.path(f"rows_{name}_large"), "rows": rows}
        bench.run(f"{name}_rows_table", **table)
        found.append((f"{name}_merge", {**table, "many": True}))
    return found


@case
def ours_rows_table(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": ours_new(path, _VECTORS, batches(rows))[0]}


@case
def best_rows_table(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": rust_new(path, _BEST, batches(rows))}


@case
def plain_rows_table(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": rust_new(path, {"file-index.bitmap.columns": "code"}, batches(rows))}


@case
def delta_rows_table(path: str, rows: int) -> dict[str, Any]:
    from deltalake import write_deltalake

    shutil.rmtree(path, ignore_errors=True)
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(rows))
    return {"seconds": timed(lambda: write_deltalake(path, reader))[0]}


@case
def ours_deleted_table(path: str, target: str) -> dict[str, Any]:
    """Ten codes of a thousand: 1 % of the rows, scattered."""
    ours(copy_of(path, Path(target).name)).delete(f"code BETWEEN {_CODE} AND {_CODE + 9}")
    return {"seconds": 0.0}


def _changes(rows: int, *, many: bool = False) -> pa.Table:
    """One change in a thousand rows, all over the table, of which one in ten is a new row; or half as many as there are
    rows, in any order, half of them new."""
    count = rows // _SHARE
    ids = np.arange(count) * _SHARE + 7
    ids[::_NEW] = rows + np.arange(len(ids[::_NEW]))
    if many:
        ids = np.random.default_rng(3).permutation(np.arange(rows * 3 // 4, rows * 5 // 4))
        count = len(ids)
    names = pa.array([f"new-{i}" for i in range(count)])
    columns = [pa.array(ids), pa.array(np.full(count, 1, np.int32)), pa.array(np.full(count, -1.0)), names]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _on_copy(path: str, change: Callable[[str], Any]) -> dict[str, Any]:
    """Seconds of a change to a copy of a table, that the engine has opened and changed once, elsewhere, before."""
    change(copy_of(path, "rows_warm"))
    target = copy_of(path, "rows_changed")
    return {"seconds": timed(lambda: change(target))[0]}


# ------------------------------------------------------------------------------------------------------------- changes


@case
def ours_delete(path: str) -> dict[str, Any]:
    return _on_copy(path, lambda target: ours(target).delete(f"code = {_CODE}"))


@case
def ours_delete_rewriting(path: str) -> dict[str, Any]:
    options = {"deletion-vectors.enabled": "false"}
    return _on_copy(path, lambda target: ours(target).delete(f"code = {_CODE}", options=options))


@case
def rust_delete(path: str) -> dict[str, Any]:
    return _on_copy(path, lambda target: _sql(target, f"DELETE FROM {{table}} WHERE code = {_CODE}"))


@case
def delta_delete(path: str) -> dict[str, Any]:
    return _on_copy(path, lambda target: _delta(target).delete(f"code = {_CODE}"))


@case
def ours_update(path: str) -> dict[str, Any]:
    return _on_copy(path, lambda target: ours(target).update({"price": "-1.0D"}, f"code = {_CODE}"))


@case
def rust_update(path: str) -> dict[str, Any]:
    def change(target: str) -> None:
        builder = rust(target).new_batch_write_builder()
        where = {"method": "equal", "field": "code", "literals": [_CODE]}
        builder.new_commit().commit(builder.new_update().update_by_predicate(where, {"price": -1.0}))

    return _on_copy(path, change)


@case
def ours_merge(path: str, rows: int, many: bool = False) -> dict[str, Any]:
    changes = _changes(rows, many=many)

    def change(target: str) -> None:
        ours(target).merge(changes, ["id"], when_matched="update", when_not_matched="insert")

    return _on_copy(path, change)


@case
def rust_merge(path: str, rows: int) -> dict[str, Any]:
    changes = _changes(rows).combine_chunks().to_batches()[0]

    def change(target: str) -> None:
        builder = rust(target).new_batch_write_builder()
        builder.new_commit().commit(builder.new_update().upsert_by_arrow_with_key([changes], ["id"]))

    return _on_copy(path, change)


@case
def delta_merge(path: str, rows: int, many: bool = False) -> dict[str, Any]:
    changes = _changes(rows, many=many)

    def change(target: str) -> None:
        merge = _delta(target).merge(changes, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return _on_copy(path, change)


@case
def ours_read(path: str) -> dict[str, Any]:
    seconds, rows = median_of(lambda: ours(path).scan().to_arrow().num_rows, 3)
    return {"seconds": seconds, "rows": rows}


def _sql(path: str, statement: str) -> None:
    context, table = rust_sql(path)
    context.sql(statement.format(table=table))


def _delta(path: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(path)
