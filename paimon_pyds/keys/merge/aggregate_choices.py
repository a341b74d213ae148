"""Aggregate functions whose result is the value of one of the rows: each says which.

NULL has a place of its own in each of them, and a row that takes back leaves NULL behind where Java does so. (Java: the
classes Field…Agg in org.apache.paimon.mergetree.compact.aggregate.)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, pc, with_one_nan
from paimon_pyds.base.sort.keys import comparable_column
from paimon_pyds.keys.merge.grouped_rows import GroupedRows, Positions, is_valid, take_or_null


def newest_key(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """Columns of the primary key: the newest row's, which all rows of the group have."""
    return take_or_null(values, rows.last())


def last_value(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The newest row's value, NULL too; NULL if that row takes back."""
    return _unless_retracted(values, rows, rows.last())


def last_non_null_value(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The newest value that is not NULL; NULL if its row takes back."""
    return _unless_retracted(values, rows, rows.last(np.flatnonzero(is_valid(values))))


def _unless_retracted(values: pa.Array, rows: GroupedRows, at: Positions) -> pa.Array:
    if rows.retract.any():
        at = np.where((at >= 0) & ~rows.retract[at], at, -1)
    return take_or_null(values, at)


def first_value(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The oldest row's value, NULL too."""
    return take_or_null(values, rows.first())


def first_non_null_value(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The oldest value that is not NULL."""
    return take_or_null(values, rows.first(np.flatnonzero(is_valid(values))))


def largest(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The largest value that is not NULL: texts and bytes by unsigned bytes, NaN above all, -0.0 below 0.0, true above
    false."""
    return take_or_null(values, _best(values, rows, largest=True))


def smallest(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The smallest value that is not NULL, in the order of `largest`."""
    return take_or_null(values, _best(values, rows, largest=False))


def _best(values: pa.Array, rows: GroupedRows, *, largest: bool) -> Positions:
    """The position of each group's largest or smallest value: of equal ones the oldest or the newest, as in Java."""
    keys = _comparable(values)
    left = np.flatnonzero(is_valid(values))
    if pa.types.is_integer(keys.type):
        return _best_integer(keys, rows, left, largest=largest)
    # A knock-out among neighbours: each round leaves half.
    while True:
        group = rows.group[left]
        begins = np.append(True, group[1:] != group[:-1])[: len(group)]
        place = np.arange(len(left))
        place -= np.maximum.accumulate(np.where(begins, place, 0))
        second = place % 2 == 1
        if not second.any():
            break
        loser = np.flatnonzero(second)
        older, newer = left[loser - 1], left[loser]
        less = is_true(pc.less(keys.take(from_numpy(older)), keys.take(from_numpy(newer))))
        kept = np.ones(len(left), np.bool_)
        kept[np.where(less == largest, loser - 1, loser)] = False
        left = left[kept]
    return rows.last(left)


def _best_integer(keys: pa.Array, rows: GroupedRows, among: Positions, *, largest: bool) -> Positions:
    """The same among integers, in one pass for the numbers and one for their positions; ``among`` have no NULL."""
    dtype = np.dtype(keys.type.to_pandas_dtype())
    numbers = np.frombuffer(keys.buffers()[1] or b"", dtype)[keys.offset : keys.offset + len(keys)][among]
    group = rows.group[among]
    begins = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(among)])
    if not len(begins):
        return rows.last(among)
    best = np.zeros(rows.count, dtype)
    best[group[begins]] = (np.maximum if largest else np.minimum).reduceat(numbers, begins)
    hits = among[numbers == best[group]]
    return rows.first(hits) if largest else rows.last(hits)


def _comparable(values: pa.Array) -> pa.Array:
    """The same order as Java's among values that Arrow compares (``Double.compare`` for floats)."""
    type_ = values.type
    if not pa.types.is_floating(type_):
        return comparable_column(values)
    width = np.dtype(f"i{type_.bit_width // 8}")
    floats = with_one_nan(values) if len(values) else values
    bits = np.frombuffer(floats.buffers()[1] or b"", width)[floats.offset : floats.offset + len(floats)]
    return from_numpy(np.where(bits < 0, bits ^ np.iinfo(width).max, bits))
