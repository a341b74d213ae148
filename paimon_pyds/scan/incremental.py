"""Incremental scans: what was added between two states (options incremental-between and incremental-between-timestamp).

Source: Paimon documentation, sql-query/incremental query, and reads of Java 1.4. The start is exclusive, the end
inclusive. Between snapshots and times, the rows are those of APPEND snapshots; compactions and overwrites add none.
Between two tags, and with incremental-between-scan-mode=diff, they are the rows of the files that the end has and the
start has not: the snapshots in between may have expired, overwrites count, and so do files that were rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.scan.travel import TIME_TRAVEL_OPTIONS

__all__ = ["INCREMENTAL_OPTIONS", "Difference", "resolve_between"]

INCREMENTAL_OPTIONS = ("incremental-between", "incremental-between-timestamp", "incremental-between-scan-mode")


@dataclass(frozen=True, slots=True)
class Difference:
    """The files of one state that an older one does not have."""

    start: Snapshot
    end: Snapshot


def resolve_between(store: TableStore, options: Mapping[str, str]) -> tuple[Snapshot, ...] | Difference | None:
    """The snapshots whose additions are read, oldest first, or two states; None when the scan is not incremental.

    Raises:
        OptionError: not two values, the end before the start, or time travel besides.
        SnapshotNotFoundError, TagNotFoundError: an end that does not exist or has expired.
    """
    given = [key for key in INCREMENTAL_OPTIONS[:2] if key in options]
    if not given:
        return None
    clash = [key for key in TIME_TRAVEL_OPTIONS if key in options]
    if len(given) > 1 or clash:
        raise OptionError(f"only one of {', '.join([*given, *clash])} can be given")
    mode = options.get("incremental-between-scan-mode", "auto").lower()
    if mode not in ("auto", "delta", "diff"):
        raise UnsupportedError(f"incremental-between-scan-mode={mode} is not supported", hint="use auto, delta or diff")
    key = given[0]
    first, last = _two(key, options[key])
    if key == "incremental-between-timestamp":
        ends: tuple[int | Snapshot, int | Snapshot] = _at_times(store, first, last)
    else:
        ends = _named(store, first), _named(store, last)
    start, end = (e if isinstance(e, int) else e.id for e in ends)
    if end < start:
        raise OptionError(f"{key}: the end ({end}) lies before the start ({start})")
    if mode == "diff" or (mode == "auto" and not any(isinstance(e, int) for e in ends)):
        return Difference(*(store.snapshot(e) if isinstance(e, int) else e for e in ends))
    return tuple(store.snapshot(i) for i in range(start + 1, end + 1))


def _two(key: str, value: str) -> tuple[str, str]:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) != 2 or not all(parts):
        raise OptionError(f"{key} takes two values as 'start,end', not {value!r}")
    return parts[0], parts[1]


def _at_times(store: TableStore, first: str, last: str) -> tuple[int, int]:
    try:
        start, end = int(first), int(last)
    except ValueError:
        raise OptionError(
            f"incremental-between-timestamp takes two times in milliseconds, not {first!r} and {last!r}"
        ) from None
    earliest = store.earliest_snapshot_id()
    if earliest is None:
        raise SnapshotNotFoundError("the table has no snapshot", path=store.root)
    try:
        after = store.snapshot_at(start).id
    except SnapshotNotFoundError:
        after = earliest - 1
    return after, store.snapshot_at(end).id


def _named(store: TableStore, text: str) -> int | Snapshot:
    """The number of a snapshot, or what a tag keeps."""
    if text.isdigit():
        return int(text)
    try:
        return store.tag(text)
    except TagNotFoundError as error:
        raise TagNotFoundError(f"no snapshot and no tag is named {text!r}", path=store.root) from error
