"""The clock times of writers outside UTC in ORC files, as Java reads them.

A stripe's footer names the time zone of its writer (ORC specification v1, Stripe Footer). TIMESTAMP counts from the
moment when 2015 began there, and stands for what the clocks there showed. TIMESTAMP WITH LOCAL TIME ZONE is a TIMESTAMP
INSTANT and counts from 2015 in UTC. But with Paimon's option ``orc.timestamp-ltz.legacy.type`` (true by default) Java
stores of an instant the moment when the clocks of its zone showed what the clocks of UTC show at that instant, and
takes that back when it reads.

Offsets are those of ``java.util.TimeZone``: it knows no time before 1900, when each zone has its present standard time.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.sql_values import time_zone
from paimon_pyds.errors import PredicateError, UnsupportedError
from paimon_pyds.format import LEGACY_ZONE, ReadHints, is_legacy
from paimon_pyds.format.orc.tail import OrcTail

ORC_EPOCH = 1_420_070_400
"""2015-01-01 00:00:00 UTC, in seconds since 1970."""

_UTC = ("", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "GMT+00:00", "GMT-00:00")
_1900 = -2_208_988_800
_2038 = 2_145_916_800
_CYCLE = 146_097 * 86_400
"""Seconds of the 400 years after which calendar and weekdays repeat, and with them daylight saving time."""
_STEP = 6 * 86_400
"""Seconds between two compared offsets: no zone has changed its offset and back within six days."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_SHORT_NAMES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's short names (documentation of java.time.ZoneId.SHORT_IDS), some of which other programs give other zones."""


def is_utc(zone: str) -> bool:
    """Whether the clocks of a zone show UTC; a stripe without a zone ("") counts as such."""
    return zone in _UTC


@dataclass(frozen=True, slots=True)
class Clocks:
    """The zone of a stripe's writer, and whether it stored instants by its clocks."""

    zone: str = "UTC"
    legacy: bool = True

    def seconds(self, stored: Int64s, nanos: Int64s, *, clock_time: bool, path: object = None) -> Int64s:
        """Seconds since 1970, rounded down, of what a column stores.

        ``stored``: seconds since the beginning of 2015, as the stream has them. ``nanos``: the fraction of each second.
        ``clock_time``: the column is a TIMESTAMP; else a TIMESTAMP INSTANT.
        Raises UnsupportedError: a zone that nobody knows here.
        """
        if is_utc(self.zone):
            moments = stored + ORC_EPOCH
            return moments - ((moments < 0) & (nanos > 999_999))
        offsets = _zone(self.zone, path)
        moments = stored + (offsets.epoch if clock_time else ORC_EPOCH)
        # Seconds before 1970 were rounded up where there is a fraction.
        moments -= (moments < 0) & (nanos > 999_999)
        return moments + offsets.at(moments) if clock_time or self.legacy else moments


def _zone(name: str, path: object) -> _Offsets:
    try:
        return _offsets(_SHORT_NAMES.get(name, name))
    except PredicateError as error:
        raise UnsupportedError(
            f"the time zone {name!r:.60} of the writer is not known here",
            path=path,
            hint="is the time zone database there? `pip install tzdata` brings one",
        ) from error


def unnamed_zone(tail: OrcTail, hints: ReadHints, path: object = None) -> str:
    """The zone of the writer of a file that names none: what option `LEGACY_ZONE` says, or UTC where that fits better.
    Raises UnsupportedError: the bounds of the manifest show that it was not UTC, and the option says nothing."""
    if not is_legacy(hints.options):
        return "UTC"
    given = hints.options.get(LEGACY_ZONE, "").strip()
    if given:
        differences = _differences(tail, hints, given, path)
        if not differences or not all(differences):
            return given
    differences = _differences(tail, hints, "UTC", path)
    if not any(differences):
        return "UTC"
    hours = max(differences, key=abs) / 3600
    raise UnsupportedError(
        f"a JVM in another time zone ({hours:+g} hours from UTC at one time) wrote instants by its clocks to an ORC "
        f"file, and which zone that was the file does not say{given and ': not ' + given[:60]}",
        path=path,
        hint=f"give {LEGACY_ZONE}, such as America/New_York, as an option of the read or of the table",
    )


def _differences(tail: OrcTail, hints: ReadHints, zone: str, path: object) -> list[int]:
    """By how many seconds the bounds of instants in the manifest are greater than those in the file by a zone's clocks.

    Bounds further apart than zones are mean something else: Java's of the years before 1582.
    """
    found = []
    for name, *bounds in hints.instants:
        orc = tail.root.child(name)
        if orc is None or orc.id not in tail.timestamps:
            continue
        stored = np.array(tail.timestamps[orc.id]) // 1000 - ORC_EPOCH
        seconds = Clocks(zone).seconds(stored, stored * 0, clock_time=False, path=path)
        apart = (np.array(bounds) // 1000 - seconds).tolist()
        found += [difference if 1 < abs(difference) <= 18 * 3600 else 0 for difference in apart]
    return found


class _Offsets:
    """What a zone adds to UTC, in seconds, at any time."""

    def __init__(self, zone: dt.tzinfo) -> None:
        self._zone = zone
        self._raw = min(_offset(zone, _2038 - day * 86_400) for day in range(365))
        self._known = _changes(zone, _1900, _2038)
        self._later: tuple[Int64s, Int64s] | None = None
        at_epoch = self.at(np.array([ORC_EPOCH]) - self._raw)
        self.epoch = ORC_EPOCH - int(at_epoch[0])
        """When 2015 began there, in seconds since 1970."""

    def at(self, moments: Int64s) -> Int64s:
        starts, offsets = self._known
        found = offsets[np.searchsorted(starts, moments, side="right") - 1]
        found = np.where(moments < _1900, self._raw, found)
        late = moments >= _2038
        if late.any():
            if self._later is None:
                self._later = _changes(self._zone, _2038, _2038 + _CYCLE)
            starts, offsets = self._later
            folded = (moments[late] - _2038) % _CYCLE + _2038
            found[late] = offsets[np.searchsorted(starts, folded, side="right") - 1]
        return found


@lru_cache(maxsize=64)
def _offsets(name: str) -> _Offsets:
    # Java writes offsets as GMT+08:00.
    return _Offsets(time_zone(re.sub(r"^GMT(?=[+-]\d)", "", name)))


def _offset(zone: dt.tzinfo, moment: int) -> int:
    there = (_EPOCH + dt.timedelta(seconds=moment)).astimezone(zone)
    return (there.utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)


def _changes(zone: dt.tzinfo, start: int, stop: int) -> tuple[Int64s, Int64s]:
    """When offsets begin and what they are, from ``start`` on. No zone has changed its mind within six days."""
    starts, offsets = [start], [_offset(zone, start)]
    if isinstance(zone, dt.timezone):
        return np.array(starts), np.array(offsets)
    for end in range(start + _STEP, stop + _STEP, _STEP):
        after = _offset(zone, end)
        if after != offsets[-1]:
            low, high = end - _STEP, end  # the old offset, and the new one
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == offsets[-1] else (low, middle)
            starts.append(high)
            offsets.append(after)
    return np.array(starts), np.array(offsets)
