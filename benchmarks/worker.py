"""One measurement in a process of its own: ``python -m benchmarks.worker CASE JSON`` prints seconds and peak memory."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import (
    cases_blobs,
    cases_evolution,
    cases_first,
    cases_formats,
    cases_hdfs,
    cases_index,
    cases_keys,
    cases_layout,
    cases_maintenance,
    cases_partitions,
    cases_rows,
    cases_small,
    cases_sql,
    cases_stores,
    cases_streams,
    cases_variant,
)
from benchmarks.clock import computed, median_of, peak_mib, timed
from benchmarks.data import RARE_CODE, batches
from benchmarks.registry import CASES, case, ours, ours_new, rust, rust_new, rust_read, size_of

INDEX = {"file-index.bitmap.columns": "code"}
INDEX_TWO = {
    "file-index.bitmap.columns": "code",
    "file-index.bloom-filter.columns": "name",
    "file-index.bloom-filter.name.items": "100000",
}


# -------------------------------------------------------------------------------------------------------------- ours


@case
def ours_append(path: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    seconds, _ = ours_new(path, options, list(batches(rows)))
    return {"seconds": seconds, "bytes": size_of(path)}


@case
def ours_append_stream(path: str, rows: int) -> dict[str, Any]:
    """Batches of 10,000 rows that nobody holds, as a Spark task gets them: what memory does the writer need?"""
    return {"seconds": ours_new(path, {}, batches(rows, 10_000))[0]}


@case
def ours_scan(path: str) -> dict[str, Any]:
    import paimon_pyds as pp

    pp.Table.open(path).scan(limit=10).to_arrow()
    seconds, rows = timed(lambda: pp.Table.open(path).scan().to_arrow().num_rows)
    return {"seconds": seconds, "rows": rows}


@case
def ours_point(path: str, use_index: bool) -> dict[str, Any]:
    options = {"file-index.read.enabled": str(use_index).lower()}
    read: list[int] = []

    def query() -> int:
        read.clear()
        scan = ours(path).scan(f"code = {RARE_CODE}", options=options)
        found = list(scan.to_batches(on_file=lambda t: read.append(t.counters.bytes_read)))
        return sum(b.num_rows for b in found)

    seconds, rows = median_of(query)
    return {"seconds": seconds, "rows": rows, "bytes_read": sum(read), "bytes": size_of(path)}


@case
def ours_plan(path: str, filter: str | None, cache: str | None = None) -> dict[str, Any]:
    """From the opened table to its splits, as `rust_plan`, the modules that are loaded for that included. With
    ``cache``, by the manifests that an earlier process has decoded and left in that directory."""
    import paimon_pyds as pp

    options = {"local-cache.enabled": str(cache is not None).lower(), "local-cache.dir": cache or "/nowhere"}
    table = pp.Table.open(path, storage_options=options)
    seconds, splits = computed(lambda: len(table.scan(filter).plan().splits))
    return {"seconds": seconds, "splits": splits}


# -------------------------------------------------------------------------------------------------------------- rust


@case
def rust_append(path: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    seconds = rust_new(path, options, list(batches(rows)))
    return {"seconds": seconds, "bytes": size_of(path)}


@case
def rust_scan(path: str) -> dict[str, Any]:
    def query() -> int:
        builder = rust(path).new_read_builder()
        splits = builder.new_scan().plan().splits()
        import pyarrow as pa

        return int(pa.Table.from_batches(builder.new_read().read(splits)).num_rows)

    import pyarrow as pa

    pa.table({"warm": [1]})
    rust(path).new_read_builder().new_scan().plan()
    seconds, rows = timed(query)
    return {"seconds": seconds, "rows": rows}


@case
def rust_point(path: str) -> dict[str, Any]:
    predicate = {"method": "equal", "field": "code", "literals": [RARE_CODE]}
    seconds, rows = median_of(lambda: rust_read(path, predicate))
    return {"seconds": seconds, "rows": rows}


@case
def rust_plan(path: str, filter: str | None) -> dict[str, Any]:
    builder_of = rust(path).new_read_builder

    def plan() -> int:
        builder = builder_of()
        if filter is not None:
            column, value = (part.strip() for part in filter.split("="))
            builder = builder.with_filter({"method": "equal", "field": column, "literals": [int(value)]})
        return len(builder.new_scan().plan().splits())

    seconds, splits = computed(plan)
    return {"seconds": seconds, "splits": splits}


MODULES = (
    cases_blobs,
    cases_evolution,
    cases_first,
    cases_formats,
    cases_hdfs,
    cases_index,
    cases_keys,
    cases_layout,
    cases_maintenance,
    cases_partitions,
    cases_rows,
    cases_small,
    cases_sql,
    cases_stores,
    cases_streams,
    cases_variant,
)
"""Imported to register their cases."""


def main() -> None:
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    result = CASES[name](**arguments) or {}
    result["peak_mib"] = peak_mib()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
