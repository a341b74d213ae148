"""Arrays and maps as kernels take them: how many items each row has, and all items one behind the other.

A condition on items is evaluated once for all of them, and then brought back to the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, bits, fixed_binary, pc, scalar, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.sql.expression.operands import TooLargeError, arrays, check_text, filled, valid

MOST_ITEMS = 1 << 26
"""Items that one function makes for one batch."""


class Lists:
    """The arrays or maps of a column.

    Attributes:
        valid: which rows are not NULL.
        lengths: how many items each row has; a NULL has none.
        items: the items of all rows; of maps structs of key and value.
    """

    def __init__(self, column: pa.Array) -> None:
        self.valid: Flags = valid(column)
        bounds = np.asarray(column.offsets).astype(np.int64)
        self.lengths: Int64s = np.where(self.valid, np.diff(bounds), 0)
        starts = bounds[:-1]
        total = int(self.lengths.sum())
        items = _items(column)
        first = int(starts[0]) if len(starts) else 0
        if np.array_equal(starts - first, self.offsets[:-1]):
            self.items = items.slice(first, total)
        else:  # there are items under a NULL
            self.items = items.take(array(np.repeat(starts - self.offsets[:-1], self.lengths) + np.arange(total)))

    @cached_property
    def offsets(self) -> Int64s:
        """Where the items of each row begin; one more bound at the end."""
        return offsets_of(self.lengths)

    @cached_property
    def rows(self) -> Int64s:
        """The row of each item."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def positions(self) -> Int64s:
        """The position of each item in its row, from 0."""
        return np.arange(len(self.rows)) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def keys(self) -> pa.Array:
        """Of maps."""
        return self.items.field(0)

    @property
    def values(self) -> pa.Array:
        """Of maps."""
        return self.items.field(1)

    def spread(self, column: pa.Array) -> pa.Array:
        """For each item the value that a column has in its row."""
        return column.take(array(self.rows))

    def any(self, flags: Flags) -> Flags:
        """Rows that have an item with a flag."""
        return np.bincount(self.rows[flags], minlength=len(self.lengths)) > 0

    def first(self, flags: Flags) -> Int64s:
        """Of each row the place, among all items, of its first one with a flag; -1 where it has none."""
        found = np.full(len(self.lengths), -1, np.int64)
        places = np.flatnonzero(flags)[::-1]
        found[self.rows[places]] = places
        return found

    def at(self, positions: Int64s) -> Int64s:
        """Of each row the place, among all items, of the item at a position from 0; -1 past its end."""
        inside = (positions >= 0) & (positions < self.lengths)
        return np.where(inside, self.offsets[:-1] + positions, -1)

    def kept(self, flags: Flags, type_: pa.DataType) -> pa.Array:
        """The same arrays or maps with the items that have a flag only."""
        lengths = np.bincount(self.rows[flags], minlength=len(self.lengths))
        return make_lists(type_, lengths, self.items.filter(array(flags)), self.valid)

    def like(self, items: pa.Array, type_: pa.DataType) -> pa.Array:
        """Arrays of the same lengths with other items."""
        return make_lists(type_, self.lengths, items, self.valid)


def offsets_of(lengths: Int64s) -> Int64s:
    """Where rows of these lengths begin, and where the last one ends."""
    found = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def _items(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column.values
    entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
    return entries


def take_or_null(items: pa.Array, places: Int64s) -> pa.Array:
    """The items at some places; NULL for -1."""
    return items.take(array(places, mask=places < 0))


def taken_rows(column: pa.Array, rows: Int64s) -> pa.Array:
    """The values of some rows, some maybe many times. Raises ExpressionError: they are too large for that."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        check_text(int(filled(pc.binary_length(column))[rows].sum(dtype=np.int64)))
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        check_count(int(np.diff(np.asarray(column.offsets))[rows].sum(dtype=np.int64)), "a function of items")
    return column.take(array(rows))


def check_count(count: int, what: str) -> None:
    """Raise ExpressionError for more than `MOST_ITEMS` items, before there is memory for them."""
    if count > MOST_ITEMS:
        raise TooLargeError(f"{what} makes {count:,} items for one batch of rows; at most {MOST_ITEMS:,} are made")


def make_lists(type_: pa.DataType, lengths: npt.NDArray[Any], items: pa.Array, not_null: Flags) -> pa.Array:
    """Arrays, or maps, of items one behind the other; rows that are NULL have none."""
    offsets = pa.py_buffer(offsets_of(lengths.astype(np.int64)).astype(np.int32))
    validity = None if not_null.all() else bits(not_null)
    if pa.types.is_map(type_):
        keys = items.field(0)
        assert not keys.null_count  # counted here, as pyarrow 16 ends the process where it does not know it
        items = pa.StructArray.from_arrays([keys, items.field(1)], fields=[type_.key_field, type_.item_field])
    elif items.type != type_.value_type:
        items = items.cast(type_.value_type)
    return pa.Array.from_buffers(type_, len(lengths), [validity, offsets], children=[items])


def codes(*columns: pa.Array) -> list[Int64s]:
    """Numbers that are the same for equal values, in all of these columns; -1 for NULL.

    The columns have one type, which may be nested. As in Spark NaN equals NaN, 0.0 equals -0.0, and inside of arrays
    and rows NULL equals NULL.
    """
    whole = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    found = _codes(whole)
    bounds = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(found, bounds)


def _codes(column: pa.Array) -> Int64s:
    type_ = column.type
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        lists = Lists(column)
        inner = np.ascontiguousarray(_codes(lists.items))
        offsets = pa.py_buffer((8 * lists.offsets).astype(np.int32))
        column = pa.Array.from_buffers(pa.binary(), len(column), [None, offsets, pa.py_buffer(inner)])
        return np.where(lists.valid, _encoded(column), -1)
    if pa.types.is_struct(type_):
        members = [_codes(pc.struct_field(column, [number])) for number in range(type_.num_fields)]
        rows = fixed_binary(np.stack(members, axis=1)) if members and len(column) else array([b""] * len(column))
        return np.where(valid(column), _encoded(rows), -1)
    if pa.types.is_floating(type_):
        column = pc.if_else(pc.is_nan(column), scalar(float("nan"), type_), pc.add(column, scalar(0.0, type_)))
    return _encoded(column)


def _encoded(column: pa.Array) -> Int64s:
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int64)
    return filled(column.dictionary_encode().indices, -1).astype(np.int64)


def compare_nested(a: pa.Array | pa.Scalar, b: pa.Array | pa.Scalar, operator: str) -> pa.Array:
    """``a operator b`` of arrays or rows, for = <> <=>: NULL where one of them is NULL itself, but for <=>."""
    first, second = arrays((a, b))
    left, right = codes(first, second)
    if operator == "<=>":
        return array(left == right)
    return array((left == right) == (operator == "="), mask=(left < 0) | (right < 0))


def ranks(items: pa.Array) -> Int64s:
    """Numbers in the order of the values, as Spark has it: NaN is the greatest. Those of NULL are any."""
    if pa.types.is_boolean(items.type):
        return filled(items.cast(pa.int8())).astype(np.int64)
    if pa.types.is_floating(items.type):
        items = pc.add(items, scalar(0.0, items.type))
        nan = pc.fill_null(pc.is_nan(items), False)
        numbers = pc.if_else(nan, scalar(None, items.type), items)
        found = filled(pc.rank(numbers, "ascending", tiebreaker="dense")).astype(np.int64)
        return np.where(to_numpy(nan), len(items) + 1, found)
    return filled(pc.rank(items, "ascending", tiebreaker="dense")).astype(np.int64)
