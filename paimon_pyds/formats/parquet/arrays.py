"""From what pyarrow decodes to the Arrow types of Paimon's columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.int96 import is_int96_bytes, timestamps
from paimon_pyds.types import UNIT_DIGITS

__all__ = ["all_but", "conform", "conform_batch", "rows_at_once", "without_rows"]

_FILTERED_BATCHES = 4
_FILTERED_BYTES = 16 << 20
"""What rows are left out of at a time: several batches, within so many bytes; more calls of Arrow would cost more."""
_UNIT_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """The batch's columns, taken in order, as the columns of ``schema``.

    Raises:
        CorruptFileError: a column can't be that type.
        UnsupportedError: a timestamp outside what Arrow's nanoseconds can hold.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = [conform(c, f.type, f.name, path) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform(
    array: pa.Array, type_: pa.DataType, column: str, path: str, around: pa.BooleanArray | None = None
) -> pa.Array:
    """``array`` as ``type_``; nested types are rebuilt around their converted children.

    Where ``around`` is false, the struct that holds the array is NULL, and what the array holds is no value.
    """
    if array.type.equals(type_, check_metadata=True):
        return array
    if pa.types.is_timestamp(type_) and is_int96_bytes(array.type):
        return timestamps(array, type_, column, path, around)
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_, column, path, around)
    if pa.types.is_map(type_) and pa.types.is_map(array.type):
        entries = pa.struct([type_.key_field, type_.item_field])
        # Names inside a map say nothing: other writers have others.
        named = [type_.key_field.with_type(array.type.key_type), type_.item_field.with_type(array.type.item_type)]
        pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=named)
        return _around(array, type_, conform(pairs, entries, column, path))
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        return _around(array, type_, conform(array.values, type_.value_type, column, path))
    try:
        return _cast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptFileError(
            f"column {column!r} holds {array.type}, the schema says {type_}: {error}", path=path
        ) from error


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if not (pa.types.is_timestamp(type_) and pa.types.is_timestamp(array.type)):
        return array.cast(type_)
    unit = array.type.unit
    array = array.view(pa.timestamp(unit))  # the zone is a label: the number counts from the epoch in UTC
    if UNIT_DIGITS[unit] > UNIT_DIGITS[type_.unit]:  # a finer unit in the file is cut, as Java does
        array = pc.floor_temporal(array, unit=_UNIT_NAMES[type_.unit])
    return array.cast(pa.timestamp(type_.unit)).view(type_)


def _conform_struct(
    array: pa.StructArray, type_: pa.StructType, column: str, path: str, around: pa.BooleanArray | None
) -> pa.Array:
    fields = [type_.field(i) for i in range(type_.num_fields)]
    if [array.type.field(i).name for i in range(array.type.num_fields)] != [f.name for f in fields]:
        raise CorruptFileError(f"column {column!r} holds {array.type}, the schema says {type_}", path=path)
    if array.null_count:
        around = array.is_valid() if around is None else pc.and_(around, array.is_valid())
    children = [conform(array.field(i), f.type, f"{column}.{f.name}", path, around) for i, f in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _around(array: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """The list or map with the same validity and offsets, around another child."""
    buffers: Sequence[pa.Buffer | None] = array.buffers()[:2]
    return pa.Array.from_buffers(type_, len(array), buffers, array.null_count, array.offset, [child])


def all_but(dropped: npt.NDArray[np.int64], rows: int) -> pa.BooleanArray:
    """Which of ``rows`` rows are kept: all but those of these numbers (ascending, each below ``rows``)."""
    keep = np.ones(rows, np.bool_)
    keep[dropped] = False
    # Arrow would take several times as long to make bits of the flags.
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(np.packbits(keep, bitorder="little"))])


def rows_at_once(batch_rows: int, rows: int, size: int) -> int:
    """Of how many rows `without_rows` gets batches, where ``batch_rows`` are given out at a time.

    ``rows`` rows have ``size`` bytes in the file before compression.
    """
    return max(batch_rows, min(_FILTERED_BATCHES * batch_rows, _FILTERED_BYTES * rows // max(1, size)))


def without_rows(batch: pa.RecordBatch, keep: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of the batch for which ``keep`` is true; as long as the batch, without nulls."""
    if keep.true_count == batch.num_rows:
        return batch
    # Column by column: for a whole batch Arrow would make row numbers of the mask first.
    columns = [_without_bitmap(column).filter(keep) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _without_bitmap(array: pa.Array) -> pa.Array:
    """Without the bitmap of nulls, when there are none: flat columns then take Arrow a third of the time to filter."""
    if array.null_count or not _is_flat(array.type):
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _is_flat(type_: pa.DataType) -> bool:
    kinds = pa.types
    checks = (kinds.is_primitive, kinds.is_decimal, kinds.is_string, kinds.is_binary, kinds.is_fixed_size_binary)
    return any(check(type_) for check in checks)
