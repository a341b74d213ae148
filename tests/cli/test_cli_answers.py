"""The commands that answer about a table's rows as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    options = {"file-index.bitmap.columns": "color", "file-index.bsi.columns": "id"}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("price", pa.float64())])
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    table.append(pa.table({"id": [1, 2, 3], "color": ["red", "blue", None], "price": [1.5, float("nan"), None]}))
    table.append(pa.table({"id": [4], "color": ["red"], "price": [2.0]}))
    return str(tmp_path / "t")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    return [json.loads(line) for line in run(capsys, *arguments, "--output", "json").splitlines()]


pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")


def test_single_values(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "count", path, "--filter", "color = 'red'") == "2\n"
    assert run(capsys, "exists", path, "--filter", "color = 'green'") == "false\n"
    assert run(capsys, "min", path, "color") == "blue\n"
    assert run(capsys, "max", path, "price") == "nan\n"
    assert run(capsys, "sum", path, "id", "--filter", "color = 'red'") == "5\n"
    assert run(capsys, "min", path, "price", "--filter", "id = 3") == "NULL\n"
    assert run_json(capsys, "sum", path, "id") == [{"sum": 10}]
    assert run_json(capsys, "max", path, "color") == [{"max": "red"}]


def test_how_it_was_answered(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "sum", path, "id", "--filter", "color = 'red'", "--how")
    assert told == "5\n(by index: 0 files by metadata, 2 by index, 0 read; 0 bytes)\n"
    (answer,) = run_json(capsys, "count", path, "--how", "--filter", "price > 1.9")
    assert answer["count"] == 2
    assert answer["source"] == "data"
    assert answer["files_read"] == 1


def test_distinct(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "distinct", path, "color").splitlines()
    assert [line.split() for line in lines] == [
        ["color", "count"], ["-----", "-----"], ["NULL", "1"], ["blue", "1"], ["red", "2"],
    ]  # fmt: skip
    rows = run_json(capsys, "distinct", path, "color", "--filter", "id > 1", "--how")
    assert rows[:3] == [
        {"value": None, "count": 1}, {"value": "blue", "count": 1}, {"value": "red", "count": 1},
    ]  # fmt: skip
    assert rows[3]["files_read"] == 0


def test_the_first_rows_in_an_order(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "scan", path, "--top-n", "price desc, 2", "--columns", "id")
    assert rows == [{"id": 2}, {"id": 4}]
    assert "red" in run(capsys, "scan", path, "--top-n", "color desc nulls last, 1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sum", "color"], "values of column 'color', of type STRING, have no sum"),
        (["min", "nope"], "no column 'nope'"),
    ],
)
def test_errors(path: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([arguments[0], path, *arguments[1:]]) == 1
    assert message in capsys.readouterr().err
