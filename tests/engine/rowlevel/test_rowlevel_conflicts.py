"""Row-level operations that meet other commits: the outcome is that of some order, nothing is lost or comes back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.rowlevel import merge_into as merge
from paimon_pyds.engine.rowlevel import tasks, update
from paimon_pyds.engine.rowlevel.target import RowTarget
from paimon_pyds.errors import CommitConflictError, CommitError
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.store import TableStore
from support.effort import LONG, sampled
from support.maintenance import is_exact
from support.races import at_once, race

_SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("n", pa.int64())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_INDEX = {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1 b"}
_MODES = {
    "vectors": _VECTORS | _INDEX,
    "wide vectors": _VECTORS | {"deletion-vectors.bitmap64": "true"},
    "buckets": _VECTORS | {"bucket": "2", "bucket-key": "id"},
    "rewrite": _INDEX,
}
State = dict[int, tuple[str, int]]
Operation = tuple[Callable[[pp.Table], Any], Callable[[State], State]]


def _data(state: State) -> pa.Table:
    return pa.table([list(state), [c for c, _ in state.values()], [n for _, n in state.values()]], schema=_SCHEMA)


def _fresh(ids: range, c: str | None = None) -> State:
    return {i: (c or f"c{i % 4}", i) for i in ids}


def _content(table: pp.Table) -> State:
    rows = table.scan().to_arrow()
    found = zip(*(rows[name].to_pylist() for name in _SCHEMA.names), strict=True)
    state = {i: (c, n) for i, c, n in found}
    assert len(state) == rows.num_rows, "a row is there twice"
    assert table.count() == len(state)
    return state


def _deleting(where: str, meant: Callable[[int, str], bool]) -> Operation:
    return (
        lambda table: table.delete(where),
        lambda state: {i: (c, n) for i, (c, n) in state.items() if not meant(i, c)},
    )


def _updating(where: str, meant: Callable[[int, str], bool]) -> Operation:
    return (
        lambda table: table.update({"n": "n + 100"}, where),
        lambda state: {i: (c, n + 100 if meant(i, c) else n) for i, (c, n) in state.items()},
    )


_FRESH = _fresh(range(100, 110))
_OTHERS = _fresh(range(200, 205), "c1")

_OURS: dict[str, Operation] = {
    "delete some": _deleting("c = 'c1'", lambda i, c: c == "c1"),
    "delete a file": _deleting("id < 20", lambda i, c: i < 20),
    "delete all": _deleting("TRUE", lambda i, c: True),
    "update some": _updating("c = 'c1'", lambda i, c: c == "c1"),
    "update a file": _updating("id < 20", lambda i, c: i < 20),
}
_THEIRS: dict[str, Operation] = {
    "append": (lambda t: t.append(_data(_FRESH)), lambda s: s | _FRESH),
    "delete the same": _deleting("c = 'c1' AND id < 10", lambda i, c: c == "c1" and i < 10),
    "delete others": _deleting("c = 'c2'", lambda i, c: c == "c2"),
    "update the same": _updating("c IN ('c1', 'c2')", lambda i, c: c in ("c1", "c2")),
    "update others": _updating("c = 'c3'", lambda i, c: c == "c3"),
    "overwrite": (lambda t: t.overwrite(_data(_OTHERS)), lambda s: _OTHERS),
    "rewrite indexes": (lambda t: t.index.build(rebuild=True), lambda s: s),
    "compact": (lambda t: t.compact(full=True), lambda s: s),
}


_LONG = pytest.mark.long
_CASES = [
    pytest.param(ours, mode, marks=() if mode in ("vectors", "rewrite") and "file" not in ours else _LONG)
    for ours in _OURS
    for mode in _MODES
]


@pytest.mark.parametrize(("ours", "mode"), _CASES if LONG else sampled((case for case in _CASES if not case.marks), 1))
def test_a_race_ends_as_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str, mode: str) -> None:
    run, apply = _OURS[ours]
    for name, (other, other_apply) in _THEIRS.items():
        if name == "rewrite indexes" and not _MODES[mode].keys() & _INDEX.keys():
            continue
        table = pp.Table.create(tmp_path / name, _SCHEMA, options=_MODES[mode])
        state: State = {}
        for start in (0, 20):
            fresh = _fresh(range(start, start + 20))
            table.append(_data(fresh))
            state |= fresh
        table.delete("id = 39")
        del state[39]
        intruder = pp.Table.open(table.path)
        with monkeypatch.context() as patch:
            came = race(patch, lambda other=other, intruder=intruder: other(intruder))
            summary = run(table)
        assert len(came) == 1, name
        found = _content(table)
        orders = (apply(other_apply(state)), other_apply(apply(state)))
        assert found in orders, name
        assert summary.attempts <= 3
        assert _content(pp.Table.open(table.path)) == found
        is_exact(table)


def test_rows_deleted_twice_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(_data(_fresh(range(40))))
    intruder = pp.Table.open(table.path)
    race(monkeypatch, lambda: intruder.delete("id < 10"))
    summary = table.delete("id < 15")
    assert (summary.rows_deleted, summary.attempts) == (5, 2)
    assert table.count() == 25


def test_an_update_never_brings_deleted_rows_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in _MODES.items():
        table = pp.Table.create(tmp_path / name, _SCHEMA, options=mode)
        table.append(_data(_fresh(range(40))))
        intruder = pp.Table.open(table.path)
        with monkeypatch.context() as patch:
            race(patch, lambda intruder=intruder: intruder.delete("id = 7"))
            summary = table.update({"n": "n + 1"}, "id < 10")
        assert summary.rows_updated == 9
        assert _content(table) == {i: (c, n + (i < 10)) for i, (c, n) in _fresh(range(40)).items() if i != 7}


def test_two_updates_that_read_what_the_other_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No order of the two swaps the values: whoever comes last moves all rows to one side."""
    for name, mode in _MODES.items():
        table = pp.Table.create(tmp_path / name, _SCHEMA, options=mode)
        table.append(_data(_fresh(range(20), "c1")))
        table.append(_data(_fresh(range(20, 40), "c2")))
        intruder = pp.Table.open(table.path)
        with monkeypatch.context() as patch:
            race(patch, lambda intruder=intruder: intruder.update({"c": "'c1'"}, "c = 'c2'"))
            assert table.update({"c": "'c2'"}, "c = 'c1'").rows_updated == 40
        assert {c for c, _ in _content(table).values()} == {"c2"}


def test_changes_elsewhere_cost_no_second_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another commit added can't match: the rows found are published on top of it."""
    looks: list[Any] = []
    plan = RowTarget.candidates

    def noting(self: RowTarget, predicate: Any, fields: Any = ()) -> Any:
        looks.append(predicate)
        return plan(self, predicate, fields)

    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["c"], options=_VECTORS)
    table.append(_data(_fresh(range(40))))
    intruder = pp.Table.open(table.path)
    race(monkeypatch, lambda: intruder.update({"n": "0"}, "c = 'c2'"))
    monkeypatch.setattr(RowTarget, "candidates", noting)
    summary = table.update({"n": "1"}, "c = 'c1' AND id < 20")
    assert (summary.rows_updated, summary.attempts) == (5, 2)
    assert len(looks) == 3  # the intruder's, ours, and whether the new files matter
    assert table.count("n = 0 AND c = 'c2'") == 10


def test_a_column_that_comes_meanwhile_keeps_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    table.append(_data(_fresh(range(10))))
    intruder = pp.Table.open(table.path)
    look, came = TableStore.latest_schema, []

    def slow(self: TableStore) -> Any:
        found = look(self)
        if not came:
            came.append(1)
            intruder.alter(add_columns={"late": "INT"})
            intruder.overwrite(pa.table({"id": [1, 2], "c": ["c1", "c2"], "n": [1, 2], "late": [7, 8]}))
        return found

    monkeypatch.setattr(TableStore, "latest_schema", slow)
    table.delete("id = 1")
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "c": "c2", "n": 2, "late": 8}]


def test_a_table_that_never_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = _VECTORS | {"commit.max-retries": "3"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=options)
    table.append(_data(_fresh(range(100))))
    intruder = pp.Table.open(table.path)
    ids = iter(range(50, 100))
    race(monkeypatch, lambda: intruder.delete(f"id = {next(ids)}"), times=20)
    before = table.count()
    with pytest.raises(CommitConflictError, match="another commit"):
        table.update({"n": "0"}, "id >= 50 AND n > 0")
    assert table.count("n = 0") == 1
    assert table.count() < before
    is_exact(table)


@pytest.mark.parametrize("operation", ["delete", "update", "compact"])
def test_vectors_expire_before_they_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """Others replace the index file with them, and the snapshot that needs it goes: the operation starts over."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(_data(_fresh(range(50))))
    table.append(_data(_fresh(range(50, 100))))
    table.delete("id IN (3, 60)")
    intruder, write, waiting = pp.Table.open(tmp_path / "t"), VectorFiles.write, [True]

    def late(self: VectorFiles, changes: Any) -> Any:
        if waiting and waiting.pop():
            intruder.delete("id IN (4, 61)")
            intruder.snapshots.expire(retain_max=1, retain_min=1, older_than="0 s")
        return write(self, changes)

    monkeypatch.setattr(VectorFiles, "write", late)
    gone = {3, 4, 60, 61}
    if operation == "delete":
        assert table.delete("id IN (4, 5)").rows_deleted == 1
        gone.add(5)
    elif operation == "update":
        assert table.update({"c": "'new'"}, "id = 5").rows_updated == 1
    else:
        table.compact(full=True)
    assert not waiting
    changed = {5: ("new", 5)} if operation == "update" else {}
    assert _content(table) == {i: v for i, v in {**_fresh(range(100)), **changed}.items() if i not in gone}
    assert not table.maintenance.verify(deep=True).findings


@pytest.mark.parametrize("operation", ["delete", "update", "merge"])
def test_vectors_expire_before_files_are_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """As `test_vectors_expire_before_they_are_merged`, where the operation makes no vectors of its own."""
    module = {"delete": tasks, "update": update, "merge": merge}[operation]
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(_data(_fresh(range(50))))
    table.delete("id = 3")
    intruder, read, waiting = pp.Table.open(tmp_path / "t"), module.live_rows, [True]

    def late(*arguments: Any) -> Any:
        if waiting and waiting.pop():
            intruder.delete("id = 4")
            intruder.snapshots.expire(retain_max=1, retain_min=1, older_than="0 s")
        return read(*arguments)

    monkeypatch.setattr(module, "live_rows", late)
    own = {"deletion-vectors.enabled": "false"}
    if operation == "delete":
        table.delete("id = 5", options=own)
    elif operation == "update":
        table.update({"c": "'new'"}, "id = 5", options=own)
    else:
        table.merge(_data({5: ("new", 5)}), "id", when_matched="update", options=own)
    assert not waiting
    changed = {} if operation == "delete" else {5: ("new", 5)}
    gone = {3, 4, 5} - changed.keys()
    assert _content(table) == {i: v for i, v in {**_fresh(range(50)), **changed}.items() if i not in gone}


def test_a_compaction_compares_vectors_that_have_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether other vectors are of the same rows can't be told then: the files are compacted anew."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(_data(_fresh(range(50))))
    table.append(_data(_fresh(range(50, 100))))
    table.delete("id IN (3, 60)")
    intruder = pp.Table.open(tmp_path / "t")

    def theirs() -> None:
        intruder.delete("id = 70")
        intruder.snapshots.expire(retain_max=1, retain_min=1, older_than="0 s")

    race(monkeypatch, theirs)
    table.compact(full=True)
    assert _content(table) == {i: v for i, v in _fresh(range(100)).items() if i not in (3, 60, 70)}


def test_appends_do_not_wait_for_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(_data(_fresh(range(10))))
    intruder = pp.Table.open(table.path)
    race(monkeypatch, lambda: intruder.delete("id = 1"))
    table.append(_data(_fresh(range(10, 20))))
    assert _content(table) == {i: row for i, row in _fresh(range(20)).items() if i != 1}


# ------------------------------------------------------------------------------------------------- other processes


def _work(path: str, worker: int, rounds: int, says: Any) -> None:
    """Deletes, moves and adds of rows, each told with what it did."""
    rng = random.Random(worker)
    table = pp.Table.open(path)
    done: list[tuple[str, int, int]] = []
    for turn in range(rounds):
        what = rng.choice(["delete", "update", "append"])
        low = rng.randrange(0, 400, 20)
        try:
            if what == "delete":
                summary = table.delete(f"n >= {low} AND n < {low + 6}")
                done.append(("gone", summary.rows_deleted, 0))
            elif what == "update":
                summary = table.update({"id": "id + 1"}, f"n >= {low} AND n < {low + 9}")
                done.append(("moved", summary.rows_updated, 0))
            else:
                first = 1000 + worker * 100 + turn
                table.append(_data(_fresh(range(first, first + 1))))
                done.append(("come", 1, 0))
        except CommitError as error:  # too many conflicts: nothing happened
            assert "another commit" in str(error) or "other commits" in str(error)
    says.send(done)


@pytest.mark.parametrize("mode", sampled(["vectors", "rewrite"], 1))
def test_four_processes_at_once(tmp_path: Path, mode: str) -> None:
    """Rows are counted: what the operations say they did adds up to what is there."""
    path = str(tmp_path / "t")
    table = pp.Table.create(path, _SCHEMA, options=_MODES[mode] | {"commit.max-retries": "50"})
    for start in range(0, 400, 100):
        table.append(pa.table([[0] * 100, ["c"] * 100, list(range(start, start + 100))], schema=_SCHEMA))
    done = at_once(_work, [(path, worker, 5) for worker in range(4)])
    sums: Counter[str] = Counter()
    for what, rows, _ in (entry for listed in done for entry in listed):
        sums[what] += rows
    rows = table.scan().to_arrow()
    assert rows.num_rows == 400 + sums["come"] - sums["gone"]
    old = rows.filter(pa.compute.less(rows["n"], 1000))
    assert len(set(old["n"].to_pylist())) == old.num_rows
    assert sums["gone"] > 0
    assert sums["moved"] > 0
    moved_now = sum(old["id"].to_pylist())
    assert moved_now <= sums["moved"]
    is_exact(table)
    for snapshot in table.snapshots.list():
        table.scan(snapshot=snapshot.id).to_arrow()
    assert live_of(table._store, table.snapshots.latest()).num_rows > 0
