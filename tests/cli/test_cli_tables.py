"""tables, create, alter, rename, drop and databases; mistakes in command lines; the shell around them."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli import mistakes
from paimon_pyds.cli.main import build_parser, main

TELLING = """
import signal, sys
first = signal.signal

def telling(*arguments):
    signal.signal = first
    first(*arguments)
    print(flush=True)

signal.signal = telling
from paimon_pyds.__main__ import main
sys.exit(main())
"""
"""The program, and a line break as soon as it has anything to do with Ctrl-C: before that it is Python that starts."""
PROGRAM = [sys.executable, "-m", "paimon_pyds"]


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    catalog = pp.Catalog(tmp_path / "wh")
    catalog.create_database("shop")
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())])).append({"id": [1, 2]})
    return str(tmp_path / "wh")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    captured = capsys.readouterr()
    assert status == 0 or len(captured.err.splitlines()) == 1
    return captured.err if status else captured.out


def _mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_create(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t")
    columns = "id BIGINT, `a b` DECIMAL(10, 2) COMMENT 'it''s', m MAP<STRING, ARRAY<INT>>, day DATE, n INT DEFAULT 5"
    more = ("--primary-key", "id,day", "--partition-by", "day", "--option", "bucket=2", "--comment", "all")
    assert _run(capsys, "create", path, columns, *more) == f"created {path} with 5 columns\n"
    schema = pp.Table.open(path).schema
    assert [str(f.type) for f in schema.fields] == [
        "BIGINT NOT NULL", "DECIMAL(10, 2)", "MAP<STRING, ARRAY<INT>>", "DATE NOT NULL", "INT",
    ]  # fmt: skip
    assert (schema.fields[1].name, schema.fields[1].description, schema.fields[4].default) == ("a b", "it's", "5")
    assert (schema.primary_keys, schema.partition_keys, schema.comment) == (("id", "day"), ("day",), "all")
    assert schema.options["bucket"] == "2"
    assert "already exists" in _run(capsys, "create", path, "a INT", status=1)
    assert _run(capsys, "create", path, "a INT", "--if-not-exists") == "a table is there already\n"
    for text, message in (("", "'' is no column"), ("a", "'a' is no column"), ("a FOO", "not a Paimon type: 'FOO'"),
                          ("a LONG", "not a Paimon type: 'LONG' — write BIGINT"),
                          ("a BIGIN", "not a Paimon type: 'BIGIN' — did you mean BIGINT?"),
                          ("a MAP<INT>", "not a Paimon type"), ("a ARRAY<INT", "not a Paimon type")):  # fmt: skip
        assert message in _run(capsys, "create", str(tmp_path / "no"), text, status=1)


def test_alter(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{warehouse}/shop.db/orders"
    table = pp.Table.open(path)
    assert _run(capsys, "alter", path, "--add-columns", "note STRING, r ROW<a INT, b STRING>, n INT") == "schema 1\n"
    changes = ("--rename-column", "note=remark", "--drop-column", "r", "--change-type", "n=BIGINT", "--comment", "x",
               "--column-comment", "n=how many", "--column-default", "n=7", "--move-column", "n=first",
               "--set", "file-index.bitmap.columns=id", "--set", "target-file-size=1 mb")  # fmt: skip
    assert _run(capsys, "alter", path, *changes, "--output", "json") == '{"schema":2,"changed":true}\n'
    assert [(f.name, str(f.type)) for f in table.schema.fields] == [
        ("n", "BIGINT"),
        ("id", "BIGINT"),
        ("remark", "STRING"),
    ]
    assert (table.schema.fields[0].description, table.schema.fields[0].default, table.schema.comment) == (
        "how many",
        "7",
        "x",
    )
    again = ("--set", "target-file-size=1 mb")
    assert _run(capsys, "alter", path, *again) == "nothing to change: schema 2 says so already\n"
    _run(capsys, "alter", path, "--unset", "target-file-size", "--comment", "", "--forbid-null", "n", status=1)
    _run(capsys, "alter", path, "--unset", "target-file-size", "--comment", "", "--column-default", "n=")
    assert (table.options, table.schema.comment) == ({"file-index.bitmap.columns": "id"}, None)
    assert table.schema.fields[0].default is None
    assert "nothing to change is named" in _run(capsys, "alter", path, status=1)
    assert "--set takes KEY=VALUE" in _run(capsys, "alter", path, "--set", "bucket", status=1)


def test_tables_and_databases(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "tables", warehouse, "--output", "csv") == (
        f"database,table,path\nshop,orders,{warehouse}/shop.db/orders\n"
    )
    assert _run(capsys, "create-database", warehouse, "old") == "database old is there\n"
    assert "already exists" in _run(capsys, "create-database", warehouse, "old", status=1)
    _run(capsys, "create-database", warehouse, "old", "--if-missing")
    assert _run(capsys, "tables", warehouse, "--database", "old").split() == [
        "database", "table", "path", "--------", "-----", "----",
    ]  # fmt: skip
    assert "did you mean shop" in _run(capsys, "tables", warehouse, "--database", "shpo", status=1)
    assert "nothing is there" in _run(capsys, "tables", f"{warehouse}/no", status=1)
    moved = f"{warehouse}/old.db/sales"
    assert _run(capsys, "rename", f"{warehouse}/shop.db/orders", "old.sales") == f"renamed to {moved}\n"
    assert pp.Table.open(moved).count() == 2
    assert "has no database 'new'" in _run(capsys, "rename", moved, "new.sales", status=1)
    assert "is no path" in _run(capsys, "rename", moved, "../x", status=1)
    pp.Catalog(warehouse).create_table("old.other", pa.schema([("id", pa.int64())]))
    assert "something of that name" in _run(capsys, "rename", moved, "other", status=1)
    refused = _run(capsys, "drop-database", warehouse, "old", "--yes", status=1)
    assert "is not empty: it has 2 tables — --cascade drops them too" in refused
    asked = _run(capsys, "drop-database", warehouse, "old", "--cascade", status=1)
    assert "nobody can be asked: drop the database old with 2 tables? — add --yes" in asked
    _run(capsys, "drop-database", warehouse, "old", "--cascade", "--yes")
    assert pp.Catalog(warehouse).databases() == ["default", "shop"]


def test_drop_asks(warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    path = f"{warehouse}/shop.db/orders"
    assert "add --yes" in _run(capsys, "drop", path, status=1)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert main(["drop", path]) == 1
    assert capsys.readouterr().err.startswith(f"drop {path} (2 rows)? [y/N] ")
    assert pp.Table.open(path).count() == 2
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert _run(capsys, "drop", path) == f"dropped {path}\n"
    assert not Path(path).exists()
    assert "no Paimon table is here" in _run(capsys, "drop", path, "--yes", status=1)
    assert "no Paimon table is here" in _run(capsys, "drop", warehouse, "--yes", status=1)
    assert Path(warehouse, "shop.db").is_dir()


def test_mistakes_in_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert _mistake(capsys, "raed", "/t").startswith("paimon-pyds: there is no command 'raed' — did you mean read")
    assert "there is no option --fitler — did you mean --filter" in _mistake(capsys, "read", "/t", "--fitler", "x")
    assert "there is no command 'verfy' — did you mean verify" in _mistake(capsys, "index", "verfy", "/t")
    assert "'/u' is one argument too many" in _mistake(capsys, "read", "/t", "/u")
    assert (
        "there is no 'xls' — outputs: " not in (line := _mistake(capsys, "read", "/t", "--output", "xls"))
        and "csv" in line
    )
    assert "hunter2" not in _mistake(capsys, "read", "/t", "--secret-key=hunter2")
    assert "hunter2" not in _mistake(capsys, "read", "--secret-key=hunter2")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", ": a command is missing"),
        ("scan /t", ": there is no command 'scan' — did you mean read?"),
        ("version", "did you mean --version?"),
        ("write /t - --format json", "there is no option --format — did you mean --input-format?"),
        ("read /t --format json", "there is no option --format — did you mean --output?"),
        ("read /t --output out.csv", "--output takes a form, not a file — did you mean --out out.csv?"),
        ("read /t --output csv a.csv", "'a.csv' is one argument too many — did you mean --out a.csv?"),
        ("xyzzy", "there is no command 'xyzzy' — --help lists them"),
        ("--hlp", "there is no option --hlp — did you mean --help?"),
        ("index", "index: a command is missing"),
        ("read", "read: TABLE_PATH is missing"),
        ("merge /t", "merge: --source and --on are missing"),
        ("merge /t --using x --on id", "there is no option --using — did you mean --source?"),
        ("rollback /t", "rollback: --snapshot, --tag, --timestamp or --watermark is missing"),
        ("index advise /t", "--filters or --filter is missing"),
        ("read /t --limit x", "--limit takes a whole number, not 'x'"),
        ("read /t --limit", "a value is missing after --limit"),
        ("read /t --output xml", "--output takes no 'xml' — forms: arrow, csv, "),
        ("rescale /t --partitions x", "there is no option --partitions — did you mean --where?"),
        ("count /t id=1", "'id=1' is one argument too many — did you mean --where id=1?"),
        ("drop-partitions /t --where a=1 b=1", "'b=1' is one argument too many — did you mean --where b=1?"),
        ("rollback /t --tag a --snapshot 1", "--snapshot and --tag can't be given together"),
        ("read /t --no x", "--no may be any of --no-header, --no-progress: write it whole"),
    ],
)
def test_mistakes_are_told_in_plain_words(capsys: pytest.CaptureFixture[str], typed: str, said: str) -> None:
    assert said in _mistake(capsys, *typed.split())


def test_a_path_is_no_new_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "shop.db" / "t", {"id": [1]})
    for given, meant in (("wh/shop.db/u", "shop.u"), ("./u", "u"), ("/wh/shop.db/u/", "shop.u")):
        assert main(["rename", table.path, given]) == 1
        assert capsys.readouterr().err.endswith(f"is no path: {given!r} — did you mean {meant}?\n")


def test_help_is_what_a_newcomer_types(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command, and as a command."""
    assert "a command is missing" in _mistake(capsys)
    for typed, first in (("", "paimon-pyds"), ("read", "paimon-pyds read"), ("index", "paimon-pyds index")):
        with pytest.raises(SystemExit) as caught:
            main(["help", *typed.split()])
        assert caught.value.code == 0 and capsys.readouterr().out.startswith(f"usage: {first} [-h]")
    with pytest.raises(SystemExit):
        main([])
    assert "read                Print rows." in capsys.readouterr().out


def test_names_of_other_tools_lead_to_commands_and_options_that_there_are() -> None:
    found: set[str] = set()

    def walk(parser: argparse.ArgumentParser) -> None:
        for action in parser._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    found.add(name)
                    walk(child)

    walk(build_parser())
    for names in (mistakes._COMMANDS, mistakes._OPTIONS):
        meant = {name for targets in names.values() for name in targets.split()}
        assert meant <= found, meant - found


def test_python_m_and_version() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"paimon-pyds {pp.__version__}\n", "")


def test_a_reader_that_stops_early_is_no_error(warehouse: str) -> None:
    path = f"{warehouse}/shop.db/orders"
    pp.Table.open(path).append({"id": range(100_000)})
    for form in ("json", "csv", "arrow"):
        line = f"{' '.join(PROGRAM)} read {path} --output {form} | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.stdout.split(), done.stderr) == (["10", "0"], "")


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.8])
def test_ctrl_c_is_silent_at_any_moment(tmp_path: Path, after: float) -> None:
    """Also during imports: the status is that of an interrupted command, and nothing is printed."""
    os.mkfifo(tmp_path / "rows.csv")  # the command waits for rows
    command = [*PROGRAM, "write", str(tmp_path / "t"), str(tmp_path / "rows.csv"), "--create"]
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, *command[3:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=600)
    assert (process.returncode, out, error) == (130, b"", b"")


def test_completion(tmp_path: Path) -> None:
    for shell, word in (("bash", "complete "), ("zsh", "#compdef"), ("fish", "complete --command paimon-pyds")):
        done = subprocess.run([*PROGRAM, "completion", shell], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and word in done.stdout
        if shutil.which(shell):
            checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
            assert (checked.returncode, checked.stderr) == (0, "")

    def completed(line: str) -> list[str]:
        found = tmp_path / "completions"
        env = {**os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)),
               "_ARGCOMPLETE_STDOUT_FILENAME": str(found), "_ARGCOMPLETE_IFS": "\n"}  # fmt: skip
        subprocess.run([*PROGRAM], env=env, check=False, capture_output=True)
        return [word.strip() for word in found.read_text().split("\n")]

    assert completed("paimon-pyds des") == ["describe"]
    assert {"rewrite", "verify"} <= set(completed("paimon-pyds index "))
    assert completed("paimon-pyds read /t --fil") == ["--filter"]
    assert "hilbert" in completed("paimon-pyds compact /t --order ")
