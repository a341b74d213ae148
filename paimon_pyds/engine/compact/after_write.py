"""After a write to a table with a primary key: compact its buckets where that is due.

Most writes have nothing to merge, and import nothing that only merging needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.compact.buckets_to_compact import due_buckets
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.errors import CommitConflictError, SnapshotNotFoundError
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    from paimon_pyds.engine.execution.executor import Executor


def compact_written(
    store: TableStore,
    snapshot: Snapshot,
    written: Set[PartitionBucket],
    options: Mapping[str, str] | None = None,
    executor: Executor | None = None,
) -> None:
    """Merge the sorted runs of buckets that rows were committed to, as far as that is due, unless ``write-only`` is on.

    Batch writes merge all runs as soon as ``full-compaction.delta-commits`` is set, whatever its number, as Java
    Paimon's writer for Spark does (class abstractInnerTableDataWrite); otherwise `universal.pick` says which. The rows
    are there already, so an error does not fail the write: it becomes a warning with advice.

    ``store``: a table with a primary key and fixed buckets. ``snapshot``: what the rows were committed as.
    """
    with errors_as_warnings(store):
        typed = TableOptions({**store.schema(snapshot.schema_id).options, **(options or {})})
        written = {bucket for bucket in written if bucket.bucket >= 0}
        if not written or typed.get("write-only"):
            return
        full = (typed.get("full-compaction.delta-commits") or 0) > 0
        due = written
        if not full:
            with suppress(SnapshotNotFoundError):  # then the newest one says what is due
                due = due_buckets(store, snapshot, typed, written)
        if not due:
            return
        from paimon_pyds.engine.compact.compact import compact_buckets

        skipped = compact_buckets(store, due, CompactOptions(full=full, options=options), executor)
        if skipped:
            raise CommitConflictError(f"other commits changed the files of {skipped} buckets again and again")


def compact_since(
    store: TableStore, before: int, options: Mapping[str, str] | None = None, executor: Executor | None = None
) -> None:
    """`compact_written` for the buckets of all rows that were committed after a snapshot. ``store``: a table with a
    primary key and fixed buckets. ``before``: the number of the snapshot; 0 for an empty table."""
    with errors_as_warnings(store):
        latest, reader = store.latest_snapshot(), ManifestReader(store)
        if latest is None:
            return
        written: set[PartitionBucket] = set()
        for snapshot in store.snapshots_between(before + 1, latest.id):
            if snapshot.commit_kind is CommitKind.COMPACT:
                continue
            with suppress(SnapshotNotFoundError):  # it has expired: the next write sees to its buckets
                found = reader.added(reader.delta(snapshot), ("partition", "bucket"))
                found = found.filter(pc.greater_equal(found["bucket"], 0))
                written.update(map(PartitionBucket, *(found[name].to_pylist() for name in ("partition", "bucket"))))
        compact_written(store, latest, written, options, executor)


@contextmanager
def errors_as_warnings(store: TableStore) -> Iterator[None]:
    """Around what follows a write that is committed: raised, an error would have the rows written again."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        warnings.warn(
            f"the rows are committed, don't write them again; their buckets could not be compacted: {error}. Call "
            "table.compact(full=True), or leave it to the next write; until then rows can't be seen in tables with "
            f"deletion vectors or merge-engine=first-row ({store.root})",
            stacklevel=7,
        )
