"""Avro schemas of data files, as Java Paimon writes them, and how a file's schema fits the columns wanted.

Source: the schemas in Avro files of Java Paimon 1.4. NULL comes first in unions; records are named by their path;
TIMESTAMP has Avro's ``timestamp-…`` and TIMESTAMP WITH LOCAL TIME ZONE its ``local-timestamp-…`` (the other way round
than the Avro specification means them); a MAP whose keys are not strings is an array of records of key and value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from paimon_pyds.base.types.kinds import STRING_KINDS, Kind
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError
from paimon_pyds.format.avro.schema import parse_schema

_ROOT = "org.apache.paimon.avro.generated"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_DEPTH = 64
"""Levels of nested types, as in Paimon's type model."""
_ATOMS: dict[Kind, str] = {
    Kind.BOOLEAN: "boolean", Kind.TINYINT: "int", Kind.SMALLINT: "int", Kind.INT: "int", Kind.BIGINT: "long",
    Kind.FLOAT: "float", Kind.DOUBLE: "double", Kind.CHAR: "string", Kind.VARCHAR: "string", Kind.BINARY: "bytes",
    Kind.VARBINARY: "bytes", Kind.BLOB: "bytes",
}  # fmt: skip
_STAMPS = {Kind.TIMESTAMP: "timestamp", Kind.TIMESTAMP_LTZ: "local-timestamp"}


def map_types(type_: MapType | MultisetType) -> tuple[DataType, DataType]:
    """The types of keys and values; a MULTISET maps its elements to an INT."""
    if isinstance(type_, MapType):
        return type_.key, type_.value
    return type_.element, AtomicType(Kind.INT)


def has_string_keys(type_: MapType | MultisetType) -> bool:
    """Whether the map is an Avro map; else it is an array of records."""
    return map_types(type_)[0].kind in STRING_KINDS


def write_schema(fields: Sequence[DataField]) -> dict[str, Any]:
    """The schema of a new file, as JSON.
    Raises UnsupportedError: a type or name that Paimon's Avro files cannot have."""
    taken: set[str] = set()
    return _record(fields, "record", taken) | {"namespace": _ROOT}


def _record(fields: Sequence[DataField], name: str, taken: set[str]) -> dict[str, Any]:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    members = []
    for field in fields:
        if _NAME.fullmatch(field.name) is None:
            raise UnsupportedError(
                f"a column named {field.name!r:.80} can't be in an Avro file: letters, digits and _ only",
                hint="rename it, or use file.format=parquet",
            )
        member: dict[str, Any] = {"name": field.name, "type": _schema(field.type, f"{name}_{field.name}", taken)}
        if field.type.nullable:
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": unique, "fields": members}


def _schema(type_: DataType, name: str, taken: set[str]) -> Any:
    found = _not_null(type_, name, taken)
    return ["null", found] if type_.nullable else found


def _not_null(type_: DataType, name: str, taken: set[str]) -> Any:
    match type_:
        case ArrayType():
            return {"type": "array", "items": _schema(type_.element, name, taken)}
        case RowType():
            return _record(type_.fields, name, taken)
        case MapType() | MultisetType():
            key, value = map_types(type_)
            if has_string_keys(type_):
                return {"type": "map", "values": _schema(value, name, taken)}
            if isinstance(type_, MultisetType):
                raise UnsupportedError(
                    f"Avro files can't hold {type_}: Java Paimon reads none but of strings",
                    hint="use a MAP to INT, or file.format=parquet",
                )
            entry = _record((), name, taken)
            members: list[dict[str, Any]] = [{"name": "key", "type": _schema(key, f"{name}_key", taken)}]
            members.append({"name": "value", "type": _schema(value, f"{name}_value", taken)})
            if value.nullable:
                members[1]["default"] = None
            return {"type": "array", "items": entry | {"fields": members}, "logicalType": "map"}
        case AtomicType():
            return _atom(type_)
    raise UnsupportedError(f"Avro files can't hold {type_}")


def _atom(type_: AtomicType) -> Any:
    if type_.kind in _ATOMS:
        return _ATOMS[type_.kind]
    precision = type_.precision or 0
    if type_.kind is Kind.DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": type_.scale or 0}
    if type_.kind is Kind.DATE:
        return {"type": "int", "logicalType": "date"}
    if type_.kind is Kind.TIME and precision <= 3:
        return {"type": "int", "logicalType": "time-millis"}
    if type_.kind in _STAMPS and precision <= 6:
        return {"type": "long", "logicalType": f"{_STAMPS[type_.kind]}-{'millis' if precision <= 3 else 'micros'}"}
    raise UnsupportedError(
        f"Paimon's Avro files can't hold {type_}", hint="use file.format=parquet or a lower precision"
    )


def plain_schema(schema: Any, path: object = None) -> Any:
    """The schema without logical types, defaults and the like: what the bytes are, and nothing of what they mean.

    It is a record, or a union of NULL and a record where rows may be NULL: Java Paimon writes that when it rewrites
    files of tables with row tracking.
    Raises CorruptFileError: not an Avro schema of a record.
    """
    try:
        plain = _plain(schema, 0)
        parse_schema(plain, path, MAX_DEPTH)  # fastavro follows types that contain themselves until the stack ends
    except CorruptFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"not an Avro schema: {error!r:.200}", path=path, field="avro.schema") from error
    records = [branch for branch in plain if branch != "null"] if isinstance(plain, list) else [plain]
    if len(records) != 1 or not isinstance(records[0], dict) or records[0]["type"] != "record":
        raise CorruptFileError("the schema is not one of records", path=path, field="avro.schema")
    return plain


def _plain(schema: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return [_plain(branch, depth + 1) for branch in schema]
    kind = schema["type"]
    if kind == "array":
        return {"type": "array", "items": _plain(schema["items"], depth + 1)}
    if kind == "map":
        return {"type": "map", "values": _plain(schema["values"], depth + 1)}
    named = {k: schema[k] for k in ("name", "namespace") if isinstance(schema.get(k), str)}
    if kind == "record":
        fields = [{"name": str(f["name"]), "type": _plain(f["type"], depth + 1)} for f in schema["fields"]]
        if not fields and depth:
            raise ValueError("a record without fields")
        return {"type": "record", **named, "fields": fields}
    if kind == "fixed":
        return {"type": "fixed", **named, "size": int(schema["size"])}
    if kind == "enum":
        return {"type": "enum", **named, "symbols": [str(s) for s in schema["symbols"]]}
    return _plain(kind, depth + 1)


def project(schema: Any, plain: Any, fields: Sequence[DataField], path: object) -> Any:
    """The part of the plain schema that holds these columns.

    ``schema``: the file's, with logical types. ``plain``: the same by `plain_schema`. ``fields``: the columns wanted.
    Raises MissingColumnError: a column that the file does not have, or has in another type.
    """
    logical = {f["name"]: f["type"] for f in record_of(schema)["fields"]}
    records = record_of(plain)
    by_name = {f["name"]: f for f in records["fields"]}
    for field in fields:
        if field.name not in by_name:
            raise MissingColumnError(f"the file has no column {field.name!r}", path=path, field="avro.schema")
        if not _fits(field.type, logical[field.name]):
            raise MissingColumnError(
                f"column {field.name!r} is not {field.type} in the file", path=path, field="avro.schema"
            )
    wanted = {f.name for f in fields}
    if has_references(plain):
        return plain
    part = {**records, "fields": [f for f in records["fields"] if f["name"] in wanted]}
    return [part if branch is records else branch for branch in plain] if isinstance(plain, list) else part


def record_of(schema: Any) -> Any:
    """The schema of the records, which may stand in a union with NULL."""
    return next(b for b in schema if b != "null") if isinstance(schema, list) else schema


def has_references(schema: Any) -> bool:
    """Whether a type is used by a name that was given to it before."""
    if isinstance(schema, str):
        return schema not in _PRIMITIVES
    if isinstance(schema, list):
        return any(has_references(branch) for branch in schema)
    match schema["type"]:
        case "array":
            return has_references(schema["items"])
        case "map":
            return has_references(schema["values"])
        case "record":
            return any(has_references(f["type"]) for f in schema["fields"])
    return False


def _fits(type_: DataType, schema: Any) -> bool:
    """Whether a type of the file holds values of Paimon's type, written as Paimon writes them."""
    if isinstance(schema, list):
        branches = [b for b in schema if b != "null"]
        return len(branches) == 1 and _fits(type_, branches[0])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, (dict, list)):
        return _fits(type_, kind)
    match type_:
        case ArrayType():
            return kind == "array" and _fits(type_.element, schema["items"])
        case RowType():
            members = {f["name"]: f["type"] for f in schema["fields"]} if kind == "record" else {}
            return all(f.name in members and _fits(f.type, members[f.name]) for f in type_.fields)
        case MapType() | MultisetType():
            return _map_fits(type_, kind, schema)
        case AtomicType():
            return _atom_fits(type_, kind, schema if isinstance(schema, dict) else {})
    return False


def _map_fits(type_: MapType | MultisetType, kind: Any, schema: Any) -> bool:
    key, value = map_types(type_)
    if has_string_keys(type_):
        return kind == "map" and _fits(value, schema["values"])
    if kind != "array":
        return False
    entry = schema["items"]
    members = {f["name"]: f["type"] for f in entry["fields"]} if isinstance(entry, dict) and "fields" in entry else {}
    return {"key", "value"} <= set(members) and _fits(key, members["key"]) and _fits(value, members["value"])


def _atom_fits(type_: AtomicType, kind: Any, schema: Mapping[str, Any]) -> bool:
    logical = schema.get("logicalType")
    if type_.kind in _ATOMS:
        return bool(kind == _ATOMS[type_.kind] and logical is None)
    try:
        wanted = _atom(type_)
    except UnsupportedError:
        return False
    spelled = str(logical).removeprefix("local-") if type_.kind in _STAMPS else logical  # Java reads both alike
    if kind != wanted["type"] or spelled != wanted["logicalType"].removeprefix("local-"):
        return False
    return type_.kind is not Kind.DECIMAL or schema.get("scale", 0) == (type_.scale or 0)
