"""Conversion of pyarrow's decoded types to the Arrow types of Paimon's columns, and back for INT96.

INT96 timestamps are twelve bytes: nanoseconds of the day and Julian day. pyarrow's own conversion either wraps around
outside 1677 to 2262 or drops nanoseconds, for all columns of a file alike. So pyarrow reads them as twelve bytes of no
meaning, and each column gets its own unit here; a value that does not fit is an error. When writing, only the columns
with nanoseconds become INT96: pyarrow would make all timestamps of a file INT96, and Java Paimon then fails on a filter
on the coarser ones. They are written as twelve bytes, and the footer says what they are.

Source: apache/parquet-format, Encodings.md and LogicalTypes.md; parquet-mr's NanoTime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, is_true, pc, to_numpy, validity
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types.arrow import is_variant
from paimon_pyds.base.types.kinds import UNIT_DIGITS
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError
from paimon_pyds.format.batches import rebuild
from paimon_pyds.format.parquet.footer import Chunk, require
from paimon_pyds.format.parquet.thrift import I32, LIST, STRUCT, Struct, decode_struct, encode_struct

_FILTERED_BATCHES = 4
_FILTERED_BYTES = 16 << 20
"""Batches, and bytes of them, that are filtered at a time: each call of Arrow has a cost of its own."""
_LEAST_VALUE_BYTES = 4
_GROWTH = 64
"""Greatest growth from one batch to the next, for rows whose length the footer does not have."""
_BYTE_ARRAY = 6
_SHORTENING = frozenset({2, 7, 8})
"""Encodings by which texts that are alike take fewer bytes: both of dictionaries, and DELTA_BYTE_ARRAY."""
_UNIT_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
INT96, FIXED = 3, 7
"""Parquet's numbers of these physical types."""
INT96_BYTES = 12
"""Bytes of an INT96 timestamp."""
_TWELVE_BYTES: Struct = {1: (I32, FIXED), 2: (I32, INT96_BYTES)}
_KEPT_FIELDS = (3, 4, 9)
"""Fields of a SchemaElement: repetition, name, field id."""
_JULIAN_EPOCH = 2_440_588
_DAY_MICROS = 86_400_000_000
_PARTS = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_NANO_LIMIT = 9_223_372_036_854_775
"""Microseconds: the last whole one before nanoseconds since 1970 leave 64 bits."""


def conform_batch(
    batch: pa.RecordBatch, schema: pa.Schema, path: str, stored: Callable[[], bytes] | None = None
) -> pa.RecordBatch:
    """The batch's columns, taken in order, as the columns of ``schema``.

    ``stored``: gives the Arrow schema that the file's metadata has as text, where the batch may lack that of columns.

    Raises:
        CorruptFileError: a MAP whose keys many rows share is damaged.
        MissingColumnError: a column can't be that type.
        UnsupportedError: a timestamp outside what Arrow's nanoseconds can hold.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for column, own, wanted in zip(batch.columns, batch.schema, schema, strict=True):
        if pa.types.is_map(wanted.type) and pa.types.is_struct(own.type):
            arrays.append(_whole_map(column, own, wanted, path, stored))
        else:
            arrays.append(conform(column, wanted.type, wanted.name, path))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole_map(
    array: pa.StructArray, own: pa.Field, wanted: pa.Field, path: str, stored: Callable[[], bytes] | None
) -> pa.Array:
    """A MAP whose keys many rows share: the file has it as a ROW."""
    from paimon_pyds.format.shared_maps import SharedKeys, is_shared, stored_keys, whole_maps

    if not is_shared([member.name for member in array.type]):
        return conform(array, wanted.type, wanted.name, path)
    text = b"" if stored is None or SharedKeys.are_in(own.metadata) else stored()
    keys = stored_keys(text, wanted.name, path) if text else SharedKeys.of(own.metadata, wanted.name, path)
    item, name = wanted.type.item_type, wanted.name
    return whole_maps(
        array, keys, wanted.type, lambda values, member: conform(values, item, f"{name}.{member}", path), name, path
    )


def conform(
    array: pa.Array, type_: pa.DataType, column: str, path: str, around: pa.BooleanArray | None = None
) -> pa.Array:
    """``array`` as ``type_``; nested types are rebuilt around their converted children.

    Where ``around`` is false, the struct that holds the array is NULL, and what the array holds is no value.
    """
    if array.type.equals(type_, check_metadata=True):
        return array
    if is_variant(type_) and pa.types.is_struct(array.type):
        from paimon_pyds.format.parquet.variants import whole_values  # few tables have such columns

        return whole_values(array, column, path, around)
    if pa.types.is_timestamp(type_) and array.type.equals(pa.binary(INT96_BYTES)):
        return _timestamps(array, type_, column, path, around)
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_, column, path, around)
    if pa.types.is_map(type_) and pa.types.is_map(array.type):
        entries = pa.struct([type_.key_field, type_.item_field])
        # Names inside a map say nothing: other writers have others.
        named = [type_.key_field.with_type(array.type.key_type), type_.item_field.with_type(array.type.item_type)]
        pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=named)
        return rebuild(array, type_, [conform(pairs, entries, column, path)])
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        return rebuild(array, type_, [conform(array.values, type_.value_type, column, path)])
    try:
        return _cast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise MissingColumnError(
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
    if not fields:  # only its NULLs are wanted
        return rebuild(array, type_, [])
    if [array.type.field(i).name for i in range(array.type.num_fields)] != [f.name for f in fields]:
        raise MissingColumnError(f"column {column!r} holds {array.type}, the schema says {type_}", path=path)
    if array.null_count:
        around = array.is_valid() if around is None else pc.and_(around, array.is_valid())
    children = [conform(array.field(i), f.type, f"{column}.{f.name}", path, around) for i, f in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def all_but(dropped: Int64s, rows: int) -> pa.BooleanArray:
    """A mask of ``rows`` rows that selects all but those of these numbers (ascending, each below ``rows``)."""
    keep = np.ones(rows, np.bool_)
    keep[dropped] = False
    # Arrow would take several times as long to make bits of the flags.
    return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(np.packbits(keep, bitorder="little"))])


def rows_at_once(batch_rows: int, rows: int, size: int) -> int:
    """Of how many rows `without_rows` gets batches, where ``batch_rows`` are given out at a time.

    ``rows`` rows have ``size`` bytes in the file before compression.
    """
    return max(batch_rows, min(_FILTERED_BATCHES * batch_rows, _FILTERED_BYTES * rows // max(1, size)))


class ColumnSize(NamedTuple):
    """Of a column in a row group: bytes before compression, values, and whether a dictionary or the like may have
    shortened texts."""

    stored: int
    values: int
    is_shortened: bool

    @classmethod
    def of(cls, chunk: Chunk) -> ColumnSize:
        """What the footer says of a column chunk."""
        shortened = chunk.physical == _BYTE_ARRAY and not _SHORTENING.isdisjoint(chunk.encodings)
        return cls(chunk.uncompressed_size, chunk.values, shortened)


class BatchRows:
    """How many rows of a row group to decode at a time: the footer does not have the length of rows that a dictionary
    shortens. The first batch is as small as if each row had all bytes of its column; later batches follow from the size
    of the last rows. Where rows get much longer from one batch to the next, that batch is too large.

    ``most``: rows of a batch at most. ``size``: bytes of a batch at most, about. ``columns``: those that are decoded.
    """

    def __init__(self, most: int, rows: int, size: int, columns: Iterable[ColumnSize]) -> None:
        self._most, self._size = most, size
        least = shortened = 0
        for stored, values, is_shortened in columns:
            least += max(stored, _LEAST_VALUE_BYTES * values)
            if is_shortened:
                shortened += stored * max(1, values // max(1, rows))
        self.next = max(1, min(most, size * rows // max(1, least)))
        """Rows of the next batch."""
        if shortened * min(self.next, rows) > size:
            self.next = max(1, min(self.next, size // shortened))

    def learn(self, batch: pa.RecordBatch) -> None:
        """Go by the length of these rows: those of the last batch that are wanted, all where none is."""
        fitting = self._size * batch.num_rows // max(1, batch.nbytes)
        self.next = max(1, min(self._most, _GROWTH * self.next, fitting))


def without_rows(batch: pa.RecordBatch, keep: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of the batch for which ``keep`` is true; as long as the batch, without nulls."""
    if keep.true_count == batch.num_rows:
        return batch
    # Column by column: for a whole batch Arrow would make row numbers of the mask first.
    columns = [pc.filter(_without_bitmap(column), keep) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _without_bitmap(array: pa.Array) -> pa.Array:
    """The array without its bitmap of nulls, if no value is null: Arrow filters flat columns in a third of the time
    then."""
    kinds = pa.types
    flat = (kinds.is_primitive, kinds.is_decimal, kinds.is_string, kinds.is_binary, kinds.is_fixed_size_binary)
    if array.null_count or not any(check(array.type) for check in flat):
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def as_fixed(element: Struct) -> Struct:
    """A schema element with INT96 as fixed-length bytes; any other as it is."""
    if element.get(1) != (I32, INT96):
        return element
    return _TWELVE_BYTES | {i: f for i, f in element.items() if i in _KEPT_FIELDS}


def footer_without_int96(footer: bytes) -> bytes:
    """The same footer with every INT96 column as fixed-length bytes, and without key-value metadata.
    Raises CorruptFileError: a required field is missing or of another type."""
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


def _timestamps(
    array: pa.FixedSizeBinaryArray,
    type_: pa.TimestampType,
    column: str,
    path: str,
    around: pa.BooleanArray | None = None,
) -> pa.Array:
    """The timestamps in twelve-byte values; a unit coarser than nanoseconds is cut towards the past.

    Where ``around`` is false, no value is wanted: the struct that the array is in is NULL there. Raises
    UnsupportedError for values outside what nanoseconds since 1970 can hold in 64 bits.
    """
    count = len(array)
    data = array.buffers()[1]
    if data is None or not count:
        return pa.nulls(count, type_)
    raw = np.frombuffer(data, _PARTS, count=count, offset=array.offset * INT96_BYTES)
    nulls = is_true(array.is_null()) if array.null_count else None
    nanos, days = raw["nanos"].copy(), raw["day"].astype(np.int64)
    for void in (nulls, None if around is None else ~to_numpy(around)):
        if void is not None:  # what stands under a NULL is no value
            nanos[void], days[void] = 0, _JULIAN_EPOCH
    micros = (days - _JULIAN_EPOCH) * _DAY_MICROS + nanos // 1000
    values = _in_unit(micros, nanos % 1000, type_.unit, column, path)
    return arrow_array(values, pa.int64(), mask=nulls).view(type_)


def _in_unit(micros: Int64s, rest: Int64s, unit: str, column: str, path: str) -> Int64s:
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


def timestamp_bytes(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array in its stored type (`settings.stored_schema`)."""
    if array.type == type_:
        return array
    if pa.types.is_struct(type_):
        children = [timestamp_bytes(array.field(i), type_.field(i).type) for i in range(type_.num_fields)]
        return pa.Array.from_buffers(type_, len(array), [validity(array)], array.null_count, children=children)
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
    values = to_numpy(pc.fill_null(array.view(pa.int64()), 0)).astype(np.int64, copy=False)
    days = values // (_DAY_MICROS * 1000)
    parts = np.empty(len(values), _PARTS)
    parts["nanos"] = values - days * (_DAY_MICROS * 1000)
    parts["day"] = days + _JULIAN_EPOCH
    buffers = [validity(array), pa.py_buffer(parts)]
    return pa.Array.from_buffers(pa.binary(INT96_BYTES), len(array), buffers, array.null_count)


def int96_leaves(elements: list[Struct]) -> list[bool]:
    """For each leaf of a written schema, whether it is a timestamp stored as twelve bytes.

    Nothing else is written as twelve bytes without a logical type: decimals have one, BINARY has no fixed length.
    """
    return [_is_timestamp(e) for e in elements if 5 not in e]


def _is_timestamp(element: Struct) -> bool:
    return element.items() >= _TWELVE_BYTES.items() and not element.keys() & {5, 6, 10}  # children, a logical type


def with_int96(element: Struct) -> Struct:
    """A schema element that is a timestamp stored as twelve bytes, as INT96; any other as it is."""
    if not _is_timestamp(element):
        return element
    return {1: (I32, INT96)} | {i: f for i, f in element.items() if i in _KEPT_FIELDS}
