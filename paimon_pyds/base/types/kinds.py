"""The kinds of types, and of which kinds many things are true; units of time, as Arrow names them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

MAX_LENGTH = 2_147_483_647
"""Length of VARCHAR and VARBINARY that makes them STRING and BYTES: Java's Integer.MAX_VALUE."""


class Kind(enum.Enum):
    """The root of a type, by Paimon's name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    VECTOR = "VECTOR"
    UNKNOWN = "UNKNOWN"
    """Of a type that this version does not know."""
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"

    __hash__ = object.__hash__  # faster than Enum's, for filters of very many leaves


INTEGER_KINDS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT})
STRING_KINDS = frozenset({Kind.CHAR, Kind.VARCHAR})
BINARY_KINDS = frozenset({Kind.BINARY, Kind.VARBINARY})
FLOAT_KINDS = frozenset({Kind.FLOAT, Kind.DOUBLE})
VECTOR_ELEMENTS = INTEGER_KINDS | FLOAT_KINDS | {Kind.BOOLEAN}
"""What vectors may consist of."""
TIMESTAMP_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
NESTED_KINDS = frozenset({Kind.ARRAY, Kind.VECTOR, Kind.MAP, Kind.MULTISET, Kind.ROW})
REFUSED_KINDS = frozenset({Kind.BLOB, Kind.UNKNOWN})
"""Columns with such types are neither read nor written, nor can conditions test whether they are NULL."""
UNORDERED_KINDS = frozenset({*NESTED_KINDS, *REFUSED_KINDS, Kind.VARIANT})
"""Values of such types have no order: files have no bounds of them, and no indexes."""
INTEGER_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
INTEGER_RANGES = {kind: range(-(1 << (bits - 1)), 1 << (bits - 1)) for kind, bits in INTEGER_BITS.items()}
"""The values of each type of integers."""
UNIT_DIGITS: Mapping[str, int] = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Arrow's units of time, by the digits of a second's fraction."""
UNITS_PER_SECOND: Mapping[str, int] = {unit: 10**digits for unit, digits in UNIT_DIGITS.items()}
NANOS_PER_UNIT: Mapping[str, int] = {unit: 10 ** (9 - digits) for unit, digits in UNIT_DIGITS.items()}
