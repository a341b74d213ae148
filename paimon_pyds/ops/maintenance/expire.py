"""Expiry of snapshots and changelogs: which are due, and how they go so that no reader or other writer is misled.

A snapshot's files go first and the snapshot itself last, as in Java, so an expiry that was killed is finished by the
next. Before the first file goes, an intent (`paimon_pyds.metadata.intents`) and the hint EARLIEST name the first
snapshot that stays; then tags, branches, consumers and rollbacks are read once more. Creating a tag and rolling back
write first and then look at the intents: one of the two sees the other. Java Paimon does not look again: a tag that it
makes of a snapshot during its expiry may name files that go.

Where options keep changelogs longer, a snapshot leaves its own (`paimon_pyds.metadata.changelogs`) before a file goes.
No new tag can need what goes with a changelog later, as its state is gone; tags and branches may get other names.
(Sources: Paimon documentation, maintenance/manage-snapshots; Java Paimon 1.4, classes ExpireSnapshotsImpl,
ExpireChangelogImpl, SnapshotDeletion, ChangelogDeletion.)
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, timedelta
from typing import Any

from paimon_pyds.base.options import TableOptions, check_branch, check_known
from paimon_pyds.base.options.option import integer
from paimon_pyds.base.options.times import past_ms, zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CommitError, NotFoundError, OptionError, SnapshotNotFoundError
from paimon_pyds.metadata.changelogs import (
    changelog_ids,
    changelogs,
    earliest_changelog_id,
    remove_changelogs_from,
    write_changelog,
    write_changelog_hint,
)
from paimon_pyds.metadata.consumers import consumers
from paimon_pyds.metadata.intents import begin_expiry, expiring_before, finish_expiry, rolling_back_to, withdraw
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.metadata.user_commits import settle_expiring
from paimon_pyds.ops.maintenance.references import (
    Reference,
    ReferencedFiles,
    references_elsewhere,
    settling,
    tag_references,
)
from paimon_pyds.ops.maintenance.removal import Removal, RemovalSummary, delete_files, threads_of
from paimon_pyds.storage import is_file
from paimon_pyds.storage.concurrent import concurrent_each

_TRIES = 10
"""How often it starts over after other processes changed the same files: more often is no accident."""


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """The arguments of ``table.snapshots.expire`` and `expire_changelogs`, which explain them."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than: timedelta | date | str | int | None = None
    dry_run: bool = False
    options: Mapping[str, str] | None = None
    max_deletes: int | None = None


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many states stay, at least and at most, and of changelogs in any case; which are too young to go, in
    milliseconds since the epoch; how many may go at once, and in all."""

    retain_min: int
    retain_max: int
    older_than_ms: int
    at_once: int
    changelogs: int = 1
    in_all: int | None = None

    def after(self, gone: int) -> _Limits | None:
        """The limits after ``gone`` removals; None if no more may go."""
        if self.in_all is None:
            return self
        left = self.in_all - gone
        return replace(self, at_once=min(self.at_once, left)) if left > 0 else None


@dataclass(frozen=True, slots=True)
class _ExpiryRules:
    """How snapshots go: the options, and whether they leave changelogs, and with them what their deltas name; ``left``:
    changelogs are there of snapshots that a rollback brought back."""

    options: TableOptions
    changelogs: bool
    deltas: bool
    dry_run: bool
    left: bool


def expire_snapshots(
    store: TableStore, how: ExpireOptions, *, once: bool = False, leave_changelogs: bool = True
) -> RemovalSummary:
    """Remove the snapshots that are due, and the files that only they need, ``snapshot.expire.limit`` at a time.

    Changelogs that no option keeps any more go first, however young, as files that they need would go.

    ``how``: as for ``table.snapshots.expire``. ``once``: no more than may go at a time. ``leave_changelogs``: as the
    options say; else none stays.

    Raises:
        OptionError: limits that contradict each other.
        NotFoundError: a tag or branch needs a file that is gone; nothing was removed.
    """
    options = maintenance_options(store, how.options)
    limits = _limits(how, options)
    started, total = time.monotonic(), RemovalSummary(dry_run=how.dry_run)
    leave = leave_changelogs and changelogs_outlive(options)
    left = False
    if not leave and changelog_ids(store):
        total = expire_changelogs(store, replace(how, max_deletes=None), everything=True)
        left = bool(changelog_ids(store))
    run, first = _ExpiryRules(options, leave, leave and _has_deltas(store, options), how.dry_run, left), 0
    while (now := limits.after(total.snapshots)) and (found := _expire_some(store, now, run, first)) is not None:
        summary, first = found
        total = merged(total, summary)
        if once:
            break
    if not once and not how.dry_run:  # also of one that was killed at its very end
        finish_expiry(store, store.earliest_snapshot_id() or 0)
    return replace(total, seconds=time.monotonic() - started)


def maintenance_options(store: TableStore, given: Mapping[str, str] | None) -> TableOptions:
    """The options of a table with those of one call over them. Raises OptionError for an unknown one."""
    check_known(given or (), own=False)
    schema = store.latest_schema()
    check_branch(schema, store.branch, store.root, given)
    return TableOptions({**schema.options, **(given or {})})


def changelogs_outlive(options: TableOptions) -> bool:
    """Whether changelogs live longer than snapshots (Java: ``changelogLifecycleDecoupled``)."""
    return any(
        options.get(f"changelog.{key}") is not None and options.get(f"changelog.{key}") > options.get(f"snapshot.{key}")
        for key in ("num-retained.max", "num-retained.min", "time-retained")
    )


def _has_deltas(store: TableStore, options: TableOptions) -> bool:
    """Whether changelogs may be deltas: the table has no producer of changelogs, or had none since the earliest."""
    if options.get("changelog-producer") == "none":
        return True
    first = earliest_changelog_id(store) or store.earliest_snapshot_id() or 0
    oldest = [*changelogs(store, [first]), *store.snapshots_among([first])]
    since = [store.schema(id_) for id_ in store.schema_ids() if not oldest or id_ >= oldest[0].schema_id]
    return any(TableOptions(schema.options).get("changelog-producer") == "none" for schema in since)


def _limits(how: ExpireOptions, options: TableOptions, of: str = "snapshot") -> _Limits:
    def limit(key: str) -> Any:
        own = options.get(f"{of}.{key}")
        return options.get(f"snapshot.{key}") if own is None else own

    at_least = limit("num-retained.min") if how.retain_min is None else integer("retain_min", how.retain_min)
    at_most = limit("num-retained.max") if how.retain_max is None else integer("retain_max", how.retain_max)
    at_once = options.get("snapshot.expire.limit")
    in_all = None if how.max_deletes is None else integer("max_deletes", how.max_deletes)
    if how.retain_max is not None and how.retain_min is None:
        at_least = min(at_least, at_most)
    if min(at_least, at_most) < 1:
        raise OptionError(f"{min(at_least, at_most)} {of}s can't be the number to retain", hint="retain at least 1")
    if at_most < at_least:
        hint = "raise retain_max (num-retained.max), or lower retain_min (num-retained.min)"
        raise OptionError(f"at least {at_least} {of}s must be retained, but at most {at_most}", hint=hint)
    if at_once < 1:
        raise OptionError(
            f"snapshot.expire.limit is {at_once}", hint=f"at least one of the {of}s must be able to expire"
        )
    if in_all is not None and in_all < 1:
        raise OptionError(f"max_deletes is {in_all}", hint=f"at least one of the {of}s must be able to expire")
    older_than = how.older_than
    if older_than is None:
        moment = int(time.time() * 1000) - int(limit("time-retained"))
    else:
        moment = past_ms("older_than", older_than, zone_given(how.options or {}))
    return _Limits(at_least, at_most, moment, at_once, in_all=in_all)


def merged(a: RemovalSummary, b: RemovalSummary) -> RemovalSummary:
    """Two summaries of the same operation as one."""
    names = {field.name for field in fields(a)} - {"seconds", "dry_run"}
    return replace(a, **{name: getattr(a, name) + getattr(b, name) for name in names})


def _range(store: TableStore, limits: _Limits, earliest: int, positions: Mapping[str, int]) -> range:
    """The numbers of the snapshots that are due, from ``earliest`` on; there may be gaps."""
    latest = store.latest_snapshot_id()
    if latest is None:
        return range(0)
    hint = read_hint(store.io, store.paths.latest_hint)
    if hint is None or not store.snapshot_exists(hint):
        hint = latest
    # A rollback to what the hint names may have begun, by Java, too.
    end = min(latest - limits.retain_min + 1, earliest + limits.at_once, hint, *positions.values())
    if end > earliest:
        end = min([end, *rolling_back_to(store)])
    for id_ in range(max(latest - limits.retain_max + 1, earliest), end):
        try:
            if store.snapshot(id_).time_millis >= limits.older_than_ms:
                return range(earliest, id_)
        except SnapshotNotFoundError:  # expired meanwhile
            continue
    return range(earliest, end)


def _expire_some(
    store: TableStore, limits: _Limits, how: _ExpiryRules, first: int
) -> tuple[RemovalSummary, int] | None:
    """Expire what may go at once, of the snapshots from ``first`` on: what went, and the first that stays; None when
    nothing is due."""
    begun, settled = 0, settling()  # the first that stays after a begun expiry: what it left of older ones is of no use
    for _ in range(_TRIES):
        positions = _positions(store, how)
        earliest = first or store.earliest_snapshot_id()
        expiring = range(0) if earliest is None else _range(store, limits, earliest, positions)
        if earliest is not None and begun > max(expiring.stop, earliest):
            expiring = range(earliest, begun)
        if earliest is None or not expiring:
            return None
        snapshots = store.snapshots_between(expiring.start, expiring.stop)
        if not snapshots or snapshots[-1].id != expiring.stop:
            first = 0  # another expiry was faster
            continue
        *gone, end = snapshots
        others = _others(store, expiring)
        try:
            removal = _removal(store, gone, end, others, how)
        except NotFoundError as error:
            begun = expiring_before(store)
            if begun <= end.id and _others(store, expiring) == others and _is_there(store, end):
                settled.again(error)
            continue
        if not how.dry_run:
            intent = begin_expiry(store, end.id)
            store.write_earliest_hint(end.id)
            if _others(store, expiring) != others or _positions(store, how) != positions or _is_rolled_back(store, end):
                store.write_earliest_hint(earliest)
                withdraw(store, intent)
                continue
            settle_expiring(store, gone)
            _remove(removal, gone, how)
            finish_expiry(store, end.id)
        return removal.summary(snapshots=len(gone)), end.id
    what = "tags, branches or snapshots changed again and again while snapshots were to expire"
    raise CommitError(what, path=store.root, hint="try again later; nothing was removed")


def _positions(store: TableStore, how: _ExpiryRules) -> Mapping[str, int]:
    """The snapshots that streaming readers read next, where they need states of the table."""
    return {} if how.changelogs and how.options.get("consumer.changelog-only") else consumers(store)


def _is_rolled_back(store: TableStore, end: Snapshot) -> bool:
    """Whether a rollback removes the first snapshot to retain; Java's begins with the hint LATEST."""
    if any(target < end.id for target in rolling_back_to(store)):
        return True
    hint = read_hint(store.io, store.paths.latest_hint)
    return (hint is not None and hint < end.id) or not _is_there(store, end)


def _is_there(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether the number still has this snapshot: after a rollback it may have another."""
    return store.snapshots_between(snapshot.id, snapshot.id) == [snapshot]


def _others(store: TableStore, expiring: range) -> list[Reference]:
    """The states that may need files of the snapshots that go, but for the first that stays.

    Of the branch's own tags, these are the last before the snapshots that go, and those on these: what an older tag
    needs of their files, the last one needs, too.
    """
    tags = tag_references(store)
    ids = [tag.snapshot.id for tag in tags]
    before = max(bisect.bisect_right(ids, expiring.start) - 1, 0)
    first = bisect.bisect_left(ids, ids[before]) if ids else 0
    return [*tags[first : bisect.bisect_left(ids, expiring.stop)], *references_elsewhere(store)]


def _removal(
    store: TableStore, gone: Sequence[Snapshot], end: Snapshot, others: Sequence[Reference], how: _ExpiryRules
) -> Removal:
    removal = Removal(store, threads_of(how.options))
    removal.add_deleted([*gone[1:], end], of_compactions=how.deltas)
    if not how.changelogs:
        removal.add_changelogs(gone)
    removal.add_metadata(gone, changelogs=not how.changelogs, states=not how.deltas)
    removal.keep(ReferencedFiles(store, [Reference(store.branch, f"snapshot {end.id}", end, True), *others]))
    return removal


def _remove(removal: Removal, gone: Sequence[Snapshot], how: _ExpiryRules) -> None:
    store = removal.store
    if how.changelogs:
        concurrent_each(lambda snapshot: write_changelog(store, snapshot), gone, threads_of(how.options))
        write_changelog_hint(store, "LATEST", gone[-1].id)
    elif how.left:
        remove_changelogs_from(store, gone[0].id)
    removal.delete()
    removal.delete_directories(how.options)
    for snapshot in gone:  # from the oldest on: the remaining ones never have gaps
        delete_files(store.io, [store.paths.snapshot(snapshot.id)], 1)
    latest = read_hint(store.io, store.paths.latest_hint) if how.changelogs else None
    if latest is not None and latest < gone[0].id:  # rolled back meanwhile: these numbers get other snapshots
        remove_changelogs_from(store, latest + 1)


# ---------------------------------------------------------------------------------------------------------- changelogs


def expire_changelogs(
    store: TableStore, how: ExpireOptions, *, everything: bool = False, once: bool = False
) -> RemovalSummary:
    """Remove the changelogs that are due, and the files that only they need, ``snapshot.expire.limit`` at a time.

    ``how``: as for ``table.snapshots.expire_changelogs``. ``everything``: all of them, however young. Without it, the
    last one stays, as in Java. ``once``: no more than may go at a time.

    Raises:
        OptionError: limits that contradict each other.
        NotFoundError: a tag or branch needs a file that is gone; nothing was removed.
    """
    options = maintenance_options(store, how.options)
    limits = _limits(how, options, "changelog")
    if everything:
        limits = replace(limits, retain_min=1, retain_max=1, changelogs=0)
    started, total = time.monotonic(), RemovalSummary(dry_run=how.dry_run)
    first = earliest_changelog_id(store)
    while first is not None and (now := limits.after(total.changelogs)):
        found = _expire_some_changelogs(store, now, options, first, dry_run=how.dry_run)
        if found is None:
            break
        summary, first = found
        total = merged(total, summary)
        if once:
            break
    return replace(total, seconds=time.monotonic() - started)


def _changelogs_due(store: TableStore, limits: _Limits, first: int, earliest: int) -> range:
    """The numbers of the changelogs that are due, from ``first`` on; those from ``earliest`` on are of snapshots."""
    latest = store.latest_snapshot_id() or earliest
    end = min(earliest - limits.changelogs, latest - limits.retain_min + 1, first + limits.at_once)
    end = min((end, *consumers(store).values()))
    for id_ in range(max(latest - limits.retain_max + 1, first), end):
        if any(found.time_millis >= limits.older_than_ms for found in changelogs(store, [id_])):
            return range(first, id_)
    return range(first, end)


def _expire_some_changelogs(
    store: TableStore, limits: _Limits, options: TableOptions, first: int, *, dry_run: bool
) -> tuple[RemovalSummary, int | None] | None:
    """Expire what may go at once: what went, and the first that stays; None when nothing is due."""
    begun, settled = 0, settling()  # the first that stays after an expiry of snapshots that has begun
    for _ in range(_TRIES):
        earliest = max(store.earliest_snapshot_id() or 0, begun)
        expiring = _changelogs_due(store, limits, first, earliest)
        if not expiring:
            return None
        end = store.snapshots_among([earliest])
        if not end:  # expired meanwhile
            continue
        gone, later = changelogs(store, expiring), _changelog_from(store, expiring.stop, earliest)
        others = _others(store, expiring)
        try:
            removal = _removal_of_changelogs(store, gone, [*later, *end], others, options)
        except NotFoundError as error:
            begun = expiring_before(store)
            if begun <= earliest and _is_there(store, end[0]):
                settled.again(error)
            continue
        next_ = later[0].id if later else None
        if not dry_run:
            if _others(store, expiring) != others or max(store.earliest_snapshot_id() or 0, begun) < earliest:
                continue  # a tag or branch has another name, or the table was rolled back to a tag
            removal.delete()
            removal.delete_directories(options)
            delete_files(store.io, (store.paths.changelog(changelog.id) for changelog in gone), 1)
            write_changelog_hint(store, "EARLIEST", next_)
        return removal.summary(changelogs=len(gone)), next_
    raise CommitError(
        "snapshots expired again and again during the expiry of changelogs", path=store.root, hint="try again"
    )


def _changelog_from(store: TableStore, id_: int, earliest: int) -> list[Snapshot]:
    """The first changelog from a number on, before the earliest snapshot; there may be gaps."""
    if id_ >= earliest:
        return []
    return changelogs(store, [id_]) or changelogs(store, [i for i in changelog_ids(store) if id_ < i < earliest][:1])


def _removal_of_changelogs(
    store: TableStore, gone: Sequence[Snapshot], left: Sequence[Snapshot], others: Sequence[Reference],
    options: TableOptions,
) -> Removal:  # fmt: skip
    """The files of changelogs that neither the next changelog, where one is left, needs nor the earliest snapshot."""
    *later, end = left
    removal = Removal(store, threads_of(options))
    deltas = [changelog for changelog in gone if is_file(store.io, store.paths.manifest(changelog.delta_manifest_list))]
    removal.add_deleted(deltas if later else [*deltas, end])
    removal.add_changelogs(gone)
    removal.add_metadata(gone, states=False, indexes=False)
    removal.add_metadata(deltas, changelogs=False, indexes=False)
    states = [Reference(store.branch, f"changelog {c.id}", c, True) for c in later]
    kept = ReferencedFiles(store, [Reference(store.branch, f"snapshot {end.id}", end, True), *states, *others])
    removal.keep(kept, compacted_before=True)
    return removal
