"""The first answer of a new process, such as each planning process of Spark, each command and each notebook is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.registry import case

if TYPE_CHECKING:
    from benchmarks.bench import Bench

WANTED = 5


def section(bench: Bench) -> None:
    rows = bench.rows // 5
    for engine in ("ours", "rust"):
        bench.run(f"{engine}_append", path=bench.path(f"first_{engine}"), rows=rows, options={})
    mine = "ours_first", {"path": bench.path("first_ours")}
    what = f"first answer of a process, one row of {rows:,}, CPU time"
    bench.compare(what, "≤ 1.5×", mine, ("rust_first", {"path": bench.path("first_rust")}))
    bench.compare(f"{what}, against importing pyarrow", "+ ≤ 0.1 s", mine, ("arrow_first", {}))


def _process(script: str) -> dict[str, Any]:
    """The least of three runs: each process begins with nothing, so that none is quicker than it takes."""
    command = [sys.executable, "-c", script]
    return {"seconds": min(computed(lambda: subprocess.run(command, check=True))[0] for _ in range(3))}


@case
def ours_first(path: str) -> dict[str, Any]:
    return _process(
        f"import paimon_pyds as pp\nassert pp.Table.open({path!r}).scan('id = {WANTED}').to_arrow().num_rows == 1"
    )


@case
def rust_first(path: str) -> dict[str, Any]:
    where = Path(path)
    return _process(f"""
import pyarrow as pa
from pypaimon_rust import datafusion
table = datafusion.PaimonCatalog({{"warehouse": {str(where.parents[1])!r}}}).get_table("bench.{where.name}")
builder = table.new_read_builder().with_filter({{"method": "equal", "field": "id", "literals": [{WANTED}]}})
found = pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))
assert {WANTED} in found.column("id").to_pylist()
""")


@case
def arrow_first() -> dict[str, Any]:
    return _process("import pyarrow")
