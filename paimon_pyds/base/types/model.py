"""Paimon's logical types, the columns that have them, and both as schema files spell them.

Source: the schema files that Java Paimon 1.4 writes (specification: Paimon documentation, concepts/spec/schema, section
DataField).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import visible
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    MAX_LENGTH,
    NESTED_KINDS,
    REFUSED_KINDS,
    STRING_KINDS,
    VECTOR_ELEMENTS,
    Kind,
)
from paimon_pyds.errors import SchemaError, UnknownColumnError, suggest

_MAX_DEPTH = 64
"""Levels of nested types: more are not met in tables, and would end Python's stack."""
_ATOM = re.compile(
    r"\s*(?P<name>[A-Za-z_]+)\s*(?:\(\s*(?P<a>[0-9]{1,10})\s*(?:,\s*(?P<b>[0-9]{1,10})\s*)?\))?"
    r"(?P<zone>\s+WITH\s+LOCAL\s+TIME\s+ZONE|\s+WITHOUT\s+TIME\s+ZONE)?\s*(?P<null>NOT\s+NULL|NULL)?\s*$",
    re.IGNORECASE,
)
_SPELLED = re.compile(r"(?P<type>(?P<name>[A-Z][A-Z0-9_]*)(\s*\([^()]*\)|[A-Z0-9_ ]*?)?)(?P<null>\s+NOT\s+NULL)?\s*$")
"""What a type may look like that this version does not know."""
_MOST_CHARACTERS = 1_000
"""Characters of such a type, at most."""
_ALIASES = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ"}
_SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})


@dataclass(frozen=True, slots=True)
class DataType:
    """Base of all types. ``nullable`` is False for ``… NOT NULL``.

    ``unknown``: the members that this version does not know of the object that a schema file has for the type, by name.
    """

    kind: Kind
    nullable: bool = field(default=True, kw_only=True)
    unknown: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def name(self) -> str:
        """The type without its parameters."""
        return self.kind.value

    def children(self) -> tuple[DataType, ...]:
        """The types directly inside this one."""
        return ()

    def refused(self, kinds: Collection[Kind] = REFUSED_KINDS) -> str | None:
        """The name of this type, or of one inside, that is of these kinds; None where none is."""
        if self.kind in kinds:
            return self.name
        return next((name for child in self.children() if (name := child.refused(kinds)) is not None), None)

    def __str__(self) -> str:
        """The type as SQL spells it; atomic types as schema files do, too."""
        return _text(self) + ("" if self.nullable else " NOT NULL")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({visible(str(self))})"  # never cut: reprs of predicates are keys of plans


@dataclass(frozen=True, slots=True, repr=False)
class AtomicType(DataType):
    """A type without children.

    ``length`` belongs to CHAR, VARCHAR, BINARY, VARBINARY (2147483647 spells STRING and BYTES); ``precision`` to
    DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ; ``scale`` to DECIMAL.
    """

    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class OpaqueType(DataType):
    """A type that this version does not know. ``json``: what a schema file has for it, nullable."""

    json: str

    @property
    def name(self) -> str:
        return re.split(r"\W", _text(self), maxsplit=1)[0]


@dataclass(frozen=True, slots=True, repr=False)
class ArrayType(DataType):
    """ARRAY<element>."""

    kind: Kind = field(default=Kind.ARRAY, init=False)
    element: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True, repr=False)
class VectorType(DataType):
    """VECTOR<element, length>: every value has as many elements, and no element is NULL."""

    kind: Kind = field(default=Kind.VECTOR, init=False)
    element: DataType
    length: int

    def children(self) -> tuple[DataType, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True, repr=False)
class MapType(DataType):
    """MAP<key, value>."""

    kind: Kind = field(default=Kind.MAP, init=False)
    key: DataType
    value: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.key, self.value)


@dataclass(frozen=True, slots=True, repr=False)
class MultisetType(DataType):
    """MULTISET<element>: stored as MAP<element, INT>."""

    kind: Kind = field(default=Kind.MULTISET, init=False)
    element: DataType

    def children(self) -> tuple[DataType, ...]:
        return (self.element,)


@dataclass(frozen=True, slots=True)
class DataField:
    """A column of a table, or a field of a ROW. ``id`` never changes, whatever happens to name and position.

    ``unknown``: the members of the schema file that this version does not know, by name; they make no other column.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        default = "" if self.default is None else f"default {self.default}"
        return one_line(self, f"{self.name} {self.type}", f"id {self.id}", default, self.description or "")


@dataclass(frozen=True, slots=True, repr=False)
class RowType(DataType):
    """ROW<fields>."""

    kind: Kind = field(default=Kind.ROW, init=False)
    fields: tuple[DataField, ...]

    def children(self) -> tuple[DataType, ...]:
        return tuple(f.type for f in self.fields)


def _text(type_: DataType) -> str:
    if isinstance(type_, OpaqueType):
        found = json.loads(type_.json)
        return found if isinstance(found, str) else str(found["type"])
    if isinstance(type_, RowType):
        return f"ROW<{', '.join(f'{f.name} {f.type}' for f in type_.fields)}>"
    if isinstance(type_, VectorType):
        return f"VECTOR<{type_.element}, {type_.length}>"
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


def column_named(name: str, columns: Sequence[DataField], owner: str = "the table") -> DataField:
    """The column of that exact name. Raises UnknownColumnError: ``owner`` has none."""
    for column in columns:
        if column.name == name:
            return column
    hint = suggest(name[:200], (column.name for column in columns), "its columns")
    raise UnknownColumnError(f"{owner} has no column {name!r:.100}", hint=hint)


def is_system_name(name: str) -> bool:
    """Whether Paimon reserves a name for a column of its own (source: Java Paimon, class SpecialFields)."""
    return name in _SYSTEM_NAMES or name.startswith("_KEY_")


_PRECISION_DEFAULT = {Kind.DECIMAL: 10, Kind.TIME: 0, Kind.TIMESTAMP: 6, Kind.TIMESTAMP_LTZ: 6}
_PRECISION_RANGE = {Kind.DECIMAL: (1, 38), Kind.TIME: (0, 9), Kind.TIMESTAMP: (0, 9), Kind.TIMESTAMP_LTZ: (0, 9)}


_ELSEWHERE = {
    "LONG": "BIGINT", "TEXT": "STRING", "STR": "STRING", "SHORT": "SMALLINT", "BYTE": "TINYINT", "BOOL": "BOOLEAN",
    "NUMBER": "DECIMAL(p, s)", "DATETIME": "TIMESTAMP", "BLOB": "BYTES", "INT64": "BIGINT", "INT32": "INT",
    "FLOAT64": "DOUBLE", "FLOAT32": "FLOAT", "REAL": "FLOAT",
}  # fmt: skip
"""Names of types that other systems have."""
_TYPE_NAMES = ("BIGINT", "INT", "STRING", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP", "BOOLEAN")


_KNOWN = frozenset({*Kind.__members__, *_ALIASES, "STRING", "BYTES"} - {Kind.UNKNOWN.value})


def parse_type(value: object, _depth: int = 0, *, stored: bool = False) -> DataType:
    """The type of a schema file's ``"type"``: a text for atomic types, an object for nested ones.

    ``stored``: it is in a schema file, where a type may be one that this version does not know.
    Raises SchemaError: it is not a type of Paimon.
    """
    if _depth > _MAX_DEPTH:
        raise SchemaError(f"types nested deeper than {_MAX_DEPTH} levels")
    spelled = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(spelled, str):
        raise SchemaError(f"not a Paimon type: {value!r:.200}")
    if stored and (found := _parse_unknown(value, spelled)) is not None:
        return found
    return _parse_nested(value, _depth + 1, stored) if isinstance(value, Mapping) else _parse_atom(spelled)


def _parse_unknown(value: object, spelled: str) -> OpaqueType | None:
    """A type that this version does not know; None for others, and for what is no type."""
    match = _SPELLED.match(spelled) if len(spelled) <= _MOST_CHARACTERS else None
    if match is None or match["name"] in _KNOWN:
        return None
    plain = {**value, "type": match["type"]} if isinstance(value, Mapping) else match["type"]
    return OpaqueType(Kind.UNKNOWN, json=json.dumps(plain), nullable=match["null"] is None)


@functools.lru_cache(maxsize=256)
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
        hint = f"write {_ELSEWHERE[name]}" if name in _ELSEWHERE else suggest(name, _TYPE_NAMES, "such as")
        raise SchemaError(f"not a Paimon type: {text!r:.200}", hint=hint) from None
    if kind in NESTED_KINDS:
        raise SchemaError(f"a nested type must be a JSON object, not {text!r:.200}")
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        length = 1 if a is None else a
        if not 1 <= length <= MAX_LENGTH:
            raise SchemaError(f"the length of {text!r} must be between 1 and {MAX_LENGTH}")
        return AtomicType(kind, length=length, nullable=nullable)
    if kind not in _PRECISION_DEFAULT:
        return AtomicType(kind, nullable=nullable)
    precision = _PRECISION_DEFAULT[kind] if a is None else a
    return _with_precision(AtomicType(kind, precision=precision, nullable=nullable), b or 0, text)


def _with_precision(type_: AtomicType, scale: int, text: str) -> AtomicType:
    low, high = _PRECISION_RANGE[type_.kind]
    precision = type_.precision or 0
    if not low <= precision <= high:
        raise SchemaError(f"the precision of {text!r} must be between {low} and {high}")
    if type_.kind is not Kind.DECIMAL:
        return type_
    if scale > precision:
        raise SchemaError(f"the scale of {text!r} must not exceed its precision")
    return replace(type_, scale=scale)


_MEMBERS = {
    "ARRAY": ("element",), "VECTOR": ("element", "length"), "MULTISET": ("element",), "MAP": ("key", "value"),
    "ROW": ("fields",),
}  # fmt: skip


def _parse_nested(value: Mapping[str, Any], depth: int, stored: bool) -> DataType:
    words = value["type"].upper().split()
    name = words[0] if words else ""
    nullable = words[1:] != ["NOT", "NULL"]
    known = ("type", "nullable", *_MEMBERS.get(name, ()))  # pypaimon says twice whether it is nullable
    unknown = {key: member for key, member in value.items() if key not in known and member is not None} or None
    parse = functools.partial(parse_type, _depth=depth, stored=stored)
    try:
        match name:
            case "ARRAY":
                return ArrayType(element=parse(value["element"]), nullable=nullable, unknown=unknown)
            case "MULTISET":
                return MultisetType(element=parse(value["element"]), nullable=nullable, unknown=unknown)
            case "MAP":
                key, element = parse(value["key"]), parse(value["value"])
                return MapType(key=key, value=element, nullable=nullable, unknown=unknown)
            case "ROW":
                fields = tuple(field_from_json(f, depth, stored=stored) for f in value["fields"])
                return RowType(fields=fields, nullable=nullable, unknown=unknown)
            case "VECTOR":
                element, length = parse(value["element"]), value["length"]
                return vector(element, length, nullable=nullable, unknown=unknown)
    except (KeyError, TypeError) as error:
        raise SchemaError(f"incomplete nested type {value!r:.200}") from error
    raise SchemaError(f"not a Paimon type: {value!r:.200}")


def vector(element: DataType, length: object, **rest: Any) -> VectorType:
    """The type of vectors of ``length`` elements. Raises SchemaError: Paimon has no such type."""
    if element.kind not in VECTOR_ELEMENTS:
        raise SchemaError(
            f"a VECTOR has no elements of type {element}", hint="BOOLEAN, TINYINT … BIGINT, FLOAT, DOUBLE"
        )
    if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= MAX_LENGTH:
        raise SchemaError(f"the length of a VECTOR must be between 1 and {MAX_LENGTH}, not {length!r:.40}")
    return VectorType(element=element, length=length, **rest)


def type_to_json(type_: DataType) -> str | dict[str, Any]:
    """The JSON form of a type, as Java Paimon spells it."""
    null = "" if type_.nullable else " NOT NULL"
    unknown = type_.unknown or {}
    match type_:
        case ArrayType() | MultisetType():
            return {"type": type_.kind.value + null, "element": type_to_json(type_.element), **unknown}
        case VectorType():
            element = type_to_json(type_.element)
            return {"type": "VECTOR" + null, "element": element, "length": type_.length, **unknown}
        case MapType():
            key, value = type_to_json(type_.key), type_to_json(type_.value)
            return {"type": "MAP" + null, "key": key, "value": value, **unknown}
        case RowType():
            return {"type": "ROW" + null, "fields": [field_to_json(f) for f in type_.fields], **unknown}
        case OpaqueType():
            value = json.loads(type_.json)
            return f"{value}{null}" if isinstance(value, str) else {**value, "type": f"{value['type']}{null}"}
        case AtomicType():
            return str(type_)
    raise SchemaError(f"not a Paimon type: {type_!r}")


_FIELD_MEMBERS = frozenset({"id", "name", "type", "description", "defaultValue"})


def field_from_json(value: Mapping[str, Any], _depth: int = 0, *, stored: bool = True) -> DataField:
    """A field of a schema file. ``stored``: as for `parse_type`. Raises SchemaError when a part is missing or of the
    wrong type."""
    try:
        id_, name = value["id"], value["name"]
        if not isinstance(id_, int) or not isinstance(name, str):
            raise SchemaError(f"not a field of a Paimon schema: {value!r:.200}")
        type_ = parse_type(value["type"], _depth, stored=stored)
        unknown = {key: member for key, member in value.items() if key not in _FIELD_MEMBERS and member is not None}
        return DataField(id_, name, type_, value.get("description"), value.get("defaultValue"), unknown)
    except (KeyError, TypeError, AttributeError) as error:
        raise SchemaError(f"not a field of a Paimon schema: {value!r:.200}") from error


def field_to_json(field_: DataField) -> dict[str, Any]:
    """The JSON form of a field; absent parts are left out."""
    json: dict[str, Any] = {"id": field_.id, "name": field_.name, "type": type_to_json(field_.type)}
    if field_.description is not None:
        json["description"] = field_.description
    if field_.default is not None:
        json["defaultValue"] = field_.default
    return {**json, **field_.unknown}
