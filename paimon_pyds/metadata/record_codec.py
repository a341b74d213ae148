"""Bytes ⇄ records of manifest lists and index manifests, one record at a time: a table has few of them.

Source: Paimon documentation, concepts/spec/manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, TypeVar

from paimon_pyds.avro.compression import codec_name
from paimon_pyds.avro.container import decode_records, encode_records, read_container
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.metadata.manifest import (
    DELETION_VECTORS,
    INDEX_ENTRY,
    INDEX_MANIFEST_VERSION,
    MANIFEST_FILE,
    MANIFEST_VERSION,
    DeletionRange,
    GlobalIndex,
    IndexEntry,
    ManifestFile,
    SimpleStats,
)

_T = TypeVar("_T")


# ----------------------------------------------------------------------------------------------------- manifest list


def decode_manifest_list(data: bytes, path: str) -> list[ManifestFile]:
    """The records of a manifest list.

    Raises:
        CorruptFileError: bytes that are not a manifest list.
        UnsupportedError: an unknown version or compression codec.
    """
    return _decode(data, path, _manifest_file, MANIFEST_VERSION)


def encode_manifest_list(files: Iterable[ManifestFile], compression: str) -> bytes:
    """The bytes of a manifest list; ``compression`` is the value of the option ``manifest.compression``."""
    records = (
        {"_VERSION": MANIFEST_VERSION, **_members(file), "_PARTITION_STATS": _members(file.partition_stats)}
        for file in files
    )
    return encode_records(MANIFEST_FILE, codec_name(compression), records)


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    stats = _need(record, "_PARTITION_STATS", dict)
    counts = _may(stats, "_NULL_COUNTS", list)
    return ManifestFile(
        file_name=_need(record, "_FILE_NAME", str),
        file_size=_count(record, "_FILE_SIZE"),
        num_added_files=_count(record, "_NUM_ADDED_FILES"),
        num_deleted_files=_count(record, "_NUM_DELETED_FILES"),
        partition_stats=SimpleStats(
            _need(stats, "_MIN_VALUES", bytes),
            _need(stats, "_MAX_VALUES", bytes),
            None if counts is None else tuple(counts),
        ),
        schema_id=_need(record, "_SCHEMA_ID", int),
        min_bucket=_may(record, "_MIN_BUCKET", int),
        max_bucket=_may(record, "_MAX_BUCKET", int),
        min_level=_may(record, "_MIN_LEVEL", int),
        max_level=_may(record, "_MAX_LEVEL", int),
        min_row_id=_may(record, "_MIN_ROW_ID", int),
        max_row_id=_may(record, "_MAX_ROW_ID", int),
    )


# ---------------------------------------------------------------------------------------------------- index manifest


def decode_index_manifest(data: bytes, path: str) -> list[IndexEntry]:
    """The records of an index manifest. Raises as `decode_manifest_list`."""
    return _decode(data, path, _index_entry, INDEX_MANIFEST_VERSION)


def encode_index_manifest(entries: Iterable[IndexEntry], compression: str) -> bytes:
    """The bytes of an index manifest; ``compression`` is the value of the option ``manifest.compression``."""
    records = (_index_record(entry) for entry in entries)
    return encode_records(INDEX_ENTRY, codec_name(compression), records)


def _index_entry(record: dict[str, Any]) -> IndexEntry:
    ranges = _may(record, "_DELETIONS_VECTORS_RANGES", list)
    index = _may(record, "_GLOBAL_INDEX", dict)
    if ranges is None and record.get("_INDEX_TYPE") == DELETION_VECTORS:
        raise Misfit("_DELETIONS_VECTORS_RANGES", "it is missing")
    return IndexEntry(
        kind=_need(record, "_KIND", int),
        partition=_need(record, "_PARTITION", bytes),
        bucket=_need(record, "_BUCKET", int),
        index_type=_need(record, "_INDEX_TYPE", str),
        file_name=_need(record, "_FILE_NAME", str),
        file_size=_count(record, "_FILE_SIZE"),
        row_count=_count(record, "_ROW_COUNT"),
        deletion_ranges=None if ranges is None else tuple(_deletion_range(item) for item in ranges),
        external_path=_may(record, "_EXTERNAL_PATH", str),
        global_index=None if index is None else _global_index(index),
    )


def _deletion_range(item: Any) -> DeletionRange:
    if not isinstance(item, dict):
        raise Misfit("_DELETIONS_VECTORS_RANGES", "an item is null")
    cardinality = None if item.get("_CARDINALITY") is None else _count(item, "_CARDINALITY")
    return DeletionRange(_need(item, "f0", str), _count(item, "f1"), _count(item, "f2"), cardinality)


def _global_index(record: dict[str, Any]) -> GlobalIndex:
    extra = _may(record, "_EXTRA_FIELD_IDS", list)
    return GlobalIndex(
        row_range_start=_need(record, "_ROW_RANGE_START", int),
        row_range_end=_need(record, "_ROW_RANGE_END", int),
        index_field_id=_need(record, "_INDEX_FIELD_ID", int),
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=_may(record, "_INDEX_META", bytes),
    )


def _index_record(entry: IndexEntry) -> dict[str, Any]:
    ranges, index = entry.deletion_ranges, entry.global_index
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        **_members(entry),
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges],
        "_GLOBAL_INDEX": None if index is None else _members(index),
    }


# ----------------------------------------------------------------------------------------------------------- fields


class Misfit(Exception):
    """A record lacks a field, or has it with another type; whoever knows the file makes a CorruptFileError of it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def _members(value: ManifestFile | SimpleStats | IndexEntry | GlobalIndex) -> dict[str, Any]:
    """The attributes by their names in files: ``_FILE_SIZE`` for ``file_size``."""
    return {f"_{field.name.upper()}": getattr(value, field.name) for field in fields(value)}


def _need(record: dict[str, Any], name: str, kind: type[_T]) -> _T:
    value = record.get(name)
    if not isinstance(value, kind):
        raise Misfit(name, "it is missing" if value is None else f"it is {type(value).__name__}")
    return value


def _count(record: dict[str, Any], name: str) -> int:
    value = _need(record, name, int)
    if value < 0:
        raise Misfit(name, f"it is {value}")
    return value


def _may(record: dict[str, Any], name: str, kind: type[_T]) -> _T | None:
    return None if record.get(name) is None else _need(record, name, kind)


def _decode(data: bytes, path: str, make: Callable[[dict[str, Any]], _T], version: int) -> list[_T]:
    found = []
    for record in decode_records(read_container(data, path)):
        try:
            check_version(_need(record, "_VERSION", int), version, path)
            found.append(make(record))
        except Misfit as error:
            raise CorruptFileError(f"a record does not fit: {error.reason}", path=path, field=error.name) from None
    return found


def check_version(found: int, supported: int, path: str) -> None:
    """Raise UnsupportedError unless a record has the supported version."""
    if found != supported:
        raise UnsupportedError(
            f"metadata of version {found} is not supported, only version {supported}",
            path=path,
            hint="the table was written by a Paimon of another generation",
        )
