"""Aggregate functions of serialized sets: unions of bitmaps (rbm32, rbm64), and of Apache DataSketches (theta_sketch,
hll_sketch), which need the package datasketches, that is not installed with this one.

A set that is the only one that is not NULL stays as it is, and is not looked at by a merge. (Java: classes
FieldRoaringBitmap32Agg, FieldRoaringBitmap64Agg, FieldThetaSketchAgg and FieldHllSketchAgg.) So bytes that are no set
are refused when they come in: with another value of their key, every later read of it would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, from_numpy, pc
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap
from paimon_pyds.index.roaring.java64 import decode_java64, encode_java64
from paimon_pyds.keys.merge.grouped_rows import GroupedRows, is_valid, take_or_null


def merge_bytes(
    values: pa.Array, rows: GroupedRows, column: str, merge: Callable[[Sequence[bytes]], bytes]
) -> pa.Array:
    """One value for each group: what ``merge`` makes of those that are not NULL, from the oldest to the newest.
    ``merge``: of two values or more.
    Raises CorruptFileError: ``merge`` does not know its bytes."""
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


def check_sets(values: pa.Array, column: str, function: str, path: str | None = None) -> None:
    """Refuse values that later merges could not unite. ``values``: bytes. ``function``: one of `SET_FUNCTIONS`.

    Raises:
        SchemaError: one is no set of this kind; ``row`` is its position.
        UnsupportedError: the package datasketches is not there.
    """
    what, load = SET_FUNCTIONS[function]
    decode = load()
    for value in values.unique():  # each once: decoding costs up to 20 µs; and one at a time, as they may be large
        try:
            if value.is_valid:
                decode(value.as_py())
        except _NOT_A_SET as error:
            from paimon_pyds.base.types.unfit_values import shown

            row = pc.index(values, value).as_py()
            reason = error.message if isinstance(error, CorruptFileError) else error
            refused = SchemaError(
                f"{shown(values, row)} is no {what}, which column {column!r} takes ({function}): {reason}",
                path=path,
                hint="give it serialized, as this function merges it; nothing at all is NULL",
            )
            refused.row = row
            raise refused from None


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


_Merge = Callable[[Sequence[bytes]], bytes]
_BAD_BYTES = (ValueError, IndexError, OverflowError, RuntimeError, MemoryError)
"""What the library raises for bytes that are no sketch."""
_NOT_A_SET = (CorruptFileError, *_BAD_BYTES)
SET_FUNCTIONS: dict[str, tuple[str, Callable[[], Callable[[bytes], object]]]] = {
    "rbm32": ("serialized RoaringBitmap", lambda: decode_bitmap),
    "rbm64": ("serialized Roaring64Bitmap of Java", lambda: decode_java64),
    "theta_sketch": ("theta sketch", lambda: _library("theta_sketch").compact_theta_sketch.deserialize),
    "hll_sketch": ("HLL sketch", lambda: _library("hll_sketch").hll_sketch.deserialize),
}
"""For each function the name of its values, and a function that decodes one."""


def theta_union() -> _Merge:
    """What unites theta sketches of the default seed into one of at most 4,096 entries, compact and ordered.
    Raises UnsupportedError: the package datasketches is not there; so does `hll_union`."""
    library = _library("theta_sketch")

    def merge(sketches: Sequence[bytes]) -> bytes:
        union = library.theta_union()
        try:
            for sketch in sketches:
                union.update(library.compact_theta_sketch.deserialize(sketch))
        except _BAD_BYTES as error:
            raise CorruptFileError(f"not a theta sketch: {error}") from None
        return bytes(union.get_result().serialize())

    return merge


def hll_union() -> _Merge:
    """A function that unites HLL sketches into one of type HLL_4; each newer sketch sets the greatest size of the
    result."""
    library = _library("hll_sketch")

    def merge(sketches: Sequence[bytes]) -> bytes:
        try:
            united, *newer = [library.hll_sketch.deserialize(sketch) for sketch in sketches]
            for sketch in newer:
                union = library.hll_union(sketch.lg_config_k)
                union.update(sketch)
                union.update(united)
                united = union.get_result(library.tgt_hll_type.HLL_4)
        except _BAD_BYTES as error:
            raise CorruptFileError(f"not an HLL sketch: {error}") from None
        return bytes(united.serialize_compact())

    return merge


def _library(function: str) -> ModuleType:
    try:
        import datasketches
    except ImportError:
        raise UnsupportedError(
            f"the aggregate function {function} needs the package datasketches", hint="pip install datasketches"
        ) from None
    return datasketches  # type: ignore[no-any-return]
