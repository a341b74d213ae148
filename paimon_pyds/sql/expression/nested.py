"""Casts between arrays, maps and rows, and to texts, as Spark writes them: ``[1, 2]``, ``{k -> 1}``, ``{1, p}``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import bits, pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, DataType, MapType, RowType, arrow_type
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.cast import can_cast as can_cast_atoms
from paimon_pyds.sql.expression.cast import cast_array, cast_each
from paimon_pyds.sql.expression.coercion import VOID, normal
from paimon_pyds.sql.expression.lists import Lists, make_lists
from paimon_pyds.sql.expression.operands import check_text, text_bytes, valid

_Atoms: TypeAlias = "Callable[[pa.Array, AtomicType, AtomicType], pa.Array]"


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether SQL has a cast from one type to another."""
    if source == VOID:
        return True
    if isinstance(source, AtomicType) and isinstance(target, AtomicType):
        return can_cast_atoms(source, target)
    if target.kind in STRING_KINDS:
        return all(can_cast(child, target) for child in source.children())
    inner, wanted = source.children(), target.children()
    return source.kind is target.kind and len(inner) == len(wanted) and all(map(can_cast, inner, wanted))


def cast_value(array: pa.Array, source: DataType, target: DataType, zone: str, lenient: bool = False) -> pa.Array:
    """Values of any type as values of another, as `cast_array`; ``lenient``: NULL for what does not fit.
    Raises ExpressionError."""
    return _cast(array, source, target, partial(cast_each if lenient else cast_array, zone=zone))


def _cast(array: pa.Array, source: DataType, target: DataType, atoms: _Atoms) -> pa.Array:
    wanted = arrow_type(target)
    if source == VOID:
        return pa.nulls(len(array), wanted)
    if isinstance(source, AtomicType) and isinstance(target, AtomicType):
        return atoms(array, source, target)
    if target.kind in STRING_KINDS:
        return _text(array, source, atoms)
    if array.type == wanted:
        return array
    match source, target:
        case ArrayType(element=inner), ArrayType(element=element):
            lists = Lists(array)
            return lists.like(_cast(lists.items, normal(inner), normal(element), atoms), wanted)
        case MapType(key=key, value=value), MapType(key=key_type, value=value_type):
            lists = Lists(array)
            keys = _cast(lists.keys, normal(key), normal(key_type), atoms)
            if keys.null_count:
                raise ExpressionError("a key of a map becomes NULL")
            items = _cast(lists.values, normal(value), normal(value_type), atoms)
            entries = pa.StructArray.from_arrays([keys, items], names=["key", "value"])
            return make_lists(wanted, lists.lengths, entries, lists.valid)
        case RowType(fields=fields), RowType(fields=others):
            members = [
                _cast(pc.struct_field(array, [n]), normal(own.type), normal(other.type), atoms)
                for n, (own, other) in enumerate(zip(fields, others, strict=True))
            ]
            return make_rows(wanted, members, valid(array))
    raise ExpressionError(f"a {source.kind.value} can't be cast to {target.kind.value}")


def make_rows(type_: pa.DataType, members: list[pa.Array], not_null: np.ndarray) -> pa.Array:
    """Rows (structs) of these members."""
    validity = None if not_null.all() else bits(not_null)
    return pa.Array.from_buffers(type_, len(not_null), [validity], children=members)


def plain(type_: DataType) -> DataType:
    """A type as results of functions have it: normal, and so are the types inside; everything may be NULL, but keys."""
    match type_:
        case ArrayType(element=element):
            return ArrayType(element=plain(element))
        case MapType(key=key, value=value):
            return MapType(key=plain(key).with_nullable(False), value=plain(value))
        case RowType(fields=fields):
            return RowType(fields=tuple(replace(f, type=plain(f.type)) for f in fields))
    return normal(type_)


def _text(array: pa.Array, type_: DataType, atoms: _Atoms) -> pa.Array:
    from paimon_pyds.sql.text.tree import STRING

    match type_:
        case ArrayType(element=element):
            lists = Lists(array)
            return _joined(lists, _member(lists.items, element, atoms), "[", "]")
        case MapType(key=key, value=value):
            lists = Lists(array)
            pairs = [_member(lists.keys, key, atoms), _member(lists.values, value, atoms)]
            return _joined(lists, pc.binary_join_element_wise(*pairs, " -> "), "{", "}")
        case RowType(fields=fields):
            members = [_member(pc.struct_field(array, [n]), f.type, atoms) for n, f in enumerate(fields)]
            check_text(sum(map(text_bytes, members)) + 2 * len(members) * len(array), "a cast")
            inner = (
                pc.binary_join_element_wise(*members, ", ") if members else arrow_array([""] * len(array), pa.string())
            )
            whole = pc.binary_join_element_wise("{", inner, "}", "")
            return pc.if_else(array.is_valid(), whole, scalar(None, pa.string()))
    assert isinstance(type_, AtomicType)
    return atoms(array, type_, STRING)


def _member(array: pa.Array, type_: DataType, atoms: _Atoms) -> pa.Array:
    return pc.fill_null(_text(array, normal(type_), atoms), "null")


def _joined(lists: Lists, texts: pa.Array, left: str, right: str) -> pa.Array:
    check_text(text_bytes(texts) + 2 * len(texts) + 2 * len(lists.lengths), "a cast")
    joined = pc.binary_join(make_lists(pa.list_(pa.string()), lists.lengths, texts, lists.valid), ", ")
    return pc.binary_join_element_wise(left, joined, right, "")
