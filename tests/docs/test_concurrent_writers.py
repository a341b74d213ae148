"""docs/concurrent-writers.md: any operation, with another one between any two of its calls to the storage.

That Java's commits replace others without a lock, and not with one, is in tests/engine/commit/test_commit_replaced.py
and tests/java/interop; commits through REST catalogs are in tests/catalog, endless retries in
tests/engine/commit/test_commit_semantics.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.effort import LONG, SEED, sampled
from support.faults_beside import AgedIO, BesideIO
from support.fixtures import ROOT
from support.memory_io import MemoryIO

PAGE = (ROOT / "docs" / "concurrent-writers.md").read_text(encoding="utf-8")
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.int64(), "n": pa.int64()})
OPTIONS = {"file-operation.thread-num": "1"}
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "append": ((), ("p",), {"bucket": "-1"}),
    "deletion vectors": ((), ("p",), {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "fixed buckets": (("id",), (), {"bucket": "2"}),
    "dynamic buckets": (("id",), (), {}),
}
Files = dict[str, bytes]


def _rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": id_, "p": id_ % 2, "n": n} for id_, n in pairs], schema=SCHEMA)


# Each is given a table and a number that tells the one of two operations from the other.
OPERATIONS: dict[str, Callable[[pp.Table, int], Any]] = {
    "append": lambda table, n: table.append(_rows((1, n), (100 + n, n))),
    "update": lambda table, n: table.update({"n": f"n + {n}"}, "id BETWEEN 2 AND 6"),
    "delete": lambda table, n: table.delete("id BETWEEN 4 AND 5"),
    "merge": lambda table, n: table.merge(
        _rows((3, 30), (100 + n, n)), "id", when_matched="update", when_not_matched="insert"
    ),
    "overwrite": lambda table, n: table.overwrite(_rows((7, n))),
    "overwrite, expire": lambda table, n: (table.overwrite(_rows((7, n))), table.snapshots.expire(retain_max=1)),
    "truncate": lambda table, n: table.truncate(),
    "maintenance.drop_partitions": lambda table, n: table.maintenance.drop_partitions("p = 1"),
    "compact": lambda table, n: table.compact(full=True),
    "maintenance.rescale": lambda table, n: table.maintenance.rescale(4),
    "alter": lambda table, n: table.alter(add_columns={f"c{n}": "INT"}),
    "alter, drop": lambda table, n: table.alter(drop_columns=["n"]),
    "alter, add": lambda table, n: table.alter(add_columns={"c": "INT"}),
    "tags.create": lambda table, n: table.tags.create(f"t{n}"),
    "branches.create": lambda table, n: table.branches.create(f"b{n}"),
    "snapshots.expire": lambda table, n: table.snapshots.expire(retain_max=1),
    "maintenance.remove_orphan_files": lambda table, n: table.maintenance.remove_orphan_files(dry_run=False),
    "snapshots.rollback": lambda table, n: table.snapshots.rollback(1),
    "branches.fast_forward": lambda table, n: table.branches.fast_forward("b"),
    "purge": lambda table, n: table.maintenance.purge("t", named_states=True),
    "scan": lambda table, n: table.to_arrow(),
}
MEETINGS = {
    ("append", "alter, drop"): ("append", "UnknownColumnError", 0.07),
    ("append", "maintenance.rescale"): ("append", "CommitConflictError", 0.5),
    ("append", "alter"): ("append", "SchemaError", 0.06),
    ("update", "alter, drop"): ("update", "UnknownColumnError", 0.5),
    ("merge", "alter"): ("merge", "SchemaError", 0.5),
    ("overwrite", "alter, drop"): ("overwrite", "UnknownColumnError", 0.12),
    ("merge", "snapshots.rollback"): ("merge", "CommitConflictError", 0.93),
    ("overwrite", "snapshots.rollback"): ("overwrite", "CommitConflictError", 0.85),
    ("overwrite", "maintenance.rescale"): ("overwrite", "CommitConflictError", 0.5),
    ("alter, drop", "alter, drop"): ("alter", "UnknownColumnError", 0.5),
    ("alter, add", "alter, add"): ("alter", "SchemaError", 0.5),
    ("snapshots.rollback", "snapshots.expire"): ("snapshots.rollback", "SnapshotNotFoundError", 0.15),
    ("snapshots.expire", "snapshots.rollback"): ("snapshots.rollback", "CommitError", 0.5),
    ("branches.fast_forward", "append"): ("branches.fast_forward", "CommitConflictError", 0.5),
    ("purge", "branches.fast_forward"): ("branches.fast_forward", "CommitError", 0.21),
    ("purge", "tags.create"): ("tags.create", "CommitError", 0.5),
    ("snapshots.rollback", "purge"): ("purge", "CommitError", 0.5),
    ("scan", "overwrite, expire"): ("scan", "SnapshotNotFoundError", 0.5),
}
"""Which two have to meet for each error of the page, which of them ends with it, and after about which share of the
calls of the first."""


@cache
def _errors() -> Mapping[str, frozenset[str]]:
    """The errors that the page names, by operation."""
    table = PAGE.split("| operation | ", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    found = {}
    for line in table:
        names, _, errors = line[1:-1].split(" | ")
        for name in re.findall(r"`((?!df\.)[\w.]+)`", names) or ["scan"]:
            found[name] = frozenset(re.findall(r"`(\w+Error)`", errors))
    return found


def _documented(operation: str) -> frozenset[str]:
    return _errors()[operation.partition(",")[0]]


def _possible(operation: str, other: str) -> frozenset[str]:
    """The errors that an operation may end with beside another one: those of its line, and those of the page's table of
    errors that concern all operations."""
    changed_columns = {"SchemaError", "UnknownColumnError"} if other.startswith("alter") else set[str]()
    gone = {"BranchNotFoundError"} if other == "purge" else set[str]()
    return _documented(operation) | changed_columns | gone | {"", "CommitConflictError"}


def _table(io: Any) -> pp.Table:
    return pp.Table(TableStore(io, "/t"))


@cache
def _made(kind: str) -> Files:
    files: Files = {}
    key, partitions, options = KINDS[kind]
    columns = parse_columns("id BIGINT NOT NULL, p BIGINT NOT NULL, n BIGINT")
    create_table(MemoryIO(files), "/t", TableDefinition(columns, key, partitions, options | OPTIONS))
    table = _table(MemoryIO(files))
    table.append(_rows(*((i, i) for i in range(5))))
    table.append(_rows(*((i, i) for i in range(5, 10))))
    table.tags.create("old", 1)
    table.branches.create("b", "old")
    pp.Table(table._store.for_branch("b")).append(_rows((70, 70)))
    table.append(_rows((10, 10)))
    return files


def _done(operation: str, io: Any, number: int) -> str:
    """The name of the error that it ends with, "" without one."""
    METADATA_CACHE.clear()
    try:
        OPERATIONS[operation](_table(io), number)
    except PaimonError as error:
        return type(error).__name__
    return ""


def _state(files: Files) -> Any:
    METADATA_CACHE.clear()
    table = _table(MemoryIO(dict(files)))
    assert not [f for f in table.maintenance.verify().findings if f.severity == "error"]
    found = table.to_arrow()
    return (
        found.column_names,
        sorted(map(str, found.to_pylist())),
        sorted(table.tags.list()),
        sorted(table.branches.list()),
    )


@cache
def _after(kind: str, *operations: tuple[str, int]) -> Any:
    """The state that operations leave one after the other; None where one of them fails."""
    files = dict(base := _made(kind))
    ended = [_done(operation, AgedIO(files, frozenset(base)), number) for operation, number in operations]
    return None if any(ended) else _state(files)


@cache
def _calls(kind: str, operation: str) -> int:
    """How many calls to the storage it makes."""
    io = BesideIO(dict(_made(kind)), None, lambda: None)
    _done(operation, io, 1)
    return len(io.done)


class _Meeting:
    """One operation, and another one within it."""

    def __init__(self, kind: str, first: str, second: str) -> None:
        self.kind, self.first, self.second = kind, first, second
        self.calls = _calls(kind, first)

    def errors(self, at: int) -> tuple[str, str, Files]:
        """The errors of both where the second comes before a call of the first, and what they leave."""
        files, others = dict(base := _made(self.kind)), []
        beside = AgedIO(files, frozenset(base))
        io = BesideIO(files, at, lambda: others.append(_done(self.second, beside, 2)))
        error = _done(self.first, io, 1)
        (other,) = others
        return error, other, files

    def check(self, at: int) -> None:
        """Both end with errors that the page has, and leave the state of one order or the other."""
        error, other, files = self.errors(at)
        place = f"{self.kind}: {self.second} before call {at} of {self.first}: {error} {other}"
        assert error in _possible(self.first, self.second), place
        assert other in _possible(self.second, self.first), place
        mine, theirs = (self.first, 1), (self.second, 2)
        landed = [operation for operation, failed in ((mine, error), (theirs, other)) if not failed]
        orders = [_after(self.kind, *landed), _after(self.kind, *landed[::-1])]
        assert _state(files) in [state for state in orders if state is not None], place


def _meetings(first: str) -> Iterator[_Meeting]:
    for kind, (_, partitions, options) in sampled(KINDS.items(), 1):
        possible = [
            name
            for name in OPERATIONS
            if (partitions or name != "maintenance.drop_partitions")
            and (options.get("bucket") == "2" or name != "maintenance.rescale")
        ]
        if first in possible:
            yield from (
                _Meeting(kind, first, second)
                for second in random.Random(f"{SEED} {first}").sample(possible, 2 if LONG else 1)
            )


@pytest.mark.parametrize("first", sampled(OPERATIONS, 8))
def test_two_that_meet_are_as_one_after_the_other(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    for meeting in _meetings(first):
        for at in sampled(range(meeting.calls), 1):
            meeting.check(at)


@pytest.mark.parametrize("second", ["snapshots.rollback", "branches.fast_forward", "purge", "overwrite, expire"])
@pytest.mark.parametrize("first", ["append", "overwrite"])
def test_keys_are_looked_for_in_the_newest_snapshot_where_theirs_goes(
    first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    io, moments = BesideIO(dict(_made("dynamic buckets")), None, lambda: None), list[int]()
    METADATA_CACHE.clear()
    with monkeypatch.context() as patch:
        read = TableStore.read_index_manifest
        patch.setattr(
            TableStore, "read_index_manifest", lambda store, name: (moments.append(len(io.done)), read(store, name))[1]
        )
        OPERATIONS[first](_table(io), 1)
    assert moments
    for at in sampled(sorted({*moments}), 1):
        _Meeting("dynamic buckets", first, second).check(at)


@pytest.mark.parametrize(("first", "second"), MEETINGS)
def test_each_error_of_the_page_comes_about(first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    with_key = "maintenance.rescale" in (first, second) or (first, second) == ("append", "alter")
    meeting = _Meeting("fixed buckets" if with_key else "append", first, second)
    _, wanted, share = MEETINGS[first, second]
    moments = sorted(range(meeting.calls), key=lambda at: abs(at - int(share * meeting.calls)))
    at = next(at for at in moments if wanted in meeting.errors(at)[:2])
    meeting.check(at)


def test_every_error_of_the_page_has_its_meeting() -> None:
    lines = {errors: [] for errors in _errors().values() if errors}
    for name, error, _ in MEETINGS.values():
        lines[_documented(name)].append(error)
    assert all(errors == set(seen) for errors, seen in lines.items())
    assert {name.partition(",")[0] for name in OPERATIONS} == set(_errors())
