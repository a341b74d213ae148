"""Tables with a primary key against a model, engine by engine: random keys, kinds, orders, compactions, restarts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, note, settings

from support.effort import LONG, sampled
from support.key_model import ENGINES
from support.key_world import KeyWorld
from support.table_world import POOLS, SEEDS, Pools

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

_SEQUENCES = int(os.environ.get("PAIMON_PYDS_SEQUENCES", "1000" if LONG else "3"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", sampled(ENGINES, 1))
@settings(max_examples=_SEQUENCES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(pools=POOLS, seed=SEEDS)
def test_a_table_is_its_model_after_each_step(name: str, pools: Pools, seed: int) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        log: list[str] = []
        try:
            world = KeyWorld(ENGINES[name], pools, seed, Path(directory, "t"), log)
            for _ in range(world.random.randint(3, 8)):
                world.step()
        except BaseException:
            note("\n".join(log))
            raise
