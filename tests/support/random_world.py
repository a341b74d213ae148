"""Tables with random histories on a disk of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from hypothesis import note

from paimon_pyds.engine.read import small_files
from support.table_world import Pools, World


@contextmanager
def random_world(pools: Pools, seed: int, kind: type[World] = World) -> Iterator[World]:
    """A table with a random history, which is shown where a test fails. Half of the seeds read each file by itself."""
    most = small_files.MOST_ROWS if seed % 2 else 0
    with (
        mock.patch.object(small_files, "MOST_ROWS", most),
        tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory,
    ):
        log: list[str] = []
        try:
            made = kind(pools, seed, Path(directory, "t"), log)
            for _ in range(made.random.randint(1, 6)):
                made.step()
            yield made
        except BaseException:
            note("\n".join(log))
            raise
