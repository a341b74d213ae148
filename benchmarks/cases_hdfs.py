"""The same table on HDFS and on the local disk: listing, planning and point queries.

HDFS is Hadoop's mini cluster of the tests, in a JVM of this machine, so what is measured is the calls and the work of
each. They are counted; CPU time is that of this process alone, which a busy machine hardly changes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import cpu_seconds, timed
from benchmarks.registry import case

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

FILES = 100
ROWS = 10_000
COMMITS = 50
WANTED = 55_517
TARGET = "≤ 1.5×"
_WORK = {
    "listing": f"list a directory of {2 * FILES} files",
    "plan": f"plan {200 * COMMITS:,} files of {COMMITS} commits",
    "plan again": "the same again",
    "point query": f"point query, bloom filters of {FILES} files",
    "point query again": "the same again",
}


def section(bench: Bench) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.servers import ServerMissingError, mini_hdfs

    try:
        with mini_hdfs() as cluster:
            there = {"path": f"{cluster.root}/bench.db", "settings": cluster.settings}
            _compare(bench, there, {"path": bench.path("hdfs"), "settings": {}})
    except ServerMissingError as error:
        print(f"HDFS is left out: {error}")


def _compare(bench: Bench, there: dict[str, Any], here: dict[str, Any]) -> None:
    for place in (there, here):
        bench.run("ours_hdfs_tables", **place)
    for what, text in _WORK.items():
        a, b = bench.pair(("ours_hdfs_case", {**there, "what": what}), ("local_hdfs_case", {**here, "what": what}))
        if not all((*a, *b)):
            continue  # an earlier checkout has no local disk to compare with
        for name, clock in (("cpu", "CPU time"), ("wall", "time")):
            ours, peer = (min(run[name] for run in runs) for runs in (a, b))
            calls = f" ({a[0]['calls']} calls)"
            bench.add(
                f"{text}, on HDFS, {clock}", f"{ours * 1000:.2f} ms{calls}", f"local disk {peer * 1000:.2f} ms",
                f"{ours / peer:.2f}×", TARGET,
            )  # fmt: skip


@case
def ours_hdfs_tables(path: str, settings: dict[str, str]) -> None:
    """``points``: 100 files, ids spread over all of them, so that statistics rule out none. ``plans``: 10,000 files in
    metadata alone."""
    import numpy as np
    import pyarrow as pa

    import paimon_pyds as pp
    from benchmarks import files100k
    from paimon_pyds.base.options import TableOptions
    from paimon_pyds.engine.commit import Changes, Increment, commit

    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    index = "file-index.bloom-filter"
    options = {f"{index}.columns": "id", f"{index}.id.items": str(ROWS), f"{index}.id.fpp": "0.0001"}
    table = pp.Table.create(f"{path}/points", schema, options=options, storage_options=settings)
    for number in range(FILES):
        ids = np.arange(number, FILES * ROWS, FILES)
        table.append(pa.table([ids, [f"value {i}" for i in ids]], schema=schema))
    plans = pp.Table.create(f"{path}/plans", files100k.SCHEMA, partition_by=["p"], storage_options=settings)
    numbers = np.random.default_rng(5)
    for number in range(COMMITS):
        files = range(200 * number, 200 * number + 200)
        added = [files100k.bucket(plans.path, number % files100k.PARTITIONS, files, numbers)]
        commit(plans._store, Changes([Increment(added=added)]), TableOptions(plans.options))


def _forget() -> None:
    from paimon_pyds.index.evaluate import OPEN_INDEXES
    from paimon_pyds.metadata import prefetch as ahead
    from paimon_pyds.metadata.manifest_store import METADATA_CACHE
    from paimon_pyds.storage.range_cache import RANGE_CACHE

    for cache in (METADATA_CACHE, OPEN_INDEXES, RANGE_CACHE, ahead._LAST_SEEN):
        cache.clear()


def _work(path: str, settings: dict[str, str], what: str) -> tuple[Callable[[], Any], Any]:
    """What is measured, and the FileIO that counts its calls."""
    import paimon_pyds as pp

    off = {"local-cache.enabled": "false"}
    path = f"{path}/{'plans' if what.startswith('plan') else 'points'}"
    table = pp.Table.open(path, storage_options=settings | off)
    io = table._store.io

    def opened() -> Any:
        if what.endswith("again"):
            return table
        _forget()
        return pp.Table(type(table._store)(io, path))

    if what == "listing":
        return lambda: len(io.list(f"{path}/bucket-0")), io
    if what.startswith("plan"):
        return lambda: len(opened().scan().plan().files), io
    return lambda: int(opened().scan(f"id = {WANTED}").to_arrow().num_rows), io


@case
def ours_hdfs_case(path: str, settings: dict[str, str], what: str, runs: int = 30) -> dict[str, Any]:
    """The least of several, after two that warm up."""
    work, io = _work(path, settings, what)
    for _ in range(2):
        work()
    walls, computed, calls = [], [], 0
    for _ in range(runs):
        asked, before = _calls(io), cpu_seconds()
        walls.append(timed(work)[0])
        computed.append(cpu_seconds() - before)
        calls = _calls(io) - asked
    return {"seconds": min(walls), "wall": min(walls), "cpu": min(computed), "calls": calls}


def _calls(io: Any) -> int:
    return int(io.counts.requests) if hasattr(io, "counts") else 0


@case
def local_hdfs_case(path: str, settings: dict[str, str], what: str) -> dict[str, Any] | None:
    return ours_hdfs_case(path, settings, what)
