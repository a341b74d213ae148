"""The arguments of `Table.follow`: where to start, where to end, and how long to wait."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from paimon_pyds.base.options import parse_duration_ms
from paimon_pyds.base.options.option import integer, text
from paimon_pyds.base.options.times import parse_time, time_ms
from paimon_pyds.engine.stream.changes import ChangeStream
from paimon_pyds.engine.stream.follow import Follow, Until
from paimon_pyds.engine.stream.position import StreamPosition
from paimon_pyds.errors import ArgumentTypeError, OptionError, TagNotFoundError, suggest
from paimon_pyds.metadata.store import TableStore

_MODES = ("latest-full", "latest", "compacted-full")


def follow(
    store: TableStore,
    from_: str | int | date | None,
    position: StreamPosition | str | Mapping[str, Any] | None,
    until: str | int | date | None,
    poll: str | float | timedelta,
    **stream: Any,
) -> Follow:
    """What `Table.follow` returns. ``stream``: arguments of `ChangeStream`."""
    pause, end = poll_seconds(poll), until_of(until)
    if position is None:
        if from_ is not None:
            stream["options"] = {**stream["options"], **start_options(store, from_)}
        made = ChangeStream(store, **stream)
        at = made.start()
    else:
        if from_ is not None:
            raise OptionError("from_ and position can't be given together", hint="a position is where to go on")
        at = position if isinstance(position, StreamPosition) else StreamPosition.from_json(position)
        made = ChangeStream(store, **stream, position=at)
    made.confirm(at)
    return Follow(made, at, until=end, poll_seconds=pause)


def start_options(store: TableStore, from_: str | int | date) -> dict[str, Any]:
    """Paimon's options for a start: a mode, the number of a snapshot, a tag, or a time.

    Raises TagNotFoundError: any other text.
    """
    if isinstance(from_, date):
        return {"scan.timestamp-millis": time_ms("from_", from_)}
    if not isinstance(from_, str):
        return {"scan.snapshot-id": integer("from_", from_)}
    if from_ in _MODES:
        return {"scan.mode": from_}
    with suppress(TagNotFoundError):
        store.tag(from_)
        return {"scan.tag-name": from_}
    with suppress(OptionError):
        return {"scan.timestamp-millis": parse_time("from_", from_)}
    raise TagNotFoundError(
        f"from_={from_!r:.100} is no mode ({', '.join(_MODES)}), no tag, and no time such as '2026-01-31 12:30:00'",
        path=store.root,
        hint=suggest(from_, [*_MODES, *store.tag_names()], "there are"),
    )


def until_of(until: str | int | date | None) -> Until:
    """Where to end. Raises OptionError: a text that is no time."""
    if until is None:
        return Until()
    if isinstance(until, str) and until in ("latest", "now"):
        return Until(newest=True)
    if isinstance(until, date | str):
        return Until(millis=time_ms("until", until))
    return Until(snapshot=integer("until", until))


def poll_seconds(poll: str | float | timedelta) -> float:
    """The pause in seconds. Raises OptionError: it is not positive; ArgumentTypeError: something else."""
    if isinstance(poll, timedelta):
        seconds = poll.total_seconds()
    elif isinstance(poll, int | float) and not isinstance(poll, bool):
        seconds = float(poll)
    elif isinstance(poll, str):
        seconds = parse_duration_ms(text("poll", poll), "poll") / 1000
    else:
        raise ArgumentTypeError(f"poll is seconds or a text such as '5s', not {poll!r:.80}")
    if not seconds > 0:
        raise OptionError(f"poll must be positive, it is {poll}")
    return seconds
