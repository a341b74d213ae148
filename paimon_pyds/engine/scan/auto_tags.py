"""Tags that Java makes by itself, one each period: their names are times. (Java: class TagPeriodHandler.)"""

from __future__ import annotations

import re
from datetime import datetime

from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

_DAY, _SHORT_DAY = r"(\d{4})-(\d\d)-(\d\d)", r"(\d{4})(\d\d)(\d\d)"
_HOUR = _DAY + r" (\d\d)"
_HOURLY = {"with_dashes": _HOUR, "without_dashes": _SHORT_DAY + r" (\d\d)"}


def tag_and_before(store: TableStore, name: str, options: TableOptions) -> tuple[Snapshot, Snapshot] | None:
    """The snapshots of the tag before a tag, by the times that they are named by, and of that tag; None without both.
    ``options``: of the table, which say how tags are named.
    Raises OptionError: no such tag is made by itself."""
    last = _time(name, options)
    if last is None:
        raise OptionError(f"incremental-to-auto-tag: {name!r:.100} is not named as the table's automatic tags are")
    times = {tag: time for tag in store.tag_names() if (time := _time(tag, options)) is not None}
    before = [tag for tag, time in times.items() if time < last]
    if name not in times or not before:
        return None
    return store.tag(max(before, key=times.__getitem__)), store.tag(name)


def _time(name: str, options: TableOptions) -> datetime | None:
    """The time that a tag is named by; None for other names."""
    period, form = options.get("tag.creation-period"), str(options.get("tag.period-formatter"))
    if options.is_set("tag.creation-period-duration"):
        pattern = _SHORT_DAY + r"(\d\d)(\d\d)"
    elif period == "two-hours":
        pattern = _HOUR
    elif period == "hourly":
        pattern = _HOURLY.get(form, _SHORT_DAY + r"(\d\d)")
    else:
        pattern = _DAY if form == "with_dashes" else _SHORT_DAY
        name = name.partition(" ")[0]
    found = re.fullmatch(pattern, name, re.ASCII)
    try:
        return None if found is None else datetime(*map(int, found.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None
