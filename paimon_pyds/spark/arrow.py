"""Arrow batches in exactly the schema wanted: for Spark, which from 4.2 checks it to the last nullable, and from Spark.

Columns and struct members are found by name. Only what loses nothing is cast, with one exception: times and timestamps
are rounded down to a coarser unit, which is how Spark and Java Paimon see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from paimon_pyds.errors import SchemaError

__all__ = ["check_castable", "conform_batch", "find_name"]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def find_name(names: Sequence[str], wanted: str) -> int | None:
    """The position of a name: exactly, else ignoring case when only one fits; None when there is none.

    Raises:
        SchemaError: several names differ from it in case only.
    """
    if wanted in names:
        return list(names).index(wanted)
    folded = [i for i, name in enumerate(names) if name.casefold() == wanted.casefold()]
    if len(folded) > 1:
        raise SchemaError(f"{wanted!r} could be any of {', '.join(repr(names[i]) for i in folded)}")
    return folded[0] if folded else None


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the columns of ``schema``, in its order and of its types.

    Raises:
        SchemaError: a missing column, a value that does not fit, NULL where the schema says NOT NULL.
    """
    if batch.schema.equals(schema) and not any(_has_strict_member(f.type) for f in schema):
        return batch
    names = batch.schema.names
    columns = []
    for field in schema:
        at = find_name(names, field.name)
        if at is None:
            raise SchemaError(f"there is no column {field.name!r}", hint=f"there are {', '.join(names)}")
        columns.append(_conform(batch.column(at), field, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, field: pa.Field, column: str) -> pa.Array:
    if not field.nullable and array.null_count:
        raise SchemaError(
            f"column {column} is NOT NULL, and {array.null_count} of {len(array)} rows have no value",
            hint="fill or drop those rows first",
        )
    return _cast(array, field.type, column)


def _cast(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    source, t = array.type, pa.types
    if source.equals(target) and not _has_strict_member(target):
        return array
    if t.is_null(source):
        return pa.nulls(len(array), target)
    if t.is_dictionary(source):
        return _cast(array.dictionary_decode(), target, column)
    if t.is_struct(target) and t.is_struct(source):
        return _cast_struct(array, target, column)
    if t.is_map(target) and t.is_map(source):
        return _cast_map(array, target, column)
    if t.is_list(target) and (t.is_list(source) or t.is_large_list(source) or t.is_fixed_size_list(source)):
        return _cast_list(array, target, column)
    if t.is_timestamp(source) and t.is_timestamp(target) and (source.tz is None) == (target.tz is None):
        return _rescale(array, target, column)
    if t.is_time(source) and t.is_time(target):
        return _rescale(array, target, column)
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise SchemaError(f"column {column} is {source} and does not fit {target}: {reason}") from error


@lru_cache(maxsize=1024)
def _has_strict_member(type_: pa.DataType) -> bool:
    """Whether something inside a nested type is NOT NULL: its values may hide NULLs where the parent is NULL."""
    if not pa.types.is_nested(type_):
        return False
    members = [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        members = [type_.item_field, pa.field("key", type_.key_type)]
    return any(not f.nullable or _has_strict_member(f.type) for f in members)


def _rescale(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """Another unit: rounded down when coarser, checked for overflow when finer."""
    have, want = _UNITS[array.type.unit], _UNITS[target.unit]
    if have <= want:
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"column {column}: {str(error).splitlines()[0]}") from error
    wide = pa.int64() if array.type.bit_width == 64 else pa.int32()
    values = array.view(wide).fill_null(0).to_numpy(zero_copy_only=False)
    coarse = np.floor_divide(values, have // want)
    mask = array.is_null() if array.null_count else None
    narrow = np.int64 if target.bit_width == 64 else np.int32
    numbers = pa.array(coarse.astype(narrow), mask=None if mask is None else mask.to_numpy(zero_copy_only=False))
    return numbers.view(target)


def _cast_struct(array: pa.StructArray, target: pa.StructType, column: str) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    members = [target.field(i) for i in range(target.num_fields)]
    mask = array.is_null() if array.null_count else None
    children = []
    for member in members:
        at = find_name(names, member.name)
        if at is None:
            raise SchemaError(f"column {column} has no field {member.name!r}", hint=f"it has {', '.join(names)}")
        child = array.field(at)
        if not member.nullable and child.null_count:
            _check_member(child, mask, f"{column}.{member.name}")
        child = _cast(child, member.type, f"{column}.{member.name}")
        children.append(child if member.nullable else _without_nulls(child))
    if not members:
        return pa.array([None if null else {} for null in array.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=members, mask=mask)


def _check_member(child: pa.Array, mask: pa.Array | None, column: str) -> None:
    """NULL in a NOT NULL member, counting only rows where the struct itself is there."""
    nulls = np.asarray(child.is_null())
    if mask is not None:
        nulls = nulls & ~np.asarray(mask)
    if nulls.any():
        raise SchemaError(f"column {column} is NOT NULL, and {int(nulls.sum())} rows have no value")


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with any value for NULL: writers want one in NOT NULL members of a struct that is NULL itself."""
    t, type_ = pa.types, array.type
    if not array.null_count:
        return array
    if t.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        members = [array.field(i) if f.nullable else _without_nulls(array.field(i)) for i, f in enumerate(fields)]
        return pa.StructArray.from_arrays(members, fields=fields)
    children = None
    if t.is_map(type_):
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=[type_.key_field, type_.item_field])]
    elif t.is_list(type_):
        children = [array.values]
    own = array.buffers()[1 : 2 if children else 3]
    return pa.Array.from_buffers(type_, len(array), [None, *own], 0, array.offset, children)


def _cast_list(array: pa.Array, target: pa.ListType, column: str) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    _check_elements(array, array.values, target.value_field, f"{column}.element")
    values = _cast(array.values, target.value_type, f"{column}.element")
    return _with_children(array, target, [values])


def _cast_map(array: pa.MapArray, target: pa.MapType, column: str) -> pa.Array:
    _check_elements(array, array.items, target.item_field, f"{column}.value")
    keys = _cast(array.keys, target.key_type, f"{column}.key")
    items = _cast(array.items, target.item_type, f"{column}.value")
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _with_children(array, target, [entries])


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same lists over other elements; slices keep their offset, so nothing is copied."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, array.offset, children)


def _check_elements(array: pa.Array, values: pa.Array, field: pa.Field, column: str) -> None:
    """NULL in a NOT NULL element, counting only elements that a list of this array really holds."""
    if field.nullable or not values.null_count:
        return
    offsets = array.offsets.to_numpy()
    present = np.asarray(array.is_valid())
    edges = np.zeros(len(values) + 1, np.int64)
    np.add.at(edges, offsets[:-1][present], 1)
    np.add.at(edges, offsets[1:][present], -1)
    nulls = np.asarray(values.is_null()) & (np.cumsum(edges[:-1]) > 0)
    if nulls.any():
        raise SchemaError(f"column {column} is NOT NULL, and {int(nulls.sum())} elements have no value")


# -------------------------------------------------------------------------------------------------- before any data


def check_castable(source: pa.DataType, target: pa.DataType, column: str) -> None:
    """Refuse what would change the meaning of values, before a row is read or written.

    Integers, decimals and floating point numbers go into each other (values are checked later), except fractions into
    integers; NULL goes everywhere; texts, bytes, dates, times and timestamps stay what they are.

    Raises:
        SchemaError: the types do not go together; it names the column.
    """
    t = pa.types
    if t.is_dictionary(source):
        source = source.value_type
    if source.equals(target) or t.is_null(source):
        return
    if t.is_struct(source) and t.is_struct(target):
        _check_struct(source, target, column)
    elif t.is_map(source) and t.is_map(target):
        check_castable(source.key_type, target.key_type, f"{column}.key")
        check_castable(source.item_type, target.item_type, f"{column}.value")
    elif _is_list(source) and t.is_list(target):
        check_castable(source.value_type, target.value_type, f"{column}.element")
    elif not _same_meaning(source, target):
        raise SchemaError(f"column {column} is {source} here and {target} there", hint="cast it first")


def _check_struct(source: pa.StructType, target: pa.StructType, column: str) -> None:
    names = [source.field(i).name for i in range(source.num_fields)]
    for i in range(target.num_fields):
        member = target.field(i)
        at = find_name(names, member.name)
        if at is None:
            raise SchemaError(f"column {column} has no field {member.name!r}", hint=f"it has {', '.join(names)}")
        check_castable(source.field(at).type, member.type, f"{column}.{member.name}")


def _is_list(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_))


def _same_meaning(source: pa.DataType, target: pa.DataType) -> bool:
    t = pa.types
    if t.is_integer(target):
        return bool(t.is_integer(source))
    if t.is_floating(target) or t.is_decimal(target):
        return bool(t.is_integer(source) or t.is_floating(source) or t.is_decimal(source))
    if t.is_timestamp(source) and t.is_timestamp(target):
        return bool((source.tz is None) == (target.tz is None))
    kinds = (
        (t.is_string, t.is_large_string, t.is_string_view),
        (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view),
        (t.is_time,),
    )
    return any(any(k(source) for k in kind) and any(k(target) for k in kind) for kind in kinds)
