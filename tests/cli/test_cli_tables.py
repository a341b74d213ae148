"""tables, create, alter, rename, drop and databases; mistakes in command lines; the shell around them."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main

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
_QUOTES = str.maketrans("", "", "'.:")


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
    assert main(arguments) == 2
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
    assert _run(capsys, "create", path, "a INT", "--ignore-if-exists") == "a table is there already\n"
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
    assert "it takes KEY=VALUE" in _mistake(capsys, "alter", path, "--set", "bucket")


def test_tables_and_databases(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "tables", warehouse, "--output", "csv") == (
        f"database,table,path\nshop,orders,{warehouse}/shop.db/orders\n"
    )
    assert _run(capsys, "create-database", warehouse, "old") == "database old is there\n"
    assert "already exists" in _run(capsys, "create-database", warehouse, "old", status=1)
    _run(capsys, "create-database", warehouse, "old", "--ignore-if-exists")
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
    assert "no terminal to ask for confirmation: drop the database old with 2 tables? — add --yes" in asked
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


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "paimon-pyds: Missing command. (paimon-pyds --help)"),
        ("index", "paimon-pyds index: Missing command."),
        ("sacn /t", "paimon-pyds: No such command 'sacn'. Did you mean scan or search?"),
        ("read /t", "paimon-pyds: No such command 'read'. Did you mean scan?"),
        ("select /t", "Did you mean scan?"),
        ("insert /t", "Did you mean append?"),
        ("verify /t", "Did you mean index verify or maintenance verify?"),
        ("index verfy /t", "paimon-pyds index: No such command 'verfy'. Did you mean verify?"),
        ("expire /t", "Did you mean tags expire or snapshots expire?"),
        ("xyzzy", "No such command 'xyzzy'. --help lists the commands."),
        ("--hlp", "No such option '--hlp'. Did you mean '--help'?"),
        ("scan /t --snapshto 1", "No such option '--snapshto'. Did you mean '--snapshot'?"),
        ("scan /t --secret-key=hunter2", "No such option '--secret-key'."),
        ("scan --secret-key=hunter2", "No such option '--secret-key'."),
        ("scan", "paimon-pyds scan: Missing argument 'TABLE_PATH'. (paimon-pyds scan --help)"),
        ("merge /t", "Missing option '--source'"),
        ("index advise /t", "Missing option '--filters' or '--filter'."),
        ("scan /t --limit x", "Invalid value for '--limit': 'x' is not a whole number."),
        ("scan /t --limit", "Option '--limit' requires an argument."),
        ("scan /t --output xml", "Invalid value for '--output': 'xml' is not one of 'text', 'json', "),
        ("scan /t --option bukcet", "Invalid value for '--option': it takes KEY=VALUE."),
        ("scan /t /u", "Got unexpected extra argument (/u)"),
        ("count /t id=1", "Got unexpected extra argument (id=1). Did you mean --where?"),
        ("scan /t --where a --filter b", "--where and --filter are two names of one condition, and it is given twice"),
    ],
)
def test_mistakes_in_command_lines(capsys: pytest.CaptureFixture[str], typed: str, said: str) -> None:
    """The wording is click's; versions of click differ in quotes."""
    line = _mistake(capsys, *typed.split())
    assert said.translate(_QUOTES) in line.translate(_QUOTES)
    assert "hunter2" not in line


def test_a_path_is_no_new_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "shop.db" / "t", {"id": [1]})
    for given, meant in (("wh/shop.db/u", "shop.u"), ("./u", "u"), ("/wh/shop.db/u/", "shop.u")):
        assert main(["rename", table.path, given]) == 1
        assert capsys.readouterr().err.endswith(f"is no path: {given!r} — did you mean {meant}?\n")


def test_help_is_what_a_newcomer_types(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command, and as a command."""
    for typed, first in (("", "paimon-pyds"), ("scan", "paimon-pyds scan"), ("index", "paimon-pyds index")):
        assert main(["help", *typed.split()]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: {first} [OPTIONS] ")
    assert main([]) == 2
    assert "scan             Print rows." in capsys.readouterr().out


def test_python_m_and_version() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"paimon-pyds {pp.__version__}\n", "")


def test_a_reader_that_stops_early_is_no_error(warehouse: str) -> None:
    path = f"{warehouse}/shop.db/orders"
    pp.Table.open(path).append({"id": range(100_000)})
    for form in ("json", "csv", "arrow"):
        line = f"{' '.join(PROGRAM)} scan {path} --output {form} | head -c 10 | wc -c; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.stdout.split(), done.stderr) == (["10", "0"], "")


@pytest.mark.parametrize("after", [0.0, 0.05, 0.2, 0.8])
def test_ctrl_c_is_silent_at_any_moment(tmp_path: Path, after: float) -> None:
    """Also during imports: the status is that of an interrupted command, and nothing is printed."""
    os.mkfifo(tmp_path / "rows.csv")  # the command waits for rows
    command = [*PROGRAM, "append", str(tmp_path / "t"), str(tmp_path / "rows.csv"), "--create"]
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, *command[3:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=600)
    assert (process.returncode, out, error) == (130, b"", b"")


def test_completion(tmp_path: Path) -> None:
    """As click's documentation sets it up."""

    def shell(how: str, **more: str) -> str:
        env = {**os.environ, "_PAIMON_PYDS_COMPLETE": how, **more}
        return subprocess.run(PROGRAM, env=env, check=False, capture_output=True, text=True).stdout

    for name, word in (("zsh", "#compdef"), ("fish", "complete --no-files --command paimon-pyds")):
        assert word in shell(f"{name}_source")

    def completed(line: str) -> list[str]:
        found = shell("zsh_complete", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1))
        return found.splitlines()[1::3]

    assert completed("paimon-pyds des") == ["describe"]
    assert {"build", "verify"} <= set(completed("paimon-pyds index "))
    assert completed("paimon-pyds scan /t --fil") == ["--filter"]
    assert "hilbert" in completed("paimon-pyds compact /t --order ")
