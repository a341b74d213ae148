"""A fast-forward at whose I/O calls something fails, or happens beside: the main branch has its own rows and columns,
or those of the branch, and every file that a state needs is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CommitError,
    NotFoundError,
    PaimonError,
    TagNotFoundError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.effort import LONG, sampled
from support.faults_beside import BesideIO, calls_of, each_moment, missing_files, once_each, table_in
from support.faults_io import AFTER, BEFORE, DOWN, HALF, HARMLESS, FaultyIO
from support.memory_io import MemoryIO
from support.schedules import repeatable

_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
_OPTIONS = {"file-operation.thread-num": "1", "write-only": "true", "bucket": "-1"}
State = tuple[list[str], list[str]]
"""The names of columns, and rows."""


@cache
def _made(*, behind: bool = False) -> dict[str, bytes]:
    """A table with a branch ``b`` that has another column in the place of one, as has the main branch; and more
    snapshots than that, or fewer. Its files are copied before they change."""
    files: dict[str, bytes] = {}
    create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(_SCHEMA), (), (), _OPTIONS))
    for id_ in range(2):
        table_in(files).append(pa.table({"id": [id_], "v": [10 * id_]}, _SCHEMA))
    table_in(files).tags.create("old", 1)
    table_in(files).branches.create("b", "old")
    for name, column in (("b", "theirs"), ("main", "ours")):
        table = table_in(files, name)
        table.alter(add_columns={column: "INT"}, drop_columns=["v"])
        for number in range(1 if (name == "main") == behind else 4):
            table.append({"id": [100 + number], column: [number]})
    branch = table_in(files, "b")
    branch.tags.create("theirs")
    table_in(files).tags.create("ours")
    return files


@once_each
def _state(files: dict[str, bytes]) -> State:
    """Of the newest snapshot; the older ones, and tags, can be read, too, unless the fast-forward goes on later."""
    state, table = _newest(files), table_in(files)
    if not _told(files):
        assert not missing_files(files)
        for id_ in table._store.snapshot_ids():
            table.scan(snapshot=id_).to_arrow()
        for tag in table.tags.list():
            table.scan(tag=tag).to_arrow()
    return state


@once_each
def _newest(files: dict[str, bytes]) -> State:
    table = table_in(files)
    return table.arrow_schema.names, sorted(map(str, table.scan().to_arrow().to_pylist()))


def _told(files: dict[str, bytes]) -> bool:
    return any("/snapshot/.forward-" in path for path in files)


def _forward(table: pp.Table) -> None:
    table.branches.fast_forward("b")


def _before_and_after(start: dict[str, bytes]) -> tuple[State, State]:
    after = dict(start)
    _forward(table_in(after))
    return _state(start), _state(after)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("mode", sampled([BEFORE, AFTER, HALF, DOWN, "interrupted"], 2))
def test_one_fault(mode: str, behind: bool) -> None:
    """What fails before the branch's state is there changes nothing; after a process was killed, the same call goes on,
    and until then the branch can't be deleted."""
    start = _made(behind=behind)
    before, after = _before_and_after(start)
    undone = finished = 0
    done = calls_of(start, _forward)
    writes = [at for at, name in enumerate(done) if name not in HARMLESS]
    for at in sorted({*sampled(range(len(done)), 1), *sampled(writes, 2)}):
        files = dict(start)
        METADATA_CACHE.clear()
        with repeatable("0"):
            io = FaultyIO(at, mode, io=MemoryIO(files))
            if mode == "interrupted":
                io = FaultyIO(at, (BEFORE, AFTER)[at % 2], lambda _: KeyboardInterrupt(), io=MemoryIO(files))
            with suppress(PaimonError, KeyboardInterrupt):
                _forward(pp.Table(TableStore(io, "/t")))
            told = _told(files)
            if mode != DOWN:
                state = _state(files)
                assert state in (before, after), (done[at], at)
                undone, finished = undone + (state == before), finished + (state == after)
                assert state == after or not told, (done[at], at)
            if told:
                with pytest.raises(CommitError, match=r"run table\.branches\.fast_forward"):
                    table_in(files).branches.delete("b")
            _forward(table_in(files))
            assert _state(files) == after, (done[at], at)
            assert not [path for path in files if "/snapshot/." in path], (done[at], at)
            table_in(files).branches.delete("b")
            assert _state(files) == after, (done[at], at)
    assert mode == DOWN or not LONG or (undone and finished)


def test_one_that_was_killed_is_undone_where_the_branch_is_gone() -> None:
    """As Java deletes one that looks for nobody: the main branch has its own columns again."""
    start = _made()
    before, after = _before_and_after(start)
    for at in sampled(range(len(calls_of(start, _forward))), 5):
        files = dict(start)
        with repeatable("0"):
            with suppress(PaimonError):
                _forward(pp.Table(TableStore(FaultyIO(at, DOWN, io=MemoryIO(files)), "/t")))
            for path in [path for path in files if path.startswith("/t/branch/")]:
                del files[path]
            with pytest.raises(BranchNotFoundError):
                _forward(table_in(files))
        assert not _told(files), at
        assert _newest(files) in (before, after), at


def _delete_branch(table: pp.Table) -> None:
    with suppress(CommitError):
        table.branches.delete("b")


def _rename_branch(table: pp.Table) -> None:
    table.branches.rename("b", "c")


def _purge(table: pp.Table) -> None:
    with suppress(CommitError):
        table.maintenance.purge("t", named_states=True)


def _expire(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=1)


def _expire_branch(table: pp.Table) -> None:
    pp.Table(table._store.for_branch("b")).snapshots.expire(retain_max=1)


def _roll_branch_back(table: pp.Table) -> None:
    with suppress(CommitError):
        pp.Table(table._store.for_branch("b")).snapshots.rollback(2)


def _roll_back(table: pp.Table) -> None:
    with suppress(CommitError, NotFoundError):
        table.snapshots.rollback(2)


def _delete_tag(table: pp.Table) -> None:
    pp.Table(table._store.for_branch("b")).tags.delete("theirs")


def _tag(table: pp.Table) -> None:
    with suppress(NotFoundError):
        table.tags.create("x", 2)


_BESIDE = (
    _delete_branch,
    _rename_branch,
    _purge,
    _expire,
    _expire_branch,
    _roll_branch_back,
    _roll_back,
    _delete_tag,
    _tag,
)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("beside", sampled(_BESIDE, 3))
def test_beside(beside: Callable[[pp.Table], None], behind: bool) -> None:
    """Whatever happens to the branch or the main one just then: all that is left can be read."""
    start = _made(behind=behind)
    before, after = _before_and_after(start)
    allowed = [before, after]
    if beside in (_purge, _roll_branch_back, _roll_back):
        for order in ((beside, _forward), (_forward, beside), (beside,)):
            files = dict(start)
            with suppress(NotFoundError):
                for step in order:
                    step(table_in(files))
            allowed.append(_state(files))

    def forward(table: pp.Table) -> None:
        with suppress(NotFoundError, CommitError):
            _forward(table)

    count = len(calls_of(start, forward))
    for at, files in zip(
        moments := sampled(range(count), 2), each_moment(start, forward, beside, moments), strict=True
    ):
        assert _state(files) in allowed, at
        assert not missing_files(files), at
        assert not [path for path in files if "/snapshot/." in path], at


@pytest.mark.parametrize("behind", [False, True])
def test_two_at_once(behind: bool) -> None:
    """One of them forwards the main branch, and the other one says that it was written to, or does it once more."""
    start = _made(behind=behind)
    _, after = _before_and_after(start)

    def forward(table: pp.Table) -> None:
        with suppress(CommitConflictError):
            _forward(table)

    moments = sampled(range(len(calls_of(start, forward))), 3)
    for at, files in zip(moments, each_moment(start, forward, _forward, moments), strict=True):
        assert _state(files) == after, at
        assert not _told(files), at


def _append(table: pp.Table) -> None:
    table.append({"id": [900]})


def _alter(table: pp.Table) -> None:
    table.alter(add_columns={"more": "INT"})


@pytest.mark.parametrize("beside", [_append, _alter])
def test_rows_and_columns_that_come_to_the_main_branch(beside: Callable[[pp.Table], None]) -> None:
    """As if one had come after the other, but for the two calls in which the columns of the branch are there and not
    yet its rows (docs/concurrent-writers.md)."""
    start, allowed = _made(), []
    for order in ((beside,), (beside, _forward), (_forward, beside)):
        files = dict(start)
        for step in order:
            step(table_in(files))
        allowed.append(_state(files))

    def forward(table: pp.Table) -> None:
        with suppress(CommitConflictError):
            _forward(table)

    calls = calls_of(start, forward)
    copied = calls.index("replace")
    published = calls.index("create_if_absent", copied)
    moments = [copied - 1, *sampled(range(copied - 1), 2), *sampled(range(published + 1, len(calls)), 2)]
    for at, files in zip(moments, each_moment(start, forward, beside, moments), strict=True):
        assert _state(files) in allowed, at
        assert not _told(files), at


def test_states_of_a_branch_that_goes_just_then_stay_away() -> None:
    """Deleting it goes first, or is refused: what the main branch has got is whole."""
    start = _made(behind=True)
    refused = set()

    def beside(table: pp.Table) -> None:
        try:
            table.branches.delete("b")
        except CommitError:
            refused.add(True)

    def forward(table: pp.Table) -> None:
        with suppress(BranchNotFoundError):
            _forward(table)

    before, after = _before_and_after(start)
    for at in sampled(range(len(calls_of(start, forward))), 4):
        files = dict(start)
        refused.clear()
        METADATA_CACHE.clear()
        with repeatable("0"):
            forward(pp.Table(TableStore(BesideIO(files, at, partial(beside, table_in(files))), "/t")))
        assert _state(files) in ((before, after) if not refused else (after,)), at
        with suppress(BranchNotFoundError):
            table_in(files).branches.delete("b")
        _state(files)


def test_a_tag_of_the_branch_that_is_deleted_later_goes_alone() -> None:
    files = dict(_made())
    _forward(table_in(files))
    table_in(files, "b").tags.delete("theirs")
    state = _state(files)
    table_in(files).tags.delete("theirs")
    with pytest.raises(TagNotFoundError):
        table_in(files).tags.delete("theirs")
    assert _state(files) == state
