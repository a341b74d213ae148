"""Numbers that compare as values do: so rows are ordered and told apart by integers, whatever their columns' types.

The order is that of keys and sequence fields in Java Paimon: strings by their UTF-8 bytes, binaries by unsigned bytes,
false before true, both float zeros equal (a key -0.0 is the same key as 0.0). NULL comes first. NaN is the greatest
number here and equal to itself; Java takes it for equal to any number, and so may lose rows by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.sort.keys import SortKeys

__all__ = ["Codes", "comparable", "order_code", "order_codes", "pair_codes"]

Codes = npt.NDArray[np.int64]

_MIN, _MAX = -(2**63), 2**63 - 1
_LONG_DIGITS = 18


def comparable(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns as integers, binaries or decimals that Arrow and Python compare in the order of this module."""
    return SortKeys("order").of(columns)


def order_codes(columns: Sequence[pa.Array]) -> Codes:
    """A number for each row: they compare as the rows do, column after column, and equal rows have the same.

    Numbers of two calls can't be compared with one another.
    """
    return reduce(pair_codes, [order_code(column) for column in columns])


def order_code(column: pa.Array) -> Codes:
    """A number for each value of one column; see `order_codes`."""
    values = comparable([column])[0]
    if pa.types.is_integer(values.type):
        return _integers(values)
    if pa.types.is_decimal128(values.type) and values.type.precision <= _LONG_DIGITS and not values.null_count:
        return _low_halves(values)
    return _ranks(values)


def _integers(values: pa.Array) -> Codes:
    if not values.null_count:
        return to_numpy(values).astype(np.int64, copy=False)
    least = pc.min(values).as_py()
    if least == _MIN:
        return _ranks(values)
    return to_numpy(values.cast(pa.int64()).fill_null(least - 1 if least is not None else 0))


def _low_halves(values: pa.Array) -> Codes:
    """Unscaled values of decimals that fit 64 bits."""
    if not len(values):
        return np.zeros(0, np.int64)
    halves = np.frombuffer(values.buffers()[1], np.int64)
    return halves[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def _ranks(values: pa.Array) -> Codes:
    """0 for the least values, 1 for the next, and so on."""
    order = pc.array_sort_indices(values, null_placement="at_start")
    ordered = values.take(order)
    steps = np.zeros(len(values), np.int64)
    if len(values) > 1:
        steps[1:] = to_numpy(pc.not_equal(ordered.slice(1), ordered.slice(0, len(values) - 1)).fill_null(False))
    if 0 < values.null_count < len(values):
        steps[values.null_count] = 1
    ranks = np.empty(len(values), np.int64)
    ranks[to_numpy(order)] = np.cumsum(steps)
    return ranks


def pair_codes(first: Codes, second: Codes) -> Codes:
    """Numbers of pairs, that compare as the first numbers do, and where these are equal, as the second ones."""
    if not len(first):
        return first
    (low, span), (second_low, second_span) = _range(first), _range(second)
    if span * second_span > _MAX:
        first, second = _ranks(from_numpy(first)), _ranks(from_numpy(second))
        (low, span), (second_low, second_span) = _range(first), _range(second)
    return (first - low) * second_span + (second - second_low)


def _range(codes: Codes) -> tuple[int, int]:
    """The least number, and how many there are from it to the greatest."""
    low = int(codes.min())
    return low, int(codes.max()) - low + 1
