"""Paimon's logical types and the columns that have them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

__all__ = [
    "BINARY_KINDS", "FLOAT_KINDS", "INTEGER_BITS", "INTEGER_KINDS", "MAX_LENGTH", "NANOS_PER_UNIT", "NESTED_KINDS",
    "REFUSED_KINDS", "STRING_KINDS", "TIMESTAMP_KINDS", "UNITS_PER_SECOND", "UNIT_DIGITS", "ArrayType", "AtomicType",
    "DataField", "DataType", "Kind", "MapType", "MultisetType", "RowType", "fields_named", "is_system_name",
    "positions_named", "walk_fields",
]  # fmt: skip

MAX_LENGTH = 2_147_483_647


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
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"


INTEGER_KINDS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT})
STRING_KINDS = frozenset({Kind.CHAR, Kind.VARCHAR})
BINARY_KINDS = frozenset({Kind.BINARY, Kind.VARBINARY})
FLOAT_KINDS = frozenset({Kind.FLOAT, Kind.DOUBLE})
TIMESTAMP_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
NESTED_KINDS = frozenset({Kind.ARRAY, Kind.MAP, Kind.MULTISET, Kind.ROW})
REFUSED_KINDS = frozenset({Kind.VARIANT, Kind.BLOB, Kind.VECTOR})
INTEGER_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
UNIT_DIGITS: Mapping[str, int] = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Arrow's units of time, by the digits of a second's fraction."""
UNITS_PER_SECOND: Mapping[str, int] = {unit: 10**digits for unit, digits in UNIT_DIGITS.items()}
_SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})
NANOS_PER_UNIT: Mapping[str, int] = {unit: 10 ** (9 - digits) for unit, digits in UNIT_DIGITS.items()}


@dataclass(frozen=True, slots=True)
class DataType:
    """Base of all types. ``nullable`` is False for ``… NOT NULL``."""

    kind: Kind
    nullable: bool = field(default=True, kw_only=True)

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def children(self) -> tuple[DataType, ...]:
        """The types directly inside this one."""
        return ()

    def __str__(self) -> str:
        """The type as SQL spells it; atomic types as schema files do, too."""
        return _text(self) + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class AtomicType(DataType):
    """A type without children.

    ``length`` belongs to CHAR, VARCHAR, BINARY, VARBINARY (2147483647 spells STRING and BYTES); ``precision`` to
    DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ; ``scale`` to DECIMAL.
    """

    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    """ARRAY<element>."""

    kind: Kind = field(default=Kind.ARRAY, init=False)
    element: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """MAP<key, value>."""

    kind: Kind = field(default=Kind.MAP, init=False)
    key: DataType
    value: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.key, self.value)


@dataclass(frozen=True, slots=True)
class MultisetType(DataType):
    """MULTISET<element>: stored as MAP<element, INT>."""

    kind: Kind = field(default=Kind.MULTISET, init=False)
    element: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class DataField:
    """A column of a table, or a field of a ROW. ``id`` never changes, whatever happens to name and position."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True)
class RowType(DataType):
    """ROW<fields>."""

    kind: Kind = field(default=Kind.ROW, init=False)
    fields: tuple[DataField, ...]

    def children(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)


def _text(type_: DataType) -> str:
    if isinstance(type_, RowType):
        return f"ROW<{', '.join(f'{f.name} {f.type}' for f in type_.fields)}>"
    if not isinstance(type_, AtomicType):
        return f"{type_.kind.value}<{', '.join(map(str, type_.children()))}>"
    kind = type_.kind
    if kind is Kind.VARCHAR and type_.length == MAX_LENGTH:
        return "STRING"
    if kind is Kind.VARBINARY and type_.length == MAX_LENGTH:
        return "BYTES"
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return f"{kind.value}({type_.length})"
    if kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if kind is Kind.TIMESTAMP_LTZ:
        return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE"
    if kind in (Kind.TIME, Kind.TIMESTAMP):
        return f"{kind.value}({type_.precision})"
    return str(kind.value)


def walk_fields(fields: Sequence[DataField]) -> Iterator[DataField]:
    """Every field, the fields of nested ROWs included, parents first."""
    for field_ in fields:
        yield field_
        yield from _walk_type(field_.type)


def _walk_type(type_: DataType) -> Iterator[DataField]:
    if isinstance(type_, RowType):
        yield from walk_fields(type_.fields)
    else:
        for child in type_.children():
            yield from _walk_type(child)


def positions_named(wanted: str, names: Iterable[str]) -> list[int]:
    """Where a name stands: spelled exactly, or else wherever it differs in case only. More than one are ambiguous."""
    names = list(names)
    if wanted in names:
        return [names.index(wanted)]
    return [i for i, name in enumerate(names) if name.casefold() == wanted.casefold()]


def fields_named(wanted: str, fields: Sequence[DataField]) -> list[DataField]:
    """The fields of a name: see `positions_named`."""
    exact = [field for field in fields if field.name == wanted]
    return exact[:1] or [field for field in fields if field.name.casefold() == wanted.casefold()]


def is_system_name(name: str) -> bool:
    """Whether Paimon reserves a name for a column of its own (source: Java Paimon, class SpecialFields)."""
    return name in _SYSTEM_NAMES or name.startswith("_KEY_")
