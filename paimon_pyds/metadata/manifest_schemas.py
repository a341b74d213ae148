"""The Avro schemas of Paimon's metadata files, as Java Paimon 1.4 writes them (names and order of fields included), and
which column of `ENTRY_SCHEMA` each field of a manifest entry fills."""

from __future__ import annotations

from typing import Any

__all__ = ["ENTRY", "ENTRY_PATHS", "INDEX_ENTRY", "INDEX_MANIFEST_VERSION", "MANIFEST_FILE", "MANIFEST_VERSION"]

MANIFEST_VERSION = 2
"""``_VERSION`` of the records of manifest lists and of manifests."""
INDEX_MANIFEST_VERSION = 1
"""``_VERSION`` of the records of index manifests."""


def _record(name: str, **fields: object) -> dict[str, Any]:
    """A record; a list is a type that may be null, and is then by default."""
    members = [
        {"name": field, "type": ["null", *type_], "default": None}
        if isinstance(type_, list)
        else {"name": field, "type": type_}
        for field, type_ in fields.items()
    ]
    head = {"type": "record", "name": name}
    if name == "record":
        head["namespace"] = "org.apache.paimon.avro.generated"
    return {**head, "fields": members}


def _stats(name: str) -> dict[str, Any]:
    counts = {"type": "array", "items": ["null", "long"]}
    return _record(name, _MIN_VALUES="bytes", _MAX_VALUES="bytes", _NULL_COUNTS=[counts])


_STRINGS = {"type": "array", "items": "string"}

MANIFEST_FILE = _record(
    "record",
    _VERSION="int",
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _NUM_ADDED_FILES="long",
    _NUM_DELETED_FILES="long",
    _PARTITION_STATS=_stats("record__PARTITION_STATS"),
    _SCHEMA_ID="long",
    _MIN_BUCKET=["int"],
    _MAX_BUCKET=["int"],
    _MIN_LEVEL=["int"],
    _MAX_LEVEL=["int"],
    _MIN_ROW_ID=["long"],
    _MAX_ROW_ID=["long"],
)
"""A record of a manifest list (_VERSION 2)."""

_FILE = _record(
    "record__FILE",
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _ROW_COUNT="long",
    _MIN_KEY="bytes",
    _MAX_KEY="bytes",
    _KEY_STATS=_stats("record__FILE__KEY_STATS"),
    _VALUE_STATS=_stats("record__FILE__VALUE_STATS"),
    _MIN_SEQUENCE_NUMBER="long",
    _MAX_SEQUENCE_NUMBER="long",
    _SCHEMA_ID="long",
    _LEVEL="int",
    _EXTRA_FILES=_STRINGS,
    _CREATION_TIME=[{"type": "long", "logicalType": "timestamp-millis"}],
    _DELETE_ROW_COUNT=["long"],
    _EMBEDDED_FILE_INDEX=["bytes"],
    _FILE_SOURCE=["int"],
    _VALUE_STATS_COLS=[_STRINGS],
    _EXTERNAL_PATH=["string"],
    _FIRST_ROW_ID=["long"],
    _WRITE_COLS=[_STRINGS],
)

ENTRY = _record(
    "record", _VERSION="int", _KIND="int", _PARTITION="bytes", _BUCKET="int", _TOTAL_BUCKETS="int", _FILE=_FILE
)
"""A record of a manifest (_VERSION 2)."""


def _entry_paths() -> dict[str, str]:
    paths = {name[1:].lower(): name for name in ("_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")}
    for member in _FILE["fields"]:
        name = member["name"]
        if name in ("_KEY_STATS", "_VALUE_STATS"):
            for part, inner in (("min", "_MIN_VALUES"), ("max", "_MAX_VALUES"), ("nulls", "_NULL_COUNTS")):
                paths[f"{name[1:].lower()}_{part}"] = f"_FILE.{name}.{inner}"
        else:
            paths["embedded_index" if name == "_EMBEDDED_FILE_INDEX" else name[1:].lower()] = f"_FILE.{name}"
    return paths


ENTRY_PATHS = _entry_paths()
"""Column of `ENTRY_SCHEMA` → place of its value in an entry."""

_DELETION_RANGE = _record("record__DELETIONS_VECTORS_RANGES", f0="string", f1="int", f2="int", _CARDINALITY=["long"])
_GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX",
    _ROW_RANGE_START="long",
    _ROW_RANGE_END="long",
    _INDEX_FIELD_ID="int",
    _EXTRA_FIELD_IDS=[{"type": "array", "items": "int"}],
    _INDEX_META=["bytes"],
)

INDEX_ENTRY = _record(
    "record",
    _VERSION="int",
    _KIND="int",
    _PARTITION="bytes",
    _BUCKET="int",
    _INDEX_TYPE="string",
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _ROW_COUNT="long",
    _DELETIONS_VECTORS_RANGES=[{"type": "array", "items": ["null", _DELETION_RANGE]}],
    _EXTERNAL_PATH=["string"],
    _GLOBAL_INDEX=[_GLOBAL_INDEX],
)
"""A record of an index manifest (_VERSION 1)."""
