"""Dry runs follow one rule: a call does what its name says, ``dry_run=True`` and ``--dry-run`` change nothing. On the
command line what removes rows or states that are named asks first, and ``--yes`` goes on without a question."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import paimon_pyds as pp
from paimon_pyds.base.secrets import human_bytes
from paimon_pyds.cli.main import main
from paimon_pyds.cli.program import commands, program
from paimon_pyds.ops.migration.migrate import migrate
from support.surface import catalog_calls, spark_calls, table_calls

CALLS = [
    "compact", "truncate", "maintenance.drop_partitions", "migrate", "tags.create", "tags.rename", "tags.delete",
    "tags.expire",
    "tags.create_due", "branches.create", "branches.rename", "branches.delete", "branches.fast_forward",
    "snapshots.expire", "snapshots.rollback", "snapshots.expire_changelogs", "maintenance.rescale",
    "maintenance.reset_consumer", "maintenance.clear_consumers", "maintenance.expire_partitions",
    "maintenance.mark_partitions_done", "maintenance.compact_manifests", "maintenance.analyze", "maintenance.clone",
    "maintenance.purge", "maintenance.remove_orphan_files", "maintenance.repair",
    "maintenance.remove_unexisting_files",
]  # fmt: skip
"""What does a dry run in Python; the command has the same name."""
COMMANDS = [name.replace(".", " ").replace("_", "-") for name in CALLS]
ASKING = (
    "maintenance purge", "truncate", "maintenance drop-partitions", "snapshots rollback", "tags delete",
    "branches delete",
    "branches fast-forward", "maintenance remove-orphan-files", "maintenance remove-unexisting-files", "drop",
    "drop-database",
)  # fmt: skip


def _callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    spark = pytest.importorskip("paimon_pyds.spark")
    for calls in (table_calls(), catalog_calls(), spark_calls(spark)):
        yield from calls.items()
    yield "migrate", migrate


def test_dry_run_is_false_by_default_everywhere() -> None:
    found = [(name, call) for name, call in _callables() if "dry_run" in inspect.signature(call).parameters]
    assert {name for name, _ in found} == set(CALLS)
    for name, call in found:
        assert inspect.signature(call).parameters["dry_run"].default is False, name
        text = " ".join((inspect.getdoc(call) or "").split())
        assert "and change nothing; False by default" in text.partition("dry_run: ")[2], name


def test_each_command_has_it_and_says_so_in_its_help() -> None:
    options = {
        name: {option: param for param in command.params for option in param.opts if isinstance(param, click.Option)}
        for name, command in commands(program)
    }
    assert {name for name, known in options.items() if "--dry-run" in known} == set(COMMANDS)
    for name in COMMANDS:
        assert str(options[name]["--dry-run"].help).endswith(", and change nothing")
    assert {name for name, known in options.items() if "--yes" in known} == set(ASKING)
    for name in ASKING:
        assert options[name]["--yes"].help == "do it without a confirmation; needed where there is no terminal"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _world(path: Path) -> pp.Table:
    table = pp.Table.create(path / "shop.db" / "t", "id BIGINT, p INT", partition_by="p")
    table.append({"id": [1, 2], "p": [1, 2]})
    table.tags.create("first")
    table.branches.create("b", "first")
    table.append({"id": [3], "p": [1]})
    table.tags.create("second")
    table.branches.create("c", "second")
    return table


def _files(table: pp.Table) -> list[str]:
    return sorted(str(path) for path in Path(table.path).rglob("*") if path.is_file())


GIVEN: dict[str, list[str]] = {
    "maintenance purge": ["--named-states"], "maintenance drop-partitions": ["--where", "p = 1"],
    "snapshots rollback": ["--snapshot", "1"], "tags delete": ["second"], "branches delete": ["c"],
    "branches fast-forward": ["b"], "maintenance remove-orphan-files": ["--older-than", "0 s"],
}  # fmt: skip


@pytest.mark.parametrize("command", ASKING)
def test_what_removes_asks_first(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    table = _world(tmp_path)
    if command.endswith("orphan-files"):
        Path(table.path, "p=1", "bucket-0", "data-1.parquet").write_bytes(b"1")
        os.utime(Path(table.path, "p=1", "bucket-0", "data-1.parquet"), (0, 1e9))
    if command.endswith("unexisting-files"):
        Path(table.system.read("files")["file_path"][0].as_py()).unlink()
    where = [str(tmp_path), "shop", "--cascade"] if command == "drop-database" else [table.path]
    words = [*command.split(), *where, *GIVEN.get(command, [])]
    before = _files(table)

    def run(stdin: io.StringIO | None, *more: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", stdin)
        return main([*words, *more]), capfd.readouterr().err

    for nobody in (None, io.StringIO("y\n")):
        status, error = run(nobody)
        assert status == 1 and "no terminal to ask for confirmation: " in error and "add --yes" in error
        assert ("--dry-run, which only shows what would go" in error) == (command in COMMANDS)
    for answer in ("", "n\n", "no\n", "\n"):
        status, error = run(_Terminal(answer))
        assert status == 1 and error.endswith("? [y/N] paimon-pyds: nothing was changed\n"), error
        assert "would" in error or command.startswith("drop")
    if command in COMMANDS:
        assert run(None, "--dry-run")[0] == 0
    assert _files(table) == before
    assert run(_Terminal("y\n"))[0] == 0
    assert _files(table) != before


@pytest.mark.parametrize("command", ASKING)
def test_yes_goes_on_without_a_question(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _world(tmp_path)
    if command.endswith("unexisting-files"):
        Path(table.system.read("files")["file_path"][0].as_py()).unlink()
    monkeypatch.setattr(sys, "stdin", None)
    where = [str(tmp_path), "shop", "--cascade"] if command == "drop-database" else [table.path]
    assert main([*command.split(), *where, *GIVEN.get(command, []), "--yes"]) == 0


def test_rows_that_leave_the_newest_state_stay_in_older_snapshots(tmp_path: Path) -> None:
    table = _world(tmp_path)
    planned = table.maintenance.drop_partitions("p = 1", dry_run=True)
    text = "1 partition, 2 data files ({}) {} the newest state, {} older snapshots keep their rows, in 0."
    size = human_bytes(planned.bytes)
    assert repr(planned).startswith(f"RemovalSummary: {text.format(size, 'would leave', 2)}")
    done = table.maintenance.drop_partitions("p = 1")
    assert (done.older_snapshots, done.data_files, done.partitions) == (2, 2, ("p=1",))
    assert repr(done).startswith(f"RemovalSummary: {text.format(size, 'left', 2)}")
    assert (table.count(), table.scan(snapshot=2).count()) == (1, 3)
    emptied = table.truncate()
    assert emptied.older_snapshots == 3 and "left the newest state, 3 older snapshots keep their rows" in repr(emptied)
    assert repr(table.truncate()).startswith("RemovalSummary: nothing removed in ")
    assert table.truncate().older_snapshots == 0
    table.append({"id": [1], "p": [20200101]})
    options = {"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyyMMdd"}
    old = table.maintenance.expire_partitions(options={**options, "partition.timestamp-pattern": "$p"})
    assert (old.partitions, old.older_snapshots, table.count()) == (("p=20200101",), 5, 0)
