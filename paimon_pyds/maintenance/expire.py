"""Expiry of snapshots: which are due, and how they go so that no reader and no other writer is misled.

A snapshot's files go first and the snapshot itself last, as in Java, so an expiry that was killed is finished by the
next. Before the first file goes, the hint EARLIEST names the first snapshot that stays; then tags, branches and
consumers are read once more. Who makes a tag here writes it first and looks at the hint then
(`paimon_pyds.maintenance.tags`): one of the two sees the other. Java Paimon does not look again; a tag that it makes of
a snapshot just as that expires may name files that go.
(Sources: Paimon documentation, maintenance/manage-snapshots; Java Paimon 1.4, class ExpireSnapshotsImpl.)
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from paimon_pyds.errors import CommitError, NotFoundError, OptionError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.maintenance.references import (
    KeptFiles,
    Reference,
    consumers,
    references_elsewhere,
    tag_references,
)
from paimon_pyds.maintenance.removal import Removal, RemovalSummary, delete_files, threads_of
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.options import TableOptions, check_branch, check_known
from paimon_pyds.options.option import integer
from paimon_pyds.scan.travel import parse_timestamp

_TRIES = 10


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """The arguments of `paimon_pyds.Table.expire_snapshots`, which explains them."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than: datetime | str | int | None = None
    dry_run: bool = False
    options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many snapshots stay, at least and at most; which are too young to go, in milliseconds since the epoch."""

    retain_min: int
    retain_max: int
    older_than_ms: int
    at_once: int


def expire_snapshots(store: TableStore, how: ExpireOptions, *, once: bool = False) -> RemovalSummary:
    """Remove the snapshots that are due, and the files that only they need, ``snapshot.expire.limit`` at a time.

    Args:
        store: the table.
        how: what `Table.expire_snapshots` takes.
        once: no more than may go at a time.

    Raises:
        OptionError: limits that contradict each other.
        UnsupportedError: changelogs of this table live longer than its snapshots.
        NotFoundError: a tag or branch needs a file that is gone; nothing was removed.
    """
    options = maintenance_options(store, how.options)
    limits = _limits(how, options)
    check_changelogs(store, options)
    started, total = time.monotonic(), RemovalSummary(dry_run=how.dry_run)
    first = 0
    while (found := _expire_some(store, limits, options, first, dry_run=how.dry_run)) is not None:
        summary, first = found
        total = merged(total, summary)
        if once:
            break
    return replace(total, seconds=time.monotonic() - started)


def maintenance_options(store: TableStore, given: Mapping[str, str] | None) -> TableOptions:
    """The options of a table with those of one call over them. Raises OptionError for an unknown one."""
    check_known(given or (), own=False)
    schema = store.latest_schema()
    check_branch(schema, store.branch, store.root)
    return TableOptions({**schema.options, **(given or {})})


def check_changelogs(store: TableStore, options: TableOptions) -> None:
    """Raises UnsupportedError where changelogs live longer than snapshots: these have files of their own then."""
    longer = [
        key
        for kept, key in (
            ("snapshot.num-retained.max", "changelog.num-retained.max"),
            ("snapshot.num-retained.min", "changelog.num-retained.min"),
            ("snapshot.time-retained", "changelog.time-retained"),
        )
        if options.get(key) is not None and options.get(key) > options.get(kept)
    ]
    if longer or store.io.list(store.paths.changelog_dir):
        why = f"{longer[0]}={options[longer[0]]}" if longer else "a directory changelog"
        raise UnsupportedError(
            f"a table with {why} keeps changelogs longer than snapshots, and can't be expired here",
            path=store.root,
            hint="let Java Paimon expire it, or let changelogs expire with their snapshots",
        )


def _limits(how: ExpireOptions, options: TableOptions) -> _Limits:
    at_least = (
        options.get("snapshot.num-retained.min") if how.retain_min is None else integer("retain_min", how.retain_min)
    )
    at_most = (
        options.get("snapshot.num-retained.max") if how.retain_max is None else integer("retain_max", how.retain_max)
    )
    at_once = options.get("snapshot.expire.limit")
    if how.retain_max is not None and how.retain_min is None:
        at_least = min(at_least, at_most)
    if at_least < 1 or at_most < at_least or at_once < 1:
        raise OptionError(
            f"at least {at_least} snapshots and at most {at_most} are to stay, {at_once} may go at once",
            hint="at least one stays, the most are no fewer than the least, and one or more go",
        )
    older_than = how.older_than
    if older_than is None:
        moment = int(time.time() * 1000) - int(options.get("snapshot.time-retained"))
    else:
        moment = timestamp_ms("older_than", older_than)
    return _Limits(at_least, at_most, moment, at_once)


def timestamp_ms(name: str, value: Any) -> int:
    """Milliseconds since the epoch of an argument: these, a text like ``2026-01-31 12:30:00`` in UTC, or a datetime.

    Args:
        name: of the argument.
        value: what was given.

    Raises:
        OptionError, ArgumentTypeError: something else.
    """
    if isinstance(value, datetime):
        value = value.isoformat()
    return parse_timestamp(name, value, "UTC") if isinstance(value, str) else integer(name, value)


def merged(a: RemovalSummary, b: RemovalSummary) -> RemovalSummary:
    """Two summaries of the same operation as one."""
    names = ("snapshots", "tags", "branches", "partitions", "consumers", "data_files", "metadata_files", "bytes")
    return replace(a, **{name: getattr(a, name) + getattr(b, name) for name in names})


def _range(store: TableStore, limits: _Limits, earliest: int, positions: Mapping[str, int]) -> range:
    """The numbers of the snapshots that are due, from ``earliest`` on; there may be gaps."""
    latest = store.latest_snapshot_id()
    if latest is None:
        return range(0)
    hint = read_hint(store.io, store.paths.latest_hint)
    if hint is None or not store.snapshot_exists(hint):
        hint = latest
    # A rollback to what the hint names may have begun.
    end = min(latest - limits.retain_min + 1, earliest + limits.at_once, hint, *positions.values())
    for id_ in range(max(latest - limits.retain_max + 1, earliest), end):
        try:
            if store.snapshot(id_).time_millis >= limits.older_than_ms:
                return range(earliest, id_)
        except SnapshotNotFoundError:  # expired meanwhile
            continue
    return range(earliest, end)


def _expire_some(
    store: TableStore, limits: _Limits, options: TableOptions, first: int, *, dry_run: bool
) -> tuple[RemovalSummary, int] | None:
    """Expire what may go at once, of the snapshots from ``first`` on: what went, and the first that stays; None when
    nothing is due."""
    begun = 0  # the first that stays after an expiry that has begun: what it left of older ones is of no use
    for _ in range(_TRIES):
        positions = consumers(store)
        earliest = first or store.earliest_snapshot_id()
        due = range(0) if earliest is None else _range(store, limits, earliest, positions)
        if earliest is not None and begun > max(due.stop, earliest):
            due = range(earliest, begun)
        if earliest is None or not due:
            return None
        snapshots = store.snapshots_between(due.start, due.stop)
        if not snapshots or snapshots[-1].id != due.stop:
            first = 0  # another expiry was faster
            continue
        *gone, end = snapshots
        others = _others(store, due)
        try:
            removal = _removal(store, gone, end, others, threads_of(options))
        except NotFoundError:
            begun = earliest_by_hint(store) or 0
            if begun <= end.id and _others(store, due) == others and _is_there(store, end):
                raise
            continue
        if not dry_run:
            _write_hint(store, end.id)
            if _others(store, due) != others or consumers(store) != positions or _is_rolled_back(store, end):
                _write_hint(store, earliest)
                continue
            _remove(removal, gone, options)
        return removal.summary(len(gone)), end.id
    raise CommitError(
        "tags, branches or snapshots changed again and again while snapshots were to expire",
        path=store.root,
        hint="try again later; nothing was removed",
    )


def earliest_by_hint(store: TableStore) -> int | None:
    """The snapshot that the hint EARLIEST names, if it is there: an expiry up to it may have begun."""
    hint = read_hint(store.io, store.paths.earliest_hint)
    return hint if hint is not None and store.snapshot_exists(hint) else None


def _is_rolled_back(store: TableStore, end: Snapshot) -> bool:
    """Whether the first snapshot that is to stay goes by a rollback, which begins with the hint LATEST."""
    hint = read_hint(store.io, store.paths.latest_hint)
    return (hint is not None and hint < end.id) or not _is_there(store, end)


def _is_there(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether the number still has this snapshot: after a rollback it may have another."""
    return store.snapshots_between(snapshot.id, snapshot.id) == [snapshot]


def _write_hint(store: TableStore, id_: int) -> None:
    store.io.replace(store.paths.earliest_hint, str(id_).encode())


def _others(store: TableStore, due: range) -> list[Reference]:
    """The states that may need files of the snapshots that go, but for the first that stays.

    Of the branch's own tags, these are the last before the snapshots that go, and those on these: what an older tag
    needs of their files, the last one needs, too.
    """
    tags = tag_references(store)
    ids = [tag.snapshot.id for tag in tags]
    before = max(bisect.bisect_right(ids, due.start) - 1, 0)
    first = bisect.bisect_left(ids, ids[before]) if ids else 0
    return [*tags[first : bisect.bisect_left(ids, due.stop)], *references_elsewhere(store)]


def _removal(
    store: TableStore, gone: Sequence[Snapshot], end: Snapshot, others: Sequence[Reference], threads: int
) -> Removal:
    removal = Removal(store, threads)
    removal.add_deleted([*gone[1:], end])
    removal.add_changelogs(gone)
    removal.add_metadata(gone)
    removal.keep(KeptFiles(store, [Reference(store.branch, f"snapshot {end.id}", end, True), *others]))
    return removal


def _remove(removal: Removal, gone: Sequence[Snapshot], options: TableOptions) -> None:
    store = removal.store
    removal.delete()
    if options.get("snapshot.clean-empty-directories"):
        remove_empty_directories(store, removal.directories())
    for snapshot in gone:  # from the oldest on: what is left is always without gaps
        delete_files(store.io, [store.paths.snapshot(snapshot.id)], 1)


def remove_empty_directories(store: TableStore, directories: Sequence[str]) -> None:
    """Remove the directories of buckets that are empty, and those of partitions above them that are so then."""
    root = store.root.rstrip("/")
    while directories:
        gone = [path for path in directories if store.io.remove_empty_dir(path)]
        above = dict.fromkeys(path.rpartition("/")[0] for path in gone)
        directories = [path for path in above if path.startswith(f"{root}/") and "=" in path.rpartition("/")[2]]
