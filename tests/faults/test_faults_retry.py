"""A commit that is tried again after the storage failed: its rows are in the table once, and no file of it is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import (
    AlreadyCommittedError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    PaimonError,
    StorageError,
)
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from support.effort import sampled
from support.faults_io import AFTER, BEFORE, FaultyIO
from support.increments import with_compaction
from support.messages import SCHEMA, data, ids_of, table_of_one_row, written


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return table_of_one_row(tmp_path / "t")


@pytest.mark.parametrize("forever", ["down", None])
@pytest.mark.parametrize("mode", [BEFORE, AFTER])
def test_a_retry_after_any_fault_never_doubles_rows_or_loses_files(
    tmp_path: Path, mode: str, forever: str | None
) -> None:
    """Every request of a commit fails once, alone or with all that follow; then the storage is well again."""

    def fresh(name: str) -> tuple[pp.Table, CommitMessage]:
        made = pp.Table.create(tmp_path / name, SCHEMA)
        made.append(data(0))
        message = written(made, 1, 2)
        made.append(data(3))
        METADATA_CACHE.clear()
        return made, message

    table, message = fresh("whole")
    counting = FaultyIO()
    pp.Table(TableStore(counting, table.path)).commit([message])
    unknown = 0
    published = counting.done.index("create_if_absent")
    for at in sorted({published, *sampled(range(len(counting.done)), 5)}):
        table, message = fresh(f"t{at}")
        try:
            pp.Table(TableStore(FaultyIO(at, mode, forever=forever), table.path)).commit([message])
        except PaimonError as error:
            unknown += isinstance(error, CommitOutcomeUnknownError)
        try:
            assert table.commit([message]) is not None
            expected = [0, 1, 2, 3]
        except CommitConflictError as error:  # the first try failed, and removed the files
            assert "is gone" in str(error)
            expected = [0, 3]
        assert ids_of(table) == expected, counting.done[at]
    assert unknown or forever is None


@pytest.mark.parametrize("mode", [BEFORE, AFTER])
@pytest.mark.parametrize("what", ["interrupt", "fault", "down"])
def test_a_message_that_got_half_way_is_finished_by_the_next_commit_of_it(tmp_path: Path, what: str, mode: str) -> None:
    """Every request that a commit makes once its append is published fails; nothing is doubled, nothing missing."""
    source = table_of_one_row(tmp_path / "source")
    source.append(data(1, 2))
    message = with_compaction(source, [3, 4], [0, 1, 2])

    def fresh(name: str) -> tuple[str, CommitMessage]:
        path = str(shutil.copytree(source.path, tmp_path / name))
        METADATA_CACHE.clear()
        return path, CommitMessage(tuple(replace(b, directory=f"{path}/bucket-0") for b in message.buckets))

    path, moved = fresh("whole")
    counting = FaultyIO()
    pp.Table(TableStore(counting, path)).commit([moved])
    published = [at for at, name in enumerate(counting.done) if name == "create_if_absent"]
    assert len(published) == 2
    halves = 0
    after = range(published[0] + 1, len(counting.done))
    for at in sorted({published[1], *sampled(after, 3)}):
        path, moved = fresh(f"t{at}")
        error = {"error": lambda _: KeyboardInterrupt()} if what == "interrupt" else {}
        io = FaultyIO(at, mode, forever="down" if what == "down" else None, **error)  # type: ignore[arg-type]
        with suppress(KeyboardInterrupt, PaimonError):
            pp.Table(TableStore(io, path)).commit([moved])
        table = pp.Table.open(path)
        halves += len(table.snapshots.list()) == 3
        assert ids_of(table) == [0, 1, 2, 3, 4], counting.done[at]
        for _ in range(2):
            snapshot = table.commit([moved])
            assert snapshot is not None and snapshot.id == 4
            kinds = [s.commit_kind for s in table.snapshots.list()]
            assert kinds == [CommitKind.APPEND] * 3 + [CommitKind.COMPACT], counting.done[at]
            assert ids_of(table) == [0, 1, 2, 3, 4]
    assert halves


def test_a_failing_retry_keeps_files_that_are_in_the_table(table: pp.Table) -> None:
    message = written(table, 1)
    landed = table.commit([message])
    table.append(data(2))
    for at in range(12):
        METADATA_CACHE.clear()
        retried = pp.Table(TableStore(FaultyIO(at, forever="down"), table.path))
        with suppress(StorageError):
            assert retried.commit([message]) == landed
        with pytest.raises((StorageError, AlreadyCommittedError)):
            retried.abort([message])
        assert ids_of(table) == [0, 1, 2]


def _requests(table: pp.Table, write: Callable[[pp.Table], object]) -> int:
    io = FaultyIO()
    METADATA_CACHE.clear()
    write(pp.Table(TableStore(io, table.path)))
    return len(io.done)


def test_what_a_commit_asks_of_the_storage_does_not_grow_with_the_table(table: pp.Table) -> None:
    for i in range(12):  # from the eleventh snapshot on each commit looks whether an old one is due to expire
        table.append(data(i))
    few = _requests(table, lambda t: t.append(data(1)))
    for i in range(30):
        table.append(data(i))
    assert _requests(table, lambda t: t.append(data(1))) == few
