"""Expiry of very many snapshots and the listing of orphan files, beside Java's (section ``maintenance``)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed, timed
from benchmarks.registry import case, copy_of, ours

if TYPE_CHECKING:
    from benchmarks.bench import Bench

_FILES, _SNAPSHOTS, _REPLACED, _ORPHANS = 100_000, 1_000, 50, 50_000
_APPENDS = 60


def section(bench: Bench) -> None:
    """All rows of the section."""
    path, small = bench.path("maintained"), bench.path("maintained_small")
    bench.run("ours_maintained_table", path=small, files=_FILES // 10, snapshots=_SNAPSHOTS // 10)
    bench.run("ours_maintained_table", path=path, files=_FILES, snapshots=_SNAPSHOTS)
    files = _FILES + _SNAPSHOTS * _REPLACED + _ORPHANS
    for operation, what in (
        ("orphans", f"list {_ORPHANS:,} orphans of {files:,} files"),
        ("expire", f"expire {_SNAPSHOTS:,} snapshots of {_FILES:,} files, of which {_SNAPSHOTS * _REPLACED:,} go"),
    ):
        java_path = copy_of(path, "maintained_java") if operation == "expire" else path
        mine = bench.run(f"ours_{operation}", path=path)
        java = bench.java_maintenance(operation, small, java_path)
        if java is None:
            bench.add(
                what, f"{mine['seconds']:.1f} s", "Java is not at hand", "", "≤ 1.0×", f"{mine['peak_mib']:.0f} MiB"
            )
            continue
        if mine["count"] != java["count"]:
            raise SystemExit(f"{operation}: {mine['count']} here, {java['count']} in Java")
        bench.once(what, "≤ 1.0×", mine, "Java", java)
    bench.compare(
        f"{_APPENDS} appends with Iceberg metadata to {_FILES // 10:,} files, against none", "≤ 1.5×",
        ("ours_published_appends", {"path": bench.path("published"), "storage": "table-location"}),
        ("ours_published_appends", {"path": bench.path("not_published"), "storage": "disabled"}),
    )  # fmt: skip


@case
def ours_maintained_table(path: str, files: int, snapshots: int) -> None:
    """A table whose snapshots each replaced 50 files of a partition; half as many files again are orphans.

    All files are there, but empty.
    """
    import numpy as np

    import paimon_pyds as pp
    from benchmarks import files100k
    from paimon_pyds.base.options import TableOptions
    from paimon_pyds.engine.commit import Changes, commit
    from paimon_pyds.metadata.commit_message import CompactIncrement, increments_of

    files100k.make(path, files, {"write-only": "true"})
    table, each, rng = pp.Table.open(path), files // files100k.PARTITIONS, np.random.default_rng(6)
    options = TableOptions(table.options)
    first = [files100k.bucket(path, p, range(each), np.random.default_rng(7)) for p in range(files100k.PARTITIONS)]
    for p, bucket in enumerate(first):
        _touch(bucket.directory, (file.file_name for file in bucket.files))
        _touch(bucket.directory, (f"data-orphan-{p}-{i}-0.parquet" for i in range(each // 2)))
    for number in range(snapshots):
        p, turn = number % files100k.PARTITIONS, number // files100k.PARTITIONS
        before = first[p].files[turn * _REPLACED : (turn + 1) * _REPLACED]
        new = files100k.bucket(path, p, range(each + turn * _REPLACED, each + (turn + 1) * _REPLACED), rng)
        _touch(new.directory, (file.file_name for file in new.files))
        change = replace(new, files=(), compact=CompactIncrement(before, new.files))
        commit(table._store, Changes(increments_of([change])), options)
    time.sleep(1.5)  # they count as orphans once they are older than a second


def _touch(directory: str, names: Iterable[str]) -> None:
    os.makedirs(directory, exist_ok=True)
    for name in names:
        os.close(os.open(f"{directory}/{name}", os.O_CREAT | os.O_WRONLY))


@case
def ours_expire(path: str) -> dict[str, Any]:
    """Expire all snapshots but the last."""
    options = {"snapshot.expire.limit": "2147483647"}
    seconds, found = timed(lambda: ours(path).snapshots.expire(retain_max=1, options=options))
    return {"seconds": seconds, "count": found.snapshots, "files": found.data_files}


@case
def ours_orphans(path: str) -> dict[str, Any]:
    """List orphan files."""
    seconds, found = timed(lambda: ours(path).maintenance.remove_orphan_files("1 s", dry_run=True))
    return {"seconds": seconds, "count": found.files.num_rows, "looked_at": found.looked_at}


@case
def ours_published_appends(path: str, storage: str) -> dict[str, Any]:
    """Append a row many times to a table of very many files, the merges of manifests included."""
    import pyarrow as pa

    from benchmarks import files100k

    files100k.make(path, _FILES // 10, {"metadata.iceberg.storage": storage})
    table = ours(path)
    schema = files100k.SCHEMA
    row = pa.table([pa.array([1]).cast(type_) for type_ in schema.types], schema=schema)
    table.append(row)  # the first one publishes all files
    seconds, _ = computed(lambda: [table.append(row) for _ in range(_APPENDS)])
    return {"seconds": seconds}
