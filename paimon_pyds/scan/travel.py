"""Which state of the table a scan reads: the latest snapshot, or one named by id, tag, time, version or watermark.

Source: Paimon documentation, maintenance/configurations (scan.* options) and sql-query/time travel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_pyds.errors import OptionError, PredicateError, SnapshotNotFoundError, TagNotFoundError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["TIME_TRAVEL_OPTIONS", "TableState", "parse_timestamp", "resolve_state"]

TIME_TRAVEL_OPTIONS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp-millis",
    "scan.timestamp",
    "scan.version",
    "scan.watermark",
)

_NUMBER = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
_DATE = re.compile(r"\s*\d{4}-\d{1,2}-\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableState:
    """A snapshot (None: the table was never written) and the schema to read it with."""

    snapshot: Snapshot | None
    schema: TableSchema


def resolve_state(store: TableStore, latest: TableSchema, options: Mapping[str, str]) -> TableState:
    """The state named by the ``scan.*`` options; the latest when none is given.

    A named state is read with the schema of its snapshot, the latest with the table's latest schema, as Java does.
    ``scan.timestamp`` without a zone is read in the ``timezone`` option, UTC by default.

    Args:
        store: the table.
        latest: the table's latest schema, as it was just read.
        options: of the scan, made by `state_options`: one of them names a state at most.

    Raises:
        OptionError: a value that does not parse.
        SnapshotNotFoundError, TagNotFoundError: no such state.
    """
    key = next((key for key in TIME_TRAVEL_OPTIONS if key in options), None)
    if key is not None:
        named = _named(store, key, options[key], options.get("timezone", "UTC"))
        return TableState(named, store.schema(named.schema_id))
    snapshot = store.latest_snapshot()
    if snapshot is not None and snapshot.schema_id > latest.id:  # both were changed since the schema was read
        latest = store.latest_schema()
    return TableState(snapshot, latest)


def _named(store: TableStore, key: str, value: str, zone: str) -> Snapshot:
    match key:
        case "scan.snapshot-id":
            return store.snapshot(_integer(key, value))
        case "scan.tag-name":
            return store.tag(value)
        case "scan.timestamp-millis":
            return store.snapshot_at(_integer(key, value))
        case "scan.timestamp":
            return store.snapshot_at(parse_timestamp(key, value, zone))
        case "scan.watermark":
            return _at_watermark(store, _integer(key, value))
    return _version(store, value)


def _version(store: TableStore, value: str) -> Snapshot:
    """Paimon's order: a tag of that name, then ``watermark-N``, then a snapshot id."""
    try:
        return store.tag(value)
    except TagNotFoundError:
        pass
    if value.startswith("watermark-"):
        return _at_watermark(store, _integer("scan.version", value[len("watermark-") :]))
    if _NUMBER.fullmatch(value) is None:
        raise TagNotFoundError(
            f"no tag and no snapshot is named {value!r:.100}", hint=f"tags: {', '.join(store.tag_names()) or 'none'}"
        )
    return store.snapshot(int(value))


def _at_watermark(store: TableStore, watermark: int) -> Snapshot:
    for snapshot in store.snapshots():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotNotFoundError(f"no snapshot has a watermark of {watermark} or later")


def _integer(key: str, value: str) -> int:
    if _NUMBER.fullmatch(value) is None:
        raise OptionError(f"{key} must be an integer, not {value!r:.100}")
    return int(value)


def parse_timestamp(key: str, value: str, zone: str) -> int:
    """Milliseconds since the epoch of ``yyyy-[m]m-[d]d[ hh:mm:ss[.fff]]``; finer digits are dropped, as Java does.

    Args:
        key: the option that holds it, for errors.
        value: the text.
        zone: where the clock stands when the text names no zone.

    Raises:
        OptionError: not such a text, or no such zone.
    """
    from paimon_pyds.sql import values

    try:
        if _DATE.match(value) is None:  # a bare number is a year to SQL, and milliseconds to who wrote it
            raise PredicateError(f"{value!r:.100} is not a time", hint="write it as '2026-01-31 12:30:00'")
        nanos, own = values.parse_timestamp(value)
        return values.local_to_instant(nanos // 1_000, values.time_zone(own or zone)) // 1_000
    except PredicateError as error:
        raise OptionError(f"{key}: {error.message}", hint=error.hint) from None
