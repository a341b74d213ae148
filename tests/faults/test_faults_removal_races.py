"""What removes files, while a state changes its name between two of its I/O calls: what the state needs stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import CommitConflictError, CommitError, NotFoundError, TagNotFoundError
from paimon_pyds.metadata.intents import begin_expiry
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.effort import sampled
from support.executors import ShufflingWorkers
from support.faults_beside import calls_of, each_moment, missing_files, once_each, table_in
from support.faults_io import HARMLESS
from support.memory_io import MemoryIO
from support.messages import ids_of

_SCHEMA = pa.schema([("id", pa.int64())])
_OPTIONS = {"file-operation.thread-num": "1", "write-only": "true", "bucket": "-1"}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, _SCHEMA)


@cache
def _made(*, changelogs: bool, branches: tuple[str, ...], tag: bool) -> dict[str, bytes]:
    """A table whose second snapshot has expired: these branches have it, or the tag ``old``. A test that changes its
    files copies them."""
    files: dict[str, bytes] = {}
    options = _OPTIONS | ({"changelog.num-retained.min": "20"} if changelogs else {})
    store = create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(_SCHEMA), (), (), options))
    table = pp.Table(store)
    for id_ in range(3):
        table.append(_rows(id_))
    table.tags.create("old", 2)
    table.overwrite(_rows(9))
    table.append(_rows(10))
    for branch in branches:
        table.branches.create(branch, "old")
        table_in(files, branch).tags.delete("old")
    if not tag:
        table.tags.delete("old")
    table.snapshots.expire(retain_max=1)
    return files


def _branch_of_the_tag(table: pp.Table) -> None:
    table.branches.create("c", "old")
    table.tags.delete("old")


def _renamed(table: pp.Table) -> None:
    table.branches.rename("b", "c")


def _renamed_tag(table: pp.Table) -> None:
    table.tags.rename("old", "older")


def _forwarded(table: pp.Table) -> None:
    table.branches.fast_forward("b")
    table.branches.delete("b")


def _rolled_back(table: pp.Table) -> None:
    with suppress(CommitError):  # snapshots expire just now
        table.snapshots.rollback("old")
        table.tags.delete("old")


def _delete_tag(table: pp.Table) -> None:
    with suppress(TagNotFoundError):  # the forwarded branch has no such tag
        table.tags.delete("x")


_REMOVALS: dict[str, Callable[[pp.Table], object]] = {
    "orphans": lambda table: table.maintenance.remove_orphan_files(dry_run=False),
    "orphans by workers": lambda table: table.maintenance.remove_orphan_files(
        dry_run=False, executor=ShufflingWorkers()
    ),
    "delete_branch": lambda table: table.branches.delete("x"),
    "delete_tag": _delete_tag,
    "expire_snapshots": lambda table: table.snapshots.expire(retain_max=1),
    "expire_changelogs": lambda table: table.snapshots.expire_changelogs(everything=True),
}


_BESIDE = (_branch_of_the_tag, _renamed, _renamed_tag, _forwarded, _rolled_back)
_TELLING = [("orphans", _renamed), ("delete_branch", _forwarded), ("expire_changelogs", _rolled_back)]
_PAIRS = list(dict.fromkeys([*_TELLING, *sampled([(name, beside) for name in _REMOVALS for beside in _BESIDE], 2)]))


@pytest.mark.parametrize(("name", "beside"), _PAIRS)
def test_a_state_that_changes_its_name_keeps_its_files(name: str, beside: Callable[[pp.Table], None]) -> None:
    on_branch = beside in (_renamed, _forwarded)
    branches = (*(["b"] if on_branch else []), *(["x"] if name == "delete_branch" else []))
    start = dict(_made(changelogs=name == "expire_changelogs", branches=branches, tag=not on_branch))
    if name == "delete_tag":
        start["/t/tag/tag-x"] = start["/t/branch/branch-b/snapshot/snapshot-2" if on_branch else "/t/tag/tag-old"]
    if name == "expire_snapshots":
        table_in(start).append(_rows(20))
    for files in each_moment(start, _REMOVALS[name], beside):
        assert not missing_files(files)


@once_each
def _ids(files: dict[str, bytes]) -> list[int]:
    return sorted(table_in(files).scan().to_arrow()["id"].to_pylist())


def test_a_tag_or_branch_that_is_deleted_while_the_table_goes_back_or_forward_to_it() -> None:
    def rollback(table: pp.Table) -> None:
        with suppress(NotFoundError):
            table.snapshots.rollback("old")

    def forward(table: pp.Table) -> None:
        with suppress(NotFoundError):
            table.branches.fast_forward("b")

    def deleted(table: pp.Table) -> None:
        with suppress(CommitError):  # the main branch gets its history
            table.branches.delete("b")

    cases: list[tuple[Callable[[pp.Table], None], dict[str, bytes], Callable[[pp.Table], object]]] = [
        (rollback, _made(changelogs=False, branches=(), tag=True), lambda table: table.tags.delete("old")),
        (forward, _made(changelogs=False, branches=("b",), tag=False), deleted),
    ]
    for operation, start, beside in cases:
        write = _first_write(calls_of(start, operation))
        for files in each_moment(start, operation, beside, range(write - 4, write + 2)):
            assert _ids(files) in ([0, 1], [9, 10])


def _first_write(calls: Sequence[str]) -> int:
    return next(at for at, name in enumerate(calls) if name not in HARMLESS)


@pytest.mark.parametrize("longer", [0, 6], ids=["shorter", "longer"])
def test_a_branch_does_not_take_the_place_of_rows_that_were_written_meanwhile(longer: int) -> None:
    start = dict(_made(changelogs=False, branches=("b",), tag=False))
    branch = table_in(start, "b")
    for number in range(longer):
        branch.append(_rows(60 + number))
    rows = ids_of(branch)
    refused = []

    def forward(table: pp.Table) -> None:
        refused.clear()
        try:
            table.branches.fast_forward("b")
        except CommitConflictError as error:
            refused.append(error)

    def append(table: pp.Table) -> None:
        table.append(_rows(30))

    calls = calls_of(start, forward)
    switch = calls.index("create_if_absent")
    known = switch - 10  # by then it knows the latest snapshot
    moments = [*sampled(range(known, switch), 2), switch, *sampled(range(switch + 1, len(calls)), 3)]
    for at, files in zip(moments, each_moment(start, forward, append, moments), strict=True):
        assert bool(refused) == (at <= switch)
        assert _ids(files) == ([9, 10, 30] if refused else sorted([*rows, 30]))
        assert not missing_files(files)
        _contiguous(files)
    published = calls_of(start, append).index("create_if_absent")
    for files in each_moment(start, append, forward, [*sampled(range(published), 2), published]):
        assert _ids(files) == sorted([*rows, 30])
        _contiguous(files)


@pytest.mark.parametrize("name", ["append", "compact"])
def test_the_hint_names_a_snapshot_where_a_rollback_removes_the_one_that_is_committed(name: str) -> None:
    """Java Paimon can't read a table whose hint names a snapshot that is gone."""
    start = dict(_made(changelogs=False, branches=(), tag=True))
    table_in(start).append(_rows(11))
    change: dict[str, Callable[[pp.Table], object]] = {
        "append": lambda table: table.append(_rows(12)),
        "compact": lambda table: table.compact(full=True),
    }

    def committed(table: pp.Table) -> None:
        with suppress(CommitConflictError):  # its files went with its snapshot
            change[name](table)

    published = calls_of(start, committed).index("create_if_absent")
    last = len(calls_of(start, committed))
    for target in (5, 6):
        moments = range(published - 2, last)
        for files in each_moment(start, committed, lambda table, to=target: table.snapshots.rollback(to), moments):
            hint = int(files["/t/snapshot/LATEST"])
            assert f"/t/snapshot/snapshot-{hint}" in files and f"/t/snapshot/snapshot-{hint + 1}" not in files


def _contiguous(files: dict[str, bytes]) -> None:
    ids = table_in(files)._store.snapshot_ids()
    assert ids == list(range(ids[0], ids[-1] + 1))


def test_expiry_goes_on_where_another_branch_is_renamed() -> None:
    start = dict(_made(changelogs=False, branches=("b",), tag=False))
    table_in(start).append(_rows(20))
    for files in each_moment(start, lambda table: table.snapshots.expire(retain_max=1), _renamed):
        assert table_in(files)._store.snapshot_ids() == [6]


def test_an_expiry_stays_told_of_while_the_hint_names_an_older_snapshot() -> None:
    """As another expiry that keeps more has written it: what is tagged then stays readable, or can't be tagged."""
    start = _history()

    def tag(table: pp.Table) -> None:
        table._store.io.replace("/t/snapshot/EARLIEST", b"2")
        with suppress(NotFoundError):
            table.tags.create("x", 3)

    calls = calls_of(start, expire := partial(_expired, retain=1))
    for at, files in enumerate(each_moment(start, expire, tag, range(_first_write(calls), len(calls)))):
        assert not missing_files(files), at
        assert "x" not in table_in(files).tags.list() or len(table_in(files).scan(tag="x").to_arrow()) == 3, at


def test_a_rollback_stays_told_of_while_a_commit_writes_the_hint() -> None:
    start = _history()

    def rollback(table: pp.Table) -> None:
        with suppress(NotFoundError, CommitError):
            table.snapshots.rollback(2)

    def beside(table: pp.Table) -> None:
        table.append(_rows(50))
        _expired(table, retain=1)

    moments = sampled(range(len(calls_of(start, rollback))), 12)
    for at, files in zip(moments, each_moment(start, rollback, beside, moments), strict=True):
        assert _ids(files) in ([0, 1], [0, 1, 2, 3, 50], [0, 1, 50]), at
        assert not missing_files(files), at
        assert not [path for path in files if "/snapshot/." in path], at


def test_a_rollback_to_a_tag_waits_for_an_expiry_that_has_begun() -> None:
    files = _history()
    table = table_in(files)
    table.tags.create("x", 2)
    killed = begin_expiry(table._store, 4)
    with pytest.raises(CommitError, match=r"an expiry of snapshots is running.*call table\.snapshots\.expire"):
        table.snapshots.rollback("x")
    assert _ids(files) == [0, 1, 2, 3]
    _expired(table, retain=1)
    assert killed not in files
    ended = begin_expiry(table._store, 4)
    _expired(table, retain=1)
    assert ended not in files
    table.snapshots.rollback("x")
    assert _ids(files) == [0, 1]


@pytest.mark.parametrize("name", ["orphans", "orphans by workers"])
def test_files_that_newer_snapshots_keep_are_no_orphans_where_all_that_were_found_expire(name: str) -> None:
    start = _history()

    def beside(table: pp.Table) -> None:
        for id_ in (50, 51):
            table.append(_rows(id_))
        table.maintenance.compact_manifests()
        _expired(table, retain=1)

    moments = sampled(range(len(calls_of(start, _REMOVALS[name]))), 3)
    for at, files in zip(moments, each_moment(start, _REMOVALS[name], beside, moments), strict=True):
        assert _ids(files) == [0, 1, 2, 3, 50, 51], at


def _history() -> dict[str, bytes]:
    """A table of four appends."""
    files: dict[str, bytes] = {}
    create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(_SCHEMA), (), (), _OPTIONS))
    for id_ in range(4):
        table_in(files).append(_rows(id_))
    return files


def _expired(table: pp.Table, retain: int) -> None:
    table.snapshots.expire(retain_max=retain)


@pytest.mark.parametrize(
    ("write", "rows"),
    [(lambda table: table.append(_rows(50)), 5), (lambda table: table.overwrite(_rows(50)), 1),
     (lambda table: table.truncate(), 0)],
    ids=["append", "overwrite", "truncate"],
)  # fmt: skip
@pytest.mark.parametrize("commits", [2, 3])
def test_a_commit_goes_on_where_the_snapshot_that_it_builds_on_expires(
    write: Callable[[pp.Table], object], rows: int, commits: int
) -> None:
    """And where its own number has expired at the moment it gets it: that is free again then."""

    def busy(table: pp.Table) -> None:
        table.append(_rows(30))
        table.append(_rows(31))
        if commits > 2:
            table.maintenance.compact_manifests()
        table.snapshots.expire(retain_max=1)

    start = _made(changelogs=False, branches=(), tag=False)
    published = calls_of(start, write).index("create_if_absent")
    for files in each_moment(start, write, busy, range(published - 9, published + 1)):
        assert not missing_files(files)
        assert len(_ids(files)) == rows


def test_instants_of_a_snapshot_that_is_rolled_back_are_not_looked_at() -> None:
    """A write looks at a file of the newest snapshot, whose instants may be by the clocks of a JVM."""
    files: dict[str, bytes] = {}
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])
    options = _OPTIONS | {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "true"}
    create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(schema), (), (), options))
    for id_ in range(3):
        table_in(files).append(pa.table({"id": [id_], "at": [id_]}, schema))
    row = pa.table({"id": [50], "at": [50]}, schema)
    write = partial(pp.Table.append, data=row)
    for after in each_moment(files, write, lambda table: table.snapshots.rollback(1), range(25)):
        assert _ids(after) in ([0], [0, 50])
