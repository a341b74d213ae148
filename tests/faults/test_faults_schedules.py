"""Actors on one table, one I/O call at a time: some order of those that succeeded explains the end of every schedule.

A failure tells the kind of table and the seed: ``PAIMON_PYDS_SEED=<seed> PAIMON_PYDS_SCHEDULES=1 pytest -k …``
runs that schedule again.
"""

from __future__ import annotations

import os

import pytest

from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.effort import LONG, SEED
from support.key_schedule_world import KEY_KINDS, KeyWorld
from support.schedule_world import KINDS, World

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
_SCHEDULES = int(os.environ.get("PAIMON_PYDS_SCHEDULES", "20000" if LONG else "15"))


def _run(world: type[World], kind: str, schedules: int, faults: float) -> None:
    for seed in range(SEED, SEED + schedules):
        METADATA_CACHE.clear()
        found = world(kind, seed, faults)
        found.run()
        found.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_some_order_explains_the_end(kind: str) -> None:
    _run(World, kind, -(-_SCHEDULES // len(KINDS)), faults=0.0)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_some_order_explains_the_end_under_faults(kind: str) -> None:
    _run(World, kind, -(-_SCHEDULES // 4 // len(KINDS)), faults=0.6)


@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore:the rows are committed")
@pytest.mark.parametrize("faults", [0.0, 0.6])
@pytest.mark.parametrize("kind", KEY_KINDS)
def test_some_order_explains_the_end_of_tables_with_a_primary_key(kind: str, faults: float) -> None:
    _run(KeyWorld, kind, -(-_SCHEDULES // (6 if faults else 4) // len(KEY_KINDS)), faults)
