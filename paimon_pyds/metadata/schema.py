"""The schema file: ``schema/schema-N`` (specification: Paimon documentation, concepts/spec/schema)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_pyds.errors import SchemaError
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.options.option import comma_separated
from paimon_pyds.redaction import RedactedDict
from paimon_pyds.types import DataField, field_from_json, field_to_json

__all__ = ["CURRENT_SCHEMA_VERSION", "TableSchema", "parse_schema", "schema_digest", "schema_to_json"]

CURRENT_SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema. ``fields`` are the top-level columns in order.

    ``options`` may hold secrets that another writer stored there; they are not shown.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = CURRENT_SCHEMA_VERSION

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", RedactedDict(self.options))

    def field(self, name: str) -> DataField:
        """The column of that exact name. Raises SchemaError."""
        for f in self.fields:
            if f.name == name:
                return f
        raise SchemaError(f"the table has no column {name!r}")

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in partition order."""
        return tuple(self.field(name) for name in self.partition_keys)

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the top-level columns, in order."""
        return tuple(f.name for f in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: what is unique within one partition."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that decide a row's bucket: option ``bucket-key``, else the trimmed primary key."""
        return comma_separated(self.options.get("bucket-key", "")) or self.trimmed_primary_keys


def parse_schema(data: bytes, path: str) -> TableSchema:
    """The schema in the bytes of a schema file; unknown members are ignored.

    Files of Paimon 0.7 (version 1) mean ``bucket`` = 1 and files up to 0.8 (version 2) ``file.format`` = orc where
    these options are absent; they are filled in.

    Raises:
        CorruptFileError: not JSON, a member missing or of the wrong type.
        UnsupportedError: a newer version.
    """
    json = JsonObject(data, path)
    version = json.version("schema", CURRENT_SCHEMA_VERSION)
    fields = _parse_fields(json)
    names = [f.name for f in fields]
    partition_keys, primary_keys = json.texts("partitionKeys"), json.texts("primaryKeys")
    for member, keys in (("partitionKeys", partition_keys), ("primaryKeys", primary_keys)):
        for key in keys:
            if key not in names:
                raise json.corrupt(f"{key!r} is not a column", member)
    options = _parse_options(json)
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    return TableSchema(
        id=json.integer("id"),
        fields=fields,
        highest_field_id=json.integer("highestFieldId"),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=json.text_or_none("comment"),
        time_millis=json.integer("timeMillis", 0),
        version=version,
    )


def _parse_fields(json: JsonObject) -> tuple[DataField, ...]:
    fields = []
    for member in json.list_("fields"):
        if not isinstance(member, dict):
            raise json.corrupt("an array of objects was expected", "fields")
        try:
            column = field_from_json(member)
        except SchemaError as error:
            raise json.corrupt(error.message, "fields") from error
        for name, text in (("description", column.description), ("defaultValue", column.default)):
            if text is not None and not isinstance(text, str):
                raise json.corrupt("a string was expected", f"fields.{name}")
        fields.append(column)
    if len({f.name for f in fields}) != len(fields) or len({f.id for f in fields}) != len(fields):
        raise json.corrupt("two columns have the same name or id", "fields")
    return tuple(fields)


def _parse_options(json: JsonObject) -> dict[str, str]:
    options = {}
    for key, value in (json.object_or_none("options") or {}).items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        elif not isinstance(value, str):
            raise json.corrupt("a string was expected", f"options.{key}")
        options[key] = value
    return options


def schema_to_json(schema: TableSchema) -> str:
    """The text of a schema file, laid out as Java Paimon does it; the comment is left out when there is none."""
    json: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_to_json(f) for f in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        json["comment"] = schema.comment
    json["timeMillis"] = schema.time_millis
    return to_java_json(json)


def schema_digest(schema: TableSchema) -> str:
    """A short text that tells a schema from every other one, those of the same number in another table included."""
    return hashlib.sha256(schema_to_json(schema).encode()).hexdigest()[:32]
