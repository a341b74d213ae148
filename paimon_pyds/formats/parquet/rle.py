"""Parquet's values at chosen places, without decoding the others: hybrid runs, and values of PLAIN.

Source: apache/parquet-format, Encodings.md (PLAIN, RLE / bit-packing hybrid).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.thrift import varint

__all__ = ["binary_bounds", "binary_stride", "hybrid_at"]

_Int64s = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_MOST_RUNS = 8
"""Runs of a page beyond which walking over them costs more than decoding the page."""
_MOST_BITS = 32
_MOST_BYTES = 1 << 30


def hybrid_at(data: bytes | memoryview, width: int, count: int, wanted: _Int64s) -> _Int64s | None:
    """The numbers at the places ``wanted`` of ``count`` numbers in runs; None for too many runs.

    Args:
        data: runs, and maybe more bytes.
        width: bits of a number, at most 32.
        count: of numbers.
        wanted: which ones, each below ``count``.

    Raises:
        CorruptFileError: the runs end early, or claim no numbers.
    """
    if not 0 <= width <= _MOST_BITS:
        raise CorruptFileError(f"numbers of {width} bits", field="bit width")
    starts: list[int] = []
    places: list[int] = []
    packed: list[bool] = []
    row = position = 0
    value_bytes = (width + 7) // 8
    octets = np.frombuffer(data, np.uint8)
    try:
        while row < count:
            head, position = varint(data, position)  # type: ignore[arg-type]
            length, is_packed = (head >> 1) * (8 if head & 1 else 1), bool(head & 1)
            if not length:
                raise CorruptFileError("a run of no numbers", offset=position, field="run")
            if len(starts) == _MOST_RUNS:
                return None
            size = (head >> 1) * width if is_packed else value_bytes
            alike, stride, first = 1, size + 1, position
            if not is_packed:
                first = int.from_bytes(data[position : position + size], "little")
            elif head < 0x80 and count - row >= 2 * length:
                alike = _alike(octets[position - 1 :: stride][: (count - row) // length])
                if not row and len(wanted) and wanted.max() < alike * length:  # the usual page: no other runs matter
                    run = wanted // length
                    return _bits(data, 8 * (position + run * stride) + (wanted - run * length) * width, width)
            starts.extend(range(row, row + alike * length, length))
            places.extend(range(first, first + alike * stride, stride))
            packed.extend([is_packed] * alike)
            row, position = row + alike * length, position + alike * stride - 1
    except IndexError:
        raise CorruptFileError("runs that end early", offset=position, field="run") from None
    if position > len(data):
        # A last packed run may leave out the bytes of numbers that fill it up to eight.
        missing, spare = position - len(data), ((row - count) * width) // 8
        if not packed[-1] or missing > spare:
            raise CorruptFileError("runs that end early", offset=position, field="run")
    if not starts:
        return np.zeros(len(wanted), np.int64)
    return _values(data, width, wanted, np.array(starts), np.array(places), np.array(packed))


def _alike(heads: npt.NDArray[np.uint8]) -> int:
    """How many of these equal the first, one after the other: runs of one length follow each other at one distance."""
    other = heads != heads[0]
    return int(np.argmax(other)) if other.any() else len(heads)


def _values(
    data: bytes | memoryview,
    width: int,
    wanted: _Int64s,
    starts: _Int64s,
    places: _Int64s,
    packed: npt.NDArray[np.bool_],
) -> _Int64s:
    if len(starts) == 1 and not packed[0]:
        return np.full(len(wanted), places[0])
    run = np.searchsorted(starts, wanted, side="right") - 1
    is_packed = packed[run]
    result: _Int64s = places[run]
    result[is_packed] = _bits(data, (wanted - starts[run])[is_packed] * width + 8 * result[is_packed], width)
    return result


def _bits(data: bytes | memoryview, first: _Int64s, width: int) -> _Int64s:
    """The numbers of ``width`` bits that begin at these bits, counted from the lowest of the first byte."""
    if len(data) < 8:
        data = bytes(data) + bytes(8)
    words = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))  # those at every byte
    at = np.minimum(first >> 3, len(words) - 1)
    numbers = (words[at] >> (first - 8 * at).astype(np.uint64)) & np.uint64((1 << width) - 1)
    result: _Int64s = numbers.astype(np.int64)
    return result


def binary_stride(data: bytes | memoryview, count: int) -> int:
    """Bytes of each of ``count`` PLAIN byte arrays with its length before it, when all are of one length; else 0."""
    stride, rest = divmod(len(data), max(count, 1))
    if rest or stride < 4 or len(data) > _MOST_BYTES:
        return 0
    lengths = np.ndarray((count,), "<u4", data, 0, (stride,))
    return stride if bool((lengths == stride - 4).all()) else 0


def binary_bounds(data: bytes | memoryview, count: int) -> npt.NDArray[np.int32] | None:
    """Where each of ``count`` PLAIN byte arrays, its length before it, begins; and the end of the last.

    None where that needs a walk over all of them. Texts of 1 to 255 bytes without a NUL need none: three NULs are found
    in lengths only. The chain of lengths proves what was found.
    """
    size = len(data)
    if size < 4 or size > _MOST_BYTES:
        return None
    octets = np.frombuffer(data, np.uint8)
    zero = octets == 0
    at = np.flatnonzero(zero[1:-2] & zero[2:-1] & zero[3:])
    if len(at) != count:
        return None
    bounds = np.append(at, size)
    if not count or at[0] or bool((bounds[1:] - at != 4 + octets[at].astype(np.int64)).any()):
        return None
    return bounds.astype(np.int32)
