"""The SQL types of VARIANT values as texts, such as ``OBJECT<a: BIGINT, b: ARRAY<STRING>>``.

Each level of values is some calls of numpy and Arrow: what Python looks at one by one are distinct types, not values.

Source: Spark 4's ``SchemaOfVariant``, which joins the types of an array's items as ``JsonInferSchema`` does.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, pc, slices, to_numpy
from paimon_pyds.base.variant import nodes as n
from paimon_pyds.base.variant.nodes import Level, Nodes, levels_of
from paimon_pyds.base.variant.shred import exact_decimals
from paimon_pyds.errors import UnsupportedError

Type: TypeAlias = "tuple[Any, ...]"
"""A name, behind it digits and scale of DECIMAL, pairs of key and type of OBJECT, or the type of the items of ARRAY."""
_VOID, _VARIANT, _BIGINT, _FLOAT, _DOUBLE = (("VOID",), ("VARIANT",), ("BIGINT",), ("FLOAT",), ("DOUBLE",))
_NAMES: dict[int, Type] = {
    n.NULL: _VOID, n.TRUE: ("BOOLEAN",), n.FALSE: ("BOOLEAN",), **dict.fromkeys(n.INTEGERS, _BIGINT),
    n.DOUBLE: _DOUBLE, n.FLOAT: _FLOAT, n.DATE: ("DATE",), n.INSTANT: ("TIMESTAMP",),
    n.WALL_CLOCK: ("TIMESTAMP_NTZ",), n.BYTES: ("BINARY",), n.TEXT: ("STRING",), n.SHORT: ("STRING",),
}  # fmt: skip
_WIDER = ((_BIGINT, _FLOAT, _DOUBLE), (("DATE",), ("TIMESTAMP_NTZ",), ("TIMESTAMP",)))
"""Types of which each holds those before it."""
_LONG = ("DECIMAL", 20, 0)
_MOST_DIGITS = 38
_PLAIN_NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_PAIR_BYTES = 16
"""Two numbers of 64 bits: a key and a type."""


def type_texts(values: Nodes) -> pa.Array:
    """The type of each value. Raises CorruptFileError; UnsupportedError: nested deeper than Python's calls."""
    known: dict[Type, int] = {}
    below = np.zeros(0, np.int64)
    for level in reversed(list(levels_of(values))):
        below = _of_level(level, below, known)
    try:
        return array([_text(type_) for type_ in known], pa.string()).take(from_numpy(below))
    except RecursionError:
        raise UnsupportedError("a VARIANT is nested too deep to name its type") from None


def _number(type_: Type, known: dict[Type, int]) -> int:
    return known.setdefault(type_, len(known))


def _of_level(level: Level, items: Int64s, known: dict[Type, int]) -> Int64s:
    """The numbers that values have in ``known`` by their types, from those of the items inside."""
    kinds = level.nodes.kinds
    found = np.zeros(len(kinds), np.int64)
    for kind in np.unique(kinds).tolist():
        found[kinds == kind] = _number(_NAMES.get(kind, _VARIANT), known)
    for scale, at, values in exact_decimals(level.nodes, kinds):
        digits, scales = _digits(values, scale)
        distinct, which = np.unique(digits * 64 + scales, return_inverse=True)
        numbers = [_number(("DECIMAL", code // 64, code % 64), known) for code in distinct.tolist()]
        found[at] = np.array(numbers, np.int64)[which]
    if len(level.nested):
        found[level.nested] = _of_nested(level, items, known)
    return found


def _digits(values: pa.Array, scale: int) -> tuple[Int64s, Int64s]:
    """Digits and scales of decimals without zeros at their end."""
    whole = pa.Array.from_buffers(pa.decimal128(_MOST_DIGITS, 0), len(values), values.buffers())
    texts = pc.utf8_ltrim(whole.cast(pa.string()), characters="-")
    length = to_numpy(pc.utf8_length(texts)).astype(np.int64)
    kept = to_numpy(pc.utf8_length(pc.utf8_rtrim(texts, characters="0"))).astype(np.int64)
    cut = np.where(kept == 0, scale, np.minimum(length - kept, scale))  # no digit is left of 0
    return np.maximum(np.where(kept == 0, 1, length - cut), scale - cut), scale - cut


def _of_nested(level: Level, items: Int64s, known: dict[Type, int]) -> Int64s:
    """The numbers of the types of objects and arrays: those with the same keys and types inside are looked at once."""
    owners, codes = level.items.owners, level.items.codes
    in_arrays = np.flatnonzero(codes < 0)
    once = np.unique(owners[in_arrays] * len(known) + items[in_arrays], return_index=True)[1] if known else in_arrays
    kept = np.sort(np.concatenate([np.flatnonzero(codes >= 0), in_arrays[once]]))
    counts = np.bincount(owners[kept], minlength=len(level.nested))
    starts = np.cumsum(counts + 1) - (counts + 1)
    pairs = np.zeros((len(kept) + len(counts), 2), np.int64)
    of_items = np.ones(len(pairs), np.bool_)
    of_items[starts] = False
    pairs[starts, 0] = level.nodes.pick(level.nested).basics
    pairs[of_items] = np.stack([codes[kept], items[kept]], axis=1)
    at = starts * _PAIR_BYTES
    shapes = slices(pairs.view(np.uint8).reshape(-1), at, at + (counts + 1) * _PAIR_BYTES).dictionary_encode()
    types, names = list(known), level.nodes.keys.names.to_pylist()
    numbers = []
    for shape in shapes.dictionary.to_pylist():
        (basic, _), *inside = np.frombuffer(shape, np.int64).reshape(-1, 2).tolist()
        if basic == n.OBJECT:
            members = {names[code]: types[type_] for code, type_ in inside}
            numbers.append(_number(("OBJECT", *_in_order(members)), known))
        else:
            item = _VOID
            for _, type_ in inside:
                item = _joined(item, types[type_])
            numbers.append(_number(("ARRAY", item), known))
    found: Int64s = np.array(numbers, np.int64)[to_numpy(shapes.indices)]
    return found


def _joined(a: Type, b: Type) -> Type:
    """The type that values of both have."""
    if a == b or b == _VOID:
        return a
    if a == _VOID:
        return b
    for types in _WIDER:
        if a in types and b in types:
            return max(a, b, key=types.index)
    if a[0] == b[0] == "ARRAY":
        return "ARRAY", _joined(a[1], b[1])
    if a[0] == b[0] == "OBJECT":
        both = dict(a[1:])
        for key, type_ in b[1:]:
            both[key] = _joined(both.get(key, _VOID), type_)
        return "OBJECT", *_in_order(both)
    a, b = (_LONG if type_ == _BIGINT else type_ for type_ in (a, b))
    if a[0] == b[0] == "DECIMAL":
        scale = max(a[2], b[2])
        digits = max(a[1] - a[2], b[1] - b[2]) + scale
        return ("DECIMAL", digits, scale) if digits <= _MOST_DIGITS else _DOUBLE
    return _DOUBLE if {a[0], b[0]} == {"DECIMAL", "DOUBLE"} else _VARIANT


def _in_order(members: dict[str, Type]) -> list[tuple[str, Type]]:
    return [(key, members[key]) for key in sorted(members)]


def _text(type_: Type) -> str:
    name, *inside = type_
    if name == "OBJECT":
        return f"OBJECT<{', '.join(f'{_key(key)}: {_text(of)}' for key, of in inside)}>"
    if name == "ARRAY":
        return f"ARRAY<{_text(inside[0])}>"
    return f"{name}({inside[0]},{inside[1]})" if inside else name


def _key(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"
