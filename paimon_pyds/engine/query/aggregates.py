"""Answers about a scan's rows as a whole: from metadata and indexes where those are exact, else by reading.

Every answer is exact. A file is read only if metadata and indexes are not enough for its filter, its deletion vector
and the column: each `Answer` has the number of such files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from paimon_pyds.base.progress import counted, shown
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.query.aggregate_parts import Distinct, Extreme, Fold, Sum
from paimon_pyds.engine.query.answer import Answer, IndexedFile, Tally
from paimon_pyds.engine.read import read_splits
from paimon_pyds.engine.read.postponed_rows import WaitingRows
from paimon_pyds.engine.read.split_read import check_row_counts
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

if TYPE_CHECKING:
    from paimon_pyds.scan import Scan

U = TypeVar("U")

_BATCH_ROWS = 65_536
"""Rows of a batch."""
_THREADS = 8
"""Threads on a local disk, at most."""


class Answers:
    """Questions to a scan: `Scan.answer` and `Table.answer` give one. Each method answers from the scan's snapshot."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def __repr__(self) -> str:
        return one_line(self, repr(self._scan))

    @shown("count")
    def count(self) -> Answer[int]:
        """How many rows there are."""
        tally = Tally()
        scans, merged = _parts_of(self._scan, tally)
        total = sum(self._counted(scan, tally) for scan in scans) + sum(batch.num_rows for batch in merged)
        return tally.answer(self._scan.request.limited(total))

    def _counted(self, scan: Scan, tally: Tally) -> int:
        unread, request = _FilesToRead(), scan.request
        known = scan.analyzed_rows()
        if known is not None:
            return known
        spec, files = self._open(scan, ())
        total = 0

        def question(file: IndexedFile) -> tuple[IndexedFile, int | None]:
            count = file.count()
            file.close()
            return file, count

        for file, count in _gathered(spec.io, question, files, lambda file: file.count_needs_no_request):
            if count is None:
                unread.take(file)
            else:
                total += count
                tally.answered(file)
        left = None if request.row_limit is None else max(request.row_limit - total, 0)
        if left != 0:
            total += sum(batch.num_rows for batch in unread.batches(spec, tally, limit=left))
        return total

    @shown("exists")
    def exists(self) -> Answer[bool]:
        """Whether there is a row at all. Files are visited one after the other, until one has a row."""
        tally = Tally()
        if self._scan.request.row_limit == 0:
            return tally.answer(False)
        scans, merged = _parts_of(self._scan, tally)
        found = any(self._has_rows(scan, tally) for scan in scans) or any(batch.num_rows for batch in merged)
        return tally.answer(found)

    def _has_rows(self, scan: Scan, tally: Tally) -> bool:
        unread = _FilesToRead()
        spec, files = self._open(scan, ())
        for file in files:
            count = file.count()
            file.close()
            if count is None:
                unread.take(file)
                continue
            tally.answered(file)
            if count:
                return True
        return any(batch.num_rows for batch in unread.batches(spec, tally, limit=1))

    @shown("distinct")
    def distinct(self, column: str) -> Answer[pa.Table]:
        """The distinct values of a column, ascending with NULL first, and the ``count`` of rows that hold each.

        NaN is one value, and -0.0 is 0.0, as in Spark.
        """
        return self._fold(column, Distinct)

    @shown("min")
    def min(self, column: str) -> Answer[Any]:
        """The smallest value of a column that is not NULL; None without values."""
        return self._fold(column, partial(Extreme, largest=False))

    @shown("max")
    def max(self, column: str) -> Answer[Any]:
        """The largest value of a column that is not NULL; None without values. NaN is larger than all numbers."""
        return self._fold(column, partial(Extreme, largest=True))

    @shown("sum")
    def sum(self, column: str) -> Answer[Any]:
        """The sum of a column's values that are not NULL; None without values.

        As in Spark, integers give a BIGINT, DECIMAL(p, s) a DECIMAL(p + 10, s), FLOAT and DOUBLE a DOUBLE.

        Raises:
            SchemaError: the sum does not fit that type.
            UnsupportedError: the column does not hold numbers.
        """
        return self._fold(column, Sum)

    @shown("top n")
    def top_n(self, order: str) -> Answer[pa.Table]:
        """The first rows in an order, such as ``"amount desc nulls last, 10"``: see `Table.scan`."""
        return self._scan.ordered(order).top_rows()

    def _open(self, scan: Scan, fields: tuple[DataField, ...]) -> tuple[ReadSpec, list[IndexedFile]]:
        """How to read these columns, and the files of a scan."""
        plan = scan.plan_with_bounds(fields)
        if plan.rows_in_doubt:
            check_row_counts(plan.spec, plan.files)
        spec = replace(plan.spec, fields=fields, metadata_columns=())
        return spec, [IndexedFile(spec, file) for file in plan.files]

    def _fold(self, column: str, kind: Callable[[DataField], Fold]) -> Answer[Any]:
        field, tally = self._scan.field(column), Tally()
        fold = kind(field)
        chosen = self._scan.selecting((field,))
        if self._scan.request.row_limit is not None:  # what a limit leaves is read
            _add_values(fold, chosen.to_batches(on_file=tally.read))
            return tally.answer(fold.result())
        scans, merged = _parts_of(chosen, tally)
        for scan in scans:
            self._fold_part(scan, scan.field(field.name), fold, tally)
        _add_values(fold, merged)
        return tally.answer(fold.result())

    def _fold_part(self, scan: Scan, field: DataField, fold: Fold, tally: Tally) -> None:
        unread = _FilesToRead()
        spec, files = self._open(scan, (field,))

        def question(file: IndexedFile) -> tuple[IndexedFile, tuple[Any, ...] | None]:
            parts = _parts(file, field, fold)
            file.close()
            return file, parts

        def is_cheap(file: IndexedFile) -> bool:
            bounds = file.file.bounds_of(field.name)
            by_bounds = file.file.deletion is None and fold.of_bounds(bounds) is not None
            return file.is_counted_by_metadata and (bounds.constant or by_bounds)

        # Files that settle an answer by their bounds first: the others may then add nothing.
        files.sort(key=lambda file: fold.of_bounds(file.file.bounds_of(field.name)) is None)
        for file, parts in _gathered(spec.io, question, files, is_cheap):
            if parts is None:
                unread.take(file)
                continue
            tally.answered(file)
            for part in parts:
                fold.add(part)
        unread.drop(lambda file: fold.ignores(file.bounds_of(field.name)), tally)
        _add_values(fold, unread.batches(spec, tally))


def _parts_of(scan: Scan, tally: Tally) -> tuple[list[Scan], Iterator[pa.RecordBatch]]:
    """The scans of one plan each that a scan is of, and the rows of partitions that are merged with waiting rows."""
    scans, waiting = [], []
    for source in scan.sources:
        if isinstance(source, WaitingRows):
            waiting.append(source)
        else:
            scans.append(source)
    return scans, (batch for rows in waiting for batch in rows.batches(_BATCH_ROWS, on_file=tally.read))


def _add_values(fold: Fold, batches: Iterable[pa.RecordBatch]) -> None:
    """Add the only column of these."""
    for batch in batches:
        fold.add(fold.of_values(batch.column(0)))


def _parts(file: IndexedFile, field: DataField, fold: Fold) -> tuple[Any, ...] | None:
    """What a file adds, found without its data; None when it has to be read."""
    bounds = file.file.bounds_of(field.name)
    if fold.ignores(bounds):
        return ()
    if bounds.constant:
        rows = file.count()
        if rows is not None:
            part = fold.of_constant(bounds.low, rows)
            return () if part is None or not rows else (part,)
    if file.has_no_filter and file.file.deletion is None:
        part = fold.of_bounds(bounds)
        if part is not None:
            return (part,)
    selection = file.rows
    if selection is None:
        return None
    if selection.is_none:
        return ()
    for column in file.columns(field, fold.index_types):
        part = fold.of_index(column, selection.positions, selection.count(file.file.row_count))
        if part is not None:
            return (part,)
    return None


def _gathered(
    io: FileIO,
    question: Callable[[IndexedFile], U],
    items: Sequence[IndexedFile],
    is_cheap: Callable[[IndexedFile], bool],
) -> Iterator[U]:
    """The results of ``question`` for each file: for cheap ones at once, for the others in parallel."""
    others = []
    for item in items:
        if is_cheap(item):
            yield question(item)
        else:
            others.append(item)
    threads = threads_for(io, min(_THREADS, 2 * (os.cpu_count() or 1)))
    yield from counted(concurrent_map(question, others, threads), "asking indexes", files=len(others))


class _FilesToRead:
    """Files that have to be read: with the filter, or where their rows are known exactly, without."""

    def __init__(self) -> None:
        self._files: list[IndexedFile] = []

    def take(self, file: IndexedFile) -> None:
        self._files.append(file)

    def drop(self, is_ignored: Callable[[PlannedFile], bool], tally: Tally) -> None:
        """Leave out files that can't matter any more."""
        kept = []
        for file in self._files:
            if is_ignored(file.file):
                tally.answered(file)
            else:
                kept.append(file)
        self._files = kept

    def batches(self, spec: ReadSpec, tally: Tally, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            tally.count_bytes_of(file)
        plain = replace(spec, predicate=Const.TRUE, filter_fields=())
        for exact, one in ((True, plain), (False, spec)):
            files = [file.reading_candidates() for file in self._files if (file.rows is not None) is exact]
            threads = os.cpu_count() or 1
            yield from read_splits(one, files, _BATCH_ROWS, limit=limit, threads=threads, on_file=tally.read)
