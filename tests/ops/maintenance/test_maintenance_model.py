"""Any sequence of writes and of what keeps a table healthy: every state that is left shows the rows that it had, and
the files that are there are those that some state needs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.effort import LONG
from support.maintenance_world import KINDS, STEPS, World
from support.oracle import Oracle, requires_java_oracle

_SEQUENCES = (
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(STEPS), min_size=8, max_size=24),
)


_LEFT_BY_ROLLBACK = (
    "expire changelogs", "delete branch", "branch expire changelogs", "overwrite", "compact manifests",
    "branch compact", "tag", "branch tag", "compact", "drop partition", "tag", "rollback to tag", "delete consumer",
    "delete branch", "branch", "branch delete", "append", "append", "append", "rollback to tag",
)  # fmt: skip
"""After these steps, manifests name a file as added and as deleted that no state needs."""


@contextmanager
def _after(kind: str, seed: int, steps: Sequence[str]) -> Iterator[World]:
    """A table after these steps, each of which was checked."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory, "db.db", "t"), kind, random.Random(seed))
        for step in ("append", "append", "tag", *steps):
            world.step(step)
            world.check()
        yield world


@settings(max_examples=100 if LONG else 1, deadline=None)
@given(*_SEQUENCES)
@example("changelog", 15985, list(_LEFT_BY_ROLLBACK))
def test_what_each_state_shows_stays(kind: str, seed: int, steps: list[str]) -> None:
    with _after(kind, seed, steps):
        pass


@pytest.mark.long
@requires_java_oracle
@settings(max_examples=1000, deadline=None)
@given(*_SEQUENCES)
def test_java_reads_what_is_left(oracle: Oracle, kind: str, seed: int, steps: list[str]) -> None:
    with _after(kind, seed, steps) as world:
        world.read_by_java(oracle)
