"""Compaction while others write: no row is lost and none doubled, and what can't be published leaves nothing behind."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from itertools import chain, repeat
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.compact import publish as module
from paimon_pyds.errors import CommitConflictError, CommitError, CommitOutcomeUnknownError, SnapshotNotFoundError
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from support.compaction import (
    VECTORS,
    Meanwhile,
    data_files,
    delete_positions,
    ids,
    latest,
    make,
    names,
    rows,
)
from support.effort import LONG, sampled
from support.maintenance import is_exact
from support.victims import fork_server

T = TypeVar("T")
R = TypeVar("R")


def test_an_append_is_no_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5)
    summary = table.compact(executor=Meanwhile(lambda: table.append(rows(50))))
    assert (summary.attempts, summary.files_before, summary.snapshot_id) == (1, 5, 7)
    assert sorted(ids(table)) == list(range(60))
    is_exact(table)


def test_an_append_to_a_bucket_is_no_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, {"bucket": "1", "bucket-key": "id"})
    summary = table.compact(executor=Meanwhile(lambda: table.append(rows(50))))
    assert (summary.attempts, summary.files_before) == (1, 5)
    assert sorted(ids(table)) == list(range(60))


@pytest.mark.parametrize("bucketed", [False, True])
def test_a_delete_is_kept_and_its_group_tried_again(tmp_path: Path, bucketed: bool) -> None:
    options = VECTORS | ({"bucket": "1", "bucket-key": "id"} if bucketed else {})
    table = make(tmp_path / "t", 8, options, partition_by=["day"])
    summary = table.compact(executor=Meanwhile(lambda: table.delete("id = 11")))
    groups = 3 if bucketed else 4  # the file with a deleted row goes by itself then, as in Java
    assert (summary.attempts, summary.groups, summary.groups_skipped) == (2, groups, 0)
    assert (summary.files_before, summary.files_after, summary.rows, summary.rows_dropped) == (24, groups, 79, 1)
    assert sorted(ids(table)) == [*range(11), *range(12, 80)]
    kinds = [s.commit_kind for s in table.snapshots.list()][8:]
    assert kinds.count(CommitKind.COMPACT) == 2
    is_exact(table)


def test_a_delete_that_rewrites_files_is_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5)
    summary = table.compact(executor=Meanwhile(lambda: table.delete("id IN (11, 12)")))
    assert (summary.attempts, summary.rows) == (2, 48)
    assert sorted(ids(table)) == [*range(11), *range(13, 50)]
    is_exact(table)


def test_vectors_that_only_moved_are_no_conflict(tmp_path: Path) -> None:
    """A delete writes the vectors of other files anew: those files are as they were."""
    table = make(tmp_path / "t", 3, VECTORS | {"target-file-row-num": "10"})
    first, second, third = names(table)
    delete_positions(table, {first: [0, 1, 2], second: [4]})
    summary = table.compact(executor=Meanwhile(lambda: delete_positions(table, {second: [5], third: [1]})))
    assert (summary.attempts, summary.files_before, summary.rows_dropped) == (1, 1, 3)
    assert first not in names(table)
    assert sorted(ids(table)) == [*range(3, 14), *range(16, 21), *range(22, 30)]
    is_exact(table)


def test_a_delete_in_a_file_that_had_a_vector_is_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 2, VECTORS)
    first, _ = names(table)
    delete_positions(table, {first: [0]})
    summary = table.compact(full=True, executor=Meanwhile(lambda: delete_positions(table, {first: [1]})))
    assert (summary.attempts, summary.rows, summary.rows_dropped) == (2, 18, 2)
    assert ids(table) == list(range(2, 20))


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_overwrite_wins(tmp_path: Path, dynamic: bool) -> None:
    table = make(tmp_path / "t", 5, partition_by=["day"])
    new = rows(100, 1)  # day NULL
    summary = table.compact(executor=Meanwhile(lambda: table.overwrite(new, dynamic=dynamic)))
    assert summary.groups == (2 if dynamic else 0)
    assert summary.groups_skipped == 0
    kept = [i for i in range(50) if i % 5] if dynamic else []
    assert sorted(ids(table)) == [*kept, 100]
    is_exact(table)


def test_of_two_compactions_one_wins(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6)
    summary = table.compact(executor=Meanwhile(table.compact))
    assert (summary.snapshot_id, summary.groups, summary.attempts) == (None, 0, 1)
    assert (len(names(table)), ids(table)) == (1, list(range(60)))
    is_exact(table)


def test_an_order_and_a_compaction(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6)
    summary = table.compact(order_by="price", executor=Meanwhile(table.compact))
    assert (summary.groups, summary.attempts, summary.files_before) == (1, 2, 1)
    prices = table.scan(columns=["price"]).to_arrow()["price"].to_pylist()
    assert prices == sorted(prices)
    assert sorted(ids(table)) == list(range(60))


def test_rewritten_indexes_are_a_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5)
    table.alter({"file-index.bitmap.columns": "color"})
    summary = table.compact(executor=Meanwhile(table.index.build))
    assert (summary.attempts, summary.files_after) == (2, 1)
    assert ids(table) == list(range(50))


def test_a_changed_schema_is_no_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5)
    changes = {"rename_columns": {"color": "hue"}, "change_types": {"day": "BIGINT"}, "drop_columns": ["price"]}
    summary = table.compact(executor=Meanwhile(lambda: table.alter(**changes)))
    assert summary.files_after == 1
    assert table.scan().to_arrow().column_names == ["id", "hue", "day"]
    assert table.count("hue = 'red'") == len([i for i in range(50) if i % 7 and i % 3 == 0])


def _with_a_note(table: pp.Table) -> None:
    """A new column, and a row that has a value in it."""
    table.alter(add_columns={"note": "STRING"})
    table.append(rows(100, 1).append_column("note", pa.array(["new"])))


def test_a_column_that_came_before_the_second_try_is_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, VECTORS)

    def meanwhile() -> None:
        _with_a_note(table)
        table.delete("id = 3")

    summary = table.compact(full=True, executor=Meanwhile(meanwhile))
    assert (summary.attempts, summary.files_before, summary.rows) == (2, 6, 50)
    assert table.scan("note = 'new'").to_arrow()["id"].to_pylist() == [100]


def test_a_column_that_came_while_the_table_was_looked_at_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t", 5)
    before = TableStore.latest_snapshot

    def first(store: TableStore) -> Snapshot | None:
        monkeypatch.setattr(TableStore, "latest_snapshot", before)
        _with_a_note(table)
        return before(store)

    monkeypatch.setattr(TableStore, "latest_snapshot", first)
    assert table.compact().files_before == 6
    assert table.scan("note = 'new'").to_arrow()["id"].to_pylist() == [100]


@pytest.mark.parametrize(("limit", "attempts"), [({"commit.max-retries": "3"}, 4), ({"commit.timeout": "1 ms"}, 1)])
def test_deletes_without_end_leave_the_group_in_peace(tmp_path: Path, limit: dict[str, str], attempts: int) -> None:
    table = make(tmp_path / "t", 5, VECTORS | limit, partition_by=["day"])
    victims = [1, 11, 21, 31, 41]
    waiting = iter(victims)
    summary = table.compact(full=True, executor=Meanwhile(lambda: table.delete(f"id = {next(waiting)}"), 5))
    assert (summary.attempts, summary.groups, summary.groups_skipped) == (attempts, 2, 1)
    assert sorted(ids(table)) == [i for i in range(50) if i not in victims[:attempts]]
    is_exact(table)


def test_files_that_expired_meanwhile(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5)
    old = [table.scan().plan().files[i].path for i in range(5)]

    def overwrite_and_expire() -> None:
        table.overwrite(rows(100, 1))
        for path in old:
            Path(path).unlink()

    summary = table.compact(executor=Meanwhile(overwrite_and_expire, before=True))
    assert (summary.groups, summary.groups_skipped, summary.attempts) == (0, 0, 1)
    assert ids(table) == [100]


def test_a_missing_file_of_the_table_is_an_error(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, partition_by=["day"])
    Path(table.scan("day = 1").plan().files[2].path).unlink()
    there = data_files(table)
    with pytest.raises(SnapshotNotFoundError):
        table.compact()
    assert data_files(table) == there
    assert latest(table).id == 5


def test_a_commit_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", 5)
    there = data_files(table)
    for error in (CommitError("no"), CommitConflictError("always"), CommitOutcomeUnknownError("?")):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(module, "commit", fail)
        with pytest.raises(type(error)):
            table.compact()
        assert len(data_files(table) - there) == isinstance(error, CommitOutcomeUnknownError)
    assert ids(table) == list(range(50))


# --------------------------------------------------------------------------------------------------------- processes


def work(path: Path, what: str, say: Connection) -> None:
    """Compact, order, append or delete, at least once, until a byte comes up the pipe; then tell what was done."""
    table = pp.Table.open(path)
    say.send("ready")
    say.recv()
    done: list[object] = []
    chance = random.Random(what)
    turn = 0
    while not (done and say.poll()):
        turn += 1
        if what.startswith("append"):
            first = (1 + int(what[-1])) * 1_000_000 + turn * 10
            table.append(rows(first))
            done += range(first, first + 10)
        elif what.startswith("delete"):
            victims = chance.sample(range(200), 3)
            try:
                table.delete(f"id IN ({', '.join(map(str, victims))})")
            except CommitConflictError:
                continue
            done += victims
        else:
            summary = table.compact(full=True, order_by="price" if what == "order" else None)
            done += [summary.groups]
    say.send(done)


@pytest.mark.parametrize("vectors", sampled(["true", "false"], 1))
def test_processes_that_compact_order_append_and_delete_at_once(tmp_path: Path, vectors: str) -> None:
    path = tmp_path / "t"
    options = {"deletion-vectors.enabled": vectors, "commit.max-retries": "1000", "commit.max-retry-wait": "50 ms"}
    table = make(path, 20, options, partition_by=["day"])
    server = fork_server()
    jobs = ("append 0", "delete 0", "compact", "order")
    pipes = [server.Pipe() for _ in jobs]
    workers = [server.Process(target=work, args=(path, j, theirs)) for j, (_, theirs) in zip(jobs, pipes, strict=True)]
    for worker in workers:
        worker.start()
    for mine, _ in pipes:
        assert mine.recv() == "ready"
    for mine, _ in pipes:
        mine.send("go")
    time.sleep(1.5 if LONG else 0.5)
    for mine, _ in pipes:
        mine.send("stop")
    appended, gone, compacted, ordered = (mine.recv() for mine, _ in pipes)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(ids(table)) == sorted({*range(200), *appended} - {*gone})
    assert appended
    assert gone
    assert sum(compacted) + sum(ordered) > 0
    assert any(s.commit_kind is CommitKind.COMPACT for s in table.snapshots.list())
    table.compact(full=True)
    assert sorted(ids(table)) == sorted({*range(200), *appended} - {*gone})
    assert len(names(table)) == 3


def compact_for_ever(path: Path, say: Connection) -> None:
    """Order the rows one way and the other until killed; first those of a copy, to tell how long it takes."""
    tempfile.tempdir = str(path.parent)
    copy = pp.Table.open(shutil.copytree(path, tempfile.mkdtemp(), dirs_exist_ok=True))
    for table in chain((copy, copy), repeat(pp.Table.open(path))):
        started = time.perf_counter()
        table.compact(order_by="price", options={"write-buffer-size": "64 kb"})
        table.compact(order_by="id")
        say.send(time.perf_counter() - started)


def test_a_compaction_killed_at_any_moment_leaves_a_state_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1b", **VECTORS}
    table = make(path, 3, options)
    table.append(rows(30, 5000))
    table.delete("id IN (3, 33, 333)")
    before = table.scan().to_arrow().sort_by("id")
    server = fork_server()
    chance = random.Random(5)
    for number in range(16 if LONG else 2):
        mine, theirs = server.Pipe()
        victim = server.Process(target=compact_for_ever, args=(path, theirs))
        victim.start()
        for _ in range(2 + number % 2):  # two of the copy, then one that is committed, however busy the machine is
            seconds = mine.recv()
        time.sleep(chance.uniform(0, 2) * seconds)
        victim.kill()
        victim.join()
        snapshots = table.snapshots.list()
        assert [s.id for s in snapshots] == list(range(1, len(snapshots) + 1))
        assert table.scan().to_arrow().sort_by("id").equals(before)
        assert table.count("color = 'red'") == pa.compute.sum(pa.compute.equal(before["color"], "red")).as_py()
    assert len(snapshots) > 5
    table.compact(order_by="id")
    assert table.scan().to_arrow().equals(before)
