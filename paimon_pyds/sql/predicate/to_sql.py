"""Predicates as Spark SQL text, for people and logs.

`parse_filter` and `bind` turn the text of a bound tree into the same tree again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import DataType, scalar_to_internal
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.sql.predicate.among import row_count, rows_of
from paimon_pyds.sql.predicate.bind import literal_of
from paimon_pyds.sql.predicate.tree import (
    TEXT_OPS,
    Among,
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
)
from paimon_pyds.sql.text import casts
from paimon_pyds.sql.text.tree import Literal

_RESERVED = frozenset({
    "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "TRUE", "FALSE", "NULL",
    "CAST", "CASE", "WHEN", "THEN", "ELSE", "END", "FROM", "WHERE", "SELECT", "WITH",
})  # fmt: skip
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"}
_SHOWN_VALUES = 20
"""Values of an IN list that a shortened text shows."""
_SHOWN_ROWS = 10
"""Rows of values that a shortened text shows."""
_SHOWN_TEXT = 200
"""Characters of a computed condition that a shortened text shows."""
_SHOWN_CONDITIONS = 40
"""Conditions that a shortened text shows."""


def to_sql(predicate: Predicate, *, shorten: bool = False) -> str:
    """The predicate as Spark SQL text.

    ``predicate``: a bound or an unbound tree. ``shorten``: leave out all but the first values of long IN lists, and the
    first of very many conditions, and say how many there are; such a text does not parse.
    """
    return _text(predicate, _Left(_SHOWN_CONDITIONS) if shorten else None, False)


@dataclass
class _Left:
    """How many conditions may still be shown."""

    conditions: int


def _repr(self: Any) -> str:
    return one_line(self, to_sql(self, shorten=True))


for _kind in (Among, And, Computed, Leaf, Or):  # here, as `tree` knows nothing of texts
    _kind.__repr__ = _repr  # type: ignore[method-assign]


def _text(predicate: Predicate, left: _Left | None, inner: bool) -> str:
    shorten = left is not None
    if left is not None and not isinstance(predicate, And | Or):
        left.conditions -= 1
    if isinstance(predicate, Const):
        return "CAST(NULL AS BOOLEAN)" if predicate is Const.UNKNOWN else predicate.value
    if isinstance(predicate, Leaf):
        return _leaf(predicate, shorten)
    if isinstance(predicate, Among):
        return _among(predicate, shorten)
    if isinstance(predicate, Computed):
        text = (
            predicate.text if not shorten or len(predicate.text) <= _SHOWN_TEXT else f"{predicate.text[:_SHOWN_TEXT]}…"
        )
        return f"({text})" if inner else text
    word = " AND " if isinstance(predicate, And) else " OR "
    children = predicate.children
    if left is not None and isinstance(predicate, Or) and predicate.ranges is not None:
        children = tuple(islice(_ranges(predicate), left.conditions + 1))
    parts: list[str] = []
    for child in children:
        if left is not None and left.conditions <= 0:
            parts.append(f"… {_count(predicate):,} conditions")
            break
        parts.append(_text(child, left, True))
    text = word.join(parts)
    return f"({text})" if inner else text


def _ranges(predicate: Predicate) -> Iterator[Predicate]:
    """The ranges that an `Or` of ranges is, without the bounds around some of them."""
    last = predicate.children[-1] if isinstance(predicate, And) else None
    if isinstance(last, Or):
        yield from _ranges(last)
    elif isinstance(predicate, Or):
        for child in predicate.children:
            yield from _ranges(child)
    else:
        yield predicate


def _count(predicate: Predicate) -> int:
    found, left = 0, [predicate]
    while left:
        node = left.pop()
        if isinstance(node, Or) and node.ranges is not None:
            found += len(node.ranges.low)
        elif isinstance(node, And | Or):
            left += node.children
        else:
            found += 1
    return found


def _among(node: Among, shorten: bool) -> str:
    count = row_count(node)
    shown = min(count, _SHOWN_ROWS) if shorten else count
    columns = (values.slice(0, shown) for values in rows_of(node))
    texts = [
        [_literal(value, column.type) for value in map(scalar_to_internal, values)]
        for column, values in zip(node.columns, columns, strict=True)
    ]
    items = [_row(row) for row in zip(*texts, strict=True)]
    if shown < count:
        items.append(f"… {count:,} rows")
    return f"{_row(map(column_text, node.columns))} IN ({', '.join(items)})"


def _row(texts: Iterable[str]) -> str:
    parts = list(texts)
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _leaf(leaf: Leaf, shorten: bool) -> str:
    column = column_text(leaf.column)
    if leaf.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return f"{column} {leaf.op.value}"
    if leaf.op in (Op.LIKE, Op.NOT_LIKE):
        escape = leaf.literals[1] if len(leaf.literals) > 1 else "\\"
        behind = "" if escape == "\\" else f" ESCAPE {_quoted(escape)}"
        return f"{column} {leaf.op.value} {_literal(leaf.literals[0], leaf.column.type)}{behind}"
    if leaf.op in (Op.IN, Op.NOT_IN):
        shown = leaf.literals[:_SHOWN_VALUES] if shorten else leaf.literals
        items = [_literal(value, leaf.column.type) for value in shown]
        if len(shown) < len(leaf.literals):
            items.append(f"… {len(leaf.literals)} values")
        return f"{column} {leaf.op.value} ({', '.join(items)})"
    value = _literal(leaf.literals[0], leaf.column.type)
    if leaf.op in TEXT_OPS:
        return f"{leaf.op.value.lower().replace('not', 'NOT')}({column}, {value})"
    return f"{column} {leaf.op.value} {value}"


def column_text(column: ColumnRef) -> str:
    """The column as SQL: names in back quotes where needed, map keys as literals."""
    text = _name(column.name)
    for step in column.path:
        if isinstance(step, MapKey):
            text += f"[{_literal(step.key, step.type)}]"
        else:
            text += f".{_name(step)}"
    return text


def _name(name: str) -> str:
    if name.isascii() and name.isidentifier() and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def _literal(value: Any, bound_to: DataType | None) -> str:
    return literal_sql(literal_of(value, bound_to))


def literal_sql(literal: Literal) -> str:
    """A literal as Spark SQL writes it."""
    if literal.type is None and literal.value is not None:
        literal = casts.from_python(literal.value)
    value, type_ = literal.value, literal.type
    if value is None or type_ is None:
        return "NULL"
    kind = type_.kind
    if kind in STRING_KINDS:
        return _quoted(value)
    if kind in BINARY_KINDS:
        return f"X'{value.hex().upper()}'"
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind is Kind.DECIMAL:
        return text if "." in (text := f"{value:f}") else f"{text}BD"
    if kind in INTEGER_KINDS:
        return str(value)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return _float(value, kind)
    text = casts.literal_text(literal, "UTC")
    if kind is Kind.TIMESTAMP_LTZ:
        return f"TIMESTAMP '{text}Z'"
    return f"{'TIMESTAMP_NTZ' if kind is Kind.TIMESTAMP else kind.value} '{text}'"


def _quoted(text: str) -> str:
    return "'" + "".join(_ESCAPES.get(char, char) for char in text) + "'"


def _float(value: float, kind: Kind) -> str:
    if math.isnan(value):
        return "CAST('NaN' AS DOUBLE)"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    if kind is Kind.FLOAT:
        for digits in range(6, 10):
            short = f"{value:.{digits}g}"
            if struct.unpack("<f", struct.pack("<f", float(short)))[0] == value:
                return f"{short}F"
    return f"{value!r}D"
