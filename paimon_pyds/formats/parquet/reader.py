"""Reading Parquet data files: whole row groups, or only the pages that hold the wanted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.formats.parquet.arrays import conform, conform_batch
from paimon_pyds.formats.parquet.cost import pages_pay_off, too_many_rows
from paimon_pyds.formats.parquet.decoding import decoding
from paimon_pyds.formats.parquet.footer import Leaf
from paimon_pyds.formats.parquet.int96 import INT96
from paimon_pyds.formats.parquet.pages import PagePick, decode_picks, pick_pages
from paimon_pyds.formats.parquet.source import ParquetSource
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage.base import FileIO
from paimon_pyds.types import DataField, arrow_schema

__all__ = ["ParquetReader"]

_Int64s = npt.NDArray[np.int64]
_WINDOW_GROUPS = 16
"""Row groups that are planned together: their page indexes are one request."""
_PASS_BYTES = 16 << 20
_PASS_ROWS = 2_000_000
"""What one pass of page reads takes on, at most, before rows are given out: bytes of pages, rows to decode."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The wanted columns: their Arrow schema, and the leaves under each."""

    schema: pa.Schema
    leaves: list[list[Leaf]]

    def subset(self, keep: Sequence[int]) -> _Columns:
        """Only the columns at these places."""
        return _Columns(pa.schema([self.schema.field(i) for i in keep]), [self.leaves[i] for i in keep])


@dataclass(frozen=True, slots=True)
class _Task:
    """A row group to read: ``rows`` are the wanted rows within it, None for all; ``picks`` the columns read by
    pages."""

    group: int
    rows: _Int64s | None
    picks: dict[int, PagePick] = field(default_factory=dict)


class ParquetReader:
    """`FormatReader` of one open Parquet file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters) -> None:
        self._source = ParquetSource(io, path, size, counters)
        self._path = path
        self._counters = counters
        self._groups_read: set[int] = set()
        self.row_count = self._source.footer.row_count
        counters.row_groups_total += self._source.footer.group_count

    def groups(self) -> Sequence[tuple[int, int]]:
        """Row ranges (start, stop) of the row groups."""
        return self._source.footer.groups

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        """Rows that may match, by the statistics of row groups and pages.

        ``within`` says which rows matter at all: page indexes are read only where enough of them are at stake, and rows
        outside may be kept or not.
        """
        from paimon_pyds.formats.parquet.prune import prune

        return prune(self._source, predicate, within)

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The selected rows in file order, in batches of at most ``batch_rows`` rows, with `arrow_schema(fields)`.

        Raises:
            CorruptFileError: the file lacks a field, holds another type, or is damaged.
            UnsupportedError: a timestamp that Arrow's nanoseconds can't hold, an encoding that pyarrow does not know.
        """
        if not fields or batch_rows <= 0:
            raise ValueError("reading needs a field, and batches of at least one row")
        columns = _Columns(arrow_schema(fields), [self._leaves(f.name) for f in fields])
        pending = _Pending(columns.schema, batch_rows)
        for task in self._plan(columns, selection):
            if isinstance(task, list):
                yield from pending.add(self._read_pages(columns, task), keep_small=True)
                continue
            for batch in self._read_group(columns, task, batch_rows):
                yield from pending.add(batch, keep_small=task.rows is not None)
        yield from pending.rest()

    def close(self) -> None:
        """Release the file."""
        self._source.close()

    # --------------------------------------------------------------------------------------------------- planning

    def _leaves(self, name: str) -> list[Leaf]:
        footer = self._source.footer
        found = footer.columns.get(name)
        if found is None:
            raise CorruptFileError(
                f"the file has no column {name!r}, its schema says so", path=self._path,
                hint=f"it has {', '.join(list(footer.columns)[:20])}",
            )  # fmt: skip
        return [footer.leaves[i] for i in found]

    def _plan(self, columns: _Columns, selection: RowSelection) -> Iterator[_Task | list[_Task]]:
        """Row groups to read whole, and passes over several row groups whose columns are read by pages."""
        groups = self._source.footer.groups
        for first in range(0, len(groups), _WINDOW_GROUPS):
            tasks = [
                _Task(g, rows) for g, rows in self._wanted(selection, first, min(first + _WINDOW_GROUPS, len(groups)))
            ]
            sparse = [t for t in tasks if t.rows is not None and not too_many_rows(len(t.rows), self._rows_of(t.group))]
            flat = [leaves[0].index for leaves in columns.leaves if leaves[0].flat]
            self._source.tables((t.group, leaf) for t in sparse for leaf in flat)
            chosen = {t.group: self._choose_pages(t, flat) for t in sparse}
            yield from _passes([chosen.get(t.group, t) for t in tasks])

    def _wanted(self, selection: RowSelection, first: int, stop: int) -> Iterator[tuple[int, _Int64s | None]]:
        """Row groups with selected rows, and which."""
        for group in range(first, stop):
            begin, end = self._source.footer.groups[group]
            inside = selection.window(begin, end)
            if end == begin or inside.is_none:
                continue
            yield group, None if inside.is_all else inside.to_array(end - begin)

    def _rows_of(self, group: int) -> int:
        begin, end = self._source.footer.groups[group]
        return end - begin

    def _choose_pages(self, task: _Task, flat: Sequence[int]) -> _Task:
        """The task with picks for its flat columns, if their pages cost less than the row group."""
        if task.rows is None:
            return task
        footer, tables = self._source.footer, self._source.tables(())
        picks: dict[int, PagePick] = {}
        for leaf in flat:
            table = tables.get((task.group, leaf))
            if table is not None:
                picks[leaf] = pick_pages(footer.leaves[leaf], footer.chunk(task.group, leaf), table, task.rows)
        sizes = {leaf: len(tables[task.group, leaf]) for leaf in picks}
        wanted, total = sum(len(pick.starts) for pick in picks.values()), sum(sizes.values())
        if not pages_pay_off([(picks[leaf], sizes[leaf]) for leaf in picks], self._rows_of(task.group)):
            if picks:
                self._counters.notes.append(
                    f"row group {task.group} read whole: {len(task.rows)} rows want {wanted} of {total} pages"
                )
            return task
        self._counters.pages_total += total
        self._counters.pages_read += wanted
        return _Task(task.group, task.rows, picks)

    # ---------------------------------------------------------------------------------------------------- reading

    def _read_group(self, columns: _Columns, task: _Task, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a row group, decoded whole in batches of ``batch_rows`` rows."""
        leaves = [leaf for of_column in columns.leaves for leaf in of_column]
        order = sorted(range(len(columns.leaves)), key=lambda i: columns.leaves[i][0].index)
        place = [order.index(i) for i in range(len(order))]
        counters, footer = self._counters, self._source.footer
        self._count_group(task.group)
        counters.requests += 1
        counters.bytes_read += sum(footer.chunk(task.group, leaf.index).compressed_size for leaf in leaves)
        counters.rows_decoded += self._rows_of(task.group)
        file = self._source.arrow_file(int96=any(leaf.physical == INT96 for leaf in leaves))
        with decoding(self._path):
            batches = file.reader.iter_batches(
                batch_rows,
                row_groups=[task.group],
                column_indices=sorted(leaf.index for leaf in leaves),
                use_threads=True,
            )
        done = 0
        while True:
            with decoding(self._path):
                batch = next(batches, None)
            if batch is None:
                break
            start, done = done, done + batch.num_rows
            if batch.num_columns != len(place):
                raise CorruptFileError(f"{len(place)} columns wanted, {batch.num_columns} decoded", path=self._path)
            if task.rows is not None:
                low, high = np.searchsorted(task.rows, (start, done))
                if low == high:
                    continue
                batch = batch if high - low == batch.num_rows else batch.take(pa.array(task.rows[low:high] - start))
            yield conform_batch(batch.select(place), columns.schema, self._path)
        if done != self._rows_of(task.group):
            raise CorruptFileError(
                f"a row group of {self._rows_of(task.group)} rows decodes to {done}", path=self._path
            )

    def _read_pages(self, columns: _Columns, tasks: Sequence[_Task]) -> pa.RecordBatch:
        """The wanted rows of some row groups, the same columns of each by pages, the others by row group."""
        by_pages = [i for i, leaves in enumerate(columns.leaves) if leaves[0].index in tasks[0].picks]
        others = [i for i in range(len(columns.leaves)) if i not in by_pages]
        arrays = dict(zip(by_pages, self._decode_pages(columns, by_pages, tasks), strict=True))
        if others:
            rest = columns.subset(others)
            parts = [b for task in tasks for b in self._read_group(rest, task, _PASS_ROWS)]
            table = pa.Table.from_batches(parts, rest.schema).combine_chunks()
            arrays |= {i: c.chunk(0) for i, c in zip(others, table.columns, strict=True)}
        whole = [conform(arrays[i], f.type, f.name, self._path) for i, f in enumerate(columns.schema)]
        return pa.RecordBatch.from_arrays(whole, schema=columns.schema)

    def _decode_pages(self, columns: _Columns, by_pages: Sequence[int], tasks: Sequence[_Task]) -> list[pa.Array]:
        picks = [[task.picks[columns.leaves[i][0].index] for task in tasks] for i in by_pages]
        ranges = [[pick.ranges() for pick in column] for column in picks]
        data = iter(self._source.read([r for column in ranges for of_pick in column for r in of_pick]))
        joined = [[b"".join([next(data) for _ in of_pick]) for of_pick in column] for column in ranges]
        self._counters.rows_decoded += max(sum(pick.covered for pick in column) for column in picks)
        for task in tasks:
            self._count_group(task.group)
        self._note(by_pages, tasks, sum(len(d) for column in joined for d in column))
        return decode_picks(picks, joined, self._path)

    def _count_group(self, group: int) -> None:
        if group not in self._groups_read:
            self._groups_read.add(group)
            self._counters.row_groups_read += 1

    def _note(self, by_pages: Sequence[int], tasks: Sequence[_Task], size: int) -> None:
        pages = sum(len(pick.starts) for task in tasks for pick in task.picks.values())
        chunks = sum(pick.chunk.compressed_size for task in tasks for pick in task.picks.values())
        self._counters.notes.append(
            f"{len(by_pages)} columns of {len(tasks)} row groups read by {pages} pages: {size} of {chunks} bytes"
        )


def _passes(tasks: Sequence[_Task]) -> Iterator[_Task | list[_Task]]:
    """Neighbouring tasks that read the same columns by pages become one pass, within bounds."""
    current: list[_Task] = []
    size = rows = 0
    for task in tasks:
        if current and (task.picks.keys() != current[0].picks.keys() or size > _PASS_BYTES or rows > _PASS_ROWS):
            yield current
            current, size, rows = [], 0, 0
        if not task.picks:
            yield task
            continue
        current.append(task)
        size += sum(int(pick.sizes.sum()) for pick in task.picks.values())
        rows += sum(pick.covered for pick in task.picks.values())
    if current:
        yield current


class _Pending:
    """Joins small batches, and cuts large ones, so that those given out have a good size."""

    def __init__(self, schema: pa.Schema, batch_rows: int) -> None:
        self._schema = schema
        self._most = batch_rows
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch, *, keep_small: bool) -> Iterator[pa.RecordBatch]:
        """What can be given out once this batch has come; with ``keep_small`` it may wait for more."""
        if self._rows and self._rows + batch.num_rows > self._most:
            yield from self.rest()
        for start in range(0, batch.num_rows, self._most):
            part = batch.slice(start, self._most)
            self._parts.append(part)
            self._rows += part.num_rows
            if not keep_small or self._rows * 2 >= self._most:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is still waiting."""
        if self._parts:
            parts, self._parts, self._rows = self._parts, [], 0
            if len(parts) == 1:
                yield parts[0]
            else:
                yield from pa.Table.from_batches(parts, self._schema).combine_chunks().to_batches()
