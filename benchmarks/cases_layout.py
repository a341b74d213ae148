"""What clustering saves: a range of two columns before and after a z-order compaction (section ``layout``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.clock import timed
from benchmarks.data import batches
from benchmarks.registry import case, ours, ours_new

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_RANGE = "code BETWEEN 100 AND 149 AND price BETWEEN 0.30 AND 0.35"


def section(bench: Bench) -> None:
    """All rows of the section."""
    path = bench.path("layout")
    bench.run("ours_layout_table", path=path, rows=bench.rows)
    before = bench.run("ours_box", path=path)
    sorted_ = bench.run("ours_zorder", path=path)
    after = bench.run("ours_box", path=path)
    rows = f"{bench.rows:,} rows"
    bench.add(
        f"z-order compaction of {rows} on 2 columns", f"{sorted_['seconds']:.1f} s", "", "", "",
        f"{sorted_['peak_mib']:.0f} MiB",
    )  # fmt: skip
    bench.once(f"range of 2 columns of {rows}, after it", "", after, "before", before)
    share = after["bytes"] / before["bytes"]
    bench.add(
        f"range of 2 columns of {rows}, after it: bytes read", f"{after['bytes']:,}", f"before {before['bytes']:,}",
        f"{share:.3f}×", "≤ 0.1×",
    )  # fmt: skip


@case
def ours_layout_table(path: str, rows: int) -> None:
    """A table of ten files or so, whose rows are in no order of the two columns."""
    ours_new(path, {"target-file-size": "16 mb"}, batches(rows))


@case
def ours_zorder(path: str) -> dict[str, Any]:
    """Order the rows of a table."""
    seconds, _ = timed(lambda: ours(path).compact(order_by="code, price", order="zorder"))
    return {"seconds": seconds}


@case
def ours_box(path: str) -> dict[str, Any]:
    """The rows of a range, and the bytes that were read for them."""
    table = ours(path)
    result = table.explain(_RANGE, analyze=True).steps[-1]
    return {"seconds": result.millis / 1000, "bytes": result.bytes, "rows": result.rows, "files": result.files}
