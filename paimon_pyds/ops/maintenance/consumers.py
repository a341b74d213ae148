"""Consumers: how far streaming readers have come. Snapshots that a consumer has yet to read don't
expire, so a consumer that will never come back has to be removed, by its age or by hand.

Setting back a position writes it first, and then checks that its snapshot stays; expiry announces itself first and then
reads the positions: one of the two sees the other.
(Sources: Paimon documentation, maintenance/configurations and spark/procedures, reset_consumer, clear_consumers; Java
Paimon 1.4, class ConsumerManager.)
"""

from __future__ import annotations

import re
import time
from contextlib import suppress

from paimon_pyds.base.options.option import integer, text
from paimon_pyds.errors import CorruptFileError, NotFoundError, OptionError, SnapshotNotFoundError, suggest
from paimon_pyds.metadata.consumers import (
    Consumer,
    consumer_names,
    consumer_others,
    consumer_owner,
    forget_consumer,
    read_consumer,
    retaining_consumer,
    write_consumer,
)
from paimon_pyds.metadata.intents import expiring_before
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.removal import RemovalSummary, delete_files


def expire_consumers(store: TableStore, age_ms: int) -> None:
    """Forget the streaming readers that have not moved for so long (``consumer.expiration-time``)."""
    limit = time.time() * 1000 - age_ms
    old = [
        status.path
        for status in store.io.list(store.paths.consumer_dir)
        if status.name.startswith("consumer-") and not status.is_dir and 0 < status.modified_ms < limit
    ]
    delete_files(store.io, old, 1)


def reset_consumer(
    store: TableStore, name: str, next_snapshot: int | None = None, *, dry_run: bool = False
) -> int | None:
    """Set which snapshot a streaming reader reads next, or forget the reader; see ``table.maintenance.reset_consumer``.

    Raises:
        NotFoundError: the reader to forget is not known.
        SnapshotNotFoundError: the snapshot is not there, or expires just now; the position stays as it was.
        OptionError: no name.
    """
    maintenance_options(store, None)
    known = consumer_names(store)
    if not text("name", name).strip():
        raise OptionError("a consumer needs a name", hint=suggest(name, known, "consumers"))
    path, before, others = store.paths.consumer(name), None, consumer_others(store, name)
    with suppress(FileNotFoundError, CorruptFileError):  # a damaged file is written anew, or forgotten
        before = read_consumer(store, name)
    if next_snapshot is None:
        if name not in known and retaining_consumer(name) not in known:
            what = f"there is no consumer {name!r:.100}"
            raise NotFoundError(what, path=store.root, hint=suggest(name, known, "consumers"))
        if not dry_run:
            forget_consumer(store, name)
        return before and before.next
    position = integer("next_snapshot", next_snapshot)
    _check_there(store, position)
    if not dry_run:
        write_consumer(store, name, Consumer(position, others=others))
        try:
            _check_there(store, position)
        except SnapshotNotFoundError:
            store.io.delete([path]) if before is None else write_consumer(store, name, before)
            raise
        store.io.delete([store.paths.consumer(retaining_consumer(name))])
    return before and before.next


def _check_there(store: TableStore, id_: int) -> None:
    """Raise SnapshotNotFoundError for a snapshot that is gone, or may go just now, or is later than the next one."""
    latest = store.latest_snapshot_id() or 0
    if id_ != latest + 1 and not (store.snapshot_exists(id_) and expiring_before(store) <= id_):
        ids = store.snapshot_ids()
        there = f"from {ids[0]} to {latest}, and {latest + 1} is the next one" if ids else "none"
        raise SnapshotNotFoundError(
            f"snapshot {id_} does not exist, or is expiring", path=store.root, hint=f"there are {there}"
        )


def clear_consumers(
    store: TableStore, including: str | None = None, excluding: str | None = None, *, dry_run: bool = False
) -> RemovalSummary:
    """Forget streaming readers; see ``table.maintenance.clear_consumers``.

    Raises:
        OptionError: a name is no regular expression.
    """
    started = time.monotonic()
    maintenance_options(store, None)
    wanted, spared = (_pattern(*given) for given in (("including", including), ("excluding", excluding)))
    gone = tuple(
        name
        for name in consumer_names(store)
        if (wanted is None or _matches(wanted, name)) and not (spared is not None and _matches(spared, name))
    )
    if not dry_run:
        delete_files(store.io, map(store.paths.consumer, gone), 1)
    return RemovalSummary(consumers=gone, seconds=time.monotonic() - started, dry_run=dry_run)


def _matches(pattern: re.Pattern[str], name: str) -> bool:
    """Whether a reader has such a name, or keeps something by this one."""
    return any(map(pattern.fullmatch, (name, consumer_owner(name))))


def _pattern(name: str, value: str | None) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(text(name, value))
    except re.error as error:
        raise OptionError(f"{name}={value!r:.100} is no regular expression: {error}") from error
