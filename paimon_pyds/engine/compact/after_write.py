"""After a write to a table with a primary key: compact its buckets where that is due.

Most writes have nothing to merge, and import nothing that only merging needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit.publisher import snapshot_committed
from paimon_pyds.engine.compact.buckets_to_compact import due_buckets
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.errors import CommitConflictError, SnapshotNotFoundError
from paimon_pyds.metadata.manifest import RUN_COLUMNS
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.engine.execution.executor import Executor

STREAM_MERGE_BYTES = 256 << 20
"""Bytes of files that are merged after a commit of a stream: a few seconds on two cores."""


def compact_written(
    store: TableStore,
    since: int,
    committed: int,
    options: Mapping[str, str] | None = None,
    executor: Executor | None = None,
) -> None:
    """Merge the sorted runs of buckets that rows were committed to, as far as that is due, unless ``write-only`` is on.

    With ``full-compaction.delta-commits`` batch writes merge all runs, whatever its number, and streams do after that
    number of commits, as Java Paimon's writer for Spark does (class abstractInnerTableDataWrite); otherwise
    `universal.pick` says which, and streams leave what takes long to their next commits. The rows are there already,
    so an error does not fail the write: it becomes a warning with advice.

    Args:
        store: a table with a primary key and fixed buckets.
        since: the number of the snapshot before the commits; 0 for an empty table.
        committed: the number of the last snapshot that they made.
        options: of the write, over the table's own.
        executor: what runs compactions; the cores of this machine by default.
    """
    with errors_as_warnings(store):
        typed = TableOptions({**store.schema_read_last().options, **(options or {})})
        if typed.get("write-only"):
            return
        once = store.once if store.once is not None and store.once.is_done else None
        every = int(typed.get("full-compaction.delta-commits") or 0)
        full = every > 0 and (once is None or once.is_nth(every))
        if full and once is not None and every > 1:  # also what the commits before have left
            written = _unmerged_buckets(store)
        else:
            written = _written_buckets(store, since, committed)
        if not written:
            return
        chosen = written
        if not full:
            most = None if once is None else STREAM_MERGE_BYTES
            with suppress(SnapshotNotFoundError):  # then the newest one says what is due
                chosen = due_buckets(store, snapshot_committed(store, committed), typed, written, most)
        if not chosen:
            return
        from paimon_pyds.engine.compact.compact import compact_buckets

        skipped = compact_buckets(store, chosen, CompactOptions(full=full, options=options), executor)
        if skipped:
            raise CommitConflictError(f"other commits changed the files of {skipped} buckets again and again")


def _written_buckets(store: TableStore, since: int, committed: int) -> set[PartitionBucket]:
    """The buckets that the snapshots of commits added rows to; files above level 0 are merged already. Where a commit
    brought a compaction along, the rows are in the snapshot before it. Where the last one has expired already, all
    buckets that have rows to merge. The columns are those that `due_buckets` reads."""
    reader, written = ManifestReader(store), set[PartitionBucket]()
    try:
        last = snapshot_committed(store, committed)
    except SnapshotNotFoundError:
        return _unmerged_buckets(store)
    before = store.snapshots_among(range(since + 1, committed))
    if last.commit_kind is CommitKind.COMPACT and since and not before:
        before = [s for s in store.snapshots_among([since]) if s.commit_user == last.commit_user]
    for snapshot in (*before, last):
        if snapshot.commit_kind is CommitKind.COMPACT:
            continue
        with suppress(SnapshotNotFoundError):
            written |= _unmerged(reader.added(reader.delta(snapshot), RUN_COLUMNS))
    return written


def _unmerged_buckets(store: TableStore) -> set[PartitionBucket]:
    """All buckets that have rows to merge."""
    reader = ManifestReader(store)
    return _unmerged(store.read_newest(lambda newest: reader.live_files(newest, RUN_COLUMNS)))


def _unmerged(files: pa.RecordBatch) -> set[PartitionBucket]:
    """The buckets of the files that are on level 0."""
    found = files.filter(pc.and_(pc.greater_equal(files["bucket"], 0), pc.equal(files["level"], 0)))
    return set(map(PartitionBucket, *(found[name].to_pylist() for name in ("partition", "bucket"))))


@contextmanager
def errors_as_warnings(store: TableStore) -> Iterator[None]:
    """Around what follows a write that is committed: raised, an error would have the rows written again."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        warnings.warn(
            f"the rows are committed, don't write them again; their buckets could not be compacted: {error}. Call "
            "table.compact(full=True), or leave it to the next write to the same buckets; until then tables with "
            f"deletion vectors or merge-engine=first-row hide the rows, and changelogs lack them ({store.root})",
            stacklevel=7,
        )
