"""Executors on this machine that send tasks, results and data as Spark's does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paimon_pyds.engine.execution.executor import LocalExecutor


class Pickling:
    """An executor whose tasks and results travel."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        for task in tasks:
            there, given = pickle.loads(pickle.dumps((function, task)))
            yield pickle.loads(pickle.dumps(there(given)))


class ShufflingWorkers(LocalExecutor):
    def shuffle(self, split: Any, tasks: Sequence[Any], gather: Any, parts: int) -> Iterator[Any]:
        pieces: dict[int, list[bytes]] = {}
        for part, piece in (found for task in tasks for found in split(task)):
            assert 0 <= part < parts
            pieces.setdefault(part, []).append(piece)
        return (gather(part, iter(found)) for part, found in pieces.items())
