"""What follows a commit where it is due, in Java's order: new and old tags, then partitions, consumers,
snapshots and changelogs.

(Source: Java Paimon 1.4, class TableCommitImpl.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from paimon_pyds.commit.publisher import logging_errors
from paimon_pyds.maintenance.consumers import expire_consumers
from paimon_pyds.maintenance.expire import ExpireOptions, changelogs_outlive, expire_changelogs, expire_snapshots
from paimon_pyds.maintenance.partitions import expire_partitions
from paimon_pyds.maintenance.tag_creation import create_due_tags
from paimon_pyds.maintenance.tags import expire_tags
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import OPTIONS, TableOptions


def maintain(store: TableStore, typed: TableOptions, options: Mapping[str, str]) -> None:
    """Do what the options ask for, unless ``write-only``; an error is logged, as the commit stands.

    Tags of batch writes are made in any case: no other job makes them. ``typed``: ``options`` over the table's own.
    """
    given = {key: value for key, value in options.items() if key in OPTIONS}
    if typed.get("write-only"):
        if typed.get("tag.automatic-creation") == "batch":
            with logging_errors(store):
                create_due_tags(store, typed)
        return
    with logging_errors(store):
        create_due_tags(store, typed)
        if typed.get("tag.time-expire-enabled") and store.tag_names():
            expire_tags(store)
    with logging_errors(store):
        due = typed.get("end-input.check-partition-expire") or not typed.get("partition.expiration-check-interval")
        if due and typed.get("partition.expiration-time") is not None:
            expire_partitions(store, given)
    with logging_errors(store):
        age = typed.get("consumer.expiration-time")
        if age is not None:
            expire_consumers(store, age)
        if _may_expire(store, typed):
            expire_snapshots(store, ExpireOptions(options=given), once=True)
            if changelogs_outlive(typed):
                expire_changelogs(store, ExpireOptions(options=given), once=True)


def _may_expire(store: TableStore, options: TableOptions) -> bool:
    """Whether a snapshot may be due: the oldest is old enough, or there are too many. Most commits stop here."""
    earliest = store.earliest_snapshot_id()
    if earliest is None:
        return False
    oldest, latest = store.snapshot(earliest), store.latest_snapshot_id() or 0
    is_old = oldest.time_millis < time.time() * 1000 - options.get("snapshot.time-retained")
    return bool(is_old or latest - earliest >= options.get("snapshot.num-retained.max"))
