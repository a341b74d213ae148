"""A writer that looks whether a snapshot is there and then moves its own to that name, as Java Paimon does on local
disks: what it replaces is noticed and committed again."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.errors import CommitConflictError, CommitError, PaimonError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO
from support.effort import LONG, sampled
from support.increments import with_compaction
from support.messages import data, ids_of, table_of_one_row

_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def _data(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [0] * len(ids)}, schema=_SCHEMA)


def _rows(table: pp.Table) -> list[tuple[int, int]]:
    rows = pp.Table.open(table.path).scan().to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


@pytest.fixture(params=sampled(["vectors", "rewrite"], 1))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    options = {"deletion-vectors.enabled": "true"} if request.param == "vectors" else {}
    made = pp.Table.create(tmp_path / "t", _SCHEMA, options=options)
    made.append(_data(1, 2, 3))
    made.append(_data(4, 5, 6))
    return made


class _Mover:
    """A commit of another writer that has found its number free, and has not moved its snapshot there yet."""

    def __init__(self, table: pp.Table, write: Callable[[pp.Table], object]) -> None:
        aside = f"{table.path}-{uuid.uuid4()}"
        shutil.copytree(table.path, aside)
        other = pp.Table.open(aside)
        write(other)
        snapshot = other.snapshots.latest()
        assert snapshot is not None
        self.target = table._store.paths.snapshot(snapshot.id)
        self.moved = False
        self._source = other._store.paths.snapshot(snapshot.id)
        for directory, _, names in os.walk(aside):
            inner = os.path.join(table.path, os.path.relpath(directory, aside))
            for name in names:
                if os.path.basename(directory) != "snapshot" and not os.path.exists(os.path.join(inner, name)):
                    os.makedirs(inner, exist_ok=True)
                    shutil.copy(os.path.join(directory, name), os.path.join(inner, name))

    def move(self) -> None:
        assert os.path.exists(self.target)
        os.replace(self._source, self.target)
        self.moved = True

    def move_if_there(self) -> None:
        """Move where there is something to replace: the number is not free for a writer that looks again."""
        if os.path.exists(self.target):
            self.move()


def _before_success(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once, after a snapshot was published and before that is told."""
    real, acted = FileSystemPublisher.publish, []

    def publish(self: FileSystemPublisher, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        published = real(self, store, snapshot, latest)
        if published and not acted:
            acted.append(snapshot)
            act()
        return published

    monkeypatch.setattr(FileSystemPublisher, "publish", publish)


def _after_check(monkeypatch: pytest.MonkeyPatch, number: int, mover: _Mover) -> None:
    """Move once, after it was looked whether a snapshot was replaced and before that is told."""
    real = FileSystemPublisher.was_replaced

    def looked(self: FileSystemPublisher, store: TableStore, snapshot: Snapshot) -> bool:
        answer = real(self, store, snapshot)
        if not mover.moved and snapshot.id == number:
            mover.move()
        return answer

    monkeypatch.setattr(FileSystemPublisher, "was_replaced", looked)


_WRITES: dict[str, tuple[Callable[[pp.Table], object], list[tuple[int, int]]]] = {
    "append": (lambda t: t.append(_data(7)), [(i, 0) for i in (1, 2, 3, 4, 5, 6, 7, 9)]),
    "overwrite": (lambda t: t.overwrite(_data(7)), [(7, 0)]),
    "delete": (lambda t: t.delete("id IN (2, 5)"), [(i, 0) for i in (1, 3, 4, 6, 9)]),
    "delete a file": (lambda t: t.delete("id < 4"), [(i, 0) for i in (4, 5, 6, 9)]),
    "update": (lambda t: t.update({"v": "v + 1"}, "id = 2"), [(1, 0), (2, 1), *((i, 0) for i in (3, 4, 5, 6, 9))]),
    "merge": (
        lambda t: t.merge(_data(2, 7), ["id"], when_matched="delete", when_not_matched="insert"),
        [(i, 0) for i in (1, 3, 4, 5, 6, 7, 9)],
    ),
    "compact": (lambda t: t.compact(full=True), [(i, 0) for i in (1, 2, 3, 4, 5, 6, 9)]),
}


@pytest.mark.parametrize(("write", "expected"), _WRITES.values(), ids=_WRITES)
def test_a_replaced_snapshot_is_committed_again(
    table: pp.Table,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[pp.Table], object],
    expected: list[tuple[int, int]],
) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))
    _before_success(monkeypatch, mover.move)
    write(table)
    assert mover.moved
    assert _rows(table) == expected
    assert table._store.snapshot_ids() == [1, 2, 3, 4]
    assert _rows(table) == expected and table.count() == len(expected)


def test_conflicts_with_what_replaced_it_are_looked_for(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both change the same rows: one change on top of the other, in the order of their snapshots."""
    mover = _Mover(table, lambda other: other.update({"v": "v + 10"}, "id IN (2, 5)"))
    _before_success(monkeypatch, mover.move)
    table.update({"v": "v + 1"}, "id IN (2, 3)")
    assert _rows(table) == [(1, 0), (2, 11), (3, 1), (4, 0), (5, 10), (6, 0)]


@pytest.mark.parametrize("name", ["append", "delete", "update", "compact"])
def test_a_commit_that_others_built_on_before_it_was_replaced_is_not_made_twice(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))

    def act() -> None:
        pp.Table.open(table.path).append(_data(8))
        mover.move()

    _before_success(monkeypatch, act)
    write, expected = _WRITES[name]
    write(table)
    # What the mover wrote is lost, as that commit was on its way already; nothing is there twice.
    assert _rows(table) == sorted([row for row in expected if row[0] != 9] + [(8, 0)])


def test_a_base_that_is_replaced_is_not_built_on(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))
    pp.Table.open(table.path).append(_data(7))
    real = TableStore.write_manifest_list

    def late(self: TableStore, data: bytes, commit_id: str | None = None, number: int = 0) -> tuple[str, int]:
        if not mover.moved:
            mover.move()
        return real(self, data, commit_id, number)

    monkeypatch.setattr(TableStore, "write_manifest_list", late)
    table.append(_data(8))
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 8, 9]


def test_rows_that_were_lost_after_success_come_back_with_the_next_commit(
    table: pp.Table, caplog: pytest.LogCaptureFixture
) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))
    table.append(_data(7))
    mover.move()
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 9]
    table.delete("id = 1")
    assert [i for i, _ in _rows(table)] == [2, 3, 4, 5, 6, 7, 9]
    assert "snapshot 3 was replaced by another writer" in caplog.text
    table.append(_data(8))
    assert [i for i, _ in _rows(table)] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_rows_that_were_lost_before_their_compaction_come_back_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of_one_row(tmp_path / "t")
    message = with_compaction(table, [1], [0])
    mover = _Mover(table, lambda other: other.append(data(9)))
    _after_check(monkeypatch, 2, mover)
    table.commit([message])
    assert mover.moved and ids_of(table) == [0, 1, 9]
    table.append(data(2))
    assert ids_of(table) == [0, 1, 2, 9]
    table.append(data(3))
    assert ids_of(table) == [0, 1, 2, 3, 9]


def test_rows_that_came_back_and_were_lost_again_come_back_with_the_commit_after(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _Mover(table, lambda other: other.append(_data(9)))
    table.append(_data(7))
    first.move()
    second = _Mover(table, lambda other: other.append(_data(10)))
    _after_check(monkeypatch, 4, second)
    table.append(_data(8))
    assert second.moved
    table.append(_data(11))
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_other_changes_that_were_lost_after_success_are_told_of_once(table: pp.Table) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))
    table.delete("id = 1")
    mover.move()
    files = sorted(Path(table.path).rglob("data-*"))
    with pytest.raises(
        CommitError, match=r"snapshot 3 was replaced .*: its changes are lost .*run that operation again"
    ):
        table.append(_data(7))
    assert sorted(Path(table.path).rglob("data-*")) == files
    table.append(_data(7))
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 7, 9]


def test_lost_rows_that_can_not_come_back_are_told_of(table: pp.Table) -> None:
    mover = _Mover(table, lambda other: other.append(_data(9)))
    before = set(Path(table.path).rglob("data-*"))
    table.append(_data(7))
    mover.move()
    for path in set(Path(table.path).rglob("data-*")) - before:
        path.unlink()
    with pytest.raises(CommitError, match=r"replaced by another writer and can't be made again.*is gone") as told:
        table.delete("id = 1")
    assert not isinstance(told.value, CommitConflictError)
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 9]


def test_what_was_rolled_back_does_not_come_back(table: pp.Table) -> None:
    table.append(_data(7))
    os.unlink(table._store.paths.snapshot(3))
    time.sleep(0.01)  # a snapshot of a later millisecond
    pp.Table.open(table.path).append(_data(8))
    table.append(_data(9))
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 4, 5, 6, 8, 9]


@pytest.mark.parametrize("write", ["append", "delete"])
def test_what_a_fast_forward_took_away_does_not_come_back(table: pp.Table, write: str) -> None:
    """Also where the branch is shorter: its newest state has the numbers of the main branch then."""
    table.tags.create("first", 1)
    table.branches.create("b", "first")
    if write == "append":
        table.append(_data(7))
    else:
        table.delete("id = 1")
    pp.Table.open(table.path).branches.fast_forward("b")
    table.append(_data(8))
    assert [i for i, _ in _rows(table)] == [1, 2, 3, 8]


def test_a_schema_that_is_replaced_is_changed_again(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = f"{table.path}-aside"
    shutil.copytree(table.path, aside)
    pp.Table.open(aside).alter(add_columns={"x": "INT"})
    real = LocalFileIO.create_if_absent

    def create(self: LocalFileIO, path: str, data: bytes) -> bool:
        created = real(self, path, data)
        if path.endswith("schema-1"):
            os.replace(f"{aside}/schema/schema-1", path)
        return created

    monkeypatch.setattr(LocalFileIO, "create_if_absent", create)
    table.alter(add_columns={"y": "INT"})
    assert table.schema.id == 2 and table.schema.field_names == ("id", "v", "x", "y")


@pytest.mark.parametrize("look", range(1, 6))
def test_a_replacement_during_the_next_commit_loses_nothing(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """However far the next commit has come: before its n-th look at the latest snapshot."""
    mover = _Mover(table, lambda other: other.append(_data(9)))
    table.append(_data(7))
    _before_look(monkeypatch, look, mover.move)
    table.append(_data(8))
    table.append(_data(10))
    assert [i for i, _ in _rows(table) if i != 9] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert not mover.moved or look > 1 or 9 in [i for i, _ in _rows(table)]


@pytest.mark.parametrize("look", range(1, 8))
def test_rows_that_were_brought_back_are_brought_back_again(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    first = _Mover(table, lambda other: other.append(_data(9)))
    table.append(_data(7))
    first.move()
    second = _Mover(table, lambda other: other.append(_data(11)))
    _before_look(monkeypatch, look, second.move_if_there)
    table.append(_data(8))
    table.append(_data(10))
    assert [i for i, _ in _rows(table) if i != 11] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def _before_look(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], None]) -> None:
    """Act before the n-th look at a table's latest snapshot from now on."""
    real, looks = TableStore.latest_snapshot, itertools.count(1)

    def latest(self: TableStore) -> Snapshot | None:
        if next(looks) == number:
            act()
        return real(self)

    monkeypatch.setattr(TableStore, "latest_snapshot", latest)


# ----------------------------------------------------------------------------------------------------------- at random


class _LooksThenMoves(LocalFileIO):
    """Local files as Java Paimon creates them."""

    __slots__ = ()

    def create_if_absent(self, path: str, data: bytes) -> bool:
        temporary = f"{os.path.dirname(path)}/.{uuid.uuid4()}.tmp"
        self.write_bytes(temporary, data)
        if os.path.exists(path):
            os.unlink(temporary)
            return False
        time.sleep(random.uniform(0, 0.001))
        os.replace(temporary, path)
        return True


def test_appends_beside_such_a_writer_are_all_there(tmp_path: Path) -> None:
    seconds = 60.0 if LONG else 0.7
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"commit.max-retries": "1000"})
    stop = threading.Event()
    failures: list[BaseException] = []

    def appended(opened: pp.Table, first: int) -> Iterator[int]:
        number = first
        while not stop.is_set():
            opened.append(_data(number))
            yield number
            number += 1

    def other() -> None:
        try:
            list(appended(pp.Table(TableStore(_LooksThenMoves(), table.path)), 1_000_000))
        except PaimonError as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    done = list(appended(table, 0))
    thread.join()
    timer.cancel()
    table.append(_data(-1))
    ids = [i for i, _ in _rows(table)]
    assert not failures
    assert [i for i in ids if i < 1_000_000] == [-1, *done]
    assert len(set(ids)) == len(ids)
