"""ORC and Avro tables, and Parquet tables of many columns, compared with pyarrow alone and pypaimon-rust."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.data import batches
from benchmarks.registry import case, ours, rust

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from benchmarks.bench import Bench

COLUMNS = (10, 100, 1_000, 5_000)


def section(bench: Bench) -> None:
    rows, orc, avro = bench.rows // 5, bench.path("orc"), bench.path("avro")
    bench.compare(
        f"ORC: append {rows:,} rows, CPU time", "≤ 1.3×",
        ("ours_format_write", {"path": orc, "file_format": "orc", "rows": rows}),
        ("arrow_orc_write", {"path": f"{orc}.orc", "rows": rows}),
    )  # fmt: skip
    bench.compare(
        f"ORC: read {rows:,} rows, CPU time", "≤ 1.2×",
        ("ours_format_read", {"path": orc}), ("arrow_orc_read", {"path": f"{orc}.orc"}),
    )  # fmt: skip
    bench.run("ours_format_write", path=avro, file_format="avro", rows=rows)
    bench.compare(
        f"Avro: read {rows:,} rows, CPU time", "≤ 1.0×",
        ("ours_format_read", {"path": avro}), ("rust_format_read", {"path": avro}),
    )  # fmt: skip
    bench.compare(
        "Avro: 2 columns of 1 of 1,000 rows by a filter, CPU time, against our full read", "≤ 0.6×",
        ("ours_format_read", {"path": avro, "filter": "code = 7", "columns": ["id", "code"]}),
        ("ours_format_read", {"path": avro}),
    )  # fmt: skip
    for columns in COLUMNS:
        path = bench.path(f"wide_{columns}")
        bench.run("ours_columns", path=path, columns=columns, rows=20_000_000 // columns)
        bench.compare(
            f"read {20_000_000 // columns:,} rows × {columns:,} columns, CPU time",
            "≤ 1.3×" if columns >= 1_000 else "",
            ("ours_format_read", {"path": path}),
            ("arrow_parquet_read", {"path": path}),
        )


def _computed_twice(read: Callable[[], Any]) -> dict[str, Any]:
    """The second of two reads: the first loads what a process needs once."""
    read()
    seconds, found = computed(read)
    return {"seconds": seconds, "rows": found.num_rows}


@case
def ours_format_write(path: str, file_format: str, rows: int) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    data = _table(rows)
    table = pp.Table.create(path, data.schema, options={"file.format": file_format})
    table.append(data.slice(0, 1))  # what a process loads once
    return {"seconds": computed(lambda: table.append(data))[0]}


@case
def arrow_orc_write(path: str, rows: int) -> dict[str, Any]:
    import pyarrow.orc

    data = _table(rows)
    pyarrow.orc.write_table(data.slice(0, 1), path, compression="zstd")
    return {"seconds": computed(lambda: pyarrow.orc.write_table(data, path, compression="zstd"))[0]}


@case
def ours_format_read(path: str, filter: str | None = None, columns: list[str] | None = None) -> dict[str, Any]:
    return _computed_twice(lambda: ours(path).scan(filter, columns=columns).to_arrow())


@case
def arrow_orc_read(path: str) -> dict[str, Any]:
    import pyarrow.orc

    return _computed_twice(lambda: pyarrow.orc.read_table(path))


@case
def arrow_parquet_read(path: str) -> dict[str, Any]:
    """The data files of a table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(Path(path).glob("bucket-0/*.parquet"))
    return _computed_twice(lambda: pa.concat_tables([pq.ParquetFile(file).read() for file in files]))


@case
def rust_format_read(path: str) -> dict[str, Any]:
    import pyarrow as pa

    def read() -> pa.Table:
        builder = rust(path).new_read_builder()
        return pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))

    return _computed_twice(read)


def _table(rows: int) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches(rows))
