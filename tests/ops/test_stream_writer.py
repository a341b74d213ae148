"""Streams whose commits are made once: replays, crashes, other writers, expiry."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.compact import after_write
from paimon_pyds.errors import CommitError, CommitOutcomeUnknownError, OptionError, PaimonError, SchemaError
from paimon_pyds.metadata import user_commits
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance import expire
from paimon_pyds.storage import FileStatus
from support.effort import LONG, sampled
from support.faults_io import AFTER, BEFORE, FaultyIO, opened
from support.messages import ids_of
from support.oracle import Oracle, requires_java_oracle

USER = "job-7"
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "key": {"primary_key": "id", "options": {"bucket": 2}},
    "dynamic": {"primary_key": "id"},
    "crossing": {"primary_key": "id", "partition_by": "p"},
}


def _made(path: Path, kind: str = "append") -> pp.Table:
    return pp.Table.create(path, "id BIGINT, p INT", **KINDS[kind])


def _rows(*ids: int) -> dict[str, list[int]]:
    return {"id": list(ids), "p": [id_ % 3 for id_ in ids]}


def _commit(table: pp.Table, identifier: int, *ids: int, user: str = USER) -> Any:
    with table.stream_writer(user) as writer:
        writer.write(_rows(*ids))
        return writer.commit(identifier)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return _made(tmp_path / "t")


# ------------------------------------------------------------------------------------------------------------- replays


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_is_made_once(tmp_path: Path, kind: str) -> None:
    table = _made(tmp_path / "t", kind)
    with table.stream_writer(USER) as writer:
        assert writer.committed() is None
        writer.write(_rows(1, 2))
        writer.write(_rows(3))
        done = writer.commit(0)
        assert (done.identifier, done.snapshot_id, done.committed_before) == (0, 1, False)
        writer.write(_rows(4))
        assert writer.commit(1, watermark=77).snapshot_id is not None
        assert writer.committed() == 1
    again = _commit(table, 0, 8, 9)
    assert again.committed_before
    assert again.snapshot_id is None
    assert _commit(table, 1, 9).committed_before
    assert not _commit(table, 2, 5).committed_before
    assert ids_of(table) == [1, 2, 3, 4, 5]
    named = [(s.commit_user, s.commit_identifier) for s in table.snapshots.list()]
    assert named == sorted(named)
    assert {user for user, _ in named} == {USER}
    latest = table.snapshots.latest()
    assert latest is not None and latest.watermark == 77
    assert not table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files.num_rows


def test_a_commit_and_its_compaction_have_the_same_name(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", "key")
    for number in range(12):
        _commit(table, number, number, 100)
    found = table.snapshots.list()
    compactions = [s.commit_identifier for s in found if s.commit_kind is CommitKind.COMPACT]
    assert compactions
    assert {s.commit_user for s in found} == {USER}
    assert [s.commit_identifier for s in found if s.commit_kind is CommitKind.APPEND] == [*range(12)]
    assert ids_of(table) == [*range(12), 100]


def test_rows_are_deleted_by_their_kind(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", "key")
    with table.stream_writer(USER, rowkind_column="kind") as writer:
        writer.write({**_rows(1, 2), "kind": ["+I", "+I"]})
        writer.commit(1)
        writer.write({**_rows(1, 3), "kind": ["-D", "+I"]})
        writer.commit(2)
    assert ids_of(table) == [2, 3]


def test_a_commit_without_rows_makes_no_snapshot(table: pp.Table) -> None:
    with table.stream_writer(USER) as writer:
        done = writer.commit(4)
        assert (done.snapshot_id, done.committed_before) == (None, False)
        writer.write(_rows())
        assert writer.commit(5).snapshot_id is None
        assert writer.committed() is None
    assert not table.snapshots.list()


def test_rows_that_are_not_committed_are_dropped(table: pp.Table) -> None:
    with table.stream_writer(USER) as writer:
        writer.write(_rows(1))
        writer.abort()
        writer.write(_rows(2))
        writer.commit(1)
        writer.write(_rows(3))
    assert ids_of(table) == [2]
    assert not table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files.num_rows


# -------------------------------------------------------------------------------------------------------------- errors


def test_numbers_that_do_not_grow_are_refused(table: pp.Table) -> None:
    with table.stream_writer(USER) as writer:
        writer.write(_rows(1))
        writer.commit(5)
        writer.write(_rows(2))
        with pytest.raises(OptionError, match="commit 3 comes after commit 5"):
            writer.commit(3)
        writer.commit(6)
        for number in (-1, 2**63 - 1):
            with pytest.raises(OptionError, match="number of a commit"):
                writer.commit(number)
    assert ids_of(table) == [1, 2]


def test_a_stream_needs_a_name(table: pp.Table) -> None:
    for name in ("", " "):
        with pytest.raises(OptionError, match="needs a user"):
            table.stream_writer(name)
    with pytest.raises(OptionError, match="no-such"):
        table.stream_writer(USER, options={"no-such": "1"})


def test_after_a_write_that_failed_the_rest_of_its_rows_is_not_committed_alone(table: pp.Table) -> None:
    with table.stream_writer(USER) as writer:
        writer.write(_rows(1))
        with pytest.raises(SchemaError):
            writer.write({"id": ["x"]})
        for call in (lambda: writer.write(_rows(2)), lambda: writer.commit(1)):
            with pytest.raises(CommitError, match="a write has failed"):
                call()
        writer.abort()
        writer.write(_rows(1, 2))
        writer.commit(1)
    assert ids_of(table) == [1, 2]


def test_after_a_commit_that_failed_its_rows_are_written_again(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CommitError("no")

    with table.stream_writer(USER) as writer:
        writer.write(_rows(1))
        with monkeypatch.context() as patched:
            patched.setattr(user_commits, "write_record", refuse)
            with pytest.raises(CommitError):
                writer.commit(1)
        with pytest.raises(CommitError, match="a commit has failed"):
            writer.commit(1)
        writer.write(_rows(1))
        writer.commit(1)
    assert ids_of(table) == [1]
    assert not table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files.num_rows


# ------------------------------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", sampled([BEFORE, AFTER], 1))
def test_a_kill_at_any_moment_neither_doubles_nor_loses_a_commit(tmp_path: Path, mode: str, kind: str) -> None:
    prepared = tmp_path / "prepared"
    _commit(_made(prepared, kind), 1, 1)

    def change(table: pp.Table) -> None:
        _commit(table, 2, 2, 3)

    counting, whole = FaultyIO(), Path(shutil.copytree(prepared, tmp_path / "whole"))
    change(opened(counting, whole))
    steps = [at for at, name in enumerate(counting.done) if name not in ("exists", "list", "size", "read", "input")]
    assert len(steps) > 8
    outcomes = set()
    for at in sorted({steps[0], steps[-1], *sampled(steps, 3)}):
        path = Path(shutil.copytree(prepared, tmp_path / f"t{at}"))
        with suppress(KeyboardInterrupt):
            change(opened(FaultyIO(at, mode, lambda _: KeyboardInterrupt(), "down"), path))
        table = pp.Table.open(path)
        done = _commit(table, 2, 3, 2)
        outcomes.add(done.committed_before)
        _commit(table, 3, 4)
        assert ids_of(table) == [1, 2, 3, 4], counting.done[at]
        shutil.rmtree(path)
    assert outcomes == {True, False}


def test_files_of_a_killed_writer_are_orphans(table: pp.Table) -> None:
    _commit(table, 1, 1)
    writer = table.stream_writer(USER)
    writer.write(_rows(2))
    assert writer._batch is not None and writer._batch._writer is not None
    writer._batch._writer.prepare_commit()  # and then it is killed
    assert not _commit(table, 2, 2).committed_before
    assert table.maintenance.remove_orphan_files(timedelta(0)).files.num_rows == 1
    assert ids_of(table) == [1, 2]
    assert _commit(table, 2, 2).committed_before


@pytest.mark.parametrize("kind", ["append", "key", "crossing"])
def test_a_commit_whose_answer_is_lost_is_repeated_without_its_rows(tmp_path: Path, kind: str) -> None:
    for published in (True, False):
        path = tmp_path / f"{kind}-{published}"
        _commit(_made(path, kind), 1, 1)
        counting = FaultyIO()
        with opened(counting, Path(shutil.copytree(path, f"{path}-whole"))).stream_writer(USER) as writer:
            writer.write(_rows(2))
            writer.commit(2)
        at = counting.done.index("create_if_absent")
        io = FaultyIO(at, AFTER if published else BEFORE, forever="down")
        with opened(io, path).stream_writer(USER) as writer:
            writer.write(_rows(2))
            with pytest.raises(CommitOutcomeUnknownError):
                writer.commit(2)
            with pytest.raises(CommitError, match="outcome of commit 2 is not known"):
                writer.write(_rows(3))
            with pytest.raises(CommitError, match="outcome of commit 2 is not known"):
                writer.commit(3)
            io._at = None  # the storage is well again
            assert writer.commit(2).committed_before is published
            writer.write(_rows(3))
            writer.commit(3)
        assert ids_of(pp.Table.open(path)) == [1, 2, 3]


def test_half_written_records_of_killed_writers_are_orphans(table: pp.Table) -> None:
    _commit(table, 1, 1)
    directory = Path(table._store.paths.stream_writers_dir)
    left = directory / ".writer-job-7.01234567-89ab-cdef-0123-456789abcdef.tmp"
    left.write_text("{")
    os.utime(left, (1_700_000_000,) * 2)
    table.maintenance.remove_orphan_files(timedelta(0))
    assert [path.name for path in directory.iterdir()] == ["writer-job-7"]


# ------------------------------------------------------------------------------------------------------- other writers


def _just_before_publishing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    publish, calls = TableStore.try_create_snapshot, list[int]()

    def patched(store: TableStore, snapshot: Any) -> bool:
        if not calls:
            calls.append(1)
            act()
        return publish(store, snapshot)

    monkeypatch.setattr(TableStore, "try_create_snapshot", patched)


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_processes_with_the_same_commit_one_makes_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _made(tmp_path / "t", kind)
    _commit(table, 1, 1)
    _just_before_publishing(monkeypatch, lambda: _commit(pp.Table.open(table.path), 2, 2, 3))
    assert _commit(table, 2, 3, 2).committed_before
    assert ids_of(table) == [1, 2, 3]
    record = user_commits.read_record(table._store, USER)
    assert record is not None and record.intent is None and record.committed is not None
    assert record.committed.identifier == 2
    assert not table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files.num_rows


@pytest.mark.parametrize("kind", KINDS)
def test_another_writer_may_be_faster(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(tmp_path / "t", kind)
    _commit(table, 1, 1)
    _just_before_publishing(monkeypatch, lambda: pp.Table.open(table.path).append(_rows(7)))
    assert not _commit(table, 2, 2).committed_before
    assert ids_of(table) == [1, 2, 7]


def test_streams_of_similar_names_are_different_ones(table: pp.Table) -> None:
    names = ["a", "A", "a/b", "a" * 300, "ä", "query 1"]
    for number, name in enumerate(names):
        _commit(table, 7, number, user=name)
    for name in names:
        assert _commit(table, 7, 99, user=name).committed_before
    assert ids_of(table) == [*range(len(names))]


def test_a_writer_looks_at_each_snapshot_of_others_once(table: pp.Table) -> None:
    _commit(table, 1, 1)
    for id_ in range(40):
        table.append(_rows(id_ + 10))
    io = FaultyIO()
    with opened(io, Path(table.path)).stream_writer(USER) as writer:
        before = len(io.done)
        assert writer.committed() == 1
        looked = len(io.done) - before
        assert looked > 40
        before = len(io.done)
        assert writer.committed() == 1
        assert len(io.done) - before < 5
        table.append(_rows(100))
        before = len(io.done)
        assert writer.committed() == 1
        assert len(io.done) - before < 8
        writer.write(_rows(2))
        writer.commit(2)
    io = FaultyIO()
    with opened(io, Path(table.path)).stream_writer(USER) as writer:
        before = len(io.done)
        assert writer.committed() == 2
        assert len(io.done) - before < 8


class _Listing(FaultyIO):
    """Notes which directories are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def list(self, path: str) -> list[FileStatus]:
        self.listed.append(path.rpartition("/")[2])
        return super().list(path)


def test_a_commit_lists_no_snapshots_however_many_there_are(table: pp.Table) -> None:
    io = _Listing()
    with opened(io, Path(table.path)).stream_writer(USER) as writer:
        for number in range(20):
            writer.write(_rows(number))
            writer.commit(number)
            if number == 1:
                io.listed.clear()
    assert table.snapshots.list()[0].id == 1
    assert "snapshot" not in io.listed


def test_what_commits_leave_in_memory_has_a_bound_of_its_own(table: pp.Table) -> None:
    METADATA_CACHE.clear()
    with table.stream_writer(USER) as writer:
        for number in range(20):
            writer.write(_rows(number))
            writer.commit(number)
    assert METADATA_CACHE._small.weight > 0
    assert METADATA_CACHE._large.weight == 0


# -------------------------------------------------------------------------------------------------- expiry and rollback


def _expire_all_but_one(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert len(table.snapshots.list()) == 1


def test_what_was_committed_is_known_after_expiry(table: pp.Table) -> None:
    _commit(table, 3, 1)
    table.append(_rows(2))
    _expire_all_but_one(table)
    with table.stream_writer(USER) as writer:
        assert writer.committed() == 3
    assert _commit(table, 3, 1).committed_before
    _commit(table, 4, 3)
    assert ids_of(table) == [1, 2, 3]


@requires_java_oracle
@pytest.mark.java
def test_expiry_and_orphan_removal_by_java_leave_what_was_committed_known(tmp_path: Path, oracle: Oracle) -> None:
    table = _made(tmp_path / "w" / "db.db" / "t", "key")
    _commit(table, 3, 1)
    _commit(table, 4, 2)
    with oracle.batch() as batch:
        batch.write(tmp_path / "w", "db.t", data_of_table(7))
        batch.expire(tmp_path / "w", "db.t", 1)
        rows = batch.read(tmp_path / "w", "db.t")
    assert len(table.snapshots.list()) == 1
    assert USER not in {s.commit_user for s in table.snapshots.list()}
    assert sorted(row["id"] for row in rows.values) == [1, 2, 7]
    oracle.program("MaintenanceOracle", "orphans", table.path)
    assert _commit(table, 4, 2).committed_before
    _commit(table, 5, 3)
    assert ids_of(table) == [1, 2, 3, 7]


def data_of_table(*ids: int) -> Any:
    import pyarrow as pa

    return pa.table(_rows(*ids), schema=pa.schema([("id", pa.int64()), ("p", pa.int32())]))


def _killed(monkeypatch: pytest.MonkeyPatch, table: pp.Table, number: int, *ids: int, published: bool) -> None:
    """A writer that is killed just after, or before, it publishes a commit."""
    with monkeypatch.context() as patched:
        if published:
            write = user_commits.write_record

            def stop(store: TableStore, user: str, record: Any) -> None:
                if record.intent is None:
                    raise KeyboardInterrupt
                write(store, user, record)

            patched.setattr(user_commits, "write_record", stop)
        else:

            def refuse(*_: object) -> bool:
                raise KeyboardInterrupt

            patched.setattr(TableStore, "try_create_snapshot", refuse)
        writer = table.stream_writer(USER)
        writer.write(_rows(*ids))
        with pytest.raises(KeyboardInterrupt):
            writer.commit(number)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("tagged", [False, True])
def test_a_kill_and_then_expiry_leave_the_files_to_decide(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, tagged: bool, compacted: bool
) -> None:
    monkeypatch.setattr(expire, "settle_expiring", lambda *_: None)  # as Java's expiry
    _commit(table, 1, 1)
    _killed(monkeypatch, table, 2, 2, 3, published=True)
    if tagged:
        table.tags.create("kept")
    table.append(_rows(4))
    if compacted:
        table.compact(full=True)
    _expire_all_but_one(table)
    if compacted and not tagged:
        with table.stream_writer(USER) as writer:
            with pytest.raises(CommitOutcomeUnknownError, match="settle"):
                writer.committed()
            writer.write(_rows(2, 3))
            with pytest.raises(CommitOutcomeUnknownError):
                writer.commit(2)
            writer.settle(2)
            assert writer.committed() == 2
    assert _commit(table, 2, 2, 3).committed_before
    _commit(table, 3, 5)
    assert ids_of(table) == [1, 2, 3, 4, 5]


def test_expiry_records_what_a_killed_process_has_committed(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    _commit(table, 1, 1)
    _killed(monkeypatch, table, 2, 2, 3, published=True)
    table.append(_rows(4))
    table.compact(full=True)
    _expire_all_but_one(table)
    assert _commit(table, 2, 2, 3).committed_before
    assert ids_of(table) == [1, 2, 3, 4]


def test_a_kill_before_publishing_and_then_expiry_is_no_commit(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commit(table, 1, 1)
    _killed(monkeypatch, table, 2, 2, 3, published=False)
    for id_ in (4, 5):
        table.append(_rows(id_))
    _expire_all_but_one(table)
    assert not _commit(table, 2, 2, 3).committed_before
    assert ids_of(table) == [1, 2, 3, 4, 5]


def test_what_is_rolled_back_is_not_committed(table: pp.Table) -> None:
    for number in range(1, 5):
        _commit(table, number, number)
    table.snapshots.rollback(2)
    table.append(_rows(70))
    table.append(_rows(80))
    with table.stream_writer(USER) as writer:
        assert writer.committed() == 2
    assert not _commit(table, 3, 3).committed_before
    assert ids_of(table) == [1, 2, 3, 70, 80]


def test_a_rollback_while_a_writer_is_open(table: pp.Table) -> None:
    with table.stream_writer(USER) as writer:
        for number in range(1, 5):
            writer.write(_rows(number))
            writer.commit(number)
        table.snapshots.rollback(2)
        assert writer.committed() == 2
        for id_ in (70, 80, 90):
            table.append(_rows(id_))
        assert writer.committed() == 2


def test_a_damaged_record_is_reported(table: pp.Table) -> None:
    _commit(table, 1, 1)
    path = Path(table._store.paths.stream_writer(USER))
    path.write_text(path.read_text().replace(USER, "other"))
    with pytest.raises(PaimonError, match="other"):
        _commit(table, 2, 2)
    assert ids_of(table) == [1]


def test_an_overwrite_by_others_does_not_undo_what_was_committed(table: pp.Table) -> None:
    _commit(table, 1, 1)
    table.overwrite(_rows(9))
    assert _commit(table, 1, 1).committed_before
    assert ids_of(table) == [9]


# ---------------------------------------------------------------------------------------------------------- compaction


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_a_stream_leaves_few_files_however_many_commits_it_makes(tmp_path: Path, partition_by: str | None) -> None:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, p INT", partition_by=partition_by)
    commits = 100 if LONG else 50
    with table.stream_writer(USER) as writer:
        for number in range(commits):
            writer.write(_rows(3 * number))
            writer.commit(number)
    assert table.system.read("files").num_rows < 25
    assert ids_of(table) == [3 * number for number in range(commits)]
    compactions = [s for s in table.snapshots.list() if s.commit_kind is CommitKind.COMPACT]
    assert {s.commit_user for s in table.snapshots.list()} == {USER}
    assert len(compactions) > 5


def test_files_of_a_stream_are_merged_with_those_of_their_size(table: pp.Table) -> None:
    table.append({"id": [*range(200_000)], "p": [*range(200_000)]})
    [large] = table.system.read("files")["file_path"].to_pylist()
    with table.stream_writer(USER) as writer:
        for number in range(40):
            writer.write(_rows(number))
            writer.commit(number)
    left = table.system.read("files")["file_path"].to_pylist()
    assert len(left) < 15
    assert large in left


def test_a_commit_merges_a_bounded_number_of_files(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, p INT", partition_by="p")
    rows = {"id": [*range(20)], "p": [*range(20)]}
    for options, numbers in (({"write-only": True}, range(7)), ({}, range(7, 8))):
        with table.stream_writer(USER, options=options) as writer:
            for number in numbers:
                writer.write(rows)
                writer.commit(number)
    assert table.system.read("files").num_rows == 4 * 8 + 16


def _keyed(path: Path, **options: object) -> pp.Table:
    return pp.Table.create(path, "id BIGINT, p INT", primary_key="id", options={"bucket": 4, **options})


@pytest.mark.parametrize(("lookup", "merged"), [(False, [0, 1, 1, 1, 1, 1]), (True, [4] * 6)])
def test_a_commit_merges_buckets_up_to_a_size_unless_rows_wait_for_that(
    tmp_path: Path, lookup: bool, merged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(after_write, "STREAM_MERGE_BYTES", 1)
    table = _keyed(tmp_path / "t", **{"num-sorted-run.compaction-trigger": 2, "force-lookup": lookup})
    found = []
    with table.stream_writer(USER) as writer:
        for number in range(len(merged)):
            writer.write(_rows(*range(20)))
            writer.commit(number)
            files = [(f["bucket"], f["level"]) for f in table.system.read("files").to_pylist()]
            found.append(4 - len({bucket for bucket, level in files if not level}))
    assert found == merged
    assert len(files) <= 4 * 4
    assert ids_of(table) == [*range(20)]


def test_streams_compact_fully_after_as_many_commits_as_the_option_says(tmp_path: Path) -> None:
    table = _keyed(tmp_path / "t", **{"full-compaction.delta-commits": 4})
    with table.stream_writer(USER) as writer:
        for number in range(9):
            writer.write(_rows(*range(20) if number == 1 else [number]))
            writer.commit(number)
            levels = set(table.system.read("files")["level"].to_pylist())
            assert (levels == {5}) == (number in (3, 7)), "of all buckets, not only those of the last commit"
    full = [s.commit_identifier for s in table.snapshots.list() if s.commit_kind is CommitKind.COMPACT]
    assert full == [3, 7]
    with table.stream_writer("job-8") as writer:
        for number in (100, 101, 1000):
            writer.write(_rows(1))
            writer.commit(number)
    full = [s.commit_identifier for s in table.snapshots.list() if s.commit_kind is CommitKind.COMPACT]
    assert full == [3, 7, 100, 1000]


def test_write_only_streams_merge_nothing(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, p INT")
    with table.stream_writer(USER, options={"write-only": True}) as writer:
        for number in range(20):
            writer.write(_rows(number))
            writer.commit(number)
    assert {s.commit_kind for s in table.snapshots.list()} == {CommitKind.APPEND}
