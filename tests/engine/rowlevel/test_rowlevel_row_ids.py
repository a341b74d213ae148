"""Row ids that files hold themselves, as Java's updates leave them, and that deletes must not disturb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA
from paimon_pyds.metadata.snapshot import CommitKind
from support.oracle import Oracle
from support.values import lines

_OPTIONS = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
_HIDDEN = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]


def _rewritten_by_java(path: Path) -> pp.Table:
    """Two files, the first rewritten as Java's UPDATE does: row ids are kept, rows 3 and 7 have no sequence number."""
    table = pp.Table.create(path, pa.schema([("id", pa.int64()), ("s", pa.string())]), options=_OPTIONS)
    for start in (0, 10):
        table.append(pa.table({"id": range(start, start + 10), "s": ["x"] * 10}))
    live = live_of(table._store, table.snapshots.latest())
    at = live["first_row_id"].to_pylist().index(0)
    old = live.slice(at, 1)
    (name,) = old["file_name"].to_pylist()
    file = next(Path(table.path).rglob(name))
    rows = pq.read_table(file)
    numbers = [None if i in (3, 7) else 1 for i in range(10)]
    for column, values in (("_ROW_ID", range(10)), ("_SEQUENCE_NUMBER", numbers)):
        rows = rows.append_column(column, pa.array(values, pa.int64()))
    fresh = file.with_name(name.replace("data-", "data-a"))
    pq.write_table(rows, fresh)
    new = old
    for column, value in {
        "file_name": fresh.name, "file_size": fresh.stat().st_size, "first_row_id": None, "max_sequence_number": 3,
        "write_cols": ["id", "s", "_ROW_ID", "_SEQUENCE_NUMBER"], "value_stats_cols": ["id", "s"],
    }.items():  # fmt: skip
        i = ENTRY_SCHEMA.get_field_index(column)
        new = new.set_column(i, ENTRY_SCHEMA.field(i), pa.array([value], ENTRY_SCHEMA.field(i).type))
    changes = Increment(deleted=old, replacements=new, kind=CommitKind.OVERWRITE)
    commit(table._store, Changes([changes]), TableOptions(table.options))
    return table


def _ids(table: pp.Table, filter_: str | None = None) -> dict[int, tuple[int, int]]:
    rows = table.scan(filter_, columns=_HIDDEN).to_arrow().to_pylist()
    return {row["id"]: (row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in rows}


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return _rewritten_by_java(tmp_path / "db.db" / "t")


def test_row_ids_are_read_from_the_file(table: pp.Table) -> None:
    expected = {i: (i, 3 if i in (3, 7) else 1) for i in range(10)} | {i: (i, 2) for i in range(10, 20)}
    assert _ids(table) == expected
    assert _ids(table, "id IN (3, 4, 15)") == {i: expected[i] for i in (3, 4, 15)}
    assert table.scan(columns=["id", "s"]).to_arrow().num_rows == 20


def test_row_ids_survive_deletes(table: pp.Table) -> None:
    before = _ids(table)
    assert table.delete("id IN (0, 3, 19)").rows_deleted == 3
    assert _ids(table) == {i: ids for i, ids in before.items() if i not in (0, 3, 19)}


_MODES = {"vectors": _OPTIONS, "rewrite": {"row-tracking.enabled": "true"}}
_LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["p"], "options": {"file.format": "orc"}},
    "all statistics": {"options": {"metadata.stats-dense-store": "false", "file-index.bitmap.columns": "s"}},
    "avro": {"options": {"file.format": "avro"}},
}


def _filled(path: Path, layout: dict[str, Any], mode: dict[str, str]) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("p", pa.string())])
    rest = {k: v for k, v in layout.items() if k != "options"}
    table = pp.Table.create(path, schema, options={**layout.get("options", {}), **mode}, **rest)
    for start in (0, 20):
        ids = range(start, start + 20)
        table.append(pa.table([list(ids), ["x"] * 20, ["ab"[i % 2] for i in ids]], schema=schema))
    return table


def _change(table: pp.Table) -> None:
    """Rows change once, twice, and by a move to another partition; others go."""
    table.update({"s": "'y'"}, "id IN (1, 2, 30)")
    table.delete("id IN (3, 31)")
    table.update({"s": "s || '!'", "p": "'c'"}, "id IN (2, 5)")
    table.delete("id = 4")
    table.append(pa.table({"id": [100], "s": ["new"], "p": ["a"]}))


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_row_ids_follow_their_rows(tmp_path: Path, layout: str, mode: str) -> None:
    table = _filled(tmp_path / "t", _LAYOUTS[layout], _MODES[mode])
    before = _ids(table)
    _change(table)
    expected = {i: ids for i, ids in before.items() if i not in (3, 4, 31)}
    for i, snapshot in ((1, 3), (30, 3), (2, 5), (5, 5)):
        expected[i] = (before[i][0], snapshot)
    assert _ids(table) == expected | {100: (40, 7)}
    assert _ids(table, "s = 'y!'") == {2: expected[2]}
    assert table.count("p = 'c'") == 2
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.next_row_id == 41


def test_java_sees_the_same_row_ids(oracle: Oracle, table: pp.Table, tmp_path: Path) -> None:
    table.delete("id IN (0, 12)")
    tables = {"t": table}
    for layout in _LAYOUTS:
        for mode in _MODES:
            name = f"{layout}_{mode}".replace(" ", "_")
            tables[name] = _filled(tmp_path / "db.db" / name, _LAYOUTS[layout], _MODES[mode])
            _change(tables[name])
    untouched = _filled(tmp_path / "db.db" / "untouched", _LAYOUTS["avro"], _MODES["vectors"])
    assert len(_ids(untouched)) == 40
    with oracle.batch() as batch:
        broken = batch.add("read", tmp_path, "db.untouched$row_tracking", allow_fail=True)
        ids = {n: batch.read(tmp_path, f"db.{n}$row_tracking") for n in tables if not n.startswith("avro")}
        rows = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        some = {
            name: batch.read(tmp_path, f"db.{name}", filter={"op": "eq", "field": "s", "literals": ["y"]})
            for name in tables
        }
    assert not broken.ok  # Java 1.4.2 can't show row ids of any Avro file
    for name, ours in tables.items():
        if name in ids:
            found = {row["id"]: (row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in ids[name].values}
            assert found == _ids(ours), name
        assert rows[name].lines == lines(ours.scan().to_arrow()), name
        assert some[name].lines == lines(ours.scan("s = 'y'").to_arrow()), name
