"""Arrow columns → Avro records, all records of a batch at once.

Every column becomes one binary array with the bytes of each row's value, and Arrow joins the columns row by row (Apache
Avro specification 1.11, Binary Encoding; what types become is in `types`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.avro.encode import varints
from paimon_pyds.formats.arrays import list_window
from paimon_pyds.formats.avro.types import has_string_keys, map_types
from paimon_pyds.row.layout import slices
from paimon_pyds.types import (
    BINARY_KINDS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
)

__all__ = ["encode_rows"]

_NULL = pa.scalar(b"\x00", pa.binary())
_THERE = pa.scalar(b"\x02", pa.binary())
_EMPTY = pa.scalar(b"", pa.binary())
_END = b"\x00"
_I64 = npt.NDArray[np.int64]


def encode_rows(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> pa.Array:
    """A binary array with the record of each row."""
    return _join([_encode(c, f.type) for c, f in zip(columns, fields, strict=True)], len(columns[0]) if columns else 0)


def _join(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    if not pieces:
        return pa.array([b""] * rows, pa.binary())
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, _EMPTY)


def _encode(array: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of each value; a union of null and the type where the type is nullable."""
    if not len(array):
        return pa.array([], pa.binary())
    if not type_.nullable:
        return _values(array, type_)
    if array.null_count == 0:
        return pc.binary_join_element_wise(_THERE, _values(array, type_), _EMPTY)
    there = array.is_valid()
    present = array.filter(there)
    if not len(present):
        return pa.array([b"\x00"], pa.binary()).take(pa.array(np.zeros(len(array), np.int8)))
    marked = pc.binary_join_element_wise(_THERE, _values(present, type_), _EMPTY)
    places = np.cumsum(np.asarray(there.cast(pa.int8()), dtype=np.int64)) - 1
    spread = marked.take(pa.array(places, mask=~np.asarray(there)))
    return pc.fill_null(spread, _NULL)


def _values(array: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of values none of which is NULL."""
    match type_:
        case RowType():
            return _join([_encode(array.field(i), f.type) for i, f in enumerate(type_.fields)], len(array))
        case ArrayType():
            return _items(array, _encode(list_window(array, array.values), type_.element))
        case MapType() | MultisetType():
            key, value = map_types(type_)
            keys = list_window(array, array.keys)
            if has_string_keys(type_):
                key = key.with_nullable(False)
            entries = [_encode(keys, key), _encode(list_window(array, array.items), value)]
            return _items(array, _join(entries, len(keys)))
        case AtomicType():
            return _atoms(array, type_)
    raise TypeError(f"no Avro encoding for {type_}")


def _items(array: pa.Array, items: pa.Array) -> pa.Array:
    """Arrays: the number of items, the items, and a zero; just the zero when there is none."""
    offsets: _I64 = array.offsets.to_numpy().astype(np.int64)
    offsets = offsets - offsets[0]
    counts = np.diff(offsets)
    _, ends, data = items.buffers() if len(items) else (None, None, None)
    places = np.zeros(1, np.int64) if ends is None else np.frombuffer(ends, np.int32).astype(np.int64)[items.offset :]
    bounds = places[offsets]
    body = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(bounds.astype(np.int32)), data or pa.py_buffer(b"")]
    )
    heads = pc.if_else(pa.array(counts > 0), varints(counts), _EMPTY)
    return pc.binary_join_element_wise(heads, body, pa.scalar(_END, pa.binary()), _EMPTY)


def _atoms(array: pa.Array, type_: AtomicType) -> pa.Array:
    kind = type_.kind
    if kind is Kind.BOOLEAN:
        return _fixed(np.asarray(array.cast(pa.uint8())), 1)
    if kind in INTEGER_KINDS:
        return varints(array.cast(pa.int64()).to_numpy())
    if kind in TIMESTAMP_KINDS:
        return varints(array.view(pa.int64()).to_numpy())
    if kind in (Kind.DATE, Kind.TIME):
        return varints(array.view(pa.int32()).to_numpy().astype(np.int64))
    if kind is Kind.FLOAT:
        return _fixed(array.to_numpy().astype("<f4"), 4)
    if kind is Kind.DOUBLE:
        return _fixed(array.to_numpy().astype("<f8"), 8)
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return _sized(array.cast(pa.binary()))
    return _sized(_decimals(array))


def _fixed(values: npt.NDArray[np.generic], width: int) -> pa.Array:
    offsets = np.arange(len(values) + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sized(array: pa.Array) -> pa.Array:
    lengths = pc.binary_length(array).to_numpy().astype(np.int64)
    return pc.binary_join_element_wise(varints(lengths), array, _EMPTY)


def _decimals(array: pa.Array) -> pa.Array:
    """Unscaled values as the fewest bytes of two's complement, the highest first."""
    count = len(array)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + count)]
    data = np.ascontiguousarray(raw.reshape(count, 16)[:, ::-1])
    sign = np.where(data[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte can go when it only repeats the sign that the next byte shows.
    spare = (data[:, :-1] == sign[:, None]) & ((data[:, 1:] >= 0x80) == (sign[:, None] == 0xFF))
    lead = np.cumprod(spare, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(count, dtype=np.int64) * 16
    return slices(data.reshape(-1), starts + lead, starts + 16)
