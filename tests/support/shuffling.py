"""An executor on this machine that sends data from worker to worker, as Spark's does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paimon_pyds.execution.executor import LocalExecutor


class ShufflingWorkers(LocalExecutor):
    def shuffle(self, split: Any, tasks: Sequence[Any], gather: Any, parts: int) -> Iterator[Any]:
        pieces: dict[int, list[bytes]] = {}
        for part, piece in (found for task in tasks for found in split(task)):
            assert 0 <= part < parts
            pieces.setdefault(part, []).append(piece)
        return (gather(part, iter(found)) for part, found in pieces.items())
