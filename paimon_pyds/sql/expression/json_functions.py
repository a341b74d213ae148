"""Functions of JSON texts, and rows, arrays and maps as such texts.

Each distinct text is parsed once; what is no JSON has the value NULL, as in Spark.

Paths are those of Spark's ``get_json_object``: ``$``, ``.name``, ``['name']``, ``[0]``, ``[*]``, ``.*``.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from paimon_pyds.base.types.java_text import java_float_text
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.base.variant.json_text import quoted
from paimon_pyds.sql.expression.cast import cast_array
from paimon_pyds.sql.expression.coercion import normal
from paimon_pyds.sql.expression.lists import Lists, make_lists
from paimon_pyds.sql.expression.nested import cast_value
from paimon_pyds.sql.expression.nodes import Apply, Function, Node, type_text, typed
from paimon_pyds.sql.expression.operands import by_distinct, by_distinct_rows, check_text, text_bytes
from paimon_pyds.sql.expression.time_texts import write_times
from paimon_pyds.sql.expression.variant_functions import VARIANT, json_of
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_TEXT = tree.STRING
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\['(?P<quoted>[^']*)'\]|\[(?P<place>[0-9]{1,9})\]|(?P<all>\[\*\])")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_BARE_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


class _Everything:
    """All items of an array, or all values of an object."""


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


class _Object(dict[str, Any]):
    """An object: of a name that is there twice the first value counts, and both are written."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        self.pairs = pairs


_decoder = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_no_number, strict=False)


def _parsed(text: str) -> Any:
    """The value that a text begins with. Raises ValueError, RecursionError."""
    text = text.lstrip(" \t\r\n")
    try:
        return _decoder.raw_decode(text)[0]
    except ValueError:
        if "'" not in text:
            raise
        return _decoder.raw_decode(_STRING.sub(_double_quoted, text))[0]


def _double_quoted(match: re.Match[str]) -> str:
    """A string in single quotes, which Spark takes, too, as JSON has it."""
    text = match[0]
    if text.startswith('"'):
        return text
    inner = text[1:-1].replace("\\'", "'")
    return f'"{_BARE_QUOTE.sub(_escaped, inner)}"'


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else '\\"'


@lru_cache(maxsize=256)
def _path(text: str) -> tuple[str | int | type[_Everything], ...] | None:
    """None for what is no path."""
    if not text.startswith("$"):
        return None
    steps: list[str | int | type[_Everything]] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        name = match["name"] if match["name"] is not None else match["quoted"]
        if match["all"] or name == "*":
            steps.append(_Everything)
        else:
            steps.append(name if name is not None else int(match["place"]))
        at = match.end()
    return tuple(steps)


def _object_at(text: str, path: str) -> str | None:
    steps = _path(path)
    if steps is None:
        return None
    try:
        found, several = _followed([_parsed(text)], steps)
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    if several:
        return _written(found if len(found) > 1 else found[0])
    value = found[0]
    if value is None and steps:
        return None
    return value if isinstance(value, str) else _written(value)


def _followed(values: list[Any], steps: tuple[Any, ...]) -> tuple[list[Any], bool]:
    """The values at the end of a path, and whether it leads to several."""
    several = False
    for step in steps:
        if step is _Everything:
            several = True
            values = [item for value in values if isinstance(value, list) for item in value]
        elif isinstance(step, str):
            values = [value[step] for value in values if isinstance(value, dict) and step in value]
        else:
            values = [value[step] for value in values if isinstance(value, list) and step < len(value)]
    return values, several


def _written(value: Any) -> str:
    """JSON without blanks."""
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_text(key)}:{_written(item)}" for key, item in value.pairs) + "}"
    if isinstance(value, float):
        text = java_float_text(value, single=False)
        return f'"{text}"' if math.isinf(value) else text
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _text(value)


def _text(value: Any) -> str:
    return _BEYOND.sub(_surrogates, quoted(value)) if isinstance(value, str) else json.dumps(value)


def _surrogates(match: re.Match[str]) -> str:
    """Characters of four bytes, which Spark writes as two escapes."""
    return "".join(f"\\u{unit:04X}" for unit in struct.unpack(">2H", match[0].encode("utf-16-be")))


def _objects(texts: Any, paths: Any) -> pa.Array:
    return by_distinct_rows(_object_at, pa.string(), texts, paths)


def _length(text: str) -> int | None:
    try:
        value = _parsed(text)
    except (ValueError, RecursionError):
        return None
    return len(value) if isinstance(value, list) else None


def _keys(text: str) -> list[str] | None:
    try:
        value = _parsed(text)
    except (ValueError, RecursionError):
        return None
    return [name for name, _ in value.pairs] if isinstance(value, _Object) else None


def _get_json_object(binder: Binder, arguments: list[Node]) -> Node:
    text, path = (binder.coerce(node, _TEXT) for node in arguments)
    return Apply(_TEXT, _objects, (text, path))


_INSTANT, _WALL_CLOCK = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXXXX]", "yyyy-MM-dd'T'HH:mm:ss[.SSS]"
_TEXTS = pa.list_(pa.string())


def _to_json(binder: Binder, arguments: list[Node]) -> Node:
    node = binder.plain(arguments[0])
    if not isinstance(node.type, ArrayType | MapType | RowType) and node.type != VARIANT:
        raise LookupError(f"a row, an array, a map or a VARIANT is wanted, not a {type_text(node.type)}")
    return Apply(tree.STRING, _json_of, (node,), (node.type, binder.zone))


def _json_of(values: pa.Array, type_: DataType, zone: str) -> pa.Array:
    """The JSON of values; NULL for NULL."""
    match type_:
        case ArrayType(element=element):
            lists = Lists(values)
            return _joined(lists, _or_null(_json_of(lists.items, normal(element), zone)), "[", "]")
        case MapType(key=key, value=value):
            lists = Lists(values)
            names = _quoted(cast_value(lists.keys, normal(key), tree.STRING, zone))
            items = _or_null(_json_of(lists.values, normal(value), zone))
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
    texts = _json_of(pc.struct_field(rows, [number]), normal(field.type), zone)
    return pc.fill_null(pc.binary_join_element_wise(f",{quoted(field.name)}:", texts, ""), "")


def _atoms(values: pa.Array, type_: AtomicType, zone: str) -> pa.Array:
    kind = type_.kind
    if kind is Kind.VARIANT:
        return json_of(values, zone)
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


JSON_FUNCTIONS: dict[str, Function] = {
    "get_json_object": Function((2, 2), _get_json_object),
    "json_array_length": Function((1, 1), typed(by_distinct, tree.INT, _TEXT, options=(_length, pa.int32()))),
    "json_object_keys": Function(
        (1, 1),
        typed(
            by_distinct, ArrayType(element=_TEXT), _TEXT, options=(_keys, pa.list_(pa.field("element", pa.string())))
        ),
    ),
    "to_json": Function((1, 1), _to_json),
}
