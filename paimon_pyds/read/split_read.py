"""Splits → Arrow batches: one file after the other, or several files at a time on threads, always in plan order."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.formats.threads import in_order
from paimon_pyds.merge.filter import merge_filter, merge_keys
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.progress import phase
from paimon_pyds.read.file import DEFAULT_BATCH_ROWS, open_data_file, read_file
from paimon_pyds.read.live_rows import FileTrace
from paimon_pyds.split import PlannedFile, ReadSpec, Split, result_schema, sections

_HELD_BYTES = 128 << 20
"""What files that come later may have ready, beside a batch of each."""


def read_split(
    split: Split,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    on_file: Callable[[FileTrace], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The split's surviving rows, with the schema `result_schema(split.spec)`.

    Args:
        split: what to read.
        batch_rows: rows in a batch at most.
        limit: stop after so many rows.
        on_file: called with the trace of each file when it is done.
    """
    left = limit
    for section in sections(split.files):
        traces = [FileTrace(file.path, file.row_count) for file in section]
        for batch in _rows_of(split.spec, section, traces, batch_rows, left):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                break
        if on_file is not None:
            for trace in traces:
                on_file(trace)
        if left == 0:
            return


def _rows_of(
    spec: ReadSpec,
    section: Sequence[PlannedFile],
    traces: Sequence[FileTrace],
    batch_rows: int,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The surviving rows of files that `split.sections` has together."""
    if section[0].merged:
        from paimon_pyds.read.merged_files import read_merged

        return read_merged(spec, section, traces, batch_rows)
    return read_file(spec, section[0], batch_rows=batch_rows, trace=traces[0], limit=limit)


def read_splits(
    spec: ReadSpec,
    files: Sequence[PlannedFile],
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    threads: int = 2,
    on_file: Callable[[FileTrace], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of these files in order, reading up to ``threads`` files at a time.

    Memory is bounded: each thread decodes one file, and what waits for the consumer is at most 128 MiB.

    Args:
        spec: how to read them.
        files: what to read.
        batch_rows: rows in a batch at most.
        limit: stop after so many rows; files are read one after the other then.
        threads: files that are read at a time.
        on_file: called with the trace of each file when it is done.
    """
    if not files:
        return
    with phase("reading", files) as step:
        by_path = {file.path: file for file in files} if step.is_seen else {}

        def done(trace: FileTrace) -> None:
            step.advance([by_path[trace.path]] if by_path else ())
            if on_file is not None:
                on_file(trace)

        if threads <= 1 or len(files) <= 1 or limit is not None:
            yield from read_split(Split(spec, tuple(files)), batch_rows, limit=limit, on_file=done)
            return
        reads = (_run(spec, section, batch_rows) for section in sections(files))
        for item in in_order(reads, threads=threads, held=_HELD_BYTES, size=_bytes_of):
            if isinstance(item, FileTrace):
                done(item)
            else:
                yield item


def _run(
    spec: ReadSpec, section: Sequence[PlannedFile], batch_rows: int
) -> Generator[pa.RecordBatch | FileTrace, None, None]:
    """The rows of files that are read together, then their traces."""
    traces = [FileTrace(file.path, file.row_count) for file in section]
    yield from _rows_of(spec, section, traces, batch_rows)
    yield from traces


def _bytes_of(item: pa.RecordBatch | FileTrace) -> int:
    return 0 if isinstance(item, FileTrace) else int(item.nbytes)


def with_filter(spec: ReadSpec, predicate: Predicate) -> ReadSpec:
    """How to read the rows that another filter keeps, before and after they are merged.

    Args:
        spec: of the plan; its ``filter_fields`` stay as they are.
        predicate: bound to the table's columns; keeps no row that the plan's filter drops.
    """
    merging = spec.merging
    if merging is not None:
        merging = replace(merging, filter=merge_filter(predicate, merge_keys(merging.schema)))
    return replace(spec, predicate=predicate, merging=merging)


def empty_batch(spec: ReadSpec) -> pa.RecordBatch:
    """A batch of no rows with the result's schema."""
    schema = result_schema(spec)
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def check_row_counts(spec: ReadSpec, files: Sequence[PlannedFile]) -> None:
    """Hold the rows of data files against what manifests say. Reads footers only, of a few files at a time.

    Raises:
        CorruptFileError: a file has another number of rows, or is no data file.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
    """

    def check(file: PlannedFile) -> None:
        try:
            with open_data_file(spec, file):
                pass
        except FileNotFoundError as error:
            raise SnapshotNotFoundError.of_file(error.filename or file.path) from error

    with ThreadPoolExecutor(min(32, 4 * (os.cpu_count() or 1)), thread_name_prefix="paimon-footers") as pool:
        for _ in pool.map(check, files):
            pass
