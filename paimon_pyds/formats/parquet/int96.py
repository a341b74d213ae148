"""INT96 timestamps: twelve bytes, nanoseconds of the day and Julian day.

pyarrow's own conversion either wraps around outside 1677 to 2262 or drops nanoseconds, for all columns of a file alike.
So pyarrow is told that they are twelve bytes of no meaning, and each column gets its own unit here; a value that does
not fit is an error. When writing, only the columns with nanoseconds become INT96: pyarrow would make all timestamps of
a file INT96, and Java Paimon then fails on a filter on the coarser ones. They are written as twelve bytes, and the
footer says what they are.

Source: apache/parquet-format, Encodings.md and LogicalTypes.md; parquet-mr's NanoTime.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import to_numpy
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.formats.nested import rebuild
from paimon_pyds.formats.parquet.footer import require
from paimon_pyds.formats.parquet.thrift import I32, LIST, STRUCT, Struct, decode_struct, encode_struct

__all__ = [
    "FIXED",
    "INT96",
    "as_fixed",
    "footer_without_int96",
    "int96_leaves",
    "is_int96_bytes",
    "stored_schema",
    "timestamp_bytes",
    "timestamps",
    "with_int96",
]

INT96, FIXED = 3, 7
"""Parquet's numbers of these physical types."""
_WIDTH = 12
_JULIAN_EPOCH = 2_440_588
_DAY_MICROS = 86_400_000_000
_PARTS = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_NANO_LIMIT = 9_223_372_036_854_775
"""Microseconds: the last whole one before nanoseconds since 1970 leave 64 bits."""


def as_fixed(element: Struct) -> Struct:
    """A schema element with INT96 told as fixed-length bytes; any other as it is."""
    if element.get(1) != (I32, INT96):
        return element
    kept = {i: f for i, f in element.items() if i in (3, 4, 9)}  # repetition, name, field id
    return {1: (I32, FIXED), 2: (I32, _WIDTH), **kept}


def footer_without_int96(footer: bytes) -> bytes:
    """The same footer with every INT96 column told as fixed-length bytes, and without key-value metadata.

    Raises:
        CorruptFileError: a required field is missing or of another type.
    """
    meta, _ = decode_struct(footer)
    meta[2] = (LIST, (STRUCT, [as_fixed(e) for e in _structs(meta, 2, "schema")]))
    for group in _structs(meta, 4, "row_groups"):
        for chunk in _structs(group, 1, "columns"):
            column = require(chunk, 3, STRUCT, "ColumnChunk.meta_data")
            if column.get(1) == (I32, INT96):
                column[1] = (I32, FIXED)
                column.pop(12, None)  # statistics: their order is undefined
    meta.pop(5, None)
    return encode_struct(meta)


def _structs(fields: Struct, field_id: int, name: str) -> list[Struct]:
    element, values = require(fields, field_id, LIST, name)
    if values and element != STRUCT:
        raise CorruptFileError("not a list of structs", field=name)
    return values  # type: ignore[no-any-return]


def is_int96_bytes(type_: pa.DataType) -> bool:
    """Whether pyarrow's type is what INT96 is told as."""
    return bool(pa.types.is_fixed_size_binary(type_)) and type_.byte_width == _WIDTH


def timestamps(
    array: pa.FixedSizeBinaryArray,
    type_: pa.TimestampType,
    column: str,
    path: str,
    around: pa.BooleanArray | None = None,
) -> pa.Array:
    """The timestamps in twelve-byte values; a unit coarser than nanoseconds is cut towards the past.

    Where ``around`` is false, no value is wanted: the struct that the array is in is NULL there.

    Raises:
        UnsupportedError: a value outside what nanoseconds since 1970 can hold in 64 bits.
    """
    count = len(array)
    data = array.buffers()[1]
    if data is None or not count:
        return pa.nulls(count, type_)
    raw = np.frombuffer(data, _PARTS, count=count, offset=array.offset * _WIDTH)
    nulls = np.asarray(array.is_null()) if array.null_count else None
    nanos, days = raw["nanos"].copy(), raw["day"].astype(np.int64)
    for void in (nulls, None if around is None else ~to_numpy(around)):
        if void is not None:  # what stands under a NULL is no value
            nanos[void], days[void] = 0, _JULIAN_EPOCH
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
    outside = (micros >= _NANO_LIMIT) | (micros <= -_NANO_LIMIT)
    if outside.any():
        first = np.datetime64(int(micros[outside][0]), "us")
        raise UnsupportedError(
            f"column {column!r} holds the timestamp {first}; with nanoseconds, 1677-09-21 to 2262-04-11 can be read",
            path=path,
            hint="read the other columns, or change the column to TIMESTAMP(6)",
        )
    return micros * 1000 + rest


# --------------------------------------------------------------------------------------------------------- writing


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with nanosecond timestamps, at any depth, as twelve bytes."""
    return pa.schema([_stored_field(f) for f in schema])


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(_stored_type(field.type))


def _stored_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return pa.binary(_WIDTH)
    if pa.types.is_struct(type_):
        return pa.struct([_stored_field(type_.field(i)) for i in range(type_.num_fields)])
    if pa.types.is_map(type_):
        return pa.map_(_stored_field(type_.key_field), _stored_field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_stored_field(type_.value_field))
    return type_


def timestamp_bytes(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array in its stored type (`stored_schema`)."""
    if array.type == type_:
        return array
    if pa.types.is_struct(type_):
        children = [timestamp_bytes(array.field(i), type_.field(i).type) for i in range(type_.num_fields)]
        kept = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little")) if array.null_count else None
        return pa.Array.from_buffers(type_, len(array), [kept], array.null_count, children=children)
    if pa.types.is_map(type_):
        entries = pa.StructArray.from_arrays(
            [timestamp_bytes(array.keys, type_.key_type), timestamp_bytes(array.items, type_.item_type)],
            fields=[type_.key_field, type_.item_field],
        )
        return rebuild(array, type_, [entries])
    if pa.types.is_list(type_):
        return rebuild(array, type_, [timestamp_bytes(array.values, type_.value_type)])
    return _bytes_of_nanos(array)


def _bytes_of_nanos(array: pa.Array) -> pa.Array:
    values = np.asarray(array.view(pa.int64()).fill_null(0)).astype(np.int64, copy=False)
    days = values // (_DAY_MICROS * 1000)
    parts = np.empty(len(values), _PARTS)
    parts["nanos"] = values - days * (_DAY_MICROS * 1000)
    parts["day"] = days + _JULIAN_EPOCH
    valid = None
    if array.null_count:
        valid = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
    return pa.Array.from_buffers(pa.binary(_WIDTH), len(array), [valid, pa.py_buffer(parts)], array.null_count)


def int96_leaves(elements: list[Struct]) -> list[bool]:
    """For each leaf of a written schema, whether it is a timestamp told as twelve bytes.

    Nothing else is written as twelve bytes without a logical type: decimals have one, BINARY has no fixed length.
    """
    return [_is_told_as_bytes(e) for e in elements if 5 not in e]


def _is_told_as_bytes(element: Struct) -> bool:
    return element.get(1) == (I32, FIXED) and element.get(2) == (I32, _WIDTH) and 6 not in element and 10 not in element


def with_int96(element: Struct) -> Struct:
    """A schema element that is a timestamp told as twelve bytes, as INT96; any other as it is."""
    if 5 in element or not _is_told_as_bytes(element):
        return element
    return {1: (I32, INT96), **{i: f for i, f in element.items() if i in (3, 4, 9)}}
