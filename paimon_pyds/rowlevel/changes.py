"""What DELETE, UPDATE and MERGE have in common: a pinned snapshot, rows that go, files that come, one new snapshot.

An operation is a function from a `RowTarget` (the table as it is) to `RowEdits` (which rows go from which files, which
new files come). `change_rows` runs it, publishes what it gives, and runs it again on a newer snapshot when another
commit got in its way:

    def once(target: RowTarget) -> RowEdits:
        candidates = target.candidates(predicate, fields)        # planned: partitions, statistics, indexes
        found = find_rows(candidates, executor)        # the live rows meant, file by file
        messages = run_tasks(executor, my_function, my_tasks, target)  # new rows, written by tasks
        return replace(remove_rows(target, candidates, found, executor), …)  # with the messages, and the rows counted
    change_rows(store, once, executor, options=…)

`remove_rows` says how rows leave: by deletion vectors, or with their files rewritten; a file goes as a whole when all
its live rows do. (Sources: the commands of Java Paimon for Spark give such snapshots the kind OVERWRITE; Paimon
documentation, primary-key-table/table-mode and append-table/row-level operations.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from paimon_pyds.commit.retry import Retries, removing_unpublished
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.execution.executor import Executor
from paimon_pyds.execution.writing import abort_messages
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.rowlevel.publish import Published, RemovedRows, RowEdits, publish
from paimon_pyds.rowlevel.target import Candidates, RowTarget
from paimon_pyds.rowlevel.tasks import FoundRows, rewritten

__all__ = ["RowSummary", "change_rows", "remove_rows"]


@dataclass(frozen=True, slots=True)
class RowSummary:
    """What a row-level operation did.

    Attributes:
        snapshot_id: the snapshot that published it; None when there was nothing to do.
        rows_deleted, rows_updated, rows_inserted: rows, each counted once.
        files_touched: data files that rows left.
        files_removed: data files that are no longer in the table.
        files_added: new data files.
        bytes_written: size of new data files and index files.
        seconds: time taken, the commit included.
        attempts: how often it was tried; above 1 after conflicts with other commits.
    """

    snapshot_id: int | None
    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    files_touched: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    attempts: int = 1


def change_rows(
    store: TableStore,
    operation: Callable[[RowTarget], RowEdits],
    executor: Executor,
    *,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Run an operation and publish its edits as one snapshot; again on a newer snapshot after a conflict.

    Args:
        store: the table.
        operation: looks at a state of the table and says what to change. It may be called several times.
        executor: looks through what other commits added meanwhile.
        options: over the table's own.

    Raises:
        CommitConflictError: other commits got in the way more often than ``commit.max-retries``.
        CommitError: not published; what was written was removed again.
        CommitOutcomeUnknownError: the storage did not say; all files were kept.
        UnsupportedError: a table whose rows can't be changed here.
    """
    started = time.perf_counter()
    retries: Retries | None = None
    while True:
        target = RowTarget(store, options)
        retries = retries or Retries.of(target.options)
        edits = operation(target)
        if edits.is_empty:
            _apply_stray_vectors(target, target.snapshot)
            return RowSummary(None, seconds=time.perf_counter() - started, attempts=retries.count)
        try:
            with removing_unpublished(partial(abort_messages, store, edits.messages)):
                published = publish(target, edits, retries, executor)
        except CommitConflictError as error:
            retries.again(error)
            continue
        _apply_stray_vectors(target, published.snapshot)
        return _summary(edits, published, retries.count, time.perf_counter() - started)


def _apply_stray_vectors(target: RowTarget, snapshot: Snapshot | None) -> None:
    if target.read_with_vectors or snapshot is None or snapshot.index_manifest is None:
        return
    from paimon_pyds.compact.compact import apply_stray_vectors

    apply_stray_vectors(target.store, snapshot)


def remove_rows(target: RowTarget, candidates: Candidates, found: Sequence[FoundRows], executor: Executor) -> RowEdits:
    """Edits that take these rows from the table, none of them counted yet as deleted or updated.

    With deletion vectors nothing is written before `publish`; without, the rows that are left of each file are written
    to new ones here.

    Args:
        target: the table as it is.
        candidates: the files that ``found`` is of, and perhaps others.
        found: the rows that go: live ones, file by file.
        executor: where files are rewritten.
    """
    removed: list[RemovedRows] = []
    partly: list[FoundRows] = []
    for rows in found:
        count = len(rows.positions)
        if count == target.live_rows(rows.number):
            removed.append(RemovedRows(rows.number, None, count))
        elif target.uses_vectors:
            removed.append(RemovedRows(rows.number, rows.positions, count))
        else:
            partly.append(rows)
            removed.append(RemovedRows(rows.number, None, count))
    if not partly:
        return RowEdits(removed)
    return RowEdits(removed, rewritten(target, candidates, partly, executor))


def _summary(edits: RowEdits, published: Published, attempts: int, seconds: float) -> RowSummary:
    return RowSummary(
        snapshot_id=None if published.snapshot is None else published.snapshot.id,
        rows_deleted=edits.deleted,
        rows_updated=edits.updated,
        rows_inserted=edits.inserted,
        files_touched=len(edits.removed),
        files_removed=published.files_removed,
        files_added=sum(m.file_count for m in edits.added),
        bytes_written=sum(m.size for m in edits.added) + published.vectors.size,
        seconds=seconds,
        attempts=attempts,
    )
