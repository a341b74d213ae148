"""Reading one data file: selection → pages → residual filter → table columns.

The order that costs least: the index and the deletion vector say which positions can matter; the file's own statistics
take off more; the filter's columns are read for what is left and evaluated exactly; the other columns are read for the
survivors only (late materialisation).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds import formats
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError
from paimon_pyds.evolution.columns import Evolution, plan_evolution
from paimon_pyds.formats.base import FormatReader, ReadCounters
from paimon_pyds.index.evaluate import IndexResult
from paimon_pyds.index.open_indexes import open_side_index
from paimon_pyds.metadata.partition import partition_scalars
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.read.deletions import deleted_rows
from paimon_pyds.read.metadata_columns import metadata_arrays
from paimon_pyds.read.row_counts import check_row_count
from paimon_pyds.roaring.codec import decode_bitmap
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import FileTask, ReadSpec, result_schema
from paimon_pyds.types import DataField, arrow_schema

__all__ = ["FileTrace", "file_evolution", "passes", "read_file", "select_rows"]

DEFAULT_BATCH_ROWS = 65_536
_ONE_PASS_ROWS = 2_048
"""So few selected rows are read with all columns at once: a second visit to the file would cost more."""
_PER_WANTED = 4
"""With a limit, rows that are tried at first for each one wanted."""


@dataclass(slots=True)
class FileTrace:
    """What happened to one file while it was read: rows after each step, and what it cost.

    ``millis`` is the time spent on it, waiting for who takes its batches left out.
    """

    path: str
    rows: int
    rows_after_index: int | None = None
    rows_after_deletions: int | None = None
    rows_after_pages: int | None = None
    rows_returned: int = 0
    millis: float = 0.0
    index: IndexResult | None = None
    counters: ReadCounters = field(default_factory=ReadCounters)


def file_evolution(spec: ReadSpec, task: FileTask, fields: Sequence[DataField]) -> Evolution:
    """How to turn the columns of this file into ``fields`` of the table."""
    trims = formats.traits_of(task.path).trims_char
    partition = partition_scalars(spec.partition_fields, task.partition) if spec.partition_fields else None
    file_fields = spec.schemas[task.schema_id]
    return plan_evolution(file_fields, fields, task.write_cols, trims_char=trims, partition=partition)


def select_rows(spec: ReadSpec, task: FileTask, devolved: Predicate, trace: FileTrace) -> RowSelection:
    """The positions that the file's indexes and its deletion vector leave."""
    selection = RowSelection.ALL
    if task.selection is not None:
        selection = RowSelection.from_bitmap(decode_bitmap(task.selection, path=task.path))
    if task.window is not None:
        selection = selection & RowSelection.of(range(*task.window))
    if spec.use_index and task.index_path is not None and devolved is not Const.TRUE:
        with open_side_index(spec.io, task.index_path) as index:
            trace.index = index.evaluate(devolved, task.row_count)
            trace.counters.index_bytes += index.bytes_read
            trace.counters.bytes_read += index.bytes_read
        selection = selection & trace.index.selection
    trace.rows_after_index = selection.count(task.row_count)
    if task.deletion is not None and not selection.is_none:
        deleted = deleted_rows(spec.io, task.deletion, task.row_count)
        trace.counters.bytes_read += task.deletion.length + 8
        selection = selection.minus(deleted, task.row_count)
    trace.rows_after_deletions = selection.count(task.row_count)
    return selection


def read_file(
    spec: ReadSpec,
    task: FileTask,
    *,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    trace: FileTrace | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of one file, in file order, with the schema `result_schema(spec)`.

    Args:
        limit: the caller stops after so many rows: no more than needed is decoded ahead of that.

    Raises:
        CorruptFileError: the data file, its index or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    trace = FileTrace(task.path, task.row_count) if trace is None else trace
    try:
        yield from _timed(_read(spec, task, batch_rows, trace, limit), trace)
    except FileNotFoundError as error:
        raise SnapshotNotFoundError.of_file(error.filename or task.path) from error


def _timed(batches: Generator[pa.RecordBatch, None, None], trace: FileTrace) -> Iterator[pa.RecordBatch]:
    with closing(batches):
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            trace.millis += (time.perf_counter() - start) * 1000
            if batch is None:
                return
            yield batch


def _read(
    spec: ReadSpec, task: FileTask, batch_rows: int, trace: FileTrace, limit: int | None
) -> Generator[pa.RecordBatch, None, None]:
    filtering = file_evolution(spec, task, spec.filter_fields)
    devolved = filtering.devolve(spec.predicate)
    if devolved in (Const.FALSE, Const.UNKNOWN):
        trace.rows_after_index = trace.rows_after_deletions = 0
        return
    selection = select_rows(spec, task, devolved, trace)
    if selection.is_none:
        return
    format_ = formats.by_path(task.path)
    reader = format_.open_reader(spec.io, task.path, task.size, trace.counters, spec.hints(task))
    try:
        check_row_count(reader, task)
        known = trace.index is not None and trace.index.exact
        if devolved is not Const.TRUE and not known:
            selection = selection & reader.prune(devolved, selection)
        trace.rows_after_pages = selection.count(task.row_count)
        if selection.is_none:
            return
        settled = filtering.settles(spec.predicate, devolved)
        every = settled or (known and filtering.devolves_exactly(spec.predicate))
        if every and limit is not None:
            selection = selection.first(limit, task.row_count)
        if settled:
            batches = _read_plain(spec, task, reader, selection, batch_rows)
        else:
            batches = _read_filtered(spec, task, reader, selection, filtering, batch_rows, known, limit)
        for batch in batches:
            trace.rows_returned += batch.num_rows
            yield batch
    finally:
        reader.close()


def _read_plain(
    spec: ReadSpec, task: FileTask, reader: FormatReader, selection: RowSelection, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    evolution = file_evolution(spec, task, spec.fields)
    positions = _Positions(selection, task.row_count) if spec.metadata_columns else None
    if not evolution.file_fields:  # no column of the file is wanted: rows are counted, not read
        yield from _constant_batches(spec, task, evolution, selection.to_array(task.row_count), batch_rows)
        return
    for batch in reader.read(evolution.file_fields, selection, batch_rows):
        here = None if positions is None else positions.take(batch.num_rows)
        yield _finish(spec, task, evolution.apply(batch), here)


def _read_filtered(
    spec: ReadSpec,
    task: FileTask,
    reader: FormatReader,
    selection: RowSelection,
    filtering: Evolution,
    batch_rows: int,
    known: bool,
    limit: int | None,
) -> Iterator[pa.RecordBatch]:
    """Rows that match; ``known``: the index says that all of them do. They are held against the filter all the same."""
    output = file_evolution(spec, task, spec.fields)
    for window, twice in passes(reader, selection, known, filtering, output):
        for part in _portions(window, task.row_count, limit):
            read = _two_passes if twice and part.count(task.row_count) > _ONE_PASS_ROWS else _one_pass
            yield from read(spec, task, reader, part, filtering, output, batch_rows)


def _portions(window: RowSelection, row_count: int, limit: int | None) -> Iterator[RowSelection]:
    """A window in parts that grow fourfold, when few rows of it are wanted: the first parts may have them."""
    size = row_count if limit is None else max(_ONE_PASS_ROWS, _PER_WANTED * limit)
    if window.count(row_count) <= size:
        yield window
        return
    positions = window.to_array(row_count).astype(np.uint32)
    start = 0
    while start < len(positions):
        yield RowSelection.of(positions[start : start + size])
        start, size = start + size, 4 * size


def passes(
    reader: FormatReader, selection: RowSelection, known: bool, filtering: Evolution, output: Evolution
) -> Iterator[tuple[RowSelection, bool]]:
    """The parts of a selection that are read one after the other, each with whether its filter columns are read first
    and its other columns for the survivors only.
    """
    rows, others = reader.row_count, bool(output.beyond(filtering))
    if known or selection.count(rows) <= _ONE_PASS_ROWS:
        yield selection, False
        return
    for start, stop in reader.groups():
        window = _window(selection, start, stop)
        if not window.is_none:
            yield window, others and window.count(rows) > _ONE_PASS_ROWS


def _window(selection: RowSelection, start: int, stop: int) -> RowSelection:
    """The part of a selection inside start … stop-1, positions unchanged."""
    return selection & RowSelection.of(range(start, stop))


def _one_pass(
    spec: ReadSpec,
    task: FileTask,
    reader: FormatReader,
    window: RowSelection,
    filtering: Evolution,
    output: Evolution,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    others = output.beyond(filtering)
    positions = _Positions(window, task.row_count)
    for batch in _read_or_count(reader, [*filtering.file_fields, *others], window, task.row_count, batch_rows):
        here = positions.take(batch.num_rows)
        mask = matches(spec.predicate, filtering.apply(_pick(batch, filtering.file_fields)))
        kept = batch.filter(mask)
        if kept.num_rows:
            rows = here[_mask_array(mask)]
            yield _finish(spec, task, output.apply(_pick(kept, output.file_fields)), rows)


def _two_passes(
    spec: ReadSpec,
    task: FileTask,
    reader: FormatReader,
    window: RowSelection,
    filtering: Evolution,
    output: Evolution,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Filter columns first; the others for the survivors of a whole row group, a window of bounded size."""
    positions = _Positions(window, task.row_count)
    kept_batches: list[pa.RecordBatch] = []
    kept_rows: list[npt.NDArray[np.int64]] = []
    wanted = {f.name for f in output.file_fields}
    for batch in _read_or_count(reader, filtering.file_fields, window, task.row_count, batch_rows):
        here = positions.take(batch.num_rows)
        mask = matches(spec.predicate, filtering.apply(batch))
        kept_rows.append(here[_mask_array(mask)])
        if wanted:
            keep = [f for f in filtering.file_fields if f.name in wanted]
            kept_batches.append(_pick(batch, keep).filter(mask) if keep else None)
    rows = np.concatenate(kept_rows) if kept_rows else np.empty(0, np.int64)
    if not len(rows):
        return
    others = output.beyond(filtering)
    survivors = RowSelection.of(rows.astype(np.uint32))
    known = pa.Table.from_batches(kept_batches) if kept_batches and kept_batches[0] is not None else None
    done = 0
    for batch in reader.read(others, survivors, batch_rows):
        n = batch.num_rows
        columns = {f.name: batch.column(i) for i, f in enumerate(others)}
        if known is not None:
            part = known.slice(done, n)
            columns |= {name: _one_chunk(part.column(name)) for name in part.column_names}
        fields = output.file_fields
        whole = pa.RecordBatch.from_arrays([columns[f.name] for f in fields], schema=arrow_schema(fields))
        yield _finish(spec, task, output.apply(whole), rows[done : done + n])
        done += n
    if done != len(rows):
        raise CorruptFileError(f"{len(rows)} rows were selected, the file gave {done}", path=task.path)


def _read_or_count(
    reader: FormatReader, fields: Sequence[DataField], selection: RowSelection, row_count: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Batches of these columns; when there is none (all of them were added later), batches of no columns."""
    if fields:
        yield from reader.read(fields, selection, batch_rows)
        return
    left = selection.count(row_count)
    while left > 0:
        n = min(left, batch_rows)
        yield _no_columns(n)
        left -= n


def _no_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])).take(pa.array(np.zeros(rows, np.int8))))


def _constant_batches(
    spec: ReadSpec, task: FileTask, evolution: Evolution, rows: npt.NDArray[np.int64], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), batch_rows):
        here = rows[start : start + batch_rows]
        yield _finish(spec, task, evolution.apply(_no_columns(len(here))), here)


def _finish(
    spec: ReadSpec, task: FileTask, batch: pa.RecordBatch, rows: npt.NDArray[np.int64] | None
) -> pa.RecordBatch:
    if not spec.metadata_columns:
        return batch
    if rows is None:
        raise ValueError("metadata columns need row positions")
    extra = metadata_arrays(spec, task, rows)
    schema = result_schema(spec)
    return pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=schema)


def _pick(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    if not fields:
        return _no_columns(batch.num_rows)
    return batch.select([f.name for f in fields])


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _mask_array(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.cast(mask, pa.uint8())).view(np.bool_)


class _Positions:
    """Walks the selected positions in step with the batches that a reader gives."""

    def __init__(self, selection: RowSelection, row_count: int) -> None:
        self._all = selection.is_all
        self._rows = None if self._all else selection.to_array(row_count)
        self._next = 0

    def take(self, n: int) -> npt.NDArray[np.int64]:
        start, self._next = self._next, self._next + n
        if self._rows is None:
            return np.arange(start, start + n, dtype=np.int64)
        return self._rows[start : start + n]
