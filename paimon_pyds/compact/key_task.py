"""One bucket of a table with a primary key: sorted runs are merged and written again. Runs on any machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_pyds.commit_message import BucketFiles
from paimon_pyds.compact.plan import Plan
from paimon_pyds.compact.task import CompactResult, group_files, read_spec
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.merge.changelog import Changelog
from paimon_pyds.merge.filter import MergeFilter
from paimon_pyds.merge.key_values import KEY_VALUE_FIELDS, without_deletes
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.merged_files import read_versions, read_windows
from paimon_pyds.split import Merging, PlannedFile, ReadSpec
from paimon_pyds.write import WriteContext
from paimon_pyds.write.key_files import SortedRunWriter
from paimon_pyds.write.rolling import WriterThreads

__all__ = ["MergeTask", "merge_one", "merge_tasks"]

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
        upgrades: files that stay, at the new level.
        level: of the new files.
        drop_deletes: leave out rows that delete others.
        changelog: the changes that are logged; None for none.
    """

    number: int
    context: WriteContext
    spec: ReadSpec
    bucket: BucketFiles
    rewrites: tuple[_Sections, ...]
    upgrades: tuple[PlannedFile, ...]
    level: int
    drop_deletes: bool
    changelog: Changelog | None = None

    def logs(self, files: Iterable[PlannedFile]) -> bool:
        """Whether some of these files have rows whose changes are logged."""
        levels = [0 if file.run is None else file.run.level for file in files]
        return self.changelog is not None and any(map(self.changelog.is_new, levels))


def merge_tasks(store: TableStore, plan: Plan) -> list[MergeTask]:
    """A task for each bucket."""
    context = plan.context
    schema = replace(plan.schema, options=context.raw_options)
    spec = replace(read_spec(store, plan), merging=Merging(schema, MergeFilter(Const.TRUE)))
    tasks = []
    for number, found in enumerate(group_files(store, plan)):
        steps = found.group.steps
        assert steps is not None
        files = iter(found.files)  # in the order of `Steps.files`
        rewrites = tuple(
            tuple(tuple(next(files) for _ in section) for section in rewrite) for rewrite in steps.rewrites
        )
        level, drops = steps.output_level, steps.drop_deletes
        changelog = Changelog.of(schema, context.options, level, steps.highest_level)
        tasks.append(MergeTask(number, context, spec, found.bucket, rewrites, tuple(files), level, drops, changelog))
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
    writers = [
        SortedRunWriter(task.context, task.bucket.directory, threads, level=task.level, changelog=changelog)
        for changelog in (False, True)
    ]
    try:
        for sections in task.rewrites:
            _rewrite(task, sections, *writers)
        for file in task.upgrades:
            if task.logs([file]):
                _rewrite(task, ((file,),), None, writers[1])
        files, changelog_files = (writer.close() for writer in writers)
    except BaseException as error:
        for writer in writers:
            writer.abort()
        if isinstance(error, SnapshotNotFoundError):
            return CompactResult(task.number, task.bucket, 0, error)
        raise
    finally:
        threads.shutdown()
    rows = sum(file.row_count for file in files)
    return CompactResult(task.number, replace(task.bucket, files=files, changelog_files=changelog_files), rows)


def _rewrite(
    task: MergeTask, sections: _Sections, writer: SortedRunWriter | None, changelog_writer: SortedRunWriter
) -> None:
    """Write the merged rows of sections, and log their changes."""
    logged = task.logs(file for files in sections for file in files)
    for files in sections:
        if logged:
            found = _logged(task, files)
        else:
            found = ((rows, None) for rows in read_versions(task.spec, files, drop_deletes=task.drop_deletes))
        for rows, changes in found:
            if writer is not None:
                writer.write(rows)
            if changes is not None:
                changelog_writer.write(changes)
    for each in (writer, changelog_writer):
        if each is not None:
            each.roll()


def _logged(task: MergeTask, files: Sequence[PlannedFile]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The merged rows of a section, and the changes of it."""
    assert task.spec.merging is not None
    assert task.changelog is not None
    merger = RowMerger(task.spec.merging.schema, keeps_single=task.changelog.older_level is not None)
    names = [field.name for field in (*task.spec.fields, *KEY_VALUE_FIELDS)]
    with closing(read_windows(task.spec, files)) as windows:
        for window in windows:
            rows, changes = merger.merge_and_log(window, names, task.changelog)
            yield without_deletes(rows) if task.drop_deletes else rows, changes
