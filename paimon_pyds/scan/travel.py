"""Which state of the table a scan reads: the latest snapshot, or one named by id, tag, time, version or watermark.

Source: Paimon documentation, maintenance/configurations (scan.* options) and sql-query/time travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["TIME_TRAVEL_OPTIONS", "TableState", "resolve_state"]

TIME_TRAVEL_OPTIONS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp-millis",
    "scan.timestamp",
    "scan.version",
    "scan.watermark",
)


@dataclass(frozen=True, slots=True)
class TableState:
    """A snapshot (None: the table was never written) and the schema to read it with."""

    snapshot: Snapshot | None
    schema: TableSchema


def resolve_state(store: TableStore, options: Mapping[str, str]) -> TableState:
    """The state named by the ``scan.*`` options; the latest when none is given.

    A named state is read with the schema of its snapshot, the latest with the table's latest schema, as Java does.
    ``scan.timestamp`` without a zone is read in the ``timezone`` option, UTC by default.

    Raises:
        OptionError: two of the options at once, or a value that does not parse.
        SnapshotNotFoundError, TagNotFoundError: no such state.
    """
    given = [key for key in TIME_TRAVEL_OPTIONS if options.get(key) is not None]
    if len(given) > 1:
        raise OptionError(f"only one of {', '.join(given)} can be given", hint="a scan reads one state of the table")
    if not given:
        return TableState(store.latest_snapshot(), store.latest_schema())
    snapshot = _named(store, given[0], options[given[0]], options.get("timezone", "UTC"))
    return TableState(snapshot, store.schema(snapshot.schema_id))


def _named(store: TableStore, key: str, value: str, zone: str) -> Snapshot:
    match key:
        case "scan.snapshot-id":
            return store.snapshot(_integer(key, value))
        case "scan.tag-name":
            return store.tag(value)
        case "scan.timestamp-millis":
            return store.snapshot_at(_integer(key, value))
        case "scan.timestamp":
            return store.snapshot_at(parse_timestamp(value, zone))
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
    try:
        number = int(value)
    except ValueError:
        raise TagNotFoundError(
            f"no tag and no snapshot is named {value!r}", hint=f"tags: {', '.join(store.tag_names()) or 'none'}"
        ) from None
    return store.snapshot(number)


def _at_watermark(store: TableStore, watermark: int) -> Snapshot:
    for snapshot in store.snapshots():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotNotFoundError(f"no snapshot has a watermark of {watermark} or later")


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise OptionError(f"{key} must be an integer, not {value!r}") from None


def parse_timestamp(value: str, zone: str) -> int:
    """Milliseconds since the epoch of 'yyyy-MM-dd[ HH:mm:ss[.SSS]]', with or without a zone."""
    try:
        moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise OptionError(f"scan.timestamp must look like '2026-01-31 12:30:00', not {value!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc if zone.upper() == "UTC" else ZoneInfo(zone))
    return int(moment.timestamp() * 1000)
