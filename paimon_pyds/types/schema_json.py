"""Types and columns as schema files spell them, both ways.

Source: the schema files that Java Paimon 1.4 writes (specification: Paimon documentation, concepts/spec/schema, section
DataField).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paimon_pyds.errors import SchemaError
from paimon_pyds.types.model import (
    BINARY_KINDS,
    MAX_LENGTH,
    NESTED_KINDS,
    STRING_KINDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
)

__all__ = ["field_from_json", "field_to_json", "parse_type", "type_to_json"]

_MAX_DEPTH = 64
_ATOM = re.compile(
    r"\s*(?P<name>[A-Za-z_]+)\s*(?:\(\s*(?P<a>[0-9]{1,10})\s*(?:,\s*(?P<b>[0-9]{1,10})\s*)?\))?"
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
            return str(type_)
    raise SchemaError(f"not a Paimon type: {type_!r}")


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
