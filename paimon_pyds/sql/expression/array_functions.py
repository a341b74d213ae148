"""Functions that make arrays and single values of whole arrays, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, pc, scalar
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import ArrayType, AtomicType, DataType
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.array_items import (
    equal_items,
    item_type,
    of_array_and_value,
    same_items,
    unless_null,
    whole,
)
from paimon_pyds.sql.expression.coercion import Type
from paimon_pyds.sql.expression.lists import (
    Lists,
    check_count,
    codes,
    make_lists,
    offsets_of,
    ranks,
    take_or_null,
)
from paimon_pyds.sql.expression.made_arrays import gathered
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, arrow_of, type_text
from paimon_pyds.sql.expression.operands import Datum, arrays, check_text, filled, text_bytes, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_TEXT, _BOOLEAN = tree.STRING, tree.BOOLEAN


def _one_array(kernel: Callable[..., pa.Array], ordered: bool = False) -> Resolve:
    """An array of the same type, from one. ``ordered``: its items are compared."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        type_ = item_type(arguments[0])
        if ordered:
            _check_ordered(type_)
        return Apply(arguments[0].type, kernel, (arguments[0],), (arrow_of(arguments[0].type),))

    return unless_null(resolve)


def _distinct(column: pa.Array, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    return lists.kept(_is_first(lists.rows, *codes(lists.items)), type_)


def _is_first(rows: Int64s, values: Int64s) -> Flags:
    """Which values are the first of their kind in their row."""
    pairs = rows * (int(values.max(initial=0)) + 2) + values + 1
    flags = np.zeros(len(pairs), np.bool_)
    flags[np.unique(pairs, return_index=True)[1]] = True
    return flags


def _compact(column: pa.Array, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    return lists.kept(valid(lists.items), type_)


def _reversed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    lists = Lists(column)
    ends = np.repeat(lists.offsets[1:], lists.lengths)
    return lists.like(lists.items.take(arrow_array(ends - 1 - lists.positions)), type_)


def _sorted(column: pa.Array, type_: pa.DataType, ascending: bool = True, nulls_first: bool = False) -> pa.Array:
    lists = Lists(column)
    order, there = ranks(lists.items), valid(lists.items)
    nulls = there if nulls_first else ~there
    places = np.lexsort((order if ascending else -order, nulls, lists.rows))
    return lists.like(lists.items.take(arrow_array(places)), type_)


def _sort_array(binder: Binder, arguments: list[Node]) -> Node:
    """NULLs come first in ascending order, and last in descending order."""
    array, *order = arguments
    _check_ordered(item_type(array))
    up = _flag(order[0]) if order else True
    return Apply(array.type, _sorted, (array,), (arrow_of(array.type), up, up))


def _check_ordered(type_: DataType) -> None:
    if not isinstance(type_, AtomicType):
        raise LookupError(f"values of type {type_text(type_)} can't be ordered")


def _flag(node: Node) -> bool:
    found = node.value.as_py() if isinstance(node, Constant) else None
    if not isinstance(found, bool):
        raise LookupError("the order must be true or false")
    return found


def _extreme(greatest: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        type_ = item_type(arguments[0])
        _check_ordered(type_)
        return Apply(type_, _extreme_of, (arguments[0],), (greatest,))

    return unless_null(resolve)


def _extreme_of(column: pa.Array, greatest: bool) -> pa.Array:
    lists = Lists(column)
    order, there = ranks(lists.items), valid(lists.items)
    sorted_ = np.lexsort((-order if greatest else order, ~there, lists.rows))
    first = np.where(lists.lengths > 0, lists.offsets[:-1], -1)
    found = np.where(first >= 0, sorted_[first] if len(sorted_) else -1, -1)
    return take_or_null(lists.items, found)


def _several(binder: Binder, arguments: Sequence[Node]) -> tuple[list[Node], ArrayType]:
    """Arrays in their common type. Raises LookupError."""
    for argument in arguments:
        if argument.type is not None:
            item_type(argument)
    found = binder.common(arguments)
    type_ = found[0].type
    if not isinstance(type_, ArrayType):
        raise LookupError("arrays are wanted")
    return found, type_


def _of_arrays(kernel: Callable[..., pa.Array], result: Type = None, *options: Any) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given, type_ = _several(binder, [binder.plain(argument) for argument in arguments])
        return Apply(result or type_, kernel, tuple(given), options if result else (*options, arrow_of(type_)))

    return resolve


def concat_arrays(binder: Binder, arguments: list[Node]) -> Node:
    """CONCAT of arrays."""
    return _of_arrays(_concatenated)(binder, arguments)


def concat_items(binder: Binder, arguments: list[Node]) -> Node:
    """CONCAT_WS of which some arguments are arrays: their items are joined like other texts, NULLs are left out."""
    texts = ArrayType(element=_TEXT)
    given = [binder.coerce(arguments[0], _TEXT)]
    for node in arguments[1:]:
        alone = not isinstance(node.type, ArrayType)
        one = Apply(texts, gathered, (binder.coerce(node, _TEXT),), (arrow_of(texts),)) if alone else node
        given.append(binder.coerce(one, texts))
    return Apply(_TEXT, _items_joined, tuple(given))


def _items_joined(separator: Datum, *data: Datum) -> pa.Array:
    between, *columns = arrays([separator, *data])
    type_ = pa.list_(pa.string())
    there = [
        make_lists(type_, lists.lengths, lists.items, np.ones(len(between), np.bool_)) for lists in map(Lists, columns)
    ]
    return _joined_texts(_concatenated(*there, type_), between)


def _concatenated(*data: Any) -> pa.Array:
    *given, type_ = data
    columns = [Lists(column) for column in arrays(given)]
    not_null = np.logical_and.reduce([lists.valid for lists in columns])
    lengths = np.where(not_null, sum(lists.lengths for lists in columns), 0)
    check_count(int(lengths.sum()), "concat")
    places = np.empty(int(lengths.sum()), np.int64)
    starts, base = offsets_of(lengths)[:-1], 0
    for lists in columns:
        wanted = not_null[lists.rows]
        own = np.flatnonzero(wanted)
        places[starts[lists.rows[own]] + lists.positions[own]] = base + own
        starts, base = starts + lists.lengths, base + len(lists.items)
    items = pa.concat_arrays([lists.items for lists in columns])
    return make_lists(type_, lengths, items.take(arrow_array(places)), not_null)


def _as_sets(a: Datum, b: Datum, operation: str, type_: pa.DataType) -> pa.Array:
    """Each item once, in the order of the arrays: those of both, of one and the other, or of the first one only."""
    first, second = (Lists(column) for column in arrays((a, b)))
    values = np.concatenate(codes(first.items, second.items))
    rows = np.concatenate((first.rows, second.rows))
    pairs = rows * (int(values.max(initial=0)) + 2) + values + 1
    mine = np.arange(len(pairs)) < len(first.items)
    flags = _is_first(rows, values)
    if operation != "union":
        flags &= mine & (np.isin(pairs, pairs[~mine]) == (operation == "intersect"))
    not_null = first.valid & second.valid
    chosen = np.flatnonzero(flags & not_null[rows])
    chosen = chosen[np.argsort(rows[chosen], kind="stable")]
    lengths = np.bincount(rows[chosen], minlength=len(not_null))
    items = pa.concat_arrays([first.items, second.items]).take(arrow_array(chosen))
    return make_lists(type_, lengths, items, not_null)


def _overlap(a: Datum, b: Datum) -> pa.Array:
    first, second = (Lists(column) for column in arrays((a, b)))
    left, right = codes(first.items, second.items)
    width = int(max(left.max(initial=0), right.max(initial=0))) + 2
    there = left >= 0
    common = first.any(there & np.isin(first.rows * width + left, (second.rows * width + right)[right >= 0]))
    unknown = (first.lengths > 0) & (second.lengths > 0) & (first.any(~there) | second.any(right < 0))
    return arrow_array(common, mask=~(first.valid & second.valid & (common | ~unknown)))


def _joined_texts(array: Datum, separator: Datum, replacement: Datum | None = None) -> pa.Array:
    given = arrays((array, separator) if replacement is None else (array, separator, replacement))
    lists, between = Lists(given[0]), given[1]
    items = lists.items if replacement is None else pc.coalesce(lists.items, lists.spread(given[2]))
    lists = Lists(lists.like(items, pa.list_(pa.string())))
    check_text(text_bytes(items) + len(items) * int(pc.max(pc.binary_length(between)).as_py() or 0), "array_join")
    return pc.binary_join(lists.kept(valid(items), pa.list_(pa.string())), between)


def _array_join(binder: Binder, arguments: list[Node]) -> Node:
    item_type(arguments[0])
    given = [binder.coerce(arguments[0], ArrayType(element=_TEXT)), *(binder.coerce(a, _TEXT) for a in arguments[1:])]
    return Apply(_TEXT, _joined_texts, tuple(given))


def _slice(binder: Binder, arguments: list[Node]) -> Node:
    item_type(arguments[0])
    numbers = [whole(binder, argument) for argument in arguments[1:]]
    return Apply(arguments[0].type, _sliced, (arguments[0], *numbers), (arrow_of(arguments[0].type),))


def _sliced(array: Datum, start: Datum, length: Datum, type_: pa.DataType) -> pa.Array:
    column, starts, lengths = arrays((array, start, length))
    lists = Lists(column)
    not_null = lists.valid & valid(starts) & valid(lengths)
    first, count = filled(starts), filled(lengths)
    if (not_null & (first == 0)).any():
        raise ExpressionError("slice counts from 1, or from -1 at the end")
    if (not_null & (count < 0)).any():
        raise ExpressionError("slice takes a length that is not negative")
    begin = np.where(first < 0, lists.lengths + first, first - 1)
    stop = np.where(begin < 0, 0, np.minimum(begin + np.minimum(count, 1 << 32), lists.lengths))
    inside = not_null[lists.rows] & (lists.positions >= begin[lists.rows]) & (lists.positions < stop[lists.rows])
    found = lists.kept(inside, type_)
    return pc.if_else(arrow_array(not_null), found, scalar(None, type_))


def _flatten(binder: Binder, arguments: list[Node]) -> Node:
    inner = item_type(arguments[0])
    if not isinstance(inner, ArrayType):
        raise LookupError(f"an array of arrays is wanted, not one of {type_text(inner)}")
    return Apply(inner, _flattened, (arguments[0],), (arrow_of(inner),))


def _flattened(column: pa.Array, type_: pa.DataType) -> pa.Array:
    outer = Lists(column)
    inner = Lists(outer.items)
    not_null = outer.valid & ~outer.any(~inner.valid)
    kept = not_null[outer.rows[inner.rows]] if len(inner.rows) else np.zeros(0, np.bool_)
    lengths = np.bincount(outer.rows, inner.lengths, minlength=len(not_null)).astype(np.int64)
    return make_lists(
        type_, np.where(not_null, lengths, 0), inner.items.filter(arrow_array(kept, pa.bool_())), not_null
    )


def _edge(at_end: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        array, value, type_ = same_items(binder, *arguments)
        result = ArrayType(element=type_)
        one = Apply(result, gathered, (binder.coerce(value, type_),), (arrow_of(result),))
        return Apply(result, _concatenated, (array, one) if at_end else (one, array), (arrow_of(result),))

    return unless_null(resolve)


def _insert(binder: Binder, arguments: list[Node]) -> Node:
    array, value, type_ = same_items(binder, arguments[0], arguments[2])
    result = ArrayType(element=type_)
    given = (array, whole(binder, arguments[1]), binder.coerce(value, type_))
    return Apply(result, _inserted, given, (arrow_of(result),))


def _inserted(array_: Datum, position: Datum, value: Datum, type_: pa.DataType) -> pa.Array:
    """Positions count from 1, or from -1 behind the end; there are NULLs between the items and one that is far off."""
    column, positions, one = arrays((array_, position, value))
    lists, at = Lists(column), filled(positions).astype(np.int64)
    not_null = lists.valid & valid(positions)
    if (not_null & (at == 0)).any():
        raise ExpressionError("array_insert: positions count from 1, or from -1 at the end")
    size = lists.lengths
    far = np.maximum(np.abs(at) - size - 1, 0)  # NULLs
    before = np.where(at > 0, np.minimum(at - 1, size), np.maximum(size + at + 1, 0))
    own = before + np.where(at > 0, far, 0)
    lengths = np.where(not_null, size + far + 1, 0)
    check_count(int(lengths.sum()), "array_insert")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    numbers = np.arange(len(rows)) - np.repeat(offsets_of(lengths)[:-1], lengths)
    behind = before + far + 1
    source = np.where(numbers >= behind[rows], numbers - far[rows] - 1, numbers)
    places = np.where((numbers < before[rows]) | (numbers >= behind[rows]), lists.offsets[:-1][rows] + source, -1)
    places = np.where(numbers == own[rows], len(lists.items) + rows, places)
    items = pa.concat_arrays([lists.items, one])
    return make_lists(type_, lengths, take_or_null(items, places), not_null)


def reversed_array(binder: Binder, arguments: list[Node]) -> Node:
    """REVERSE of an array."""
    return _one_array(_reversed)(binder, arguments)


def _removed(array: Datum, value: Datum, type_: pa.DataType) -> pa.Array:
    column, wanted = arrays((array, value))
    lists = Lists(column)
    left = lists.kept(~equal_items(lists, wanted)[1], type_)
    return pc.if_else(wanted.is_valid(), left, scalar(None, type_))


ARRAY_FUNCTIONS: dict[str, Function] = {
    "array_remove": Function((2, 2), of_array_and_value(_removed)),
    "array_append": Function((2, 2), _edge(True)),
    "array_prepend": Function((2, 2), _edge(False)),
    "array_insert": Function((3, 3), unless_null(_insert)),
    "array_distinct": Function((1, 1), _one_array(_distinct)),
    "array_compact": Function((1, 1), _one_array(_compact)),
    "array_sort": Function((1, 1), _one_array(_sorted, ordered=True)),
    "sort_array": Function((1, 2), unless_null(_sort_array)),
    "array_max": Function((1, 1), _extreme(True)),
    "array_min": Function((1, 1), _extreme(False)),
    "array_union": Function((2, 2), _of_arrays(_as_sets, None, "union")),
    "array_intersect": Function((2, 2), _of_arrays(_as_sets, None, "intersect")),
    "array_except": Function((2, 2), _of_arrays(_as_sets, None, "except")),
    "arrays_overlap": Function((2, 2), _of_arrays(_overlap, _BOOLEAN)),
    "array_join": Function((2, 3), unless_null(_array_join)),
    "slice": Function((3, 3), unless_null(_slice)),
    "flatten": Function((1, 1), unless_null(_flatten)),
}
