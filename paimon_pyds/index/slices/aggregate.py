"""Questions about all values at once, answered by bit slices: the best rows, values of rows, how often each occurs.

After O'Neil and Quass, "Improved query performance with variant indexes" (1997). Sets of rows that are handed in or out
are not to be changed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.index.slices.slices import BitSlices

__all__ = ["best_rows", "first_of", "slice_counts", "slice_total", "slice_values"]

_FEW = 1 << 12
"""For so few rows, parts of slices around them are read, if that spares anything."""


def first_of(rows: BitMap, n: int) -> BitMap:
    """The ``n`` lowest positions, or all when there are fewer."""
    return rows if len(rows) <= n else BitMap(rows[:n])


def best_rows(slices: BitSlices, rows: BitMap, n: int, *, largest: bool, ties: bool, most: int) -> BitMap:
    """The ``n`` rows with the largest (or smallest) values among ``rows``, which all have one.

    Args:
        slices: of the values.
        rows: positions to choose from.
        n: how many.
        largest: those with the largest values; else the smallest.
        ties: take every row whose value is that of the last one, too; else the first of them by position.
        most: no row has a larger value. Rows that agree with it so far can't have a bit that it has not: such a slice
            is not read.
    """
    found, left = BitMap(), rows
    agrees, parts = largest, None
    for bit in reversed(range(slices.count)):
        if len(found) + len(left) <= n:
            break
        if agrees and not most >> bit & 1:
            continue
        if parts is None and len(left) <= _FEW:
            asked = [b for b in range(bit + 1) if not agrees or b == bit or most >> b & 1]
            near = slices.load_around(left, asked)
            parts = None if near is None else dict(zip(asked, near, strict=True))
        members = slices.one(bit) if parts is None or bit not in parts else parts[bit]
        better = left & members if largest else left - members
        if len(found) + len(better) >= n:
            left = better
        else:
            found |= better
            left, agrees = left - better, False
    return found | (left if ties else first_of(left, n - len(found)))


def slice_values(slices: BitSlices, rows: BitMap) -> npt.NDArray[np.uint64]:
    """The values of these rows, in the order of their positions."""
    positions = np.asarray(rows.to_array(), np.uint32)
    values = np.zeros(len(positions), np.uint64)
    parts = slices.load_around(rows, range(slices.count)) if len(rows) <= _FEW else None
    for bit in range(slices.count):
        members = np.asarray(((slices.one(bit) if parts is None else parts[bit]) & rows).to_array(), np.uint32)
        values[np.searchsorted(positions, members)] |= np.uint64(1 << bit)
    return values


def slice_counts(slices: BitSlices, rows: BitMap) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The distinct values of these rows, ascending, and how many rows have each. For few distinct values."""
    found: list[tuple[int, int]] = []
    _split(slices, rows, slices.count - 1, 0, found)
    pairs = np.array(found, np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1].astype(np.int64)


def _split(slices: BitSlices, rows: BitMap, bit: int, value: int, found: list[tuple[int, int]]) -> None:
    """Halve the rows bit by bit, the clear half first. As deep as there are slices: 64 at most."""
    if not rows:
        return
    if bit < 0:
        found.append((value, len(rows)))
        return
    members = slices.one(bit)
    _split(slices, rows - members, bit - 1, value, found)
    _split(slices, rows & members, bit - 1, value | 1 << bit, found)


def slice_total(slices: BitSlices, rows: BitMap) -> int:
    """The sum of the values of these rows."""
    return sum(slices.one(bit).intersection_cardinality(rows) << bit for bit in range(slices.count))
