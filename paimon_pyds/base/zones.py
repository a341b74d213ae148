"""The time zone of texts and dates that name none, and datetimes without a zone, which are local time as Python has it.

A text that names no zone is read in the one that the call names (``timezone``), else in that of the Spark session whose
function was called, else in the local zone of the process, as Java reads it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from paimon_pyds.errors import OptionError

_session: ContextVar[str | None] = ContextVar("_session", default=None)
_LINK = "/etc/localtime"
_FOLDER = "zoneinfo/"
_QUARTER_SECONDS = 7_884_000
_QUARTERS = range(-12, 16)
"""Quarters that are compared to identify a zone: three years back and four ahead."""


def default_zone() -> str:
    """The name of the zone for texts that name none, in a call that names none.
    Raises OptionError: as `local_zone`."""
    return _session.get() or local_zone()


@contextmanager
def session_zone(name: str | None) -> Iterator[None]:
    """Within it, the zone of a Spark session is the default; None leaves it as it is."""
    token = _session.set(name or _session.get())
    try:
        yield
    finally:
        _session.reset(token)


def local_zone() -> str:
    """The name of this process's time zone: of the variable ``TZ``, else of the machine.
    Raises OptionError: it has no name that Python's zones have, and its clocks are put forward and back."""
    return _local_zone(os.environ.get("TZ", ""), time.tzname, time.timezone, time.altzone)


def instant(value: datetime) -> datetime:
    """A datetime with a zone as it is; one without a zone is local time. Nanoseconds of pandas stay."""
    if value.utcoffset() is not None:
        return value
    plain = datetime(*value.timetuple()[:6], value.microsecond, fold=value.fold)
    try:
        there = plain.astimezone().tzinfo
    except (OverflowError, ValueError, OSError):  # in the first or last year of Python's calendar
        there = UTC
    localize = getattr(value, "tz_localize", None)
    return plain.replace(tzinfo=there) if localize is None else localize(there)


def local_clock_ms(millis: int) -> int:
    """What local clocks show at an instant, in milliseconds since the epoch; the same where none goes so far."""
    try:
        return millis + time.localtime(millis // 1000).tm_gmtoff * 1000
    except (OverflowError, ValueError, OSError):
        return millis


def clock_now_ms() -> int:
    """What local clocks show now, in milliseconds: files in manifests have such times."""
    return local_clock_ms(int(time.time() * 1000))


def local_instant_ms(clock: int) -> int:
    """The instant at which local clocks show something, in milliseconds since the epoch; the first of two."""
    try:
        return int((datetime(1970, 1, 1) + timedelta(milliseconds=clock)).timestamp() * 1000)
    except (OverflowError, ValueError, OSError):
        return clock


@lru_cache(maxsize=8)
def _local_zone(variable: str, *_clock: object) -> str:
    moments = [int(time.time()) + quarter * _QUARTER_SECONDS for quarter in _QUARTERS]
    offsets = [time.localtime(moment).tm_gmtoff for moment in moments]
    if not any(offsets):
        return "UTC"
    from zoneinfo import ZoneInfo, available_timezones

    def agrees(name: str) -> bool:
        try:
            zone = ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            return False
        found = (datetime.fromtimestamp(moment, zone).utcoffset() or timedelta() for moment in moments)
        return all(offset.total_seconds() == given for offset, given in zip(found, offsets, strict=True))

    named = (variable.removeprefix(":"), os.path.realpath(_LINK))
    names = [name.rpartition(_FOLDER)[2] for name in named if name]
    found = next(filter(agrees, names), None)
    if found is not None:
        return found
    if len(set(offsets)) == 1:
        minutes = offsets[0] // 60
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    found = next(filter(agrees, sorted(available_timezones())), None)
    if found is None:
        raise OptionError("the time zone of this machine has no name that Python knows", hint="set TZ=Europe/Berlin")
    return found
