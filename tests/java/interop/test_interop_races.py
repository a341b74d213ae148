"""Java Paimon commits while an operation here is at work: one of the two orders explains what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import covering
from support.oracle import Batch, Oracle
from support.values import lines

Row: TypeAlias = tuple[int, int]
_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_MODES: dict[str, dict[str, str]] = {
    "rewrite": {},
    "narrow": _VECTORS,
    "bucket": _VECTORS | {"deletion-vectors.bitmap64": "true", "bucket": "1", "bucket-key": "id"},
}


def _rows(rows: Sequence[Row]) -> pa.Table:
    return pa.table([[row[i] for row in rows] for i in range(2)], schema=_SCHEMA)


_SOURCE: list[Row] = [(3, 100), (12, 200), (77, 300)]


def _merged(rows: list[Row]) -> list[Row]:
    source, known = dict(_SOURCE), {id_ for id_, _ in rows}
    return [(i, source.get(i, v)) for i, v in rows] + [row for row in _SOURCE if row[0] not in known]


_OURS: dict[str, tuple[Callable[[pp.Table, Any], object], Callable[[list[Row]], list[Row]]]] = {
    "delete": (
        lambda t, executor: t.delete("v % 5 = 1", executor=executor),
        lambda rows: [row for row in rows if row[1] % 5 != 1],
    ),
    "update": (
        lambda t, executor: t.update({"v": "v + 1000"}, "v % 5 = 1", executor=executor),
        lambda rows: [(i, v + 1000 if v % 5 == 1 else v) for i, v in rows],
    ),
    "merge": (
        lambda t, executor: t.merge(
            _rows(_SOURCE), ["id"], when_matched="update", when_not_matched="insert", executor=executor
        ),
        _merged,
    ),
    "compact": (lambda t, executor: t.compact(full=True, executor=executor), lambda rows: rows),
}
_FRESH: list[Row] = [(500, 1), (501, 6)]
_OVER: list[Row] = [(3, 1), (900, 1)]
_JAVA: dict[str, tuple[Callable[[Batch, Path, str], object], Callable[[list[Row]], list[Row]]]] = {
    "append": (lambda b, w, name: b.write(w, name, _rows(_FRESH)), lambda rows: [*rows, *_FRESH]),
    "delete": (
        lambda b, w, name: b.delete(w, name, {"op": "in", "field": "id", "literals": [1, 6, 11, 3]}),
        lambda rows: [row for row in rows if row[0] not in (1, 6, 11, 3)],
    ),
    "compact": (lambda b, w, name: b.compact(w, name), lambda rows: rows),
    "overwrite": (lambda b, w, name: b.write(w, name, _rows(_OVER), overwrite=True), lambda _: _OVER),
}


class _Races:
    """Executors that stop once, after their first tasks, until Java has committed."""

    def __init__(self) -> None:
        self.worked = threading.Semaphore(0)
        self.done = threading.Event()

    def executor(self) -> Any:
        first = [True]

        class Waiting:
            def map(_, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
                results = [function(task) for task in tasks]
                if first:
                    first.clear()
                    self.worked.release()
                    self.done.wait(200)
                yield from results

        return Waiting()


def _table(path: Path, mode: str) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, options=_MODES[mode] | {"compaction.min.file-num": "2"})
    for start in (0, 7, 14):
        table.append(_rows([(i, i) for i in range(start, start + 7)]))
    if mode != "rewrite":
        table.delete("id = 2 OR id = 16")
    return table


@pytest.mark.timeout(600)
def test_one_of_two_orders_explains_the_rows(oracle: Oracle, tmp_path: Path) -> None:
    names = [
        f"{mode}_{ours}_{java}"
        for mode in _MODES
        for ours in _OURS
        for java in _JAVA
        if mode != "rewrite" or java != "delete"  # Java deletes by vectors alone
    ]
    names = [names[at] for at in covering([(name.split("_")[0], name.partition("_")[2]) for name in names])]
    tables = {name: _table(tmp_path / "db.db" / name, name.split("_")[0]) for name in names}
    before = {name: _content(table) for name, table in tables.items()}
    races = _Races()

    def run(name: str) -> None:
        _OURS[name.split("_")[1]][0](tables[name], races.executor())

    with ThreadPoolExecutor(len(names)) as pool:
        running = [pool.submit(run, name) for name in names]
        try:
            for _ in names:
                assert races.worked.acquire(timeout=200), [r.exception() for r in running if r.done()]
            with oracle.batch() as batch:
                for name in names:
                    _JAVA[name.split("_")[2]][0](batch, tmp_path, f"db.{name}")
        finally:
            races.done.set()
    for race in running:
        race.result()
    left = {name: lines(pp.Table.open(table.path).scan().to_arrow()) for name, table in tables.items()}
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path, f"db.{name}") for name in names}
        for name in names:  # Java goes on
            batch.compact(tmp_path, f"db.{name}")
        after = {name: batch.read(tmp_path, f"db.{name}") for name in names}
    for name, table in tables.items():
        ours, java = (side[part][1] for side, part in zip((_OURS, _JAVA), name.split("_")[1:], strict=True))
        assert _content(pp.Table.open(table.path)) in (
            sorted(java(ours(before[name]))),
            sorted(ours(java(before[name]))),
        ), name
        assert reads[name].lines == left[name] == after[name].lines, name


def _content(table: pp.Table) -> list[Row]:
    rows = table.scan().to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
