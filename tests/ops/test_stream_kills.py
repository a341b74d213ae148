"""A stream's process is killed at random moments, some hundred times in long runs: the table has each row once."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from support.effort import SEED, sampled
from support.stream_world import KINDS, StreamWorld


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_each_row_is_there_once_whenever_a_stream_is_killed(tmp_path: Path, kind: str) -> None:
    world = StreamWorld(tmp_path / "t", kind, SEED)
    for number in count():
        world.commit(number)
        if number >= 5 and world.kills:  # moments are drawn, and may all come after the last call
            break
    world.check()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_there_once_after_many_kills(tmp_path: Path, kind: str) -> None:
    kills = repeats = run = 0
    while kills < 40:
        world = StreamWorld(tmp_path / f"t{run}", kind, SEED + run)
        for number in range(25):
            world.commit(number)
            world.check()
        kills, repeats, run = kills + world.kills, repeats + world.repeats, run + 1
    assert repeats
