"""DELETE where the first row of each key stays (``merge-engine=first-row``): no version of a row takes it away, so the
files that hold rows to delete are written again without them, each on its level.

Reads and deletes ignore files that no compaction has merged yet: if one were merged later, a deleted row could come
back as the first remaining one. So these files are compacted first; with ``write-only`` by the user, as in Java. (Java:
class DeleteFromPaimonTableCommand of Paimon for Spark 2.1. That one writes the remaining rows to level 0 and compacts
them.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyroaring import BitMap

from paimon_pyds.base.progress import worked
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.execution.executor import Executor
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import live_rows
from paimon_pyds.engine.rowlevel.key_rows import waiting_buckets
from paimon_pyds.engine.rowlevel.target import Candidate, Candidates, RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import FoundRows, run_tasks, unfiltered
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.files_to_merge import clustering_fields
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, with_key_values
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.tree import Predicate


def check_compacted(target: RowTarget, predicate: Predicate, executor: Executor) -> None:
    """See that no row waits for a compaction that a delete might be about.

    Raises:
        CommitConflictError: some did, and were compacted: the delete has to begin again.
        UnsupportedError: some do, and the table leaves compactions to others.
    """
    buckets = waiting_buckets(target, predicate)
    if not buckets:
        return
    if target.options.get("write-only"):
        raise UnsupportedError(
            "a delete in a table with merge-engine=first-row needs all rows compacted, and some are not",
            hint="call table.compact(full=True), then delete",
        )
    from paimon_pyds.engine.compact.compact import compact_buckets
    from paimon_pyds.engine.compact.options import CompactOptions

    compact_buckets(target.store, buckets, CompactOptions(options=target.given), executor)
    raise target.conflict("rows waited for a compaction")


def remove_rows(target: RowTarget, candidates: Candidates, found: Sequence[FoundRows], executor: Executor) -> RowEdits:
    """Edits that take these rows from the table: as `tasks.remove_rows`, whose arguments these are.
    Raises UnsupportedError: another writer has left deletes in files."""
    if any(candidate.file.merged for candidate in candidates.files):
        raise UnsupportedError(
            "files of another writer have deletes, which merge-engine=first-row does not support",
            hint="call table.compact(full=True) first",
        )
    positions = {rows.number: rows.positions for rows in found if len(rows.positions) < target.live_rows(rows.number)}
    left = [candidate for candidate in candidates.files if candidate.number in positions]
    fields = (*target.schema.fields, *KEY_VALUE_FIELDS)
    keyed = replace(candidates.spec, schemas=with_key_values(candidates.spec.schemas))
    spec = unfiltered(keyed, fields)
    tasks = [
        _Task(spec, ((candidate, positions[candidate.number]),), _context(target, candidate)) for candidate in left
    ]
    return RowEdits(
        [target.removed(f.number, f.positions) for f in found], run_tasks(executor, _rewrite, tasks, target)
    )


def _context(target: RowTarget, candidate: Candidate) -> WriteContext:
    return replace(target.moving_context(candidate.file.total_buckets), file_source=FILE_SOURCE_COMPACT)


@dataclass(frozen=True, slots=True)
class _Task:
    """One file, and its rows that go. It pickles."""

    spec: ReadSpec
    files: tuple[tuple[Candidate, BitMap], ...]
    context: WriteContext


def _rewrite(task: _Task) -> CommitMessage:
    ((candidate, removed),), context = task.files, task.context
    file = candidate.file
    assert file.run is not None
    place = PartitionBucket(*file.bucket_id)
    directory = context.bucket_to_write(*place)
    threads = WriterThreads()
    order = None if file.run.key_range is not None else [field.name for field in clustering_fields(context.schema)]
    writer = SortedRunWriter(context, directory, threads, level=file.run.level, order=order)
    try:
        left = live_rows(task.spec.io, file).minus(removed, file.row_count)
        for rows in read_file(task.spec, file.selecting(left)):
            writer.write(rows)
        files = writer.close()
    except BaseException:
        writer.abort()
        raise
    finally:
        threads.shutdown()
    worked(file.path)
    return CommitMessage((BucketFiles(*place, file.total_buckets, directory, tuple(files)),))
