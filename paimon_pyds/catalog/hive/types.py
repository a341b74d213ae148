"""Hive's names of types, and what Paimon takes them for.

(Source: Java Paimon 1.4, class HiveTypeUtils; Apache Hive, Language Manual, Types.)
"""

from __future__ import annotations

import re
from itertools import count

from paimon_pyds.base.types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
)
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.ops.ddl.create import numbered

_LONGEST = {Kind.CHAR: 255, Kind.VARCHAR: 65535}
"""The lengths that Hive allows; longer texts are strings to it."""
_INSTANT = "timestamp with local time zone"
_NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "tinyint",
    Kind.SMALLINT: "smallint",
    Kind.INT: "int",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.BINARY: "binary",
    Kind.VARBINARY: "binary",
    Kind.BLOB: "binary",
    Kind.DATE: "date",
    Kind.TIME: "string",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_LTZ: _INSTANT,
    Kind.VARIANT: "struct<value:binary,metadata:binary>",
}
_KINDS = {
    name: AtomicType(kind)
    for kind, name in _NAMES.items()
    if kind not in (Kind.BINARY, Kind.VARBINARY, Kind.BLOB, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ, Kind.VARIANT)
} | {
    "string": AtomicType(Kind.VARCHAR, MAX_LENGTH),
    "binary": AtomicType(Kind.VARBINARY, MAX_LENGTH),
    "timestamp": AtomicType(Kind.TIMESTAMP, precision=3),
    _INSTANT: AtomicType(Kind.TIMESTAMP_LTZ, precision=6),
    "decimal": AtomicType(Kind.DECIMAL, precision=10, scale=0),
    "integer": AtomicType(Kind.INT),
}
_TOKEN = re.compile(r"\s*([<>:,()]|[^<>:,()]+)")
_DEEPEST = 50
"""Types within types: a metastore's text must not exhaust the stack."""


def hive_type(type_: DataType, *, instants: bool = True) -> str:
    """Hive's name of a type. ``instants``: whether Hive has a type for TIMESTAMP WITH LOCAL TIME ZONE, as since Hive 3;
    before, Java calls it a timestamp.
    Raises UnsupportedError: Hive has none like it."""
    match type_:
        case AtomicType(kind=Kind.TIMESTAMP_LTZ) if not instants:
            return "timestamp"
        case AtomicType(kind=Kind.CHAR | Kind.VARCHAR as kind, length=length):
            return "string" if (length or 1) > _LONGEST[kind] else f"{kind.name.lower()}({length or 1})"
        case AtomicType(kind=Kind.DECIMAL):
            return f"decimal({type_.precision},{type_.scale})"
        case AtomicType() if type_.kind in _NAMES:
            return _NAMES[type_.kind]
        case ArrayType():
            return f"array<{hive_type(type_.element, instants=instants)}>"
        case MultisetType():
            return f"map<{hive_type(type_.element, instants=instants)},int>"
        case MapType():
            return f"map<{hive_type(type_.key, instants=instants)},{hive_type(type_.value, instants=instants)}>"
        case RowType():
            return f"struct<{','.join(f'{f.name}:{hive_type(f.type, instants=instants)}' for f in type_.fields)}>"
    raise UnsupportedError(
        f"the type {type_} has no counterpart in a Hive metastore",
        hint="keep the table in another catalog, or by its path",
    )


def holds_instant(type_: DataType) -> bool:
    """Whether a type is, or has in it, a TIMESTAMP WITH LOCAL TIME ZONE."""
    return type_.kind is Kind.TIMESTAMP_LTZ or any(map(holds_instant, type_.children()))


def paimon_type(text: str) -> DataType:
    """The type that a name of Hive's stands for; nested fields are numbered from 0.
    Raises UnsupportedError: Paimon has none like it."""
    tokens = [token.strip().lower() for token in _TOKEN.findall(text)]
    try:
        type_ = _parsed(tokens, 0)
    except (IndexError, ValueError):
        type_ = None
    if type_ is None or tokens:
        raise UnsupportedError(
            f"the type {text!r:.100} of Hive has no counterpart in Paimon", hint="read the table by Hive"
        )
    return numbered(type_, count())


def _parsed(tokens: list[str], depth: int) -> DataType:
    """The type at the beginning of the tokens, which are taken away. Raises ValueError, IndexError: none is there."""
    name = tokens.pop(0)
    if depth > _DEEPEST:
        raise ValueError(name)
    if name in ("array", "map", "struct"):
        _take(tokens, "<")
        if name == "struct":
            return RowType(_members(tokens, depth))
        first = _parsed(tokens, depth + 1)
        if name == "array":
            _take(tokens, ">")
            return ArrayType(first)
        _take(tokens, ",")
        value = _parsed(tokens, depth + 1)
        _take(tokens, ">")
        return MapType(first, value)
    numbers = list[int]()
    if tokens and tokens[0] == "(":
        while tokens.pop(0) != ")":
            numbers.append(int(tokens.pop(0)))
    if name in ("char", "varchar") and len(numbers) == 1:
        return AtomicType(Kind[name.upper()], numbers[0])
    if name == "decimal" and numbers:
        precision, scale = (*numbers, 0)[:2]
        return AtomicType(Kind.DECIMAL, precision=precision, scale=scale)
    if numbers or name not in _KINDS:
        raise ValueError(name)
    return _KINDS[name]


def _members(tokens: list[str], depth: int) -> tuple[DataField, ...]:
    found = list[DataField]()
    while True:
        name = tokens.pop(0)
        _take(tokens, ":")
        found.append(DataField(len(found), name, _parsed(tokens, depth + 1)))
        if tokens.pop(0) == ">":
            return tuple(found)


def _take(tokens: list[str], wanted: str) -> None:
    if tokens.pop(0) != wanted:
        raise ValueError(wanted)
