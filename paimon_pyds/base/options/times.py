"""Times that arguments and options name, as milliseconds since the epoch: see `paimon_pyds.base.zones` for those
without a time zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from time import time
from typing import Any

from paimon_pyds.base.options.option import integer, parse_duration_ms
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.zones import default_zone, instant
from paimon_pyds.errors import OptionError, PredicateError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = r"(?a)\s*\d{4}-\d{1,2}-\d"
_AGE = r"(?ai)\s*\d+\s*[a-z]"


def time_ms(name: str, value: Any, zone: str | None = None) -> int:
    """Milliseconds since the epoch of a time: these, a datetime, a date (its midnight), or a text.

    A datetime without a zone, and a date, are local time; finer digits than milliseconds are dropped.

    ``name``: of the argument or option, for errors. ``zone``: of a text that names none, by default the session's or
    the local one.
    Raises OptionError: a text that is no time, or no such zone; ArgumentTypeError: something else.
    """
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return (instant(moment) - _EPOCH) // timedelta(milliseconds=1)
    return parse_time(name, value, zone) if isinstance(value, str) else integer(name, value)


def zone_given(options: Mapping[str, str]) -> str | None:
    """The option ``timezone``; None without it. Raises OptionError: no such zone."""
    zone = options.get("timezone")
    if zone is not None:
        try:
            values.time_zone(zone)
        except PredicateError as error:
            raise OptionError(f"timezone: {error.message}", hint=error.hint) from None
    return zone


def past_ms(name: str, value: Any, zone: str | None = None) -> int:
    """As `time_ms`; or the time that was an age ago, such as ``7 days`` or a timedelta."""
    now = int(time() * 1000)
    if isinstance(value, timedelta):
        return now - int(value.total_seconds() * 1000)
    if isinstance(value, str) and re.match(_AGE, value):
        return now - parse_duration_ms(value, name)
    return time_ms(name, value, zone)


def parse_time(name: str, text: str, zone: str | None = None) -> int:
    """The same of a text: ``yyyy-[m]m-[d]d[ hh:mm:ss[.fff]]``, with a zone or without."""
    try:
        if re.match(_DATE, text) is None:  # a bare number is a year to SQL, and milliseconds to its author
            raise PredicateError(f"{text!r:.100} is not a time", hint="write it as '2026-01-31 12:30:00'")
        nanos, own = values.parse_timestamp(text)
        return values.local_to_instant(nanos // 1_000, values.time_zone(own or zone or default_zone())) // 1_000
    except PredicateError as error:
        raise OptionError(f"{name}: {error.message}", hint=error.hint) from None
