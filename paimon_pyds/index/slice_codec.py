"""Numbers to bit slices and back, eight rows and eight bits at a time; and rows in the order of their numbers.

The rows between two bounds are a few stretches of that order: only the first and the last are compared, in one step
each instead of one for each bit. A single interval is not worth ordering a million rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.base.arrays import Octets, from_numpy, keep_freed_memory, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.index.roaring.codec import encode_packed, pack_rows, whole_containers


def encode_slices(values: npt.NDArray[Any], count: int) -> list[bytes]:
    """The serialized bitmaps of the ``count`` lowest bits of non-negative values; rows without a value are 0."""
    encoded: list[bytes] = []
    each_byte = values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, values.itemsize)
    numbers = np.zeros(8 * whole_containers(len(values)), np.uint8)
    for byte in range(-(-count // 8)):
        numbers[: len(values)] = each_byte[:, byte]
        bits = _transposed(numbers)
        encoded += [encode_packed(bits[:, bit].copy()) for bit in range(min(8, count - 8 * byte))]
    return encoded


def numbers_of(
    slices: Sequence[BitMap], row_count: int, kind: type[np.unsignedinteger[Any]]
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The number that the slices, lowest bit first, give each row; ``kind`` has a bit for each, and rows in none are
    0."""
    packed_bytes = whole_containers(row_count)
    dtype = np.dtype(kind).newbyteorder("<")
    each_byte = np.zeros((8 * packed_bytes, dtype.itemsize), np.uint8)
    for byte in range(-(-len(slices) // 8)):
        bits = np.zeros((packed_bytes, 8), np.uint8)
        for place, members in enumerate(slices[8 * byte : 8 * byte + 8]):
            bits[:, place] = pack_rows(members, row_count)
        each_byte[:, byte] = _transposed(bits.reshape(-1)).reshape(-1)
    return each_byte.view(dtype).reshape(-1)[:row_count]


def _transposed(numbers: Octets) -> Octets:
    """The bits of eight numbers at a time, turned round: byte ``b`` of row ``r`` has bit ``b`` of the numbers from
    ``8 * r`` on, the first in its lowest bit. It is its own inverse.

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


_FEW_ROWS = 1 << 15
"""Rows of a stretch above which slices find the values between two bounds faster."""

Numbers = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows that have a value, by its highest bits and then by position.

    The rows whose highest bits are ``n`` are ``rows[starts[n]:starts[n + 1]]``; ``low_bits`` are their ``bits`` others.
    """

    rows: npt.NDArray[np.uint32]
    low_bits: Numbers
    starts: list[int]
    bits: int

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.low_bits.nbytes + 40 * len(self.starts)

    def between(self, low: int, high: int) -> BitMap | None:
        """Rows whose value is at least ``low`` and at most ``high``, neither beyond the slices; None where many rows
        have the highest bits of one between them."""
        first, last = low >> self.bits, high >> self.bits
        begin, end = self.starts[first], self.starts[last + 1]
        if end - begin > _FEW_ROWS:
            return None
        below = (1 << self.bits) - 1
        least, most, kind = low & below, high & below, self.low_bits.dtype.type
        if first == last:  # numbers below ``least`` wrap round and become greater than any other
            inside = self.low_bits[begin:end] - kind(least) <= kind(most - least)
            found = self.rows[begin:end].compress(inside)
        else:
            middle, after = self.starts[first + 1], self.starts[last]
            head = self.rows[begin:middle].compress(self.low_bits[begin:middle] >= kind(least))
            tail = self.rows[after:end].compress(self.low_bits[after:end] <= kind(most))
            found = np.concatenate([head, self.rows[middle:after], tail])
        found.sort()  # it takes less time than is spared then
        return bitmap_of(found)


def order_rows(existing: BitMap, high: Sequence[BitMap], low: Sequence[BitMap], row_count: int) -> RowOrder:
    """The rows that have a value, by their highest bits.

    ``existing``: these rows. ``high``: the slices of the highest bits, lowest first; 8 at most. ``low``: those of the
    others; 32 at most.
    """
    keep_freed_memory()
    highest = numbers_of(high, row_count, np.uint8)
    present: npt.NDArray[np.uint32] | None = None
    if len(existing) < row_count:
        present = np.frombuffer(existing.to_array(), np.uint32)
        highest = highest.take(present)
    counts = sum(
        np.bincount(part, minlength=1 << len(high)) for part in np.array_split(highest, 1 + len(highest) // _FEW_ROWS)
    )
    places = pc.array_sort_indices(from_numpy(highest))  # rows that have the same bits stay in their order
    rows = to_numpy(places).astype(np.uint32)
    if present is not None:
        rows = present.take(rows)
    low_bits = numbers_of(low, row_count, np.uint16 if len(low) <= 16 else np.uint32).take(rows)
    return RowOrder(rows, low_bits, [0, *np.cumsum(counts).tolist()], len(low))
