"""A follower while random operations change its table: see `support.follower_world`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.effort import LONG, SEED
from support.follower_world import KINDS, FollowerWorld, play

_SEQUENCES = 200 if LONG else 1
"""Of each kind of table."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_follower_has_seen_is_the_table(tmp_path: Path, kind: str) -> None:
    for number in range(_SEQUENCES):
        play(FollowerWorld(tmp_path, kind, SEED + number))
