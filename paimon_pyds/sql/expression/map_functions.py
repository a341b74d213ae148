"""Functions of maps. A key is there once: what would give it twice is an error, as in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import ArrayType, DataField, MapType, RowType
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.array_items import common_item, item_type, unless_null
from paimon_pyds.sql.expression.coercion import VOID, normal
from paimon_pyds.sql.expression.lists import Lists, check_count, codes, make_lists
from paimon_pyds.sql.expression.nested import make_rows
from paimon_pyds.sql.expression.nodes import ANY, Apply, Constant, Function, Node, arrow_of, type_text
from paimon_pyds.sql.expression.operands import Datum, arrays, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


def map_type(node: Node) -> MapType:
    """The type of a map, whose keys and values are normal. Raises LookupError: another type."""
    if not isinstance(node.type, MapType):
        raise LookupError(f"a map is wanted, not a {type_text(node.type)}")
    return node.type


def checked_map(type_: pa.DataType, lengths: Any, entries: pa.Array, not_null: Any) -> pa.Array:
    """Maps of entries, one behind the other. Raises ExpressionError: a key is NULL, or is there twice."""
    keys = entries.field(0)
    if keys.null_count:
        raise ExpressionError("a map can't have a key that is NULL")
    rows, (values,) = np.repeat(np.arange(len(lengths)), lengths), codes(keys)
    pairs = rows * (int(values.max(initial=0)) + 1) + values
    _, first = np.unique(pairs, return_index=True)
    if len(first) < len(pairs):
        at = np.setdiff1d(np.arange(len(pairs)), first)[0]
        raise ExpressionError(f"a map has the key {keys[int(at)].as_py()!r:.100} twice")
    return make_lists(type_, lengths, entries, not_null)


def _keys(binder: Binder, arguments: list[Node]) -> Node:
    result = ArrayType(element=normal(map_type(arguments[0]).key))
    return Apply(result, _member, (arguments[0],), (0, arrow_of(result)))


def _values(binder: Binder, arguments: list[Node]) -> Node:
    result = ArrayType(element=normal(map_type(arguments[0]).value))
    return Apply(result, _member, (arguments[0],), (1, arrow_of(result)))


def _member(column: pa.Array, number: int, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    return lists.like(lists.items.field(number), type_)


def entry_type(type_: MapType) -> RowType:
    """The type of a map's entries."""
    return RowType(fields=(DataField(0, "key", normal(type_.key)), DataField(1, "value", normal(type_.value))))


def _entries(binder: Binder, arguments: list[Node]) -> Node:
    result = ArrayType(element=entry_type(map_type(arguments[0])))
    return Apply(result, _entries_of, (arguments[0],), (arrow_of(result),))


def _entries_of(column: pa.Array, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    rows = make_rows(type_.value_type, [lists.keys, lists.values], np.ones(len(lists.items), np.bool_))
    return lists.like(rows, type_)


def _contains_key(binder: Binder, arguments: list[Node]) -> Node:
    map_, key = arguments
    own = map_type(map_)
    if key.type is None:
        raise LookupError("NULL has no type here: write CAST(NULL AS …)")
    type_ = common_item(normal(own.key), key.type)
    wanted = MapType(key=type_.with_nullable(False), value=own.value)
    return Apply(tree.BOOLEAN, _has_key, (binder.coerce(map_, wanted), binder.coerce(key, type_)))


def _has_key(map_: Datum, key: Datum) -> pa.Array:
    column, wanted = arrays((map_, key))
    lists = Lists(column)
    found, looked_for = codes(lists.keys, wanted)
    return array(lists.any(found == looked_for[lists.rows]), mask=~(lists.valid & valid(wanted)))


def _map(binder: Binder, arguments: list[Node]) -> Node:
    if len(arguments) % 2:
        raise LookupError("keys and values are wanted in turns")
    given = [binder.plain(argument) for argument in arguments]
    keys, values = binder.common(given[::2]) if given else [], binder.common(given[1::2]) if given else []
    key, value = (nodes[0].type or VOID if nodes else VOID for nodes in (keys, values))
    result = MapType(key=key.with_nullable(False), value=value)
    if not given:
        return Constant(result, scalar([], arrow_of(result)))
    nodes = [
        binder.coerce(node, type_)
        for pair in zip(keys, values, strict=True)
        for node, type_ in zip(pair, (key, value), strict=True)
    ]
    return Apply(result, _made, tuple(nodes), (arrow_of(result),))


def _made(*data: Any) -> pa.Array:
    *given, type_ = data
    columns = arrays(given)
    rows, width = len(columns[0]), len(columns) // 2
    check_count(rows * width, "map")
    places = array(np.arange(rows * width).reshape(width, rows).T.reshape(-1))
    members = [pa.concat_arrays(columns[first::2]).take(places) for first in (0, 1)]
    entries = pa.StructArray.from_arrays(members, names=["key", "value"])
    return checked_map(type_, np.full(rows, width), entries, np.ones(rows, np.bool_))


def _from_arrays(binder: Binder, arguments: list[Node]) -> Node:
    key, value = (item_type(argument) for argument in arguments)
    result = MapType(key=key.with_nullable(False), value=value)
    return Apply(result, _paired, tuple(arguments), (arrow_of(result),))


def _paired(keys: Datum, values: Datum, type_: pa.DataType) -> pa.Array:
    first, second = (Lists(column) for column in arrays((keys, values)))
    not_null = first.valid & second.valid
    if (not_null & (first.lengths != second.lengths)).any():
        raise ExpressionError("map_from_arrays takes arrays of the same length")
    wanted = [array(not_null[lists.rows]) for lists in (first, second)]
    members = [first.items.filter(wanted[0]), second.items.filter(wanted[1])]
    entries = pa.StructArray.from_arrays(members, names=["key", "value"])
    return checked_map(type_, np.where(not_null, first.lengths, 0), entries, not_null)


def _from_entries(binder: Binder, arguments: list[Node]) -> Node:
    row = item_type(arguments[0])
    if not isinstance(row, RowType) or len(row.fields) != 2:
        raise LookupError("an array of rows of two fields is wanted")
    key, value = (normal(field.type) for field in row.fields)
    result = MapType(key=key.with_nullable(False), value=value)
    return Apply(result, _of_entries, tuple(arguments), (arrow_of(result),))


def _of_entries(column: pa.Array, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    not_null = lists.valid & ~lists.any(~valid(lists.items))
    items = lists.items.filter(array(not_null[lists.rows]))
    entries = pa.StructArray.from_arrays([pc.struct_field(items, [n]) for n in (0, 1)], names=["key", "value"])
    return checked_map(type_, np.where(not_null, lists.lengths, 0), entries, not_null)


def _concat(binder: Binder, arguments: list[Node]) -> Node:
    found = binder.common([binder.plain(argument) for argument in arguments])
    result = map_type(found[0])
    return Apply(result, _united, tuple(found), (arrow_of(result),))


def _united(*data: Any) -> pa.Array:
    *given, type_ = data
    columns = [Lists(column) for column in arrays(given)]
    not_null = np.logical_and.reduce([lists.valid for lists in columns])
    rows = np.concatenate([lists.rows for lists in columns])
    order = np.argsort(rows, kind="stable")
    order = order[not_null[rows[order]]]
    members = [
        pa.concat_arrays([lists.items.field(number) for lists in columns]).take(array(order)) for number in (0, 1)
    ]
    lengths = np.where(not_null, sum(lists.lengths for lists in columns), 0)
    return checked_map(type_, lengths, pa.StructArray.from_arrays(members, names=["key", "value"]), not_null)


def _text_map(texts: Datum, pairs: Datum, between: Datum, type_: pa.DataType) -> pa.Array:
    """Pairs are divided by one text, keys and values by the other; a key without a value has NULL."""
    columns = arrays((texts, pairs, between))
    whole = _splits(columns[0], columns[1])
    lists = Lists(whole)
    inner = Lists(_splits(lists.items, lists.spread(columns[2]), 2))
    has_value = inner.lengths > 1
    keys = inner.items.take(array(inner.offsets[:-1]))
    values = inner.items.take(array(inner.offsets[:-1] + 1, mask=~has_value))
    return checked_map(
        type_, lists.lengths, pa.StructArray.from_arrays([keys, values], names=["key", "value"]), lists.valid
    )


def _splits(texts: pa.Array, separators: pa.Array, most: int = -1) -> pa.Array:
    from paimon_pyds.sql.expression.regex_functions import split_texts

    return split_texts(texts, separators, most)


def _str_to_map(binder: Binder, arguments: list[Node]) -> Node:
    defaults = [Constant(tree.STRING, scalar(text)) for text in (",", ":")]
    given = [binder.coerce(node, tree.STRING) for node in (*arguments, *defaults[len(arguments) - 1 :])]
    result = MapType(key=tree.STRING.with_nullable(False), value=tree.STRING)
    return Apply(result, _text_map, tuple(given), (arrow_of(result),))


MAP_FUNCTIONS: dict[str, Function] = {
    "map": Function((0, ANY), _map),
    "map_keys": Function((1, 1), unless_null(_keys)),
    "map_values": Function((1, 1), unless_null(_values)),
    "map_entries": Function((1, 1), unless_null(_entries)),
    "map_contains_key": Function((2, 2), unless_null(_contains_key)),
    "map_from_arrays": Function((2, 2), unless_null(_from_arrays)),
    "map_from_entries": Function((1, 1), unless_null(_from_entries)),
    "map_concat": Function((1, ANY), unless_null(_concat)),
    "str_to_map": Function((1, 3), _str_to_map),
}
