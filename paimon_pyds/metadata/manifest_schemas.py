"""The Avro schemas of Paimon's metadata files, as Java Paimon 1.4 writes them (names and order of fields included), and
which column of `ENTRY_SCHEMA` each field of a manifest entry fills."""

from __future__ import annotations

from typing import Any

__all__ = ["ENTRY", "ENTRY_PATHS", "INDEX_ENTRY", "INDEX_MANIFEST_VERSION", "MANIFEST_FILE", "MANIFEST_VERSION"]

MANIFEST_VERSION = 2
"""``_VERSION`` of the records of manifest lists and of manifests."""
INDEX_MANIFEST_VERSION = 1
"""``_VERSION`` of the records of index manifests."""

_NAME = "record"
_SPACE = "org.apache.paimon.avro.generated"


def _nullable(type_: object) -> dict[str, Any]:
    return {"type": ["null", type_], "default": None}


def _required(type_: object) -> dict[str, Any]:
    return {"type": type_}


def _record(name: str, fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    head = {"type": "record", "name": name}
    if name == _NAME:
        head["namespace"] = _SPACE
    return {**head, "fields": [{"name": field, **rest} for field, rest in fields.items()]}


def _stats(name: str) -> dict[str, Any]:
    counts = {"type": "array", "items": ["null", "long"]}
    return _record(
        name,
        {"_MIN_VALUES": _required("bytes"), "_MAX_VALUES": _required("bytes"), "_NULL_COUNTS": _nullable(counts)},
    )


_STRINGS = {"type": "array", "items": "string"}

MANIFEST_FILE = _record(
    _NAME,
    {
        "_VERSION": _required("int"),
        "_FILE_NAME": _required("string"),
        "_FILE_SIZE": _required("long"),
        "_NUM_ADDED_FILES": _required("long"),
        "_NUM_DELETED_FILES": _required("long"),
        "_PARTITION_STATS": _required(_stats("record__PARTITION_STATS")),
        "_SCHEMA_ID": _required("long"),
        "_MIN_BUCKET": _nullable("int"),
        "_MAX_BUCKET": _nullable("int"),
        "_MIN_LEVEL": _nullable("int"),
        "_MAX_LEVEL": _nullable("int"),
        "_MIN_ROW_ID": _nullable("long"),
        "_MAX_ROW_ID": _nullable("long"),
    },
)
"""A record of a manifest list (_VERSION 2)."""

_FILE = _record(
    "record__FILE",
    {
        "_FILE_NAME": _required("string"),
        "_FILE_SIZE": _required("long"),
        "_ROW_COUNT": _required("long"),
        "_MIN_KEY": _required("bytes"),
        "_MAX_KEY": _required("bytes"),
        "_KEY_STATS": _required(_stats("record__FILE__KEY_STATS")),
        "_VALUE_STATS": _required(_stats("record__FILE__VALUE_STATS")),
        "_MIN_SEQUENCE_NUMBER": _required("long"),
        "_MAX_SEQUENCE_NUMBER": _required("long"),
        "_SCHEMA_ID": _required("long"),
        "_LEVEL": _required("int"),
        "_EXTRA_FILES": _required(_STRINGS),
        "_CREATION_TIME": _nullable({"type": "long", "logicalType": "timestamp-millis"}),
        "_DELETE_ROW_COUNT": _nullable("long"),
        "_EMBEDDED_FILE_INDEX": _nullable("bytes"),
        "_FILE_SOURCE": _nullable("int"),
        "_VALUE_STATS_COLS": _nullable(_STRINGS),
        "_EXTERNAL_PATH": _nullable("string"),
        "_FIRST_ROW_ID": _nullable("long"),
        "_WRITE_COLS": _nullable(_STRINGS),
    },
)

ENTRY = _record(
    _NAME,
    {
        "_VERSION": _required("int"),
        "_KIND": _required("int"),
        "_PARTITION": _required("bytes"),
        "_BUCKET": _required("int"),
        "_TOTAL_BUCKETS": _required("int"),
        "_FILE": _required(_FILE),
    },
)
"""A record of a manifest (_VERSION 2)."""

ENTRY_PATHS = {
    "kind": "_KIND",
    "partition": "_PARTITION",
    "bucket": "_BUCKET",
    "total_buckets": "_TOTAL_BUCKETS",
    "file_name": "_FILE._FILE_NAME",
    "file_size": "_FILE._FILE_SIZE",
    "row_count": "_FILE._ROW_COUNT",
    "min_key": "_FILE._MIN_KEY",
    "max_key": "_FILE._MAX_KEY",
    "key_stats_min": "_FILE._KEY_STATS._MIN_VALUES",
    "key_stats_max": "_FILE._KEY_STATS._MAX_VALUES",
    "key_stats_nulls": "_FILE._KEY_STATS._NULL_COUNTS",
    "value_stats_min": "_FILE._VALUE_STATS._MIN_VALUES",
    "value_stats_max": "_FILE._VALUE_STATS._MAX_VALUES",
    "value_stats_nulls": "_FILE._VALUE_STATS._NULL_COUNTS",
    "min_sequence_number": "_FILE._MIN_SEQUENCE_NUMBER",
    "max_sequence_number": "_FILE._MAX_SEQUENCE_NUMBER",
    "schema_id": "_FILE._SCHEMA_ID",
    "level": "_FILE._LEVEL",
    "extra_files": "_FILE._EXTRA_FILES",
    "creation_time": "_FILE._CREATION_TIME",
    "delete_row_count": "_FILE._DELETE_ROW_COUNT",
    "embedded_index": "_FILE._EMBEDDED_FILE_INDEX",
    "file_source": "_FILE._FILE_SOURCE",
    "value_stats_cols": "_FILE._VALUE_STATS_COLS",
    "external_path": "_FILE._EXTERNAL_PATH",
    "first_row_id": "_FILE._FIRST_ROW_ID",
    "write_cols": "_FILE._WRITE_COLS",
}
"""Column of `ENTRY_SCHEMA` → place of its value in an entry."""

_DELETION_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES",
    {
        "f0": _required("string"),
        "f1": _required("int"),
        "f2": _required("int"),
        "_CARDINALITY": _nullable("long"),
    },
)

_GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX",
    {
        "_ROW_RANGE_START": _required("long"),
        "_ROW_RANGE_END": _required("long"),
        "_INDEX_FIELD_ID": _required("int"),
        "_EXTRA_FIELD_IDS": _nullable({"type": "array", "items": "int"}),
        "_INDEX_META": _nullable("bytes"),
    },
)

INDEX_ENTRY = _record(
    _NAME,
    {
        "_VERSION": _required("int"),
        "_KIND": _required("int"),
        "_PARTITION": _required("bytes"),
        "_BUCKET": _required("int"),
        "_INDEX_TYPE": _required("string"),
        "_FILE_NAME": _required("string"),
        "_FILE_SIZE": _required("long"),
        "_ROW_COUNT": _required("long"),
        "_DELETIONS_VECTORS_RANGES": _nullable({"type": "array", "items": ["null", _DELETION_RANGE]}),
        "_EXTERNAL_PATH": _nullable("string"),
        "_GLOBAL_INDEX": _nullable(_GLOBAL_INDEX),
    },
)
"""A record of an index manifest (_VERSION 1)."""
