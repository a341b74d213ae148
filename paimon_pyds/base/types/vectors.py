"""VECTOR values: lists of one length without NULL inside, as Arrow's fixed_size_list. Files hold them as lists.

Source: Paimon's documentation of VECTOR, and files that Java Paimon 2.1 and pypaimon 2.1 wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, pc, to_numpy
from paimon_pyds.base.types.arrow import arrow_type
from paimon_pyds.base.types.kinds import MAX_LENGTH
from paimon_pyds.base.types.model import ArrayType, DataField, DataType, MapType, RowType, VectorType
from paimon_pyds.errors import SchemaError, UnsupportedError


def stored_fields(fields: Sequence[DataField]) -> Sequence[DataField]:
    """The columns as data files hold them: with ARRAY in place of VECTOR, at every depth; ``fields`` itself where there
    is no VECTOR."""
    types = [stored_type(field.type) for field in fields]
    if all(type_ is field.type for type_, field in zip(types, fields, strict=True)):
        return fields
    pairs = zip(fields, types, strict=True)
    return tuple(field if type_ is field.type else replace(field, type=type_) for field, type_ in pairs)


def stored_type(type_: DataType) -> DataType:
    """A type as data files hold it: see `stored_fields`."""
    match type_:
        case VectorType():
            return ArrayType(element=type_.element, nullable=type_.nullable)
        case RowType():
            fields = stored_fields(type_.fields)
            return type_ if fields is type_.fields else replace(type_, fields=tuple(fields))
        case ArrayType():
            element = stored_type(type_.element)
            return type_ if element is type_.element else replace(type_, element=element)
        case MapType():
            value = stored_type(type_.value)
            return type_ if value is type_.value else replace(type_, value=value)
    return type_


def has_vector(type_: DataType) -> bool:
    """Whether a type is VECTOR, or has one inside."""
    return stored_type(type_) is not type_


def vectors_of(lists: pa.ListArray, type_: pa.FixedSizeListType) -> pa.FixedSizeListArray:
    """Lists as vectors of the same elements.
    Raises SchemaError: a list of another length, or with NULL in it; ``row`` is its position."""
    size = type_.list_size
    there = is_true(lists.is_valid())
    lengths = np.diff(to_numpy(lists.offsets))
    if (other := there & (lengths != size)).any():
        at = int(np.argmax(other))
        raise _refused(at, f"a value has {lengths[at]} elements, and a vector here has {size}")
    items = lists.flatten()
    if items.null_count:
        of_value = np.flatnonzero(is_true(items.is_null()))[0] // size
        raise _refused(int(np.flatnonzero(there)[of_value]), "an element of a vector is NULL")
    if not there.any():
        return pa.nulls(len(lists), type_)
    valid = None
    if not there.all():  # what stands below a NULL is never looked at
        first = (np.cumsum(there) - 1).clip(0) * size
        items = items.take(from_numpy((first[:, None] + np.arange(size)).ravel()))
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    if items.type != type_.value_type:
        items = items.cast(type_.value_type)
    return pa.Array.from_buffers(type_, len(lists), [valid], children=[items])


def matrix_of(values: pa.Array, type_: DataType, size: int | None = None) -> npt.NDArray[Any]:
    """The elements of a column of VECTOR or ARRAY of numbers: a row for each value that is not NULL. ``size``: elements
    of each value of an ARRAY, by default as many as the longest one has. Raises SchemaError: as `vectors_of`."""
    if isinstance(type_, ArrayType):
        if size is None:
            size = pc.max(pc.list_value_length(values)).as_py() or 0
        values = vectors_of(values, pa.list_(values.type.value_type, size))
    return to_numpy(values.flatten()).reshape(-1, values.type.list_size)


def _refused(row: int, message: str) -> SchemaError:
    error = SchemaError(message)
    error.row = row
    return error


def lists_of(vectors: pa.FixedSizeListArray, type_: pa.ListType) -> pa.ListArray:
    """Vectors as lists of the same elements; NULL has none."""
    there = is_true(vectors.is_valid())
    offsets = np.append(0, np.cumsum(there, dtype=np.int64) * vectors.type.list_size)
    if offsets[-1] > MAX_LENGTH:
        raise UnsupportedError(f"{offsets[-1]:,} elements of vectors are too many for one batch of rows")
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(type_, len(vectors), buffers, children=[vectors.flatten()])


def as_stored(array: pa.Array, type_: DataType) -> pa.Array:
    """Values of a type as values of its `stored_type`."""
    stored = stored_type(type_)
    if stored is type_:
        return array
    target = arrow_type(stored)
    match type_:
        case VectorType():
            return lists_of(array, target)
        case RowType():
            members = [as_stored(array.field(i), field.type) for i, field in enumerate(type_.fields)]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
        case ArrayType():
            children = [as_stored(array.values, type_.element)]
        case _:
            assert isinstance(type_, MapType)
            members = [array.keys, as_stored(array.items, type_.value)]
            children = [pa.StructArray.from_arrays(members, fields=[target.key_field, target.item_field])]
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, children)
