"""Tables of data evolution: reading rows whose columns are in three files, updates of one column, and looking values up
by a global index (``evolution``).

Seconds are those of processors. Both sides read the same table; each update changes a copy of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.clock import computed
from benchmarks.data import batches
from benchmarks.registry import case, copy_of, ours, ours_new, rust, rust_sql

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "target-file-row-num": "1000000"}
_RUNS = 5
_CHANGED = 1_000


def section(bench: Bench) -> None:
    """All rows of the section."""
    rows, path = bench.rows // 2, bench.path("evolution")
    bench.run("ours_evolution_table", path=path, rows=rows)
    table = {"path": path}
    what = f"read {rows:,} rows with columns in 3 files, CPU time"
    mine = ("ours_evolution_read", table)
    bench.compare(what, "≤ 1.2×", mine, ("rust_evolution_read", table))
    bench.once(what, "≤ 0.5×", bench.run(*mine[:1], **table), "pypaimon", bench.pypaimon("evolution_read", path=path))
    for which, where in (
        ("neighbouring", f"id BETWEEN {rows // 2} AND {rows // 2 + _CHANGED - 1}"),
        ("scattered", f"id % {rows // _CHANGED} = 3"),
    ):
        change = {"path": path, "where": where}
        what = f"update one column of {_CHANGED:,} {which} of {rows:,} rows, CPU time"
        bench.compare(what, "≤ 0.5×", ("ours_evolution_update", change), ("rust_evolution_update", change))
    indexed = {"path": bench.path("evolution_indexed")}
    bench.run("ours_evolution_index", rows=bench.rows, **indexed)
    for columns in ("price", "id, code, price, name"):
        what = f"look up {_CHANGED:,} of {bench.rows:,} values by btree, {len(columns.split())} columns, CPU time"
        look_up = {"columns": columns, **indexed}
        bench.compare(what, "≤ 1.0×", ("ours_evolution_lookup", look_up), ("rust_evolution_lookup", look_up))


@case
def ours_evolution_table(path: str, rows: int) -> dict[str, Any]:
    seconds, table = ours_new(path, _OPTIONS, batches(rows))
    table.update({"price": "price * 2"})
    table.update({"code": "code + 1"})
    return {"seconds": seconds}


@case
def ours_evolution_read(path: str) -> dict[str, Any]:
    return _least(lambda: ours(path).to_arrow().num_rows)


@case
def rust_evolution_read(path: str) -> dict[str, Any]:
    def read() -> int:
        builder = rust(path).new_read_builder()
        return pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits())).num_rows

    return _least(read)


@case
def ours_evolution_update(path: str, where: str) -> dict[str, Any]:
    table = ours(copy_of(path, f"{Path(path).name}_ours"))
    table.update({"code": "6"}, where)  # modules are loaded
    return {"seconds": computed(lambda: table.update({"code": "7"}, where))[0]}


@case
def rust_evolution_update(path: str, where: str) -> dict[str, Any]:
    context, name = rust_sql(copy_of(path, f"{Path(path).name}_rust"))
    list(context.sql(f"UPDATE {name} SET code = 6 WHERE {where}"))
    return {"seconds": computed(lambda: list(context.sql(f"UPDATE {name} SET code = 7 WHERE {where}")))[0]}


@case
def ours_evolution_index(path: str, rows: int) -> dict[str, Any]:
    _, table = ours_new(path, _OPTIONS, batches(rows))
    built, _ = computed(lambda: table.index.build_global("price"))
    return {"seconds": built}


def _among(path: str) -> str:
    """A filter by values of rows all over the table."""
    prices = ours(path).scan("id % 9973 = 3", columns=["price"], limit=_CHANGED).to_arrow()["price"].to_pylist()
    return f"price IN ({', '.join(map(repr, prices))})"


@case
def ours_evolution_lookup(path: str, columns: str) -> dict[str, Any]:
    where = _among(path)
    return _least(lambda: ours(path).scan(where, columns=columns.split(", ")).to_arrow().num_rows)


@case
def rust_evolution_lookup(path: str, columns: str) -> dict[str, Any]:
    where, (context, name) = _among(path), rust_sql(path)
    query = f"SELECT {columns} FROM {name} WHERE {where}"
    return _least(lambda: sum(batch.num_rows for batch in context.sql(query)))


def _least(read: Any) -> dict[str, Any]:
    found = [computed(read) for _ in range(_RUNS)]
    return {"seconds": min(seconds for seconds, _ in found), "rows": found[-1][1]}
