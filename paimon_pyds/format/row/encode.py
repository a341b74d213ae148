"""Arrow columns → rows of the format ``row``, all rows at once; `decode` has their form.

Source: Paimon documentation, concepts/spec/rowformat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Int64s,
    binary_parts,
    fixed_binary,
    fixed_values,
    from_numpy,
    pc,
    scalar,
    to_numpy,
    valid_mask,
)
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    arrow_type,
    timestamp_unit,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS, TIMESTAMP_KINDS, UNITS_PER_SECOND
from paimon_pyds.base.varints import varint_values
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format.avro.records import unscaled_bytes
from paimon_pyds.format.batches import list_window
from paimon_pyds.format.row.decode import FIXED, LONG_DIGITS, MILLI_NANOS

_COUNT = AtomicType(Kind.INT, nullable=False)


def encode_rows(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> pa.Array:
    """A binary array with the bytes of each row; without NULLs. ``columns``: at least one."""
    missing = np.zeros((len(columns[0]), (len(columns) + 7) // 8 * 8), np.bool_)
    for number, column in enumerate(columns):
        if (there := valid_mask(column)) is not None:
            missing[:, number] = ~there
    bits = fixed_binary(np.packbits(missing, axis=1, bitorder="little"))
    return _joined(bits, *(_places(column, field.type) for column, field in zip(columns, fields, strict=True)))


def check_types(fields: Sequence[DataField]) -> None:
    """Raise UnsupportedError for columns of types that are not written."""
    encode_rows([pa.nulls(0, arrow_type(field.type)) for field in fields], fields)


def _joined(*pieces: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, scalar(b"", pa.binary()))


def _places(column: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of each value: none for NULL."""
    there = valid_mask(column)
    if there is None:
        return _values(column, type_)
    return _cut(_values(column.filter(from_numpy(there)), type_), np.append(0, np.cumsum(there)))


def _cut(values: pa.Array, bounds: Int64s) -> pa.Array:
    """The bytes of values as fewer or more ones: the first ``bounds[1]`` values together, and so on."""
    data, starts, ends = binary_parts(values)
    edges = np.append(starts, ends[-1:]) if len(starts) else np.zeros(1, np.int64)
    buffers = [None, pa.py_buffer(edges[bounds].astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


def _values(values: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of values that are not NULL."""
    match type_:
        case RowType():
            return encode_rows([values.field(n) for n in range(len(type_.fields))], type_.fields)
        case VectorType():
            elements = _values(values.flatten(), type_.element)
            bounds = np.arange(len(values) + 1, dtype=np.int64) * type_.length
            return _joined(_numbers(np.diff(bounds)), _cut(elements, bounds))
        case ArrayType():
            return _elements(values, values.values, type_.element)
        case MapType():
            return _joined(_elements(values, values.keys, type_.key), _elements(values, values.items, type_.value))
        case MultisetType():
            return _joined(_elements(values, values.keys, type_.element), _elements(values, values.items, _COUNT))
    assert isinstance(type_, AtomicType)
    return _atoms(values, type_)


def _elements(lists: pa.Array, children: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of lists: how many elements each has, bits of those that are NULL, and the others."""
    window = list_window(lists, children)
    offsets = to_numpy(lists.offsets).astype(np.int64)
    bounds = offsets - offsets[0] if len(offsets) else np.zeros(1, np.int64)
    counts = np.diff(bounds)
    places = np.append(0, np.cumsum((counts + 7) // 8))
    bits = np.zeros(places[-1], np.uint8)
    if (there := valid_mask(window)) is not None:
        missing = np.flatnonzero(~there)
        of_list = np.searchsorted(bounds, missing, "right") - 1
        inside = missing - bounds[of_list]
        np.bitwise_or.at(bits, places[of_list] + inside // 8, (1 << inside % 8).astype(np.uint8))
    nulls = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(bits)]
    )
    return _joined(_numbers(counts), nulls, _cut(_places(window, type_), bounds))


def _numbers(values: Int64s) -> pa.Array:
    return varint_values(values.view(np.uint64))


def _atoms(values: pa.Array, type_: AtomicType) -> pa.Array:
    kind = type_.kind
    if kind is Kind.BOOLEAN:
        return fixed_binary(to_numpy(values.cast(pa.uint8())))
    if kind in FIXED:
        return fixed_binary(fixed_values(values, FIXED[kind]))
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return _octets(values.cast(pa.binary()))
    if kind in TIMESTAMP_KINDS:
        return _timestamps(values, type_)
    if kind is Kind.DECIMAL:
        if (type_.precision or 0) > LONG_DIGITS:
            return _octets(unscaled_bytes(values))
        return fixed_binary(fixed_values(values, "<i8", 2).reshape(-1, 2)[:, 0])
    if kind is Kind.VARIANT:
        return _joined(_octets(values.field("value")), _octets(values.field("metadata")))
    raise UnsupportedError(f"columns of type {type_} are not written into files of the format row", feature="row-files")


def _octets(values: pa.Array) -> pa.Array:
    return _joined(_numbers(to_numpy(pc.binary_length(values)).astype(np.int64)), values)


def _timestamps(values: pa.Array, type_: AtomicType) -> pa.Array:
    counts = fixed_values(values, "<i8")
    if (type_.precision or 0) <= 3:
        return fixed_binary(counts)
    per_milli = UNITS_PER_SECOND[timestamp_unit(type_)] // 1000
    millis = counts // per_milli
    return _joined(fixed_binary(millis), _numbers((counts - millis * per_milli) * (MILLI_NANOS // per_milli)))
