"""Bit slices turned round: the number that the lowest bits make of each row, once slices are asked often.

Among the few rows that have the highest bits of a bound, looking up their numbers takes one step, and comparing slice
by slice one for each bit. Who asks once is not made to pay for turning a million rows round.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.index.source import ByteCache

if TYPE_CHECKING:
    from paimon_pyds.index.slices import BitSlices

__all__ = ["SliceNumbers", "rows_within"]

_AFTER = 64
"""So many questions are answered before the numbers are made: it takes as long as about 200 of them."""

_SHARE = 8
"""The numbers take no more of the cache than one part in so many."""

Numbers = npt.NDArray[np.unsignedinteger[Any]]


class SliceNumbers:
    """The lowest bits of the rows of some slices as numbers, kept in a cache that is bounded in bytes.

    Args:
        row_count: rows of the data file; every position in the slices is below it.
        cache: where the numbers are kept.
        owner: what tells these slices from the others in the cache.
    """

    def __init__(self, row_count: int, cache: ByteCache, owner: int) -> None:
        self._row_count = row_count
        self._cache = cache
        self._owner = owner
        self._asked = 0

    def get(self, slices: BitSlices, bits: int) -> Numbers | None:
        """The number in the ``bits`` lowest slices of each row; None where slices are not asked often, or it would
        take too much memory. Raises CorruptFileError as reading the slices does."""
        key = (self._owner, "numbers", bits)
        numbers: Numbers | None = self._cache.get(key)
        if numbers is not None:
            return numbers
        kind = np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.uint64
        size = self._row_count * np.dtype(kind).itemsize
        self._asked += 1
        if self._asked <= _AFTER or size > self._cache.capacity // _SHARE:
            return None
        self._asked = 0
        numbers = np.zeros(self._row_count, kind)
        one: Numbers = np.zeros(self._row_count, kind)
        for bit, members in enumerate(slices.load(0, bits)):
            one.fill(0)
            one[_positions(members)] = 1 << bit
            np.bitwise_or(numbers, one, out=numbers)
        self._cache.put(key, numbers, size)
        return numbers


def rows_within(rows: BitMap, numbers: Numbers, least: int, most: int) -> BitMap:
    """Those of a few rows whose number is at least ``least`` and at most ``most``."""
    if not rows:
        return rows
    kind, positions = numbers.dtype.type, _positions(rows)
    above = numbers.take(positions) - kind(least)  # what lies below wraps round, to more than any number
    kept = positions.compress(above <= kind(most - least))
    return BitMap(array("I", kept.tobytes()))  # several times quicker than from a numpy array


def _positions(rows: BitMap) -> npt.NDArray[np.uint32]:
    return np.frombuffer(rows.to_array(), np.uint32)
