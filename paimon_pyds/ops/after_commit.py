"""All that follows a commit: compaction, more buckets, done marks, tags and expiry, as the table's options require.

Most commits need nothing of it, and import nothing that only maintenance needs. (Source: Java Paimon 1.4, class
TableCommitImpl: new and old tags, then partitions, consumers, snapshots and changelogs.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_pyds.base.options import OPTIONS, TableOptions
from paimon_pyds.base.options.iceberg import publishes
from paimon_pyds.engine.commit.publisher import logging_errors, snapshot_committed
from paimon_pyds.errors import PaimonError
from paimon_pyds.keys.bucket import makes_buckets
from paimon_pyds.metadata.partition import partition_is
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    from paimon_pyds.engine.execution.executor import Executor

_EXPIRE_BESIDES_SNAPSHOTS = (
    "tag.automatic-creation", "tag.default-time-retained", "partition.expiration-time", "consumer.expiration-time",
)  # fmt: skip


def after_commit(
    store: TableStore,
    committed: int | None,
    options: Mapping[str, str],
    *,
    write_only_since: int | None = None,
    executor: Executor | None = None,
) -> None:
    """Do all that the options require after a commit. Every caller that commits rows or removes them calls this.

    Buckets of a table with a primary key are compacted; of other tables, deletion vectors that Java would not read are
    applied; then come more buckets, done marks, tags and expiry. The commit stands: an error is only logged, or it
    becomes a warning.

    Args:
        store: the table, whose schema has been read.
        committed: the number of the last snapshot that the commit made; None for a change that found no row, after
            which other readers see the same rows, too.
        options: table options over the table's own.
        write_only_since: the number of the snapshot before the first of several commits, of which each was made with
            ``write-only``, and followed by this function; what these left undone is done for all of them. 0 for an
            empty table; None for one commit.
        executor: what runs compactions; the cores of this machine by default.
    """
    schema = store.schema_read_last()
    if not schema.primary_keys:
        _apply_stray_vectors(store, committed, executor)
    if committed is None:
        return
    if schema.primary_keys:
        from paimon_pyds.engine.compact.after_write import compact_written

        since = committed - 1 if write_only_since is None else write_only_since
        compact_written(store, since, committed, options, executor)
    typed = TableOptions({**schema.options, **options})
    with logging_errors(store):
        if write_only_since is None:
            _finish_batch(store, typed, committed, options)
        others = any(typed.is_set(key) for key in _EXPIRE_BESIDES_SNAPSHOTS)
        is_due = not typed.get("write-only") and (others or committed > typed.get("snapshot.num-retained.min"))
        if is_due or typed.get("tag.automatic-creation") == "batch":
            _maintain(store, typed, options)
    if publishes(typed):
        from paimon_pyds.ops.iceberg.publish import publish_after_change

        publish_after_change(store, options)


def after_metadata_change(store: TableStore) -> None:
    """Do what follows a change of snapshots or tags that is no commit, such as a rollback: Iceberg's readers see it.

    An error becomes a warning. ``store``: the table, whose schema has been read.
    """
    if publishes(TableOptions(store.schema_read_last().options)):
        from paimon_pyds.ops.iceberg.publish import publish_after_change

        publish_after_change(store, {})


def _apply_stray_vectors(store: TableStore, committed: int | None, executor: Executor | None) -> None:
    try:
        snapshot = store.latest_snapshot() if committed is None else snapshot_committed(store, committed)
    except (PaimonError, OSError):  # the change is committed; the next commit looks again
        return
    if snapshot is not None and snapshot.index_manifest is not None:
        from paimon_pyds.engine.compact.compact import apply_stray_vectors

        apply_stray_vectors(store, snapshot, executor)


def _finish_batch(store: TableStore, typed: TableOptions, committed: int, options: Mapping[str, str]) -> None:
    """Do what is for the rows of each commit, even of one with ``write-only``."""
    if makes_buckets(typed):
        _enlarge(store, typed, committed, options)
    if typed.get("partition.end-input-to-done"):
        from paimon_pyds.ops.maintenance.drop_partitions import mark_written

        with logging_errors(store):
            mark_written(store, typed, committed)


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
    from paimon_pyds.ops.maintenance.expire_partitions import expire_partitions
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
        checks_partitions = typed.get("end-input.check-partition-expire") or not typed.get(
            "partition.expiration-check-interval"
        )
        if checks_partitions and typed.get("partition.expiration-time") is not None:
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
