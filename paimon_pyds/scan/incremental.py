"""Incremental scans: what was added between two states (options incremental-between and incremental-between-timestamp).

Source: Paimon documentation, sql-query/incremental query, and reads of Java 1.4. The start is exclusive, the end
inclusive. Between snapshots and times, the rows are those of APPEND snapshots; compactions and overwrites add none.
With incremental-between-scan-mode=diff, and between two tags whatever that mode says, they are the rows of the files
that the end has and the start has not: the snapshots in between may have expired, overwrites count, and so do files
that were rewritten. With incremental-between-tag-to-snapshot tags are taken for the numbers of their snapshots.

Times are milliseconds since the epoch, or texts as of scan.timestamp. Where no snapshot was made between them, there
are no rows; nothing was committed yet, none either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.scan.travel import parse_timestamp

__all__ = ["INCREMENTAL_OPTIONS", "Difference", "resolve_between"]

_TO_SNAPSHOT = "incremental-between-tag-to-snapshot"
INCREMENTAL_OPTIONS = (
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-between-scan-mode",
    _TO_SNAPSHOT,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The files of one state that an older one does not have; ``start`` is None before the first snapshot."""

    start: Snapshot | None
    end: Snapshot


def resolve_between(store: TableStore, options: Mapping[str, str]) -> tuple[Snapshot, ...] | Difference | None:
    """The snapshots whose additions are read, oldest first, or two states; None when the scan is not incremental.

    Raises:
        OptionError: not two values, or the end before the start.
        SnapshotNotFoundError, TagNotFoundError: an end that does not exist or has expired.
    """
    key = next((key for key in INCREMENTAL_OPTIONS[:2] if key in options), None)
    if key is None:
        return None
    mode = options.get("incremental-between-scan-mode", "auto").lower()
    if mode not in ("auto", "delta", "diff"):
        raise UnsupportedError(f"incremental-between-scan-mode={mode} is not supported", hint="use auto, delta or diff")
    first, last = _two(key, options[key])
    if key == "incremental-between-timestamp":
        zone = options.get("timezone", "UTC")
        return _between_times(store, _millis(key, first, zone), _millis(key, last, zone), by_files=mode == "diff")
    ends = _named(store, first), _named(store, last)
    start, end = (e if isinstance(e, int) else e.id for e in ends)
    if end < start:
        raise _reversed(key, start, end)
    if TableOptions(options).get(_TO_SNAPSHOT):
        ends = start, end
    if mode == "diff" or not any(isinstance(e, int) for e in ends):
        return Difference(*(store.snapshot(e) if isinstance(e, int) else e for e in ends))
    if store.latest_snapshot_id() is None:
        return ()
    return tuple(store.snapshot(i) for i in range(start + 1, end + 1))


def _reversed(key: str, start: int, end: int) -> OptionError:
    return OptionError(f"{key}: the end ({end}) lies before the start ({start})")


def _two(key: str, value: str) -> tuple[str, str]:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) != 2 or not all(parts):
        raise OptionError(f"{key} takes two values as 'start,end', not {value!r}")
    return parts[0], parts[1]


def _millis(key: str, text: str, zone: str) -> int:
    return int(text) if text.removeprefix("-").isdecimal() else parse_timestamp(key, text, zone)


def _between_times(store: TableStore, start: int, end: int, *, by_files: bool) -> tuple[Snapshot, ...] | Difference:
    if end < start:
        raise _reversed("incremental-between-timestamp", start, end)
    earliest, last = store.earliest_snapshot_id(), store.newest_until(end)
    if earliest is None or last is None or start == end:
        return ()
    before = store.newest_until(start)
    if not by_files:
        first = earliest if before is None else before.id + 1
        return tuple(store.snapshot(i) for i in range(first, last.id + 1))
    if before is None and earliest > 1:
        raise SnapshotNotFoundError(
            f"which files the table had at {start} ms is not known: its snapshots before {earliest} have expired",
            path=store.root,
            hint="name a later start, or say incremental-between-scan-mode=delta for what later snapshots added",
        )
    return Difference(before, last)


def _named(store: TableStore, text: str) -> int | Snapshot:
    """The number of a snapshot, or what a tag keeps."""
    if text.isdigit():
        return int(text)
    try:
        return store.tag(text)
    except TagNotFoundError as error:
        raise TagNotFoundError(f"no snapshot and no tag is named {text!r}", path=store.root) from error
