"""Operations that read a table with a primary key beside upserts, compactions and one another: each state follows from
the one before, and where another commit can't matter nobody starts over."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitConflictError, CommitError
from paimon_pyds.metadata.snapshot import CommitKind
from support.effort import LONG, sampled
from support.races import at_once, race

_SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("n", pa.int64())])
_MODES: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "write-only": {"bucket": "1", "write-only": "true"},
    "changelog": {"bucket": "2", "changelog-producer": "input", "write-only": "true"},
}
_PRELOAD = "paimon_pyds.engine.rowlevel.key_rows"
State = dict[int, int]
"""Rows by their ``id``; ``p`` is ``id % 2``."""


def _data(state: Mapping[int, int]) -> pa.Table:
    return pa.table([[i % 2 for i in state], list(state), list(state.values())], schema=_SCHEMA)


def _table(path: Path | str, **options: str) -> pp.Table:
    options = {"commit.max-retries": "50", **options}
    table = pp.Table.create(path, _SCHEMA, primary_key=["p", "id"], partition_by=["p"], options=options)
    table.append(_data({i: i for i in range(40)}))
    return table


def _state(table: pp.Table, snapshot: int | None = None) -> State:
    rows = table.scan(snapshot=snapshot).to_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


# ------------------------------------------------------------------------------------------------------ one process


_FAR = "id = 4 AND p = 0 AND n >= 0"
_ELSEWHERE: dict[str, Callable[[pp.Table], Any]] = {
    "another partition": lambda t: t.append(_data({5: 500})),
    "keys behind": lambda t: t.append(_data({100: 1, 102: 2})),
    "keys around it": lambda t: t.append(_data({2: 1, 6: 1})),
    "deletes around it": lambda t: t.delete("id IN (2, 6) AND n > 0"),
    "delete of other keys": lambda t: t.delete("id > 20"),
    "compaction": lambda t: t.compact(full=True),
    "update of another partition": lambda t: t.update({"n": "n + 1"}, "id IN (1, 3)"),
}


@pytest.mark.parametrize("theirs", _ELSEWHERE)
def test_what_lies_elsewhere_makes_nobody_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    table = _table(tmp_path / "t", bucket="1")
    intruder = pp.Table.open(table.path)
    came = race(monkeypatch, lambda: _ELSEWHERE[theirs](intruder))
    summary = table.update({"n": "n + 1000"}, _FAR)
    assert (bool(came), summary.attempts, summary.rows_updated) == (True, 1, 1)
    assert _state(table)[4] == 1004


_NEAR: dict[str, tuple[Callable[[pp.Table], Any], int | None]] = {
    "upsert of the row": (lambda t: t.append(_data({4: 70})), 1070),
    "delete of the row": (lambda t: t.delete("id = 4"), None),
    "upsert that the condition leaves out": (lambda t: t.append(_data({4: -5})), -5),
    "overwrite": (lambda t: t.overwrite(_data({4: 1, 6: 2})), 1001),
    "delete of the partition": (lambda t: t.delete("p = 0"), None),
}


@pytest.mark.parametrize("theirs", _NEAR)
def test_what_may_be_the_row_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str) -> None:
    table = _table(tmp_path / "t", bucket="1")
    intruder, (other, expected) = pp.Table.open(table.path), _NEAR[theirs]
    race(monkeypatch, lambda: other(intruder))
    summary = table.update({"n": "n + 1000"}, _FAR)
    assert summary.attempts == 2 or summary.snapshot_id is None
    assert _state(table).get(4) == expected
    names = {p.name for p in (tmp_path / "t").rglob("data-*")}
    live = {file.name for s in table.snapshots.list() for file in table.scan(snapshot=s.id).plan().files}
    assert names == live  # the first try has left nothing


def test_a_merge_that_only_inserts_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", bucket="1")
    intruder = pp.Table.open(table.path)
    race(monkeypatch, lambda: intruder.append(_data({50: 1})))
    summary = table.merge(_data({50: 7, 52: 8}), ["p", "id"], when_not_matched="insert")
    assert (summary.rows_inserted, summary.attempts) == (1, 2)
    assert (_state(table)[50], _state(table)[52]) == (1, 8)


def test_an_upsert_goes_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", bucket="1")
    intruder = pp.Table.open(table.path)
    race(monkeypatch, lambda: intruder.update({"n": "n + 1"}))
    table.append(_data({4: 9}))
    assert _state(table)[4] == 9


def test_a_table_that_never_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", **{"bucket": "1", "commit.max-retries": "2"})
    intruder, numbers = pp.Table.open(table.path), itertools.count()
    race(monkeypatch, lambda: intruder.append(_data({4: next(numbers)})), times=1_000)
    with pytest.raises(CommitConflictError, match="rows were changed by another commit meanwhile"):
        table.update({"n": "n + 1"}, "n >= 0")


# ------------------------------------------------------------------------------------------------- other processes


def _work_add(path: str, rounds: int, says: Any) -> None:
    table = pp.Table.open(path)
    says.send([table.update({"n": "n + 1"}, "id = 7 OR n < 0").snapshot_id for _ in range(rounds)])


def _merge(table: pp.Table, low: int) -> Any:
    return table.merge(
        _data({low: 1, low + 1: 2, low + 60: 3}),
        ["p", "id"],
        when_matched="UPDATE SET n = target.n + source.n",
        when_not_matched="insert",
        when_not_matched_by_source=f"n >= {low} AND n < {low + 2} THEN DELETE",
    )


_OPERATIONS: dict[str, Callable[[pp.Table, int], Any]] = {
    "delete": lambda t, low: t.delete(f"n >= {low} AND n < {low + 4}"),
    "update": lambda t, low: t.update({"n": "n + 3"}, f"n >= {low} AND n < {low + 6}"),
    "update keys": lambda t, low: t.update({"n": "n * 2"}, f"id >= {low} AND id < {low + 3}"),
    "merge": _merge,
    "upsert": lambda t, low: t.append(_data({low: low, low + 5: 2})),
    "overwrite": lambda t, low: t.overwrite(_data({2 * low + 1: low}), partition={"p": 1}),
    "drop": lambda t, low: t.delete("p = 0"),
    "compact": lambda t, low: t.compact(full=low % 2 == 0),
}
_WEIGHTS = dict(zip(_OPERATIONS, (3, 4, 3, 4, 5, 1, 1, 3), strict=True))


def _after(state: State, what: str, low: int) -> State:
    """The rows after an operation on them."""
    match what:
        case "delete":
            return {i: n for i, n in state.items() if not low <= n < low + 4}
        case "update":
            return {i: n + 3 * (low <= n < low + 6) for i, n in state.items()}
        case "update keys":
            return {i: 2 * n if low <= i < low + 3 else n for i, n in state.items()}
        case "upsert":
            return state | {low: low, low + 5: 2}
        case "overwrite":
            return {i: n for i, n in state.items() if not i % 2} | {2 * low + 1: low}
        case "drop":
            return {i: n for i, n in state.items() if i % 2}
    source = {low: 1, low + 1: 2, low + 60: 3}
    kept = {i: n for i, n in state.items() if i in source or not low <= n < low + 2}
    return {i: n + source.get(i, 0) for i, n in kept.items()} | {i: n for i, n in source.items() if i not in state}


def _work(path: str, worker: int, rounds: int, says: Any) -> None:
    rng = random.Random(worker)
    done: list[tuple[int, str, int]] = []
    for _ in range(rounds):
        what = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        low = rng.randrange(0, 40)
        try:
            found = _OPERATIONS[what](pp.Table.open(path), low)
        except CommitError as error:  # too many conflicts: nothing happened
            assert "another commit" in str(error) or "other commits" in str(error)
            continue
        snapshot = found.snapshot_id if hasattr(found, "snapshot_id") else found.id
        if snapshot is not None and what != "compact":
            done.append((snapshot, what, low))
    says.send(done)


@pytest.mark.timeout(600)
def test_no_addition_is_lost(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", bucket="2")
    rounds = 20 if LONG else 4
    said = at_once(_work_add, [(table.path, rounds)] * 2, _PRELOAD)
    assert len({snapshot for told in said for snapshot in told}) == 2 * rounds
    assert _state(table) == {i: i + 2 * rounds * (i == 7) for i in range(40)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", sampled(_MODES, 1))
def test_each_state_follows_from_the_one_before(tmp_path: Path, mode: str) -> None:
    table = _table(tmp_path / "t", **_MODES[mode])
    first = len(table.snapshots.list())
    said = at_once(_work, [(table.path, worker, 14 if LONG else 3) for worker in range(4)], _PRELOAD)
    told = {snapshot: (what, low) for worker in said for snapshot, what, low in worker}
    before = _state(table, first)
    for snapshot in table.snapshots.list()[first:]:
        now = _state(table, snapshot.id)
        if snapshot.id in told:
            assert now == _after(before, *told[snapshot.id]), (snapshot.id, told[snapshot.id])
        else:
            assert snapshot.commit_kind is CommitKind.COMPACT
            assert now == before, snapshot.id
        before = now
