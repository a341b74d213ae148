"""Which rows of a file may match a predicate, by the statistics of its row groups and pages.

The predicate is evaluated by `predicate.prune`, first on the row groups; then, for those that are left, each test on
the pages of its own column, and the rows of the pages are joined by AND and OR. The result is a superset of the
matches.

Source: apache/parquet-format, parquet.thrift (Statistics, ColumnIndex, ColumnOrder) and LogicalTypes.md. Bounds may be
shortened by their writer, outwards: they bound the values and need not occur among them. Bounds of floating-point
columns leave NaN out. Bounds that are missing, contradictory or of an undefined order count as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Flags, array, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import AtomicType, DataField, DataType, arrow_type, scalar_to_internal, timestamp_unit
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.format.parquet.footer import Chunk, Leaf
from paimon_pyds.format.parquet.page_index import ColumnIndex, listed
from paimon_pyds.format.parquet.source import ParquetSource
from paimon_pyds.format.parquet.thrift import BINARY, I32, I64, STRUCT, Struct
from paimon_pyds.sql.predicate.prune import ColumnStats, StatisticsEvaluation, may_match
from paimon_pyds.sql.predicate.tree import Among, And, ColumnRef, Const, Op, Or, Predicate, make_and, tested_columns
from paimon_pyds.sql.predicate.tree import Leaf as Condition

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.variant_parts import PartTest

_FEW_ROWS = 64
"""Rows of a row group below which reading their pages costs less than reading the page index."""
_MOST_OF_A_GROUP = 0.8
"""Share of a row group's rows above which all of them are selected: it is decoded whole anyway."""
_MOST_ROWS = 1 << 32
"""Rows that a selection can count, in 32 bits."""

_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES, _FIXED = 0, 1, 2, 4, 5, 6, 7
_DTYPES = {_BOOLEAN: "u1", _INT32: "<i4", _INT64: "<i8", _FLOAT: "<f4", _DOUBLE: "<f8"}
_SIGNED_CONVERTED = frozenset({None, 15, 16, 17, 18})
"""Converted types of INTEGER columns: none, or INT_8 to INT_64; the unsigned ones order differently."""
_DATE, _TIME_MILLIS = 6, 7
_TIMESTAMP_UNITS = {1: "ms", 2: "us", 3: "ns"}
_TIMESTAMP_CONVERTED = {9: "ms", 10: "us"}


def prune(source: ParquetSource, predicate: Predicate, within: RowSelection) -> RowSelection:
    """Rows that may match; ALL when nothing can be said. ``within``: rows that matter at all."""
    footer = source.footer
    if footer.row_count > _MOST_ROWS:  # a selection counts in 32 bits
        return RowSelection.ALL
    columns = _columns_with_statistics(source, predicate)
    if not columns and not isinstance(predicate, Const):
        return RowSelection.ALL
    return _pruned(source, predicate, columns, within)


def prune_parts(source: ParquetSource, tests: Sequence[PartTest], within: RowSelection) -> RowSelection:
    """Rows that may pass comparisons of parts of VARIANT columns, whose ``column`` is the file's. ``within``: as of
    `prune`."""
    from paimon_pyds.format.parquet.variant_parts import part_column

    footer = source.footer
    selection = within if footer.row_count <= _MOST_ROWS else RowSelection.ALL
    for test in tests if footer.row_count <= _MOST_ROWS else ():
        numbers = footer.columns.get(test.column, ())
        leaf = part_column(footer, [footer.leaves[n] for n in numbers], test.path) if len(numbers) > 1 else None
        if leaf is not None and orders_values(leaf, test.leaf.column.type):
            selection = selection & _pruned(source, test.leaf, {test.leaf.column: leaf}, selection)
    return selection


def _pruned(
    source: ParquetSource, predicate: Predicate, columns: dict[ColumnRef, Leaf], within: RowSelection
) -> RowSelection:
    footer = source.footer
    filled = [(g, start, stop) for g, (start, stop) in enumerate(footer.groups) if start < stop]
    kept = _prune_groups(source, predicate, columns, [g for g, _, _ in filled])
    alive = [bounds for bounds, keep in zip(filled, kept.tolist(), strict=True) if keep]
    fine = [b for b in alive if within.is_all or within.window(b[1], b[2]).count(b[2] - b[1]) >= _FEW_ROWS]
    by_pages = _prune_pages(source, predicate, columns, fine)
    rows, whole = BitMap(), len(alive) == len(filled)
    for group, start, stop in alive:
        inside = by_pages & BitMap(range(start, stop)) if (group, start, stop) in fine else None
        if inside is None or len(inside) > (stop - start) * _MOST_OF_A_GROUP:
            rows.add_range(start, stop)
        else:
            rows |= inside
            whole = False
    return RowSelection.ALL if whole else RowSelection(rows)


def _columns_with_statistics(source: ParquetSource, predicate: Predicate) -> dict[ColumnRef, Leaf]:
    """The predicate's columns whose statistics say something."""
    footer = source.footer
    found: dict[ColumnRef, Leaf] = {}
    for column, ops in tested_columns(predicate).items():
        numbers = footer.columns.get(column.name)
        if numbers is None or column.path or column.type is None or len(numbers) != 1:
            continue
        leaf = footer.leaves[numbers[0]]
        if leaf.flat and (orders_values(leaf, column.type) or not ops.isdisjoint((Op.IS_NULL, Op.IS_NOT_NULL))):
            found[column] = leaf
    return found


def _prune_groups(
    source: ParquetSource, predicate: Predicate, columns: dict[ColumnRef, Leaf], groups: Sequence[int]
) -> Flags:
    footer = source.footer

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        leaf = columns.get(column)
        if leaf is None:
            return None
        return column_stats(leaf, column.type, _chunk_bounds(leaf, [footer.chunk(g, leaf.index) for g in groups]))

    rows = array([footer.groups[g][1] - footer.groups[g][0] for g in groups], pa.int64())
    return may_match(predicate, rows, stats_of)


def _prune_pages(
    source: ParquetSource, predicate: Predicate, columns: dict[ColumnRef, Leaf], groups: Sequence[tuple[int, int, int]]
) -> BitMap:
    everything = BitMap()
    for _, start, stop in groups:
        everything.add_range(start, stop)
    indexes = source.bounds((g, leaf.index) for g, _, _ in groups for leaf in columns.values())
    if not any((g, leaf.index) in indexes for g, _, _ in groups for leaf in columns.values()):
        return everything

    pages = {column: _pages(source, column, leaf, groups) for column, leaf in columns.items()}

    def rows_of(part: Predicate, among: BitMap) -> BitMap:
        """Those of some rows that a part may keep."""
        part = _on_columns(part)
        if isinstance(part, Or) and part.ranges is not None and part.ranges.column in pages:
            return among & pages[part.ranges.column].rows_of(part)
        if (column := _column_of(part)) is not None:
            return among & pages[column].rows_of(part) if column in pages else among
        if isinstance(part, And):
            for child in _by_column(part):
                among = rows_of(child, among)
                if not among:
                    break
            return among
        if isinstance(part, Or):
            found = BitMap()
            for child in part.children:
                found |= rows_of(child, among)
                if len(found) == len(among):
                    break  # very many conditions keep all of few pages soon
            return found
        return BitMap() if part in (Const.FALSE, Const.UNKNOWN) else among

    return rows_of(predicate, everything)


def _on_columns(part: Predicate) -> Predicate:
    """Rows that are looked for as conditions on single columns."""
    if not isinstance(part, Among):
        return part
    from paimon_pyds.sql.predicate.among import by_column

    return by_column(part)


def _column_of(part: Predicate) -> ColumnRef | None:
    """The only column of a test, or of tests that are joined by AND."""
    tests = part.children if isinstance(part, And) else (part,)
    if isinstance(part, Among):
        return part.columns[0] if len(part.columns) == 1 else None
    columns = {test.column if isinstance(test, Condition) else None for test in tests}
    return columns.pop() if len(columns) == 1 else None


def _by_column(part: And) -> list[Predicate]:
    """The parts of an AND, with all tests of a column as one: some rule out the NaN that others must reckon with."""
    joined: dict[ColumnRef | int, list[Predicate]] = {}
    for number, child in enumerate(part.children):
        joined.setdefault(child.column if isinstance(child, Condition) else number, []).append(child)
    return [make_and(*tests) for tests in joined.values()]


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of one column in some row groups: what their statistics say, where they start and stop."""

    statistics: StatisticsEvaluation
    starts: list[int]
    stops: list[int]

    def rows_of(self, test: Predicate) -> BitMap:
        """The rows in pages where a test of the column may be true."""
        mask = self.statistics.may(test)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
        kept = BitMap()
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            kept.add_range(self.starts[low], self.stops[high - 1])
        return kept


def _pages(source: ParquetSource, column: ColumnRef, leaf: Leaf, groups: Sequence[tuple[int, int, int]]) -> _Pages:
    """The pages of a column; a chunk without page index counts as one page."""
    tables, indexes = source.tables(()), source.bounds(())
    bounds = RawBounds([], [], [], [])
    starts: list[int] = []
    for group, start, stop in groups:
        index = indexes.get((group, leaf.index))
        if index is None:
            starts.append(start)
            bounds.extend(RawBounds([None], [None], [-1], [stop - start]))
            continue
        first_rows = (tables[group, leaf.index].first_rows + start).tolist()
        starts += first_rows[:-1]
        bounds.extend(page_bounds(leaf, index, [b - a for a, b in pairwise(first_rows)]))
    stops = [start + rows for start, rows in zip(starts, bounds.rows, strict=True)]
    stats = column_stats(leaf, column.type, bounds)
    return _Pages(StatisticsEvaluation(stats.row_count, lambda _: stats), starts, stops)


def integer_bounds(source: ParquetSource, field: DataField) -> tuple[int, int] | None:
    """See `FormatReader.bounds`."""
    footer, kind = source.footer, field.type.kind
    filled = [group for group, (start, stop) in enumerate(footer.groups) if start < stop]
    own = [footer.leaves[number] for number in footer.columns.get(field.name, ())]
    if not filled or len(own) != 1 or kind not in INTEGER_KINDS or not orders_values(own[0], field.type):
        return None
    (leaf,) = own
    bounds = _chunk_bounds(leaf, [footer.chunk(group, leaf.index) for group in filled])
    (low, has_low), (high, has_high) = (_numbers(ends, leaf.physical) for ends in (bounds.low, bounds.high))
    return (int(low.min()), int(high.max())) if has_low.all() and has_high.all() else None


def file_statistics(source: ParquetSource, field: DataField) -> tuple[Any, Any, int | None]:
    """The least and the greatest value of a column in the file and its number of NULLs: internal values, None where
    not known. Bounds that their writer shortened are not known, nor are those of floats, which leave NaN out."""
    footer, own = source.footer, source.footer.columns.get(field.name, ())
    filled = [group for group, (start, stop) in enumerate(footer.groups) if start < stop]
    if len(own) != 1 or not footer.leaves[own[0]].flat:
        return None, None, None
    leaf = footer.leaves[own[0]]
    chunks = [footer.chunk(group, leaf.index) for group in filled]
    stats = column_stats(leaf, field.type, _chunk_bounds(leaf, chunks))
    nulls = None if stats.null_count.null_count else pc.sum(stats.null_count, min_count=0).as_py()
    shortened = any((chunk.statistics or {}).get(i, (0, True))[1] is False for chunk in chunks for i in (7, 8))
    valued = pc.fill_null(pc.less(stats.null_count, stats.row_count), True)
    unknown = array(stats.unknown if stats.unknown is not None else np.ones(len(chunks), np.bool_))
    if shortened or field.type.kind in FLOAT_KINDS or pc.any(pc.and_(valued, unknown)).as_py():
        return None, None, nulls
    low, high = pc.min_max(stats.min.filter(valued))["min"], pc.min_max(stats.max.filter(valued))["max"]
    return scalar_to_internal(low), scalar_to_internal(high), nulls


@dataclass(frozen=True, slots=True)
class RawBounds:
    """Per row group or page: bounds in Parquet's plain encoding (None if missing), NULLs (-1 if not counted), rows."""

    low: list[bytes | None]
    high: list[bytes | None]
    nulls: list[int]
    rows: list[int]

    def extend(self, other: RawBounds) -> None:
        self.low.extend(other.low)
        self.high.extend(other.high)
        self.nulls.extend(other.nulls)
        self.rows.extend(other.rows)

    def part(self, some: slice) -> RawBounds:
        """Those of some row groups or pages."""
        return RawBounds(self.low[some], self.high[some], self.nulls[some], self.rows[some])


def _chunk_bounds(leaf: Leaf, chunks: Sequence[Chunk]) -> RawBounds:
    bounds = RawBounds([], [], [], [])
    for chunk in chunks:
        stats = chunk.statistics or {}
        wire, count = stats.get(3, (I64, -1))
        known = wire == I64 and 0 <= count <= chunk.values
        bounds.low.append(_bound(stats, 6, 2, leaf))
        bounds.high.append(_bound(stats, 5, 1, leaf))
        bounds.nulls.append(0 if leaf.max_definition == 0 else count if known else -1)
        bounds.rows.append(chunk.values)
    return bounds


def _bound(stats: Struct, field_id: int, old_id: int, leaf: Leaf) -> bytes | None:
    found = stats.get(field_id)
    if found is None and leaf.physical not in (_BYTES, _FIXED):  # the old fields order bytes as signed
        found = stats.get(old_id)
    return found[1] if found is not None and found[0] == BINARY else None


def page_bounds(leaf: Leaf, index: ColumnIndex, rows: Sequence[int]) -> RawBounds:
    """Bounds of the pages of one column chunk, which have these row counts."""
    empty = index.null_pages.tolist()
    counts = [-1] * len(empty) if index.null_counts is None else index.null_counts.tolist()
    if leaf.max_definition == 0:
        nulls = [0] * len(empty)
    else:
        nulls = [n if null else c if 0 <= c <= n else -1 for null, c, n in zip(empty, counts, rows, strict=True)]
    low = [None if null else b for null, b in zip(empty, listed(index.minima), strict=True)]
    high = [None if null else b for null, b in zip(empty, listed(index.maxima), strict=True)]
    return RawBounds(low, high, nulls, list(rows))


def orders_values(leaf: Leaf, type_: DataType | None) -> bool:
    """Whether statistics of this leaf order values as Paimon's type does, in the same unit."""
    if not leaf.flat or not isinstance(type_, AtomicType):
        return False
    kind, physical, element = type_.kind, leaf.physical, leaf.element
    converted = element.get(6, (I32, None))[1]
    logical = _logical(element)
    if kind in INTEGER_KINDS:
        signed = not logical or (10 in logical and logical[10][1].get(2, (0, False))[1] is True)
        return physical in (_INT32, _INT64) and converted in _SIGNED_CONVERTED and signed
    if kind is Kind.DATE:
        return physical == _INT32 and (converted == _DATE or 6 in logical)
    if kind is Kind.TIME:
        return physical == _INT32 and (converted == _TIME_MILLIS or (7 in logical and _unit(logical[7]) == "ms"))
    if kind in TIMESTAMP_KINDS:
        unit = _unit(logical[8]) if 8 in logical else _TIMESTAMP_CONVERTED.get(converted)
        return physical == _INT64 and unit == timestamp_unit(type_)
    if kind is Kind.DECIMAL:
        return physical in (_INT32, _INT64, _FIXED) and element.get(7, (I32, None))[1] == type_.scale
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return physical == _BYTES
    return physical == {Kind.BOOLEAN: _BOOLEAN, Kind.FLOAT: _FLOAT, Kind.DOUBLE: _DOUBLE}.get(kind)


def _logical(element: Struct) -> Struct:
    """The union LogicalType; empty if the element has no logical type."""
    wire, value = element.get(10, (STRUCT, {}))
    return value if wire == STRUCT and all(f[0] == STRUCT for f in value.values()) else {}


def _unit(field: tuple[int, Any]) -> str | None:
    """The unit of a TimeType or TimestampType: its field 2, a union."""
    wire, unit = field[1].get(2, (0, None))
    return next((_TIMESTAMP_UNITS.get(i) for i in unit), None) if wire == STRUCT else None


def column_stats(leaf: Leaf, type_: DataType | None, bounds: RawBounds) -> ColumnStats:
    """The bounds as values of the column's Arrow type; only the counts where statistics order values otherwise."""
    counts = np.array(bounds.nulls, np.int64)
    nulls = array(counts, mask=counts < 0)
    rows = array(bounds.rows, pa.int64())
    if not isinstance(type_, AtomicType) or not orders_values(leaf, type_):
        nothing = pa.nulls(len(rows), arrow_type(type_) if isinstance(type_, AtomicType) else pa.int64())
        return ColumnStats(nothing, nothing, nulls, rows, exact=False, nan_counted=False)
    low, high = _values(bounds.low, leaf, type_), _values(bounds.high, leaf, type_)
    both = (a.cast(pa.uint8()) if pa.types.is_boolean(a.type) else a for a in (low, high))
    known = to_numpy(pc.fill_null(pc.less_equal(*both), False))  # false for NaN
    return ColumnStats(low, high, nulls, rows, unknown=~known, exact=False, nan_counted=False)


def _values(bounds: Sequence[bytes | None], leaf: Leaf, type_: AtomicType) -> pa.Array:
    target = arrow_type(type_)
    if leaf.physical == _BYTES:
        plain = array(bounds, pa.binary())
        try:
            return plain if pa.types.is_binary(target) else pc.cast(plain, target)
        except pa.ArrowInvalid:  # cut inside a character, or no text at all
            return pa.nulls(len(bounds), target)
    if leaf.physical == _FIXED:
        whole = [None if b is None or len(b) > 16 else int.from_bytes(b, "big", signed=True) for b in bounds]
        return _decimals(whole, target)
    numbers, known = _numbers(bounds, leaf.physical)
    if pa.types.is_floating(target):
        return pc.cast(array(numbers, mask=~known), target)
    if pa.types.is_decimal(target):
        return _decimals([int(n) if k else None for n, k in zip(numbers, known, strict=True)], target)
    if pa.types.is_boolean(target):
        return array(numbers != 0, mask=~known)
    if pa.types.is_integer(target):
        limits = np.iinfo(f"i{target.bit_width // 8}")
        known &= (numbers >= limits.min) & (numbers <= limits.max)
        return pc.cast(array(np.where(known, numbers, 0), mask=~known), target)
    stored = pa.int64() if leaf.physical == _INT64 else pa.int32()
    return pc.cast(array(numbers, mask=~known), stored).view(target)


def _numbers(bounds: Sequence[bytes | None], physical: int) -> tuple[npt.NDArray[Any], Flags]:
    dtype = np.dtype(_DTYPES[physical])
    fits = [b is not None and len(b) == dtype.itemsize for b in bounds]
    blank = bytes(dtype.itemsize)
    raw = b"".join(b if b is not None and fit else blank for b, fit in zip(bounds, fits, strict=True))
    values = np.frombuffer(raw, dtype)
    return values.astype(np.float64 if dtype.kind == "f" else np.int64), np.array(fits, np.bool_)


def _decimals(values: Sequence[int | None], target: pa.DataType) -> pa.Array:
    """Decimals from their unscaled integers; those of too many digits are unknown."""
    limit = 10**target.precision
    good = [v if v is not None and -limit < v < limit else None for v in values]
    raw = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in good)
    valid = array([v is not None for v in good], pa.bool_())
    return pa.Array.from_buffers(target, len(good), [valid.buffers()[1], pa.py_buffer(raw)])
