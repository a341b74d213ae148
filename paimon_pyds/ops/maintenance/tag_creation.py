"""Tags that commits make by themselves, one for each period: ``tag.automatic-creation``.

A period's tag names the first snapshot that was made once the period and ``tag.creation-delay`` were over, by the clock
(``process-time``) or by the rows' watermark (``watermark``). It is called like the beginning of the period. With
``batch`` the last write of each day has a tag. Java takes tags of people away, too, where there are more than
``tag.num-retained-max`` then; here these stay.
(Sources: Paimon documentation, maintenance/manage-tags; Java Paimon 1.4, classes TagAutoCreation, TagPeriodHandler,
TagBatchCreation.)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CommitError, OptionError, SnapshotNotFoundError
from paimon_pyds.metadata.snapshot import NO_WATERMARK, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.references import tag_references
from paimon_pyds.ops.maintenance.tags import TagOptions, create_tag, delete_tag

_BATCH = "batch-write-"
_EPOCH = datetime(1970, 1, 1)
_HOURS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}


@dataclass(frozen=True, slots=True)
class _Period:
    """How long a period is, and how its tags are called."""

    length: timedelta
    names: str
    daily: bool = False

    @staticmethod
    def of(options: TableOptions) -> _Period:
        duration = options.get("tag.creation-period-duration")
        names = options.get("tag.period-formatter")
        if duration is not None:
            return _Period(timedelta(milliseconds=duration), "%Y%m%d%H%M")
        match options.get("tag.creation-period"):
            case "hourly":
                return _Period(timedelta(hours=1), _HOURS[names])
            case "two-hours":
                return _Period(timedelta(hours=2), _HOURS["with_dashes"])
            case _:
                return _Period(timedelta(days=1), "%Y-%m-%d" if names == "with_dashes" else "%Y%m%d", daily=True)

    def begin_of(self, tag: str) -> datetime | None:
        """The period that a tag is called by; None for tags that people made."""
        text = tag.split(" ")[0] if self.daily else tag
        try:
            begin = datetime.strptime(text, self.names)
        except ValueError:
            return None
        return begin if begin.strftime(self.names) == text else None

    def before(self, time: datetime) -> datetime:
        """The beginning of the last whole period before a time."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length


def create_due_tags(store: TableStore, options: TableOptions, *, dry_run: bool = False) -> list[str]:
    """Make the tags of periods that are over, and delete the oldest beyond ``tag.num-retained-max``; the new names.
    Raises OptionError: a delay as long as a period, or a time zone that nobody knows."""
    mode = options.get("tag.automatic-creation")
    if mode == "batch":
        return _tag_of_batch(store, options, dry_run=dry_run)
    if mode not in ("process-time", "watermark"):
        return []
    period, delay = _Period.of(options), timedelta(milliseconds=options.get("tag.creation-delay"))
    if delay >= period.length:
        raise OptionError("tag.creation-delay is as long as the period of tags", hint="make it shorter")
    latest = store.latest_snapshot()
    automatic = _automatic(store, period)
    next_end = automatic[-1][2] + 2 * period.length if automatic else None
    newest = None if latest is None else _time_of(latest, mode, options)
    if latest is None or newest is None or (next_end is not None and newest - delay < next_end):
        return []
    made = []
    for snapshot in store.snapshots_between(automatic[-1][1] + 1 if automatic else 0, latest.id):
        time = _time_of(snapshot, mode, options)
        if time is None or (next_end is not None and time - delay < next_end):
            continue
        begin = period.before(time)
        if options.get("tag.automatic-completion") and next_end is not None:
            begin = next_end - period.length
        name = begin.strftime(period.names)
        if name not in made and name not in store.tag_names():
            try:
                create_tag(store, name, TagOptions(snapshot.id, dry_run=dry_run))
            except (SnapshotNotFoundError, CommitError):  # it expires, or the table is purged, just now
                continue
            made.append(name)
        next_end = begin + 2 * period.length
    if made and not dry_run:
        _delete_oldest(store, [name for name, *_ in _automatic(store, period)], options)
    return made


def _delete_oldest(store: TableStore, names: Sequence[str], options: TableOptions) -> None:
    most = options.get("tag.num-retained-max")
    for name in () if most is None else names[: max(len(names) - most, 0)]:
        delete_tag(store, name)


def _tag_of_batch(store: TableStore, options: TableOptions, *, dry_run: bool) -> list[str]:
    """Let the tag of today, or the one that ``tag.batch.customized-name`` names, keep the newest state."""
    latest, own = store.latest_snapshot(), options.get("tag.batch.customized-name")
    moment = None if latest is None else _time_of(latest, "process-time", options)
    if latest is None or moment is None:
        return []
    name = own or moment.strftime(f"{_BATCH}%Y-%m-%d")
    if name in store.tag_names() and store.tag(name) == latest:
        return []
    create_tag(store, name, TagOptions(latest.id, replace=True, dry_run=dry_run))
    if not dry_run:
        _delete_oldest(store, [tag.tag for tag in tag_references(store) if tag.tag.startswith(_BATCH)], options)
    return [name]


def _automatic(store: TableStore, period: _Period) -> list[tuple[str, int, datetime]]:
    """The tags that were made so, with their snapshots and periods, by the numbers of the snapshots."""
    named = ((tag.tag, tag.snapshot.id) for tag in tag_references(store))
    return [(name, id_, begin) for name, id_ in named if (begin := period.begin_of(name)) is not None]


def _time_of(snapshot: Snapshot, mode: str, options: TableOptions) -> datetime | None:
    """When a snapshot was made, on the clock of the zone that the options name; None for one without a watermark."""
    key = "sink.process-time-zone" if mode == "process-time" else "sink.watermark-time-zone"
    millis, zone = (snapshot.time_millis if mode == "process-time" else snapshot.watermark), options.get(key)
    if millis is None or millis == NO_WATERMARK:
        return None
    try:
        moment = datetime.fromtimestamp(millis / 1000, None if zone is None else ZoneInfo(zone))
    except (OSError, OverflowError, ValueError, LookupError) as error:
        raise OptionError(f"{key} and a time of snapshot {snapshot.id}: {error}") from error
    return moment.replace(tzinfo=None)
