"""``paimon-pyds follow``: rows as they come, and the ways in which it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v STRING")
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.append({"id": [3], "v": ["c"]})
    return table


def _started(table: pp.Table, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "paimon_pyds", "follow", table.path, "--poll", "20ms", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("form", "printed"),
    [("csv", "id,v\n1,a\n2,b\n3,c\n"), ("json", '{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n{"id": 3, "v": "c"}\n')],
)
def test_rows_are_printed(table: pp.Table, capsys: pytest.CaptureFixture[str], form: str, printed: str) -> None:
    assert main(["follow", table.path, "--output", form, "--from", "1", "--until", "latest"]) == 0
    out = capsys.readouterr().out
    assert out == printed or [*map(json.loads, out.splitlines())] == [*map(json.loads, printed.splitlines())]


def test_text_is_a_table_for_each_batch(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["follow", table.path, "--from", "1", "--until", "latest", "--filter", "id > 1"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines.count(["id", "v"]) == 2
    assert ["2", "b"] in lines
    assert ["1", "a"] not in lines


def test_options(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--columns", "id", "--from", "1", "--until", "1", "--rowkind-column", "op", "--consumer-id", "c"]
    assert main(["follow", table.path, *arguments, "--output", "csv"]) == 0
    assert capsys.readouterr().out == "op,id\n+I,1\n+I,2\n"
    assert table.maintenance.consumers() == {"c": 2, "c.retained": 1}
    assert main(["follow", table.path, "--from", "nowhere"]) == 1
    assert "no tag" in capsys.readouterr().err
    assert main(["follow", table.path, "--option", "scan.mode=latest", "--until", "latest", "--output", "csv"]) == 0
    assert capsys.readouterr().out == "id,v\n"


def test_ctrl_c_ends_it_without_a_word(table: pp.Table) -> None:
    process = _started(table, "--output", "json", "--from", "1")
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["id"] for _ in range(3)]
    assert seen == [1, 2, 3]
    table.append({"id": [4], "v": ["d"]})
    assert json.loads(process.stdout.readline()) == {"id": 4, "v": "d"}, "it is printed before the next is waited for"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_ctrl_c_leaves_a_file(table: pp.Table, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    process = _started(table, "--out", str(path))
    deadline = time.monotonic() + 60
    while (not path.exists() or path.read_text().count("\n") < 4) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130
    assert path.read_text() == "id,v\n1,a\n2,b\n3,c\n"


def test_a_closed_pipe_ends_it_without_a_word(table: pp.Table) -> None:
    process = _started(table, "--output", "csv")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "id,v\n"
    process.stdout.close()
    assert process.wait(60) == 0, "it notices while it waits"
    assert process.stderr.read() == ""


def test_head_ends_it(table: pp.Table) -> None:
    command = f"{sys.executable} -m paimon_pyds follow {table.path} --poll 20ms --output csv | head -n 2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert (done.stdout, done.stderr) == ("id,v\n1,a\n", "")
    assert done.returncode in (0, 141)
