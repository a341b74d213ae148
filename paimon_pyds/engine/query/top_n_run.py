"""Running a top n: files by their best possible value, each by its index if that is enough, then the rows themselves.

Files are walked from the most promising to the least by the bounds in their statistics; a file that can't hold a row
better than the n-th best so far is left out, and files whose bounds are not known come first. In a file whose filter an
index answers exactly and whose sort column has a range bitmap, BSI or bitmap index, the best rows are found without
reading data: with one sort column for good, with several by the first one, ties included, and reading decides. Other
files are read: their filter and sort columns only. All columns are read for the n rows that are left.

Files of a table with a primary key whose rows have to be merged come last: their rows are merged as in any read, and
the n best stay as they come.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, empty_table, to_numpy
from paimon_pyds.base.options.option import integer
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import AtomicType, DataField, scalar_to_internal
from paimon_pyds.base.types.kinds import UNORDERED_KINDS, Kind
from paimon_pyds.engine.query.answer import IndexedFile, Tally
from paimon_pyds.engine.query.top_n_rows import BestRows, SortKey, best_possible, by_best_value, files_that_matter
from paimon_pyds.engine.read import FileTrace, read_file, read_splits, with_filter
from paimon_pyds.engine.read.postponed_rows import WaitingRows
from paimon_pyds.engine.scan.other_branch import nullable_as
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.index.aggregate import ORDERING, IndexedColumn
from paimon_pyds.index.keys import order_codec
from paimon_pyds.index.slices import first_of
from paimon_pyds.metadata.planned_file import ColumnBounds, PlannedFile
from paimon_pyds.metadata.split import ReadSpec, result_schema, sections
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and, make_or
from paimon_pyds.sql.text.order import EXAMPLE, TopN

_POSITION = "__paimon_row_index"
_TRIES = 8
"""Multiples of n of the best rows that are tested by a filter that no index answers, before the file is read."""
_FEW_ROWS = 64
"""Best rows that a file is searched for, at least: fewer save nothing."""
BATCH_ROWS = 65_536
"""Rows read at a time: enough to select the best of them in arrays."""


@dataclass(frozen=True, slots=True)
class TopNQuery:
    """What to find. It pickles, and runs wherever the storage can be reached.

    ``spec`` has the columns to return and the filter; ``fields`` are the sort columns, in the order of ``keys``.
    ``left_out`` is the number of files that statistics have taken off already.
    """

    spec: ReadSpec
    files: tuple[PlannedFile, ...]
    fields: tuple[DataField, ...]
    keys: tuple[SortKey, ...]
    n: int
    left_out: int = 0


def check_order(order: TopN, field_of: Callable[[str], DataField]) -> TopN:
    """The order with the columns' own names.

    Raises:
        SchemaError: a column is not there.
        UnsupportedError: a column of a nested type, VARIANT or BLOB.
        OptionError: no column, a column twice, or a negative number of rows.
    """
    integer("the number of rows of a top_n", order.n)
    if not order.columns or order.n < 0:
        raise OptionError(f"top_n needs a sort column and a number of rows, not {order}", hint=EXAMPLE)
    fields = [field_of(column.name) for column in order.columns]
    for field in fields:
        if not isinstance(field.type, AtomicType) or field.type.kind in UNORDERED_KINDS:
            raise UnsupportedError(f"top_n can't sort by {field.name!r}, of type {field.type}")
    twice = [name for name, times in Counter(field.name for field in fields).items() if times > 1]
    if twice:
        raise OptionError(f"top_n {str(order)!r} sorts by {twice[0]!r} twice")
    return TopN(tuple(replace(c, name=f.name) for c, f in zip(order.columns, fields, strict=True)), order.n)


def make_query(plan: ScanPlan, order: TopN, fields: tuple[DataField, ...], n: int) -> TopNQuery:
    """The query for the first ``n`` rows of a plan; ``fields`` are the sort columns of the order."""
    keys = tuple(SortKey(c, order_codec(f.type)) for c, f in zip(order.columns, fields, strict=True))
    files = files_that_matter(keys[0], plan.files, n)
    return TopNQuery(plan.spec, files, fields, keys, n, len(plan.files) - len(files))


def best_of(tables: Sequence[pa.Table], order: TopN, fields: Sequence[DataField], n: int) -> pa.Table:
    """The first ``n`` rows of tables of the same columns in an order by ``fields``, which are among them."""
    keys = tuple(SortKey(c, order_codec(f.type)) for c, f in zip(order.columns, fields, strict=True))
    best, rows = BestRows(keys, n), pa.concat_tables(tables)
    for number, batch in enumerate(batches := rows.to_batches()):
        values = [key.codec.array(batch.column(field.name)) for key, field in zip(keys, fields, strict=True)]
        best.add(values, number, np.arange(batch.num_rows))
    numbers, positions = best.result()
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    return rows.take(array(starts[numbers] + positions, pa.int64()))


@dataclass(frozen=True, slots=True)
class JoinedTopN:
    """What to find where no one plan has all rows. It pickles.

    ``schema`` has the columns that are read, ``names`` those to return; ``keys`` are the sort columns of the order.
    """

    parts: tuple[TopNQuery | WaitingRows, ...]
    schema: pa.Schema
    names: tuple[str, ...]
    order: TopN
    keys: tuple[DataField, ...]
    n: int

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """The files that may have one of the rows."""
        return tuple(file for part in self.parts for file in part.files)

    def rows(self, tally: Tally) -> pa.Table:
        """The best of what each part gives."""
        best = empty_table(self.schema)
        for part in self.parts:
            if isinstance(part, TopNQuery):
                batches: Iterable[pa.RecordBatch] = run_top_n(part, tally).to_batches()
            else:
                batches = part.batches(BATCH_ROWS, on_file=tally.read)
            for batch in batches:
                one = pa.Table.from_batches([nullable_as(batch, self.schema)], self.schema)
                best = best_of([best, one], self.order, self.keys, self.n)
        return best.select([*self.names])


def run_top_n(query: TopNQuery | JoinedTopN, tally: Tally) -> pa.Table:
    """The rows in order, with the columns of the query.

    Raises:
        CorruptFileError: a data file, an index or a deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
    """
    return query.rows(tally) if isinstance(query, JoinedTopN) else _Run(query, tally).rows()


class _Run:
    def __init__(self, query: TopNQuery, tally: Tally) -> None:
        self._query = query
        self._tally = tally
        self._first = query.keys[0]
        self._one = len(query.keys) == 1
        self._best = BestRows(query.keys, query.n)
        self._unsorted: BitMap | None = None
        self._merged = _MergedRows(query, self._best)

    def rows(self) -> pa.Table:
        self._tally.left_out(self._query.left_out)
        merged = []
        if self._query.n:
            for number in by_best_value(self._first, self._query.files):
                file = self._query.files[number]
                if file.merged:
                    merged.append(file)
                elif self._can_matter(file):
                    self._look_into(number)
                else:
                    self._tally.left_out()
        unknown = [file for file in merged if best_possible(self._first, self._bounds_of(file)) is None]
        for files in (unknown, *sections(merged[len(unknown) :])):  # those not known come first
            if any(map(self._can_matter, files)):
                self._merged.read(files, self._bound(), self._tally)
            else:
                self._tally.left_out(len(files))
        if self._unsorted is not None:
            return self._read_unsorted(_positions(self._unsorted))
        return self._read_as(self._query.spec, *self._best.result())

    def _bounds_of(self, file: PlannedFile) -> ColumnBounds:
        return file.bounds_of(self._first.column.name)

    def _can_matter(self, file: PlannedFile) -> bool:
        possible, worst = best_possible(self._first, self._bounds_of(file)), self._best.worst
        if possible is None or worst is None:
            return True
        return possible.before(worst) if self._one else not worst.before(possible)

    def _look_into(self, number: int) -> None:
        file = IndexedFile(self._query.spec, self._query.files[number])
        column = self._bounds_of(file.file)
        rows = file.rows
        if file.candidates.is_none:
            self._tally.answered(file)
        elif column.constant:
            self._constant(number, file, rows, column)
        else:
            indexes = file.columns(self._query.fields[0], ORDERING)
            if indexes:
                self._by_index(number, file, rows, indexes[0])
            else:
                self._read(number, file)
        file.close()

    def _constant(self, number: int, file: IndexedFile, rows: RowSelection | None, column: ColumnBounds) -> None:
        if rows is None or not self._one:
            self._read(number, file)
            return
        if rows.positions is None:
            positions = np.arange(min(self._query.n, file.file.row_count))
        else:
            positions = _positions(first_of(rows.positions, self._query.n))
        codec = self._first.codec
        if column.low is None:
            keys = pa.nulls(len(positions), codec.array(codec.values([])).type)
        else:
            keys = codec.array(codec.values([column.low])).take(array(np.zeros(len(positions), np.int64)))
        self._best.add([keys], number, positions)
        self._tally.answered(file)

    def _by_index(self, number: int, file: IndexedFile, rows: RowSelection | None, index: IndexedColumn) -> None:
        alone = self._one and self._first.codec.is_index_key
        if rows is not None and alone and len(self._query.files) == 1:
            found = self._found(index, rows.positions, self._query.n, ties=False, keys=False)
            self._unsorted = BitMap().union(*(positions for positions, _ in found))
            self._tally.answered(file)
            return
        if rows is not None and alone:
            for positions, keys in self._found(index, rows.positions, self._query.n, ties=False):
                found = self._first.codec.of_index(keys)
                self._best.add([found], number, _positions(positions))
            self._tally.answered(file)
            return
        some = self._query.n if rows is not None else _TRIES * max(self._query.n, _FEW_ROWS)
        within = file.candidates.positions
        chosen = BitMap()
        for positions, _ in self._found(index, within, some, ties=True):
            chosen |= positions
        if rows is None and len(chosen) > file.candidates.count(file.file.row_count) // 2:
            self._read(number, file)
            return
        kept = self._read(number, file, chosen, narrow=False)
        if rows is None and kept < self._query.n:
            rest = file.candidates.minus(chosen, file.file.row_count).positions
            if rest:
                self._read(number, file, rest)

    def _found(
        self, index: IndexedColumn, rows: BitMap | None, n: int, *, ties: bool, keys: bool = True
    ) -> Iterator[tuple[BitMap, pa.Array | None]]:
        """The ``n`` best rows by an index: those that are NULL, and the others with their index keys."""
        keys = keys and not ties
        largest, nulls_first = self._first.column.descending, self._first.column.nulls_first
        nulls = index.nulls(rows)
        left = n - len(nulls) if nulls_first else n
        values, found = BitMap(), None
        if left > 0:
            values, found = index.best(rows, left, largest=largest, ties=ties, keys=keys)
        missing = n if nulls_first else n - len(values)
        if missing > 0 and nulls:
            some = nulls if ties else first_of(nulls, missing)
            none = self._first.codec.array(self._first.codec.values([])).type
            yield some, pa.nulls(len(some), none) if keys else None
        if values:
            yield values, found

    def _read(self, number: int, file: IndexedFile, chosen: BitMap | None = None, *, narrow: bool = True) -> int:
        """Read the sort columns of a file, at some positions or all that may match; how many rows passed the filter.

        ``narrow``: those that come after the worst row so far may be left out, and are not counted then.
        """
        rows = file.candidates if chosen is None else RowSelection(chosen)
        one = file.file.selecting(rows)
        trace = FileTrace(one.path, one.row_count)
        kept = 0
        for batch in read_file(self._sort_spec(file, narrow), one, batch_rows=BATCH_ROWS, trace=trace):
            kept += batch.num_rows
            keys = [key.codec.array(batch.column(i)) for i, key in enumerate(self._query.keys)]
            self._best.add(keys, number, to_numpy(batch.column(len(keys))))
        self._tally.count_bytes_of(file)
        self._tally.read(trace)
        return kept

    def _sort_spec(self, file: IndexedFile, narrow: bool) -> ReadSpec:
        spec, fields = self._query.spec, self._query.fields
        predicate = Const.TRUE if file.rows is not None else spec.predicate
        filter_fields = () if predicate is Const.TRUE else spec.filter_fields
        bound = self._bound() if narrow else Const.TRUE
        if bound is not Const.TRUE:
            predicate = make_and(predicate, bound)
            filter_fields = tuple(dict.fromkeys((*filter_fields, fields[0])))
        return replace(
            spec,
            fields=fields,
            filter_fields=filter_fields,
            predicate=predicate,
            metadata_columns=(_POSITION,),
            use_index=False,
        )

    def _bound(self) -> Predicate:
        """The condition on the first sort column of rows that come before the n-th best row so far, or tie with it."""
        worst, field = self._best.worst, self._query.fields[0]
        if worst is None or worst.key is None or field.type.kind is Kind.BOOLEAN:
            return Const.TRUE
        literal = scalar_to_internal(self._first.codec.values([worst.key])[0])
        if isinstance(literal, float) and math.isnan(literal):
            literal = math.nan
        column = ColumnRef(field.name, (), field.type, field.id)
        reaches = Leaf(Op.GE if worst.column.descending else Op.LE, column, (literal,))
        return make_or(reaches, Leaf(Op.IS_NULL, column)) if worst.column.nulls_first else reaches

    def _read_unsorted(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """All columns of these rows of the only file, sorted by what is read."""
        spec, (field,) = self._query.spec, self._query.fields
        wanted = result_schema(spec).names
        if field.name not in wanted:
            spec = replace(spec, fields=(*spec.fields, field))
        table = self._read_as(spec, np.zeros(len(rows), np.int64), rows)
        keys = [self._first.codec.array(chunk) for chunk in table.column(field.name).chunks]
        starts = np.cumsum([0, *map(len, keys)])
        for start, part in zip(starts, keys, strict=False):
            self._best.add([part], 0, np.arange(start, start + len(part)))
        return table.take(array(self._best.result()[1])).select(wanted)

    def _read_as(self, spec: ReadSpec, files: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> pa.Table:
        """All columns of the chosen rows, in the order given."""
        spec = replace(spec, predicate=Const.TRUE, filter_fields=(), use_index=False)
        schema = result_schema(spec)
        tasks = [
            self._query.files[number].selecting(RowSelection.of(rows[files == number].astype(np.uint32)))
            for number in np.unique(files).tolist()
            if number != self._merged.number
        ]
        threads = os.cpu_count() or 1
        batches = read_splits(spec, tasks, BATCH_ROWS, threads=threads, on_file=self._tally.read)
        table = pa.Table.from_batches(batches, schema=schema)
        if len(merged := np.sort(rows[files == self._merged.number])):
            table = pa.concat_tables([table, self._merged.at(merged).cast(schema)])
        in_file_order = np.lexsort((rows, files))
        return table.take(array(np.argsort(in_file_order)))


class _MergedRows:
    """Rows of sections that were merged, of which those are held that may be among the best. ``number``: what they have
    for the number of a file; it is after those of all files."""

    def __init__(self, query: TopNQuery, best: BestRows) -> None:
        self.number = len(query.files)
        self._query = query
        self._best = best
        self._parts: list[pa.Table] = []
        self._positions: list[npt.NDArray[np.int64]] = []
        self._seen = 0
        self._held = 0
        self._prune_at = 2 * BATCH_ROWS

    def read(self, files: Sequence[PlannedFile], bound: Predicate, tally: Tally) -> None:
        """Take the rows of whole sections in; those for which ``bound`` is not true may be left out."""
        spec = self._query.spec
        more = tuple(field for field in self._query.fields if field not in spec.fields)
        spec = replace(with_filter(spec, make_and(spec.predicate, bound)), fields=(*spec.fields, *more))
        at = [spec.fields.index(field) for field in self._query.fields]
        returned = [i for i in range(len(result_schema(spec))) if not 0 <= i - len(self._query.spec.fields) < len(more)]
        for batch in read_splits(spec, files, BATCH_ROWS, threads=os.cpu_count() or 1, on_file=tally.read):
            keys = [key.codec.array(batch.column(i)) for i, key in zip(at, self._query.keys, strict=True)]
            rows = np.arange(self._seen, self._seen + batch.num_rows)
            entered = self._best.add(keys, self.number, rows)
            if len(entered):
                kept = pa.Table.from_batches([batch]).select(returned).take(array(entered - self._seen))
                self._hold(kept, entered)
            self._seen += batch.num_rows

    def _hold(self, rows: pa.Table, positions: npt.NDArray[np.int64]) -> None:
        self._parts.append(rows)
        self._positions.append(positions)
        self._held += len(positions)
        if self._held >= self._prune_at:
            files, best = self._best.result()
            left = np.sort(best[files == self.number])
            self._parts, self._positions = [self.at(left)], [left]
            self._held = len(left)
            self._prune_at = 2 * max(BATCH_ROWS, self._held)

    def at(self, positions: npt.NDArray[np.int64]) -> pa.Table:
        """The rows at some positions, which ascend."""
        held = np.concatenate(self._positions)
        return pa.concat_tables(self._parts).take(array(np.searchsorted(held, positions)))


def _positions(rows: BitMap) -> npt.NDArray[np.int64]:
    return np.asarray(rows.to_array(), np.int64)
