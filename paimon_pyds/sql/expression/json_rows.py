"""Rows, arrays and maps as JSON texts, column by column."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.sql.expression.cast import cast_array
from paimon_pyds.sql.expression.coercion import normal
from paimon_pyds.sql.expression.json_functions import quoted
from paimon_pyds.sql.expression.lists import Lists, make_lists
from paimon_pyds.sql.expression.nested import cast_value
from paimon_pyds.sql.expression.nodes import Apply, Function, Node, type_text
from paimon_pyds.sql.expression.operands import by_distinct, check_text, text_bytes
from paimon_pyds.sql.expression.time_texts import write_times
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INSTANT, _WALL_CLOCK = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXXXX]", "yyyy-MM-dd'T'HH:mm:ss[.SSS]"
_TEXTS = pa.list_(pa.string())


def _to_json(binder: Binder, arguments: list[Node]) -> Node:
    node = binder.plain(arguments[0])
    if not isinstance(node.type, ArrayType | MapType | RowType):
        raise LookupError(f"a row, an array or a map is wanted, not a {type_text(node.type)}")
    return Apply(tree.STRING, _written, (node,), (node.type, binder.zone))


def _written(values: pa.Array, type_: DataType, zone: str) -> pa.Array:
    """The JSON of values; NULL for NULL."""
    match type_:
        case ArrayType(element=element):
            lists = Lists(values)
            return _joined(lists, _or_null(_written(lists.items, normal(element), zone)), "[", "]")
        case MapType(key=key, value=value):
            lists = Lists(values)
            names = _quoted(cast_value(lists.keys, normal(key), tree.STRING, zone))
            items = _or_null(_written(lists.values, normal(value), zone))
            return _joined(lists, pc.binary_join_element_wise(names, items, ":"), "{", "}")
        case RowType(fields=fields):
            members = [_member(values, n, field, zone) for n, field in enumerate(fields)]
            check_text(sum(map(text_bytes, members)) + 2 * len(values), "to_json")
            inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)
            whole = pc.binary_join_element_wise("{", inner, "}", "")
            return pc.if_else(values.is_valid(), whole, scalar(None, pa.string()))
    assert isinstance(type_, AtomicType)
    return _atoms(values, type_, zone)


def _member(rows: pa.Array, number: int, field: DataField, zone: str) -> pa.Array:
    """A member with a comma before it; nothing where it is NULL."""
    texts = _written(pc.struct_field(rows, [number]), normal(field.type), zone)
    return pc.fill_null(pc.binary_join_element_wise(f",{quoted(field.name)}:", texts, ""), "")


def _atoms(values: pa.Array, type_: AtomicType, zone: str) -> pa.Array:
    kind = type_.kind
    if kind in STRING_KINDS:
        return _quoted(values)
    if kind in BINARY_KINDS:
        return by_distinct(values, _base64, pa.string())
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        local = kind is Kind.TIMESTAMP
        instants = values.cast(pa.timestamp("us")).view(pa.int64()).cast(pa.timestamp("us", "UTC"))
        return _in_quotes(write_times(instants, *((_WALL_CLOCK, "UTC") if local else (_INSTANT, zone))))
    texts = cast_array(values, type_, tree.STRING, zone)
    if kind in FLOAT_KINDS:
        special = pc.is_in(texts, arrow_array(["NaN", "Infinity", "-Infinity"], pa.string()))
        return pc.if_else(special, _in_quotes(texts), texts)
    if kind is Kind.DECIMAL:
        return by_distinct(values, str, pa.string())
    return texts if kind is Kind.BOOLEAN or kind in INTEGER_KINDS else _in_quotes(texts)


def _in_quotes(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _quoted(texts: pa.Array) -> pa.Array:
    return by_distinct(texts, quoted, pa.string())


def _or_null(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null")


def _joined(lists: Lists, texts: pa.Array, left: str, right: str) -> pa.Array:
    check_text(text_bytes(texts) + len(texts) + 2 * len(lists.lengths), "to_json")
    joined = pc.binary_join(make_lists(_TEXTS, lists.lengths, texts, np.ones(len(lists.lengths), np.bool_)), ",")
    whole = pc.binary_join_element_wise(left, joined, right, "")
    return pc.if_else(arrow_array(lists.valid), whole, scalar(None, pa.string()))


JSON_ROW_FUNCTIONS: dict[str, Function] = {"to_json": Function((1, 1), _to_json)}
