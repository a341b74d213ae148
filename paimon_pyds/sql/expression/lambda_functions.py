"""Functions that take a function of items: ``exists(tags, t -> t LIKE 'a%')``.

The items of all rows of a batch are one column: the function is evaluated once for all of them, with the columns that
it names spread to the items of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, is_true, one_array, pc, scalar
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import ArrayType, DataType, MapType
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.array_items import item_type
from paimon_pyds.sql.expression.coercion import normal, same
from paimon_pyds.sql.expression.lists import Lists, make_lists, take_or_null, taken_rows
from paimon_pyds.sql.expression.map_functions import checked_map, map_type
from paimon_pyds.sql.expression.nodes import (
    Apply,
    Constant,
    Function,
    Node,
    Resolve,
    arrow_of,
    columns,
    spread_on,
    type_text,
)
from paimon_pyds.sql.expression.operands import Datum, TooLargeError, filled, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_Finish: TypeAlias = "Callable[[Lists, pa.Array, pa.DataType], pa.Array]"
_MOST_ITEMS = 100_000
"""Items of one array that are added up, one after the other."""
_MOST_STEPS = 1_000
"""Items of one array that are looked at one by one where the function fails for some of them."""


@dataclass(frozen=True)
class ForItems(Node):
    """A function of the items of arrays or maps, and what is made of its values.

    Attributes:
        given: the array or map; of two arrays both.
        body: the function, of columns named ``names``.
        names: the columns for an item and its position from 0, or for key and value, as many as the function takes.
        finish: makes the values of the rows.
    """

    given: tuple[Node, ...]
    body: Node
    names: tuple[str, ...]
    finish: _Finish

    def children(self) -> Sequence[Node]:
        return (*self.given, self.body)

    @property
    def variables(self) -> Sequence[str]:
        return self.names

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        lists, parts = self._items([spread_on(node, batch) for node in self.given])
        try:
            return self._at_once(batch, lists, parts)
        except ExpressionError as error:
            longest = int(lists.lengths.max(initial=0))
            if self.finish not in _DECIDING or isinstance(error, TooLargeError) or longest > _MOST_STEPS:
                raise
        return _until_decided(self, batch, lists, parts[0])

    def _at_once(self, batch: pa.RecordBatch, lists: Lists, parts: Sequence[pa.Array]) -> pa.Array:
        inner = items_batch(self.body, batch, lists.rows, dict(zip(self.names, parts, strict=False)))
        return self.finish(lists, spread_on(self.body, inner), arrow_of(self.type))

    def _items(self, given: Sequence[pa.Array]) -> tuple[Lists, list[pa.Array]]:
        lists = Lists(given[0])
        if len(given) == 2:
            return _side_by_side(lists, Lists(given[1]))
        if pa.types.is_map(given[0].type):
            return lists, [lists.keys, lists.values]
        return lists, [lists.items, arrow_array(lists.positions.astype(np.int32))]


def _side_by_side(first: Lists, second: Lists) -> tuple[Lists, list[pa.Array]]:
    """The items of two arrays in pairs; NULL where one of them is shorter."""
    not_null = first.valid & second.valid
    lengths = np.where(not_null, np.maximum(first.lengths, second.lengths), 0)
    pairs = Lists(make_lists(pa.list_(pa.null()), lengths, pa.nulls(int(lengths.sum())), not_null))
    parts = []
    for lists in (first, second):
        inside = pairs.positions < lists.lengths[pairs.rows]
        parts.append(take_or_null(lists.items, np.where(inside, lists.offsets[pairs.rows] + pairs.positions, -1)))
    return pairs, parts


def items_batch(body: Node, batch: pa.RecordBatch, rows: Any, given: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch with the columns that a function of items needs: those of its parameters, others as of some rows."""
    names = [name for name in dict.fromkeys(columns(body)) if name in batch.schema.names and name not in given]
    taken = [taken_rows(one_array(batch.column(name)), rows) for name in names]
    found = [*given.values(), *taken]
    if not found:  # a batch without columns does not know its length
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=[""])
    return pa.RecordBatch.from_arrays(found, names=[*given, *names])


def _condition(lists: Lists, values: pa.Array) -> tuple[Flags, Flags]:
    """Of the items, where a condition is true, and where it is unknown."""
    found = values.cast(pa.bool_())
    return is_true(found), ~valid(found)


def _exists(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    held, unknown = _condition(lists, values)
    any_ = lists.any(held)
    return arrow_array(any_, mask=~lists.valid | (~any_ & lists.any(unknown)))


def _until_decided(node: ForItems, batch: pa.RecordBatch, lists: Lists, items: pa.Array) -> pa.Array:
    """EXISTS and FORALL item by item: what stands behind the one that decides is not looked at."""
    deciding = _DECIDING[node.finish]
    decided, unknown = np.zeros(len(lists.lengths), np.bool_), np.zeros(len(lists.lengths), np.bool_)
    for position in range(int(lists.lengths.max(initial=0))):
        rows = np.flatnonzero((lists.lengths > position) & ~decided)
        taken = items.take(arrow_array(lists.offsets[rows] + position))
        found = spread_on(node.body, items_batch(node.body, batch, rows, {node.names[0]: taken})).cast(pa.bool_())
        decided[rows] = valid(found) & (filled(found, not deciding) == deciding)
        unknown[rows] |= ~valid(found)
    return arrow_array(decided == deciding, mask=~lists.valid | (~decided & unknown))


def _forall(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    held, unknown = _condition(lists, values)
    not_all = lists.any(~held & ~unknown)
    return arrow_array(~not_all, mask=~lists.valid | (~not_all & lists.any(unknown)))


_DECIDING: dict[_Finish, bool] = {_exists: True, _forall: False}
"""The functions that one item can decide, with the deciding result."""


def _filtered(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    return lists.kept(_condition(lists, values)[0], type_)


def _transformed(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    return lists.like(values, type_)


def _with_keys(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    entries = pa.StructArray.from_arrays([values, lists.values], names=["key", "value"])
    return checked_map(type_, lists.lengths, entries, lists.valid)


def _with_values(lists: Lists, values: pa.Array, type_: pa.DataType) -> pa.Array:
    entries = pa.StructArray.from_arrays([lists.keys, values], names=["key", "value"])
    return make_lists(type_, lists.lengths, entries, lists.valid)


def _of_array(finish: _Finish, result: Callable[[DataType, Node], DataType], condition: bool) -> Resolve:
    """A function of an array's item, and maybe its position."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        array = binder.plain(arguments[0])
        item = item_type(array)
        body, names = binder.body(arguments[1], [item] if finish in _DECIDING else [item, tree.INT])
        body = binder.condition(body) if condition else _typed(body)
        return ForItems(result(item, body), (array,), body, names, finish)

    return resolve


def _of_map(finish: _Finish, result: Callable[[MapType, Node], DataType], condition: bool = False) -> Resolve:
    """A function of keys and values."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        map_ = binder.plain(arguments[0])
        type_ = map_type(map_)
        body, names = binder.body(arguments[1], [normal(type_.key), normal(type_.value)])
        if len(names) != 2:
            raise LookupError("its function has two parameters, for key and value")
        body = binder.condition(body) if condition else _typed(body)
        return ForItems(result(type_, body), (map_,), body, names, finish)

    return resolve


def _typed(body: Node) -> Node:
    if body.type is None:
        raise LookupError("NULL has no type here: write CAST(NULL AS …)")
    return body


def _type(node: Node) -> DataType:
    assert node.type is not None
    return node.type


def _boolean(item: DataType, body: Node) -> DataType:
    return tree.BOOLEAN


def _same_items(item: DataType, body: Node) -> DataType:
    return ArrayType(element=item)


def _new_items(item: DataType, body: Node) -> DataType:
    return ArrayType(element=_type(body))


def _same_map(type_: MapType, body: Node) -> DataType:
    return type_


def _new_keys(type_: MapType, body: Node) -> DataType:
    return MapType(key=_type(body).with_nullable(False), value=type_.value)


def _new_values(type_: MapType, body: Node) -> DataType:
    return MapType(key=type_.key, value=_type(body))


def _zip_with(binder: Binder, arguments: list[Node]) -> Node:
    given = [binder.plain(argument) for argument in arguments[:2]]
    body, names = binder.body(arguments[2], [item_type(array) for array in given])
    if len(names) != 2:
        raise LookupError("its function has two parameters, for the items of both arrays")
    return ForItems(ArrayType(element=_type(_typed(body))), tuple(given), body, names, _transformed)


@dataclass(frozen=True)
class Aggregate(Node):
    """A value that takes up the items of an array one after the other: those at one position of all rows at once.

    Attributes:
        array: of the items.
        start: the first value.
        merge: the next value, of the columns ``names``: the value before, and an item.
        names: of these two columns.
    """

    array: Node
    start: Node
    merge: Node
    names: tuple[str, ...]

    def children(self) -> Sequence[Node]:
        return (self.array, self.start, self.merge)

    @property
    def variables(self) -> Sequence[str]:
        return self.names

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        lists, value = Lists(spread_on(self.array, batch)), spread_on(self.start, batch)
        longest = int(lists.lengths.max(initial=0))
        if longest > _MOST_ITEMS:
            raise ExpressionError(f"aggregate takes arrays of {_MOST_ITEMS:,} items at most, not of {longest:,}")
        for position in range(longest):
            rows = np.flatnonzero(lists.lengths > position)
            items = lists.items.take(arrow_array(lists.offsets[rows] + position))
            given = dict(zip(self.names, (value.take(arrow_array(rows)), items), strict=True))
            merged = spread_on(self.merge, items_batch(self.merge, batch, rows, given))
            places = np.arange(len(value))
            places[rows] = len(value) + np.arange(len(rows))
            value = pa.concat_arrays([value, merged]).take(arrow_array(places))
        places = np.where(lists.valid, np.arange(len(value)), -1)
        return take_or_null(value, places)


def _aggregate(binder: Binder, arguments: list[Node]) -> Node:
    array, start = (binder.plain(argument) for argument in arguments[:2])
    start = _typed(start)
    merge, names = binder.body(arguments[2], [start.type, item_type(array)])
    if len(names) != 2:
        raise LookupError("its first function has two parameters, for the value so far and an item")
    if merge.type is not None and not same(merge.type, start.type):
        raise LookupError(f"the value becomes a {type_text(merge.type)}: begin with CAST(… AS {type_text(merge.type)})")
    found: Node = Aggregate(start.type, array, start, binder.coerce(merge, start.type), names)
    if len(arguments) == 3:
        return found
    finish, names = binder.body(arguments[3], [start.type])
    if len(names) != 1:
        raise LookupError("its last function has one parameter")
    wrapped = binder.choice(  # of an array that is NULL nothing is made
        [Apply(tree.BOOLEAN, pc.is_valid, (array,))],
        [binder.call("array", [found]), Constant(None, scalar(None))],
    )
    items = ForItems(ArrayType(element=_type(_typed(finish))), (wrapped,), finish, names, _transformed)
    position = binder.literal(tree.integer(0))
    return binder.call("get", [items, position])


LAMBDA_FUNCTIONS: dict[str, Function] = {
    "exists": Function((2, 2), _of_array(_exists, _boolean, True), True),
    "forall": Function((2, 2), _of_array(_forall, _boolean, True), True),
    "filter": Function((2, 2), _of_array(_filtered, _same_items, True), True),
    "transform": Function((2, 2), _of_array(_transformed, _new_items, False), True),
    "zip_with": Function((3, 3), _zip_with, True),
    "aggregate": Function((3, 4), _aggregate, True),
    "map_filter": Function((2, 2), _of_map(_filtered, _same_map, True), True),
    "transform_keys": Function((2, 2), _of_map(_with_keys, _new_keys), True),
    "transform_values": Function((2, 2), _of_map(_with_values, _new_values), True),
}
