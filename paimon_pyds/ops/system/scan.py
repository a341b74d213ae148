"""A query on a system table: some of its columns, a filter, a limit, read as a stream of batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from paimon_pyds.base.arrays import array, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options.option import integer, texts
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.text import names_text, one_line
from paimon_pyds.base.types import DataField, arrow_schema, column_named
from paimon_pyds.engine.scan.travel import TableState, stored_state
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.expression.condition import bind_filter
from paimon_pyds.sql.predicate.argument import condition
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const, Predicate, conjuncts, make_and, root_columns
from paimon_pyds.typing import Filter

T = TypeVar("T")

BATCH_ROWS = 4096
"""Rows of a batch at most: those of `files` have long texts."""


@dataclass(frozen=True)
class Request:
    """A read of a system table.

    Attributes:
        columns: names of those that the result or the filter needs.
        predicate: bound to the table's columns.
        options: Paimon's scan options, which may name a state of the table.
    """

    columns: frozenset[str]
    predicate: Predicate = Const.TRUE
    options: Mapping[str, str] = field(default_factory=dict)

    def state(self, store: TableStore) -> TableState:
        """The state of the table that is read."""
        return stored_state(store, self.options)

    def about(self, columns: Iterable[str]) -> Predicate:
        """The part of the filter that these columns decide."""
        known = frozenset(columns)
        return make_and(*(part for part in conjuncts(self.predicate) if known.issuperset(root_columns(part))))

    def kept(self, column: DataField, values: Sequence[T]) -> list[T]:
        """Those values of one column that the filter may keep."""
        predicate = self.about([column.name])
        if predicate is Const.TRUE:
            return list(values)
        mask = matches(predicate, pa.record_batch([array(values, arrow_schema([column]).field(0).type)], [column.name]))
        return [value for value, keep in zip(values, mask.to_pylist(), strict=True) if keep]


Read = Callable[[Request], Iterator[pa.RecordBatch]]


class SystemScan(RowStream):
    """A query on a system table.

    ``fields``: the columns of the table. ``read``: gives batches that have the columns of a request, in any order, and
    all rows that match its filter. ``split``: gives what reads a part of all that ``read`` gives, and pickles.

    Raises:
        UnknownColumnError: a name of no column.
        PredicateError: the condition does not parse, or mixes types.
        OptionError: a limit below 0.
    """

    def __init__(
        self,
        fields: Sequence[DataField],
        read: Read,
        options: Mapping[str, str] | None = None,
        *,
        split: Callable[[Request], Sequence[Read]] | None = None,
    ) -> None:
        self.table_fields = tuple(fields)
        self._fields = self.table_fields
        self._read = read
        self._split = split
        self._options = dict(options or {})
        self._predicate: Predicate = Const.TRUE
        self._limit: int | None = None

    def narrowed(self, filter_: Filter, columns: Sequence[str] | None, limit: int | None) -> SystemScan:
        """The same with a filter, some of the columns, and a number of rows at most; None leaves each as it is."""
        if columns is not None:
            names = texts("columns", columns)
            self._fields = tuple(column_named(name, self.table_fields, "the system table") for name in names)
        if filter_ is not None and str(condition("where", filter_)).strip():
            fields, zone = self.table_fields, zone_given(self._options)
            if isinstance(filter_, str):
                self._predicate = bind_filter(filter_, fields, timezone=zone)
            else:
                self._predicate = bind(filter_, fields, timezone=zone)
        if limit is not None and integer("limit", limit) < 0:
            raise OptionError(f"limit must not be negative, it is {limit}")
        self._limit = limit
        return self

    def __repr__(self) -> str:
        return one_line(self, f"columns [{names_text([f.name for f in self._fields])}]")

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self._fields)

    @property
    def _request(self) -> Request:
        columns = (*(f.name for f in self._fields), *root_columns(self._predicate))
        return Request(frozenset(columns), self._predicate, self._options)

    def in_parts(self) -> list[SystemScan]:
        """The same rows in parts that pickle, for several machines; none where one has to read all."""
        if self._split is None or self._limit is not None or self._predicate in (Const.FALSE, Const.UNKNOWN):
            return []
        parts = []
        for read in self._split(self._request):
            parts.append(part := copy.copy(self))
            part._read, part._split = read, None
        return parts

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        if self._predicate in (Const.FALSE, Const.UNKNOWN) or left == 0:
            return
        names = [f.name for f in self._fields]
        for batch in self._read(self._request):
            rows = batch if self._predicate is Const.TRUE else batch.filter(matches(self._predicate, batch))
            rows = rows if left is None else rows.slice(0, left)
            if rows.num_rows:
                columns = [rows.column(name) for name in names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
            if left is not None:
                left -= rows.num_rows
                if left == 0:
                    return


def batches_of(
    fields: Sequence[DataField], request: Request, rows: Iterable[Sequence[Any]]
) -> Iterator[pa.RecordBatch]:
    """Rows of Python values as batches of the columns of a request."""
    types = arrow_schema(fields)
    wanted = [(i, f) for i, f in enumerate(types) if f.name in request.columns]
    held: list[Sequence[Any]] = []

    def batch() -> pa.RecordBatch:
        arrays = [array([row[i] for row in held], f.type) for i, f in wanted]
        return pa.RecordBatch.from_arrays(arrays, names=[f.name for _, f in wanted])

    for row in rows:
        held.append(row)
        if len(held) == BATCH_ROWS:
            yield batch()
            held = []
    if held:
        yield batch()


def slices(entries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Entries, some at a time."""
    return (entries.slice(at, BATCH_ROWS) for at in range(0, entries.num_rows, BATCH_ROWS))


def matching_entries(request: Request, entries: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The entries that the part of the filter may keep which these columns of the system table decide.

    ``request``: its filter. ``entries``: of manifests. ``columns``: by their names in the system table, a value for
    each entry.
    """
    predicate = request.about(columns)
    if predicate is Const.TRUE:
        return entries
    mask = matches(predicate, pa.record_batch(list(columns.values()), list(columns)))
    return entries if bool(to_numpy(mask).all()) else entries.filter(mask)
