"""A table that is dropped and created again at its path while a `Table` of it lives: what is known by number is not
believed, and what was written by the old schema is not committed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import AlreadyCommittedError, CommitConflictError, CommitError, NotFoundError
from paimon_pyds.metadata.commit_message import CommitMessage

_OLD = pa.schema([("a", pa.int64()), ("b", pa.int64())])
_NEW = pa.schema([("b", pa.int64()), ("a", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """A table of two schemas, whose metadata was looked at."""
    made = pp.Table.create(tmp_path / "t", _OLD)
    made.append(pa.table({"a": [1, 2], "b": [10, 20]}))
    made.alter(add_columns={"c": "INT"})
    made.append(pa.table({"a": [3], "b": [30], "c": [300]}))
    assert made.min("a") == 1 and made.scan(snapshot=1).to_arrow().num_columns == 2
    return made


def _recreate(path: str | Path, schema: pa.Schema = _NEW, *, rows: bool = True) -> pp.Table:
    shutil.rmtree(path)
    made = pp.Table.create(path, schema)
    if rows:
        made.append(pa.table({"a": [7, 8], "b": [100, 200]}, schema=pa.schema([("a", pa.int64()), ("b", pa.int64())])))
        made.alter(add_columns={"d": "STRING"})
        made.append(pa.table({"b": [300], "a": [9], "d": ["x"]}))
    return made


def _rows(table: pp.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=repr)


_ASKED: dict[str, Callable[[pp.Table], Any]] = {
    "schema": lambda t: t.schema,
    "min": lambda t: t.min("a"),
    "max": lambda t: t.max("b"),
    "distinct": lambda t: t.distinct("a"),
    "count": lambda t: t.count("a = 7"),
    "rows": lambda t: t.scan().to_arrow(),
    "snapshot": lambda t: t.scan(snapshot=1).to_arrow(),
    "plan": lambda t: t.scan("b > 150").plan().files,
    "schemas": lambda t: t.system.read("schemas"),
    "files": lambda t: t.system.read("files"),
    "options": lambda t: t.options,
    "store": lambda t: t._store.schema(0),
}


@pytest.mark.parametrize("asked", _ASKED.values(), ids=_ASKED)
def test_answers_are_the_new_tables(table: pp.Table, asked: Callable[[pp.Table], Any]) -> None:
    _recreate(table.path)
    assert asked(table) == asked(pp.Table.open(table.path))


def test_schemas_of_an_old_table_go_however_many_the_new_one_has(table: pp.Table) -> None:
    _recreate(table.path, rows=False)
    assert table.schema.field_names == ("b", "a")
    assert table._store.schemas() == pp.Table.open(table.path)._store.schemas()


def test_schemas_are_read_once_while_the_table_lives(table: pp.Table) -> None:
    pp.Table.open(table.path).alter({"snapshot.time-retained": "2 h"})
    before = table._store
    first = before.schema(0)
    assert before.schema(0) is first and table._store.schema(0) is first
    assert table.schema.options["snapshot.time-retained"] == "2 h" and table._store.schema(0) is first


def test_writes_are_by_the_new_schema(table: pp.Table) -> None:
    fresh = _recreate(table.path)
    table.append(pa.table({"a": [10], "b": [400], "d": ["y"]}))
    table.update({"d": "'z'"}, "a = 7")
    table.delete("b = 200")
    table.compact(full=True)
    table.alter(add_columns={"e": "INT"})
    expected = [(100, 7, "z"), (300, 9, "x"), (400, 10, "y")]
    assert _rows(fresh) == [{"b": b, "a": a, "d": d, "e": None} for b, a, d in expected]
    assert [s.field_names for s in fresh._store.schemas()] == [("b", "a"), ("b", "a", "d"), ("b", "a", "d", "e")]


def _message(table: pp.Table, rows: pa.Table, during: Callable[[], None] = lambda: None) -> CommitMessage:
    with TableWriter(table.write_context()) as writer:
        writer.write(rows)
        during()
        return writer.prepare_commit()


@pytest.mark.parametrize("schema", [_OLD, _NEW], ids=["same columns", "other columns"])
@pytest.mark.parametrize("rows", [True, False], ids=["written", "empty"])
def test_what_was_written_before_is_not_committed(tmp_path: Path, schema: pa.Schema, rows: bool) -> None:
    table = pp.Table.create(tmp_path / "t", _OLD)
    old = pa.table({"a": [3], "b": [30]})
    for _ in range(3):
        table.append(old)
    before = _message(table, old)
    during = _message(table, old, lambda: _recreate(table.path, schema, rows=rows) and None)
    fresh = pp.Table.open(table.path)
    state = _rows(fresh), fresh._store.snapshot_ids()
    for message in (before, during):
        for opened in (table, fresh):
            with pytest.raises(CommitConflictError, match=r"dropped and created again.*began with its schema 0.*again"):
                opened.commit([message])
    assert (_rows(fresh), fresh._store.snapshot_ids()) == state
    fresh.append(pa.table({"a": [11], "b": [500]}))
    assert any({"a": 11, "b": 500}.items() <= row.items() for row in _rows(fresh))


def test_a_table_that_is_dropped_while_it_is_appended_to(table: pp.Table) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [3], "b": [30], "c": pa.array([1], pa.int32())})
        _recreate(table.path)
        yield pa.record_batch({"a": [4], "b": [40], "c": pa.array([1], pa.int32())})

    with pytest.raises(CommitConflictError, match="dropped and created again"):
        table.append(batches())
    assert [r["a"] for r in _rows(table)] == [7, 8, 9]
    shutil.rmtree(table.path)
    message = CommitMessage(())
    with pytest.raises(NotFoundError):
        table.commit([message])


def test_an_older_scan_never_mixes_the_two(table: pp.Table) -> None:
    """It answers as it would have before, or says that its files are gone."""
    scans = [table.scan(), table.scan(columns=["b"]), table.scan(snapshot=1)]
    other = pp.Table.open(table.path)
    unplanned = other.scan()
    assert unplanned.snapshot_id == 2
    _recreate(table.path)
    assert table.min("a") == 7 and other.schema.field_names == ("b", "a", "d")
    for scan in scans:
        assert scan.answer.min("b").value == 10
        with pytest.raises(NotFoundError, match=r"gone|dropped"):
            scan.to_arrow()
    with pytest.raises(NotFoundError, match="dropped and created again during the operation"):
        unplanned.answer.min("b")


def test_a_column_that_another_process_adds_is_written(table: pp.Table) -> None:
    pp.Table.open(table.path).alter(add_columns={"x": "STRING"}, drop_columns=["b"])
    table.append(pa.table({"a": [4], "c": [1], "x": ["new"]}))
    assert {"a": 4, "c": 1, "x": "new"} in _rows(table)


def test_files_of_an_older_schema_of_the_same_table_are_committed(table: pp.Table) -> None:
    message = _message(table, pa.table({"a": [4], "b": [40], "c": [1]}))
    pp.Table.open(table.path).alter(add_columns={"x": "STRING"}, rename_columns={"b": "bb"})
    table.commit([message])
    assert {"a": 4, "bb": 40, "c": 1, "x": None} in _rows(table)
    with pytest.raises(AlreadyCommittedError, match="committed by snapshot 3"):
        table.abort([message])
    assert issubclass(AlreadyCommittedError, CommitError)
