"""File indexes: building them, finding rows by them, and what they spare (`make bench`, section ``index``)."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import median_of, timed
from benchmarks.data import CLUSTER_ROWS, RARE_CODE, batches, clustered_batches
from benchmarks.registry import case, ours, ours_new, rust_new, rust_read, size_of

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_THREE = {
    "file-index.bitmap.columns": "code",
    "file-index.bloom-filter.columns": "name",
    "file-index.bloom-filter.name.items": "100000",
    "file-index.range-bitmap.columns": "price",
}
_RANGE = {"file-index.range-bitmap.columns": "id"}
_TOP = {"file-index.range-bitmap.columns": "price"}
_SCATTERED_CODE = 17
_PREDICATES = 1000
_PENDING_SHARE = 1000
_FILES = 100


def section(bench: Bench) -> None:
    """All rows of the section."""
    _building(bench)
    _scattered(bench)
    _clustered(bench)
    _top(bench)
    _evaluating(bench)
    _again(bench)
    _specification(bench)


def _building(bench: Bench) -> None:
    rows = bench.rows // 10
    bench.compare(
        f"append {rows:,} rows with bitmap, bloom and range bitmap ({rows:,} distinct values)", "≤ 0.1×",
        ("ours_three", {"path": bench.path("ours_three"), "rows": rows}),
        ("rust_three", {"path": bench.path("rust_three"), "rows": rows}),
    )  # fmt: skip


def _scattered(bench: Bench) -> None:
    for engine in ("ours", "rust"):
        if not Path(bench.path(f"{engine}_bitmap")).exists():
            bench.run(f"{engine}_bitmap", path=bench.path(f"{engine}_bitmap"), rows=bench.rows)
    paths = {engine: bench.path(f"{engine}_bitmap") for engine in ("ours", "rust")}
    for what, code, target in (
        ("one rare row", RARE_CODE, "≤ 1.0×"),
        ("1 of 1,000 rows, scattered", _SCATTERED_CODE, "≤ 0.8×"),
    ):
        query = {"path": paths["ours"], "code": code, "use_index": True}
        bench.compare(
            f"{what} of {bench.rows:,} by bitmap", target,
            ("ours_equal", query), ("rust_equal", {"path": paths["rust"], "code": code}),
        )  # fmt: skip
        bench.compare(
            f"{what} of {bench.rows:,}: index against no index", "",
            ("ours_equal", query), ("ours_equal", {**query, "use_index": False}),
        )  # fmt: skip


def _clustered(bench: Bench) -> None:
    for engine in ("ours", "rust"):
        bench.run(f"{engine}_clustered", path=bench.path(f"{engine}_clustered"), rows=bench.rows)
    low = bench.rows // CLUSTER_ROWS // 2
    query = {"low": low, "high": low + max(1, bench.rows // 1000 // CLUSTER_ROWS)}
    by_index = ("ours_range", {"path": bench.path("ours_clustered"), "use_index": True, **query})
    bench.compare(
        f"0.1 % of {bench.rows:,} clustered rows by range bitmap", "≤ 0.67×",
        by_index, ("rust_range", {"path": bench.path("rust_clustered"), **query}),
    )  # fmt: skip
    bench.compare(
        f"0.1 % of {bench.rows:,} clustered rows: index against no index", "≤ 0.1×",
        by_index, ("ours_range", {"path": bench.path("ours_clustered"), "use_index": False, **query}),
    )  # fmt: skip


def _top(bench: Bench) -> None:
    path = bench.path("ours_top")
    bench.run("ours_top_table", path=path, rows=bench.rows)
    bench.compare(
        f"top 10 of {bench.rows:,} rows by range bitmap against scanning and sorting", "≤ 0.1×",
        ("ours_top", {"path": path, "use_index": True}), ("ours_sorted", {"path": path}),
    )  # fmt: skip
    bench.compare(
        f"top 10 of {bench.rows:,} rows by range bitmap against a search of the sort column", "",
        ("ours_top", {"path": path, "use_index": True}), ("ours_top", {"path": path, "use_index": False}),
    )  # fmt: skip


def _evaluating(bench: Bench) -> None:
    path, rows = bench.path("ours_three"), bench.rows // 10
    for kind in ("points", "ranges", "mixed"):
        one = bench.run("ours_predicates", path=path, kind=kind)
        bench.add(
            f"{_PREDICATES:,} predicates on an open container of {rows:,} rows: {kind}",
            f"{one['seconds'] * 1000:.3f} ms each", "", f"{one['rows']:,} rows found", "< 0.2 ms",
        )  # fmt: skip


def _again(bench: Bench) -> None:
    """The next query of a process over the same files, whose indexes are still open."""
    path = bench.path("ours_many_files")
    bench.run("ours_many_files", path=path, rows=bench.rows // 10)
    for what in ("code = 17", "price BETWEEN 0.5 AND 0.501", "name = 'name-000017' OR price < 0.001"):
        one = bench.run("ours_again", path=path, condition=what)
        bench.add(
            f"the next count of {what} by the indexes of {_FILES} files", f"{one['again'] * 1000:.1f} ms",
            f"the first {one['first'] * 1000:.1f} ms", f"{one['again'] / one['first']:.2f}×", "≤ 0.5×",
        )  # fmt: skip


def _specification(bench: Bench) -> None:
    """The example that the index's descriptions give: of a million rows a thousand have a status, the file is 100 MB;
    50 KB of index and 100 KB of pages are read instead, 1,000 rows are looked at instead of a million."""
    rows = 1_000_000
    spread, together = bench.path("ours_spread"), bench.path("ours_together")
    for path, scattered in ((together, False), (spread, True)):
        bench.run("ours_pending", path=path, rows=rows, scattered=scattered)
    for what, path in (("in a row", together), ("scattered", spread)):
        one = bench.run("ours_pending_query", path=path)
        bench.add(
            f"{rows:,} rows, {one['rows']:,} matches {what}: bytes read", f"{one['bytes_read']:,}",
            f"file and index {one['bytes']:,}", f"1/{one['bytes'] / one['bytes_read']:.0f}", "claimed 1/600",
        )  # fmt: skip
        bench.add(
            f"{rows:,} rows, {one['rows']:,} matches {what}: rows compared", f"{one['compared']:,}", f"scan {rows:,}",
            f"1/{rows / one['compared']:.0f}", "claimed 1/1,000",
        )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- tables


@case
def ours_three(path: str, rows: int) -> dict[str, Any]:
    data = list(batches(rows))
    return {"seconds": ours_new(path, _THREE, data)[0], "bytes": size_of(path)}


@case
def rust_three(path: str, rows: int) -> dict[str, Any]:
    data = list(batches(rows))
    return {"seconds": rust_new(path, _THREE, data), "bytes": size_of(path)}


@case
def ours_bitmap(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": ours_new(path, {"file-index.bitmap.columns": "code"}, batches(rows))[0]}


@case
def rust_bitmap(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": rust_new(path, {"file-index.bitmap.columns": "code"}, batches(rows))}


@case
def ours_clustered(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": ours_new(path, _RANGE, clustered_batches(rows))[0]}


@case
def rust_clustered(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": rust_new(path, _RANGE, clustered_batches(rows))}


@case
def ours_many_files(path: str, rows: int) -> dict[str, Any]:
    size = max(1, rows // _FILES)
    seconds, table = ours_new(path, {**_THREE, "write-only": "true"}, batches(size))
    for seed in range(2, _FILES + 1):
        seconds += timed(lambda seed=seed: table.append(batches(size, seed=seed)))[0]  # type: ignore[misc]
    return {"seconds": seconds}


@case
def ours_top_table(path: str, rows: int) -> dict[str, Any]:
    return {"seconds": ours_new(path, _TOP, batches(rows))[0]}


@case
def ours_pending(path: str, rows: int, scattered: bool) -> dict[str, Any]:
    """A million rows of about 100 bytes, one in a thousand with a status that no other has."""
    import shutil

    import numpy as np
    import pyarrow as pa

    import paimon_pyds as pp

    rng = np.random.default_rng(3)
    pending = np.zeros(rows, np.bool_)
    first = rows // 3
    chosen = (
        rng.choice(rows, rows // _PENDING_SHARE, replace=False)
        if scattered
        else slice(first, first + rows // _PENDING_SHARE)
    )
    pending[chosen] = True
    status = np.where(pending, "PENDING", np.array(["PAID", "SHIPPED", "DONE"])[rng.integers(0, 3, rows)])
    letters = rng.integers(97, 123, (rows, 80), dtype=np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * 80
    notes = pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
    table = pa.table({"id": np.arange(rows), "status": pa.array(status), "amount": rng.random(rows), "note": notes})
    shutil.rmtree(path, ignore_errors=True)
    new = pp.Table.create(path, table.schema, options={"file-index.bitmap.columns": "status"})
    return {"seconds": timed(lambda: new.append(table))[0]}


# ------------------------------------------------------------------------------------------------------------- queries


@case
def ours_equal(path: str, code: int, use_index: bool) -> dict[str, Any]:
    return _query(path, f"code = {code}", use_index)


@case
def rust_equal(path: str, code: int) -> dict[str, Any]:
    seconds, rows = median_of(lambda: rust_read(path, {"method": "equal", "field": "code", "literals": [code]}))
    return {"seconds": seconds, "rows": rows}


@case
def ours_range(path: str, low: int, high: int, use_index: bool) -> dict[str, Any]:
    return _query(path, f"id >= {low} AND id < {high}", use_index)


@case
def rust_range(path: str, low: int, high: int) -> dict[str, Any]:
    bounds = [("greaterOrEqual", low), ("lessThan", high)]
    children = [{"method": method, "field": "id", "literals": [value]} for method, value in bounds]
    seconds, rows = median_of(lambda: rust_read(path, {"method": "and", "children": children}))
    return {"seconds": seconds, "rows": rows}


def _query(path: str, condition: str, use_index: bool) -> dict[str, Any]:
    options = {"file-index.read.enabled": str(use_index).lower()}

    def query() -> int:
        return sum(b.num_rows for b in ours(path).scan(condition, options=options).to_batches())

    seconds, rows = median_of(query)
    return {"seconds": seconds, "rows": rows}


@case
def ours_top(path: str, use_index: bool) -> dict[str, Any]:
    options = {"file-index.read.enabled": str(use_index).lower()}
    seconds, found = median_of(lambda: ours(path).top_n("price desc, 10", options=options), 3)
    return {"seconds": seconds, "rows": found.num_rows}


@case
def ours_sorted(path: str) -> dict[str, Any]:
    """What one does without an index: read everything, sort, keep ten rows."""
    import pyarrow.compute as pc

    def query() -> Any:
        rows = ours(path).scan().to_arrow()
        return rows.take(pc.select_k_unstable(rows, 10, [("price", "descending")]))

    seconds, found = median_of(query, 3)
    return {"seconds": seconds, "rows": found.num_rows}


@case
def ours_predicates(path: str, kind: str) -> dict[str, Any]:
    """Predicates that no cache holds the answer of, on one container that stays open."""
    import numpy as np

    from paimon_pyds.index.evaluate import FileIndex
    from paimon_pyds.sql.predicate.bind import bind
    from paimon_pyds.sql.predicate.normal_form import parse_filter
    from paimon_pyds.storage.byte_source import FileSource

    table = ours(path)
    rng = np.random.default_rng(4)
    texts = []
    for number in range(_PREDICATES):
        code, name, price = rng.integers(0, 1000), rng.integers(0, 100_000), rng.random()
        point = f"code = {code}" if number % 2 else f"name = 'name-{name:06d}'"
        between = f"price BETWEEN {price} AND {price + 0.001}"
        texts.append({"points": point, "ranges": between, "mixed": f"code = {code} AND {between} OR {point}"}[kind])
    fields = table.schema.fields
    predicates = [bind(parse_filter(text), fields) for text in texts]
    task = table.scan().plan().files[0]
    index = FileIndex.open(FileSource(table.scan().plan().spec.io, task.index_path))
    found = [index.evaluate(predicate, task.row_count) for predicate in predicates[:10]]
    gc.collect()  # else it is by chance whether a collection of all objects falls into a time of 60 ms
    seconds, found = timed(lambda: [index.evaluate(predicate, task.row_count) for predicate in predicates])
    return {"seconds": seconds / _PREDICATES, "rows": sum(f.selection.count(task.row_count) for f in found)}


@case
def ours_again(path: str, condition: str) -> dict[str, Any]:
    """Counts that the indexes answer: the first that asks them, and the next one; the plan's metadata is in memory."""
    table = ours(path)
    table.scan(condition).answer.count()
    runs = []
    for _ in range(5):
        ours(path).scan(condition).plan()
        runs.append([timed(lambda: table.scan(condition).answer.count())[0] for _ in range(2)])
    first, again = (sorted(times)[2] for times in zip(*runs, strict=True))
    return {"first": first, "again": again}


@case
def ours_pending_query(path: str) -> dict[str, Any]:
    counters: list[tuple[int, int]] = []
    scan = ours(path).scan("status = 'PENDING'")
    rows = sum(
        b.num_rows
        for b in scan.to_batches(on_file=lambda t: counters.append((t.counters.bytes_read, t.rows_after_pages)))
    )
    read, compared = (sum(column) for column in zip(*counters, strict=True))
    return {"rows": rows, "bytes_read": read, "compared": compared, "bytes": size_of(path)}
