"""Nested Arrow arrays as another nested type: members by name, elements in place, NOT NULL held where a value is.

A NOT NULL member of a struct that is NULL itself has no value, but writers want one: such members are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import decoded, is_true, pc, to_numpy
from paimon_pyds.base.types.arrow import is_variant
from paimon_pyds.base.types.model import positions_named
from paimon_pyds.errors import SchemaError

LeafCast = Callable[[pa.Array, pa.DataType, str], pa.Array]
"""Casts values that are not nested: the array, the type wanted, the column's path for errors."""
TIME_HINT = "TIME columns hold milliseconds, whatever their precision: cut finer digits off first"


class MissingMemberError(SchemaError):
    """A struct lacks a member of the type that is wanted. ``names``: of those that it has."""

    def __init__(self, column: str, member: str, names: Sequence[str]) -> None:
        super().__init__(f"column {column} has no field {member!r}", hint=f"it has {', '.join(names)}")

    def of_write(self) -> MissingMemberError:
        """The same where a write may take NULL for it."""
        self.hint = f"{self.hint}; give all, or write NULL for others: missing-columns=null"
        return self


def cast_number(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Arrow's cast, but a decimal becomes the float nearest to it, and a float the decimal nearest to its text, as Java
    has it; and no number becomes infinity. Raises pyarrow.ArrowInvalid: a value that does not fit."""
    source, t = array.type, pa.types
    if t.is_decimal(source) and t.is_floating(target):
        return array.cast(pa.string()).cast(target)
    if t.is_floating(source) and t.is_decimal(target):
        return _decimals(array.cast(pa.float64()), target)
    if t.is_integer(source) and t.is_decimal(target):  # Arrow needs room for the widest integers of the type
        array = array.cast(pa.decimal256(76, target.scale))
    found = array.cast(target)
    if t.is_float64(source) and t.is_float32(target):
        from paimon_pyds.base.types.unfit_values import grown_infinite

        if pc.any(grown_infinite(array, found)).as_py():
            raise pa.ArrowInvalid("too large for a float of 32 bits")
    return found


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Doubles as decimals, half a unit away from zero."""
    exact = pa.decimal256(76, target.scale + 18)  # 17 digits behind those that are zero after rounding
    tiny = pc.less(pc.abs(array), 10.0 ** -(target.scale + 1))
    texts = pc.if_else(tiny, "0", array.cast(pa.string()))
    return pc.round(texts.cast(exact), target.scale, "half_towards_infinity").cast(target)


def find_name(names: Sequence[str], wanted: str) -> int | None:
    """The position of a name: exactly, else ignoring case if only one fits; None if no name fits.
    Raises SchemaError: several names differ from it in case only."""
    found = positions_named(wanted, names)
    if len(found) > 1:
        raise SchemaError(f"{wanted!r} could be any of {', '.join(repr(names[i]) for i in found)}")
    return found[0] if found else None


@lru_cache(maxsize=1024)
def has_strict_member(type_: pa.DataType) -> bool:
    """Whether something inside a nested type is NOT NULL: its values may hide NULLs where the parent is NULL."""
    if not pa.types.is_nested(type_):
        return False
    if pa.types.is_fixed_size_list(type_):
        return True  # of a vector no element is NULL
    members = [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        members = [type_.item_field, pa.field("key", type_.key_type)]
    return any(not f.nullable or has_strict_member(f.type) for f in members)


def with_members(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array with NULL for the members that structs of ``target`` have and its own have not."""
    source, t = array.type, pa.types
    if t.is_dictionary(source) and t.is_nested(target):
        array, source = decoded(array), source.value_type
    if source.equals(target):
        return array
    if t.is_struct(target) and t.is_struct(source):
        members = {array.type.field(i).name: array.field(i) for i in range(array.type.num_fields)}
        for field in target:
            at = find_name([*members], field.name)
            name = field.name if at is None else [*members][at]
            members[name] = nulls_of(len(array), field.type) if at is None else with_members(members[name], field.type)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([*members.values()], names=[*members], mask=mask)
    if t.is_map(target) and t.is_map(source):
        keys, items = array.keys, with_members(array.items, target.item_type)
        made = pa.map_(keys.type, items.type)
        # pyarrow goes by the fields of the entries when it writes Parquet: a key that might be NULL breaks its memory.
        entries = pa.StructArray.from_arrays([keys, items], fields=[made.key_field, made.item_field])
        return _with_children(array, made, [entries])
    if t.is_list(target) and _is_list(source):
        array = _as_list(array)
        values = with_members(array.values, target.value_type)
        return _with_children(array, pa.list_(values.type), [values])
    return array


def _is_list(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_))


def _as_list(array: pa.Array) -> pa.ListArray:
    return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))


def cast_nested(array: pa.Array, target: pa.DataType, column: str, leaf: LeafCast) -> pa.Array:
    """An array of any type as ``target``; nested values by member, all others by ``leaf``. ``leaf``: casts what is not
    nested.
    Raises SchemaError: a missing member, NULL where the target says NOT NULL, what ``leaf`` refuses."""
    if isinstance(array, pa.ExtensionArray):
        return cast_nested(array.storage, target, column, leaf)
    source, t = array.type, pa.types
    if source.equals(target) and not has_strict_member(target):
        return array
    if is_variant(target) and not t.is_null(source):
        check_carries_variant(source, column)
    if t.is_null(source):
        return nulls_of(len(array), target)
    if t.is_dictionary(source):
        return cast_nested(decoded(array), target, column, leaf)
    if t.is_struct(target) and t.is_struct(source):
        return _cast_struct(array, target, column, leaf)
    if t.is_map(target) and t.is_map(source):
        return _cast_map(array, target, column, leaf)
    if t.is_list(target) and _is_list(source):
        return _cast_list(array, target, column, leaf)
    if t.is_fixed_size_list(target) and _is_list(source):
        return _cast_vectors(array, target, column, leaf)
    return leaf(array, target, column)


def check_carries_variant(source: pa.DataType, column: str) -> None:
    """Raises SchemaError: an Arrow type is not a struct of the two members that carry VARIANT."""
    members = {field.name: field.type for field in source} if pa.types.is_struct(source) else {}
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    if members.keys() != {"value", "metadata"} or not all(any(is_(t) for is_ in binary) for t in members.values()):
        text = pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source)
        hint = "parse_json makes VARIANT of JSON texts, and" if text else "make it of Python values:"
        raise SchemaError(
            f"column {column} is {source} in the data and VARIANT in the table",
            hint=f"{hint} paimon_pyds.variant_array(values)",
        )


def nulls_of(rows: int, type_: pa.DataType) -> pa.Array:
    """NULL in every row, with values in NOT NULL members below it."""
    array = pa.nulls(rows, type_)
    if not (pa.types.is_struct(type_) and has_strict_member(type_)):
        return array
    members = [type_.field(i) for i in range(type_.num_fields)]
    found = [nulls_of(rows, f.type) for f in members]
    children = [a if f.nullable else _without_nulls(a) for a, f in zip(found, members, strict=True)]
    return pa.StructArray.from_arrays(children, fields=members, mask=array.is_null())


def _cast_struct(array: pa.StructArray, target: pa.StructType, column: str, leaf: LeafCast) -> pa.Array:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    members = [target.field(i) for i in range(target.num_fields)]
    mask = array.is_null() if array.null_count else None
    children = []
    for member in members:
        at = find_name(names, member.name)
        if at is None:
            raise MissingMemberError(column, member.name, names)
        child = array.field(at)
        if not member.nullable and child.null_count:
            _check_member(child, mask, f"{column}.{member.name}")
        child = cast_nested(child, member.type, f"{column}.{member.name}", leaf)
        children.append(child if member.nullable else _without_nulls(child))
    if not members:
        return arrow_array([None if null else {} for null in array.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=members, mask=mask)


def _check_member(child: pa.Array, mask: pa.Array | None, column: str) -> None:
    """NULL in a NOT NULL member, counting only rows where the struct itself is there."""
    nulls = is_true(child.is_null())
    if mask is not None:
        nulls = nulls & ~to_numpy(mask)
    if nulls.any():
        error = SchemaError(f"column {column} is NOT NULL, and has no value in {int(nulls.sum())} of {len(nulls)} rows")
        error.row = int(np.argmax(nulls))
        raise error


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
    elif t.is_list(type_) or t.is_fixed_size_list(type_):
        children = [array.values]
    own = [] if t.is_fixed_size_list(type_) else array.buffers()[1 : 2 if children else 3]
    return pa.Array.from_buffers(type_, len(array), [None, *own], 0, array.offset, children)


def with_values(array: pa.Array) -> pa.Array:
    """The array with any value for NULL in the NOT NULL members of structs that are NULL: what merges versions of rows
    leaves NULL there, and pyarrow writes no such array."""
    t, type_ = pa.types, array.type
    if not has_strict_member(type_):
        return array
    if t.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        found = [with_values(array.field(i)) for i in range(len(fields))]
        members = [a if f.nullable else _without_nulls(a) for a, f in zip(found, fields, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    if t.is_map(type_):
        fields = [type_.key_field, type_.item_field]
        entries = pa.StructArray.from_arrays([with_values(array.keys), with_values(array.items)], fields=fields)
        return _with_children(array, type_, [entries])
    return _with_children(array, type_, [with_values(array.values)])


def _cast_list(array: pa.Array, target: pa.ListType, column: str, leaf: LeafCast) -> pa.Array:
    array = _as_list(array)
    _check_elements(array, array.values, target.value_field, f"{column}.element")
    values = cast_nested(array.values, target.value_type, f"{column}.element", leaf)
    return _with_children(array, target, [values])


def _cast_vectors(array: pa.Array, target: pa.FixedSizeListType, column: str, leaf: LeafCast) -> pa.Array:
    from paimon_pyds.base.types.vectors import vectors_of

    if pa.types.is_fixed_size_list(array.type) and array.type.equals(target) and not array.flatten().null_count:
        return array
    array = _as_list(array)
    values = cast_nested(array.values, target.value_type, f"{column}.element", leaf)
    try:
        return vectors_of(_with_children(array, pa.list_(target.value_field), [values]), target)
    except SchemaError as error:
        error.message = f"column {column}: {error.message}"
        raise


def _cast_map(array: pa.MapArray, target: pa.MapType, column: str, leaf: LeafCast) -> pa.Array:
    _check_elements(array, array.items, target.item_field, f"{column}.value")
    keys = cast_nested(array.keys, target.key_type, f"{column}.key", leaf)
    items = cast_nested(array.items, target.item_type, f"{column}.value", leaf)
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
    offsets = to_numpy(array.offsets)
    present = is_true(array.is_valid())
    edges = np.zeros(len(values) + 1, np.int64)
    np.add.at(edges, offsets[:-1][present], 1)
    np.add.at(edges, offsets[1:][present], -1)
    nulls = is_true(values.is_null()) & (np.cumsum(edges[:-1]) > 0)
    if nulls.any():
        error = SchemaError(f"column {column} is NOT NULL, and has no value in {int(nulls.sum())} elements")
        error.row = int(np.argmax(nulls))
        raise error
