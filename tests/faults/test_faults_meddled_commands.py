"""Commands while a file is gone, renamed or of another type between two of their I/O calls: they end with a status and
one message, which is no Python error."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import support.meddled_calls as calls
from paimon_pyds.cli.main import main
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage.local import LocalFileIO
from support.effort import LONG, SEED
from support.meddler import DAMAGES, HOOKS, Meddler, meddling

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning", "ignore::DeprecationWarning")

COMMANDS = [
    line.split()
    for line in """
    scan T --where v=1
    scan T --tag early --output json
    count T
    exists T --where id=7
    distinct T v
    min T id
    explain T --where v=1 --analyze
    describe T
    tables W
    create W/shop.db/n id
    migrate W/files W/shop.db/m
    alter T --set snapshot.num-retained.min=2
    drop T --yes
    append T W/rows.parquet
    overwrite T W/rows.parquet
    delete T --where v=1
    update T --set v=v+1 --where id<5
    merge T --source W/rows.parquet --on id --when-matched delete
    compact T --full
    truncate T --yes
    maintenance drop-partitions T --where p='a' --yes
    tags list T
    tags create T new
    tags delete T early --yes
    branches list T
    branches fast-forward T b --yes
    branches delete T b --yes
    snapshots list T
    snapshots diff T 1 --summary
    snapshots rollback T --snapshot 2 --yes
    snapshots expire T --retain-max 1 --retain-min 1
    index dump T
    index build T --rebuild
    index verify T
    index layout T
    maintenance verify T --deep
    maintenance repair T
    maintenance remove-orphan-files T --dry-run
    maintenance purge T --yes --named-states
    maintenance analyze T
    system read T files
    system audit-log T
    """.strip().splitlines()
]


class _Commands:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    @cache  # noqa: B019 - as long as the tests of a module
    def prepared(self, kind: str) -> Path:
        path = self._directory / kind
        calls.made(kind, path)
        calls.pq.write_table(calls.rows(4, 7), path / "rows.parquet")
        return path

    def run(self, kind: str, command: list[str], how: tuple[int, str, int] | None) -> tuple[int, int]:
        """The status of a command, and its number of I/O calls."""
        self._count += 1
        path = Path(shutil.copytree(self.prepared(kind), self._directory / f"run-{self._count}"))
        given = ["id INT" if part == "id" and command[0] == "create" else part for part in command]
        given = [{"T": f"{path}/shop.db/t", "W": f"{path}"}.get(part, part) for part in given]
        given = [f"{path}{part[1:]}" if part.startswith("W/") else part for part in given]
        METADATA_CACHE.clear()
        OPEN_INDEXES.clear()
        with meddling(Meddler(path, *(how or ()))) as meddler:
            status = main(given)
        shutil.rmtree(path, ignore_errors=True)
        return status, len(meddler.calls)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Commands]:
    with pytest.MonkeyPatch.context() as patch:
        for method, through in HOOKS.items():
            patch.setattr(LocalFileIO, method, through)
        patch.setattr(time, "sleep", lambda seconds: None)
        yield _Commands(tmp_path_factory.mktemp("commands"))


@pytest.mark.parametrize("kind", list(calls.TABLES) if LONG else ["vectors", "key"])
def test_a_command_ends_with_a_status_and_a_message(
    commands: _Commands, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(f"{SEED} {kind}")
    for command in COMMANDS if LONG else chance.sample(COMMANDS, 7):
        status, count = commands.run(kind, command, None)
        said = capsys.readouterr().err
        assert status in (0, 1), (command, said)  # a kind of table may refuse it
        for _ in range(6 if LONG else 1):
            how = (chance.randrange(count), chance.choice(sorted(DAMAGES)), chance.randrange(1_000_000))
            status, _ = commands.run(kind, command, how)
            shown = capsys.readouterr()
            assert status in (0, 1), (command, how, shown.err)
            assert "unexpected" not in shown.err and "Traceback" not in shown.err, (command, how, shown.err)
            assert not status or (shown.err + shown.out).strip(), (command, how)  # it says why
