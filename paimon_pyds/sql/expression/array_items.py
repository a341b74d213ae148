"""Functions that look into arrays and maps: what they contain, where, and single items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, pc, scalar, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import ArrayType, DataField, DataType, MapType
from paimon_pyds.base.types.kinds import INTEGER_KINDS, STRING_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.coercion import VOID, Type, common_type, normal
from paimon_pyds.sql.expression.lists import (
    Lists,
    codes,
    take_or_null,
)
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, arrow_of, type_text
from paimon_pyds.sql.expression.operands import Datum, arrays, filled, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


_INT, _BOOLEAN = tree.INT, tree.BOOLEAN
_NO_ELEMENT_HINT = "use get(array, position) or try_element_at(array, number), which give NULL there"


def item_type(node: Node) -> DataType:
    """The type of an array's items. Raises LookupError: it is no array."""
    if not isinstance(node.type, ArrayType):
        raise LookupError(f"an array is wanted, not a {type_text(node.type)}")
    return normal(node.type.element)


def null_constant(type_: Type) -> Constant:
    """NULL of a type."""
    return Constant(type_, scalar(None, arrow_of(type_)))


def unless_null(resolve: Resolve) -> Resolve:
    """NULL where the first argument is the literal NULL, which has no type; all arguments in their plain types."""

    def resolved(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.plain(argument) for argument in arguments]
        return null_constant(None) if given[0].type is None else resolve(binder, given)

    return resolved


def common_item(item: DataType, value: Type) -> DataType:
    """The common type of an item and a value. Raises LookupError: they have no common type, or one alone is a text."""
    found = common_type(item, value)
    if value is not None and item != VOID and (item.kind in STRING_KINDS) != (value.kind in STRING_KINDS):
        raise LookupError(f"{type_text(item)} and {type_text(value)} have no common type")
    assert found is not None
    return found


def same_items(binder: Binder, array: Node, value: Node) -> tuple[Node, Node, DataType]:
    """An array and a value in the common type of its items and the value. Raises LookupError."""
    type_ = common_item(item_type(array), value.type)
    return binder.coerce(array, ArrayType(element=type_)), binder.coerce(value, type_), type_


def of_array_and_value(kernel: Callable[..., pa.Array], result: Type = None) -> Resolve:
    """A function of an array and a value, in a common type. ``result``: None for an array of the same items."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        array, value, type_ = same_items(binder, *arguments)
        if value.type is None:
            raise LookupError("NULL has no type here: write CAST(NULL AS …)")
        own = result or ArrayType(element=type_)
        return Apply(own, kernel, (array, value), () if result else (arrow_of(own),))

    return unless_null(resolve)


def equal_items(lists: Lists, value: pa.Array) -> tuple[Int64s, Flags]:
    """Codes of the items, -1 for NULL, and which of them equal the value of their row."""
    found, wanted = codes(lists.items, value)
    return found, (found == wanted[lists.rows]) & (found >= 0)


def _contains(array: Datum, value: Datum) -> pa.Array:
    column, wanted = arrays((array, value))
    lists = Lists(column)
    found, equal = equal_items(lists, wanted)
    hit = lists.any(equal)
    known = hit | ~lists.any(found < 0)
    return arrow_array(hit, mask=~(known & lists.valid & valid(wanted)))


def _position(array: Datum, value: Datum) -> pa.Array:
    column, wanted = arrays((array, value))
    lists = Lists(column)
    place = lists.first(equal_items(lists, wanted)[1])
    number = np.where(place < 0, 0, place - lists.offsets[:-1] + 1)
    return arrow_array(number, pa.int64(), mask=~(lists.valid & valid(wanted)))


def _size(column: pa.Array) -> pa.Array:
    return arrow_array(np.diff(to_numpy(column.offsets)), pa.int32(), mask=~valid(column))


def _sized(*kinds: type[DataType]) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        if not isinstance(arguments[0].type, kinds):
            raise LookupError(f"an array is wanted, not a {type_text(arguments[0].type)}")
        return Apply(_INT, _size, (arguments[0],))

    def resolved(binder: Binder, arguments: list[Node]) -> Node:
        return null_constant(_INT) if arguments[0].type is None else resolve(binder, arguments)

    return resolved


def subscript(binder: Binder, child: Node, key: Node) -> Node:
    """``child[key]``: the value of a map's key, NULL where it has none; an array's element, from 0.
    Raises LookupError."""
    child = binder.plain(child)
    if isinstance(child.type, MapType):
        return _value_of_key(binder, child, key)
    type_ = item_type(child)
    return Apply(type_, _item, (child, whole(binder, key)), (0, True))


def whole(binder: Binder, node: Node) -> Node:
    """An integer as BIGINT. Raises LookupError: another type."""
    if node.type is not None and node.type.kind not in INTEGER_KINDS:
        raise LookupError(f"a whole number is wanted, not a {type_text(node.type)}")
    return binder.coerce(node, tree.LONG)


def _item(array: Datum, position: Datum, first: int, strict: bool) -> pa.Array:
    """The items at positions that count from ``first``; from 1 on negative ones count from the end."""
    column, wanted = arrays((array, position))
    lists, numbers = Lists(column), filled(wanted)
    there = lists.valid & valid(wanted)
    if first == 1 and (there & (numbers == 0)).any():
        raise ExpressionError("element_at counts from 1, or from -1 at the end")
    places = np.where(numbers < 0, lists.lengths + numbers, numbers - 1) if first == 1 else numbers
    found = np.where(there, lists.at(places), -1)
    if strict and (lost := there & (found < 0)).any():
        at = int(np.argmax(lost))
        raise ExpressionError(
            f"an array of {lists.lengths[at]} elements has no element {numbers[at]}", hint=_NO_ELEMENT_HINT
        )
    return take_or_null(lists.items, found)


def _get(first: int, strict: bool, maps: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        child, key = arguments
        if maps and isinstance(child.type, MapType):
            return _value_of_key(binder, child, key)
        return Apply(item_type(child), _item, (child, whole(binder, key)), (first, strict))

    return unless_null(resolve)


def _value_of_key(binder: Binder, child: Node, key: Node) -> Node:
    assert isinstance(child.type, MapType)
    type_ = common_item(normal(child.type.key), key.type)
    value = normal(child.type.value)
    wanted = MapType(key=type_.with_nullable(False), value=value)
    return Apply(value, _looked_up, (binder.coerce(child, wanted), binder.coerce(key, type_)))


def _looked_up(map_: Datum, key: Datum) -> pa.Array:
    column, wanted = arrays((map_, key))
    lists = Lists(column)
    found, looked_for = codes(lists.keys, wanted)
    return take_or_null(lists.values, lists.first((found == looked_for[lists.rows]) & (found >= 0)))


def member_of_items(node: Node, field: DataField) -> Node:
    """``array.field`` of an array of rows: an array of that field's values."""
    type_ = ArrayType(element=normal(field.type))
    return Apply(type_, _members, (node,), (field.name, arrow_of(type_)))


def _members(column: pa.Array, name: str, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    return lists.like(pc.struct_field(lists.items, name), type_)


ITEM_FUNCTIONS: dict[str, Function] = {
    "array_contains": Function((2, 2), of_array_and_value(_contains, _BOOLEAN)),
    "array_position": Function((2, 2), of_array_and_value(_position, tree.LONG)),
    "size": Function((1, 1), _sized(ArrayType, MapType)),
    "array_size": Function((1, 1), _sized(ArrayType)),
    "element_at": Function((2, 2), _get(1, True, True)),
    "try_element_at": Function((2, 2), _get(1, False, True)),
    "get": Function((2, 2), _get(0, False, False)),
}
