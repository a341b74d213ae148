"""Bit slices: for each bit of the rows' values, the rows that have it set. They answer =, ranges and more.

After O'Neil and Quass, "Improved query performance with variant indexes" (1997). Values are from 0 to 2^count - 1.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.index import roaring

__all__ = ["BitSlices", "encode_slices", "rows_at_least", "rows_between", "rows_equal"]


class BitSlices(Protocol):
    """Bit slices that are read when asked for. The bitmaps given are not to be changed."""

    @property
    def count(self) -> int:
        """Number of slices."""

    def existing(self) -> BitMap:
        """Rows that have a value."""

    def load(self, first: int) -> list[BitMap]:
        """The slices ``first`` and above, lowest bit first."""

    def one(self, bit: int) -> BitMap:
        """The slice of one bit."""


def encode_slices(values: npt.NDArray[Any], count: int) -> list[bytes]:
    """The serialized bitmaps of the ``count`` lowest bits of non-negative values; rows without a value are 0."""
    kind = values.dtype.type
    return [roaring.encode_mask(values & kind(1 << bit) != 0) for bit in range(count)]


def rows_at_least(slices: BitSlices, value: int) -> BitMap:
    """Rows whose value is ``value`` or more. The bitmap is not to be changed: it may be a slice itself.

    From the lowest set bit of ``value`` upwards, a set bit keeps those above that have it too, a clear one adds those
    that have it.
    """
    if value <= 0:
        return slices.existing()
    if value >> slices.count:
        return BitMap()
    lowest = (value & -value).bit_length() - 1
    loaded = slices.load(lowest)
    rows = loaded[0]
    for bit, members in enumerate(loaded[1:], lowest + 1):
        if bit == lowest + 1:  # the first step makes a new bitmap: a copy would cost as much as ten steps
            rows = rows & members if value >> bit & 1 else rows | members
        elif value >> bit & 1:
            rows &= members
        else:
            rows |= members
    return rows


def rows_equal(slices: BitSlices, value: int) -> BitMap:
    """Rows whose value is ``value``. The bitmap is not to be changed."""
    if value < 0 or value >> slices.count:
        return BitMap()
    return _with_bits(slices, slices.load(0), value, 0)


def _with_bits(slices: BitSlices, loaded: list[BitMap], value: int, lowest: int) -> BitMap:
    """Rows that have the bits of ``value`` from ``lowest`` up; the highest first, as few rows are left soon."""
    rows = slices.existing()
    for bit in reversed(range(lowest, slices.count)):
        if not rows:
            break
        rows = rows & loaded[bit] if value >> bit & 1 else rows - loaded[bit]
    return rows


def rows_between(slices: BitSlices, low: int, high: int | None) -> BitMap:
    """Rows whose value is at least ``low`` and at most ``high`` (None: no bound). The bitmap is not to be changed.

    The bits that both bounds have in common leave few rows, among which the others are then compared.
    """
    if high is None:
        return rows_at_least(slices, low)
    if low > high or high < 0 or low >> slices.count > 0:
        return BitMap()
    low, high = max(low, 0), min(high, (1 << slices.count) - 1)
    if low == high:
        return rows_equal(slices, low)
    free = (low ^ high).bit_length()
    loaded = slices.load(0)
    rows = _with_bits(slices, loaded, low, free)
    upper = rows & loaded[free - 1]
    lower = rows - upper
    return _at_least(lower, loaded[: free - 1], low) | (upper - _at_least(upper, loaded[: free - 1], high, above=True))


def _at_least(rows: BitMap, bits: list[BitMap], value: int, *, above: bool = False) -> BitMap:
    """Those of ``rows`` whose lower bits are at least those of ``value``; ``above``: greater."""
    equal, greater = rows, BitMap()
    for bit in reversed(range(len(bits))):
        if not equal:
            break
        if value >> bit & 1:
            equal = equal & bits[bit]
        else:
            greater |= equal & bits[bit]
            equal = equal - bits[bit]
    return greater if above else greater | equal
