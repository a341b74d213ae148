"""The rows of a table that are nearest to a vector, or match a text best.

Distances are always those of the stored vectors: indexes only say which rows to look at. Rows that no index covers,
that were written since, or in whose part of the table an index found too few, are all looked at; so are all rows
without an index or its package. The score of a text (BM25) depends on the other texts of its index; rows without one
are scored with an index that is made of them, some at a time.

Memory holds the best rows so far, by row id where the table has them: their other columns are read at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, empty_table, from_numpy, is_true, to_numpy
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, Kind, VectorType, arrow_schema, arrow_type
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.base.types.vectors import matrix_of
from paimon_pyds.engine.read import read_splits
from paimon_pyds.engine.scan.global_index import index_of
from paimon_pyds.engine.scan.plan import Planner, plan_scan
from paimon_pyds.engine.scan.planned_files import deletion_files
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.searched_ranges import IndexedRange, searched_ranges
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.index.global_index.search_file import (
    FULL_TEXT,
    METRICS,
    VECTOR_TYPES,
    Hits,
    Wanted,
    best_of_texts,
    best_texts,
    has_package,
    metric_of,
    nearest,
    package,
    read_text_options,
    text_options,
    text_query,
    vector_metric,
)
from paimon_pyds.metadata.row_ids import ROW_ID, ROW_ID_FIELDS
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.disjunction import or_of_ranges
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Predicate, make_and

SCORE = "__paimon_search_score"
"""The column of scores, as Java Paimon names it."""
_BATCH_ROWS = 65_536
_VALUES_AT_ONCE = 1 << 20
"""Elements of vectors that are compared at a time."""
_TEXT_BYTES, _TEXT_ROWS = 64 << 20, 1 << 20
"""Rows without an index that are scored together."""
_ROW_ID_COLUMN = ColumnRef(ROW_ID, type=ROW_ID_FIELDS[0].type, field_id=ROW_ID_FIELDS[0].id)
_ALL_IDS = or_of_ranges(_ROW_ID_COLUMN, [(0, (1 << 63) - 1)])
Scores: TypeAlias = npt.NDArray[np.float64]
Ranges: TypeAlias = Sequence[tuple[int, int]]


class Found(NamedTuple):
    """What indexes say: their own best rows, and the row ids of those that have to be looked at; None for all."""

    hits: Sequence[Hits]
    rest: Ranges | None


class Question(Protocol):
    """A search of one column: for a vector, or for a text."""

    @property
    def field(self) -> DataField: ...

    @property
    def types(self) -> Sequence[str]:
        """The types of index that help, the best first."""

    def ask(self, ranges: Sequence[tuple[IndexedRange, Int64s | None]], rest: Ranges, k: int) -> Found:
        """The best ``k`` rows of each index. ``ranges``: indexes, and which rows of each count."""

    def scored(self, batches: Iterator[pa.RecordBatch], k: int) -> Iterator[tuple[Scores, pa.RecordBatch]]:
        """Batches with the scores of their rows; NaN for a row that has none. The column comes first in them."""


@dataclass(slots=True)
class Nearest:
    """The nearest rows to a vector. ``metric``: None for that of the index, or else of the table's ``options``."""

    field: DataField
    vector: Scores
    metric: str | None
    options: Mapping[str, str]

    @property
    def types(self) -> Sequence[str]:
        return VECTOR_TYPES

    def ask(self, ranges: Sequence[tuple[IndexedRange, Int64s | None]], rest: Ranges, k: int) -> Found:
        left = list(rest)
        if self.metric is None and ranges:
            first, _ = ranges[0]
            self.metric = vector_metric(first.entry.index_type, first.source)
        wanted = Wanted(self.vector, self._metric, k)
        for of, among in ranges:
            found = nearest(of.entry.index_type, of.source, wanted, of.rows, among)
            left += [(of.first, of.last)] if found is None else [(row, row) for row in (found + of.first).tolist()]
        return Found((), left)

    @property
    def _metric(self) -> str:
        return self.metric or metric_of(self.field.name, self.options)

    def scored(self, batches: Iterator[pa.RecordBatch], k: int) -> Iterator[tuple[Scores, pa.RecordBatch]]:
        size = len(self.vector)
        for batch in batches:
            values = batch.column(0)
            there = is_true(values.is_valid())
            scores = np.full(batch.num_rows, np.nan)
            scores[there] = similarity(matrix_of(values, self.field.type, size), self.vector, self._metric)
            yield scores, batch


def similarity(stored: npt.NDArray[Any], vector: Scores, metric: str) -> Scores:
    """The scores of vectors, rows of a matrix, as Java Paimon has them: more is nearer."""
    step = max(1, _VALUES_AT_ONCE // len(vector))
    parts = [np.zeros(0)]
    with np.errstate(all="ignore"):  # elements may be infinite, or NaN
        for start in range(0, len(stored), step):
            block = stored[start : start + step].astype(np.float64)
            if metric == "l2":
                parts.append(1 / (1 + np.square(block - vector).sum(axis=1)))
                continue
            products = (block * vector).sum(axis=1)
            if metric == "cosine":
                lengths = np.sqrt(np.square(block).sum(axis=1)) * np.sqrt(np.square(vector).sum())
                products = np.where(lengths == 0, 0.0, products / lengths)
            parts.append(products)
    return np.concatenate(parts)


@dataclass(slots=True)
class Matching:
    """The rows that match a text best. ``query``: as `text_query` gives it. ``options``: of the index."""

    field: DataField
    query: str
    options: Mapping[str, str]

    @property
    def types(self) -> Sequence[str]:
        return (FULL_TEXT,)

    def ask(self, ranges: Sequence[tuple[IndexedRange, Int64s | None]], rest: Ranges, k: int) -> Found:
        found = []
        for of, among in ranges:
            self.options = read_text_options(index_of(of.entry).index_meta)
            if among is None or len(among):
                hits = best_texts(of.source, self.query, k, of.rows, among)
                found.append(Hits(hits.rows + of.first, hits.scores))
        return Found(found, rest)

    def scored(self, batches: Iterator[pa.RecordBatch], k: int) -> Iterator[tuple[Scores, pa.RecordBatch]]:
        for batch in _together(batches):
            hits = best_of_texts(batch.column(0), self.query, k, self.options)
            yield hits.scores, batch.take(from_numpy(hits.rows))


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Larger batches of the same rows."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(b.nbytes for b in some) >= _TEXT_BYTES or sum(b.num_rows for b in some) >= _TEXT_ROWS:
            yield pa.concat_batches(some)
            some = []
    if some:
        yield pa.concat_batches(some)


def vector_question(
    field: DataField, vector: Sequence[float], metric: str | None, options: Mapping[str, str]
) -> Nearest:
    """What looks for the nearest rows.

    Raises:
        OptionError: a vector of another length, or with NaN in it; no such metric.
        UnsupportedError: the column has no vectors of FLOAT or DOUBLE.
    """
    type_ = field.type
    if not isinstance(type_, VectorType | ArrayType) or type_.element.with_nullable(True) not in _FLOATS:
        raise UnsupportedError(
            f"column {field.name!r} of type {type_} can't be searched for vectors",
            hint="a column of VECTOR<FLOAT, n> can, or of DOUBLE, or an ARRAY of them",
        )
    wanted = np.asarray(vector, arrow_type(type_.element).to_pandas_dtype()).astype(np.float64)
    size = type_.length if isinstance(type_, VectorType) else wanted.size
    if wanted.ndim != 1 or len(wanted) != size or not size or not np.isfinite(wanted).all():
        raise OptionError(
            f"column {field.name!r} is searched by {size or 'some'} finite numbers, not by {vector!r:.60}"
        )
    if metric is not None and metric not in METRICS:
        raise OptionError(f"metric must be one of {', '.join(METRICS)}, it is {metric!r}")
    if (known := metric_of(field.name, options)) not in METRICS:
        raise OptionError(f"an option names the metric {known!r} for column {field.name!r}: not one of {METRICS}")
    return Nearest(field, wanted, metric, options)


_FLOATS = (AtomicType(Kind.FLOAT), AtomicType(Kind.DOUBLE))


def text_question(field: DataField, query: str | Mapping[str, Any], options: Mapping[str, str]) -> Matching:
    """What looks for the rows that match a text best.

    Raises UnsupportedError: the column has no texts, or the package is not installed."""
    if not isinstance(field.type, AtomicType) or field.type.kind not in STRING_KINDS:
        raise UnsupportedError(f"column {field.name!r} of type {field.type} can't be searched for texts")
    package(FULL_TEXT)
    return Matching(field, text_query(query), text_options(options))


def search(store: TableStore, request: ScanRequest, question: Question, k: int, *, exact: bool) -> pa.Table:
    """The best ``k`` rows that the filter of a request keeps, the best first: its columns, row ids, and `SCORE`.
    Rows of one score come in the order of their ids, or else of the table. ``exact``: use no index.

    Raises:
        CorruptFileError: an index or a data file is damaged.
        OptionError: this is no query.
        StorageError: a file can't be read.
    """
    return _Search(store, request, question, k).run(exact=exact)


class _Search:
    def __init__(self, store: TableStore, request: ScanRequest, question: Question, k: int) -> None:
        self.store, self.request, self.question, self.k = store, request, question, k
        self.metadata = request.metadata_columns
        self.entries: pa.RecordBatch | None = None
        self.by_id = False
        if request.options.get("row-tracking.enabled"):
            if ROW_ID not in self.metadata:
                self.metadata = (*self.metadata, ROW_ID)
            self.planner = Planner(store, replace(request, predicate=make_and(request.predicate, _ALL_IDS)))
            self.entries = self.planner.entries()
            self.by_id = self.entries.column("first_row_id").null_count == 0
        self.names = [*(field.name for field in request.fields), *self.metadata]
        self.best = _Best(k, self.schema((), (ROW_ID,)) if self.by_id else self.schema(request.fields, self.metadata))

    def run(self, *, exact: bool) -> pa.Table:
        found = Found((), None) if exact else self.ask()
        for hits in found.hits:
            self.best.add(hits.scores, pa.record_batch([from_numpy(hits.rows)], [ROW_ID]))
        wanted = Const.TRUE if found.rest is None else or_of_ranges(_ROW_ID_COLUMN, found.rest)
        fields, metadata = ((), (ROW_ID,)) if self.by_id else (self.request.fields, self.metadata)
        own = [field for field in fields if field != self.question.field]
        batches = self.read(make_and(self.request.predicate, wanted), (self.question.field, *own), metadata)
        for scores, batch in self.question.scored(batches, self.k):
            self.best.add(scores, batch)
        rows = self.best.rows
        if self.by_id:
            rows = self.rows_of(to_numpy(rows.column(ROW_ID)))
        return rows.select(self.names).append_column(SCORE, array(self.best.scores, pa.float32()))

    def ask(self) -> Found:
        """Ask the indexes of the column."""
        question, request = self.question, self.request
        usable = self.by_id and self.planner.grouped is not None and request.options.get("global-index.enabled")
        if not usable or not has_package(question.types[0]):
            return Found((), None)
        assert self.entries is not None
        ranges, rest = searched_ranges(self.planner, self.entries, question.field.id, question.types)
        if not ranges:
            return Found((), None)
        matching = None
        if request.predicate is not Const.TRUE or deletion_files(
            self.store, request.state.schema, request.state.snapshot
        ):
            within = or_of_ranges(_ROW_ID_COLUMN, [(of.first, of.last) for of in ranges])
            batches = self.read(make_and(request.predicate, within), (), (ROW_ID,))
            found = [to_numpy(batch.column(0)) for batch in batches]
            matching = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
        return question.ask([(of, of.among(matching)) for of in ranges], rest, self.k)

    def rows_of(self, ids: Int64s) -> pa.Table:
        """The columns of rows by their ids, in this order."""
        wanted = or_of_ranges(_ROW_ID_COLUMN, [(id_, id_) for id_ in ids.tolist()])
        metadata = (*(name for name in self.metadata if name != ROW_ID), ROW_ID)
        batches = list(self.read(wanted, self.request.fields, metadata))
        rows = pa.Table.from_batches(batches, self.schema(self.request.fields, metadata))
        there = to_numpy(rows.column(ROW_ID))
        order = np.argsort(there)
        return rows.take(from_numpy(order[np.searchsorted(there[order], ids)]))

    def schema(self, fields: Sequence[DataField], metadata: Sequence[str]) -> pa.Schema:
        return arrow_schema([*fields, *(METADATA_FIELDS[name] for name in metadata)])

    def read(
        self, predicate: Predicate, fields: Sequence[DataField], metadata: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        if predicate in (Const.FALSE, Const.UNKNOWN):
            return
        request = replace(self.request, predicate=predicate, fields=tuple(fields), metadata_columns=tuple(metadata))
        plan = plan_scan(self.store, request)
        yield from read_splits(plan.spec, plan.files, _BATCH_ROWS, threads=os.cpu_count() or 1)


class _Best:
    """The best rows so far, in order; those of one score in that of their ids, where the rows are ids alone."""

    def __init__(self, k: int, schema: pa.Schema) -> None:
        self.k = k
        self.scores: Scores = np.zeros(0)
        self.rows = empty_table(schema)

    def add(self, scores: Scores, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch that are good enough. NaN is no score."""
        keep = ~np.isnan(scores)
        if len(self.scores) == self.k:
            keep &= scores >= self.scores[-1]
        places = np.flatnonzero(keep)
        names = self.rows.schema.names
        some = batch.select(names).take(from_numpy(places))
        rows = pa.concat_tables([self.rows, pa.Table.from_arrays(some.columns, schema=self.rows.schema)])
        found = np.concatenate([self.scores, scores[places]])
        ties = to_numpy(rows.column(ROW_ID)) if names == [ROW_ID] else np.arange(len(found))
        order = np.lexsort((ties, -found))[: self.k]
        self.scores, self.rows = found[order], rows.take(from_numpy(order)).combine_chunks()
