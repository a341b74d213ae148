"""Tables with random histories on a disk of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import note

from support.table_world import Pools, World


@contextmanager
def random_world(pools: Pools, seed: int, kind: type[World] = World) -> Iterator[World]:
    """A table with a random history, which is told where a test fails."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        log: list[str] = []
        try:
            made = kind(pools, seed, Path(directory, "t"), log)
            for _ in range(made.random.randint(1, 6)):
                made.step()
            yield made
        except BaseException:
            note("\n".join(log))
            raise
