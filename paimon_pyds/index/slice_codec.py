"""Numbers to bit slices and back, eight rows and eight bits at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.roaring.codec import encode_packed, pack_rows, whole_containers


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
    """What the slices, lowest bit first, make of each row; ``kind`` has a bit for each, and rows in none are 0."""
    packed_bytes = whole_containers(row_count)
    dtype = np.dtype(kind).newbyteorder("<")
    each_byte = np.zeros((8 * packed_bytes, dtype.itemsize), np.uint8)
    for byte in range(-(-len(slices) // 8)):
        bits = np.zeros((packed_bytes, 8), np.uint8)
        for place, members in enumerate(slices[8 * byte : 8 * byte + 8]):
            bits[:, place] = pack_rows(members, row_count)
        each_byte[:, byte] = _transposed(bits.reshape(-1)).reshape(-1)
    return each_byte.view(dtype).reshape(-1)[:row_count]


def _transposed(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
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
