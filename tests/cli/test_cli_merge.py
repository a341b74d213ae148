"""``paimon-pyds merge``, and the clauses as texts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.engine.rowlevel.merge_clauses import parse_clause
from paimon_pyds.errors import OptionError, PredicateError


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    made.append(pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}))
    return made


def content(table: pp.Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in table.scan().to_arrow().to_pylist())


def test_merge_of_files(table: pp.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": [2], "n": [21]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [4], "n": [41]}), tmp_path / "b.parquet")
    sources = [f"--source={tmp_path / name}.parquet" for name in "ab"]
    clauses = ["--when-matched=update", "--when-not-matched", "insert"]
    assert main(["merge", table.path, *sources, "--on", "id", *clauses, "--output", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows_updated"], summary["rows_inserted"]) == (1, 1)
    assert content(table) == [(1, 10), (2, 21), (3, 30), (4, 41)]


def test_merge_of_a_table_with_conditions(table: pp.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = pp.Table.create(str(tmp_path / "s"), table.arrow_schema)
    source.append(pa.table({"id": [1, 2, 7], "n": [0, 5, 6]}))
    arguments = ["merge", table.path, "--source", source.path, "--on", "t.id = s.id"]
    arguments += ["--when-matched", "s.n = 0 THEN DELETE", "--when-matched", "UPDATE SET n = t.n + s.n, id = t.id"]
    arguments += ["--when-not-matched", "insert (id, n) values (id * 10, coalesce(n, 1))"]
    arguments += ["--when-not-matched-by-source", "AND id = 3 THEN update set n = -1"]
    assert main(arguments) == 0
    assert "1 row deleted, 2 updated, 1 inserted" in capsys.readouterr().out
    assert content(table) == [(2, 25), (3, -1), (70, 6)]


def test_errors_are_one_line(table: pp.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow.csv.write_csv(pa.table({"id": [1, 1]}), tmp_path / "s.csv")
    arguments = ["merge", table.path, f"--source={tmp_path / 's.csv'}", "--on=id", "--when-matched"]
    for clause, part in (("replace", "not a clause"), ("update set n = 1", "rows 1 and 2 of the source")):
        assert main([*arguments, clause]) == 1
        error = capsys.readouterr().err
        assert part in error
        assert "Traceback" not in error
    assert main(arguments[:-1]) == 1
    assert "such as --when-matched update" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE", pp.Delete()),
        ("a = 1 and b = 'then' then delete", pp.Delete("a = 1 and b = 'then'")),
        ("CASE WHEN a THEN b ELSE c END THEN UPDATE SET *", pp.Update(None, "CASE WHEN a THEN b ELSE c END")),
        ("update set t.a = if(b, s.a, 1), `b c` = m['k, l']", pp.Update({"a": "if(b, s.a, 1)", "b c": "m['k, l']"})),
        ("insert *", pp.Insert()),
        ("x THEN INSERT (a, `b`) VALUES (1, concat('(', b))", pp.Insert({"a": "1", "b": "concat('(', b)"}, "x")),
    ],
)  # fmt: skip
def test_clauses_as_texts(text: str, expected: object) -> None:
    assert parse_clause(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "delete *", "then delete", "update set", "update set a", "update set a = ", "update set a = 1,", "insert (a)",
     "insert (a) values (1, 2)", "insert (a, a) values (1, 2)", "insert (a) values (1) x", "update a = 1", "a then b",
     "update set a = 'x", "update set a = 1, a = 2", "update set *, a = 1", "insert (a values (1)"],
)  # fmt: skip
def test_what_is_no_clause(text: str) -> None:
    with pytest.raises((OptionError, PredicateError)):
        parse_clause(text)
