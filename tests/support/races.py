"""Commits that meet other commits: one that comes in at the worst moment, and processes that work at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from paimon_pyds.base.retry import Pauses
from paimon_pyds.metadata.store import TableStore
from support.victims import started


def race(monkeypatch: pytest.MonkeyPatch, theirs: Callable[[], Any], times: int = 1) -> list[int]:
    """Has another commit come in just before the next one is published, or before each of some; the numbers of the
    snapshots that were late."""
    create = TableStore.try_create_snapshot
    came: list[int] = []
    busy: list[int] = []

    def late(self: TableStore, snapshot: Any) -> bool:
        if len(came) < times and not busy:
            busy.append(snapshot.id)
            theirs()
            came.append(busy.pop())
        return create(self, snapshot)

    monkeypatch.setattr(TableStore, "try_create_snapshot", late)
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    return came


def at_once(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *preload: str) -> list[Any]:
    """What processes that work at the same time say at their end, each down a pipe, its last argument.

    Args:
        work: of a module, so that it can be found by its name.
        arguments: of each process.
        preload: modules that all need, besides `support.victims.PRELOAD`.
    """
    workers, pipes = started(work, arguments, *preload)
    said = [hears.recv() for hears in pipes]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return said
