"""Four processes at once: what they leave is what some order of their operations, one after the other, leaves.

Every operation is named by its snapshot, so that the order is that of snapshots but for one freedom: operations that
read come before appends that were published while they worked. Each step is held to a model that knows no files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitError
from paimon_pyds.metadata.snapshot import CommitKind
from support.effort import LONG, sampled
from support.races import at_once

_SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("p", pa.int64())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_MODES: dict[str, dict[str, str]] = {
    "rewrite": {},
    "32": _VECTORS,
    "64": _VECTORS | {"deletion-vectors.bitmap64": "true"},
    "buckets": _VECTORS | {"bucket": "2", "bucket-key": "id"},
    "small index files": _VECTORS | {"deletion-vector.index-file.target-size": "1 b"},
}
_ROUNDS = 14 if LONG else 4
Row = tuple[int, int, int]
Told = tuple[int, str, Any]
"""A snapshot, and what published it: the name of an operation and its argument."""


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.table([[row[i] for row in rows] for i in range(3)], schema=_SCHEMA)


def _rows(table: pp.Table, snapshot: int) -> Counter[Row]:
    found = table.scan(snapshot=snapshot).to_arrow()
    return Counter(zip(*(found[name].to_pylist() for name in ("id", "n", "p")), strict=True))


# ------------------------------------------------------------------------------------------------------- operations


def _delete(table: pp.Table, low: int) -> Any:
    return table.delete(f"n >= {low} AND n < {low + 4}")


def _update(table: pp.Table, low: int) -> Any:
    """Moves rows into the range of other operations, and to the other partition."""
    return table.update({"n": "n + 3", "p": "1 - p"}, f"n >= {low} AND n < {low + 6}")


def _merge(table: pp.Table, low: int) -> Any:
    source = pa.table({"id": [low, low + 1, low + 500], "n": [1, 2, 3]})
    return table.merge(
        source,
        ["id"],
        when_matched="UPDATE SET n = target.n + source.n",
        when_not_matched="INSERT (id, n, p) VALUES (source.id, source.n, 0)",
        when_not_matched_by_source=f"n >= {low} AND n < {low + 2} THEN DELETE",
    )


def _append(table: pp.Table, first: int) -> Any:
    return table.append(_table([(first, first % 60, first % 2), (first + 1, (first + 1) % 60, 1)]))


def _overwrite(table: pp.Table, first: int) -> Any:
    return table.overwrite(_table([(first, first % 60, 1)]), partition={"p": 1})


def _compact(table: pp.Table, _: int) -> Any:
    return table.compact(full=True)


_OPERATIONS: dict[str, Callable[[pp.Table, int], Any]] = {
    "delete": _delete, "update": _update, "merge": _merge, "append": _append, "overwrite": _overwrite,
    "compact": _compact,
}  # fmt: skip
_WEIGHTS = {"delete": 4, "update": 4, "merge": 4, "append": 3, "overwrite": 1, "compact": 2}


def _after(rows: Counter[Row], what: str, argument: int) -> Counter[Row]:
    """The rows after an operation on them."""
    low, found = argument, Counter[Row]()
    if what == "merge":
        found[low + 500, 3, 0] += not any(id_ == low + 500 for id_, _, _ in rows)
        for id_ in (low, low + 1):
            found[id_, id_ - low + 1, 0] += not any(row[0] == id_ for row in rows)
    for (id_, n, p), count in rows.items():
        if what == "delete" and low <= n < low + 4:
            continue
        if what == "update" and low <= n < low + 6:
            found[id_, n + 3, 1 - p] += count
        elif what == "merge" and id_ in (low, low + 1):
            found[id_, n + id_ - low + 1, p] += count
        elif what == "merge" and id_ == low + 500:
            found[id_, n + 3, p] += count
        elif (what == "merge" and low <= n < low + 2) or (what == "overwrite" and p == 1):
            continue
        else:
            found[id_, n, p] += count
    if what == "append":
        found += Counter([(low, low % 60, low % 2), (low + 1, (low + 1) % 60, 1)])
    if what == "overwrite":
        found[low, low % 60, 1] += 1
    return +found


def _work(path: str, worker: int, rounds: int, says: Any) -> None:
    rng = random.Random(worker)
    told: list[Told] = []
    for turn in range(rounds):
        what = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        argument = 1000 * (worker + 1) + 2 * turn if what in ("append", "overwrite") else rng.randrange(0, 60)
        try:
            done = _OPERATIONS[what](pp.Table.open(path), argument)
        except CommitError as error:  # too many conflicts: nothing happened
            assert "another commit" in str(error) or "other commits" in str(error)
            continue
        snapshot = getattr(done, "snapshot_id", None) if hasattr(done, "snapshot_id") else done.id
        if snapshot is not None and what != "compact":
            told.append((snapshot, what, argument))
    says.send(told)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", sampled(_MODES, 1))
def test_some_order_explains_every_state(tmp_path: Path, mode: str) -> None:
    path = str(tmp_path / "t")
    options = _MODES[mode] | {"commit.max-retries": "50", "compaction.min.file-num": "2"}
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options=options)
    for start in range(0, 60, 20):
        table.append(_table([(i, i, i % 2) for i in range(start, start + 20)]))
    first = len(table.snapshots.list())
    said = at_once(_work, [(path, worker, _ROUNDS) for worker in range(4)], "paimon_pyds.engine.rowlevel.merge_into")
    told = sorted(entry for entries in said for entry in entries)
    assert len({snapshot for snapshot, _, _ in told}) == len(told)
    assert {what for _, what, _ in told} >= {"delete", "update", "merge"}
    _check_order(pp.Table.open(path), first, {snapshot: (what, argument) for snapshot, what, argument in told})


def _check_order(table: pp.Table, first: int, told: dict[int, tuple[str, int]]) -> None:
    """Each state follows from the one before, the appends just before it taken away or not."""
    before, late = _rows(table, first), [Counter[Row]()]
    for snapshot in table.snapshots.list()[first:]:
        now = _rows(table, snapshot.id)
        if snapshot.id not in told:
            assert snapshot.commit_kind is CommitKind.COMPACT
            assert now == before, snapshot.id
            continue
        what, argument = told[snapshot.id]
        if what == "append":
            assert now == _after(before, what, argument), snapshot.id
            late = [fresh + (now - before) for fresh in late] + [Counter[Row]()]
        else:
            explained = [_after(before - fresh, what, argument) + fresh for fresh in late]
            assert now in explained, (snapshot.id, what, argument, now - explained[-1], explained[-1] - now)
            late = [Counter[Row]()]
        before = now
