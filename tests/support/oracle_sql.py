"""The oracle's JSON predicates as Spark SQL text, and evaluated row by row in plain Python.

The evaluator is slow and simple on purpose: a third opinion beside Java's rows and ours, in SQL's three-valued logic,
with floats compared as Spark SQL compares them (NaN equals NaN and is greatest, -0.0 equals 0.0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from paimon_pyds.base.types import DataField, Kind

Json = Mapping[str, Any]
_COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)


def to_sql(predicate: Json, fields: Sequence[DataField]) -> str:
    """The predicate as a filter that a user would type."""
    op = predicate["op"]
    if op in ("and", "or"):
        return "(" + f" {op.upper()} ".join(to_sql(p, fields) for p in predicate["args"]) + ")"
    field = next(f for f in fields if f.name == predicate["field"])
    name = f"`{field.name}`"
    literals = [_sql_literal(v, field) for v in predicate["literals"]]
    if op in _COMPARISONS:
        return f"{name} {_COMPARISONS[op]} {literals[0]}"
    if op in ("in", "notin"):
        return f"{name} {'IN' if op == 'in' else 'NOT IN'} ({', '.join(literals)})"
    if op == "between":
        return f"{name} BETWEEN {literals[0]} AND {literals[1]}"
    if op in ("isnull", "isnotnull"):
        return f"{name} IS {'NULL' if op == 'isnull' else 'NOT NULL'}"
    if op == "like":
        return f"{name} LIKE {literals[0]}"
    return f"{op}({name}, {literals[0]})"


def _sql_literal(value: Any, field: DataField) -> str:
    if value is None:
        return "NULL"
    kind = field.type.kind
    if kind is Kind.BOOLEAN:
        return "true" if value else "false"
    if kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT):
        return str(value)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        return _quoted(value)
    if kind in (Kind.BINARY, Kind.VARBINARY):
        return f"X'{value}'"
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return f"CAST({_quoted(value)} AS {kind.value})"
    if kind is Kind.DECIMAL:
        return f"CAST({_quoted(value)} AS {str(field.type).removesuffix(' NOT NULL')})"
    word = {Kind.DATE: "DATE", Kind.TIME: "TIME", Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.TIMESTAMP_LTZ: "TIMESTAMP"}[
        kind
    ]
    return f"{word} {_quoted(value)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def compares_float_zero(predicate: Json, fields: Sequence[DataField]) -> bool:
    """Whether a FLOAT or DOUBLE is compared with a zero: Java tells the zeros apart, Spark SQL does not."""
    if "args" in predicate:
        return any(compares_float_zero(p, fields) for p in predicate["args"])
    field = next(f for f in fields if f.name == predicate["field"])
    return field.type.kind in _FLOATS and any(v is not None and float(v) == 0 for v in predicate["literals"])


def matches(predicate: Json, row: Json, fields: Sequence[DataField]) -> bool | None:
    """Whether a row of JSON values matches; None is unknown."""
    op = predicate["op"]
    if op in ("and", "or"):
        verdicts = [matches(p, row, fields) for p in predicate["args"]]
        decisive = op == "or"
        return decisive if decisive in verdicts else None if None in verdicts else not decisive
    field = next(f for f in fields if f.name == predicate["field"])
    value = row[field.name]
    if op in ("isnull", "isnotnull"):
        return (value is None) == (op == "isnull")
    if value is None:
        return None
    literals = predicate["literals"]
    if op in ("startswith", "endswith", "contains", "like"):
        return None if literals[0] is None else _TEXT[op](value, literals[0])
    mine = _key(value, field)
    keys = [None if v is None else _key(v, field) for v in literals]
    if op in ("in", "notin"):
        found = True if mine in keys else None if None in keys else False
        return found if op == "in" or found is None else not found
    if None in keys:
        return None
    return bool(_ORDER[op](mine, *keys))


_ORDER: Mapping[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "between": lambda a, low, high: low <= a <= high,
}


def _key(value: Any, field: DataField) -> Any:
    """A value that Python orders as Spark SQL does. Times are texts of one width, which order as they are."""
    kind = field.type.kind
    if kind in _FLOATS:
        number = float(value)
        return (True, 0.0) if math.isnan(number) else (False, number)
    if kind is Kind.DECIMAL:
        return Decimal(value)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        return value.encode("utf-8")
    return value


def _like(value: str, pattern: str) -> bool:
    parts = []
    characters = iter(pattern)
    for c in characters:
        if c == "\\":
            parts.append(re.escape(next(characters)))
        else:
            parts.append({"%": ".*", "_": "."}.get(c, re.escape(c)))
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda value, part: part in value,
    "like": _like,
}
