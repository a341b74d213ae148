"""DELETE, UPDATE and MERGE on tables whose keys may be in any partition: rows move, and no key is in two of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from support.races import race

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.int64())])


def _table(path: Path, **options: str) -> pp.Table:
    own = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", **options}
    table = pp.Table.create(path / "t", _SCHEMA, primary_key=["id"], partition_by=["p"], options=own)
    table.append(_rows((i, i % 2, i) for i in range(10)))
    return table


def _rows(rows: Iterable[tuple[int, int | None, int]]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "p": p, "v": v} for i, p, v in rows], _SCHEMA)


def _found(table: pp.Table) -> dict[int, tuple[int | None, int]]:
    rows = table.scan().to_arrow().to_pylist()
    found = {row["id"]: (row["p"], row["v"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "input"}])
def test_rows_are_deleted_updated_and_moved(tmp_path: Path, options: dict[str, str]) -> None:
    table = _table(tmp_path, **options)
    model: dict[int, tuple[int | None, int]] = {i: (i % 2, i) for i in range(10)}
    assert table.delete("id IN (3, 4)").rows_deleted == 2
    del model[3], model[4]
    assert table.update({"v": "v + 100"}, "p = 1").rows_updated == 4
    model |= {i: (p, v + 100) for i, (p, v) in model.items() if p == 1}
    summary = table.update({"p": "CASE WHEN id = 9 THEN NULL ELSE 7 END", "v": "id"}, "id > 4")
    assert (summary.rows_updated, summary.rows_deleted) == (5, 0)
    model |= {i: (None if i == 9 else 7, i) for i in model if i > 4}
    assert _found(table) == model
    assert table.update({"p": "p"}, "id = 5").rows_updated == 1
    table.append(_rows([(5, 0, 1), (9, 1, 1)]))
    assert table.delete("p = 7").rows_deleted == 3
    model = {i: row for i, row in (model | {5: (0, 1), 9: (1, 1)}).items() if row[0] != 7}
    table.compact(full=True)
    assert _found(table) == model


def test_a_merge_moves_rows_and_inserts_others(tmp_path: Path) -> None:
    table = _table(tmp_path)
    source = _rows([(1, 0, -1), (2, 5, -2), (3, 1, -3), (50, 5, -5), (51, 0, -6)])
    summary = table.merge(source, ["id"], when_matched="update", when_not_matched="insert")
    assert (summary.rows_updated, summary.rows_inserted, summary.rows_deleted) == (3, 2, 0)
    assert _found(table) == {i: (i % 2, i) for i in range(10)} | {r["id"]: (r["p"], r["v"]) for r in source.to_pylist()}
    summary = table.merge(
        _rows([(50, 0, 0), (60, 9, 9)]), "target.id = source.id AND source.v > 5", when_not_matched="insert"
    )
    assert summary.rows_inserted == 2
    assert _found(table)[50] == (0, 0)


def test_a_merge_that_may_put_a_key_into_two_partitions_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    before = _found(table)
    with pytest.raises(UnsupportedError, match="the key id = 4 of a row to insert is in the table"):
        table.merge(
            _rows([(4, 3, 4), (4, 5, 8)]), "target.id = source.id AND target.v = source.v", when_matched="update",
            when_not_matched="insert",
        )  # fmt: skip
    assert _found(table) == before


def test_the_keys_of_inserted_rows_were_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another commit writes one of them meanwhile: the merge starts over."""
    table = _table(tmp_path)
    race(monkeypatch, lambda: pp.Table.open(table.path).append(_rows([(77, 1, 1)])))
    summary = table.merge(_rows([(77, 2, 2)]), ["id"], when_matched="delete", when_not_matched="insert")
    assert (summary.attempts, summary.rows_deleted) == (2, 1)
    assert 77 not in _found(table)


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"bucket": "2"},  # a key is unique in its partition only
    ],
)
def test_rows_that_can_not_move_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    table = _table(tmp_path, **options)
    before = _found(table)
    with pytest.raises(UnsupportedError, match="column p can't be updated: rows of this table stay in their partition"):
        table.update({"p": "3"}, "id = 1")
    assert table.update({"p": "p", "v": "v + 1"}, "id = 1").rows_updated == 1
    assert _found(table) == before | {1: (1, 2)}
