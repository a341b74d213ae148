"""Names and values that a terminal or a browser would obey: written out for people, exact in JSON."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.secrets import visible
from paimon_pyds.cli.main import main

EVIL = "a\x1b[2J\r\nrm\t\u202e<script>alert(1)</script>\x9b&\"'"
VALUES = [EVIL, "\u2066x\u2069", "plain", None]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """A table whose every name and text is hostile."""
    path = tmp_path_factory.mktemp("evil") / f"t{EVIL.replace('/', '')}"
    schema = pa.schema([("id", pa.int64()), (EVIL, pa.string()), ("s", pa.struct([(EVIL, pa.int32())])),
                        (f"p{EVIL}", pa.string())])  # fmt: skip
    made = pp.Table.create(
        path, schema, partition_by=[f"p{EVIL}"], comment=EVIL, options={f"my.{EVIL}": EVIL, "owner": EVIL}
    )
    structs = [{EVIL: i} for i in range(4)]
    made.append(pa.table([pa.array(c) for c in ([1, 2, 3, 4], VALUES, structs, VALUES)], schema=schema))
    return made


COMMANDS = [
    ["scan"], ["distinct", EVIL], ["max", EVIL], ["describe"], ["describe", "--all-options"], ["snapshots", "list"],
    ["explain", "--filter", "`{}` = 'plain'".format(EVIL.replace("`", ""))], ["system", "read", "files"],
    ["system", "read", "options"],
    ["system", "read", "partitions"], ["index", "dump"], ["index", "verify"],
    ["index", "cost", "--option", f"file-index.bitmap.columns={EVIL}"],
]  # fmt: skip


def _command(table: pp.Table, command: list[str]) -> list[str]:
    at = 2 if command[0] in ("index", "snapshots", "system") else 1
    return [*command[:at], table.path, *command[at:]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:2])[:20].encode("ascii", "replace").decode())
def test_the_command_line_writes_them_out(
    command: list[str], table: pp.Table, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(_command(table, command)) == 0
    shown = capfd.readouterr().out
    assert shown and all(visible(line) == line for line in shown.split("\n"))
    assert "\r" not in shown and "\nrm" not in shown


def test_json_is_exact_and_has_nothing_to_obey(table: pp.Table, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", table.path, "--output", "json"]) == 0
    shown = capfd.readouterr().out
    rows = [json.loads(line) for line in shown.splitlines()]
    assert sorted(rows, key=lambda r: r["id"]) == table.scan().to_arrow().sort_by("id").to_pylist()
    assert all(visible(line) == line for line in shown.split("\n"))
    assert main(["describe", table.path, "--output", "json"]) == 0
    described = json.loads(capfd.readouterr().out)
    assert described["comment"] == EVIL and described["columns"][1]["name"] == EVIL and described["path"] == table.path


def test_json_is_exact_in_every_encoding(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("rôt", pa.string())]))
    table.append(pa.table({"rôt": ["né \x9b 😀"]}))
    program = f"PYTHONIOENCODING=ascii {sys.executable} -m paimon_pyds.cli.main scan {table.path} --output json"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"rôt": "né \x9b 😀"}


@pytest.mark.parametrize(
    "arguments",
    [["scan", "T", "--columns", EVIL + "x"], ["scan", "T", "--filter", f"`{EVIL}x` = 1"], ["max", "T", EVIL + "x"],
     ["scan", "T", f"--{EVIL}"], ["scan", EVIL], ["scan", "T", "--tag", EVIL], ["system", "read", "T", EVIL],
     ["scan", "T", "--filter", f"`{EVIL.split(chr(10))[0]}` = = 1"],
     ["scan", "T", "--columns", EVIL + "x", "--verbose"],
     ["append", "T", EVIL], ["index", "evaluate", "T", EVIL, "--filter", "id = 1"]],
)  # fmt: skip
def test_errors_write_them_out(arguments: list[str], table: pp.Table, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([table.path if word == "T" else word for word in arguments]) in (1, 2)
    shown = capfd.readouterr().err
    assert shown and all(visible(line) == line for line in shown.split("\n"))
    assert not any(line.startswith("rm") for line in shown.split("\n"))


class _Seen(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names.update(name for name, _ in attrs)


def test_explanations_and_notebooks_write_them_out(table: pp.Table) -> None:
    scan = table.scan(f"`{EVIL}` = 'plain' AND id < 3", top_n=f"`{EVIL}`, 2")
    told = [table.explain(f"`{EVIL}` <> 'plain'", analyze=True), scan.explain(), table.explain(f"`p{EVIL}` = 'plain'")]
    told.append(dataclasses.replace(told[0], table=EVIL, predicate=EVIL, order=EVIL))
    told.append(dataclasses.replace(
        told[0], files=tuple(dataclasses.replace(f, path=EVIL, reason=EVIL, rows_kept=1) for f in told[0].files)
    ))  # fmt: skip
    for explanation in told:
        assert all(visible(line) == line for line in explanation.text.split("\n"))
        assert "\nrm" not in explanation.text
        for page in (explanation.html, explanation.page, table._repr_html_()):
            assert visible(page.replace("\n", "")) == page.replace("\n", "")
            seen = _Seen(page)
            assert "script" not in seen.tags and not any(name.startswith("on") for name in seen.names)
        assert json.loads(json.dumps(explanation.as_dict())) == explanation.as_dict()
    for thing in (table, table.schema, scan, table._store, told[0]):
        assert visible(repr(thing)) == repr(thing)
