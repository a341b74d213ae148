"""The aggregate functions rbm32 and rbm64: unions of serialized bitmaps, one call of pyroaring for each group.

A bitmap that is the only one that is not NULL stays as it is, and is not looked at. (Java: classes
FieldRoaringBitmap32Agg and FieldRoaringBitmap64Agg.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.buffers import array, from_numpy
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.merge.grouped_rows import GroupedRows, is_valid, take_or_null
from paimon_pyds.roaring.codec import decode_bitmap, encode_bitmap
from paimon_pyds.roaring.java64 import decode_java64, encode_java64


def merge_bytes(
    values: pa.Array, rows: GroupedRows, column: str, merge: Callable[[Sequence[bytes]], bytes]
) -> pa.Array:
    """One value for each group: what ``merge`` makes of those that are not NULL, from the oldest to the newest.

    Args:
        values: of all groups.
        rows: their groups.
        column: for errors.
        merge: of two values or more.

    Raises:
        CorruptFileError: ``merge`` does not know its bytes.
    """
    there = np.flatnonzero(is_valid(values))
    group = rows.group[there]
    lengths = np.bincount(group, minlength=rows.count)
    alone = take_or_null(values, rows.first(there))
    several = np.flatnonzero(lengths > 1)
    if not len(several):
        return alone
    starts = np.searchsorted(group, several)
    merged = []
    for start, length in zip(starts.tolist(), lengths[several].tolist(), strict=True):
        try:
            merged.append(merge(values.take(from_numpy(there[start : start + length])).to_pylist()))
        except CorruptFileError as error:
            raise CorruptFileError(f"column {column}: {error.message}") from error
    at = np.arange(rows.count)
    at[several] = rows.count + np.arange(len(several))
    return pa.concat_arrays([alone, array(merged, values.type)]).take(from_numpy(at))


def union32(bitmaps: Sequence[bytes]) -> bytes:
    """The union of sets of 32-bit integers, in the portable format. Raises CorruptFileError."""
    return encode_bitmap(BitMap.union(*[decode_bitmap(bitmap) for bitmap in bitmaps]))


def union64(bitmaps: Sequence[bytes]) -> bytes:
    """The union of sets of 64-bit integers, as Java's Roaring64Bitmap serializes them. Raises CorruptFileError."""
    found: dict[int, BitMap] = {}
    for bitmap in bitmaps:
        for high, low in decode_java64(bitmap).items():
            found[high] = found[high] | low if high in found else low
    return encode_java64(found)
