"""Every public call while a file is gone, renamed, replaced or of another type between two of its I/O calls.

Whatever happens ends in the right rows or in a `PaimonError`, and what was changed is a change of one of the states
that the table had: nothing can tell a snapshot that somebody removed just then from one that never was.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import support.meddled_calls as calls
from paimon_pyds.errors import PaimonError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage.local import LocalFileIO
from support.effort import LONG, SEED, sampled
from support.meddler import DAMAGES, HOOKS, Meddler, meddling

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning", "ignore::DeprecationWarning")

ALL = calls.READS | calls.LOOKS | calls.CHANGES


@dataclass(frozen=True)
class Case:
    """One thing that happens beside one call."""

    kind: str
    call: str
    damage: str
    at: float
    after: bool
    seed: int

    @staticmethod
    def drawn(chance: random.Random, kind: str, call: str) -> Case:
        damage = chance.choice(sorted(DAMAGES))
        return Case(kind, call, damage, chance.random(), chance.random() < 0.2, chance.randrange(1_000_000))


class World:
    """Tables of all kinds, the I/O calls of each public call, and what it may end in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    @cache  # noqa: B019 - as long as the tests of a module
    def prepared(self, kind: str) -> Path:
        path = self._directory / kind
        calls.made(kind, path)
        return path

    def copy(self, kind: str) -> Path:
        self._count += 1
        return Path(shutil.copytree(self.prepared(kind), self._directory / f"run-{self._count}"))

    @cache  # noqa: B019
    def length(self, kind: str, call: str) -> int:
        """How many I/O calls it makes; 0 where a table of this kind refuses it."""
        path = self.copy(kind)
        with meddling(Meddler(path)) as meddler:
            end = _end(call, path)
        shutil.rmtree(path)
        return 0 if isinstance(end, PaimonError) else len(meddler.calls)

    @cache  # noqa: B019
    def allowed(self, kind: str, call: str) -> list[Any]:
        """What a read may give, or what rows a change may leave: on each state that the table had, and on none."""
        found = []
        for last in range(_snapshots(self.prepared(kind)) + 1):
            path = self.copy(kind)
            for file in (path / "shop.db/t/snapshot").glob("*"):
                if not file.name.startswith("snapshot-") or int(file.name[9:]) > last:
                    file.unlink()
            found.append(_rows(path))
            end = _end(call, path)
            found.append(end if call in calls.READS else _rows(path))
            shutil.rmtree(path)
        return found

    def check(self, case: Case) -> None:
        """Raises AssertionError, or whatever the call raises that is no PaimonError."""
        length = self.length(case.kind, case.call)
        if not length:
            return
        path = self.copy(case.kind)
        with meddling(Meddler(path, int(case.at * length), case.damage, case.seed, case.after)):
            end = _end(case.call, path)
        if case.call in calls.READS:
            if not isinstance(end, PaimonError):
                assert end in self.allowed(case.kind, case.call)
        elif case.call in calls.CHANGES:
            rows = _rows(path)
            if not isinstance(rows, PaimonError):
                assert rows in self.allowed(case.kind, case.call)
        shutil.rmtree(path, ignore_errors=True)  # it may be gone as a whole


def _fresh() -> None:
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()


def _end(call: str, path: Path) -> Any:
    """What a call gives, or its error."""
    _fresh()
    try:
        return ALL[call](path)
    except PaimonError as error:
        return error


def _rows(path: Path) -> Any:
    _fresh()
    try:
        return calls.texts(calls.opened(path).scan().to_arrow())
    except PaimonError as error:
        return error


def _snapshots(path: Path) -> int:
    return max(s.id for s in calls.opened(path).snapshots.list())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        for method, through in HOOKS.items():
            patch.setattr(LocalFileIO, method, through)
        patch.setattr(time, "sleep", lambda seconds: None)
        yield World(tmp_path_factory.mktemp("meddled"))


@pytest.mark.parametrize("kind", sampled(calls.TABLES, 3))
def test_each_call_ends_well(world: World, kind: str) -> None:
    chance = random.Random(f"{SEED} {kind}")
    for call in sorted(ALL) if LONG else chance.sample(sorted(ALL), 3):
        for _ in range(8 if LONG else 1):
            case = Case.drawn(chance, kind, call)
            try:
                world.check(case)
            except BaseException as error:
                error.add_note(str(case))
                raise
