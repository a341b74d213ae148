"""One fault, or a kill, anywhere in a delete, an update, a merge or a compaction: the table is as before or as after,
and nothing else is left lying around when it is known that nothing was published."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.effort import LONG, sampled
from support.faults_io import (
    AFTER,
    BEFORE,
    HALF,
    FaultyIO,
    check_faults_anywhere,
    check_interrupts_anywhere,
    copies,
    opened,
    operations_of,
    rows_of_snapshots,
    texts,
)
from support.side_by_side import PATIENT
from support.victims import insert_for_ever, victims

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])
VECTORS = {"deletion-vectors.enabled": "true"}
KEYS = {"bucket": "2", "changelog-producer": "input", "write-only": "true"}
"""Of tables whose primary key are ``p`` and ``id``."""
EVOLVING = {**VECTORS, "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
PAGED = {**EVOLVING, "parquet.page.row.count.limit": "1", "file-index.bitmap.columns": "id"}
"""Pages that do not change are copied, as the columns that are set have no index."""
OPTIONS = {"file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "1 b"}
Change = Callable[[pp.Table], object]

_ONE = LocalExecutor(1)
CHANGES: dict[str, tuple[dict[str, str], Change]] = {
    "delete by vectors": (VECTORS, lambda t: t.delete("v IN (1, 2, 7)", executor=_ONE)),
    "delete by rewriting": ({}, lambda t: t.delete("v IN (1, 2, 7)", executor=_ONE)),
    "delete a partition": (VECTORS, lambda t: t.delete("p = 'a'", executor=_ONE)),
    "update beside vectors": (VECTORS, lambda t: t.update({"v": "v + 0.5"}, "id IN (2, 13)", executor=_ONE)),
    "update in place": ({}, lambda t: t.update({"v": "v + 0.5"}, "id IN (2, 13)", executor=_ONE)),
    "merge beside vectors": (VECTORS, lambda t: _merge(t)),
    "merge in place": ({}, lambda t: _merge(t)),
    "delete by key": (KEYS, lambda t: t.delete("v IN (1, 2, 7)", executor=_ONE)),
    "delete a partition of keys": (KEYS, lambda t: t.delete("p = 'a'", executor=_ONE)),
    "merge by key": (KEYS, lambda t: _merge(t, ["p", "id"])),
    "update of columns": (EVOLVING, lambda t: t.update({"v": "v + 0.5"}, "id IN (2, 13)", executor=_ONE)),
    "update of few pages": (PAGED, lambda t: t.update({"v": "v + 0.5"}, "id IN (2, 13)", executor=_ONE)),
    "merge of columns": (EVOLVING, lambda t: _merge(t, moves="")),
    "build a global index": (EVOLVING, lambda t: t.index.build_global("v")),
    "compact": (VECTORS, lambda t: t.compact(options={"compaction.min.file-num": "2"}, executor=_ONE)),
}


def _rows(start: int) -> pa.Table:
    ids = list(range(start, start + 10))
    return pa.table([ids, ["ab"[i % 2] for i in ids], [i / 2 for i in ids]], schema=SCHEMA)


def _merge(table: pp.Table, on: Sequence[str] = ("id",), moves: str = ", p = source.p") -> object:
    source = pa.table({"id": [2, 13, 40], "p": ["b", "b", "a"]})
    return table.merge(
        source,
        on,
        when_matched=f"UPDATE SET v = target.v + 0.5{moves}",
        when_not_matched="INSERT (id, p, v) VALUES (source.id, source.p, 7)",
        when_not_matched_by_source="v = 1.5 THEN DELETE",
        executor=_ONE,
    )


def _prepared(path: Path, mode: dict[str, str]) -> Path:
    options = OPTIONS | mode | {"source.split.target-size": "1 b"}
    keys = ["p", "id"] if mode == KEYS else ()
    table = pp.Table.create(path, SCHEMA, primary_key=keys, partition_by=["p"], options=options)
    table.append(_rows(0))
    table.append(_rows(10))
    table.delete("id = 0")
    return path


def _state(path: Path) -> tuple[object, ...]:
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    table = pp.Table.open(path)
    return rows_of_snapshots(table), texts(table.scan("v >= 3")), table.count()


_CASES = [
    pytest.param(change, mode, marks=() if mode == BEFORE or change == "delete by vectors" else pytest.mark.long)
    for change in CHANGES
    for mode in (BEFORE, AFTER, HALF)
]


@pytest.mark.parametrize(
    ("change", "mode"), _CASES if LONG else sampled((case for case in _CASES if not case.marks), 3)
)
def test_a_fault_anywhere(tmp_path: Path, change: str, mode: str) -> None:
    options, run = CHANGES[change]
    check_faults_anywhere(_prepared(tmp_path / "prepared", options), tmp_path, run, _state, mode)


@pytest.mark.parametrize("change", sampled([*CHANGES, "append"], 2))
def test_a_fault_after_the_snapshot_is_no_failure(tmp_path: Path, change: str) -> None:
    """Who is told of an error does it again: rows that are there would come twice."""
    options, run = CHANGES[change] if change in CHANGES else (VECTORS, lambda t: t.append(_rows(20)))
    prepared = _prepared(tmp_path / "prepared", options)
    done, count = operations_of(run, prepared, tmp_path / "whole"), 0
    new = _state(tmp_path / "whole")
    points = list(enumerate(done))[len(done) - done[::-1].index("create_if_absent") :]
    for at, name in copies(prepared, tmp_path / "t", points):
        run(opened(FaultyIO(at), tmp_path / "t"))
        assert _state(tmp_path / "t") == new, name
        count += 1
    assert count


@pytest.mark.parametrize("change", ["delete by vectors", pytest.param("update in place", marks=pytest.mark.long)])
def test_an_interrupt_anywhere(tmp_path: Path, change: str) -> None:
    options, run = CHANGES[change]
    check_interrupts_anywhere(_prepared(tmp_path / "prepared", options), tmp_path, run, _state, AFTER)


# ------------------------------------------------------------------------------------------------------------ kills

_OPERATIONS = [
    f"paimon_pyds.{name}" for name in ("rowlevel.update", "rowlevel.delete", "rowlevel.merge", "compact.compact")
]


def _change_for_ever(path: str, say: Connection) -> None:
    """Raise every value by one, or a half of the rows by two, until killed: each row keeps its group's sum."""
    table = pp.Table.open(path)
    rng = random.Random()
    table.update({"v": "v + 1"})
    say.send_bytes(b"r")
    while True:
        group = rng.randrange(4)
        table.update({"v": "v + 1"}, f"id % 4 = {group}")
        ids = pa.table({"id": list(range(group, 40, 4))})
        table.merge(ids, ["id"], when_matched="UPDATE SET v = target.v + 1")
        table.delete(f"id >= 1000 AND id % 4 = {group}")
        fresh = range(1000 + group, 1020 + group, 4)
        table.append(pa.table([list(fresh), ["a"] * 5, [0.0] * 5], schema=SCHEMA))
        table.compact(full=True)


@pytest.mark.parametrize("mode", ["vectors", "rewrite", "keys"])
def test_a_kill_at_any_moment_leaves_a_committed_state(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    options = OPTIONS | {"vectors": VECTORS, "keys": KEYS}.get(mode, {})
    table = pp.Table.create(path, SCHEMA, primary_key=["id"] if mode == "keys" else (), options=options)
    table.append(pa.table([list(range(40)), ["a"] * 40, [0.0] * 40], schema=SCHEMA))
    rng = random.Random(5)
    first: Any = table.snapshots.latest()
    for _ in range(int(os.environ.get("PAIMON_PYDS_KILLS", "100" if LONG else "2")) // 2):
        with victims(_change_for_ever, [(str(path),)], *_OPERATIONS):
            time.sleep(rng.uniform(0.05, 0.3))
        rows = table.scan("id < 1000").to_arrow()
        assert sorted(rows["id"].to_pylist()) == list(range(40))
        sums: dict[int, set[float]] = {}
        for row in rows.to_pylist():
            sums.setdefault(row["id"] % 4, set()).add(row["v"])
        assert all(len(values) == 1 for values in sums.values()), sums
        assert table.count("id >= 1000") % 5 == 0
    last: Any = table.snapshots.latest()
    assert last.id > first.id


def test_two_that_insert_the_same_keys_are_killed(tmp_path: Path) -> None:
    """Each key is there once, and none is left out, whoever of the two was faster or died."""
    path = tmp_path / "t"
    table = pp.Table.create(path, pa.schema([("id", pa.int64())]), options=PATIENT)
    table.append(pa.table({"id": pa.array(range(50), pa.int64())}))
    rng = random.Random(6)
    for _ in range(int(os.environ.get("PAIMON_PYDS_KILLS", "100" if LONG else "4")) // 2):
        with victims(insert_for_ever, [(path, 25)] * 2, "paimon_pyds.engine.rowlevel.merge_into") as heard:
            assert heard[0].recv_bytes() == b"d"
            time.sleep(rng.uniform(0.05, 0.3))
        ids = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert ids == list(range(len(ids)))
    assert len(ids) > 50
