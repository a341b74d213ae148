"""Which state of the table a scan reads: the latest, one that is named, or what was added between two of them.

The options of a scan name it, else those stored in the table; operations that write always work on the newest state, as
Java does. Incremental scans have an exclusive start and an inclusive end: those that ``incremental-between`` or
``incremental-between-timestamp`` names, or a tag (``incremental-to-auto-tag``) and the one before it.
``incremental-between-scan-mode`` says what they read between snapshots and times:

- ``delta``: the files that APPEND snapshots added; compactions and overwrites add none.
- ``changelog``: the changelog files of all snapshots but overwrites.
- ``auto``: changelog where the table has a ``changelog-producer``, else delta.
- both read the changelogs of snapshots that have expired, where they outlived these, as Java's streams do.
- ``diff``, and between two tags whatever the mode: the files that the end has and the start has not; snapshots in
  between may have expired, overwrites count, and so do files that were rewritten. In a table with a primary key, rows
  that come out of the start's other files with the same values are left out.

In a table with a primary key, rows of deltas and changelogs are not merged, and those that take a row away are given in
the system tables ``audit_log`` and ``binlog`` only. Times are milliseconds since the epoch, or texts as of
``scan.timestamp``.

Sources: Paimon documentation, maintenance/configurations (``scan.*``), sql-query/time travel and incremental query, and
reads of Java 1.4, which allows one state only; here a state that a scan names takes the place of the stored one.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, TypeAlias

from paimon_pyds.base.options import OPTIONS, TableOptions
from paimon_pyds.base.options.option import mapping, option_texts
from paimon_pyds.base.options.times import parse_time, time_ms, zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import BLANKS, whole_number
from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore

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


def snapshots_after(store: TableStore, base: Snapshot | None, latest: Snapshot | None) -> list[Snapshot] | None:
    """Those that follow one (None: the table was never written) up to another; None where the other does not follow
    from it, or some are gone."""
    if base == latest:
        return []
    first = 0 if base is None else base.id
    if latest is None or latest.id <= first:
        return None  # rolled back
    try:
        since = [*map(store.snapshot, range(max(first, 1), latest.id)), latest]
    except SnapshotNotFoundError:
        return None
    return None if base is not None and since.pop(0) != base else since


def resolve_state(store: TableStore, latest: TableSchema, options: Mapping[str, str]) -> TableState:
    """The state named by the ``scan.*`` options; the latest when none is given.

    A named state is read with the schema of its snapshot, the latest with the table's latest schema, as Java does.
    ``scan.timestamp`` without a zone is read in the zone of the option ``timezone``, else in `default_zone`.

    ``latest``: the table's latest schema, as it was just read. ``options``: of the scan, made by `state_options`: one
    of them names a state at most.
    Raises OptionError: a value that does not parse; SnapshotNotFoundError, TagNotFoundError: no such state.
    """
    key = next((key for key in TIME_TRAVEL_OPTIONS if key in options), None)
    if key is not None:
        named = _named(store, key, options[key], zone_given(options))
        return TableState(named, store.schema(named.schema_id))
    snapshot = store.latest_snapshot()
    if snapshot is not None and snapshot.schema_id > latest.id:  # both were changed since the schema was read
        latest = store.latest_schema()
    return TableState(snapshot, latest)


def _named(store: TableStore, key: str, value: str, zone: str | None) -> Snapshot:
    match key:
        case "scan.snapshot-id":
            return store.snapshot(_integer(key, value))
        case "scan.tag-name":
            return store.tag(value)
        case "scan.timestamp-millis":
            return store.snapshot_at(_integer(key, value))
        case "scan.timestamp":
            return store.snapshot_at(parse_time(key, value, zone))
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
    number = whole_number(value)
    if number is None:
        raise TagNotFoundError(
            f"no tag and no snapshot is named {value!r:.100}", hint=f"tags: {', '.join(store.tag_names()) or 'none'}"
        )
    return store.snapshot(number)


def _at_watermark(store: TableStore, watermark: int) -> Snapshot:
    for snapshot in store.snapshots():
        if snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotNotFoundError(f"no snapshot has a watermark of {watermark} or later")


def _integer(key: str, value: str) -> int:
    number = whole_number(value)
    if number is None:
        raise OptionError(f"{key} must be an integer, not {value!r:.100}")
    return number


_TO_SNAPSHOT = "incremental-between-tag-to-snapshot"
_TO_AUTO_TAG = "incremental-to-auto-tag"
_BETWEEN = ("incremental-between", "incremental-between-timestamp", _TO_AUTO_TAG)
INCREMENTAL_OPTIONS = (*_BETWEEN, "incremental-between-scan-mode", _TO_SNAPSHOT)


@dataclass(frozen=True, slots=True)
class Additions:
    """What some snapshots added, oldest first: the files of their changelogs, or else their data files."""

    snapshots: tuple[Snapshot, ...] = ()
    changelog: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """The files of one state that an older one does not have; ``start`` is None before the first snapshot.

    With ``exact``, also those that have other deletion vectors than in the older one, and in a table with a primary key
    all files of both states that may hold versions of rows that differ: so rows can be compared with what they were.
    """

    start: Snapshot | None
    end: Snapshot
    exact: bool = False

    @property
    def gives(self) -> Literal["changes", "difference"]:
        """What merging rows of its files gives: see `paimon_pyds.metadata.split.Merging`."""
        return "changes" if self.exact else "difference"


Incremental: TypeAlias = Additions | Difference


def resolve_between(store: TableStore, options: Mapping[str, str], of_table: TableOptions) -> Incremental | None:
    """What an incremental scan reads; None when the scan is not incremental.

    ``options``: of the scan, made by `state_options`. ``of_table``: the table's, with those of the scan.

    Raises:
        OptionError: not two values, or the end before the start; no such mode.
        SnapshotNotFoundError, TagNotFoundError: an end that does not exist or has expired.
    """
    key = next((key for key in _BETWEEN if key in options), None)
    if key is None:
        return None
    if key == _TO_AUTO_TAG:
        from paimon_pyds.engine.scan.auto_tags import tag_and_before  # few scans name such a tag

        tags = tag_and_before(store, options[key], of_table)
        return Additions() if tags is None else Difference(*tags)
    mode = TableOptions(options).get("incremental-between-scan-mode")
    if mode == "auto":
        mode = "delta" if of_table.get("changelog-producer") == "none" else "changelog"
    parts = [part.strip(BLANKS) for part in options[key].split(",")]
    if len(parts) != 2 or not all(parts):
        raise OptionError(f"{key} takes two values as 'start,end', not {options[key]!r}")
    if key == "incremental-between-timestamp":
        first, last = (_millis(key, part, zone_given(options)) for part in parts)
        return _between_times(store, first, last, mode)
    ends = _ends(store, parts)
    start, end = (e if isinstance(e, int) else e.id for e in ends)
    if end < start:
        raise _reversed(key, start, end)
    if TableOptions(options).get(_TO_SNAPSHOT):
        ends = [start, end]
    if mode == "diff" or not any(isinstance(e, int) for e in ends):
        older, newer = (store.snapshot(e) if isinstance(e, int) else e for e in ends)
        return Difference(older, newer)
    if store.latest_snapshot_id() is None:
        return Additions()
    return _additions(store, start + 1, end, mode)


def _additions(store: TableStore, first: int, last: int, mode: str) -> Additions:
    """Of snapshots from ``first`` to ``last``, those that count."""
    changelog = mode == "changelog"
    snapshots = changing(store, first, last, changelog)
    if changelog:
        return Additions(tuple(s for s in snapshots if s.commit_kind is not CommitKind.OVERWRITE), changelog=True)
    return Additions(tuple(s for s in snapshots if s.commit_kind is CommitKind.APPEND))


def changing(store: TableStore, first: int, last: int, changelog: bool) -> list[Snapshot]:
    """The snapshots from one number to another, or the changelogs that they left when they expired.

    ``changelog``: whether changelogs are read of them; else changelogs count that are deltas.
    Raises SnapshotNotFoundError: one of them is gone.
    """
    found = {snapshot.id: snapshot for snapshot in store.snapshots_among(range(first, last + 1))}
    gaps = [id_ for id_ in range(first, last + 1) if id_ not in found]
    if gaps:
        found.update(_left_changelogs(store, gaps[0], gaps[-1], changelog))
    return [found.get(id_) or store.snapshot(id_) for id_ in range(first, last + 1)]


def _left_changelogs(store: TableStore, first: int, last: int, changelog: bool) -> dict[int, Snapshot]:
    """The changelogs that snapshots left, by number. A delta that has a changelog went with the snapshot."""
    from paimon_pyds.metadata.changelogs import changelog_ids, changelogs, is_delta

    earliest = store.earliest_snapshot_id() or 0  # later ones may be of states that were rolled back
    ids = [id_ for id_ in changelog_ids(store) if first <= id_ <= last and id_ < earliest]
    return {one.id: one for one in changelogs(store, ids) if changelog or is_delta(store, one)}


def _reversed(key: str, start: int, end: int) -> OptionError:
    return OptionError(f"{key}: the end ({end}) is before the start ({start})")


def _millis(key: str, text: str, zone: str | None) -> int:
    millis = whole_number(text)
    return parse_time(key, text, zone) if millis is None else millis


def _between_times(store: TableStore, start: int, end: int, mode: str) -> Incremental:
    if end < start:
        raise _reversed("incremental-between-timestamp", start, end)
    earliest, last = store.earliest_snapshot_id(), store.newest_until(end)
    if earliest is None or start == end:
        return Additions()
    before = store.newest_until(start)
    if mode != "diff":
        ends = (earliest if before is None else before.id + 1, 0 if last is None else last.id)
        return _additions(store, *(_with_changelogs(store, start, end, *ends) if before is None else ends), mode)
    if last is None:
        return Additions()
    if before is None and earliest > 1:
        raise SnapshotNotFoundError(
            f"which files the table had at {start} ms is not known: its snapshots before {earliest} have expired",
            path=store.root,
            hint="name a later start, or say incremental-between-scan-mode=delta for what later snapshots added",
        )
    return Difference(before, last)


def _with_changelogs(store: TableStore, start: int, end: int, first: int, last: int) -> tuple[int, int]:
    """The first and last number since a time, of snapshots and of the changelogs that those before them have left.

    Args:
        store: the table.
        start: milliseconds since the epoch, before the earliest snapshot.
        end: the same, of any time.
        first: the number of the earliest snapshot.
        last: that of the last one until the end; 0 without one.
    """
    from paimon_pyds.metadata.changelogs import changelogs, expired_changelogs

    def made(id_: int) -> int:
        return next((found.time_millis for found in changelogs(store, [id_])), 0)

    ids = expired_changelogs(store)
    since = ids[bisect.bisect_right(ids, start, key=made) :]
    return (*since, first)[0], last or (0, *ids[: bisect.bisect_right(ids, end, key=made)])[-1]


def _ends(store: TableStore, names: Sequence[str]) -> list[int | Snapshot]:
    """The numbers of snapshots, or what tags keep. Names of two tags may be numbers, too."""
    are_tags = set(names) <= set(store.tag_names())
    return [store.tag(name) if are_tags else _snapshot_or_tag(store, name) for name in names]


def _snapshot_or_tag(store: TableStore, text: str) -> int | Snapshot:
    """The number of a snapshot, or what a tag keeps."""
    number = whole_number(text)
    if number is not None:
        return number
    try:
        return store.tag(text)
    except TagNotFoundError as error:
        raise TagNotFoundError(f"no snapshot and no tag is named {text!r}", path=store.root) from error


_NAMING = (*TIME_TRAVEL_OPTIONS, *_BETWEEN)
_KEYS = ("scan.mode", *TIME_TRAVEL_OPTIONS, *INCREMENTAL_OPTIONS)
STATE_NAMES = {name: key for key in _KEYS for name in (*OPTIONS[key].fallbacks, key)}
"""The options that name a state by their older names, and by their own, which win."""
_OF_MODE = {
    "from-timestamp": ("scan.timestamp", "scan.timestamp-millis"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "incremental": _BETWEEN,
    **dict.fromkeys(("latest-full", "full", "latest"), ()),
}
"""What each mode of `scan.mode` reads from; the others are refused where a scan begins."""


def scan_options(
    snapshot: int | None, tag: str | None, timestamp: Any, options: Mapping[str, Any] | None
) -> dict[str, str]:
    """Keyword arguments of `Table.scan` as Paimon's options."""
    given = dict(mapping("options", options or {}))
    if snapshot is not None:
        given["scan.snapshot-id"] = snapshot
    if tag is not None:
        given["scan.tag-name"] = tag
    if isinstance(timestamp, date):
        given["scan.timestamp-millis"] = time_ms("timestamp", timestamp)
    elif isinstance(timestamp, int):
        given["scan.timestamp-millis"] = timestamp
    elif timestamp is not None:
        given["scan.timestamp"] = timestamp
    return option_texts(given)


def state_options(stored: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The options of a scan, with the state that the table's own options name where the scan names none.

    ``scan.mode=latest-full`` names the newest state. Older names of options become the present ones.
    Raises OptionError: two states, or a state that ``scan.mode`` does not go with.
    """
    of_scan, of_table = named_state(given), named_state(stored)
    names_state = "scan.mode" in of_scan or any(key in of_scan for key in _NAMING)
    chosen = of_scan if names_state else {**of_table, **of_scan}
    named = [key for key in _NAMING if key in chosen]
    if len(named) > 1:
        raise OptionError(f"only one of {', '.join(named)} can be given", hint="a scan reads one state of the table")
    mode = chosen.get("scan.mode", "default").lower()
    wanted = _OF_MODE.get(mode)
    if wanted is not None and named not in ([[key] for key in wanted] or [[]]):
        what = f"needs {' or '.join(wanted)}" if wanted else "reads the newest state"
        raise OptionError(f"scan.mode={mode} {what}{f', and {named[0]} is given' if named else ''}")
    return {**{key: text for key, text in given.items() if key not in STATE_NAMES}, **chosen}


def stored_state(store: TableStore, given: Mapping[str, str] | None = None) -> TableState:
    """The state of the table that a scan with these options reads, none by default.

    Raises:
        UnsupportedError: they, or the table's own options, name a difference between two states.
        OptionError, SnapshotNotFoundError, TagNotFoundError: they name no state that is there.
    """
    latest = store.latest_schema()
    options = state_options(latest.options, given or {})
    for key in _BETWEEN:
        if key in options:
            raise UnsupportedError(f"what was added between two states ({key}) has no system tables", path=store.root)
    return resolve_state(store, latest, options)


def named_state(options: Mapping[str, str]) -> dict[str, str]:
    """The options that name a state, by their present names."""
    return {key: options[name] for name, key in STATE_NAMES.items() if name in options}
