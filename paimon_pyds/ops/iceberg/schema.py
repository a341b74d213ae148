"""Paimon's schemas as Iceberg's, in the JSON of table metadata (Apache Iceberg specification, Schemas and Data Types;
ids of nested types: Java Paimon 1.4, class SpecialFields)."""

from __future__ import annotations

from typing import Any

from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, Kind, MapType, MultisetType, RowType
from paimon_pyds.base.types.nested_ids import element_id, key_id
from paimon_pyds.metadata.schema import TableSchema

FIRST_PARTITION_ID = 1000
"""The id of the first field of partitions; the specification reserves these."""
SPEC_ID = 0
"""Tables never change what they are partitioned by."""
_COUNT: DataType = AtomicType(Kind.INT, nullable=False)
_ATOMS = {
    Kind.BOOLEAN: "boolean", Kind.TINYINT: "int", Kind.SMALLINT: "int", Kind.INT: "int", Kind.BIGINT: "long",
    Kind.FLOAT: "float", Kind.DOUBLE: "double", Kind.DATE: "date", Kind.TIME: "time", Kind.CHAR: "string",
    Kind.VARCHAR: "string", Kind.BINARY: "binary", Kind.VARBINARY: "binary", Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_LTZ: "timestamptz",
}  # fmt: skip


def schema_json(schema: TableSchema) -> dict[str, Any]:
    """A schema, with its number."""
    return {"type": "struct", "schema-id": schema.id, "fields": [_field(field) for field in schema.fields]}


def spec_json(schema: TableSchema) -> dict[str, Any]:
    """What the table is partitioned by: columns as they are."""
    fields = [
        {"name": field.name, "transform": "identity", "source-id": field.id, "field-id": FIRST_PARTITION_ID + number}
        for number, field in enumerate(schema.partition_fields)
    ]
    return {"spec-id": SPEC_ID, "fields": fields}


def _field(field: DataField) -> dict[str, Any]:
    found = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field.type, field.id, 0),
    }
    return found if field.description is None else {**found, "doc": field.description}


def _type(type_: DataType, field_id: int, depth: int) -> Any:
    depth += 1
    match type_:
        case RowType():
            return {"type": "struct", "fields": [_field(field) for field in type_.fields]}
        case ArrayType(element=element):
            return {
                "type": "list",
                "element-id": element_id(field_id, depth),
                "element-required": not element.nullable,
                "element": _type(element, field_id, depth),
            }
        case MapType() | MultisetType():
            key, value = (type_.element, _COUNT) if isinstance(type_, MultisetType) else (type_.key, type_.value)
            return {
                "type": "map",
                "key-id": key_id(field_id, depth),
                "key": _type(key, field_id, depth),
                "value-id": element_id(field_id, depth),
                "value-required": not value.nullable,
                "value": _type(value, field_id, depth),
            }
        case AtomicType(kind=Kind.DECIMAL):
            return f"decimal({type_.precision}, {type_.scale or 0})"
    return _ATOMS[type_.kind]
