"""Actors on one table, one I/O call at a time: some order of those that succeeded explains the end of every schedule.

A failure tells the kind of table and the seed: ``PAIMON_PYDS_SEED=<seed> PAIMON_PYDS_SCHEDULES=1 pytest -k …``
runs that schedule again.
"""

from __future__ import annotations

import os

import pytest
from schedule_world import KINDS, World

from paimon_pyds.metadata.store import METADATA_CACHE
from support.effort import LONG, SEED

_SCHEDULES = int(os.environ.get("PAIMON_PYDS_SCHEDULES", "20000" if LONG else "150"))


def _run(kind: str, schedules: int, faults: float) -> None:
    for seed in range(SEED, SEED - (-schedules // len(KINDS))):
        METADATA_CACHE.clear()
        world = World(kind, seed, faults)
        world.run()
        world.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_some_order_explains_the_end(kind: str) -> None:
    _run(kind, _SCHEDULES, faults=0.0)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_some_order_explains_the_end_under_faults(kind: str) -> None:
    _run(kind, max(1, _SCHEDULES // 4), faults=0.6)
