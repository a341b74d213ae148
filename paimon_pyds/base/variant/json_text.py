"""VARIANT values as JSON, as Spark's ``to_json`` writes it."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, is_true, pc, scalar
from paimon_pyds.base.types.java_text import date_text, java_float_text
from paimon_pyds.base.types.sql_values import instant_to_local
from paimon_pyds.base.variant.nodes import (
    BYTES,
    DATE,
    DECIMALS,
    DOUBLE,
    FALSE,
    FLOAT,
    INSTANT,
    INTEGERS,
    NULL,
    OBJECT,
    SHORT,
    TEXT,
    TIME,
    TRUE,
    UUID,
    WALL_CLOCK,
    Level,
    Nodes,
    levels_of,
)
from paimon_pyds.base.variant.python import decimals, floats, integers, scalars, texts
from paimon_pyds.errors import UnsupportedError

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **{ord(letter): f"\\{short}" for letter, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)},
}
_ESCAPED = r'["\\\x00-\x1f]'
"""Characters that JSON escapes."""
_TEXT = pa.large_string()
_DAY_MICROS = 86_400_000_000
"""Microseconds of a day."""


def quoted(text: str) -> str:
    """A text as JSON has it, with the escapes that Spark writes."""
    return f'"{text.translate(_ESCAPES)}"'


def to_json(nodes: Nodes, zone: dt.tzinfo) -> pa.Array:
    """Each value as JSON without blanks. ``zone``: of instants. Raises CorruptFileError, UnsupportedError."""
    levels = list(levels_of(nodes))
    names = _quoted(nodes.keys.names.cast(_TEXT))
    below = pa.nulls(0, _TEXT)
    for level in reversed(levels):
        below = _of_level(level, names, below, zone)
    return below


def _of_level(level: Level, names: pa.Array, items: pa.Array, zone: dt.tzinfo) -> pa.Array:
    parts: list[pa.Array] = []
    places: list[Int64s] = []
    kinds = level.nodes.kinds
    for kind in np.unique(kinds).tolist():
        if kind != 255:
            at = np.flatnonzero(kinds == kind)
            parts.append(_scalars(level.nodes.pick(at), kind, zone).cast(_TEXT))
            places.append(at)
    if len(level.nested):
        are_objects = level.nodes.basics[level.nested] == OBJECT
        keyed = np.flatnonzero(level.items.codes >= 0)
        if len(keyed):
            members = pc.binary_join_element_wise(
                pc.take(names, from_numpy(level.items.codes[keyed])), pc.take(items, from_numpy(keyed)), _scalar(":")
            )
            items = replaced(items, keyed, members)
        bounds = from_numpy(np.concatenate(([0], np.cumsum(level.items.counts))))
        inside = pc.binary_join(pa.LargeListArray.from_arrays(bounds, items), _scalar(","))
        left, right = (pc.if_else(array(are_objects), _scalar(a), _scalar(b)) for a, b in ("{[", "}]"))
        parts.append(pc.binary_join_element_wise(left, inside, right, _scalar("")))
        places.append(level.nested)
    if not parts:
        return pa.nulls(0, _TEXT)
    order = np.empty(len(level.nodes), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return pc.take(pa.concat_arrays(parts), from_numpy(order))


def replaced(values: pa.Array, places: Int64s, others: pa.Array) -> pa.Array:
    """The values, with others at some places."""
    order = np.arange(len(values))
    order[places] = len(values) + np.arange(len(places))
    return pc.take(pa.concat_arrays([values, others]), from_numpy(order))


def _scalar(text: str) -> pa.Scalar:
    return scalar(text, _TEXT)


def _quoted(texts_: pa.Array) -> pa.Array:
    at = np.flatnonzero(is_true(pc.match_substring_regex(texts_, _ESCAPED))) if len(texts_) else np.zeros(0, np.int64)
    if len(at):
        some = [text.translate(_ESCAPES) for text in pc.take(texts_, from_numpy(at)).to_pylist()]
        texts_ = replaced(texts_, at, array(some, _TEXT))
    return pc.binary_join_element_wise(_scalar('"'), texts_, _scalar('"'), _scalar(""))


def _scalars(nodes: Nodes, kind: int, zone: dt.tzinfo) -> pa.Array:
    """Primitive values that all have one type."""
    if kind in (NULL, TRUE, FALSE):
        word = {NULL: "null", TRUE: "true", FALSE: "false"}[kind]
        return pa.repeat(_scalar(word), len(nodes))
    if kind in INTEGERS:
        return from_numpy(integers(nodes, INTEGERS[kind])).cast(pa.string())
    if kind in (SHORT, TEXT):
        return _quoted(texts(nodes).cast(_TEXT))
    return array([text_of(value, kind, zone) for value in _values(nodes, kind)], pa.string())


def _values(nodes: Nodes, kind: int) -> Any:
    if kind in (FLOAT, DOUBLE):
        return floats(nodes, kind).tolist()
    if kind in DECIMALS:
        return decimals(nodes, DECIMALS[kind])
    if kind in (DATE, INSTANT, WALL_CLOCK):
        return integers(nodes, 4 if kind == DATE else 8).tolist()
    if kind in (BYTES, UUID, TIME):
        return scalars(nodes, kind)
    raise UnsupportedError("a VARIANT holds a timestamp with nanoseconds, which JSON has no text for here")


def text_of(value: Any, kind: int, zone: dt.tzinfo) -> str:
    """The JSON of one value; of dates and timestamps it is their number."""
    if kind in (FLOAT, DOUBLE):
        text = java_float_text(value, kind == FLOAT)
        return text if math.isfinite(value) else f'"{text}"'
    if kind in DECIMALS:
        return decimal_text(value)
    if kind == BYTES:
        return f'"{base64.b64encode(value).decode()}"'
    if kind in (UUID, TIME):
        return f'"{value}"'
    if kind == DATE:
        return f'"{date_text(value)}"'
    return f'"{moment_text(value, zone if kind == INSTANT else None)}"'


def decimal_text(value: decimal.Decimal) -> str:
    """A decimal without zeros at the end of its fraction."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def moment_text(micros: int, zone: dt.tzinfo | None) -> str:
    """A timestamp; one in a zone with its distance from UTC."""
    local = micros if zone is None else instant_to_local(micros, zone)
    days, clock = divmod(local, _DAY_MICROS)
    seconds, fraction = divmod(clock, 1_000_000)
    text = f"{date_text(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        text += f".{fraction:06d}".rstrip("0")
    if zone is None:
        return text
    minutes = abs(local - micros) // 60_000_000
    return f"{text}{'-' if local < micros else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
