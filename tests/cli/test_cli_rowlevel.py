"""``paimon-pyds delete`` and ``update``, in text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    options = {"deletion-vectors.enabled": "true"}
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("a=b", pa.string())]), options=options)
    table.append(pa.table({"id": range(10), "a=b": ["x"] * 10}))
    return str(tmp_path / "t")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


def _rows(path: str) -> dict[int, str]:
    found = pp.Table.open(path).scan().to_arrow()
    return dict(zip(found["id"].to_pylist(), found["a=b"].to_pylist(), strict=True))


def test_delete(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(capsys, "delete", path, "--where", "id < 3")
    assert text.startswith("snapshot 2, 3 rows deleted, 1 file touched, ")
    summary = json.loads(_run(capsys, "delete", path, "--where", "id < 4", "--output", "json"))
    assert (summary["rows_deleted"], summary["snapshot_id"], summary["attempts"]) == (1, 3, 1)
    assert _run(capsys, "delete", path, "--where", "id < 4").startswith("nothing changed in ")
    rewriting = ("--option", "deletion-vectors.enabled=false", "--output", "json")
    summary = json.loads(_run(capsys, "delete", path, "--where", "id = 4", *rewriting))
    assert (summary["files_removed"], summary["files_added"]) == (1, 1)
    assert sorted(_rows(path)) == [5, 6, 7, 8, 9]
    assert 'say "TRUE"' in _run(capsys, "delete", path, "--where", " ", status=1)


def test_update(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(capsys, "update", path, "--set", "`a=b` = 'y' || 'z'", "--set", "ID=id + 100", "--where", "id >= 8")
    assert "2 rows updated" in text
    assert _rows(path) == dict.fromkeys(range(8), "x") | {108: "yz", 109: "yz"}
    summary = json.loads(_run(capsys, "update", path, "--set", "id = 0", "--where", "id > 1000", "--output", "json"))
    assert (summary["rows_updated"], summary["snapshot_id"]) == (0, None)


@pytest.mark.parametrize("text", ["id", "= 3", "id =", "`id`", "`id` 3", "`id"])
def test_an_assignment_that_is_none(path: str, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert "COLUMN=EXPRESSION" in _run(capsys, "update", path, "--set", text, "--where", "TRUE", status=1)
    assert len(_rows(path)) == 10


def test_a_column_set_twice(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = _run(capsys, "update", path, "--set", "id = 1", "--set", "id = 2", "--where", "TRUE", status=1)
    assert "twice" in error


def test_rows_with_a_primary_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("a=b", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options={"bucket": "1", "write-only": "true"})
    table.append(pa.table({"id": range(10), "a=b": ["x"] * 10}))
    assert "snapshot 2, 3 rows deleted, " in _run(capsys, "delete", table.path, "--where", "id < 3")
    assert "2 rows updated" in _run(capsys, "update", table.path, "--set", "`a=b` = 'y'", "--where", "id >= 8")
    error = _run(capsys, "update", table.path, "--set", "id = id + 1", "--where", "TRUE", status=1)
    assert "column id of the primary key can't be updated" in error
    assert "7 rows deleted" in _run(capsys, "delete", table.path, "--where", "TRUE")
