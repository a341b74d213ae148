"""Rows named by where they lie: deleted, or replaced by versions written before; races never bring a row back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.engine.rowlevel import changes
from paimon_pyds.engine.rowlevel.replace_rows import replace_rows
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitConflictError, OptionError
from paimon_pyds.metadata.commit_message import CommitMessage
from support.effort import sampled

_SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.string())])
_MODES = {"vectors": {"deletion-vectors.enabled": "true"}, "rewrite": {}}


@pytest.fixture(params=sampled(_MODES, 1))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    made = pp.Table.create(tmp_path / "t", _SCHEMA, options=_MODES[request.param])
    for start in (0, 5):
        made.append([{"id": i, "x": f"v{i}"} for i in range(start, start + 5)])
    return made


def places(table: pp.Table, filter: str) -> dict[str, BitMap]:
    found: dict[str, BitMap] = {}
    columns = ["__paimon_file_path", "__paimon_row_index"]
    for row in table.scan(filter, columns=columns).to_arrow().to_pylist():
        found.setdefault(row[columns[0]], BitMap()).add(row[columns[1]])
    return found


def versions(table: pp.Table, rows: list[dict[str, Any]]) -> list[CommitMessage]:
    with TableWriter(table.write_context()) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))
        return [writer.prepare_commit()]


def rows(table: pp.Table) -> dict[int, str]:
    found = table.scan().to_arrow()
    assert len(set(found["id"].to_pylist())) == found.num_rows
    return dict(zip(found["id"].to_pylist(), found["x"].to_pylist(), strict=True))


def test_rows_go_and_do_not_go_again(table: pp.Table) -> None:
    there = places(table, "id IN (1, 6, 7)")
    assert replace_rows(table._store, there).rows_deleted == 3
    assert sorted(rows(table)) == [0, 2, 3, 4, 5, 8, 9]
    with pytest.raises(CommitConflictError, match=r"gone by now|not in the table"):
        replace_rows(table._store, there)


def test_rows_get_new_versions(table: pp.Table) -> None:
    new = versions(table, [{"id": i, "x": "new"} for i in range(3, 7)])
    done = replace_rows(table._store, places(table, "id BETWEEN 3 AND 6"), new)
    assert (done.rows_updated, done.rows_deleted) == (4, 0)
    assert rows(table) == {i: "new" if 3 <= i <= 6 else f"v{i}" for i in range(10)}


@pytest.mark.parametrize("filter", ["id = 1", "id < 5"])
def test_a_row_that_is_deleted_meanwhile_does_not_come_back(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    there = places(table, filter)
    new = versions(table, [{"id": i, "x": "new"} for i in range(10) if i == 1 or (i < 5 and filter != "id = 1")])
    before = changes.commit
    once = iter([True])

    def late(*arguments: Any) -> Any:
        if next(once, False):
            monkeypatch.setattr(changes, "commit", before)
            pp.Table.open(table.path).delete("id = 1")
        return before(*arguments)

    monkeypatch.setattr(changes, "commit", late)
    with pytest.raises(CommitConflictError, match=r"gone by now|not in the table"):
        replace_rows(table._store, there, new)
    assert rows(table) == {i: f"v{i}" for i in range(10) if i != 1}
    assert all(Path(path).exists() for message in new for path in message.paths())  # they are the caller's


def test_an_append_or_another_delete_meanwhile_does_no_harm(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    there = places(table, "id = 1")
    new = versions(table, [{"id": 1, "x": "new"}])
    before = changes.commit

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(changes, "commit", before)
        table.append([{"id": 10, "x": "v10"}])
        if table.options:
            table.delete("id = 2")
        return before(*arguments)

    monkeypatch.setattr(changes, "commit", late)
    replace_rows(table._store, there, new)
    gone = {2} if table.options else set()
    assert rows(table) == {i: "new" if i == 1 else f"v{i}" for i in range(11) if i not in gone}


def test_what_names_no_row_is_refused(table: pp.Table) -> None:
    (path, *_) = places(table, "id = 1")
    with pytest.raises(OptionError, match="is no row of a file of 5 rows"):
        replace_rows(table._store, {path: BitMap([5])})
    with pytest.raises(CommitConflictError, match="not in the table"):
        replace_rows(table._store, {path + "x": BitMap([0])})
    assert replace_rows(table._store, {path: BitMap()}).snapshot_id is None
