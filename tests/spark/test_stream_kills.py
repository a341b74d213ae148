"""Processes of a stream are killed at each step of its micro-batches; the tables have each row once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from support.effort import LONG, SEED, sampled
from support.stream_driver import KINDS, STEPS, KilledStream

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
KILLS = 60 if LONG else 3
"""For each kind of table."""
pytestmark = pytest.mark.smoke


@pytest.mark.slow
@pytest.mark.parametrize("kind", sampled(KINDS, 2))
def test_each_row_is_there_once_whichever_step_is_killed(tmp_path: Path, kind: str) -> None:
    stream = KilledStream(tmp_path, kind, SEED, has_limits=HAS_LIMITS)
    while stream.kills.total() < KILLS:
        stream.work()
        stream.run()
        if stream.random.random() < 0.1:
            stream.check()
    stream.check()
    print(kind, dict(stream.kills), "commits forgotten:", stream.forgotten)
    assert not LONG or (set(stream.kills) >= set(STEPS) and stream.forgotten)
