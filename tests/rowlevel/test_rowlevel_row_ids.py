"""Row ids that files hold themselves, as Java's updates leave them, and that deletes must not disturb."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.commit import Changes, commit
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.operations.live_files import live_of
from paimon_pyds.options import TableOptions
from support.oracle import Oracle

_OPTIONS = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
_HIDDEN = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]


def _rewritten_by_java(path: Path) -> pp.Table:
    """Two files, the first rewritten as Java's UPDATE does: row ids are kept, rows 3 and 7 have no sequence number."""
    table = pp.Table.create(path, pa.schema([("id", pa.int64()), ("s", pa.string())]), options=_OPTIONS)
    for start in (0, 10):
        table.append(pa.table({"id": range(start, start + 10), "s": ["x"] * 10}))
    live = live_of(table.store, table.snapshot())
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
    commit(table.store, Changes(deleted=old, readded=new, kind=CommitKind.OVERWRITE), TableOptions(table.options))
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


def test_java_sees_the_same_row_ids(oracle: Oracle, table: pp.Table, tmp_path: Path) -> None:
    table.delete("id IN (0, 12)")
    with oracle.batch() as batch:
        reply = batch.read(tmp_path, "db.t$row_tracking")
    assert {row["id"]: (row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in reply.values} == _ids(table)
