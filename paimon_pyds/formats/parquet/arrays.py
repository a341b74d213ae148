"""From what pyarrow decodes to the Arrow types of Paimon's columns.

INT96 timestamps (twelve bytes: nanoseconds of the day, Julian day) are decoded as fixed-size binary, because pyarrow's own
conversion either wraps around outside 1677 to 2262 or drops nanoseconds; here each column gets its own unit, and a value
that does not fit is an error. Source: apache/parquet-format, LogicalTypes.md; parquet-mr's NanoTime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError, UnsupportedError

__all__ = ["INT96_WIDTH", "conform", "conform_batch"]

INT96_WIDTH = 12
_JULIAN_EPOCH = 2_440_588
_DAY_MICROS = 86_400_000_000
_INT96 = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_NANO_LIMIT = 9_223_372_036_854_775
"""Microseconds: the last whole one before nanoseconds since 1970 leave 64 bits."""


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


def conform(array: pa.Array, type_: pa.DataType, column: str, path: str) -> pa.Array:
    """``array`` as ``type_``; nested types are rebuilt around their converted children."""
    if array.type.equals(type_, check_metadata=True):
        return array
    if pa.types.is_timestamp(type_) and _is_int96(array.type):
        return _from_int96(array, type_, column, path)
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_, column, path)
    if pa.types.is_map(type_) and pa.types.is_map(array.type):
        entries = pa.struct([type_.key_field, type_.item_field])
        pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])
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
    if _UNITS.index(unit) > _UNITS.index(type_.unit):  # a finer unit in the file is cut, as Java does
        array = pc.floor_temporal(array, unit=_UNIT_NAMES[type_.unit])
    return array.cast(pa.timestamp(type_.unit)).view(type_)


_UNITS = ("s", "ms", "us", "ns")
_UNIT_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _conform_struct(array: pa.StructArray, type_: pa.StructType, column: str, path: str) -> pa.Array:
    if array.type.num_fields != type_.num_fields:
        raise CorruptFileError(f"column {column!r} holds {array.type}, the schema says {type_}", path=path)
    fields = [type_.field(i) for i in range(type_.num_fields)]
    children = [conform(array.field(i), f.type, f"{column}.{f.name}", path) for i, f in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _around(array: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """The list or map with the same validity and offsets, around another child."""
    buffers: Sequence[pa.Buffer | None] = array.buffers()[:2]
    return pa.Array.from_buffers(type_, len(array), buffers, array.null_count, array.offset, [child])


# ------------------------------------------------------------------------------------------------------------ INT96


def _is_int96(type_: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(type_)) and type_.byte_width == INT96_WIDTH


def _from_int96(array: pa.FixedSizeBinaryArray, type_: pa.TimestampType, column: str, path: str) -> pa.Array:
    count = len(array)
    data = array.buffers()[1]
    if data is None or not count:
        return pa.nulls(count, type_)
    raw = np.frombuffer(data, _INT96, count=count, offset=array.offset * INT96_WIDTH)
    nulls = np.asarray(array.is_null()) if array.null_count else None
    nanos, days = raw["nanos"].copy(), raw["day"].astype(np.int64)
    if nulls is not None:  # what stands under a NULL is not a value
        nanos[nulls], days[nulls] = 0, _JULIAN_EPOCH
    micros = (days - _JULIAN_EPOCH) * _DAY_MICROS + nanos // 1000
    values = _in_unit(micros, nanos % 1000, type_.unit, column, path)
    return pa.array(values, pa.int64(), mask=nulls).view(type_)


def _in_unit(
    micros: npt.NDArray[np.int64], rest: npt.NDArray[np.int64], unit: str, column: str, path: str
) -> npt.NDArray[np.int64]:
    if unit == "us":
        return micros
    if unit in ("ms", "s"):
        return micros // (1000 if unit == "ms" else 1_000_000)
    outside = (micros > _NANO_LIMIT) | (micros < -_NANO_LIMIT)
    if outside.any():
        day = np.datetime64(int(micros[outside][0]), "us")
        raise UnsupportedError(
            f"column {column!r} holds the timestamp {day}; with nanoseconds only 1677-09-22 to 2262-04-11 can be read",
            path=path,
            hint="read the other columns, or change the column to TIMESTAMP(6)",
        )
    return micros * 1000 + rest
