"""Paimon's logical types, their JSON text, and the Arrow types that carry their values.

Sources: the schema files that Java Paimon 1.4 writes (specification: Paimon documentation, concepts/spec/schema,
section DataField), and for Arrow the table of public types in the README.

*Internal values.* A literal in a predicate, a partition value and a statistic are Python objects of one fixed form per
type, so that every evaluator compares the same thing:

    BOOLEAN bool · TINYINT…BIGINT int · FLOAT, DOUBLE float · DECIMAL decimal.Decimal · CHAR, VARCHAR str
    BINARY, VARBINARY bytes · DATE int (days since 1970-01-01) · TIME int (milliseconds of the day)
    TIMESTAMP and TIMESTAMP WITH LOCAL TIME ZONE int, in the unit of the Arrow type (ms, us or ns since the epoch)
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from paimon_pyds.buffers import scalar
from paimon_pyds.errors import SchemaError, UnsupportedError

__all__ = [
    "ArrayType",
    "AtomicType",
    "DataField",
    "DataType",
    "Kind",
    "MapType",
    "MultisetType",
    "RowType",
    "arrow_schema",
    "arrow_type",
    "field_from_json",
    "field_to_json",
    "from_arrow_schema",
    "from_arrow_type",
    "internal_to_scalar",
    "parse_type",
    "scalar_to_internal",
    "timestamp_unit",
    "type_to_json",
]

MAX_LENGTH = 2_147_483_647
_MAX_DEPTH = 64


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
        text = type_to_json(self)
        return text if isinstance(text, str) else _nested_text(self)


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


# ------------------------------------------------------------------------------------------------------ JSON text

_ATOM = re.compile(
    r"\s*(?P<name>[A-Za-z_]+)\s*(?:\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH\s+LOCAL\s+TIME\s+ZONE|\s+WITHOUT\s+TIME\s+ZONE)?\s*(?P<null>NOT\s+NULL|NULL)?\s*$",
    re.IGNORECASE,
)
_ALIASES = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ"}
_PRECISION_DEFAULT = {Kind.DECIMAL: 10, Kind.TIME: 0, Kind.TIMESTAMP: 6, Kind.TIMESTAMP_LTZ: 6}
_PRECISION_RANGE = {
    Kind.DECIMAL: (1, 38),
    Kind.TIME: (0, 9),
    Kind.TIMESTAMP: (0, 9),
    Kind.TIMESTAMP_LTZ: (0, 9),
}
_WITH_LENGTH = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY})


def parse_type(json: object, _depth: int = 0) -> DataType:
    """The type of a schema file's ``"type"``: a text for atomic types, an object for nested ones.

    Raises:
        SchemaError: the text is not a type of Paimon.
    """
    if _depth > _MAX_DEPTH:
        raise SchemaError(f"types nested deeper than {_MAX_DEPTH} levels")
    if isinstance(json, str):
        return _parse_atom(json)
    if isinstance(json, Mapping) and isinstance(json.get("type"), str):
        return _parse_nested(json, _depth + 1)
    raise SchemaError(f"not a Paimon type: {json!r:.200}")


def _parse_atom(text: str) -> AtomicType:
    match = _ATOM.match(text)
    if match is None:
        raise SchemaError(f"not a Paimon type: {text!r:.200}")
    name = match["name"].upper()
    name = _ALIASES.get(name, name)
    nullable = (match["null"] or "").upper().replace(" ", "") != "NOTNULL"
    a = None if match["a"] is None else int(match["a"])
    b = None if match["b"] is None else int(match["b"])
    if name == "STRING":
        return AtomicType(Kind.VARCHAR, length=MAX_LENGTH, nullable=nullable)
    if name == "BYTES":
        return AtomicType(Kind.VARBINARY, length=MAX_LENGTH, nullable=nullable)
    if name == "TIMESTAMP" and match["zone"] and "LOCAL" in match["zone"].upper():
        name = "TIMESTAMP_LTZ"
    try:
        kind = Kind(name)
    except ValueError:
        raise SchemaError(f"not a Paimon type: {text!r:.200}") from None
    if kind in NESTED_KINDS:
        raise SchemaError(f"a nested type must be a JSON object, not {text!r:.200}")
    if kind in _WITH_LENGTH:
        length = 1 if a is None else a
        if not 1 <= length <= MAX_LENGTH:
            raise SchemaError(f"the length of {text!r} must be between 1 and {MAX_LENGTH}")
        return AtomicType(kind, length=length, nullable=nullable)
    if kind in _PRECISION_DEFAULT:
        precision = _PRECISION_DEFAULT[kind] if a is None else a
        low, high = _PRECISION_RANGE[kind]
        if not low <= precision <= high:
            raise SchemaError(f"the precision of {text!r} must be between {low} and {high}")
        if kind is not Kind.DECIMAL:
            return AtomicType(kind, precision=precision, nullable=nullable)
        scale = b or 0
        if scale > precision:
            raise SchemaError(f"the scale of {text!r} must not exceed its precision")
        return AtomicType(kind, precision=precision, scale=scale, nullable=nullable)
    return AtomicType(kind, nullable=nullable)


def _parse_nested(json: Mapping[str, Any], depth: int) -> DataType:
    words = json["type"].upper().split()
    nullable = words[1:] != ["NOT", "NULL"]
    try:
        match words[0] if words else "":
            case "ARRAY":
                return ArrayType(element=parse_type(json["element"], depth), nullable=nullable)
            case "MULTISET":
                return MultisetType(element=parse_type(json["element"], depth), nullable=nullable)
            case "MAP":
                key, value = parse_type(json["key"], depth), parse_type(json["value"], depth)
                return MapType(key=key, value=value, nullable=nullable)
            case "ROW":
                fields = tuple(field_from_json(f, depth) for f in json["fields"])
                return RowType(fields=fields, nullable=nullable)
            case "VECTOR":
                return AtomicType(Kind.VECTOR, length=json.get("length"), nullable=nullable)
    except (KeyError, TypeError) as error:
        raise SchemaError(f"incomplete nested type {json!r:.200}") from error
    raise SchemaError(f"not a Paimon type: {json!r:.200}")


def type_to_json(type_: DataType) -> str | dict[str, Any]:
    """The JSON form of a type, as Java Paimon spells it."""
    null = "" if type_.nullable else " NOT NULL"
    match type_:
        case ArrayType() | MultisetType():
            return {"type": type_.kind.value + null, "element": type_to_json(type_.element)}
        case MapType():
            return {"type": "MAP" + null, "key": type_to_json(type_.key), "value": type_to_json(type_.value)}
        case RowType():
            return {"type": "ROW" + null, "fields": [field_to_json(f) for f in type_.fields]}
        case AtomicType():
            return _atom_text(type_) + null
    raise SchemaError(f"not a Paimon type: {type_!r}")


def _atom_text(type_: AtomicType) -> str:
    kind = type_.kind
    if kind is Kind.VARCHAR and type_.length == MAX_LENGTH:
        return "STRING"
    if kind is Kind.VARBINARY and type_.length == MAX_LENGTH:
        return "BYTES"
    if kind in _WITH_LENGTH:
        return f"{kind.value}({type_.length})"
    if kind is Kind.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if kind is Kind.TIMESTAMP_LTZ:
        return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE"
    if kind in (Kind.TIME, Kind.TIMESTAMP):
        return f"{kind.value}({type_.precision})"
    return str(kind.value)


def _nested_text(type_: DataType) -> str:
    null = "" if type_.nullable else " NOT NULL"
    if isinstance(type_, RowType):
        return f"ROW<{', '.join(f'{f.name} {f.type}' for f in type_.fields)}>{null}"
    return f"{type_.kind.value}<{', '.join(map(str, type_.children()))}>{null}"


def field_from_json(json: Mapping[str, Any], _depth: int = 0) -> DataField:
    """A field of a schema file. Raises SchemaError when a part is missing or of the wrong type."""
    try:
        id_, name = json["id"], json["name"]
        if not isinstance(id_, int) or not isinstance(name, str):
            raise SchemaError(f"not a field of a Paimon schema: {json!r:.200}")
        return DataField(id_, name, parse_type(json["type"], _depth), json.get("description"), json.get("defaultValue"))
    except (KeyError, TypeError) as error:
        raise SchemaError(f"not a field of a Paimon schema: {json!r:.200}") from error


def field_to_json(field_: DataField) -> dict[str, Any]:
    """The JSON form of a field; absent parts are left out."""
    json: dict[str, Any] = {"id": field_.id, "name": field_.name, "type": type_to_json(field_.type)}
    if field_.description is not None:
        json["description"] = field_.description
    if field_.default is not None:
        json["defaultValue"] = field_.default
    return json


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


# ---------------------------------------------------------------------------------------------------------- Arrow

_ARROW_ATOMS: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.CHAR: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.VARBINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time32("ms"),
}


def timestamp_unit(type_: DataType) -> str:
    """The Arrow unit of a timestamp type: ms for precision 0 to 3, us for 4 to 6, ns for 7 to 9."""
    precision = getattr(type_, "precision", None)
    if precision is None:
        raise SchemaError(f"{type_} is not a timestamp")
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that carries values of this type.

    Raises:
        UnsupportedError: VARIANT, BLOB and VECTOR.
    """
    match type_:
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(type_.element), type_.element.nullable))
        case MapType():
            return _arrow_map(type_.key, type_.value)
        case MultisetType():
            return _arrow_map(type_.element, AtomicType(Kind.INT, nullable=False))
        case RowType():
            return pa.struct([_arrow_field(f) for f in type_.fields])
    atom = _ARROW_ATOMS.get(type_.kind)
    if atom is not None:
        return atom
    if isinstance(type_, AtomicType):
        if type_.kind is Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        if type_.kind in TIMESTAMP_KINDS:
            return pa.timestamp(timestamp_unit(type_), "UTC" if type_.kind is Kind.TIMESTAMP_LTZ else None)
    raise UnsupportedError(
        f"columns of type {type_.kind.value} are not supported",
        hint="read the other columns with columns=…, or use Java Paimon for this one",
    )


def _arrow_map(key: DataType, value: DataType) -> pa.DataType:
    return pa.map_(
        pa.field("key", arrow_type(key), nullable=False), pa.field("value", arrow_type(value), value.nullable)
    )


def _arrow_field(field_: DataField) -> pa.Field:
    return pa.field(field_.name, arrow_type(field_.type), field_.type.nullable)


def arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of these columns, nullability kept, without metadata."""
    return pa.schema([_arrow_field(f) for f in fields])


def from_arrow_type(type_: pa.DataType, next_id: Iterator[int], *, nullable: bool = True) -> DataType:
    """The Paimon type for an Arrow type; nested ROW fields take their ids from ``next_id``.

    Raises:
        SchemaError: Paimon has no such type.
    """
    kind = _FROM_ARROW.get(type_)
    if kind is not None:
        return AtomicType(kind, nullable=nullable)
    t = pa.types
    if t.is_dictionary(type_):
        return from_arrow_type(type_.value_type, next_id, nullable=nullable)
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return AtomicType(Kind.VARCHAR, length=MAX_LENGTH, nullable=nullable)
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_binary_view(type_):
        return AtomicType(Kind.VARBINARY, length=MAX_LENGTH, nullable=nullable)
    if t.is_fixed_size_binary(type_):
        return AtomicType(Kind.BINARY, length=type_.byte_width, nullable=nullable)
    if t.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= 38:
        return AtomicType(Kind.DECIMAL, precision=type_.precision, scale=type_.scale, nullable=nullable)
    if t.is_time(type_):
        return AtomicType(Kind.TIME, precision=0 if str(type_) == "time32[s]" else 3, nullable=nullable)
    if t.is_timestamp(type_):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[type_.unit]
        stamp = Kind.TIMESTAMP if type_.tz is None else Kind.TIMESTAMP_LTZ
        return AtomicType(stamp, precision=precision, nullable=nullable)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        item = type_.value_field
        return ArrayType(element=from_arrow_type(item.type, next_id, nullable=item.nullable), nullable=nullable)
    if t.is_map(type_):
        key = from_arrow_type(type_.key_type, next_id, nullable=False)
        value = from_arrow_type(type_.item_type, next_id, nullable=type_.item_field.nullable)
        return MapType(key=key, value=value, nullable=nullable)
    if t.is_struct(type_):
        ids = [next(next_id) for _ in range(type_.num_fields)]
        members = [type_.field(i) for i in range(type_.num_fields)]
        fields = tuple(
            DataField(i, f.name, from_arrow_type(f.type, next_id, nullable=f.nullable))
            for i, f in zip(ids, members, strict=True)
        )
        return RowType(fields=fields, nullable=nullable)
    raise SchemaError(f"Paimon has no type for Arrow's {type_}", hint="cast the column first")


_FROM_ARROW: dict[pa.DataType, Kind] = {
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.TINYINT,
    pa.int16(): Kind.SMALLINT,
    pa.int32(): Kind.INT,
    pa.int64(): Kind.BIGINT,
    pa.uint8(): Kind.SMALLINT,
    pa.uint16(): Kind.INT,
    pa.uint32(): Kind.BIGINT,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.date32(): Kind.DATE,
}


def from_arrow_schema(schema: pa.Schema) -> tuple[DataField, ...]:
    """Columns for a new table from an Arrow schema; ids count from 0, top-level columns first come first numbered.

    Raises:
        SchemaError: a column of a type that Paimon does not have, or two columns of one name.
    """
    names = schema.names
    if len(set(names)) != len(names):
        raise SchemaError(f"two columns have the same name: {sorted(n for n in set(names) if names.count(n) > 1)}")
    counter = iter(range(MAX_LENGTH))
    fields = []
    for column in schema:
        id_ = next(counter)
        comment = (column.metadata or {}).get(b"comment")
        type_ = from_arrow_type(column.type, counter, nullable=column.nullable)
        fields.append(DataField(id_, column.name, type_, None if comment is None else comment.decode()))
    return tuple(fields)


def internal_to_scalar(value: object, type_: DataType) -> pa.Scalar:
    """An Arrow scalar of the column's Arrow type from an internal value (None gives a null)."""
    return scalar(value, arrow_type(type_))


def scalar_to_internal(scalar: pa.Scalar) -> Any:
    """The internal value of an Arrow scalar; None for null. Dates, times and timestamps become integers."""
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()
