"""The commands that keep a table healthy, in text and in JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main


def test_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t")
    table = pp.Table.create(path, pa.schema([("p", pa.string()), ("id", pa.int64())]), partition_by=["p"])

    def run(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    for number in range(4):
        table.append(pa.table({"p": ["2020-01-01"], "id": [number]}))
    dry = "--dry-run"
    assert run("tags", "create", path, "x", "--snapshot", "2", dry) == "snapshot 2 would be tagged\n"
    assert run("tags", "create", path, "x", "--snapshot", "2", "--retain", "1 d") == "snapshot 2 is tagged\n"
    run("tags", "create", path, "y")
    assert main(["tags", "create", path, "y", dry]) == main(["tags", "rename", path, "x", "y", dry]) == 1
    assert run("tags", "create", path, "y", "--snapshot", "1", "--replace", dry) == "snapshot 1 would be tagged\n"
    assert run("tags", "rename", path, "y", "z", dry) == "the tag would be renamed\n"
    run("tags", "rename", path, "y", "z")
    listed = json.loads(run("tags", "list", path, "--output", "json"))
    assert [(tag["tag"], tag["snapshot"]) for tag in listed] == [("x", 2), ("z", 4)]
    assert run("tags", "list", path).startswith("x  snapshot 2  20")
    assert run("branches", "create", path, "b", "--tag", "x", dry) == "the branch would be made\n"
    run("branches", "create", path, "b", "--tag", "x")
    assert run("branches", "rename", path, "b", "c", dry) == "the branch would be renamed\n"
    assert run("maintenance", "analyze", path, dry).startswith("4 rows\n")
    run("branches", "rename", path, "b", "c")
    assert run("branches", "list", path) == "c\n"
    assert json.loads(run("branches", "fast-forward", path, "c", "--dry-run", "--output", "json"))["snapshots"] == 2
    assert run("branches", "delete", path, "c", "--yes").startswith("1 branch removed in 0.")
    assert run("snapshots", "expire", path, "--retain-max", "1", "--max-deletes", "2", dry).startswith("2 snapshots")
    assert run("snapshots", "expire", path, "--retain-max", "1", "--dry-run").startswith(
        "3 snapshots, 4 metadata files would go"
    )
    assert json.loads(run("snapshots", "expire", path, "--retain-max", "1", "--output", "json"))["snapshots"] == 3
    assert run("snapshots", "expire", path, "--retain-min", "1", "--older-than", "2999-01-01").startswith(
        "nothing removed in"
    )
    assert run("tags", "delete", path, "z", "--yes").endswith("\n  z\n")
    assert "nothing removed" in run("tags", "expire", path)
    age = ("--option", "partition.expiration-time=1 d")
    assert "  p=2020-01-01\n" in run("maintenance", "expire-partitions", path, *age, "--dry-run")
    assert run("maintenance", "mark-partitions-done", path, "p=2020-01-01", "--dry-run") == "p=2020-01-01\n"
    assert json.loads(run("maintenance", "mark-partitions-done", path, "p=2020-01-01", "--output", "json")) == [
        "p=2020-01-01"
    ]
    assert "  p=2020-01-01\n" in run("maintenance", "drop-partitions", path, "--where", "p = '2020-01-01'", "--dry-run")
    assert run("maintenance", "drop-partitions", path, "--where", "p = 'other'", "--yes").startswith(
        "nothing removed in"
    )
    assert run("truncate", path, "--dry-run").startswith("1 partition, 4 data files")
    run("maintenance", "expire-partitions", path, *age)
    assert table.count() == 0
    assert run("truncate", path, "--yes").startswith("nothing removed in")
    assert run("snapshots", "rollback", path, "--snapshot", "4", "--yes").startswith("1 snapshot")
    assert table.count() == 4
    run("snapshots", "rollback", path, "--tag", "x", "--yes")
    assert table.count() == 2
    assert main(["snapshots", "rollback", path, "--timestamp", "2000-01-01", "--yes"]) == 1


def test_verify_ends_with_1_when_there_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t"
    table = pp.Table.create(path, pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    assert main(["maintenance", "verify", str(path), "--deep"]) == 0
    assert capsys.readouterr().out.startswith("nothing wrong; 1 snapshot, 3 manifests, 1 data file (1 row) read in 0.")
    (path / "snapshot/LATEST").write_text("x")
    assert main(["maintenance", "verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("WARNING hint: ")
    next(path.rglob("data-*")).unlink()
    assert main(["maintenance", "verify", str(path)]) == 1
    assert "the file is gone -- restore the file" in capsys.readouterr().out
    assert main(["maintenance", "verify", str(path), "--output", "json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert [(found["severity"], found["kind"]) for found in result["findings"]] == [
        ("error", "data-file"),
        ("warning", "hint"),
    ]
    assert result["ok"] is False


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t")
    table = pp.Table.create(path, pa.table({"id": [1, 2]}))
    table.overwrite(pa.table({"id": [2, 3]}))
    table.alter(set_options={"target-file-size": "64 mb"})
    assert main(["snapshots", "diff", path, "1", "2", "--output", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], sorted(lines[1:])) == ("rowkind,id", ["+I,3", "-D,1"])
    assert main(["snapshots", "diff", path, "1", "--summary", "--exit-code"]) == 1
    out = capsys.readouterr().out
    assert "rows: 1 inserted, 1 deleted" in out
    assert "option target-file-size added: 64 mb" in out
    assert main(["snapshots", "diff", path, "1", "1", "--summary", "--exit-code", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["differs"] is False


def test_orphans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t"
    pp.Table.create(path, {"id": [1]})
    orphan = path / "index" / "index-x-0"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"123")
    os.utime(orphan, (0, 1e9))
    assert main(["maintenance", "remove-orphan-files", str(path), "--output", "json", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["path"] for line in shown.out.splitlines()] == [str(orphan)]
    assert shown.err.startswith("1 file (3 B) would go; 1 old files looked at")
    assert main(["maintenance", "remove-orphan-files", str(path), "--older-than", "6 h", "--yes"]) == 0
    assert "1 file (3 B) removed" in capsys.readouterr().err
    assert not orphan.exists()
