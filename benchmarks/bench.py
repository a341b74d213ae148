"""The measurements of `make bench`, and how they are run and told."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
    files100k,
)
from benchmarks.data import batches
from benchmarks.worker import INDEX, INDEX_TWO

SPARK_TABLES = ("ours_bitmap", "small")
"""A large and a small table, each with a copy as plain Parquet beside it."""
SPARK_FILES = 1_500
"""Files of a third table, a row in each."""


@dataclass(frozen=True)
class Row:
    what: str
    ours: str
    peer: str
    ratio: str
    target: str
    memory: str = ""


class Bench:
    def __init__(self, directory: Path, rows: int, pairs: int) -> None:
        self.directory = directory
        self.rows = rows
        self.pairs = pairs
        self.table: list[Row] = []
        (directory / "bench.db").mkdir(parents=True)

    def path(self, name: str) -> str:
        return str(self.directory / "bench.db" / name)

    def run(self, case: str, **arguments: Any) -> dict[str, Any]:
        return run_module("benchmarks.worker", [case, json.dumps(arguments)])

    def pair(self, a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> tuple[list[dict], list[dict]]:
        first, second = [], []
        for _ in range(self.pairs):
            first.append(self.run(a[0], **a[1]))
            second.append(self.run(b[0], **b[1]))
        return first, second

    def compare(self, what: str, target: str, a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> None:
        first, second = self.pair(a, b)
        ratio = statistics.median(x["seconds"] / y["seconds"] for x, y in zip(first, second, strict=True))
        self.add(
            what,
            seconds_text(first),
            f"{b[0].split('_')[0]} {seconds_text(second)}",
            f"{ratio:.2f}×",
            target,
            memory_text(first, second),
        )

    def once(self, what: str, target: str, a: dict[str, Any], peer: str, b: dict[str, Any]) -> None:
        """One measurement of each side."""
        ratio = f"{a['seconds'] / b['seconds']:.3f}×"
        self.add(what, seconds_text([a]), f"{peer} {seconds_text([b])}", ratio, target, memory_text([a], [b]))

    def pypaimon(self, case: str, **arguments: Any) -> dict[str, Any]:
        """A case of `benchmarks.pypaimon_cases`, run in its own environment."""
        python = Path(__file__).parents[1] / ".venvs" / "pypaimon" / "bin" / "python"
        return run_module("benchmarks.pypaimon_cases", [case, json.dumps(arguments)], python=str(python))

    def java_compaction(self, path: str) -> dict[str, Any] | None:
        """What Java Paimon takes; None, with the reason on the terminal, where it can't run."""
        return run_module("benchmarks.java_compaction", [path])

    def java_maintenance(self, operation: str, small: str, path: str) -> dict[str, Any] | None:
        """What Java Paimon takes; None where it is not at hand."""
        return run_module("benchmarks.java_maintenance", [operation, small, path])

    def add(self, what: str, ours: str, peer: str, ratio: str, target: str, memory: str = "") -> None:
        row = Row(what, ours, peer, ratio, target, memory)
        self.table.append(row)
        print(f"| {' | '.join([row.what, row.ours, row.peer, row.ratio, row.target, row.memory])} |", flush=True)

    # ----------------------------------------------------------------------------------------------------- cases

    def writing(self) -> None:
        plain = {"rows": self.rows, "options": {}}
        self.compare(
            f"append {self.rows:,} rows", "≤ 0.7×",
            ("ours_append", {"path": self.path("ours"), **plain}),
            ("rust_append", {"path": self.path("rust"), **plain}),
        )  # fmt: skip
        indexed = {"rows": self.rows // 10, "options": INDEX_TWO}
        self.compare(
            f"append {self.rows // 10:,} rows with bitmap and bloom", "≤ 1.0×",
            ("ours_append", {"path": self.path("ours_two"), **indexed}),
            ("rust_append", {"path": self.path("rust_two"), **indexed}),
        )  # fmt: skip
        one = self.run("ours_append_stream", path=self.path("stream"), rows=self.rows)
        self.add(
            f"write {self.rows:,} rows in batches of 10,000: memory",
            "",
            "",
            "",
            "< 1 GiB",
            f"{one['peak_mib']:.0f} MiB",
        )

    def scanning(self) -> None:
        self.compare(
            f"full Arrow scan of {self.rows:,} rows", "≤ 0.7×",
            ("ours_scan", {"path": self.path("ours")}), ("rust_scan", {"path": self.path("rust")}),
        )  # fmt: skip

    def points(self) -> None:
        for engine in ("ours", "rust"):
            self.run(f"{engine}_append", path=self.path(f"{engine}_bitmap"), rows=self.rows, options=INDEX)
        ours, rust = (
            ("ours_point", {"path": self.path("ours_bitmap"), "use_index": True}),
            ("rust_point", {"path": self.path("rust_bitmap")}),
        )
        self.compare("one rare row by bitmap index", "≤ 1.5×", ours, rust)
        self.compare(
            "one rare row: index against no index",
            "≤ 0.2×",
            ours,
            ("ours_point", {"path": self.path("ours_bitmap"), "use_index": False}),
        )
        one = self.run(*ours[:1], **ours[1])
        share = one["bytes"] / max(1, one["bytes_read"])
        self.add(
            "one rare row: bytes read", f"{one['bytes_read']:,}", f"table {one['bytes']:,}", f"1/{share:.0f}", "≤ 1/600"
        )

    def planning(self) -> None:
        path, million = self.path("files"), self.path("files_million")
        files100k.make(path, 100_000)
        files100k.make(million, 1_000_000)
        by_column = "c0 = 5"  # the statistics leave out nearly all files
        for files, at, what, where, target in (
            ("100,000", path, "cold", None, "≤ 3 s"),
            ("100,000", path, "1 % by partition", "p = 17", "≤ 1.3×"),
            ("100,000", path, "by statistics of a column", by_column, "≤ 1.0×"),
            ("1,000,000", million, "cold", None, "≤ 1.0×, ≤ 500 MiB"),
            ("1,000,000", million, "by statistics of a column", by_column, "≤ 1.0×, ≤ 500 MiB"),
        ):
            self.compare(
                f"plan {files} files, {what}, CPU time",
                target,
                ("ours_plan", {"path": at, "filter": where}),
                ("rust_plan", {"path": at, "filter": where}),
            )
        cache = str(self.directory / "cache")
        for where in (None, by_column):
            self.run("ours_plan", path=path, filter=where, cache=cache)
        for what, where, target in (
            ("", None, "≤ 0.3×"),
            (", 1 % by partition", "p = 17", "≤ 1.0×"),
            (", by statistics of a column", by_column, "≤ 1.0×"),
        ):
            self.compare(
                f"plan 100,000 files, warm, in a new process{what}, CPU time",
                target,
                ("ours_plan", {"path": path, "filter": where, "cache": cache}),
                ("rust_plan", {"path": path, "filter": where}),
            )

    def importing(self) -> None:
        spark = "import pyspark.sql.worker.plan_data_source_read"
        runs = [
            (_import_seconds(spark), _import_seconds(f"{spark}\nimport pyspark_paimon, paimon_pyds.spark.source"))
            for _ in range(7)
        ]
        cost = statistics.median(b - a for a, b in runs) * 1000
        self.add("import the data source in a planning process", f"+{cost:.0f} ms", "", "", "< 100 ms")

    def first(self) -> None:
        cases_first.section(self)

    def index(self) -> None:
        cases_index.section(self)

    def row_changes(self) -> None:
        cases_rows.section(self)

    def keys(self) -> None:
        cases_keys.section(self)

    def layout(self) -> None:
        cases_layout.section(self)

    def maintenance(self) -> None:
        cases_maintenance.section(self)

    def formats(self) -> None:
        cases_formats.section(self)

    def partitions(self) -> None:
        cases_partitions.section(self)

    def small(self) -> None:
        cases_small.section(self)

    def sql(self) -> None:
        cases_sql.section(self)

    def stores(self) -> None:
        cases_stores.section(self)

    def hdfs(self) -> None:
        cases_hdfs.section(self)

    def evolution(self) -> None:
        cases_evolution.section(self)

    def variant(self) -> None:
        cases_variant.section(self)

    def blobs(self) -> None:
        cases_blobs.section(self)

    def streams(self) -> None:
        found = run_module("benchmarks.spark_streams", [self.path("backlog")])
        what = "Spark: a backlog of 1,000 snapshots of one file, against a batch read"
        self.add(what, f"{found['stream']:.3f} s", f"batch {found['batch']:.3f} s", f"{found['ratio']:.2f}×", "≤ 1.5×")
        for found in run_module("benchmarks.spark_sinks", [str(self.directory), str(self.rows)])["rows"]:
            ours, peer = f"{found['ours']:.3f} s", f"{found['peer_name']} {found['peer']:.3f} s"
            self.add(f"Spark: {found['what']}", ours, peer, f"{found['ratio']:.2f}×", found["target"])

    def commits(self) -> None:
        cases_streams.section(self)

    def spark_tables(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.run("ours_small_table", path=self.path("many"), files=SPARK_FILES, versions=0)
        for path, rows in zip(map(self.path, SPARK_TABLES), (self.rows, 100), strict=True):
            if not Path(path).exists():
                self.run("ours_bitmap", path=path, rows=rows)
            Path(f"{path}-parquet").mkdir(exist_ok=True)
            with pq.ParquetWriter(
                f"{path}-parquet/part-0.parquet", next(batches(1)).schema, compression="zstd"
            ) as writer:
                writer.write_table(pa.Table.from_batches(batches(rows)), row_group_size=1_000_000)

    def spark(self) -> None:
        self.spark_tables()
        tables = [self.path(name) for name in (*SPARK_TABLES, "many")]
        result = run_module("benchmarks.spark_cases", tables)
        for name, what, target in (
            ("large", f"filtered query on {self.rows:,} rows", "≤ 1.0×"),
            ("small", "filtered query on 100 rows", "≤ 1.3×"),
            ("full", f"all columns of {self.rows:,} rows", ""),
            ("narrow", f"one column of {self.rows:,} rows", ""),
            ("full_ready", f"all columns of {self.rows:,} rows, against a source of ready batches", "≤ 1.05×"),
            ("narrow_ready", f"one column of {self.rows:,} rows, against a source of ready batches", "≤ 1.1×"),
            ("many", f"{SPARK_FILES:,} files of one row in as many partitions", ""),
        ):
            ours, peer = result[name]["ours"], result[name]["peer"]
            peer_name = "ready" if name.endswith("ready") else "parquet"
            self.add(
                f"Spark: {what}", f"{ours:.3f} s", f"{peer_name} {peer:.3f} s", f"{result[name]['ratio']:.2f}×", target
            )


def run_module(
    module: str, arguments: Sequence[str], checkout: Path | None = None, python: str = sys.executable
) -> dict[str, Any]:
    """What a module of this checkout, or of another one, prints as its last line, run in a process of its own."""
    here = {} if checkout is None else {"cwd": checkout, "env": {**os.environ, "PYTHONPATH": str(checkout)}}
    done = subprocess.run([python, "-m", module, *arguments], capture_output=True, text=True, check=False, **here)
    if done.returncode:
        raise SystemExit(f"{module} {arguments[0]} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def seconds_text(runs: Sequence[dict[str, Any]]) -> str:
    values = sorted(r["seconds"] for r in runs)
    return f"{statistics.median(values):.3f} s ({values[0]:.3f}–{values[-1]:.3f})"


def memory_text(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> str:
    return f"{max(r['peak_mib'] for r in a):.0f} / {max(r['peak_mib'] for r in b):.0f} MiB"


def _import_seconds(code: str) -> float:
    program = f"import time\nt = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
