"""Random sequences of appends, deletes, updates, overwrites and alterations against a model in plain Python."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, note, settings

from support.effort import LONG
from support.row_world import RowWorld
from support.table_world import POOLS, SEEDS, Pools

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

EXAMPLES = settings(max_examples=1000 if LONG else 5, phases=[Phase.generate])
"""A shrunken seed is no smaller a case."""


@EXAMPLES
@given(POOLS, SEEDS)
def test_rows_are_those_of_the_model(pools: Pools, seed: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        log: list[str] = []
        try:
            world = RowWorld(pools, seed, Path(directory, "t"), log)
            world.append()
            for _ in range(world.random.randint(3, 8)):
                world.step()
                world.check()
            world.check_past()
        except BaseException:
            note("\n".join(log))
            raise
