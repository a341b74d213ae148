"""Java Paimon and paimon_pyds write the same tables in turn: after each step both read the same."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.base.types import Kind, parse_type
from support.effort import LONG
from support.java_quirks import asks_for_nulls, is_coarse, leaves
from support.java_steps import SharedWorld
from support.oracle import Batch, Oracle, Reply
from support.shared_worlds import JAVA_NAMES, filters, kept_lines, one_zero, pools, told
from support.table_model import to_tree
from support.values import lines

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

SEEDS = range(8 if LONG else 1)
TABLES, ROUNDS = (30, 6) if LONG else (8, 2)
Expected = list[tuple[SharedWorld, Reply, list[str], str]]


def ask(batch: Batch, world: SharedWorld, expected: Expected) -> None:
    """Have Java read the table, and filter it, and note down what is right at this point."""
    expected.append((world, batch.read(world.warehouse, "db.t", allow_fail=True), kept_lines(world), ""))
    for condition, asked in java_filters(world):
        reply = batch.read(world.warehouse, "db.t", filter=asked, allow_fail=True)
        expected.append((world, reply, kept_lines(world, condition), str(asked)))


def java_filters(world: SharedWorld) -> list[tuple[Any, dict[str, Any]]]:
    """Filters that Java gets right.

    It loses rows of its own ORC files by CHAR columns, which it pads there, and by columns of floating-point numbers:
    where the first value of a stripe is NaN, its statistics are NaN, which it takes to match nothing.
    """
    types = {c.name: parse_type(c.type) for c in world.model.columns}
    wrong = {n for n, t in types.items() if t.kind in (Kind.CHAR, Kind.FLOAT, Kind.DOUBLE) and world.format == "orc"}
    found = [(c, f) for c, f in filters(world, 2) if not is_coarse(f, types) and not asks_for_nulls(f)]
    return [(c, f) for c, f in found if wrong.isdisjoint(leaf["field"] for leaf in leaves(f))]


def check_ours(world: SharedWorld) -> None:
    story = "\n".join(world.log)
    assert one_zero(world, lines(world.table.scan().to_arrow())) == kept_lines(world), story
    for _ in range(2):
        condition = world.condition(2, micros=False)
        found = world.table.scan(to_tree(condition)).to_arrow()
        assert one_zero(world, lines(found)) == kept_lines(world, condition), f"{condition}\n{story}"


@pytest.mark.parametrize("seed", SEEDS)
def test_both_read_the_same_after_each_step(seed: int, oracle: Oracle) -> None:
    rng, values = random.Random(seed), pools(seed, TABLES // 2)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        worlds = [
            SharedWorld(rng.choice(values), rng.randrange(2**48), Path(directory, str(n), "db.db", "t"), [], JAVA_NAMES)
            for n in range(TABLES)
        ]
        for _ in range(ROUNDS):
            for world in worlds:
                world.step()
                check_ours(world)
            expected: Expected = []
            with oracle.batch() as batch:
                for world in worlds:
                    ask(batch, world, expected)
                    world.java_step(batch)
                    ask(batch, world, expected)
            for world, reply, right, asked in expected:
                story = "\n".join([asked, *world.log])
                assert reply.ok, f"{reply.error[:3000]}\n{story}"
                assert told(reply, world) == right, story
            for world in worlds:
                world.reopen()
                check_ours(world)
