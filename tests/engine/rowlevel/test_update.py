"""UPDATE: new versions of the right rows, where they belong, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import ExpressionError, OptionError, PredicateError, SchemaError, UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from support.effort import sampled
from support.executors import Pickling

_TAGS = pa.map_(pa.string(), pa.int32())
_SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("n", pa.int32()), ("p", pa.string()), ("tags", _TAGS)])
_VECTORS = {"deletion-vectors.enabled": "true"}
_MODES = {
    "vectors": _VECTORS,
    "wide vectors": _VECTORS | {"deletion-vectors.bitmap64": "true"},
    "rewrite": {},
}
_LAYOUTS: dict[str, dict[str, Any]] = {
    "partitioned": {"partition_by": ["p"]},
    "buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "orc": {"options": {"file.format": "orc", "file-index.bitmap.columns": "c"}},
    "avro": {"options": {"file.format": "avro"}, "partition_by": ["p"]},
}
Row = dict[str, Any]


def _table(path: Path, layout: dict[str, Any], mode: dict[str, str]) -> pp.Table:
    rest = {k: v for k, v in layout.items() if k != "options"}
    return pp.Table.create(path / "t", _SCHEMA, options={**layout.get("options", {}), **mode}, **rest)


def _append(table: pp.Table, ids: Sequence[int]) -> list[Row]:
    rows = [
        {"id": i, "c": f"c{i % 5}", "n": None if i % 7 == 0 else i, "p": "ab"[i % 2], "tags": [("k", i)]} for i in ids
    ]
    table.append(pa.Table.from_pylist(rows, schema=_SCHEMA))
    return rows


def _texts(rows: Sequence[Row]) -> list[str]:
    return sorted(repr([row[name] for name in _SCHEMA.names]) for row in rows)


def _content(table: pp.Table, **scan: Any) -> list[str]:
    return _texts(table.scan(**scan).to_arrow().to_pylist())


def _set(**values: Callable[[Row], Any]) -> Callable[[Row], Row]:
    return lambda row: row | {name: value(row) for name, value in values.items()}


_CASES = [
    pytest.param(layout, mode, marks=() if mode != "wide vectors" or layout == "partitioned" else pytest.mark.long)
    for layout in _LAYOUTS
    for mode in _MODES
]


@pytest.mark.parametrize(("layout", "mode"), sampled(_CASES, 5))
def test_rows_for_which_the_condition_is_true_change(tmp_path: Path, layout: str, mode: str) -> None:
    table = _table(tmp_path, _LAYOUTS[layout], _MODES[mode])
    rows = _append(table, range(60)) + _append(table, range(60, 120))
    steps: list[tuple[dict[str, Any], str | None, Callable[[Row], bool], Callable[[Row], Row]]] = [
        ({"n": "n + 1000"}, "id = 5", lambda r: r["id"] == 5, _set(n=lambda r: r["n"] + 1000)),
        ({"n": "id * 2", "c": "c || '!'"}, "c = 'c3'", lambda r: r["c"] == "c3",
         _set(n=lambda r: r["id"] * 2, c=lambda r: r["c"] + "!")),
        ({"n": 7}, "id % 10 = 1", lambda r: r["id"] % 10 == 1, _set(n=lambda r: 7)),
        ({"n": "NULL"}, "c LIKE '%!' AND id % 2 = 0", lambda r: r["c"][-1] == "!" and r["id"] % 2 == 0,
         _set(n=lambda r: None)),
        ({"p": "'new'"}, "id IN (1, 2, 3, 110)", lambda r: r["id"] in (1, 2, 3, 110), _set(p=lambda r: "new")),
        ({"id": "id + 1000"}, "p = 'a'", lambda r: r["p"] == "a", _set(id=lambda r: r["id"] + 1000)),
        ({"n": "1"}, "n = NULL", lambda r: False, _set()),
        ({"c": "'z'"}, None, lambda r: True, _set(c=lambda r: "z")),
    ]  # fmt: skip
    for assignments, where, meant, change in steps:
        hits = sum(map(meant, rows))
        rows = [change(r) if meant(r) else r for r in rows]
        summary = table.update(assignments, where)
        assert (summary.rows_updated, summary.rows_deleted, summary.rows_inserted) == (hits, 0, 0)
        assert (summary.snapshot_id is None) == (hits == 0)
        assert _content(table) == _texts(rows)
        assert table.count("c = 'z'") == sum(r["c"] == "z" for r in rows)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert snapshot.index_manifest is None  # every row has moved, no vector is left


@pytest.mark.parametrize("mode", _MODES)
def test_expressions_see_old_values(tmp_path: Path, mode: str) -> None:
    table = _table(tmp_path, {}, _MODES[mode])
    rows = _append(table, range(1, 5))
    table.update({"n": "id", "id": "n"})
    assert _content(table) == _texts([r | {"n": r["id"], "id": r["n"]} for r in rows])
    assert table.update({"N": pc.field("n") + 1}, pc.field("id") == 2).rows_updated == 1
    assert table.scan("id = 2").to_arrow()["n"].to_pylist() == [3]


def test_rewritten_files_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, {})
    _append(table, range(30))
    table.update({"n": "0"}, "id % 3 = 0")
    assert table.scan().to_arrow()["id"].to_pylist() == list(range(30))


def test_vectors_write_only_the_rows_that_change(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, _VECTORS)
    _append(table, range(100))
    summary = table.update({"n": "n + 1"}, "id IN (3, 4)")
    assert (summary.files_touched, summary.files_removed, summary.files_added) == (1, 0, 1)
    assert sorted(live_of(table._store, table.snapshots.latest())["row_count"].to_pylist()) == [2, 100]
    summary = table.update({"n": "n + 1"}, "id IN (3, 4)")  # both rows of the small file
    assert (summary.files_touched, summary.files_removed, summary.files_added) == (1, 1, 1)
    assert table.scan("id = 4").to_arrow()["n"].to_pylist() == [6]
    assert table.count() == 100


def test_indexes_and_statistics_of_new_files_hold(tmp_path: Path) -> None:
    for name, mode in _MODES.items():
        options = {"options": {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1 b"}}
        table = _table(tmp_path / name, options, mode)
        _append(table, range(50))
        table.update({"c": "'fresh'"}, "id = 17")
        assert table.index.verify().ok
        assert table.scan("c = 'fresh'").to_arrow()["id"].to_pylist() == [17]
        assert table.update({"c": "'fresher'"}, "c = 'fresh'").rows_updated == 1
        assert table.count("c = 'fresh'") == 0


@pytest.mark.parametrize("mode", _MODES)
def test_tasks_travel(tmp_path: Path, mode: str) -> None:
    layout = {"partition_by": ["p"], "options": {"source.split.target-size": "1 b"}}
    table = _table(tmp_path, layout, _MODES[mode])
    rows = _append(table, range(40)) + _append(table, range(40, 80))
    assert table.update({"n": "id * 3"}, "id * 2 >= 70", executor=Pickling()).rows_updated == 45
    assert _content(table) == _texts([r | {"n": r["id"] * 3} if r["id"] >= 35 else r for r in rows])


def test_values_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    for name, mode in _MODES.items():
        table = pp.Table.create(
            tmp_path / name,
            pa.schema([pa.field("id", pa.int64(), False), ("n", pa.int8())]),
            options={**mode, "source.split.target-size": "1 b"},
        )
        for start in (0, 100):
            table.append(pa.table({"id": list(range(start, start + 10)), "n": pa.array([1] * 10, pa.int8())}))
        before = sorted(p.name for p in Path(table.path).rglob("*") if p.is_file())
        for assignments, error in (
            ({"n": "id * 2"}, ExpressionError),  # fits in the first file, overflows in the second
            ({"n": "1 / (id - 105)"}, ExpressionError),
            ({"id": "CASE WHEN id < 105 THEN id END"}, SchemaError),
            ({"nothing": "1"}, SchemaError),
            ({"n": "nothing"}, PredicateError),
            ({}, OptionError),
            ({"n": "1", "N": "2"}, OptionError),
        ):
            with pytest.raises(error):
                table.update(assignments)
            assert sorted(p.name for p in Path(table.path).rglob("*") if p.is_file()) == before
        assert table.count("n = 1") == 20


def test_what_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False)])
    keyed = pp.Table.create(tmp_path / "k", schema, primary_key=["id"], options={"bucket": "1"})
    with pytest.raises(UnsupportedError, match="primary key"):
        keyed.update({"id": "1"})
