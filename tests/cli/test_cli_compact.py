"""``paimon-pyds compact``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_pyds.cli.main import main
from support.compaction import VECTORS, ids, make


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["compact", *arguments]) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


def test_what_was_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", 6, VECTORS)
    table.delete("id IN (1, 2)")
    assert _run(capsys, table.path, "--dry-run").startswith("dry run: 6 files would be rewritten (")
    said = _run(capsys, table.path)
    assert said.startswith("snapshot 8, 6 files became 2 (")
    assert "58 rows), 2 rows dropped in " in said
    assert _run(capsys, table.path).startswith("nothing to do with 2 files in ")
    assert _run(capsys, table.path, "--full").startswith("snapshot 9, 2 files became 1 (")


def test_an_order_and_options_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", 2, partition_by=["day"])
    arguments = ["--order-by", "price, id", "--order", "hilbert", "--option", "target-file-row-num=3"]
    said = json.loads(_run(capsys, table.path, "--where", "day = 1", *arguments, "--output", "json"))
    assert (said["snapshot_id"], said["files_before"], said["files_after"], said["rows"]) == (3, 2, 3, 8)
    assert said["dry_run"] is False
    assert sorted(ids(table)) == list(range(20))


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path / "t", 1)
    assert _run(capsys, table.path, "--order-by", "none", status=1).count("\n") == 1
    assert "KEY=VALUE" in _run(capsys, table.path, "--option", "x", status=2)
