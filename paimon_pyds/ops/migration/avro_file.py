"""What an Avro file of any writer holds, as types of Paimon.

Sources: Avro specification (Schema Declaration, Logical Types), and what Java Paimon's reader takes (its classes
AvroSchemaVisitor and FieldReaderFactory): unions of null and one type, null first; dates, timestamps of both kinds,
TIME in milliseconds, decimals in bytes. It has no enums, no fixed lengths and no other logical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paimon_pyds.base.types import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.container import ContainerReader
from paimon_pyds.format.avro.schema import parse_schema
from paimon_pyds.ops.migration.common_types import FileFacts
from paimon_pyds.ops.migration.limits import parse_json
from paimon_pyds.storage import FileIO

_ATOMS = {
    "boolean": AtomicType(Kind.BOOLEAN), "int": AtomicType(Kind.INT), "long": AtomicType(Kind.BIGINT),
    "float": AtomicType(Kind.FLOAT), "double": AtomicType(Kind.DOUBLE),
    "string": AtomicType(Kind.VARCHAR, length=MAX_LENGTH), "bytes": AtomicType(Kind.VARBINARY, length=MAX_LENGTH),
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): AtomicType(Kind.DATE), ("int", "time-millis"): AtomicType(Kind.TIME, precision=3),
    ("long", "timestamp-millis"): AtomicType(Kind.TIMESTAMP_LTZ, precision=3),
    ("long", "timestamp-micros"): AtomicType(Kind.TIMESTAMP_LTZ, precision=6),
    ("long", "local-timestamp-millis"): AtomicType(Kind.TIMESTAMP, precision=3),
    ("long", "local-timestamp-micros"): AtomicType(Kind.TIMESTAMP, precision=6),
}  # fmt: skip
_DEPTH = 64
"""Levels of nested types, as in Paimon's type model."""


def describe(io: FileIO, path: str, size: int) -> FileFacts:
    """What a file holds.

    Raises:
        CorruptFileError: no Avro file, or a damaged one.
        UnsupportedError: something that Java Paimon reads otherwise, or not at all.
    """
    file = ContainerReader(lambda offset, length: io.read_range(path, offset, length), size, path)
    try:
        schema = parse_json(file.schema, path)
        parse_schema(schema, path, _DEPTH)
        root = _Types(path).read(schema, "", 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError("the header has no schema", path=path, field="avro.schema") from error
    if not isinstance(root, RowType) or not isinstance(schema, dict):
        raise UnsupportedError("an Avro file whose rows are no records", path=path)
    rows = sum(block.count for block in file.blocks(lambda row, count: False))
    return FileFacts("avro", rows, root.fields)


class _Types:
    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, Any] = {}

    def read(self, schema: Any, name: str, depth: int, space: str = "") -> DataType:
        """The type of a schema. Raises UnsupportedError."""
        if depth > _DEPTH:
            raise self._refused(name, "types within types within types")
        if isinstance(schema, list):
            if len(schema) != 2 or schema[0] != "null":
                raise self._refused(name, "a union that is not one of null and, after it, one type")
            return self.read(schema[1], name, depth + 1, space).with_nullable(True)
        if isinstance(schema, str):
            schema = self._named.get(schema, self._named.get(f"{space}.{schema}", {"type": schema}))
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.read(kind, name, depth + 1, space)
        match kind:
            case "record":
                return self._record(schema, name, depth, space)
            case "map":
                value = self.read(schema["values"], f"{name}.value", depth + 1, space)
                return MapType(key=_ATOMS["string"].with_nullable(False), value=value, nullable=False)
            case "array":
                return self._array(schema, name, depth, space)
        found = self._atom(kind, schema)
        if found is None:
            raise self._refused(name, " ".join(filter(None, (kind, schema.get("logicalType")))))
        return found.with_nullable(False)

    def _record(self, schema: Mapping[str, Any], name: str, depth: int, space: str) -> DataType:
        own = schema["name"]
        space = str(schema.get("namespace") or own.rpartition(".")[0] or space)
        self._named[own if "." in own or not space else f"{space}.{own}"] = schema
        within = f"{name}." if name else ""
        fields = tuple(
            DataField(-1, f["name"], self.read(f["type"], within + f["name"], depth + 1, space))
            for f in schema["fields"]
        )
        if not fields:
            raise self._refused(name, "a record without fields")
        return RowType(fields=fields, nullable=False)

    def _array(self, schema: Mapping[str, Any], name: str, depth: int, space: str) -> DataType:
        element = self.read(schema["items"], f"{name}.element", depth + 1, space)
        if schema.get("logicalType") != "map":
            return ArrayType(element=element, nullable=False)
        if not isinstance(element, RowType) or [f.name for f in element.fields] != ["key", "value"]:
            raise self._refused(name, "a map without keys and values")
        key, value = (f.type for f in element.fields)
        return MapType(key=key.with_nullable(False), value=value, nullable=False)

    def _atom(self, kind: str, schema: Mapping[str, Any]) -> DataType | None:
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
            fits = 1 <= precision <= 38 and 0 <= scale <= precision
            return AtomicType(Kind.DECIMAL, precision=precision, scale=scale) if fits else None
        return _ATOMS.get(kind) if logical is None else _LOGICAL.get((kind, logical))

    def _refused(self, name: str, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"column {name} has a type that Java Paimon can't read: {what}",
            path=self._path,
            hint="append the rows of this file instead: they are written anew",
        )
