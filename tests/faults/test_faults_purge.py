"""A purge, and another operation between two of its I/O calls, or the other way round: as if one had run after the
other, or as if one of them, which is refused, had not run."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import CommitError, NotFoundError, OptionError, UnsupportedError
from paimon_pyds.metadata.intents import begin_rollback
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.effort import sampled
from support.faults_beside import calls_of, each_moment, missing_files, once_each, table_in
from support.memory_io import MemoryIO

_SCHEMA = pa.schema([("id", pa.int64())])
_OPTIONS = {"file-operation.thread-num": "1", "write-only": "true", "bucket": "-1"}
Operation = Callable[[pp.Table], object]


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, _SCHEMA)


def _made(*, named: bool) -> dict[str, bytes]:
    """A table of three snapshots; ``named``: with a tag of the second and a branch of that."""
    files: dict[str, bytes] = {}
    create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(_SCHEMA), (), (), _OPTIONS))
    for id_ in range(3):
        table_in(files).append(_rows(id_))
    if named:
        table_in(files).tags.create("x", 2)
        table_in(files).branches.create("b", "x")
        table_in(files, "b").append(_rows(70))
    return files


def _purge(table: pp.Table) -> None:
    table.maintenance.purge("t", named_states=True)


_PLAIN: dict[str, Operation] = {
    "rollback": lambda table: table.snapshots.rollback(1),
    "create_tag": lambda table: table.tags.create("y"),
    "create_tag of a number": lambda table: table.tags.create("y", 1),
    "create_branch": lambda table: table.branches.create("c"),
    "append": lambda table: table.append(_rows(50)),
    "delete": lambda table: table.delete("id = 1"),
    "overwrite": lambda table: table.overwrite(_rows(60)),
    "truncate": lambda table: table.truncate(),
    "reset_consumer": lambda table: table.maintenance.reset_consumer("c", 1),
    "expire_snapshots": lambda table: table.snapshots.expire(retain_max=1),
    "purge": _purge,
}
_NAMED: dict[str, Operation] = {
    "rollback to a tag": lambda table: table.snapshots.rollback("x"),
    "create_tag in its place": lambda table: table.tags.create("x", replace=True),
    "delete_tag": lambda table: table.tags.delete("x"),
    "rename_tag": lambda table: table.tags.rename("x", "z"),
    "create_branch of a tag": lambda table: table.branches.create("c", "x"),
    "delete_branch": lambda table: table.branches.delete("b"),
    "rename_branch": lambda table: table.branches.rename("b", "c"),
    "fast_forward": lambda table: table.branches.fast_forward("b"),
}
_ALL = [*((name, False) for name in _PLAIN), *((name, True) for name in _NAMED)]


@once_each
def _state(files: dict[str, bytes]) -> object:
    """The rows of a table, its tags and branches, and whether snapshots from before its last truncation are there."""
    table = table_in(files)

    def ids(of: pp.Table, tag: str | None = None) -> list[int]:
        return sorted(of.scan(tag=tag).to_arrow()["id"].to_pylist())

    old = [s.id for s in table._store.snapshots() if {0, 1, 2, 70} & set(_ids_at(table, s.id))]
    branches = {
        name: (ids(table_in(files, name)), sorted(table_in(files, name).tags.list()))
        for name in sorted(table.branches.list())
    }
    return ids(table), {name: ids(table, name) for name in sorted(table.tags.list())}, branches, bool(old)


def _ids_at(table: pp.Table, snapshot: int) -> list[int]:
    return table.scan(snapshot=snapshot).to_arrow()["id"].to_pylist()


class _Runs:
    """An operation, whose refusal is noted."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.refused = False

    def __call__(self, table: pp.Table) -> None:
        self.refused = False
        try:
            self._operation(table)
        except (CommitError, NotFoundError, OptionError, UnsupportedError):
            self.refused = True


def _after(start: dict[str, bytes], *operations: Operation) -> object:
    files = dict(start)
    for operation in operations:
        _Runs(operation)(table_in(files))
    return _state(files)


@pytest.mark.parametrize("outer", ["purge", "operation"])
@pytest.mark.parametrize(("name", "named"), sampled(_ALL, 3), ids=str)
def test_a_purge_is_serializable(name: str, named: bool, outer: str) -> None:
    start, operation = _made(named=named), (_NAMED if named else _PLAIN)[name]
    both = {repr(_after(start, *order)) for order in ((_purge, operation), (operation, _purge))}
    alone = {False: _after(start, _purge), True: _after(start, operation)}
    first, second = _Runs(_purge), _Runs(operation)
    one, other = (first, second) if outer == "purge" else (second, first)
    moments = sampled(range(len(calls_of(start, one))), 2)
    for at, files in zip(moments, each_moment(start, one, other, moments), strict=True):
        state = repr(_state(files))
        if first.refused:
            assert state == repr(_state(start) if second.refused else alone[True]), at
        elif second.refused:
            assert state == repr(alone[False]), at
        else:
            assert state in both, at
        assert not missing_files(files), at
        assert not [path for path in files if "/snapshot/." in path], at


def test_a_purge_does_not_run_into_a_rollback() -> None:
    files = _made(named=False)
    begin_rollback(table_in(files)._store, 1)
    with pytest.raises(CommitError, match=r"rolled back or fast-forwarded just now.*nothing was removed"):
        _purge(table_in(files))
    assert len(table_in(files).snapshots.list()) == 3
