"""Commits that have read the table meet commits in between: whoever comes last has seen what the other did to its rows,
unless it can come before, as it can before appends that have read nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from support.messages import ids_of
from support.progress import once
from support.races import race

_VECTORS = {"deletion-vectors.enabled": "true"}
_MODES = {"vectors": _VECTORS, "buckets": _VECTORS | {"bucket": "2", "bucket-key": "id"}, "rewrite": {}}
Action = Callable[[pp.Table], Any]


def _data(ids: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([0] * len(ids), pa.int64())})


def _table(path: Path, ids: Sequence[int], mode: str) -> pp.Table:
    table = pp.Table.create(path / mode, _data([]).schema, options=_MODES[mode])
    table.append(_data(ids))
    return table


def _insert(*ids: int) -> Action:
    return lambda table: table.merge(_data(ids), ["id"], when_not_matched="insert")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[pp.Table, Action], object]:
    """Has another commit come in just before the next one is published."""
    return lambda table, other: race(monkeypatch, partial(other, pp.Table.open(table.path)))


@pytest.mark.parametrize("mode", _MODES)
def test_two_merges_of_one_new_key_insert_it_once(tmp_path: Path, mode: str, meanwhile: Any) -> None:
    table = _table(tmp_path, [1], mode)
    meanwhile(table, _insert(4, 5))
    summary = _insert(5, 6)(table)
    assert (summary.rows_inserted, summary.attempts) == (1, 2)
    assert ids_of(table) == [1, 4, 5, 6]


def test_two_merges_into_an_empty_table(tmp_path: Path, meanwhile: Any) -> None:
    table = pp.Table.create(tmp_path / "t", _data([]).schema)
    meanwhile(table, _insert(1, 2))
    _insert(2, 3)(table)
    assert ids_of(table) == [1, 2, 3]


@pytest.mark.parametrize("mode", _MODES)
def test_an_update_that_makes_a_key_and_a_merge_that_inserts_it(tmp_path: Path, mode: str, meanwhile: Any) -> None:
    """Neither order of the two gives the key 5 twice."""
    insert: Action = _insert(5)
    update: Action = lambda table: table.update({"id": "id + 1"}, "id >= 4")  # noqa: E731
    for name, (ours, theirs) in {"update": (update, insert), "merge": (insert, update)}.items():
        table = _table(tmp_path / name, [4], mode)
        meanwhile(table, theirs)
        ours(table)
        assert ids_of(table) in ([5], [5, 6]), name


@pytest.mark.parametrize("mode", _MODES)
def test_a_row_that_kept_a_key_from_being_inserted_is_deleted(tmp_path: Path, mode: str, meanwhile: Any) -> None:
    table = _table(tmp_path, [4, 5, 7], mode)
    meanwhile(table, lambda t: t.delete("id >= 5"))
    _insert(5, 6)(table)
    assert ids_of(table) == [4, 5, 6]


def test_a_row_that_is_not_in_the_way_may_be_deleted(tmp_path: Path, meanwhile: Any) -> None:
    table = _table(tmp_path, [4, 5, 7], "vectors")
    meanwhile(table, lambda t: t.delete("id = 7"))
    looks = _looks(table, _insert(5, 6))
    assert ids_of(table) == [4, 5, 6]
    assert looks == 1


def _looks(table: pp.Table, action: Action) -> int:
    """How often an operation looks for rows of the source."""
    from paimon_pyds.engine.rowlevel import merge_into as merge_into

    count = []
    run = merge_into._Merge.run

    def counting(self: Any, *args: Any) -> Any:
        count.append(1)
        return run(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_into._Merge, "run", counting)
        action(table)
    return len(count)


# ------------------------------------------------------------------------------------------------- kinds of appends

_RESULT = {"before": [2, 3, 5], "after": [3]}
"""A delete of ids of 2 and 5 that another commit appends before it, or that it comes before."""


def _as_if(write: Action, **members: Any) -> Action:
    """A commit whose snapshot says what another writer's does."""

    def run(table: pp.Table) -> None:
        create = TableStore.try_create_snapshot
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                TableStore, "try_create_snapshot", lambda s, snapshot: create(s, replace(snapshot, **members))
            )
            write(table)

    return run


@pytest.mark.parametrize(
    ("members", "order"),
    [
        ({}, "before"),
        ({"operation": None, "commit_identifier": 7}, "before"),  # a stream's
        ({"operation": None}, "after"),  # a merge of Java Paimon that inserts says no more than an INSERT
        ({"operation": "MERGE"}, "after"),
        ({"operation": "of a later version"}, "after"),
    ],
)
def test_a_delete_comes_before_appends_that_have_read_nothing(
    tmp_path: Path, meanwhile: Any, members: dict[str, Any], order: str
) -> None:
    table = _table(tmp_path, [1, 3], "vectors")
    meanwhile(table, _as_if(lambda t: t.append(_data([2, 5])), **members))
    table.delete("id IN (1, 2, 5)")
    assert ids_of(table) == _RESULT[order]


def test_rows_that_are_not_meant_cost_no_second_look(tmp_path: Path, meanwhile: Any) -> None:
    """The statistics of the appended file say nothing, its rows do."""
    table = _table(tmp_path, [1, 3, 9], "vectors")
    meanwhile(table, _as_if(lambda t: t.append(_data([2, 5])), operation=None))
    assert _looks(table, lambda t: t.merge(_data([3]), ["id"], when_matched="delete")) == 1
    meanwhile(table, _as_if(lambda t: t.append(_data([2, 5])), operation=None))
    table.delete("id % 9 = 0")
    assert ids_of(table) == [1, 2, 2, 5, 5]


def test_rows_are_deleted_as_the_table_says_now(tmp_path: Path) -> None:
    """Java's readers do not look at vectors any more once they are switched off."""
    options = _VECTORS | {"deletion-vectors.modifiable": "true"}
    table = pp.Table.create(tmp_path / "t", _data([]).schema, options=options)
    table.append(_data([1, 2, 3]))
    elsewhere = pp.Table.open(table.path)
    table.delete("id = 1", progress=once("reading", lambda: elsewhere.alter({"deletion-vectors.enabled": "false"})))
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is None
    assert ids_of(table) == [2, 3]


def test_what_did_what_is_told_as_java_paimon_tells_it(tmp_path: Path) -> None:
    table = _table(tmp_path, [1, 2, 3], "vectors")
    _insert(4)(table)
    table.update({"n": "1"}, "id = 1")
    table.delete("id = 1")
    table.compact(full=True)
    table.overwrite(_data([1]))
    told = [(s.commit_kind, s.operation) for s in table.snapshots.list()]
    assert told == [
        (CommitKind.APPEND, "WRITE"), (CommitKind.APPEND, "MERGE"), (CommitKind.OVERWRITE, "UPDATE"),
        (CommitKind.OVERWRITE, "DELETE"), (CommitKind.COMPACT, None), (CommitKind.OVERWRITE, "OVERWRITE"),
    ]  # fmt: skip
