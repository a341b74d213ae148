"""LEB128 numbers of many places at once: the encoding of Avro's and of Thrift's (compact protocol) integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_pyds.row.layout import Words

__all__ = ["LONGER", "signed", "unsigned"]

LONGER = 9
"""The size that `unsigned` tells of numbers that do not end within their word."""

_LOW_7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_STOP = np.uint64(0x8080808080808080)
_U1 = np.uint64(1)
_HAS_BITCOUNT = hasattr(np, "bitwise_count")


def unsigned(words: Words) -> tuple[Words, npt.NDArray[np.uint8]]:
    """The unsigned number that begins each word, and its bytes; of those of `LONGER` size the lowest 56 bits."""
    # The lowest byte without the continuation bit ends the number; what lies above it is cut off.
    stop = ~words & _STOP
    stop &= np.uint64(0) - stop
    group = words & (stop | (stop - _U1)) & _LOW_7
    size = (np.bitwise_count(stop - _U1) >> 3) + np.uint8(1) if _HAS_BITCOUNT else _stop_bytes(stop)
    group = ((group & np.uint64(0x7F007F007F007F00)) >> _U1) | (group & np.uint64(0x007F007F007F007F))
    group = ((group & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)) | (group & np.uint64(0x00003FFF00003FFF))
    group = ((group >> np.uint64(32)) << np.uint64(28)) | (group & np.uint64(0x0FFFFFFF))
    return group, size


def signed(numbers: Words) -> npt.NDArray[np.int64]:
    """The signed numbers behind unsigned ones (zigzag): 0, -1, 1, -2, …"""
    return (numbers >> _U1).view(np.int64) ^ -(numbers & _U1).view(np.int64)


def _stop_bytes(stop: Words) -> npt.NDArray[np.uint8]:
    """Bytes up to the one whose highest bit is set (numpy before 2.0 can't count bits)."""
    size = np.full(stop.shape, LONGER, np.uint8)
    for byte in range(8):
        size[stop == np.uint64(0x80 << (8 * byte))] = byte + 1
    return size
