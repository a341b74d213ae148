"""Sort keys as columns that Arrow compares: NULL first, then Spark's ascending order (NaN last, -0.0 equal to 0.0).

``order`` compares column by column. ``zorder`` and ``hilbert`` put rows on a curve that keeps neighbours in any of the
columns near each other. Each column is cut into up to 65,536 ranges of about equally many rows, by a sample, and the
curve runs over the numbers of these ranges: so neither the type of a column nor the spread of its values matters.
(Hilbert curve: J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 2004.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, grouped, is_true, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, Kind

CURVES = ("zorder", "hilbert")
STRATEGIES = ("order", *CURVES)

_BITS = 16
"""Bits of each column in a position on a curve."""
_NESTED = frozenset({Kind.ARRAY, Kind.MAP, Kind.MULTISET, Kind.ROW})
_Words = npt.NDArray[np.uint64]


def can_sort(field: DataField) -> bool:
    """Whether rows can be ordered by the column."""
    return field.type.kind not in _NESTED


def sort_positions(keys: Sequence[pa.Array]) -> pa.Array:
    """The positions of rows in the order of their keys; rows with equal keys keep their order."""
    columns: list[pa.Array] = []
    for key in keys:
        if key.null_count:
            columns.append(key.is_valid().cast(pa.uint8()))
        columns.append(key)
    if len(columns) == 1:
        return pc.array_sort_indices(columns[0])
    names = [str(i) for i in range(len(columns))]
    table = pa.Table.from_arrays(columns, names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])


@dataclass(frozen=True, slots=True)
class SortKeys:
    """Makes keys of columns. ``bounds`` are those between the ranges of each column, for curves."""

    strategy: str
    bounds: tuple[pa.Array, ...] = ()

    @classmethod
    def learn(cls, strategy: str, sample: Sequence[pa.Array]) -> SortKeys:
        """The keys of a strategy; ``sample`` has some rows' values of each column."""
        if strategy not in CURVES:
            return cls(strategy)
        return cls(strategy, tuple(range_bounds([comparable_column(column)], 1 << _BITS)[0] for column in sample))

    def of(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The keys of some rows: arrays for `sort_positions`."""
        plain = [comparable_column(column) for column in columns]
        if not self.bounds:
            return plain
        codes = []
        for column, bounds in zip(plain, self.bounds, strict=True):
            code = _range_numbers(column, bounds)
            codes.append(code << np.uint64(_BITS - len(bounds).bit_length()))  # few ranges count as much as many
        words = _interleaved(codes if self.strategy == "zorder" else _hilbert(codes))
        return [array(word) for word in words]


def _range_numbers(column: pa.Array, bounds: pa.Array) -> _Words:
    """The range of each value; a bound belongs to the range before it."""
    if pa.types.is_integer(column.type) and not column.null_count and not bounds.null_count:
        return np.asarray(np.searchsorted(to_numpy(bounds), to_numpy(column)), np.uint64)
    positions, ranges = rows_by_range([column], [bounds])
    numbers = np.empty(len(column), np.uint64)
    numbers[positions] = ranges // 2
    return numbers


def range_bounds(keys: Sequence[pa.Array], ranges: int) -> list[pa.Array]:
    """Keys of rows, all different and in order, that divide the rows into ``ranges`` of about equal size, or fewer."""
    rows = len(keys[0])
    if not rows or ranges < 2:
        return [key.slice(0, 0) for key in keys]
    at = np.unique(np.arange(1, ranges, dtype=np.int64) * rows // ranges)
    chosen = sort_positions(keys).take(array(at))
    table = pa.Table.from_arrays([key.take(chosen) for key in keys], names=[str(i) for i in range(len(keys))])
    distinct = grouped(table, table.column_names).combine_chunks()
    columns = [distinct.column(name).combine_chunks() for name in table.column_names]
    order = sort_positions(columns)
    return [column.take(order) for column in columns]


def rows_by_range(
    keys: Sequence[pa.Array], bounds: Sequence[pa.Array]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The positions of rows in the order of their keys, and the range of each row in that order.

    Range 2·i is between bound i-1 and bound i, both excluded; range 2·i+1 has the rows that are equal to bound i.
    """
    rows, count = len(keys[0]), len(bounds[0])
    # Equal keys keep the order they are given in: bounds, rows, bounds. The bounds before a row give its range.
    whole = [pa.concat_arrays([bound, key, bound]) for key, bound in zip(keys, bounds, strict=True)]
    order = to_numpy(sort_positions(whole))
    reached = np.cumsum(order < count)
    passed = np.cumsum(order >= count + rows)
    mine = (order >= count) & (order < count + rows)
    return (order[mine] - np.uint64(count)).astype(np.int64), (reached + passed)[mine].astype(np.int64)


def comparable_column(column: pa.Array) -> pa.Array:
    """The same order among values that Arrow compares quickly and without NaN."""
    type_ = column.type
    if pa.types.is_floating(type_):
        return _float_key(column)
    if pa.types.is_string(type_):
        return column.cast(pa.binary())  # whoever compares single values must not stumble over what is not UTF-8
    if pa.types.is_boolean(type_):
        return column.cast(pa.uint8())
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return column.view(pa.int32())
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return column.view(pa.int64())
    return column


def _float_key(column: pa.Array) -> pa.Array:
    values = np.array(to_numpy(pc.fill_null(column.cast(pa.float64()), 0.0)), np.float64)
    values += 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan  # one NaN, positive: greatest
    bits = values.view(np.int64)
    keys = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return array(keys, mask=is_true(column.is_null()))


def _interleaved(codes: Sequence[_Words]) -> list[_Words]:
    """The bits of all codes, highest first, column after column, in words of 64."""
    words = [np.zeros(len(codes[0]), np.uint64) for _ in range(-(-_BITS * len(codes) // 64))]
    byte = np.arange(256, dtype=np.uint64)
    for column, code in enumerate(codes):
        for first in range(0, _BITS, 8):
            spread = np.zeros((len(words), 256), np.uint64)  # where the bits of a byte of the code go
            for bit in range(8):
                at = (first + bit) * len(codes) + column
                spread[at // 64] |= ((byte >> np.uint64(7 - bit)) & np.uint64(1)) << np.uint64(63 - at % 64)
            part = (code >> np.uint64(_BITS - 8 - first)).astype(np.uint8)
            for word, table in zip(words, spread, strict=True):
                if table.any():
                    word |= table[part]
    return words


def _hilbert(codes: Sequence[_Words]) -> list[_Words]:
    """Skilling's transform: interleaved, the result is the distance along the Hilbert curve."""
    x = [code.copy() for code in codes]
    for level in range(_BITS - 1, 0, -1):
        bit, below = np.uint64(1 << level), np.uint64((1 << level) - 1)
        for column in x:
            inverted = (column & bit) != 0
            swap = np.where(inverted, np.uint64(0), (x[0] ^ column) & below)
            x[0] ^= np.where(inverted, below, swap)
            column ^= swap
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    flips = np.zeros(len(x[0]), np.uint64)
    for level in range(_BITS - 1, 0, -1):
        flips ^= np.where((x[-1] & np.uint64(1 << level)) != 0, np.uint64((1 << level) - 1), np.uint64(0))
    for column in x:
        column ^= flips
    return x
