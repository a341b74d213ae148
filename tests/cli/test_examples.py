"""The examples that each command's help ends with: they run one after the other, in a shell."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.cli.examples import EXAMPLES
from paimon_pyds.cli.main import main
from paimon_pyds.cli.program import Group, commands, program
from paimon_pyds.table import Table

_NEW_TABLES = {"create", "migrate", "--create"}
"""Commands whose options are a table's own: these may have any name, as in Java."""
ROWS = """id,color,price,day
1,red,1.50,2026-11-22
2,blue,2.00,2026-11-21
7,,,2026-11-22
"""
CONFIG = """[catalogs.prod]
metastore = "jdbc"
uri = "jdbc:sqlite:catalog.db"
warehouse = "warehouse"
"""


LEAVES = {name: found for name, found in commands(program) if not isinstance(found, Group)}


def _help(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*name.split(), "--help"]) == 0
    return capsys.readouterr().out


def test_each_command_has_examples_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(LEAVES) == set(EXAMPLES)
    for name in LEAVES:
        text = _help(name, capsys)
        shown = re.sub(r" \\\n +", " ", text.partition("\nExamples:\n")[2])
        assert [line.strip() for line in shown.splitlines()] == EXAMPLES[name]
        assert max(map(len, text.splitlines())) <= 80, name


def _inputs(folder: Path) -> None:
    (folder / "orders.csv").write_text(ROWS)
    (folder / "today.csv").write_text(ROWS.replace("2,blue,2.00,2026-11-21\n", ""))
    (folder / "changes.csv").write_text("id,color,price,day\n7,green,3.10,2026-11-22\n8,red,,2026-11-22\n")
    (folder / "gone.csv").write_text("id,day\n2,2026-11-21\n9,2026-11-22\n")
    (folder / "filters.txt").write_text("color = 'red'\nid = 7\n")
    pq.write_table(pa.table({"id": [1], "day": ["2026-11-22"]}), folder / "items.parquet")
    (folder / "events/day=2026-11-22").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "events/day=2026-11-22/part-0.parquet")


@pytest.mark.parametrize("in_process", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_examples_run(
    tmp_path: Path, in_process: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process where a line is one command, in a shell where it is more; or all of them in a shell."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    _inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("PAIMON_PYDS_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "paimon-pyds").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m paimon_pyds "$@"\n')
    (tmp_path / "paimon-pyds").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for line in (line for lines in EXAMPLES.values() for line in lines):
        if "data-1.parquet.index" in line:
            line = line.replace("data-1.parquet.index", _a_container())
        words = shlex.split(line)
        if in_process and "|" not in words and words[0] == "paimon-pyds":
            takes = next(leaf for name, leaf in LEAVES.items() if " ".join(words[1:]).startswith(f"{name} "))
            if _NEW_TABLES.isdisjoint(words) and any("--option" in option.opts for option in takes.params):
                assert main([*words[1:], "--option", "no.such=1"]) != 0, line
                said = capfd.readouterr().err
                assert "no.such" in said or "takes no options" in said, line
            assert main(words[1:]) == 0, f"{line}\n{capfd.readouterr().err}"
        else:
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=600)
            assert done.returncode == 0 and "rror" not in done.stderr, f"{line}\n{done.stderr}"
    assert pq.read_table(tmp_path / "orders.parquet").num_rows == 3
    assert (tmp_path / "explain.html").read_text().startswith("<!DOCTYPE html>")
    assert not list(warehouse.iterdir())


def _a_container() -> str:
    """A side file of the table's indexes."""
    orders = "warehouse/shop.db/orders"
    assert main(["alter", orders, "--set", "file-index.in-manifest-threshold=1b"]) == 0
    assert main(["index", "build", orders, "--rebuild"]) == 0
    return Table.open(orders).index.dump()[0].container
