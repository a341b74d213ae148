"""Filters on members of VARIANT values, which are columns of their own in shredded files (section ``variant``).

pypaimon reads whole values and decodes each, soonest where files have them whole: that table is its own here.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.registry import case, ours

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_OPTIONS = {"whole": {}, "shredded": {"variant.inferShreddingSchema": "true"}}
_FILTERS = {"few rows": "event:number::bigint = {}", "a tenth of the rows": "event:kind::string = 'kind 7'"}
_RUNS = 3


def section(bench: Bench) -> None:
    """All rows of the section."""
    rows = bench.rows // 50
    paths = {kind: bench.path(f"variant_{kind}") for kind in _OPTIONS}
    written = {kind: bench.run("ours_variant_write", path=path, rows=rows, kind=kind) for kind, path in paths.items()}
    what = f"append {rows:,} values of VARIANT shredded, CPU time"
    bench.once(what, "", written["shredded"], "whole", written["whole"])
    peer = bench.pypaimon("variant_filter", path=paths["whole"])
    for which, condition in _FILTERS.items():
        where = condition.format(rows // 2)
        mine, whole = (bench.run("ours_variant_filter", path=path, where=where) for path in reversed(paths.values()))
        what = f"{which} of {rows:,} by a member of VARIANT"
        bench.once(f"{what}, CPU time", "≤ 0.3×", mine, "pypaimon", peer)
        ratio = mine["bytes"] / whole["bytes"]
        texts = (f"{found['bytes'] / 2**20:.2f} MiB" for found in (mine, whole))
        bench.add(f"{what}, bytes read", *texts, f"{ratio:.3f}×", "≤ 0.05×")


@case
def ours_variant_write(path: str, rows: int, kind: str) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    import paimon_pyds as pp

    random = np.random.default_rng(7)
    events = pp.variant_array(
        {
            "number": n,
            "kind": f"kind {n % 10}",
            "price": n / 4,
            "at": {"page": n % 1000},
            "text": random.bytes(200).hex(),
        }
        for n in range(rows)
    )
    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, "id BIGINT, event VARIANT", options=_OPTIONS[kind])
    return {"seconds": computed(lambda: table.append(pa.table({"id": range(rows), "event": events})))[0]}


@case
def ours_variant_filter(path: str, where: str) -> dict[str, Any]:
    sizes = []

    def read() -> int:
        scan = ours(path).scan(where, columns=["id"])
        return sum(
            batch.num_rows for batch in scan.to_batches(on_file=lambda trace: sizes.append(trace.counters.bytes_read))
        )

    found = [computed(read) for _ in range(_RUNS)]
    return {"seconds": min(seconds for seconds, _ in found), "rows": found[0][1], "bytes": sum(sizes) // _RUNS}
