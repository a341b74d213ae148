"""One bucket of a table with a primary key: sorted runs are merged and written again. Runs on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_pyds.commit_message import BucketFiles
from paimon_pyds.compact.older_rows import OlderRows
from paimon_pyds.compact.plan import Plan
from paimon_pyds.compact.task import CompactResult, group_files, read_spec
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.merge.files import looks_up
from paimon_pyds.merge.filter import MergeFilter
from paimon_pyds.merge.key_values import KEY_VALUE_FIELDS, without_deletes
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.read.merged_files import read_versions, read_windows
from paimon_pyds.split import Merging, PlannedFile, ReadSpec
from paimon_pyds.storage import discard
from paimon_pyds.write import WriteContext
from paimon_pyds.write.key_files import SortedRunWriter
from paimon_pyds.write.rolling import WriterThreads

_Sections = tuple[tuple[PlannedFile, ...], ...]


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Data files of a bucket that become new ones. It pickles.

    Attributes:
        number: of the group.
        context: the table as it is written to.
        spec: how the files are read.
        bucket: which one; it has no files yet.
        rewrites: sections, in the order of their keys; each of these becomes a sorted run of its own.
        level: of the new files.
        drop_deletes: leave out rows that delete others.
        looked_up: what the rewrites with files of level 0 look older versions up in; None in tables that don't.
        lifted: files that leave level 0 as they are, and replace rows of the files that are looked up.
    """

    number: int
    context: WriteContext
    spec: ReadSpec
    bucket: BucketFiles
    rewrites: tuple[_Sections, ...]
    level: int
    drop_deletes: bool
    looked_up: OlderRows | None = None
    lifted: tuple[PlannedFile, ...] = ()


def merge_tasks(store: TableStore, plan: Plan) -> list[MergeTask]:
    """A task for each bucket."""
    spec = replace(read_spec(store, plan), merging=Merging(plan.schema, MergeFilter(Const.TRUE)))
    tasks = []
    for number, found in enumerate(group_files(store, plan)):
        steps = found.group.steps
        assert steps is not None
        files = iter(found.files)  # in the order of `Steps.files`
        rewrites = tuple(
            tuple(tuple(next(files) for _ in section) for section in rewrite) for rewrite in steps.rewrites
        )
        level, drops = steps.output_level, steps.drop_deletes
        task = MergeTask(number, plan.context, spec, found.bucket, rewrites, level, drops)
        if looks_up(plan.context.options):
            lifted = tuple(file for file in files if file.run is not None and not file.run.level)
            higher = any(file.level and file.has_deletes for file in steps.files)
            task = replace(task, looked_up=OlderRows(spec, found.older, higher), lifted=lifted)
        tasks.append(task)
    return tasks


def merge_one(task: MergeTask) -> CompactResult:
    """Merge the sorted runs of a bucket. On an error the new files are removed again.

    Raises:
        CorruptFileError: a file is damaged, or not sorted by its keys.
        SchemaError: a value does not fit its column.
        StorageError: a file can't be read or written.
        UnsupportedError: rows are deleted that the merge engine can't delete.
    """
    threads = WriterThreads()
    written: list[DataFile] = []
    try:
        for sections in task.rewrites:
            written += _rewrite(task, sections, threads)
        if task.looked_up is not None:
            _look_up_lifted(task, task.looked_up)
    except BaseException as error:
        new = replace(task.bucket, files=tuple(written))
        discard(task.context.io, new.paths())
        if isinstance(error, SnapshotNotFoundError):
            return CompactResult(task.number, task.bucket, 0, error)
        raise
    finally:
        threads.shutdown()
    rows = sum(file.row_count for file in written)
    result = CompactResult(task.number, replace(task.bucket, files=tuple(written)), rows)
    if task.looked_up is None or not task.looked_up.vectors_hide:
        return result
    return replace(result, replaced=task.looked_up.positions)


def _rewrite(task: MergeTask, sections: _Sections, threads: WriterThreads) -> tuple[DataFile, ...]:
    writer = SortedRunWriter(task.context, task.bucket.directory, threads, level=task.level)
    try:
        for rows in _rows(task, sections):
            writer.write(rows)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _rows(task: MergeTask, sections: _Sections) -> Iterator[pa.RecordBatch]:
    levels = {file.run.level for files in sections for file in files if file.run is not None}
    for files in sections:
        if task.looked_up is None or 0 not in levels:
            yield from read_versions(task.spec, files, drop_deletes=task.drop_deletes)
        else:
            yield from _with_older(task, task.looked_up, files)


def _with_older(task: MergeTask, looked_up: OlderRows, files: Sequence[PlannedFile]) -> Iterator[pa.RecordBatch]:
    """The rows of a section, merged with those that are looked up."""
    assert task.spec.merging is not None
    merger = RowMerger(task.spec.merging.schema, keeps_single=False)
    names = [field.name for field in (*task.spec.fields, *KEY_VALUE_FIELDS)]
    with closing(read_windows(task.spec, files)) as found:
        for window in found:
            rows = merger.merge(looked_up.added_to(window), names)
            rows = without_deletes(rows) if task.drop_deletes else rows
            for start in range(0, rows.num_rows, DEFAULT_BATCH_ROWS):
                yield rows.slice(start, DEFAULT_BATCH_ROWS)


def _look_up_lifted(task: MergeTask, looked_up: OlderRows) -> None:
    """Find the older rows of keys in files that leave level 0 as they are."""
    if looked_up.vectors_hide:
        for file in task.lifted:
            with closing(read_windows(replace(task.spec, fields=()), (file,))) as found:
                for window in found:
                    looked_up.found(window, whole=False)
