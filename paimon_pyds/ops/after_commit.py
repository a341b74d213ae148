"""Follow a commit with more buckets, done marks, tags and expiry, as the table's options require.

Most commits need nothing of it, and import nothing that only maintenance needs. (Source: Java Paimon 1.4, class
TableCommitImpl: new and old tags, then partitions, consumers, snapshots and changelogs.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_pyds.base.options import OPTIONS, TableOptions
from paimon_pyds.engine.commit.publisher import logging_errors
from paimon_pyds.keys.bucket import makes_buckets
from paimon_pyds.metadata.partition import partition_is
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    from paimon_pyds.engine.execution.executor import Executor

_EXPIRE_BESIDES_SNAPSHOTS = (
    "tag.automatic-creation", "tag.default-time-retained", "partition.expiration-time", "consumer.expiration-time",
)  # fmt: skip


def after_commit(store: TableStore, committed: int, options: Mapping[str, str]) -> None:
    """Do what the options require after a write; an error is only logged or a warning, as the commit stands.

    Args:
        store: the table, whose schema has been read.
        committed: the snapshot of the write.
        options: table options over the table's own.
    """
    with logging_errors(store):
        typed = TableOptions({**store.schema_read_last().options, **options})
        if makes_buckets(typed):
            _enlarge(store, typed, committed, options)
        if typed.get("partition.end-input-to-done"):
            from paimon_pyds.ops.maintenance.drop_partitions import mark_written

            with logging_errors(store):
                mark_written(store, typed, committed)
        others = any(typed.is_set(key) for key in _EXPIRE_BESIDES_SNAPSHOTS)
        is_due = not typed.get("write-only") and (others or committed > typed.get("snapshot.num-retained.min"))
        if is_due or typed.get("tag.automatic-creation") == "batch":
            _maintain(store, typed, options)


def _enlarge(store: TableStore, typed: TableOptions, committed: int, options: Mapping[str, str]) -> None:
    """Give partitions that a batch has outgrown more buckets: Java does it before, here its rows are committed."""
    from paimon_pyds.engine.compact.after_write import errors_as_warnings
    from paimon_pyds.engine.compact.postpone import outgrown
    from paimon_pyds.metadata.manifest_reader import ManifestReader
    from paimon_pyds.ops.rescale.rescale import RescaleOptions, rescale

    with errors_as_warnings(store):
        snapshot, reader = store.snapshot(committed), ManifestReader(store)
        if snapshot.commit_kind is CommitKind.COMPACT:
            return
        added = reader.added(reader.delta(snapshot), ("partition", "total_buckets", "row_count", "file_size"))
        schema = store.schema(snapshot.schema_id)
        for partition, count in outgrown(typed, added).items():
            rescale(store, RescaleOptions(count, partition_is(schema, partition), options=options))


def after_write_only(store: TableStore, before: int, options: Mapping[str, str], executor: Executor) -> None:
    """Do what was put off for the commits after a snapshot, which were made with ``write-only``: compact the buckets
    that have new rows, then do what `after_commit` does; an error is only logged or a warning.

    Args:
        store: a table with a primary key and fixed buckets.
        before: the number of the snapshot; 0 for an empty table.
        options: table options over the table's own, those of the commits but for ``write-only``.
        executor: what runs compactions.
    """
    from paimon_pyds.engine.compact.after_write import compact_since

    compact_since(store, before, options, executor)
    with logging_errors(store):
        _maintain(store, TableOptions({**store.schema_read_last().options, **options}), options)


def _maintain(store: TableStore, typed: TableOptions, options: Mapping[str, str]) -> None:
    """Do what the options require, unless ``write-only``; an error is only logged, as the commit stands.

    Tags of batch writes are made in any case: no other job makes them. ``typed``: ``options`` over the table's own.
    """
    from paimon_pyds.ops.maintenance.consumers import expire_consumers
    from paimon_pyds.ops.maintenance.expire import (
        ExpireOptions,
        changelogs_outlive,
        expire_changelogs,
        expire_snapshots,
    )
    from paimon_pyds.ops.maintenance.partitions import expire_partitions
    from paimon_pyds.ops.maintenance.tag_creation import create_due_tags
    from paimon_pyds.ops.maintenance.tags import expire_tags

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
