"""Rows of values, ``(a, b) IN ((1, 2), (3, 4), …)``: what a semi-join with them keeps.

An `Among` has the distinct values of each column, sorted, and for each row the places of its values among them.
Statistics and indexes answer for each column: by its values if they are few, by the least and the greatest if they are
many. Bounds are also compared with whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Flags,
    Int64s,
    array,
    from_numpy,
    is_true,
    one_array,
    pc,
    scalar,
    to_numpy,
    with_one_nan,
)
from paimon_pyds.base.types import AtomicType, arrow_type, scalar_to_internal
from paimon_pyds.base.types.kinds import FLOAT_KINDS, Kind
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.tree import Among, ColumnRef, Const, Leaf, Op, Predicate, make_and, make_or

LISTED_VALUES = 10_000
"""Values of a column up to which they are a list, which indexes answer value by value; a longer list is replaced by its
least and greatest value."""
_FEW_ROWS = 64
"""Rows up to which each becomes a condition of its own."""
_MOST_PAIRS = 1 << 22
"""Greatest number of pairs of a file and a row that are compared."""
_PAIRS_AT_ONCE = 1 << 18
_HASHED_VALUES = 1024
"""Values up to which all are hashed to look for those of a batch."""


def among(columns: Sequence[ColumnRef], arrays: Sequence[pa.Array]) -> Predicate:
    """That rows have the values of one of some rows. A list of one column, unless it is very long, is a leaf.

    ``columns``: bound, of atomic types, each once. ``arrays``: the values of each, of the Arrow type of its type. Rows
    with NULL are left out: NULL equals nothing.
    """
    arrays = [_plain(values, column) for values, column in zip(arrays, columns, strict=True)]
    if any(values.null_count for values in arrays):
        there = np.logical_and.reduce([is_true(values.is_valid()) for values in arrays])
        arrays = [values.filter(from_numpy(there)) for values in arrays]
    if not len(arrays[0]):
        return Const.FALSE
    found = Among(tuple(columns), *_coded(arrays))
    if len(columns) == 1 and len(found.values[0]) <= LISTED_VALUES:
        return _listed(columns[0], found.values[0])
    return found


def _plain(values: pa.Array, column: ColumnRef) -> pa.Array:
    """With one zero and one NaN, and no blanks at the end of CHAR."""
    assert column.type is not None
    if column.type.kind in FLOAT_KINDS:
        return with_one_nan(pc.add(values, scalar(0.0, values.type)))
    return pc.utf8_rtrim(values, characters=" ") if column.type.kind is Kind.CHAR else values


def _coded(arrays: Iterable[pa.Array]) -> tuple[tuple[pa.Array, ...], tuple[Int64s, ...]]:
    """The attributes ``values`` and ``levels`` of an `Among`."""
    values: list[pa.Array] = []
    levels: list[Int64s] = []
    rows: Int64s | None = None
    for given in arrays:
        distinct = given.unique()
        distinct = distinct.take(pc.sort_indices(distinct))
        places = to_numpy(pc.index_in(given, distinct)).astype(np.int64)
        if rows is None:
            rows = places
        else:
            level, rows = np.unique(rows * len(distinct) + places, return_inverse=True)
            levels.append(level)
        values.append(distinct)
    return tuple(values), tuple(levels)


def places_of(node: Among) -> list[Int64s]:
    """Of each column, the place of each row's value among its values; rows are in their order."""
    if not node.levels:
        return [np.arange(len(node.values[0]))]
    rows, found = np.arange(len(node.levels[-1])), []
    for level, values in zip(node.levels[::-1], node.values[:0:-1], strict=True):
        rows, places = np.divmod(level[rows], len(values))
        found.append(places)
    return [rows, *found[::-1]]


def row_count(node: Among) -> int:
    """How many different rows there are."""
    return len(node.levels[-1]) if node.levels else len(node.values[0])


def rows_of(node: Among) -> list[pa.Array]:
    """The values of each column, row by row."""
    return [values.take(from_numpy(at)) for values, at in zip(node.values, places_of(node), strict=True)]


def projected(node: Among, columns: Iterable[ColumnRef]) -> Predicate:
    """That rows have the values of one of the rows in some of its columns: true wherever the node is."""
    wanted = set(columns)
    if wanted.issuperset(node.columns):
        return node
    pairs = [pair for pair in zip(node.columns, rows_of(node), strict=True) if pair[0] in wanted]
    return among(*zip(*pairs, strict=True)) if pairs else Const.TRUE


def with_columns(node: Among, change: Callable[[ColumnRef, pa.Array], tuple[ColumnRef, pa.Array] | None]) -> Predicate:
    """The node with each column and the values of it changed; a column is left out where None comes of it.

    ``change``: gives another column, and for each of the values that of the other one, or NULL where no row has it.
    """
    columns, arrays = [], []
    for column, values, places in zip(node.columns, node.values, places_of(node), strict=True):
        changed = change(column, values)
        if changed is not None:
            columns.append(changed[0])
            arrays.append(changed[1].take(from_numpy(places)))
    return among(columns, arrays) if columns else Const.TRUE


def joined(nodes: Sequence[Among]) -> Predicate:
    """That rows have the values of one of the rows of several nodes, which have the same columns in any order."""
    columns = nodes[0].columns
    of_each = [dict(zip(node.columns, rows_of(node), strict=True)) for node in nodes]
    return among(columns, [pa.concat_arrays([arrays[column] for arrays in of_each]) for column in columns])


def among_rows(columns: Sequence[ColumnRef], rows: Sequence[Sequence[Any]]) -> Predicate:
    """As `among`, of rows of internal values."""
    types = [arrow_type(column.type) for column in columns if column.type is not None]
    return among(columns, [array(values, type_) for values, type_ in zip(zip(*rows, strict=True), types, strict=True)])


# ---------------------------------------------------------------------------------------------------------- on rows


def holds(node: Among, given: Sequence[pa.Array | pa.ChunkedArray]) -> Flags:
    """Whether rows have the values of one of the node's rows. ``given``: their values in each of its columns."""
    found: Int64s | None = None
    for number, (column, values) in enumerate(zip(node.columns, given, strict=True)):
        here = _found(node.values[number], one_array(values), column)
        if found is None:
            found = here
        else:
            level = node.levels[number - 1]
            code = np.where((found < 0) | (here < 0), -1, found * len(node.values[number]) + here)
            at = np.minimum(np.searchsorted(level, code), len(level) - 1)
            found = np.where(level[at] == code, at, -1)
    assert found is not None
    return np.asarray(found >= 0, np.bool_)


def place_of(values: pa.Array, value: pa.Scalar, column: ColumnRef) -> int:
    """The place of a column's value among some values; -1 if it is not there."""
    return int(_found(values, array_of(value), column)[0])


def _found(values: pa.Array, given: pa.Array, column: ColumnRef) -> Int64s:
    """The place of each given value among some values; -1 where it is not there."""
    if pa.types.is_dictionary(given.type):
        places = np.append(_found(values, given.dictionary, column), -1)
        found = places[to_numpy(pc.fill_null(given.indices, 0))]
        found[~is_true(given.is_valid())] = -1
        return np.asarray(found, np.int64)
    given = _plain(given if given.type == values.type else given.cast(values.type), column)
    if len(values) > _HASHED_VALUES:
        if pa.types.is_integer(values.type) or pa.types.is_temporal(values.type):
            return _searched(values, given)
        start, stop = _between(values, given)
        if (start, stop) != (0, len(values)):
            found = _found(values.slice(start, stop - start), given, column)
            return np.where(found < 0, -1, found + start)
    return np.asarray(to_numpy(pc.fill_null(pc.index_in(given, values), -1)), np.int64)


def _searched(values: pa.Array, given: pa.Array) -> Int64s:
    there = is_true(given.is_valid())
    known, wanted = _integers(values), _integers(pc.fill_null(given, values[0]) if given.null_count else given)
    at: Int64s = np.minimum(np.searchsorted(known, wanted), len(values) - 1)
    at[(known[at] != wanted) | ~there] = -1
    return at


def _integers(values: pa.Array) -> Int64s:
    if not pa.types.is_integer(values.type):
        values = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
    return np.asarray(to_numpy(values))


def _between(values: pa.Array, given: pa.Array) -> tuple[int, int]:
    """The range of places of the sorted values that are between the least and the greatest given one."""
    ends = pc.min_max(given)
    if not ends["min"].is_valid or pa.types.is_floating(given.type):
        return 0, len(values) if ends["min"].is_valid else 0
    low, high = (array_of(end) for end in (ends["min"], ends["max"]))
    return int(search_sorted(values, low)[0]), int(search_sorted(values, high, right=True)[0])


def array_of(value: pa.Scalar) -> pa.Array:
    """An array of one value."""
    return pa.repeat(value, 1)


def search_sorted(values: pa.Array, wanted: pa.Array, *, right: bool = False) -> Int64s:
    """Place of the first of the sorted values that is not below each wanted one; with ``right`` that is above it."""
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        places: Int64s = np.searchsorted(to_numpy(values), to_numpy(wanted), "right" if right else "left")
        return places
    # By ranks in one sorted whole, where equal ones stay in their order.
    parts = [values, wanted] if right else [wanted, values]
    order = to_numpy(pc.sort_indices(pa.concat_arrays(parts)))
    is_value = order < len(values) if right else order >= len(wanted)
    places = np.empty(len(wanted), np.int64)
    places[order[~is_value] - (len(values) if right else 0)] = np.cumsum(is_value)[~is_value]
    return places


# ------------------------------------------------------------------------------------- what leaves and bounds can say


def tests(node: Among) -> Predicate:
    """What each column says by itself: true wherever the node is."""
    found = node.known.get("tests")
    if found is None:
        parts = (column_test(column, values) for column, values in zip(node.columns, node.values, strict=True))
        found = node.known["tests"] = make_and(*parts)
    return found


def column_test(column: ColumnRef, values: pa.Array) -> Predicate:
    """The condition that a column has one of some sorted values; if they are many, that it is between the least and the
    greatest."""
    if len(values) <= LISTED_VALUES:
        return _listed(column, values)
    if column.type is None or column.type.kind is Kind.CHAR:
        return Leaf(Op.IS_NOT_NULL, column)
    least, most = (scalar_to_internal(values[at]) for at in (0, -1))
    if most != most:
        return Leaf(Op.GE, column, (least,))
    return make_and(Leaf(Op.GE, column, (least,)), Leaf(Op.LE, column, (most,)))


def _listed(column: ColumnRef, values: pa.Array) -> Predicate:
    if isinstance(column.type, AtomicType) and column.type.kind is Kind.CHAR:
        try:
            from paimon_pyds.sql.predicate.compare import compare_char

            return compare_char(Op.IN, column, values.to_pylist(), column.type)
        except PredicateError:  # too many numbers of blanks at the end
            return Leaf(Op.IS_NOT_NULL, column)
    literals = tuple(map(scalar_to_internal, values))
    return Leaf(Op.IN if len(literals) > 1 else Op.EQ, column, literals)


def has_few_rows(node: Among) -> bool:
    """Whether `as_leaves` gives the same condition."""
    return row_count(node) <= _FEW_ROWS


def as_leaves(node: Among) -> Predicate:
    """The condition made of leaves: the same condition if rows are few, else one for each column."""
    if not has_few_rows(node):
        return tests(node)
    found = node.known.get("rows")
    if found is None:
        found = node.known["rows"] = make_or(
            *(
                make_and(*(_listed(column, array_of(value)) for column, value in zip(node.columns, row, strict=True)))
                for row in zip(*rows_of(node), strict=True)
            )
        )
    return found


def by_column(node: Among) -> Predicate:
    """Few rows as leaves; of many what the values of each column say, however many these are."""
    if has_few_rows(node) or len(node.columns) == 1:
        return as_leaves(node) if has_few_rows(node) else node
    found = node.known.get("columns")
    if found is None:
        found = node.known["columns"] = make_and(*(projected(node, [column]) for column in node.columns))
    return found


def any_row_within(node: Among, bounds: Sequence[tuple[Int64s, Int64s]], files: Flags) -> Flags:
    """The files that may have one of the rows. ``bounds``: for each column and file the range of places of values
    within the file's bounds, the second end excluded. ``files``: the candidates."""
    rows = places_of(node)
    alive = np.flatnonzero(files)
    if len(rows) == 1 or not len(alive):
        return files
    spans, orders = [], []
    for places, (low, high) in zip(rows, bounds, strict=True):
        order = np.argsort(places, kind="stable")
        inside = [np.searchsorted(places[order], end[alive]) for end in (low, high)]
        spans.append((inside[0], inside[1] - inside[0]))
        orders.append(order)
    best = int(np.argmin([lengths.sum() for _, lengths in spans]))
    starts, lengths = spans[best]
    found = files.copy()
    compared = np.flatnonzero(np.cumsum(np.sort(lengths)) <= _MOST_PAIRS)
    by_length = np.argsort(lengths, kind="stable")[: len(compared)]
    for some in np.array_split(by_length, 1 + int(lengths[by_length].sum()) // _PAIRS_AT_ONCE):
        found[alive[some]] = _some_row_within(
            [places[orders[best]] for places in rows],
            [(low[alive[some]], high[alive[some]]) for low, high in bounds],
            (starts[some], lengths[some]),
        )
    return found


def _some_row_within(
    rows: Sequence[Int64s], bounds: Sequence[tuple[Int64s, Int64s]], spans: tuple[Int64s, Int64s]
) -> Flags:
    """For each of some files, whether one of a span of rows is within its bounds."""
    starts, lengths = spans
    file = np.repeat(np.arange(len(starts)), lengths)
    row = np.arange(len(file)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(starts, lengths)
    inside = np.ones(len(file), np.bool_)
    for places, (low, high) in zip(rows, bounds, strict=True):
        inside &= (places[row] >= low[file]) & (places[row] < high[file])
    found = np.zeros(len(starts), np.bool_)
    found[file[inside]] = True
    return found
