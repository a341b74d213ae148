"""Arrays and rows that are made of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, scalar
from paimon_pyds.base.types import ArrayType, DataField, RowType
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.array_items import item_type, null_constant, whole
from paimon_pyds.sql.expression.coercion import VOID
from paimon_pyds.sql.expression.lists import (
    Lists,
    check_count,
    make_lists,
    offsets_of,
    take_or_null,
)
from paimon_pyds.sql.expression.nested import make_rows
from paimon_pyds.sql.expression.nodes import ANY, Apply, Column, Constant, Function, Node, arrow_of
from paimon_pyds.sql.expression.operands import Datum, arrays, filled, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


_INT = tree.INT


def _array(binder: Binder, arguments: list[Node]) -> Node:
    given = binder.common([binder.plain(argument) for argument in arguments]) if arguments else []
    type_ = given[0].type if given else None
    result = ArrayType(element=VOID if type_ is None else type_)
    if not given:
        return Constant(result, scalar([], arrow_of(result)))
    if type_ is None:
        given = [null_constant(VOID)] * len(given)
    return Apply(result, gathered, tuple(given), (arrow_of(result),))


def gathered(*data: Any) -> pa.Array:
    """Columns, and the type of the arrays that are made of their values, row by row."""
    *given, type_ = data
    columns = arrays(given)
    rows, width = len(columns[0]), len(columns)
    check_count(rows * width, "array")
    places = np.arange(rows * width).reshape(width, rows).T.reshape(-1)
    items = pa.concat_arrays(columns).take(array(places))
    return make_lists(type_, np.full(rows, width), items, np.ones(rows, np.bool_))


def _repeat(binder: Binder, arguments: list[Node]) -> Node:
    value = binder.plain(arguments[0])
    if value.type is None:
        value = null_constant(VOID)
    assert value.type is not None
    result = ArrayType(element=value.type)
    return Apply(result, _repeated, (value, whole(binder, arguments[1])), (arrow_of(result),))


def _repeated(value: Datum, count: Datum, type_: pa.DataType) -> pa.Array:
    column, counts = arrays((value, count))
    not_null = valid(counts)
    lengths = np.where(not_null, np.maximum(filled(counts), 0), 0)
    check_count(sum(lengths.tolist()), "array_repeat")
    return make_lists(type_, lengths, column.take(array(np.repeat(np.arange(len(column)), lengths))), not_null)


def _sequence(binder: Binder, arguments: list[Node]) -> Node:
    days = [a.type is not None and a.type.kind is Kind.DATE for a in arguments[:2]]
    if all(days) and len(arguments) == 2:
        numbers = tuple(Apply(_INT, _day_numbers, (argument,)) for argument in arguments)
        return Apply(ArrayType(element=tree.DATE), _dates, numbers)
    for argument in arguments:
        whole(binder, argument)
    found = binder.common(arguments)
    result = ArrayType(element=found[0].type or _INT)
    given = [binder.coerce(node, tree.LONG) for node in found]
    return Apply(result, _counted, tuple(given), (arrow_of(result),))


def _day_numbers(dates: pa.Array) -> pa.Array:
    return dates.view(pa.int32())


def _dates(start: Datum, stop: Datum) -> pa.Array:
    found = _counted(*(column.cast(pa.int64()) for column in arrays((start, stop))), pa.list_(pa.int32()))
    lists = Lists(found)
    return lists.like(lists.items.view(pa.date32()), arrow_of(ArrayType(element=tree.DATE)))


def _counted(*data: Any) -> pa.Array:
    *given, type_ = data
    start, stop, *steps = arrays(given)
    not_null = np.logical_and.reduce([valid(column) for column in (start, stop, *steps)])
    first, last = filled(start), filled(stop)
    step = filled(steps[0]) if steps else np.where(first <= last, 1, -1)
    gets_there = ((first <= last) & (step > 0)) | ((first >= last) & (step < 0)) | ((first == last) & (step == 0))
    wrong = not_null & ~gets_there
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ExpressionError(f"sequence does not get from {first[at]} to {last[at]} by steps of {step[at]}")
    span = np.abs(last.astype(np.float64) - first)
    check_count(int((np.where(not_null, span / np.maximum(np.abs(step), 1), 0) + 1).sum()), "sequence")
    lengths = np.where(not_null, np.abs(last - first) // np.maximum(np.abs(step), 1) + 1, 0)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    numbers = np.arange(len(rows)) - np.repeat(offsets_of(lengths)[:-1], lengths)
    return make_lists(type_, lengths, array(first[rows] + numbers * step[rows], pa.int64()), not_null)


def _zip(binder: Binder, arguments: list[Node]) -> Node:
    given = [binder.plain(argument) for argument in arguments]
    names = [a.name.rpartition(".")[2] if isinstance(a, Column) else str(n) for n, a in enumerate(given)]
    fields = tuple(DataField(n, name, item_type(a)) for n, (name, a) in enumerate(zip(names, given, strict=True)))
    result = ArrayType(element=RowType(fields=fields))
    return Apply(result, _zipped, tuple(given), (arrow_of(result),))


def _zipped(*data: Any) -> pa.Array:
    *given, type_ = data
    columns = [Lists(column) for column in arrays(given)]
    not_null = np.logical_and.reduce([lists.valid for lists in columns])
    lengths = np.where(not_null, np.maximum.reduce([lists.lengths for lists in columns]), 0)
    check_count(int(lengths.sum()), "arrays_zip")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    numbers = np.arange(len(rows)) - np.repeat(offsets_of(lengths)[:-1], lengths)
    members = []
    for lists in columns:
        inside = numbers < lists.lengths[rows]
        members.append(take_or_null(lists.items, np.where(inside, lists.offsets[:-1][rows] + numbers, -1)))
    return make_lists(type_, lengths, make_rows(type_.value_type, members, np.ones(len(rows), np.bool_)), not_null)


def _named_struct(binder: Binder, arguments: list[Node]) -> Node:
    names = [node.value.as_py() if isinstance(node, Constant) else None for node in arguments[::2]]
    if not names or len(arguments) % 2 or not all(isinstance(name, str) for name in names):
        raise LookupError("names, as texts, and values are wanted in turns")
    given = [binder.plain(node) if node.type is not None else null_constant(VOID) for node in arguments[1::2]]
    fields = [
        DataField(n, str(name), node.type) for n, (name, node) in enumerate(zip(names, given, strict=True)) if node.type
    ]
    result = RowType(fields=tuple(fields))
    return Apply(result, _row, tuple(given), (arrow_of(result),))


def _row(*data: Any) -> pa.Array:
    *given, type_ = data
    columns = arrays(given)
    return make_rows(type_, columns, np.ones(len(columns[0]), np.bool_))


MADE_FUNCTIONS: dict[str, Function] = {
    "array": Function((0, ANY), _array),
    "named_struct": Function((2, ANY), _named_struct),
    "array_repeat": Function((2, 2), _repeat),
    "sequence": Function((2, 3), _sequence),
    "arrays_zip": Function((1, ANY), _zip),
}
