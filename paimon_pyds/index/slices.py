"""Bit slices: for each bit of the rows' values, the rows that have it set. They answer =, ranges and more.

After O'Neil and Quass, "Improved query performance with variant indexes" (1997). Values are from 0 to 2^count - 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.index import roaring
from paimon_pyds.index.slice_order import RowOrder, SliceOrders
from paimon_pyds.index.source import ByteCache

__all__ = ["BitSlices", "encode_slices", "rows_at_least", "rows_between", "rows_equal"]


class BitSlices(ABC):
    """Bit slices that are read when asked for. The bitmaps given are not to be changed.

    Args:
        row_count: rows of the data file; every position in the slices is below it.
        cache: where bitmaps, and what was found in them, are kept.
    """

    def __init__(self, row_count: int, cache: ByteCache) -> None:
        self._row_count = row_count
        self._cache = cache
        self._orders = SliceOrders(row_count, cache, id(self))

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of slices."""

    @abstractmethod
    def existing(self) -> BitMap:
        """Rows that have a value."""

    @abstractmethod
    def load(self, first: int, stop: int | None = None) -> list[BitMap]:
        """The slices from ``first`` up to ``stop`` (None: all above), lowest bit first."""

    @abstractmethod
    def one(self, bit: int) -> BitMap:
        """The slice of one bit."""

    @abstractmethod
    def near(self, rows: BitMap, bits: Sequence[int]) -> dict[int, BitMap] | None:
        """The parts of these bits' slices that lie around some positions; None where whole slices cost no more."""

    def recall(self, highest: int) -> BitMap | None:
        """The rows that `remember` was given for these highest bits (below a 1, that tells how many they are), if they
        are still there."""
        found: BitMap | None = self._cache.get((id(self), "highest", highest))
        return found

    def remember(self, highest: int, rows: BitMap) -> None:
        """Keep the rows that have these highest bits, as long as there is room."""
        self._cache.put((id(self), "highest", highest), rows, _most_bytes(rows))

    def order(self) -> RowOrder | None:
        """The rows ordered by value as far as it takes; None where it isn't worth its time or memory."""
        return self._orders.get(self)


_REMEMBERED_BITS = 8
_REMEMBERED = (_REMEMBERED_BITS, 4)
"""Highest bits of a value: the rows of each combination are kept once they were found. The fewer bits spare the many
others that begin with them the steps among most rows."""

_MOST_STRETCHES = 4


def encode_slices(values: npt.NDArray[Any], count: int) -> list[bytes]:
    """The serialized bitmaps of the ``count`` lowest bits of non-negative values; rows without a value are 0."""
    encoded: list[bytes] = []
    each_byte = values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, values.itemsize)
    numbers = np.zeros(8 * roaring.whole_containers(len(values)), np.uint8)
    for byte in range(-(-count // 8)):
        numbers[: len(values)] = each_byte[:, byte]
        bits = _transposed(numbers)
        encoded += [roaring.encode_packed(bits[:, bit].copy()) for bit in range(min(8, count - 8 * byte))]
    return encoded


def _transposed(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The bits of eight numbers at a time, turned round: byte ``b`` of row ``r`` has bit ``b`` of the numbers from
    ``8 * r`` on, the first in its lowest bit.

    After Warren, "Hacker's Delight", section 7-3: a matrix of 8 x 8 bits in one word, its halves, quarters and single
    bits exchanged.
    """
    words = numbers.view("<u8").copy()
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        swapped = words >> np.uint64(shift)
        swapped ^= words
        swapped &= np.uint64(mask)
        words ^= swapped
        swapped <<= np.uint64(shift)
        words ^= swapped
    return words.view(np.uint8).reshape(-1, 8)


def _most_bytes(rows: BitMap) -> int:
    """An upper bound of what a bitmap takes in memory."""
    return 128 + 2 * len(rows) + 64 * (((rows.max() - rows.min()) >> 16) + 1 if rows else 0)


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
    return _with_bits(slices, value, 0)


def rows_between(slices: BitSlices, low: int, high: int | None) -> BitMap:
    """Rows whose value is at least ``low`` and at most ``high`` (None: no bound). The bitmap is not to be changed.

    The bits that both bounds have in common leave few rows, among which the others are then compared.
    """
    if high is None:
        return rows_at_least(slices, low)
    if low > high or high < 0 or low >> slices.count > 0:
        return BitMap()
    low, high = max(low, 0), min(high, (1 << slices.count) - 1)
    order = slices.order()
    rows = None if order is None else order.between(low, high)
    if rows is not None:
        return rows
    free, step = (low ^ high).bit_length(), max(slices.count - _REMEMBERED_BITS, 0)
    first, last = low >> step, high >> step
    if low == high:
        return rows_equal(slices, low)
    if 0 < last - first <= _MOST_STRETCHES and step:
        bits = slices.load(0, step)
        ends = _at_least(_with_bits(slices, low, step), bits, low) | _at_most(
            _with_bits(slices, high, step), bits, high
        )
        return BitMap.union(ends, *(_with_bits(slices, n << step, step) for n in range(first + 1, last)))
    rows = _with_bits(slices, low, free)
    if not rows:
        return rows
    *bits, highest = slices.load(0, free)
    upper = rows & highest
    return _at_least(rows - upper, bits, low) | _at_most(upper, bits, high)


def _with_bits(slices: BitSlices, value: int, lowest: int) -> BitMap:
    """Rows that have the bits of ``value`` from ``lowest`` up; the highest first, as few rows are left soon.

    The first steps cost most. Who asks often asks for neighbours: what those steps leave is remembered.
    """
    start = next((slices.count - bits for bits in _REMEMBERED if lowest <= slices.count - bits), None)
    if start is None:
        return _narrow(slices.existing(), slices, value, lowest, slices.count)
    highest = 1 << slices.count - start | value >> start
    rows = slices.recall(highest)
    if rows is None:
        rows = _narrow(_with_bits(slices, value, start + 1), slices, value, start, start + 1)
        slices.remember(highest, rows)
    return rows if lowest == start else _narrow(rows, slices, value, lowest, start)


def _narrow(rows: BitMap, slices: BitSlices, value: int, lowest: int, stop: int) -> BitMap:
    """Those of ``rows`` that have the bits of ``value`` from ``lowest`` up to ``stop``."""
    for bit, members in zip(reversed(range(lowest, stop)), reversed(slices.load(lowest, stop)), strict=True):
        if not rows:
            break
        rows = rows & members if value >> bit & 1 else rows - members
    return rows


def _at_least(rows: BitMap, bits: list[BitMap], value: int) -> BitMap:
    """Those of ``rows`` whose number in ``bits`` is at least that of ``value``: from the highest bit, as few are left
    soon."""
    equal, greater = rows, BitMap()
    for bit in reversed(range(len(bits))):
        if not equal:
            break
        with_bit = equal & bits[bit]
        if value >> bit & 1:
            equal = with_bit
        else:
            greater |= with_bit
            equal = equal - with_bit
    return greater | equal


def _at_most(rows: BitMap, bits: list[BitMap], value: int) -> BitMap:
    """Those of ``rows`` whose number in ``bits`` is at most that of ``value``."""
    equal, less = rows, BitMap()
    for bit in reversed(range(len(bits))):
        if not equal:
            break
        with_bit = equal & bits[bit]
        if value >> bit & 1:
            less |= equal - with_bit
            equal = with_bit
        else:
            equal = equal - with_bit
    return less | equal
