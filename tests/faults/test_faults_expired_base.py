"""The state that an operation reads expires before one of its requests, each in turn: it starts over on the newest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.engine.rowlevel.replace_rows import replace_rows
from paimon_pyds.errors import CommitError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.ops.maintenance.clone import CloneOptions, clone
from support.effort import sampled
from support.faults_io import FaultyIO
from support.memory_io import MemoryIO

_SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("p", pa.int32())])
_POINTS = 1
"""Requests before which it expires, besides those that publish; all of them in long runs."""
_ONE = LocalExecutor(1)
_OPTIONS = {"compaction.min.file-num": "2", "file-operation.thread-num": "1", "file-index.bitmap.columns": "n"}
_KEYS = {"bucket": "2", "num-sorted-run.compaction-trigger": "9"}
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "rewrite": ((), ("p",), {}),
    "vectors": ((), ("p",), {"deletion-vectors.enabled": "true", "file-index.in-manifest-threshold": "1 b"}),
    "buckets": ((), (), {"bucket": "2", "bucket-key": "id"}),
    "keys": (("id",), (), _KEYS),
    "keys with vectors": (("id",), (), _KEYS | {"deletion-vectors.enabled": "true"}),
    "keys with a changelog": (("id", "p"), ("p",), _KEYS | {"changelog-producer": "lookup"}),
    "keys that wait": (("id",), (), {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}),
    "keys in dynamic buckets": (("id", "p"), ("p",), {"bucket": "-1"}),
    "keys that move": (("id",), ("p",), {"bucket": "-1"}),
}
_MOVING = ("keys that move", "keys in dynamic buckets")
_START = {0: (0, 0), 1: (2, 1), 2: (4, 0), 3: (6, 1)}
_OTHER = {9: (9, 0)}
"""The row that another writer appends as it takes away all earlier states."""
_WAITING = {8: (8, 0), 5: (5, 1)}
_OF_PLACES = ("replace_rows", "remove_unexisting_files")
"""Operations on files by their names: nobody may move rows to others meanwhile."""
_EXPIRY = {
    "partition.expiration-time": "1 d",
    "partition.timestamp-pattern": "$p000-01-01",
}

Rows = dict[int, tuple[int, int]]


def _data(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "n": n, "p": p} for i, (n, p) in rows.items()], _SCHEMA)


def _table(io: Any, prefix: str = "") -> pp.Table:
    return pp.Table(TableStore(io, f"{prefix}/t"))


@cache
def _prepared(kind: str) -> dict[str, bytes]:
    primary_key, partition_by, options = _KINDS[kind]
    files: dict[str, bytes] = {}
    fields = from_arrow_schema(_SCHEMA)
    definition = TableDefinition(fields, primary_key, partition_by, _OPTIONS | options)
    create_table(MemoryIO(files), "/t", definition)
    table = _table(MemoryIO(files))
    items = list(_START.items())
    for rows in (dict(items[:2]), {**dict(items[2:]), 8: (8, 0)}):
        table.append(_data(rows))
    if kind != "keys that wait":
        table.delete("id = 8")
    else:
        table.append(_data({5: _WAITING[5]}))
    return files


class _ExpiringIO(FaultyIO):
    """Before the request ``at``, all earlier states are taken away by somebody else, with all their files."""

    def __init__(self, files: dict[str, bytes], at: int | None, *, moved: bool) -> None:
        self.files, self._expire_at, self._moved = files, at, moved
        super().__init__(io=MemoryIO(files, "/1"))

    def _do(self, name: str, effect: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if len(self.done) == self._expire_at:
            self._expire_at = None
            other = _table(MemoryIO(self.files, "/2"), "/2")
            with suppress(CommitError):  # nobody may write while a rescale publishes
                other.append(_data(_OTHER))
            if self._moved:
                other.compact(full=True, executor=_ONE)
            other.snapshots.expire(retain_max=1, retain_min=1, older_than=0)
        return super()._do(name, effect, half)


def _rows(table: pp.Table) -> Rows:
    return {row["id"]: (row["n"], row["p"]) for row in table.scan().to_arrow().to_pylist()}


def _same(rows: Rows) -> Rows:
    return rows


def _without(*ids: int) -> Callable[[Rows], Rows]:
    return lambda rows: {i: row for i, row in rows.items() if i not in ids}


def _merged(table: pp.Table) -> None:
    source = _data({1: (7, 1), 4: (8, 1)})
    values = {"n": "source.n"}
    table.merge(source, ["id", "p"], when_matched=pp.Update(values), when_not_matched="insert", executor=_ONE)


def _rows_replaced(table: pp.Table) -> None:
    unseen = _table(MemoryIO(table._store.io.files, "/1"), "/1")  # type: ignore[attr-defined]
    found = unseen.scan("id = 1", columns=["__paimon_file_path", "__paimon_row_index"]).to_arrow().to_pylist()
    places = {row["__paimon_file_path"]: BitMap([row["__paimon_row_index"]]) for row in found}
    replace_rows(table._store, places, executor=_ONE)


def _indexed(table: pp.Table) -> None:
    table.alter({"file-index.bloom-filter.columns": "id"})
    table.index.build(executor=_ONE)


def _analyzed(table: pp.Table) -> None:
    assert table.maintenance.analyze() is not None


def _tagged(table: pp.Table) -> None:
    table.tags.create("t")
    assert table.scan(tag="t").to_arrow().num_rows >= len(_START)


def _cloned(table: pp.Table) -> None:
    target = TableStore(MemoryIO({}), "/copy")
    clone(table._store, target, CloneOptions())
    assert _rows(pp.Table(target)) in (_START, _START | _OTHER)


def _unexisting_removed(table: pp.Table) -> None:
    table.maintenance.remove_unexisting_files(dry_run=False)


_OPERATIONS: dict[str, tuple[Callable[[pp.Table], Any], Callable[[Rows], Rows], tuple[str, ...]]] = {
    "delete": (lambda t: t.delete("n >= 2 AND n < 5", executor=_ONE), _without(1, 2), ("vectors", "keys", *_MOVING)),
    "update": (
        lambda t: t.update({"n": "n + 1"}, "id < 3", executor=_ONE),
        lambda rows: {i: (n + (i < 3), p) for i, (n, p) in rows.items()},
        ("rewrite", "keys with a changelog"),
    ),
    "merge": (_merged, lambda rows: rows | {1: (7, 1), 4: (8, 1)}, ("buckets", "keys with vectors", *_MOVING)),
    "replace_rows": (_rows_replaced, _without(1), ("rewrite", "vectors")),
    "append": (lambda t: t.append(_data({1: (3, 1)})), lambda rows: rows | {1: (3, 1)}, ("keys",)),
    "overwrite": (
        lambda t: t.overwrite(_data({3: (1, 1)}), dynamic=True),
        lambda rows: _without(1)(rows) | {3: (1, 1)},
        ("vectors", "keys with a changelog"),
    ),
    "compact": (
        lambda t: t.compact(full=True, executor=_ONE),
        _same,
        ("rewrite", "vectors", "keys with vectors", "keys with a changelog", "keys that wait"),
    ),
    "sort": (lambda t: t.compact(order_by="n", executor=_ONE), _same, ("vectors",)),
    "compact_manifests": (lambda t: t.maintenance.compact_manifests(), _same, ("vectors",)),
    "rewrite_file_index": (_indexed, _same, ("rewrite", "vectors", "keys")),
    "rescale": (lambda t: t.maintenance.rescale(3, executor=_ONE), _same, ("buckets", "keys with a changelog")),
    "analyze": (_analyzed, _same, ("vectors", "keys")),
    "drop_partitions": (lambda t: t.maintenance.drop_partitions("p = 1"), _without(1, 3), ("vectors",)),
    "expire_partitions": (lambda t: t.maintenance.expire_partitions(options=_EXPIRY), _without(1, 3), ("vectors",)),
    "remove_unexisting_files": (_unexisting_removed, _same, ("vectors",)),
    "create_tag": (_tagged, _same, ("vectors",)),
    "clone": (_cloned, _same, ("vectors",)),
}


@pytest.mark.parametrize(
    ("operation", "kind"),
    sampled([(operation, kind) for operation, (*_, kinds) in _OPERATIONS.items() for kind in kinds], 4),
)
def test_starts_over(operation: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    call, after, _ = _OPERATIONS[operation]
    start = _START | (_WAITING if kind == "keys that wait" else {})
    moved = operation not in _OF_PLACES

    def run(at: int | None) -> list[str]:
        METADATA_CACHE.clear()
        files = dict(_prepared(kind))
        io = _ExpiringIO(files, at, moved=moved)
        call(_table(io, "/1"))
        if at is not None:
            alone = [after(start)] if operation == "rescale" else []
            assert _rows(_table(MemoryIO(files))) in (after(start | _OTHER), after(start) | _OTHER, *alone), at
        return io.done

    done = run(None)
    published = [at for at, name in enumerate(done) if name == "create_if_absent"]
    for at in sorted({*published, *sampled(range(len(done)), _POINTS)}):
        run(at)
