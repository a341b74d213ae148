"""Sorting one partition on many workers: its rows are cut into ranges of their sort keys, and each worker writes one.

A sample of the keys says where to cut, so that ranges have about as many rows each. Rows with equal keys are in one
range: files of different ranges have no value in common, and overlap as little as if one worker had sorted all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, one_batch
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.external import KeySample, RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys, range_bounds, rows_by_range
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.compact.publish import remove
from paimon_pyds.engine.compact.task import CompactResult, CompactTask, compact_one, conformed, read_rows, write_rows
from paimon_pyds.engine.execution.executor import Executor, ShufflingExecutor, mapped
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.metadata.planned_file import PlannedFile

_FILES = 2
"""Full files that a worker writes, about."""
_BYTES_AT_ONCE = 64 << 20
"""Bytes of rows that are cut at once."""


def run_tasks(executor: Executor, tasks: Sequence[CompactTask]) -> Iterator[CompactResult]:
    """The results of all tasks of one plan, of those by ranges whose sorted rows would be too many for one worker."""
    if not isinstance(executor, ShufflingExecutor):
        yield from _mapped(executor, tasks)
        return
    yield from _mapped(executor, [task for task in tasks if _ranges(task) <= 1])
    for task in tasks:
        if _ranges(task) > 1:
            yield _sort_by_ranges(executor, task)


def _mapped(executor: Executor, tasks: Sequence[CompactTask]) -> Iterator[CompactResult]:
    sorts = any(task.sort is not None for task in tasks)
    return mapped(executor, "rewriting", compact_one, tasks, _files, by_reading=not sorts)


def _files(task: CompactTask) -> Sequence[PlannedFile]:
    return task.files


def _ranges(task: CompactTask) -> int:
    if task.sort is None:
        return 1
    rows = _FILES * int(task.context.options.get("target-file-row-num"))
    most = max(
        sum(f.size for f in task.files) / (_FILES * task.context.target_file_size),
        sum(f.row_count for f in task.files) / rows,
    )
    return int(np.ceil(most))


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where rows are cut into ranges: each bound is the greatest key of its range."""

    sort: SortSpec
    keys: SortKeys
    bounds: Sequence[pa.Array]

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The sort keys of rows."""
        return self.keys.of([batch.column(f.name) for f in self.sort.fields])


def _sort_by_ranges(executor: ShufflingExecutor, task: CompactTask) -> CompactResult:
    """As `compact_one`, by many workers. On an error no file is left.

    Raises:
        CorruptFileError: a file is damaged, or the files gave another number of rows than the manifests say.
        SchemaError: a value does not fit its column.
        StorageError: a file can't be read or written.
    """
    assert task.sort is not None
    parts = list(_by_size(task, int(task.context.options.get("source.split.target-size"))))
    found: list[CompactResult] = []
    try:
        with removing_unfinished(partial(remove, task.spec.io, found)):
            rows = sum(f.row_count for f in task.files)
            samples = dict(mapped(executor, "sampling", partial(_sampled, rows, len(parts)), parts, _files))
            cut = _cut(task.sort, [samples[number] for number in sorted(samples)], _ranges(task))
            if cut is None:
                return compact_one(task)
            write = partial(_write_range, replace(task, files=()), cut)
            with phase("sorting", rows=rows) as step:
                for result in executor.shuffle(partial(_split, cut), parts, write, len(cut.bounds[0]) + 1):
                    found.append(result)
                    step.advance(rows=result.rows)
            task.check(sum(result.rows for result in found))
    except SnapshotNotFoundError as error:
        return CompactResult(task.number, task.bucket, 0, error)
    return _joined(task, found)


def _by_size(task: CompactTask, size: int) -> Iterator[CompactTask]:
    """The task in parts, each with about ``size`` bytes of files, or one file."""
    start = total = 0
    for number, file in enumerate(task.files):
        if number > start and total + file.size > size:
            yield replace(task, number=start, files=task.files[start:number])
            start, total = number, 0
        total += file.size
    yield replace(task, number=start, files=task.files[start:])


def _sampled(rows: int, parts: int, part: CompactTask) -> tuple[int, pa.RecordBatch | None]:
    """Keys of some rows of a part, and its number."""
    assert part.sort is not None
    sample = KeySample(part.sort, parts, rows)
    for batch in read_rows(part, part.sort.fields):
        sample.add(batch)
    return part.number, sample.taken()


def _cut(sort: SortSpec, samples: Sequence[pa.RecordBatch | None], ranges: int) -> _Cut | None:
    """By keys of some rows; None where there is no row."""
    there = [sample for sample in samples if sample is not None]
    if not there:
        return None
    sample = one_batch(pa.Table.from_batches(there))
    columns = [sample.column(f.name) for f in sort.fields]
    keys = SortKeys.learn(sort.strategy, columns)
    return _Cut(sort, keys, range_bounds(keys.of(columns), ranges))


def _split(cut: _Cut, part: CompactTask) -> Iterator[tuple[int, bytes]]:
    """The rows of a part by the numbers of their ranges, as Arrow streams."""
    for batch in _chunks(read_rows(part, part.spec.fields)):
        positions, places = rows_by_range(cut.keys_of(batch), cut.bounds)
        rows, numbers = batch.take(array(positions)), places // 2
        edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(edges):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(rows.slice(start, stop - start))
            yield int(numbers[start]), sink.getvalue().to_pybytes()


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches that still have enough of them when they are cut into all ranges."""
    chunk: list[pa.RecordBatch] = []
    for batch in batches:
        chunk.append(batch)
        if sum(b.nbytes for b in chunk) >= _BYTES_AT_ONCE:
            yield one_batch(pa.Table.from_batches(chunk))
            chunk.clear()
    if chunk:
        yield one_batch(pa.Table.from_batches(chunk))


def _write_range(task: CompactTask, cut: _Cut, number: int, streams: Iterator[bytes]) -> CompactResult:
    """The files of one range; ``number`` is its own."""
    with RowSorter(cut.sort, cut.keys) as sorter:
        for data in streams:
            for batch in pa.ipc.open_stream(data):
                sorter.add(batch)
        return replace(write_rows(task, conformed(task, sorter.sorted())), number=number)


def _joined(task: CompactTask, results: Sequence[CompactResult]) -> CompactResult:
    """One result made from those of all ranges; rows are numbered through from one range to the next."""
    files, rows = [], 0
    for result in sorted(results, key=lambda r: r.number):
        for file in result.bucket.files:
            if not task.context.layout.trailing:
                first, last = file.min_sequence_number + rows, file.max_sequence_number + rows
                file = replace(file, min_sequence_number=first, max_sequence_number=last)
            files.append(file)
        rows += result.rows
    return CompactResult(task.number, replace(task.bucket, files=tuple(files)), rows)
