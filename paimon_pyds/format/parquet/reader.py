"""Reading Parquet data files: whole row groups, or only the pages that hold the wanted rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, from_numpy, keep_freed_memory, one_array, pc
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.types.nulls import wants_nulls_only
from paimon_pyds.base.variant.parts import Path, VariantParts
from paimon_pyds.errors import CorruptFileError, MissingColumnError
from paimon_pyds.format import FoundRows, ReadCounters, ReadHints
from paimon_pyds.format.batches import bytes_held, resized
from paimon_pyds.format.parquet.conversion import (
    INT96,
    BatchRows,
    ColumnSize,
    all_but,
    conform_batch,
    rows_at_once,
    without_rows,
)
from paimon_pyds.format.parquet.footer import Leaf
from paimon_pyds.format.parquet.page_picks import (
    Estimate,
    PagePick,
    choose,
    group_plan,
    pick_pages,
    places_of,
    too_many_rows,
)
from paimon_pyds.format.parquet.source import ParquetSource, decoding
from paimon_pyds.format.parquet.wide import WideFile
from paimon_pyds.format.threads import all_of, in_order
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import GroupPlan
    from paimon_pyds.sql.expression.variant_parts import PartTest

_WINDOW_GROUPS = 16
"""Row groups that are planned together: their page indexes are one request."""
_PASS_BYTES = 16 << 20
PASS_VALUES = 2_000_000
"""Greatest size of one pass of page reads, after which rows are returned: bytes of pages, values to decode."""
_PASS_BATCH_ROWS = 262_144
"""Rows at a time from which the wanted ones are taken, in columns that a pass decodes whole."""
SMALL_PAGES_BYTES = 8 << 20
"""Approximate bytes of small pages that are decoded at a time."""
_LEAST_KEPT = 0.75
"""Share of a row group's rows above which masking the others costs less than taking the wanted ones."""
_HELD_ROWS = 1 << 20
"""Rows of a batch where the caller holds all of them: pyarrow takes time for each batch and column."""
_MOST_THREADS = 4
"""That decode ahead, of one file."""
_FEW_VALUES = 10_000
"""Values that are decoded in less time than threads take to begin."""
_LEAST_BUFFER = 64 << 10
_LEAST_AHEAD = 16 << 20
"""Bytes below which nothing is decoded ahead: very many files are read at a time then, and each thread opens one
again."""


@lru_cache(maxsize=2)
def _permits(threads: int) -> threading.Semaphore:
    """Permits to decode ahead, for all files that this process reads at a time."""
    return threading.Semaphore(threads)


if hasattr(os, "register_at_fork"):  # a child lacks the threads that hold permits or the semaphore's lock
    os.register_at_fork(after_in_child=_permits.cache_clear)


@dataclass(frozen=True, slots=True)
class _Columns:
    schema: pa.Schema
    leaves: list[list[Leaf]]

    def subset(self, keep: Sequence[int]) -> _Columns:
        return _Columns(pa.schema([self.schema.field(i) for i in keep]), [self.leaves[i] for i in keep])


@dataclass(frozen=True, slots=True)
class _Task:
    """A row group to read: ``rows`` are the wanted rows within it, None for all but ``dropped``; ``picks`` the columns
    read by pages, of which ``estimated`` is how many pages they have, and what both ways cost."""

    group: int
    rows: Int64s | None
    dropped: Int64s | None = None
    picks: dict[int, PagePick] = field(default_factory=dict)
    estimated: tuple[int, Estimate] | None = None


class ParquetReader:
    """`FormatReader` of one open Parquet file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._read_ahead = hints.read_ahead
        self._batch_bytes = hints.batch_bytes
        self._is_held = hints.is_held
        self._source = ParquetSource(io, path, size, counters, hints.read_whole)
        self._path = path
        self._counters = counters
        self._groups_read: set[int] = set()
        self._groups = self._source.groups
        wide = self._source.wide
        self.row_count = self._source.footer.row_count if wide is None else sum(wide.rows)

    def groups(self) -> Sequence[tuple[int, int]]:
        return self._groups

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        # Page indexes are read only where enough of the rows within are at stake.
        from paimon_pyds.format.parquet.prune import prune

        return prune(self._source, predicate, within)

    def prune_parts(self, tests: Sequence[PartTest], within: RowSelection) -> RowSelection:
        """As `prune`, by comparisons of parts of VARIANT columns that are columns of their own in this file."""
        from paimon_pyds.format.parquet.prune import prune_parts

        return prune_parts(self._source, tests, within)

    def part_places(self, column: str, paths: Sequence[Path]) -> Mapping[Path, bool]:
        """See `PrunesParts`."""
        from paimon_pyds.format.parquet.variant_parts import has_column, part_column

        footer, leaves = self._source.footer, self._leaves(column)
        return {p: part_column(footer, leaves, p) is not None for p in paths if has_column(leaves, p)}

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not fields or batch_rows <= 0:
            raise ValueError("reading needs a field, and batches of at least one row")
        if selection.is_all and (whole := self._read_wide(fields, batch_rows)) is not None:
            yield from whole
            return
        columns = _Columns(arrow_schema(fields), list(map(self._leaves_of, fields)))
        batches = self._batches(columns, selection, batch_rows)
        if not selection.is_all:  # row groups that are read whole have batches of the right size
            batches = resized(batches, columns.schema, batch_rows, self._batch_bytes)
        yield from batches

    def plan(self, fields: Sequence[DataField], selection: RowSelection) -> Iterator[GroupPlan]:
        columns = _Columns(arrow_schema(fields), list(map(self._leaves_of, fields)))
        named = list(zip(columns.schema.names, columns.leaves, strict=True))
        for step in self._plan(columns, selection):
            for task in step if isinstance(step, list) else [step]:
                wanted = None if task.rows is None else len(task.rows)
                if task.dropped is not None:
                    wanted = self._rows_of(task.group) - len(task.dropped)
                yield group_plan(self._source.footer, task.group, wanted, named, task.picks, task.estimated)

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        from paimon_pyds.format.parquet.prune import integer_bounds

        return integer_bounds(self._source, field)

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        (leaf, *others) = self._leaves(field.name)
        if others or not leaf.flat:
            return None
        from paimon_pyds.format.parquet.sorted_column import find_values

        return find_values(self._source, leaf, field, values)

    def close(self) -> None:
        self._source.close()

    def _leaves_of(self, field: DataField) -> list[Leaf]:
        """The leaves to read of a column: if only its NULLs are wanted, one leaf is enough."""
        leaves = self._leaves(field.name)
        if isinstance(field.type, VariantParts):
            from paimon_pyds.format.parquet.variant_parts import part_leaves

            return part_leaves(self._source.footer, leaves, field.type.paths)
        return leaves[:1] if wants_nulls_only(field) else leaves

    def _leaves(self, name: str) -> list[Leaf]:
        footer = self._source.footer
        found = footer.columns.get(name)
        if found is None:
            raise MissingColumnError(
                f"the file has no column {name!r}, its schema says so", path=self._path,
                hint=f"it has {', '.join(list(footer.columns)[:20])}",
            )  # fmt: skip
        return [footer.leaves[i] for i in found]

    def _plan(self, columns: _Columns, selection: RowSelection) -> Iterator[_Task | list[_Task]]:
        """Row groups to read whole, and passes over several row groups whose columns are read by pages."""
        groups = self._groups
        for first in range(0, len(groups), _WINDOW_GROUPS):
            tasks = list(self._wanted(selection, first, min(first + _WINDOW_GROUPS, len(groups))))
            sparse = [t for t in tasks if t.rows is not None and not too_many_rows(len(t.rows), self._rows_of(t.group))]
            flat = [leaves[0].index for leaves in columns.leaves if leaves[0].flat]
            self._source.tables((t.group, leaf) for t in sparse for leaf in flat)
            chosen = {t.group: self._choose_pages(t, flat) for t in sparse}
            yield from self._passes(columns, [chosen.get(t.group, t) for t in tasks])

    def _wanted(self, selection: RowSelection, first: int, stop: int) -> Iterator[_Task]:
        """Row groups with selected rows, and which; where few are left out, which these are."""
        for group in range(first, stop):
            begin, end = self._groups[group]
            inside, rows = selection.window(begin, end), end - begin
            if not rows or inside.is_none:
                continue
            if inside.is_all:
                yield _Task(group, None)
            elif too_many_rows(inside.count(rows), rows) and inside.count(rows) > rows * _LEAST_KEPT:
                yield _Task(group, None, inside.invert(rows).to_array(rows))
            else:
                yield _Task(group, inside.to_array(rows))

    def _rows_of(self, group: int) -> int:
        begin, end = self._groups[group]
        return end - begin

    def _choose_pages(self, task: _Task, flat: Sequence[int]) -> _Task:
        """The task with picks for those of its flat columns whose pages cost less than the row group."""
        if task.rows is None:
            return task
        footer, tables = self._source.footer, self._source.tables(())
        indexed = [leaf for leaf in flat if (task.group, leaf) in tables]
        found = pick_pages(
            {i: (footer.leaves[i], footer.chunk(task.group, i), tables[task.group, i]) for i in indexed}, task.rows
        )
        picks = {leaf: (pick, len(tables[task.group, leaf])) for leaf, pick in found.items()}
        if not picks:
            return task
        chosen, cost = choose(picks, self._rows_of(task.group))
        counted = [picks[leaf] for leaf in chosen or picks]
        wanted, total = sum(len(pick.starts) for pick, _ in counted), sum(pages for _, pages in counted)
        if chosen:
            self._counters.pages_total += total
            self._counters.pages_read += wanted
        else:
            self._counters.notes.append(
                f"row group {task.group} read whole: {len(task.rows)} rows want {wanted} of {total} pages"
            )
        return _Task(task.group, task.rows, None, {leaf: picks[leaf][0] for leaf in chosen}, (total, cost))

    def _passes(self, columns: _Columns, tasks: Sequence[_Task]) -> Iterator[_Task | list[_Task]]:
        """Neighbouring tasks that read the same columns by pages become one pass, within bounds."""
        current: list[_Task] = []
        size = values = 0
        for task in tasks:
            if current and (task.picks.keys() != current[0].picks.keys() or size > _PASS_BYTES or values > PASS_VALUES):
                yield current
                current, size, values = [], 0, 0
            if not task.picks:
                yield task
                continue
            current.append(task)
            whole = len(columns.leaves) - len(task.picks)
            values += whole * self._rows_of(task.group)
            for pick in task.picks.values():
                size += int(pick.sizes.sum())
                values += pick.covered
        if current:
            yield current

    def _batches(self, columns: _Columns, selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The wanted rows: row groups that are decoded whole, and passes over pages, several at a time."""
        steps = self._plan(columns, selection)
        first = next(steps, None)
        if first is None:
            return iter(())
        threads = pa.cpu_count() + isinstance(first, list)  # passes wait for each other's Python code now and then
        groups = (
            self._read_group(columns, step, batch_rows)
            if isinstance(step, _Task)
            else self._read_pages(columns, step, alone=step is first)
            for step in chain([first], steps)
        )
        return self._several_at_a_time(groups, threads)

    def _several_at_a_time(
        self, groups: Iterator[Generator[pa.RecordBatch, None, None]], threads: int
    ) -> Iterator[pa.RecordBatch]:
        return in_order(
            groups,
            threads=min(_MOST_THREADS, threads) if self._batch_bytes >= _LEAST_AHEAD else 1,
            held=self._batch_bytes,
            size=bytes_held,
            permits=_permits(threads),
        )

    def _read_wide(self, fields: Sequence[DataField], batch_rows: int) -> Iterator[pa.RecordBatch] | None:
        """All rows of a file of many columns; None for other files, and those whose pages may be small."""
        wide = self._source.wide
        if wide is None or (found := wide.columns) is None or any(f.name not in found for f in fields):
            return None
        if any(isinstance(f.type, VariantParts) for f in fields):
            return None
        if wide.may_have_small_pages(self._source.footer_start):
            return None
        columns = [found[f.name][:1] if wants_nulls_only(f) else found[f.name] for f in fields]
        schema, int96 = arrow_schema(fields), wide.has_int96(chain.from_iterable(columns))
        groups = (
            self._read_wide_group(wide, group, schema, columns, int96, batch_rows)
            for group, rows in enumerate(wide.rows)
            if rows
        )
        return self._several_at_a_time(groups, pa.cpu_count())

    def _read_wide_group(
        self, wide: WideFile, group: int, schema: pa.Schema, columns: Sequence[range], int96: bool, batch_rows: int
    ) -> Generator[pa.RecordBatch, None, None]:
        rows = wide.rows[group]
        compressed, sizes = wide.sizes(group, chain.from_iterable(columns))
        self._count_group(group)
        self._counters.rows_decoded += rows
        self._source.count(compressed, requests=1)
        batch_rows = self._rows_of_batch(batch_rows)
        sizing = BatchRows(batch_rows, rows, self._batch_bytes, sizes)
        is_one = sizing.next >= rows
        buffer = self._buffer(compressed, len(sizes))
        decoded = self._by_pyarrow(columns, group, sizing, buffer, int96=int96)
        wanted = self._wanted_of(decoded, schema, _Task(group, None), sizing)
        return wanted if is_one else resized(wanted, schema, batch_rows, self._batch_bytes)

    def _read_group(self, columns: _Columns, task: _Task, batch_rows: int) -> Generator[pa.RecordBatch, None, None]:
        """The wanted rows of a row group, to be decoded whole in batches of ``batch_rows`` rows."""
        leaves = [leaf for of_column in columns.leaves for leaf in of_column]
        chunks = [self._source.footer.chunk(task.group, leaf.index) for leaf in leaves]
        rows = self._rows_of(task.group)
        self._count_group(task.group)
        self._counters.rows_decoded += rows
        if task.dropped is not None:
            batch_rows = rows_at_once(batch_rows, rows, sum(chunk.uncompressed_size for chunk in chunks))
        at_once = min(self._batch_bytes, SMALL_PAGES_BYTES)
        compressed, sizes = sum(chunk.compressed_size for chunk in chunks), map(ColumnSize.of, chunks)
        buffer = self._buffer(compressed, len(chunks))
        from paimon_pyds.format.parquet.small_pages import has_small_pages

        if has_small_pages(leaves, chunks, at_once) and not buffer:
            sizing = BatchRows(max(batch_rows, _PASS_BATCH_ROWS), rows, at_once, sizes)
            decoded = self._by_small_pages(columns, task.group, sizing)
        else:
            batch_rows = self._rows_of_batch(batch_rows)
            sizing = BatchRows(batch_rows, rows, self._batch_bytes, sizes)
            self._source.count(compressed, requests=1)
            places = [[leaf.index for leaf in of_column] for of_column in columns.leaves]
            int96 = any(leaf.physical == INT96 for leaf in leaves)
            decoded = self._by_pyarrow(places, task.group, sizing, buffer, int96=int96)
        wanted = self._wanted_of(decoded, columns.schema, task, sizing)
        # The first ones may be short; those that are held would be copied to be joined.
        return resized(wanted, columns.schema, batch_rows, self._batch_bytes, join=not self._is_held)

    def _rows_of_batch(self, wanted: int) -> int:
        """How many rows pyarrow decodes at a time, at most."""
        return max(wanted, _HELD_ROWS) if self._is_held else wanted

    def _wanted_of(
        self, decoded: Iterator[pa.RecordBatch], schema: pa.Schema, task: _Task, sizing: BatchRows
    ) -> Generator[pa.RecordBatch, None, None]:
        """The wanted rows of a row group. Several of these may run at the same time."""
        done, rows = 0, self._rows_of(task.group)
        keep = None if task.dropped is None else all_but(task.dropped, rows)
        for batch in decoded:
            start, done = done, done + batch.num_rows
            if done > rows:
                break
            wanted = batch
            if task.rows is not None:
                low, high = np.searchsorted(task.rows, (start, done))
                if high - low < batch.num_rows:
                    wanted = (
                        pc.take(batch, from_numpy(task.rows[low:high] - start)) if low < high else batch.slice(0, 0)
                    )
            elif keep is not None:
                wanted = without_rows(batch, keep.slice(start, batch.num_rows))
            found = conform_batch(
                wanted if wanted.num_rows else batch, schema, self._path, self._source.stored_arrow_schema
            )
            if done < rows:
                sizing.learn(found)
            if wanted.num_rows:
                yield found
        if done != rows:
            raise CorruptFileError(f"a row group of {rows} rows decodes to {done}", path=self._path)

    def _by_small_pages(self, columns: _Columns, group: int, sizing: BatchRows) -> Iterator[pa.RecordBatch]:
        leaves = [leaf for (leaf,) in columns.leaves]
        from paimon_pyds.format.parquet.small_pages import small_pages

        for arrays in small_pages(self._source, group, leaves, sizing, _permits(pa.cpu_count())):
            yield pa.RecordBatch.from_arrays(arrays, columns.schema.names)

    def _by_pyarrow(
        self, columns: Sequence[Sequence[int]], group: int, sizing: BatchRows, buffer: int, *, int96: bool
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a row group. ``columns``: the leaves of each."""
        order = sorted(range(len(columns)), key=lambda i: columns[i][0])
        place = [0] * len(order)
        for at, i in enumerate(order):
            place[i] = at
        leaves = list(chain.from_iterable(columns[i] for i in order))
        on_threads = self._rows_of(group) * len(leaves) > _FEW_VALUES
        with self._source.arrow_file(int96=int96, buffer=buffer) as file:
            with decoding(self._path):
                if sizing.next >= self._rows_of(group) and not buffer:  # column after column takes less memory and time
                    batches = iter(file.read_row_group(group, leaves, use_threads=on_threads).to_batches())
                else:
                    batches = file.iter_batches(sizing.next, [group], leaves, use_threads=on_threads)
            while True:
                with decoding(self._path):
                    batch = next(batches, None)
                if batch is None:
                    break
                if batch.num_columns != len(place):
                    raise CorruptFileError(f"{len(place)} columns wanted, {batch.num_columns} decoded", path=self._path)
                yield batch if place == list(range(len(place))) else batch.select(place)
                file.set_batch_size(sizing.next)

    def _buffer(self, stored: int, columns: int) -> int:
        """Bytes of each column to read at a time; 0 where the row group may be held as it is stored."""
        if self._read_ahead is None or stored <= self._read_ahead:
            return 0
        return max(_LEAST_BUFFER, self._read_ahead // columns)

    def _read_pages(
        self, columns: _Columns, tasks: Sequence[_Task], *, alone: bool
    ) -> Generator[pa.RecordBatch, None, None]:
        """The wanted rows of some row groups, the same columns of each by pages, the others by row group.

        What runs ``alone``, as nothing else is begun yet, spreads over threads itself.
        """
        by_pages = [i for i, leaves in enumerate(columns.leaves) if leaves[0].index in tasks[0].picks]
        others = [i for i in range(len(columns.leaves)) if i not in by_pages]
        picks = [[task.picks[columns.leaves[i][0].index] for task in tasks] for i in by_pages]
        if not others:  # else all rows are decoded, these among them
            self._counters.rows_decoded += max(sum(pick.covered for pick in column) for column in picks)
        for task in tasks:
            self._count_group(task.group)
        every = [pick for task in tasks for pick in task.picks.values()]
        size, chunks = sum(pick.size for pick in every), sum(pick.chunk.compressed_size for pick in every)
        self._counters.notes.append(
            f"{len(by_pages)} columns of {len(tasks)} row groups read by {sum(len(pick.starts) for pick in every)} "
            f"pages: {size} of {chunks} bytes"
        )
        rest = columns.subset(others)
        groups = [self._read_group(rest, task, _PASS_BATCH_ROWS) for task in tasks] if others else []
        return self._decode_pass(columns, by_pages, picks, rest, groups, alone)

    def _decode_pass(
        self,
        columns: _Columns,
        by_pages: Sequence[int],
        picks: Sequence[Sequence[PagePick]],
        rest: _Columns,
        groups: Sequence[Generator[pa.RecordBatch, None, None]],
        alone: bool,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The work of `_read_pages`, in one batch. Several of these may run at the same time."""
        pieces: list[Callable[[], list[pa.Array]]] = [partial(self._decode_pages, picks, alone)]
        if groups:
            pieces.append(partial(_decode_whole, rest.schema, groups))
        found = [
            array
            for arrays in all_of(pieces, len(pieces) if alone else 1, _permits(pa.cpu_count()))
            for array in arrays
        ]
        places = [*by_pages, *(i for i in range(len(columns.leaves)) if i not in by_pages)]
        arrays = [array for _, array in sorted(zip(places, found, strict=True), key=itemgetter(0))]
        yield conform_batch(pa.RecordBatch.from_arrays(arrays, columns.schema.names), columns.schema, self._path)

    def _decode_pages(self, picks: Sequence[Sequence[PagePick]], alone: bool) -> list[pa.Array]:
        from paimon_pyds.format.parquet.gather_values import gather_values  # many files are read whole
        from paimon_pyds.format.parquet.pages import decode_picks

        # else each pass allocates new memory, which takes longer than copying pages into it
        keep_freed_memory(sum(pick.size for column in picks for pick in column))
        joined = self._source.read_joined([places_of(column) for column in picks])
        gathered_picks, gathered_data = gather_values(
            picks, joined, self._path, pa.cpu_count() if alone else 1, _permits(pa.cpu_count())
        )
        return decode_picks(gathered_picks, gathered_data, self._path)

    def _count_group(self, group: int) -> None:
        if group not in self._groups_read:
            self._groups_read.add(group)
            self._counters.row_groups_read += 1


def _decode_whole(schema: pa.Schema, groups: Sequence[Generator[pa.RecordBatch, None, None]]) -> list[pa.Array]:
    table = pa.Table.from_batches([batch for group in groups for batch in group], schema).combine_chunks()
    return [one_array(column) for column in table.columns]
