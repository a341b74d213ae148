"""Clocks of time zones, for whole columns, against each time alone."""

from __future__ import annotations

import itertools
import random
import zoneinfo
from zoneinfo import _zoneinfo  # type: ignore[attr-defined]

import pyarrow as pa
import pytest

from paimon_pyds.base.types import sql_values as values
from paimon_pyds.sql.expression.cast import to_instant, to_local
from paimon_pyds.sql.expression.coercion import TIMESTAMP
from support.effort import sampled

ZONES = [
    "America/Los_Angeles", "Asia/Kolkata", "Africa/Freetown", "America/Sao_Paulo", "America/Havana", "Africa/Monrovia",
    "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza", "Africa/Casablanca", "Europe/Dublin", "+05:30", "UTC",
]  # fmt: skip
HOUR = 3_600_000_000
LOCAL = pa.timestamp("us")


def changes(name: str) -> list[int]:
    """When clocks of a zone were put forward or back, in seconds since 1970, by Python's own reading of its file."""
    zone = _zoneinfo.ZoneInfo(name)
    kinds = [zone._tti_before, *zone._ttinfos]
    distances = [kind.utcoff if kind else None for kind in kinds]
    return [at for at, (a, b) in zip(zone._trans_utc, itertools.pairwise(distances), strict=False) if a != b]


def times(zone: str) -> list[int | None]:
    """Around all changes that a zone has, and anywhere."""
    random_ = random.Random(zone)
    found: list[int | None] = [random_.randrange(-(6 * 10**16), 25 * 10**16) for _ in range(2_000)]
    for at in changes(zone) if "/" in zone else []:
        found += [at * 1_000_000 + random_.randrange(-30 * HOUR, 30 * HOUR) for _ in range(10)]
        found += [at * 1_000_000 + step * HOUR // 2 + random_.randrange(-1, 2) for step in range(-4, 5)]
    return [*found, None]


@pytest.mark.parametrize("zone", sampled(ZONES, 6))
def test_columns_are_as_each_time_alone(zone: str) -> None:
    where, counts = values.time_zone(zone), times(zone)
    instants = pa.array(counts, pa.int64()).view(pa.timestamp("us", "UTC"))
    expected = [None if c is None else values.instant_to_local(c, where) for c in counts]
    assert to_local(instants, TIMESTAMP, zone).view(pa.int64()).to_pylist() == expected
    walls = pa.array(counts, pa.int64()).view(LOCAL)
    expected = [None if c is None else values.local_to_instant(c, where) for c in counts]
    assert to_instant(walls, TIMESTAMP, zone).view(pa.int64()).to_pylist() == expected


def test_no_zone_moves_away_and_back_within_three_days() -> None:
    """So the clocks at the beginning and the end of a day are those of the whole day, where they are the same."""
    short = [
        name
        for name in sorted(zoneinfo.available_timezones())
        for a, b in itertools.pairwise(changes(name))
        if b - a < 3 * 86_400
    ]
    assert not short
