"""Reading many files of one row each, and changing rows in them: the cost of a file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases_partitions import one_row_each
from benchmarks.clock import computed
from benchmarks.registry import case, copy_of, ours, rust, rust_sql

if TYPE_CHECKING:
    from benchmarks.bench import Bench

FILES = (100, 1_500, 10_000)
MAIN = 1_500
CHANGES = ("delete", "update", "merge", "compact")


def section(bench: Bench) -> None:
    for files in FILES:
        for versions, what in ((0, "files of one row"), (1, "the same by key"), (2, "two files a bucket, by key")):
            path = bench.path(f"small_{files}_{versions}")
            bench.run("ours_small_table", path=path, files=files, versions=versions)
            read = {"path": path, "rows": files}
            bench.compare(
                f"read {files:,} buckets: {what}, CPU time",
                "≤ 1.0×" if files == MAIN else "",
                ("ours_small_read", read),
                ("rust_small_read", read),
            )
            if not versions:
                bench.compare(
                    f"read {files:,} files of one row, against pyarrow alone, CPU time",
                    "≤ 2.5×" if files == MAIN else "",
                    ("ours_small_read", read),
                    ("pyarrow_small_read", read),
                )
    for file_format, peer in (("orc", "pyarrow_small_orc_read"), ("avro", "rust_small_read")):
        for files in (FILES[0], MAIN):
            path = bench.path(f"small_{files}_{file_format}")
            bench.run("ours_small_table", path=path, files=files, versions=0, file_format=file_format)
            read = {"path": path, "rows": files}
            bench.compare(
                f"read {files:,} files of one row as {file_format}, CPU time",
                "",
                ("ours_small_read", read),
                (peer, read),
            )
    for files, versions, kind in (
        *((files, 0, "files of one row") for files in FILES),
        *((files, 2, "buckets of two files, by key") for files in FILES[:2]),
    ):
        path = bench.path(f"small_{files}_{versions}")
        counted = "ours_small_count", {"path": path}
        bench.compare(f"count a third of {files:,} {kind}, CPU time", "", counted, ("rust_small_count", {"path": path}))
        if versions:
            what = f"look up the rows of {files:,} {kind}, against reading them, CPU time"
            bench.compare(
                what, "", ("ours_small_lookup", {"path": path}), ("ours_small_read", {"path": path, "rows": files})
            )
        for change in CHANGES:
            what = f"{change} a third of the rows of {files:,} {kind}, against reading them, CPU time"
            arguments = {"path": path, "change": change}
            bench.compare(
                what, "", ("ours_small_change", arguments), ("ours_small_read", {"path": path, "rows": files})
            )


@case
def ours_small_table(path: str, files: int, versions: int, file_format: str = "parquet") -> dict[str, Any]:
    """A row in each partition, in a file; with a key ``versions`` times, each time in another file."""
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    rows = one_row_each(files)
    options, keys = {"file.format": file_format}, []
    if versions:
        options, keys = {**options, "bucket": "1", "write-only": "true"}, ["p", "id"]
    table = pp.Table.create(path, rows.schema, partition_by=["p"], primary_key=keys, options=options)
    for _ in range(max(1, versions)):
        table.append(rows)
    return {"seconds": 0.0}


@case
def ours_small_read(path: str, rows: int) -> dict[str, Any]:
    ours(path).scan(limit=1).to_arrow()  # what a process loads once
    seconds, found = computed(lambda: ours(path).scan().to_arrow().num_rows)
    assert found == rows, found
    return {"seconds": seconds}


@case
def rust_small_read(path: str, rows: int) -> dict[str, Any]:
    import pyarrow as pa

    def read() -> int:
        builder = rust(path).new_read_builder()
        splits = builder.new_scan().plan().splits()
        return int(pa.Table.from_batches(builder.new_read().read(splits)).num_rows)

    pa.table({"warm": [1]})
    rust(path).new_read_builder().new_scan().plan()
    seconds, found = computed(read)
    assert found == rows, found
    return {"seconds": seconds}


@case
def pyarrow_small_read(path: str, rows: int) -> dict[str, Any]:
    """Only decoding, without planning."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [str(file) for file in Path(path).rglob("*.parquet")]
    pq.ParquetFile(files[0]).read()
    seconds, found = computed(lambda: pa.concat_tables(pq.ParquetFile(file).read() for file in files).num_rows)
    assert found == rows, found
    return {"seconds": seconds}


@case
def pyarrow_small_orc_read(path: str, rows: int) -> dict[str, Any]:
    """Only decoding, without planning."""
    import pyarrow as pa
    import pyarrow.orc

    files = [str(file) for file in Path(path).rglob("*.orc")]
    pyarrow.orc.read_table(files[0])
    seconds, found = computed(lambda: pa.concat_tables(pyarrow.orc.ORCFile(file).read() for file in files).num_rows)
    assert found == rows, found
    return {"seconds": seconds}


@case
def ours_small_lookup(path: str) -> dict[str, Any]:
    keys = ours(path).scan(columns=["p", "id"]).to_arrow()
    ours(path).lookup(keys.slice(0, 1))  # what a process loads once
    seconds, rows = computed(lambda: ours(path).lookup(keys).num_rows)
    assert rows == len(keys), rows
    return {"seconds": seconds}


@case
def ours_small_count(path: str) -> dict[str, Any]:
    ours(path).scan(limit=1).to_arrow()
    seconds, rows = computed(lambda: ours(path).count("code % 97 < 33"))
    return {"seconds": seconds, "rows": rows}


@case
def rust_small_count(path: str) -> dict[str, Any]:
    context, name = rust_sql(path)

    def count() -> int:
        [batch] = context.sql(f"SELECT count(*) FROM {name} WHERE code % 97 < 33")
        return int(batch.column(0)[0].as_py())

    seconds, rows = computed(count)
    return {"seconds": seconds, "rows": rows}


@case
def ours_small_change(path: str, change: str) -> dict[str, Any]:
    table = ours(copy_of(path, f"changed_{Path(path).name}"))
    table.scan(limit=1).to_arrow()
    third = table.scan("code < 33").to_arrow()
    operations = {
        "delete": lambda: table.delete("code < 33"),
        "update": lambda: table.update({"x": "x + 1"}, "code < 33"),
        "merge": lambda: table.merge(third, on=["p", "id"], when_matched="update"),
        "compact": lambda: table.compact(full=True),
    }
    return {"seconds": computed(operations[change])[0]}
