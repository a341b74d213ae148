"""Streams in Python: whether the ten thousandth commit is as fast as the hundredth, and a commit of many rows as an
append. Spark's are in `benchmarks.spark_sinks`."""

from __future__ import annotations

import shutil
import statistics
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed, held_mib
from benchmarks.data import SCHEMA, batches
from benchmarks.registry import case

if TYPE_CHECKING:
    from benchmarks.bench import Bench

KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "key": {"primary_key": ["id"], "options": {"bucket": "1"}},
}
FIRST, LAST = 100, 10_000
_MEASURED = 50


def section(bench: Bench) -> None:
    for kind in KINDS:
        path = bench.path(f"stream_{kind}")
        late, early = (bench.run("ours_stream_commits", path=path, kind=kind, commits=n) for n in (LAST, FIRST))
        name = f"commit {LAST:,} of one row into a table ({kind}), against commit {FIRST}, CPU time"
        bench.once(name, "≤ 1.2×", late, "ours", early)
        grown = late["held_mib"] - late["held_before_mib"]
        bench.add(f"memory after {LAST:,} commits ({kind}), against {LAST // 2:,}", f"{grown:+.0f} MiB", "", "", "flat")
        bench.compare(
            f"one commit of {bench.rows:,} rows by stream_writer ({kind}), against append",
            "≤ 1.2×",
            ("ours_stream_large", {"path": path, "kind": kind, "rows": bench.rows, "stream": True}),
            ("ours_stream_large", {"path": path, "kind": kind, "rows": bench.rows, "stream": False}),
        )


@case
def ours_stream_commits(path: str, kind: str, commits: int) -> dict[str, Any]:
    """The CPU time of a commit of one row after ``commits`` of them: the mean of the last, as every eighth compacts."""
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    writer = pp.Table.create(path, SCHEMA, **KINDS[kind]).stream_writer("stream")
    [row] = batches(1)
    taken, before = [], 0.0
    for number in range(commits):
        if number == commits // 2:
            before = held_mib()

        def commit(number: int = number) -> None:
            writer.write(row)
            writer.commit(number)

        taken.append(computed(commit)[0])
    held = held_mib()
    return {"seconds": statistics.fmean(taken[-_MEASURED:]), "held_mib": held, "held_before_mib": before}


@case
def ours_stream_large(path: str, kind: str, rows: int, stream: bool) -> dict[str, Any]:
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    table, data = pp.Table.create(path, SCHEMA, **KINDS[kind]), list(batches(rows))
    numbers = count()

    def write() -> None:
        if not stream:
            table.append(data)
            return
        with table.stream_writer("stream") as writer:
            writer.write(data)
            writer.commit(next(numbers))

    return {"seconds": computed(write)[0]}
