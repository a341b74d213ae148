"""Ranks of integers: what sorting is for in an index, without moving more than it takes.

A number and the row it stands in share one 64-bit word: sorting words is what processors do fastest. Where both don't
fit, the lowest bits of the numbers are left out, and the few that are then out of order put right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["is_dense", "ranked", "sorted_rows"]

_DENSE = 2
_WORD = 64
_SAMPLE = 1 << 14
_SAMPLE_MIXED = 256
"""Of a sample, one part in so many stands for more values out of order than it pays to put right."""

I64 = npt.NDArray[np.int64]
Ints = npt.NDArray[np.signedinteger[Any]]
Ranks = npt.NDArray[np.int32]


def is_dense(values: Ints) -> bool:
    """Whether the values lie so close together that a table of all numbers between them is small; there are some."""
    return int(values.max()) - int(values.min()) < _DENSE * len(values)


def ranked(values: Ints) -> tuple[Ints, Ranks]:
    """The distinct values, ascending, and for each value which of them it is. Fewer than 2^31 values."""
    if not len(values):
        return values, np.zeros(0, np.int32)
    if is_dense(values):
        return _ranked_by_table(values)
    if bool((values[1:] >= values[:-1]).all()):
        return _distinct(values)
    order, ordered = _sorted(values)
    distinct, ascending = _distinct(ordered)
    ranks = np.empty(len(values), np.int32)
    ranks[order] = ascending
    return distinct, ranks


def _ranked_by_table(values: Ints) -> tuple[Ints, Ranks]:
    least = int(values.min())
    places = values.astype(np.int64)
    places -= least
    there = np.zeros(int(values.max()) - least + 1, np.bool_)
    there[places] = True
    distinct = np.flatnonzero(there)
    distinct += least
    ranks = np.cumsum(there, dtype=np.int32)
    ranks -= 1
    return distinct.astype(values.dtype), ranks.take(places)


def _distinct(ordered: Ints) -> tuple[Ints, Ranks]:
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return ordered, np.arange(len(ordered), dtype=np.int32)
    ranks = np.cumsum(fresh, dtype=np.int32)
    ranks -= 1
    return ordered[fresh], ranks


def _sorted(values: Ints) -> tuple[I64, Ints]:
    """Indices that sort the values, and the values sorted."""
    least, most = int(values.min()), int(values.max())
    lost = max(0, (most - least).bit_length() + _index_bits(len(values)) - _WORD)
    if lost and _is_mixed(values, least, lost):
        order = np.argsort(values)
        return order, values[order]
    order = sorted_rows(_above(values, least), lost)
    ordered = values[order]
    if lost:
        _put_right(order, ordered, least, lost)
    return order, ordered


def _above(values: Ints, least: int) -> npt.NDArray[np.uint64]:
    """How far each value lies above the least one."""
    above = values.astype(np.int64)
    above -= np.int64(least)  # wraps round where it takes 64 bits: read without a sign it is right
    return above.view(np.uint64)


def _is_mixed(values: Ints, least: int, lost: int) -> bool:
    """Whether, by a sample, many values differ in their ``lost`` lowest bits only, as they do when one lies far out."""
    sample = np.unique(values[:: -(-len(values) // _SAMPLE)])
    high = _above(sample, least) >> np.uint64(lost)
    return int(np.count_nonzero(high[1:] == high[:-1])) * _SAMPLE_MIXED > len(sample)


def sorted_rows(numbers: npt.NDArray[np.uint64], lost: int = 0) -> I64:
    """Indices that sort numbers by all but their ``lost`` lowest bits, equal ones in order. ``numbers`` is used up.

    What is left of a number and an index have to fit 64 bits.
    """
    bits = _index_bits(len(numbers))
    numbers >>= np.uint64(lost)
    numbers <<= np.uint64(bits)
    numbers |= np.arange(len(numbers), dtype=np.uint64)
    numbers.sort()
    numbers &= np.uint64((1 << bits) - 1)
    return numbers.view(np.int64)


def _index_bits(count: int) -> int:
    return max(count - 1, 1).bit_length()


def _put_right(order: I64, ordered: Ints, least: int, lost: int) -> None:
    """Sort the rest of an order in which the values' ``lost`` lowest bits were left out."""
    wrong = ordered[1:] < ordered[:-1]
    if not wrong.any():
        return
    high = _above(ordered, least) >> np.uint64(lost)
    group = np.zeros(len(order), np.int64)
    np.cumsum(high[1:] != high[:-1], out=group[1:])
    mixed = np.zeros(int(group[-1]) + 1, np.bool_)
    mixed[group[1:][wrong]] = True
    at = np.flatnonzero(mixed[group])
    right = at[np.argsort(ordered[at])]
    order[at], ordered[at] = order[right], ordered[right]
