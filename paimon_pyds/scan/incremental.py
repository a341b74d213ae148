"""Incremental scans: what was added between two states (options incremental-between and incremental-between-timestamp).

Source: Paimon documentation, sql-query/incremental query. The start is exclusive, the end inclusive; on append tables
the added rows are those of APPEND snapshots, compactions and overwrites add none.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.scan.travel import TIME_TRAVEL_OPTIONS

__all__ = ["INCREMENTAL_OPTIONS", "resolve_between"]

INCREMENTAL_OPTIONS = ("incremental-between", "incremental-between-timestamp", "incremental-between-scan-mode")


def resolve_between(store: TableStore, options: Mapping[str, str]) -> tuple[Snapshot, ...] | None:
    """The snapshots whose additions are read, oldest first; None when the scan is not incremental.

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
    if mode not in ("auto", "delta"):
        raise UnsupportedError(f"incremental-between-scan-mode={mode} is not supported", hint="use auto or delta")
    start, end = _ends(store, given[0], options[given[0]])
    if end < start:
        raise OptionError(f"{given[0]}: the end ({end}) lies before the start ({start})")
    return tuple(store.snapshot(i) for i in range(start + 1, end + 1))


def _ends(store: TableStore, key: str, value: str) -> tuple[int, int]:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) != 2 or not all(parts):
        raise OptionError(f"{key} takes two values as 'start,end', not {value!r}")
    if key == "incremental-between":
        return _snapshot_id(store, parts[0]), _snapshot_id(store, parts[1])
    try:
        first, last = int(parts[0]), int(parts[1])
    except ValueError:
        raise OptionError(f"{key} takes two times in milliseconds, not {value!r}") from None
    earliest = store.earliest_snapshot_id()
    if earliest is None:
        raise SnapshotNotFoundError("the table has no snapshot", path=store.root)
    try:
        start = store.snapshot_at(first).id
    except SnapshotNotFoundError:
        start = earliest - 1
    return start, store.snapshot_at(last).id


def _snapshot_id(store: TableStore, text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return store.tag(text).id
    except TagNotFoundError as error:
        raise TagNotFoundError(f"no snapshot and no tag is named {text!r}", path=store.root) from error
