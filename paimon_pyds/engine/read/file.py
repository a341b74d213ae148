"""Reading one data file: live rows → pages → residual filter → table columns.

The order that costs least: the index and the deletion vector say which positions can matter (`read.live_rows`); the
file's own statistics exclude more; the filter's columns are read at the remaining positions and evaluated exactly; the
other columns are read for matching rows only (late materialisation).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import is_true, no_columns, one_array, pc
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.progress import worked
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, Kind, arrow_schema
from paimon_pyds.base.variant.parts import Path, VariantParts
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.engine.read.live_rows import FileTrace, LiveRows, file_evolution
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import filters_rows, has_kind, prunes_parts
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, result_schema
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader
    from paimon_pyds.sql.expression.variant_parts import PartTest

ROW_INDEX = "__paimon_row_index"
DEFAULT_BATCH_ROWS = 65_536
"""Rows of a batch, unless the caller sets another number."""
_ONE_PASS_ROWS = 2_048
"""Selected rows up to which all columns are read at once: a second visit to the file would cost more."""
_PER_WANTED = 4
"""Rows that are tried at first for each wanted one, with a limit."""


def read_file(
    spec: ReadSpec,
    file: PlannedFile,
    *,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    trace: FileTrace | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of one file, in file order, with the schema `result_schema(spec)`.

    ``spec``: the columns to read, and the filter. ``trace``: records the steps. ``limit``: rows after which the caller
    stops: no more than needed is decoded ahead of that.

    Raises:
        CorruptFileError: the data file, its index or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    yield from read_live(LiveRows(spec, file, trace), batch_rows, limit)


def read_live(live: LiveRows, batch_rows: int, limit: int | None = None) -> Iterator[pa.RecordBatch]:
    """As `read_file`, for a file whose indexes may have been evaluated already.

    ``live``: the file's rows that may be wanted.
    """
    with live.file.must_exist():
        yield from timed(_read(live, batch_rows, limit), live.trace)


def timed(batches: Generator[pa.RecordBatch, None, None], trace: FileTrace) -> Iterator[pa.RecordBatch]:
    """The batches; the time that they take is measured, without that of the consumer."""
    with closing(batches):
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            trace.millis += (time.perf_counter() - start) * 1000
            if batch is None:
                return
            yield batch


def _read(live: LiveRows, batch_rows: int, limit: int | None) -> Generator[pa.RecordBatch, None, None]:
    nothing = live.candidates.is_none
    live.close()
    if nothing:
        return
    with open_data_file(live.spec, live.file, live.trace.counters) as reader:
        reading = FileReading(live, reader, lambda share: worked(live.file.path, share, reading=True))
        for batch in reading.batches(batch_rows, limit):
            live.trace.rows_returned += batch.num_rows
            yield batch


class PartUse(NamedTuple):
    """A part of a VARIANT column that a filter takes: whether the file has it as a column of its own, and whether the
    statistics of that leave rows out."""

    column: str
    path: Path
    has_column: bool
    is_pruned_by: bool


class FileReading:
    """How the live rows of one open file are read: which rows, which columns first, in which parts. The reader stays
    open.

    ``tell``: called repeatedly with the share of the work that is done; rows that the filter drops are work, too.
    """

    def __init__(self, live: LiveRows, reader: FormatReader, tell: Callable[[float], None] | None = None) -> None:
        self.live = live
        self.reader = reader
        self._tell = tell
        self._done = 0.0
        self.spec, self.file = live.spec, live.file
        self.filtering = live.filtering
        self.output = file_evolution(live.spec, live.file, live.spec.fields)

    @cached_property
    def selection(self) -> RowSelection:
        """The positions left by the file's own statistics, which are not used if its index was exact."""
        selection = self.live.candidates
        if self.live.devolved is not Const.TRUE and not self.live.index_is_exact and not self._selected_by_filter:
            selection = selection & self.reader.prune(self.live.devolved, selection)
        if self._variants and prunes_parts(self.reader):
            selection = self.reader.prune_parts(self._part_tests, selection) if self._part_tests else selection
        self.live.trace.rows_after_pages = selection.count(self.file.row_count)
        return selection

    @cached_property
    def _part_tests(self) -> list[PartTest]:
        """The comparisons of parts of VARIANT columns; ``column`` is the file's."""
        from paimon_pyds.sql.expression.variant_parts import part_tests  # few tables have such columns

        names = {name: self.filtering.file_fields[at].name for name, at in self._variants.items()}
        return [replace(t, column=names[t.column]) for t in part_tests(self.spec.predicate) if t.column in names]

    def part_uses(self) -> Iterator[PartUse]:
        """The parts of VARIANT columns that the filter takes, and how the file has them."""
        if not self._variants or not prunes_parts(self.reader):
            return
        from paimon_pyds.sql.expression.variant_parts import wanted_parts

        compared = {(test.column, test.path) for test in self._part_tests}
        for name, at in self._variants.items():
            column, paths = self.filtering.file_fields[at].name, wanted_parts(self.spec.predicate, name) or ()
            places = self.reader.part_places(column, paths)
            for path in paths:
                yield PartUse(name, path, path in places, places.get(path, False) and (column, path) in compared)

    @property
    def _selected_by_filter(self) -> bool:
        """Whether an index has answered all of the filter for the plan: statistics leave out no more then."""
        return self.file.selection is not None and len(self.filtering.file_fields) == 1

    @cached_property
    def filter_fields(self) -> list[DataField]:
        """The columns of the file that the filter needs; of VARIANT columns that are not returned only the parts."""
        found = list(self.filtering.file_fields)
        if not self._variants or not prunes_parts(self.reader):
            return found
        from paimon_pyds.sql.expression.variant_parts import wanted_parts

        returned = {field.id for field in self.output.file_fields}
        for name, at in self._variants.items():
            paths = None if found[at].id in returned else wanted_parts(self.spec.predicate, name)
            if paths:
                parts = VariantParts(Kind.VARIANT, nullable=found[at].type.nullable, paths=paths)
                found[at] = replace(found[at], type=parts)
        return found

    @cached_property
    def _variants(self) -> dict[str, int]:
        """The VARIANT columns that the filter needs, and the places of their columns in the file."""
        pairs = zip(self.filtering.read_fields, self.filtering.sources, strict=True)
        return {f.name: at for f, at in pairs if at is not None and f.type.kind is Kind.VARIANT}

    @cached_property
    def output_only(self) -> list[DataField]:
        """The columns of the file that are returned and that the filter does not need."""
        return self.output.fields_not_in(self.filtering)

    @cached_property
    def _todo(self) -> int:
        return max(1, self.selection.count(self.file.row_count))

    def _reach(self, done: float) -> None:
        """Report progress; the unit is the work for one row."""
        self._done = done
        if self._tell is not None:
            self._tell(min(1.0, done / self._todo))

    def batches(self, batch_rows: int, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that match the filter: ``limit`` at most, in batches of at most ``batch_rows``."""
        if self.selection.is_none:
            return
        wanted = self.selection
        if self.live.is_exact and limit is not None:
            wanted = wanted.first(limit, self.file.row_count)
        if self.live.matches_all:
            yield from self._unfiltered(wanted, batch_rows)
            return
        for window, twice in self.passes(wanted):  # rows of an exact index are held against the filter all the same
            for part in _growing_parts(window, self.file.row_count, limit):
                read = (
                    self._in_two_passes
                    if twice and (self._reads_late or part.count(self.file.row_count) > _ONE_PASS_ROWS)
                    else self._in_one_pass
                )
                yield from read(part, batch_rows)

    @cached_property
    def _reads_late(self) -> bool:
        """Whether columns that the filter does not need may be so large that only those of survivors are read."""
        return any(has_kind(field.type, Kind.BLOB) for field in self.output_only)

    def passes(self, selection: RowSelection) -> Iterator[tuple[RowSelection, bool]]:
        """The parts of a selection that are read one after the other, each with whether its filter columns are read
        first and its other columns for the survivors only.
        """
        rows = self.file.row_count
        if self._reads_late:
            yield selection, True
            return
        if self.live.index_is_exact or selection.count(rows) <= _ONE_PASS_ROWS or filters_rows(self.reader):
            yield selection, False
            return
        for start, stop in self.reader.groups():
            window = selection & RowSelection.of(range(start, stop))
            if not window.is_none:
                yield window, bool(self.output_only) and window.count(rows) > _ONE_PASS_ROWS

    def _unfiltered(self, selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        output = self.output
        if not output.file_fields:  # no column of the file is wanted: rows are counted, not read
            rows = selection.to_array(self.file.row_count)
            for start in range(0, len(rows), batch_rows):
                here = rows[start : start + batch_rows]
                yield self._result(output.apply(no_columns(len(here))), here)
            return
        positions = _Positions(selection, self.file.row_count) if self.spec.metadata_columns else None
        for batch in self.reader.read(output.file_fields, selection, batch_rows):
            self._reach(self._done + batch.num_rows)
            yield self._result(output.apply(batch), None if positions is None else positions.take(batch.num_rows))

    def _in_one_pass(self, selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        positions = _Positions(selection, self.file.row_count)
        output = self.output
        for kept, mask in self._kept(selection, batch_rows):
            rows = positions.take(len(mask), is_true(mask))
            self._reach(self._done + len(mask))
            if len(rows):
                found = _pick(kept, output.file_fields) if output.file_fields else no_columns(len(rows))
                yield self._result(output.apply(found), rows)

    def _kept(self, selection: RowSelection, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        """The rows of the selection that match the filter, part by part, with which rows of the part these are; any
        rows where no columns are returned."""
        first, others = self.filter_fields, self.output_only
        if filters_rows(self.reader) and (first or others):
            yield from self.reader.read_where(first, others, self._matches, selection, batch_rows)
            return
        for batch in self._read_or_count([*first, *others], selection, batch_rows):
            mask = self._matches(_pick(batch, first))
            yield pc.filter(batch, mask) if self.output.file_fields else batch, mask

    def _matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows match the filter, by its columns."""
        return matches(self.spec.predicate, self.filtering.apply(batch))

    def _in_two_passes(self, selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Filter columns first; the others for the survivors of a whole row group, a window of bounded size."""
        positions = _Positions(selection, self.file.row_count)
        output, others = self.output, self.output_only
        returned = {(f.name, f.type) for f in output.file_fields}
        keep = [f for f in self.filtering.file_fields if (f.name, f.type) in returned]
        kept_batches: list[pa.RecordBatch] = []
        accepted_rows: list[npt.NDArray[np.int64]] = []
        before, examined, found = self._done, 0, 0
        columns_first = max(1, len(self.filtering.file_fields))
        for batch in self._read_or_count(self.filter_fields, selection, batch_rows):
            mask = self._matches(batch)
            accepted_rows.append(positions.take(batch.num_rows, is_true(mask)))
            examined, found = examined + batch.num_rows, found + len(accepted_rows[-1])
            rest = len(others) / columns_first * found / max(1, examined)  # as it seems by now
            self._reach(before + examined / (1 + rest))
            if keep:
                kept_batches.append(pc.filter(_pick(batch, keep), mask))
        rows = np.concatenate(accepted_rows) if accepted_rows else np.empty(0, np.int64)
        if not len(rows):
            return
        kept = pa.Table.from_batches(kept_batches) if kept_batches else None
        between = self._done
        done = 0
        for batch in self.reader.read(others, RowSelection.of(rows.astype(np.uint32)), batch_rows):
            n = batch.num_rows
            columns = {f.name: batch.column(i) for i, f in enumerate(others)}
            if kept is not None:
                part = kept.slice(done, n)
                columns |= {name: one_array(part.column(name)) for name in part.column_names}
            fields = output.file_fields
            whole = pa.RecordBatch.from_arrays([columns[f.name] for f in fields], schema=arrow_schema(fields))
            yield self._result(output.apply(whole), rows[done : done + n])
            done += n
            self._reach(between + (before + examined - between) * done / len(rows))
        if done != len(rows):
            raise CorruptFileError(f"{len(rows)} rows were selected, the file gave {done}", path=self.file.path)

    def _read_or_count(
        self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Batches of these columns; batches without columns if ``fields`` is empty (all of them were added later)."""
        if fields:
            yield from self.reader.read(fields, selection, batch_rows)
            return
        left = selection.count(self.file.row_count)
        while left > 0:
            n = min(left, batch_rows)
            yield no_columns(n)
            left -= n

    def _result(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64] | None) -> pa.RecordBatch:
        """A batch of the table's columns with the metadata columns of its rows."""
        if not self.spec.metadata_columns:
            return batch
        if rows is None:
            raise ValueError("metadata columns need row positions")
        from paimon_pyds.engine.read.metadata_columns import metadata_column  # few reads want such columns

        extra = [metadata_column(name, self.spec, self.file, rows) for name in self.spec.metadata_columns]
        return pa.RecordBatch.from_arrays([*batch.columns, *extra], schema=result_schema(self.spec))


def _growing_parts(window: RowSelection, row_count: int, limit: int | None) -> Iterator[RowSelection]:
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


def _pick(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    if not fields:
        return no_columns(batch.num_rows)
    return batch.select([f.name for f in fields])


class _Positions:
    """Walks the selected positions in step with the batches that a reader gives."""

    def __init__(self, selection: RowSelection, row_count: int) -> None:
        rows = selection.positions
        self._first = 0 if not rows else int(rows.min())
        one_run = rows is None or (bool(rows) and int(rows.max()) - self._first + 1 == len(rows))
        self._rows = None if one_run else selection.to_array(row_count)
        self._next = 0

    def take(self, n: int, kept: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:
        """The next ``n`` positions; of these, only those that ``kept`` selects."""
        start, self._next = self._next, self._next + n
        if self._rows is not None:
            rows = self._rows[start : start + n]
            return rows if kept is None else rows[kept]
        first = self._first + start
        return np.arange(first, first + n, dtype=np.int64) if kept is None else np.flatnonzero(kept) + first
