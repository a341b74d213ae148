"""Which rows of a file may match a predicate, by the statistics of its row groups and pages.

One law: what is kept is a superset of what matches. Comparisons are SQL's on what is not NULL; floating-point columns
compare as Spark SQL does: NaN equals itself and is greater than anything else, -0.0 equals 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.formats.parquet.bounds import Bounds, chunk_bounds, comparable, page_bounds
from paimon_pyds.formats.parquet.footer import Leaf
from paimon_pyds.formats.parquet.source import ParquetSource
from paimon_pyds.predicate.tree import And, Const, Op, Or, Predicate, leaves
from paimon_pyds.predicate.tree import Leaf as Test
from paimon_pyds.selection import RowSelection
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, AtomicType, Kind

__all__ = ["prune"]

_Mask = npt.NDArray[np.bool_]
_FEW_ROWS = 64
"""Where fewer rows than this are at stake, reading their pages costs less than the page index."""
_MOST_OF_A_GROUP = 0.8
"""A row group of which more than this is kept is kept whole: it is decoded whole anyway."""
_EXACT = Context(prec=100)


def prune(source: ParquetSource, predicate: Predicate, within: RowSelection) -> RowSelection:
    """Rows that may match; ALL when nothing can be said. ``within``: rows that matter at all."""
    if predicate is Const.TRUE or within.is_none:
        return RowSelection.ALL
    footer = source.footer
    if footer.row_count > 1 << 32:
        return RowSelection.ALL
    usable = _usable(source, predicate)
    if not usable and not isinstance(predicate, Const):
        return RowSelection.ALL
    groups = range(footer.group_count)
    of_groups = {
        leaf.index: chunk_bounds(leaf, [footer.chunk(g, leaf.index) for g in groups]) for leaf in usable.values()
    }
    kept = _evaluate(predicate, len(groups), lambda test: _group_mask(test, usable, of_groups, len(groups)))
    alive = [g for g in groups if kept[g] and footer.groups[g][0] < footer.groups[g][1]]
    pages = _pages_worth_it(source, usable, alive, within)
    rows = BitMap()
    whole = True
    for group in groups:
        start, stop = footer.groups[group]
        if group not in alive:
            whole = whole and start == stop
            continue
        inside = _prune_pages(source, predicate, usable, group) if group in pages else None
        if inside is None or len(inside) > (stop - start) * _MOST_OF_A_GROUP:
            rows.add_range(start, stop)
        else:
            rows |= inside
            whole = False
    return RowSelection.ALL if whole else RowSelection.from_bitmap(rows)


def _group_mask(test: Test, usable: dict[str, Leaf], bounds: dict[int, Bounds], size: int) -> _Mask:
    leaf = usable.get(test.column.name)
    return _test_mask(test, leaf, None if leaf is None else bounds[leaf.index], size)


def _usable(source: ParquetSource, predicate: Predicate) -> dict[str, Leaf]:
    """The predicate's columns whose statistics say something, by name."""
    footer, found = source.footer, {}
    for test in leaves(predicate):
        column = test.column
        numbers = footer.columns.get(column.name)
        if numbers is None or column.path or len(numbers) != 1:
            continue
        leaf = footer.leaves[numbers[0]]
        if leaf.flat and (comparable(leaf, column.type) or test.op in (Op.IS_NULL, Op.IS_NOT_NULL)):
            found[column.name] = leaf
    return found


def _pages_worth_it(
    source: ParquetSource, usable: dict[str, Leaf], alive: Sequence[int], within: RowSelection
) -> set[int]:
    """Row groups whose page indexes are read, all of them in one go."""
    chosen = set()
    for group in alive:
        start, stop = source.footer.groups[group]
        if within.is_all or within.window(start, stop).count(stop - start) >= _FEW_ROWS:
            chosen.add(group)
    source.bounds((g, leaf.index) for g in sorted(chosen) for leaf in usable.values())
    return chosen


def _prune_pages(source: ParquetSource, predicate: Predicate, usable: dict[str, Leaf], group: int) -> BitMap | None:
    """Rows of one row group that its pages leave; None when it has no page index."""
    tables, indexes = source.tables(()), source.bounds(())
    start, stop = source.footer.groups[group]
    if not any((group, leaf.index) in indexes for leaf in usable.values()):
        return None

    def rows_of(test: Test) -> BitMap:
        leaf = usable.get(test.column.name)
        index = None if leaf is None or test.column.path else indexes.get((group, leaf.index))
        if leaf is None or index is None:
            return BitMap(range(start, stop))
        bounds = page_bounds(leaf, index)
        mask = _test_mask(test, leaf, bounds, len(bounds))
        return _ranges(tables[group, leaf.index].first_rows, mask, start)

    return _evaluate_rows(predicate, rows_of, start, stop)


def _ranges(first_rows: npt.NDArray[np.int64], mask: _Mask, start: int) -> BitMap:
    """The rows of the pages in a mask; neighbouring pages become one range."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    rows = BitMap()
    for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rows.add_range(start + int(first_rows[low]), start + int(first_rows[high]))
    return rows


# ------------------------------------------------------------------------------------------------------------- trees


def _evaluate(predicate: Predicate, size: int, mask_of: Callable[[Test], _Mask]) -> _Mask:
    """A mask of ``size`` for the whole tree from masks for its tests."""
    if isinstance(predicate, Test):
        return mask_of(predicate)
    if isinstance(predicate, And):
        result = np.ones(size, np.bool_)
        for child in predicate.children:
            result &= _evaluate(child, size, mask_of)
        return result
    if isinstance(predicate, Or):
        result = np.zeros(size, np.bool_)
        for child in predicate.children:
            result |= _evaluate(child, size, mask_of)
        return result
    return np.full(size, predicate is Const.TRUE)


def _evaluate_rows(predicate: Predicate, rows_of: Callable[[Test], BitMap], start: int, stop: int) -> BitMap:
    """Rows for the whole tree, within start … stop-1, from rows for its tests."""
    if isinstance(predicate, Test):
        return rows_of(predicate)
    if isinstance(predicate, And):
        result = BitMap(range(start, stop))
        for child in predicate.children:
            result &= _evaluate_rows(child, rows_of, start, stop)
        return result
    if isinstance(predicate, Or):
        result = BitMap()
        for child in predicate.children:
            result |= _evaluate_rows(child, rows_of, start, stop)
        return result
    return BitMap(range(start, stop)) if predicate is Const.TRUE else BitMap()


# ------------------------------------------------------------------------------------------------------------- tests


def _test_mask(test: Test, leaf: Leaf | None, bounds: Bounds | None, size: int) -> _Mask:
    """Where a test may hold, by these bounds; everywhere when they say nothing."""
    if leaf is None or bounds is None or test.column.path:
        return np.ones(size, np.bool_)
    if test.op is Op.IS_NULL:
        mask: _Mask = bounds.all_null | (bounds.null_count != 0)
        return mask
    # Any other test is not true on NULL.
    some: _Mask = ~bounds.all_null
    if test.op is Op.IS_NOT_NULL or not comparable(leaf, test.column.type):
        return some
    may = _may_hold(test, bounds)
    return some if may is None else some & (may | ~bounds.known)


def _may_hold(test: Test, bounds: Bounds) -> _Mask | None:
    """Where a test on values between the bounds may be true; None when it may be anywhere."""
    op, type_ = test.op, test.column.type
    if not isinstance(type_, AtomicType) or not test.literals:
        return None
    if op in (Op.STARTS_WITH, Op.LIKE, Op.NOT_STARTS_WITH):
        return _prefix(test, type_, bounds)
    floating = type_.kind in (Kind.FLOAT, Kind.DOUBLE)
    if op not in _COMPARISONS or (floating and op in (Op.NE, Op.NOT_IN, Op.GT, Op.GE)):  # NaN may be there
        return None
    spans = [_span(value, type_) for value in test.literals]
    result: _Mask | None = None
    for span in spans:
        if span is None:
            if op is Op.NOT_IN:
                continue
            return None
        mask = _COMPARISONS[op](bounds, *span).astype(np.bool_)
        if result is None:
            result = mask
        else:
            result = result & mask if op is Op.NOT_IN else result | mask
    return result


def _equal(bounds: Bounds, low: Any, high: Any) -> Any:
    return (bounds.low <= high) & (bounds.high >= low)


def _not_equal(bounds: Bounds, low: Any, high: Any) -> Any:
    if low != high:
        return np.ones(len(bounds), np.bool_)
    return ~((bounds.low == low).astype(np.bool_) & (bounds.high == low).astype(np.bool_))


_COMPARISONS: dict[Op, Callable[[Bounds, Any, Any], Any]] = {
    Op.EQ: _equal,
    Op.IN: _equal,
    Op.NE: _not_equal,
    Op.NOT_IN: _not_equal,
    Op.LT: lambda bounds, low, high: bounds.low < high,
    Op.LE: lambda bounds, low, high: bounds.low <= high,
    Op.GT: lambda bounds, low, high: bounds.high > low,
    Op.GE: lambda bounds, low, high: bounds.high >= low,
}
"""May hold somewhere between the bounds, when the literal lies in low … high."""


def _span(value: Any, type_: AtomicType) -> tuple[Any, Any] | None:
    """A literal as the bounds hold values, between two of them where it is none; None when it can't be compared."""
    kind = type_.kind
    if kind in STRING_KINDS:
        return _bytes_span(value)
    if kind in BINARY_KINDS:
        return (bytes(value), bytes(value)) if isinstance(value, bytes | bytearray) else None
    if kind is Kind.BOOLEAN:
        return (int(value), int(value)) if isinstance(value, bool) else None
    if kind is Kind.DECIMAL:
        return _decimal_span(value, type_.scale or 0)
    if isinstance(value, bool):
        return None
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return _float_span(value, single=kind is Kind.FLOAT)
    return (value, value) if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


def _bytes_span(value: Any) -> tuple[bytes, bytes] | None:
    if not isinstance(value, str):
        return None
    try:
        text = value.encode()
    except UnicodeEncodeError:
        return None
    return text, text


def _decimal_span(value: Any, scale: int) -> tuple[int, int] | None:
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    scaled = value.scaleb(scale, _EXACT)
    low = int(scaled.to_integral_value(ROUND_FLOOR, _EXACT))
    return low, int(scaled.to_integral_value(ROUND_CEILING, _EXACT))


def _float_span(value: Any, *, single: bool) -> tuple[float, float] | None:
    """A literal of a FLOAT column may be compared as it is or rounded to single precision: both are allowed for."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isnan(number):
        return None
    if not single:
        return number, number
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    return min(number, rounded), max(number, rounded)


def _prefix(test: Test, type_: AtomicType, bounds: Bounds) -> _Mask | None:
    """Strings with a common prefix lie together: those between the bounds may have it, or all do."""
    if type_.kind not in STRING_KINDS or not isinstance(test.literals[0], str):
        return None
    text = test.literals[0] if test.op is not Op.LIKE else _fixed_part(*test.literals)
    span = _bytes_span(text)
    if span is None or not span[0]:
        return None
    prefix = span[0]
    heads = [(low[: len(prefix)], high[: len(prefix)]) for low, high in zip(bounds.low, bounds.high, strict=True)]
    if test.op is Op.NOT_STARTS_WITH:
        return np.array([not (low == prefix == high) for low, high in heads], np.bool_)
    return np.array([low <= prefix <= high for low, high in heads], np.bool_)


def _fixed_part(pattern: str, escape: str = "\\") -> str:
    """What every string that a LIKE pattern matches begins with."""
    fixed: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char in "%_" and char != escape:
            break
        if char == escape:
            position += 1
            if position == len(pattern):
                break
            char = pattern[position]
        fixed.append(char)
        position += 1
    return "".join(fixed)
