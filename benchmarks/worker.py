"""One measurement in a process of its own: ``python -m benchmarks.worker CASE JSON`` prints seconds and peak memory."""

from __future__ import annotations

import json
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks import cases_index, cases_rows
from benchmarks.data import RARE_CODE, SQL_COLUMNS, batches
from benchmarks.registry import CASES, case, timed

INDEX = {"file-index.bitmap.columns": "code"}
INDEX_TWO = {
    "file-index.bitmap.columns": "code",
    "file-index.bloom-filter.columns": "name",
    "file-index.bloom-filter.name.items": "100000",
}


# -------------------------------------------------------------------------------------------------------------- ours


def _create(path: str, options: dict[str, str]) -> Any:
    import paimon_pyds as pp
    from benchmarks.data import SCHEMA

    shutil.rmtree(path, ignore_errors=True)
    return pp.Table.create(path, SCHEMA, options=options)


@case
def ours_append(path: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    data = list(batches(rows))
    table = _create(path, options)
    seconds, _ = timed(lambda: table.append(data))
    return {"seconds": seconds, "bytes": _size(path)}


@case
def ours_append_stream(path: str, rows: int) -> dict[str, Any]:
    """Batches of 10,000 rows that nobody holds, as a Spark task gets them: what memory does the writer need?"""
    table = _create(path, {})
    seconds, _ = timed(lambda: table.append(batches(rows, 10_000)))
    return {"seconds": seconds}


@case
def ours_scan(path: str) -> dict[str, Any]:
    import paimon_pyds as pp

    pp.Table.open(path).scan(limit=10).to_arrow()
    seconds, rows = timed(lambda: pp.Table.open(path).scan().to_arrow().num_rows)
    return {"seconds": seconds, "rows": rows}


@case
def ours_point(path: str, use_index: bool) -> dict[str, Any]:
    import paimon_pyds as pp
    from paimon_pyds.metadata.cache import METADATA_CACHE

    options = {"file-index.read.enabled": str(use_index).lower()}
    read: list[int] = []

    def query() -> int:
        METADATA_CACHE.clear()
        read.clear()
        scan = pp.Table.open(path).scan(f"code = {RARE_CODE}", options=options)
        found = list(scan.to_batches(on_file=lambda t: read.append(t.counters.bytes_read)))
        return sum(b.num_rows for b in found)

    query()
    runs = [timed(query) for _ in range(7)]
    return {"seconds": sorted(s for s, _ in runs)[3], "rows": runs[0][1], "bytes_read": sum(read), "bytes": _size(path)}


@case
def ours_plan(path: str, filter: str | None) -> dict[str, Any]:
    import paimon_pyds as pp

    table = pp.Table.open(path)
    seconds, files = timed(lambda: len(table.scan(filter).plan().tasks))
    return {"seconds": seconds, "files": files}


# -------------------------------------------------------------------------------------------------------------- rust


def _rust(path: str) -> Any:
    from pypaimon_rust import datafusion

    warehouse, database, table = Path(path).parents[1], Path(path).parent.name[:-3], Path(path).name
    catalog = datafusion.PaimonCatalog({"warehouse": str(warehouse)})
    return catalog.get_table(f"{database}.{table}")


@case
def rust_append(path: str, rows: int, options: dict[str, str]) -> dict[str, Any]:
    from pypaimon_rust import datafusion

    data = list(batches(rows))
    shutil.rmtree(path, ignore_errors=True)
    context = datafusion.SQLContext()
    warehouse, database, table = Path(path).parents[1], Path(path).parent.name[:-3], Path(path).name
    context.register_catalog("paimon", {"warehouse": str(warehouse)})
    context.sql(f"CREATE SCHEMA IF NOT EXISTS paimon.{database}")
    properties = ", ".join(f"'{k}'='{v}'" for k, v in options.items())
    clause = f" WITH ({properties})" if properties else ""
    context.sql(f"CREATE TABLE paimon.{database}.{table} ({SQL_COLUMNS}){clause}")
    builder = _rust(path).new_batch_write_builder()

    def write() -> None:
        writer = builder.new_write()
        for batch in data:
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())

    seconds, _ = timed(write)
    return {"seconds": seconds, "bytes": _size(path)}


@case
def rust_scan(path: str) -> dict[str, Any]:
    def query() -> int:
        builder = _rust(path).new_read_builder()
        splits = builder.new_scan().plan().splits()
        import pyarrow as pa

        return int(pa.Table.from_batches(builder.new_read().read(splits)).num_rows)

    import pyarrow as pa

    pa.table({"warm": [1]})
    _rust(path).new_read_builder().new_scan().plan()
    seconds, rows = timed(query)
    return {"seconds": seconds, "rows": rows}


@case
def rust_point(path: str) -> dict[str, Any]:
    def query() -> int:
        predicate = {"method": "equal", "field": "code", "literals": [RARE_CODE]}
        builder = _rust(path).new_read_builder().with_filter(predicate)
        splits = builder.new_scan().plan().splits()
        return sum(b.num_rows for b in builder.new_read().read(splits))

    query()
    runs = [timed(query) for _ in range(7)]
    return {"seconds": sorted(s for s, _ in runs)[3], "rows": runs[0][1]}


@case
def rust_plan(path: str, filter: str | None) -> dict[str, Any]:
    builder_of = _rust(path).new_read_builder

    def plan() -> int:
        builder = builder_of()
        if filter is not None:
            column, value = (part.strip() for part in filter.split("="))
            builder = builder.with_filter({"method": "equal", "field": column, "literals": [int(value)]})
        return len(builder.new_scan().plan().splits())

    seconds, files = timed(plan)
    return {"seconds": seconds, "files": files}


def _size(path: str) -> int:
    return sum(p.stat().st_size for p in Path(path).rglob("*") if p.is_file() and p.parent.name.startswith("bucket-"))


MODULES = (cases_index, cases_rows)
"""Imported to register their cases."""


def main() -> None:
    name, arguments = sys.argv[1], json.loads(sys.argv[2])
    result = CASES[name](**arguments) or {}
    result["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
