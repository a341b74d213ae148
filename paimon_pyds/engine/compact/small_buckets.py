"""Compacting many small buckets of a table with a primary key: their files are decoded together, their rows merged by
one call, and those of each bucket encoded by one call, so that a bucket costs its files and little else."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.compact.key_task import MergeTask, merge_one
from paimon_pyds.engine.compact.publish import remove
from paimon_pyds.engine.compact.task import CompactResult
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.small_files import MOST_BYTES, small_kind
from paimon_pyds.engine.read.small_sections import SECTION, DecodedSection, JoinedSections
from paimon_pyds.engine.write.key_files import keys_lose_blanks
from paimon_pyds.engine.write.small_files import SMALL_ROWS, SmallFilesWriter
from paimon_pyds.engine.write.small_key_files import KeyRows
from paimon_pyds.errors import PaimonError
from paimon_pyds.keys.merge.files_to_merge import is_clustered
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, without_deletes
from paimon_pyds.metadata.planned_file import PlannedFile

_MOST_TOGETHER = 128
"""Buckets that are compacted by one thread, one after the other."""


@dataclass(frozen=True, slots=True)
class SmallBuckets:
    """Tasks of small buckets whose files are alike: they are done together. It pickles."""

    tasks: tuple[MergeTask, ...]

    def rewritten(self) -> list[PlannedFile]:
        """The files that are read and written again."""
        return [file for task in self.tasks for file in task.rewritten()]


def joined_tasks(tasks: Iterable[MergeTask]) -> list[MergeTask | SmallBuckets]:
    """The tasks, those of small buckets together."""
    alone: list[MergeTask] = []
    small: dict[Hashable, list[MergeTask]] = {}
    loses_blanks: dict[int, bool] = {}
    for task in tasks:
        kind = _kind(task)
        if kind is not None and task.level not in loses_blanks:
            loses_blanks[task.level] = keys_lose_blanks(task.context.at_level(task.level))
        if kind is None or loses_blanks[task.level]:
            alone.append(task)
        else:
            small.setdefault(kind, []).append(task)
    joined = [
        SmallBuckets(tuple(some[start : start + _MOST_TOGETHER]))
        for some in small.values()
        for start in range(0, len(some), _MOST_TOGETHER)
    ]
    return [*alone, *joined]


def _kind(task: MergeTask) -> Hashable | None:
    """What the tasks of small buckets must have in common to be done together; None for one that is done alone: its
    rows are many, or are compared with others, or its files are not alike."""
    looked_up = task.looked_up
    if (looked_up is not None and looked_up.files) or task.changelog is not None or not task.rewrites:
        return None
    if is_clustered(task.schema) or task.context.layout.references:
        return None
    if sum(file.row_count for file in task.rewritten()) > SMALL_ROWS:
        return None
    kinds = {small_kind(task.spec, section) for sections in task.rewrites for section in sections}
    looks_up = {task.of(sections).looked_up is not None for sections in task.rewrites}
    [kind] = kinds if len(kinds) == len(looks_up) == 1 else [None]
    return None if kind is None else (task.level, task.drop_deletes, *looks_up, *kind)


def merge_joined(task: MergeTask | SmallBuckets) -> list[CompactResult]:
    """`merge_one` of a task, or of each of several, in no order.

    On an error the new files of all are removed again. Raises CorruptFileError, SchemaError, StorageError,
    UnsupportedError: as `merge_one`.
    """
    if isinstance(task, MergeTask):
        return [merge_one(task)]
    small, done = _Merge(task), list[CompactResult]()
    try:
        for some, sections in small.decoded():
            rows = small.merged(sections)
            if rows is None:
                for each in some:
                    done.append(merge_one(each))
            else:
                done += small.written(some, rows)
        return done
    except BaseException:
        small.abort()
        remove(task.tasks[0].context.io, done)
        raise


class _Merge:
    """Reads and writes the rows of small buckets.

    What can't be read, or merged, is left to `merge_one`, which finds out whose file it is and says so.
    """

    def __init__(self, task: SmallBuckets) -> None:
        first = task.tasks[0]
        self._tasks = task.tasks
        self._drop_deletes = first.drop_deletes
        self._files = task.rewritten()
        looks_up = first.of(first.rewrites[0]).looked_up is not None  # in files that are all among those of the task
        self._merge = JoinedSections(first.spec, self._files, keeps_single=not looks_up)
        self._columns = [field.name for field in (*first.spec.fields, *KEY_VALUE_FIELDS)]
        context = first.context.at_level(first.level)
        self._writer = SmallFilesWriter(context, KeyRows(context, first.level))

    def decoded(self) -> Iterator[tuple[list[MergeTask], list[DecodedSection]]]:
        """The tasks, some at a time, with the sections of all of them; without, where they are to be done alone."""
        sections = [section for task in self._tasks for section in _sections(task)]
        traces = [FileTrace(file.path, file.row_count) for file in self._files]
        found = self._merge.decoded(sections, traces)
        ready, parts, held = list[MergeTask](), list[DecodedSection](), 0
        left = list(reversed(self._tasks))
        try:
            while left:
                mine = [next(found) for _ in _sections(left[-1])]
                task, size = left.pop(), sum(part.size for part in mine)
                if not (all(part.is_whole for part in mine) and self._takes(task, size)):
                    yield [task], []
                    continue
                ready.append(task)
                parts += mine
                held += size
                if held >= MOST_BYTES:
                    yield ready, parts
                    ready, parts, held = [], [], 0
        except PaimonError:
            ready, parts = [*ready, *reversed(left)], []
        if ready:
            yield ready, parts

    def _takes(self, task: MergeTask, size: int) -> bool:
        return self._writer.takes(sum(file.row_count for file in task.rewritten()), size)

    def merged(self, sections: Sequence[DecodedSection]) -> pa.RecordBatch | None:
        """The rows of sections as they are written, with the number of their section in `SECTION`; None without
        sections, and where they can't be merged."""
        try:
            rows = self._merge.merged(sections, self._columns) if sections else None
        except PaimonError:
            return None
        return without_deletes(rows) if rows is not None and self._drop_deletes else rows

    def written(self, tasks: Sequence[MergeTask], rows: pa.RecordBatch) -> list[CompactResult]:
        """Write rows of tasks, as `merged` gives them: those of each rewrite into a file."""
        of_file = [task for task in tasks for _ in task.rewrites]
        counts = [len(sections) for task in tasks for sections in task.rewrites]
        bounds = np.searchsorted(to_numpy(rows.column(SECTION)), [0, *accumulate(counts)]).tolist()
        cut = [
            (task, rows.slice(start, end - start))
            for task, start, end in zip(of_file, bounds, bounds[1:], strict=False)
            if end > start
        ]
        files = self._writer.write([task.bucket for task, _ in cut], [part for _, part in cut]) if cut else []
        found = {task.number: task.bucket for task in tasks}
        for (task, _), written in zip(cut, files, strict=True):
            bucket = found[task.number]
            found[task.number] = replace(bucket, files=(*bucket.files, *written.files))
        return [
            CompactResult(number, bucket, sum(file.row_count for file in bucket.files))
            for number, bucket in found.items()
        ]

    def abort(self) -> None:
        """Remove every file that was written here."""
        self._writer.abort()


def _sections(task: MergeTask) -> list[tuple[PlannedFile, ...]]:
    return [section for sections in task.rewrites for section in sections]
