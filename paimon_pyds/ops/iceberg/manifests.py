"""Iceberg's manifests and manifest lists (Apache Iceberg specification, Manifests and Manifest Lists; names of records
as Java Paimon 1.4 writes them).

A manifest's record in a list and an entry of a manifest are dicts, as Avro decodes them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options.iceberg import LINEAGE_VERSION
from paimon_pyds.base.types import DataField, Kind, arrow_type
from paimon_pyds.format.avro.compression import codec_name
from paimon_pyds.format.avro.container import decode_records, encode_records, read_container
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.iceberg.schema import FIRST_PARTITION_ID, SPEC_ID
from paimon_pyds.ops.iceberg.values import bounds, plain_values

Manifest: TypeAlias = dict[str, Any]
Entry: TypeAlias = dict[str, Any]
EXISTING, ADDED, DELETED = 0, 1, 2
"""``status`` of an entry."""
DATA, DELETES = 0, 1
"""``content`` of a manifest."""


def _field(id_: int, name: str, type_: Any, *, null: bool = False) -> dict[str, Any]:
    found = {"name": name, "type": ["null", type_] if null else type_, "field-id": id_}
    return {**found, "default": None} if null else found


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _map(key: int, value: int, type_: str) -> dict[str, Any]:
    entry = _record(f"k{key}_v{value}", _field(key, "key", "int"), _field(value, "value", type_))
    return {"type": "array", "logicalType": "map", "items": entry}


def _partition_type(field: DataField) -> Any:
    match field.type.kind:
        case Kind.BIGINT:
            return "long"
        case Kind.TINYINT | Kind.SMALLINT | Kind.INT:
            return "int"
        case Kind.DATE:
            return {"type": "int", "logicalType": "date"}
        case Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ as kind:
            local = "local-" if kind is Kind.TIMESTAMP_LTZ else ""
            return {"type": "long", "logicalType": f"{local}timestamp-micros"}
        case Kind.BOOLEAN | Kind.FLOAT | Kind.DOUBLE as kind:
            return kind.name.lower()
        case Kind.CHAR | Kind.VARCHAR:
            return "string"
    return "bytes"


def entry_type(schema: TableSchema, version: int) -> dict[str, Any]:
    """The Avro schema of a manifest. ``version``: of Iceberg's format."""
    partition = [
        _field(FIRST_PARTITION_ID + number, field.name, _partition_type(field), null=True)
        for number, field in enumerate(schema.partition_fields)
    ]
    lineage = [_field(142, "first_row_id", "long", null=True)] if version >= LINEAGE_VERSION else []
    file = _record(
        "r2", _field(134, "content", "int"), _field(100, "file_path", "string"), _field(101, "file_format", "string"),
        _field(102, "partition", _record("r102", *partition)), _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"), _field(110, "null_value_counts", _map(121, 122, "long"), null=True),
        _field(125, "lower_bounds", _map(126, 127, "bytes"), null=True),
        _field(128, "upper_bounds", _map(129, 130, "bytes"), null=True),
        _field(143, "referenced_data_file", "string", null=True), _field(144, "content_offset", "long", null=True),
        _field(145, "content_size_in_bytes", "long", null=True), *lineage,
    )  # fmt: skip
    return _record(
        "manifest_entry", _field(0, "status", "int"), _field(1, "snapshot_id", "long", null=True),
        _field(3, "sequence_number", "long", null=True), _field(4, "file_sequence_number", "long", null=True),
        _field(2, "data_file", file),
    )  # fmt: skip


def list_type(version: int, *, legacy: bool) -> dict[str, Any]:
    """The Avro schema of a manifest list. ``legacy``: with the names of counts that Iceberg 1.4 has."""
    files = "data_files" if legacy else "files"
    summary = _record(
        "r508", _field(509, "contains_null", "boolean"), _field(518, "contains_nan", "boolean", null=True),
        _field(510, "lower_bound", "bytes", null=True), _field(511, "upper_bound", "bytes", null=True),
    )  # fmt: skip
    lineage = [_field(520, "first_row_id", "long", null=True)] if version >= LINEAGE_VERSION else []
    return _record(
        "manifest_file", _field(500, "manifest_path", "string"), _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"), _field(517, "content", "int"), _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"), _field(503, "added_snapshot_id", "long", null=True),
        _field(504, f"added_{files}_count", "int"), _field(505, f"existing_{files}_count", "int"),
        _field(506, f"deleted_{files}_count", "int"), _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"), _field(514, "deleted_rows_count", "long"),
        _field(507, "partitions", {"type": "array", "element-id": 508, "items": summary}, null=True), *lineage,
    )  # fmt: skip


_COUNTS = ("added", "existing", "deleted")


def decode(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    """The records of a manifest or a list. Raises CorruptFileError."""
    return decode_records(read_container(data, path))


def decode_list(data: bytes, path: str) -> list[Manifest]:
    """The manifests of a list, whichever names their counts have; ``first_row_id`` is there, at least as None."""
    found = []
    for record in decode(data, path):
        for count in _COUNTS:
            if f"{count}_data_files_count" in record:
                record[f"{count}_files_count"] = record.pop(f"{count}_data_files_count")
        found.append({"first_row_id": None, **record})
    return found


def encode_list(manifests: Sequence[Manifest], version: int, codec: str, *, legacy: bool) -> bytes:
    """A manifest list. ``codec``: as ``metadata.iceberg.manifest-compression`` names it."""
    records = [
        {**m, **{f"{count}_data_files_count": m[f"{count}_files_count"] for count in _COUNTS}} if legacy else m
        for m in manifests
    ]
    return encode_records(list_type(version, legacy=legacy), codec_name(codec), records)


def encode_manifests(
    entries: Sequence[Entry], schema: TableSchema, version: int, codec: str, max_bytes: int
) -> Iterator[tuple[bytes, Manifest]]:
    """Manifests of some entries: the bytes of each, and its record but for path, content and snapshot.

    ``max_bytes``: of a manifest, about; the first entries decide how many fit.
    """
    type_ = entry_type(schema, version)
    start, step = 0, min(len(entries), 1000)
    while start < len(entries):
        part = entries[start : start + step]
        data = encode_records(type_, codec_name(codec), part)
        start += len(part)
        step = max(1, len(part) * max_bytes // len(data))
        yield data, {"manifest_length": len(data), "partition_spec_id": SPEC_ID, **_counts(part, schema)}


def _counts(entries: Sequence[Entry], schema: TableSchema) -> Manifest:
    found: Manifest = {"min_sequence_number": min(entry["sequence_number"] for entry in entries)}
    for status, name in ((EXISTING, "existing"), (ADDED, "added"), (DELETED, "deleted")):
        rows = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
        found |= {f"{name}_files_count": len(rows), f"{name}_rows_count": sum(rows)}
    partitions = [entry["data_file"]["partition"] for entry in entries]
    found["partitions"] = [_summary([p[field.name] for p in partitions], field) for field in schema.partition_fields]
    return found


def _summary(values: Sequence[Any], field: DataField) -> dict[str, Any]:
    """Least and greatest value of a partition column, of those that a manifest's entries have."""
    present = {value for value in values if value is not None}
    column = _arrow(sorted(present), field)
    floats = pa.types.is_floating(column.type)
    nan = floats and bool(pc.any(pc.is_nan(column)).as_py())
    found = {"contains_null": len(values) > sum(v is not None for v in values), "contains_nan": nan}
    least = pc.min_max(pc.filter(column, pc.invert(pc.is_nan(column))) if floats else column)
    for name, upper in (("lower", False), ("upper", True)):
        edge = least["max" if upper else "min"]
        found[f"{name}_bound"] = bounds(array([edge.as_py()], column.type), field.type, upper=upper)[0]
    return found


def _arrow(values: Sequence[Any], field: DataField) -> pa.Array:
    """Values of a partition column, as entries have them, in an order that Arrow knows."""
    target = arrow_type(field.type)
    match field.type.kind:
        case Kind.FLOAT | Kind.DOUBLE as kind:
            form = "<f" if kind is Kind.FLOAT else "<d"
            return array([struct.unpack(form, value)[0] for value in values], target)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
            return pc.cast(pc.cast(array(values, pa.int64()), pa.timestamp("us", getattr(target, "tz", None))), target)
        case Kind.DATE:
            return pc.cast(array(values, pa.int32()), target)
    return array(values, target)


def partitions(schema: TableSchema, rows: pa.BinaryArray) -> list[dict[str, Any]]:
    """Partition rows (arity + BinaryRow) as entries have them."""
    fields = schema.partition_fields
    if not fields:
        return [{}] * len(rows)
    batch = partition_values(fields, rows)
    columns = [
        [v.decode() if f.type.kind in (Kind.CHAR, Kind.VARCHAR) and v is not None else v for v in plain]
        for f, plain in ((f, plain_values(c, f.type)) for f, c in zip(fields, batch.columns, strict=True))
    ]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
