"""Timestamps of ORC files whose writers were in other time zones; what Java reads of them is in tests/java/interop."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.orc.zones import ORC_EPOCH, Clocks
from paimon_pyds.storage import open_file_io

NTZ = "TIMESTAMP(6)"


def _seconds(text: str) -> int:
    return int(dt.datetime.fromisoformat(text + "+00:00").timestamp())


OFFSETS = [  # what java.util.TimeZone.getOffset gives (JDK 17), in seconds
    ("America/New_York", "1850-06-01 00:00:00", -18000),
    ("America/New_York", "2020-03-08 06:59:59", -18000),
    ("America/New_York", "2020-03-08 07:00:00", -14400),
    ("America/New_York", "2020-11-01 05:59:59", -14400),
    ("America/New_York", "2020-11-01 06:00:00", -18000),
    ("America/New_York", "2100-07-01 00:00:00", -14400),
    ("America/New_York", "9000-01-15 00:00:00", -18000),
    ("Asia/Kolkata", "1850-01-15 00:00:00", 19800),
    ("Asia/Kolkata", "1899-12-31 23:59:59", 19800),
    ("Asia/Kolkata", "1900-01-01 00:00:00", 19270),
    ("Asia/Kolkata", "1945-01-15 00:00:00", 23400),
    ("Asia/Tokyo", "2020-07-01 00:00:00", 32400),
    ("Europe/London", "1970-01-15 00:00:00", 3600),
    ("Europe/London", "2050-07-15 00:00:00", 3600),
    ("Pacific/Auckland", "1850-01-15 00:00:00", 43200),
    ("Pacific/Auckland", "1901-01-15 00:00:00", 41400),
    ("Pacific/Auckland", "2500-01-15 00:00:00", 46800),
    ("Pacific/Auckland", "2500-07-15 00:00:00", 43200),
    ("Europe/Dublin", "1880-01-15 00:00:00", 0),
    ("Europe/Dublin", "1900-01-15 00:00:00", -1521),
    ("Africa/Casablanca", "2037-01-15 00:00:00", 3600),
    ("GMT+08:00", "1850-01-15 00:00:00", 28800),
    ("GMT-03:30", "2020-01-15 00:00:00", -12600),
    ("IST", "2020-01-15 00:00:00", 19800),
    ("EST", "2020-07-15 00:00:00", -18000),
    ("UTC", "2020-07-15 00:00:00", 0),
]


@pytest.mark.parametrize(("zone", "moment", "offset"), OFFSETS)
def test_offsets_are_those_of_java(zone: str, moment: str, offset: int) -> None:
    stored = np.array([_seconds(moment) - ORC_EPOCH])
    assert Clocks(zone).seconds(stored, stored * 0, clock_time=False).tolist() == [_seconds(moment) + offset]


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "GMT+99:00", "../../etc/passwd"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(UnsupportedError, match="time zone"):
        Clocks(zone).seconds(np.zeros(1, np.int64), np.zeros(1, np.int64), clock_time=True)


MOMENTS = [
    "1850-06-01 00:00:00.250", "1899-12-31 23:59:59.999999", "1900-01-01 12:00:00", "1969-12-31 12:00:00.500",
    "1969-12-31 23:59:58.001", "1970-01-01 00:00:00", "1970-01-01 05:00:00.750", "2020-03-08 01:59:59.999999",
    "2020-03-08 03:00:00", "2020-11-01 00:30:00", "2020-11-01 03:00:00.000001", "2100-07-01 00:00:00",
]  # fmt: skip


def _shown(text: str, zone: str) -> dt.datetime:
    """What Java reads of a clock time that a C++ program wrote by the clocks of a zone."""
    local = dt.datetime.fromisoformat(text)
    there = local.replace(tzinfo=ZoneInfo(zone))
    early = local.year < 1900
    raw = ZoneInfo(zone).utcoffset(dt.datetime(2021, 1, 1))  # without daylight saving time north of the equator
    return local + (raw - there.utcoffset()) if early and raw is not None else local  # type: ignore[operator]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Europe/London"])
def test_clock_times_of_all_depths(zone: str, tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    path = tmp_path / "a.orc"
    given = [None if text is None else dt.datetime.fromisoformat(text) for text in [*MOMENTS, None]]
    shape = "struct<id:int,c:timestamp,r:struct<c:timestamp>,a:array<timestamp>,m:map<int,timestamp>>"
    with path.open("wb") as f, pyorc.Writer(f, shape, timezone=ZoneInfo(zone), stripe_size=512) as writer:
        for i, moment in enumerate(given):
            aware = None if moment is None else moment.replace(tzinfo=ZoneInfo(zone))
            writer.write((i, aware, (aware,), [aware, aware], {i: aware}))
    types = ["INT", NTZ, {"type": "ROW", "fields": [{"id": 9, "name": "c", "type": NTZ}]},
             {"type": "ARRAY", "element": NTZ}, {"type": "MAP", "key": "INT", "value": NTZ}]  # fmt: skip
    names = ["id", "c", "r", "a", "m"]
    fields = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(zip(names, types, strict=True)))
    io, name = open_file_io(str(path))
    reader = by_name("orc").open_reader(io, name, path.stat().st_size, ReadCounters())
    try:
        rows = pa.Table.from_batches(list(reader.read(fields, RowSelection.ALL, 100)), arrow_schema(fields)).to_pylist()
    finally:
        reader.close()
    for i, (text, row) in enumerate(zip([*MOMENTS, None], rows, strict=True)):
        shown = None if text is None else _shown(text, zone)
        assert row == {"id": i, "c": shown, "r": {"c": shown}, "a": [shown, shown], "m": [(i, shown)]}
