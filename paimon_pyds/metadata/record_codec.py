"""Bytes ⇄ records of manifest lists and index manifests, one record at a time: a table has few of them.

Source: Paimon documentation, concepts/spec/manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import reduce
from operator import getitem
from typing import Any, TypeAlias, TypeVar

from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.compression import codec_name
from paimon_pyds.format.avro.container import decode_records, encode_records, read_container
from paimon_pyds.metadata.manifest import (
    DELETION_VECTORS,
    EXTRA_MANIFEST_FILE,
    GLOBAL_INDEX,
    INDEX_ENTRY,
    INDEX_MANIFEST_VERSION,
    MANIFEST_FILE,
    MANIFEST_VERSION,
    DeletionRange,
    GlobalIndex,
    IndexEntry,
    ManifestFile,
)
from paimon_pyds.metadata.unknown_members import KnownSchema, UnknownMember, members_in

_T = TypeVar("_T")
_LIST, _EXTRA_LIST, _INDEX = map(KnownSchema, (MANIFEST_FILE, EXTRA_MANIFEST_FILE, INDEX_ENTRY))
_KINDS: dict[str, type] = {"int": int, "long": int, "string": str, "bytes": bytes}
_FEW_BYTES = 4 * 2**20
_MOST_TIMES = 500
"""Limits of the decompressed size of a list, in bytes and in multiples of its compressed size: the greater one counts.
Each byte becomes some hundred bytes of Python objects. A list of 100,000 manifests whose names differ only in a number
unpacks to 80 times its size."""
_COUNTS = frozenset({"_FILE_SIZE", "_ROW_COUNT", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"})


def decode_manifest_list(data: bytes, path: str) -> list[ManifestFile]:
    """The records of a manifest list.

    Raises:
        CorruptFileError: bytes that are not a manifest list.
        UnsupportedError: an unknown version or compression codec.
    """
    return _decode(data, path, _EXTRA_LIST, _manifest_file, MANIFEST_VERSION)


def encode_manifest_list(files: Iterable[ManifestFile], compression: str) -> bytes:
    """The bytes of a manifest list; ``compression`` is the value of the option ``manifest.compression``.
    Raises UnsupportedError: unknown members that can't be written again."""
    files = list(files)
    known = _LIST if all(file.extra_files is None for file in files) else _EXTRA_LIST
    schema = known.extended(member for file in files for member in file.unknown)
    records = (
        _with_unknown(
            {"_VERSION": MANIFEST_VERSION, **_members(file), "_PARTITION_STATS": _members(file.partition_stats)},
            file.unknown,
        )
        for file in files
    )
    return encode_records(schema, codec_name(compression), records, known.node_of)


def _with_unknown(record: dict[str, Any], members: Iterable[UnknownMember]) -> dict[str, Any]:
    """A record with its unknown members."""
    for member in members:
        *records, name = member.path.split(".")
        reduce(getitem, records, record)[name] = member.data
    return record


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    beside = _may(record, "_EXTRA_FILES", list)
    stats = _need(record, "_PARTITION_STATS", dict)
    counts = _may(stats, "_NULL_COUNTS", list)
    bounds = _need(stats, "_MIN_VALUES", bytes), _need(stats, "_MAX_VALUES", bytes)
    partition_stats = SimpleStats(*bounds, None if counts is None else tuple(counts))
    return ManifestFile(
        partition_stats=partition_stats,
        extra_files=None if beside is None else tuple(beside),
        unknown=(*members_in(record), *(m._replace(path=f"_PARTITION_STATS.{m.path}") for m in members_in(stats))),
        **_attributes(record, _MANIFEST_FILE),
    )


def decode_index_manifest(data: bytes, path: str) -> list[IndexEntry]:
    """The records of an index manifest. Raises as `decode_manifest_list`."""
    return _decode(data, path, _INDEX, _index_entry, INDEX_MANIFEST_VERSION)


def encode_index_manifest(entries: Iterable[IndexEntry], compression: str) -> bytes:
    """The bytes of an index manifest; ``compression`` is the value of the option ``manifest.compression``.
    Raises UnsupportedError: unknown members that can't be written again."""
    entries = list(entries)
    schema = _INDEX.extended(member for entry in entries for member in _unknown_members(entry))
    records = (_index_record(entry) for entry in entries)
    return encode_records(schema, codec_name(compression), records, _INDEX.node_of)


def _unknown_members(entry: IndexEntry) -> Iterator[UnknownMember]:
    """All of an entry, with their places in it."""
    index = () if entry.global_index is None else entry.global_index.unknown
    ranges = (member for range_ in entry.deletion_ranges or () for member in range_.unknown)
    yield from entry.unknown
    for place, members in (("_GLOBAL_INDEX.", index), ("_DELETIONS_VECTORS_RANGES.", ranges)):
        yield from (member._replace(path=place + member.path) for member in members)


def _index_entry(record: dict[str, Any]) -> IndexEntry:
    ranges = _may(record, "_DELETIONS_VECTORS_RANGES", list)
    index = _may(record, "_GLOBAL_INDEX", dict)
    if ranges is None and record.get("_INDEX_TYPE") == DELETION_VECTORS:
        raise Misfit("_DELETIONS_VECTORS_RANGES", "it is missing")
    return IndexEntry(
        deletion_ranges=None if ranges is None else tuple(_deletion_range(item) for item in ranges),
        global_index=None if index is None else _global_index(index),
        unknown=members_in(record),
        **_attributes(record, _INDEX_ENTRY),
    )


def _deletion_range(item: Any) -> DeletionRange:
    if not isinstance(item, dict):
        raise Misfit("_DELETIONS_VECTORS_RANGES", "an item is null")
    cardinality = None if item.get("_CARDINALITY") is None else _count(item, "_CARDINALITY")
    place = _need(item, "f0", str), _count(item, "f1"), _count(item, "f2")
    return DeletionRange(*place, cardinality, members_in(item))


def _global_index(record: dict[str, Any]) -> GlobalIndex:
    extra = _may(record, "_EXTRA_FIELD_IDS", list)
    return GlobalIndex(
        extra_field_ids=None if extra is None else tuple(extra),
        unknown=members_in(record),
        **_attributes(record, _GLOBAL_INDEX),
    )


def _index_record(entry: IndexEntry) -> dict[str, Any]:
    ranges, index = entry.deletion_ranges, entry.global_index
    record = {
        "_VERSION": INDEX_MANIFEST_VERSION,
        **_members(entry),
        "_DELETIONS_VECTORS_RANGES": None if ranges is None else [_range_record(range_) for range_ in ranges],
        "_GLOBAL_INDEX": None if index is None else _with_unknown(_members(index), index.unknown),
    }
    return _with_unknown(record, entry.unknown)


def _range_record(range_: DeletionRange) -> dict[str, Any]:
    place = {"f0": range_.data_file, "f1": range_.offset, "f2": range_.length, "_CARDINALITY": range_.cardinality}
    return _with_unknown(place, range_.unknown)


class Misfit(Exception):
    """A record lacks a field, or has it with another type; whoever knows the file makes a CorruptFileError of it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def _members(value: ManifestFile | SimpleStats | IndexEntry | GlobalIndex) -> dict[str, Any]:
    """The attributes by their names in files: ``_FILE_SIZE`` for ``file_size``."""
    return {f"_{field.name.upper()}": getattr(value, field.name) for field in fields(value)}


def _attributes(record: dict[str, Any], members: Iterable[_Member]) -> dict[str, Any]:
    """The fields of a record that are neither records nor arrays, by the names of attributes."""
    return {attribute: read(record, name, kind) for attribute, name, kind, read in members}


def _need(record: dict[str, Any], name: str, kind: type[_T]) -> _T:
    value = record.get(name)
    if not isinstance(value, kind):
        raise Misfit(name, "it is missing" if value is None else f"it is {type(value).__name__}")
    return value


def _count(record: dict[str, Any], name: str, kind: type[int] = int) -> int:
    value = _need(record, name, kind)
    if value < 0:
        raise Misfit(name, f"it is {value}")
    return value


def _may(record: dict[str, Any], name: str, kind: type[_T]) -> _T | None:
    return None if record.get(name) is None else _need(record, name, kind)


_Member: TypeAlias = "tuple[str, str, type, Callable[[dict[str, Any], str, type], Any]]"
"""A field that is neither a record nor an array: its attribute, its name in files, its type, and what reads it."""


def _plain_members(schema: dict[str, Any]) -> tuple[_Member, ...]:
    found: list[_Member] = []
    for member in schema["fields"]:
        name, type_ = member["name"], member["type"]
        may_be_null = isinstance(type_, list)
        kind = type_[1] if may_be_null else type_
        if name != "_VERSION" and isinstance(kind, str):
            read = _count if name in _COUNTS else _may if may_be_null else _need
            found.append((name[1:].lower(), name, _KINDS[kind], read))
    return tuple(found)


_MANIFEST_FILE, _INDEX_ENTRY, _GLOBAL_INDEX = map(_plain_members, (MANIFEST_FILE, INDEX_ENTRY, GLOBAL_INDEX))


def _decode(data: bytes, path: str, known: KnownSchema, make: Callable[[dict[str, Any]], _T], version: int) -> list[_T]:
    container = read_container(data, path, node_of=known.node_of)
    unpacked = sum(map(len, container.blocks))
    if unpacked > max(_FEW_BYTES, _MOST_TIMES * len(data)):
        raise CorruptFileError(f"{len(data)} bytes that unpack to {unpacked}", path=path, field="block")
    found = []
    for record in decode_records(container):
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
