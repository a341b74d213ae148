"""Bytes ⇄ records of manifest lists, manifests and index manifests (specification: Paimon documentation,
concepts/spec/manifest)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import array
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.metadata import avro, manifest_schemas
from paimon_pyds.metadata.avro import Container
from paimon_pyds.metadata.avro_lanes import MAX_ITEMS, PADDING, Positions, Walk, to_arrow, walk_records
from paimon_pyds.metadata.avro_schema import Array, Node, Primitive, Record, optional, parse_schema
from paimon_pyds.metadata.index_manifest import DeletionRange, GlobalIndex, IndexEntry
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, FileKind, ManifestFile, SimpleStats

__all__ = [
    "decode_index_manifest",
    "decode_manifest",
    "decode_manifest_list",
    "encode_index_manifest",
    "encode_manifest",
    "encode_manifest_list",
]

MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1

_ONE_BY_ONE = 48
"""Up to this many records are read one by one: that is faster then."""

_T = TypeVar("_T")


# ----------------------------------------------------------------------------------------------------- manifest list


def decode_manifest_list(data: bytes, path: str) -> list[ManifestFile]:
    """The records of a manifest list.

    Raises:
        CorruptFileError: bytes that are not a manifest list.
        UnsupportedError: a version or compression codec that is not known.
    """
    records = avro.decode_records(avro.read_container(data, path))
    return [_convert(_manifest_file, record, path, MANIFEST_VERSION) for record in records]


def encode_manifest_list(files: Iterable[ManifestFile], compression: str) -> bytes:
    """The bytes of a manifest list; ``compression`` is the value of the option ``manifest.compression``."""
    records = (
        {
            "_VERSION": MANIFEST_VERSION,
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_NUM_ADDED_FILES": file.num_added_files,
            "_NUM_DELETED_FILES": file.num_deleted_files,
            "_PARTITION_STATS": {
                "_MIN_VALUES": file.partition_stats.min_values,
                "_MAX_VALUES": file.partition_stats.max_values,
                "_NULL_COUNTS": file.partition_stats.null_counts,
            },
            "_SCHEMA_ID": file.schema_id,
            "_MIN_BUCKET": file.min_bucket,
            "_MAX_BUCKET": file.max_bucket,
            "_MIN_LEVEL": file.min_level,
            "_MAX_LEVEL": file.max_level,
            "_MIN_ROW_ID": file.min_row_id,
            "_MAX_ROW_ID": file.max_row_id,
        }
        for file in files
    )
    return avro.encode_records(manifest_schemas.MANIFEST_FILE, avro.codec_name(compression), records)


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    stats = _need(record, "_PARTITION_STATS", dict)
    counts = _may(stats, "_NULL_COUNTS", list)
    return ManifestFile(
        file_name=_need(record, "_FILE_NAME", str),
        file_size=_need(record, "_FILE_SIZE", int),
        num_added_files=_need(record, "_NUM_ADDED_FILES", int),
        num_deleted_files=_need(record, "_NUM_DELETED_FILES", int),
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
    """The records of an index manifest.

    Raises:
        CorruptFileError: bytes that are not an index manifest.
        UnsupportedError: a version or compression codec that is not known.
    """
    records = avro.decode_records(avro.read_container(data, path))
    return [_convert(_index_entry, record, path, INDEX_MANIFEST_VERSION) for record in records]


def encode_index_manifest(entries: Iterable[IndexEntry], compression: str) -> bytes:
    """The bytes of an index manifest; ``compression`` is the value of the option ``manifest.compression``."""
    records = (_index_record(entry) for entry in entries)
    return avro.encode_records(manifest_schemas.INDEX_ENTRY, avro.codec_name(compression), records)


def _index_entry(record: dict[str, Any]) -> IndexEntry:
    ranges = _may(record, "_DELETIONS_VECTORS_RANGES", list)
    index = _may(record, "_GLOBAL_INDEX", dict)
    return IndexEntry(
        kind=_need(record, "_KIND", int),
        partition=_need(record, "_PARTITION", bytes),
        bucket=_need(record, "_BUCKET", int),
        index_type=_need(record, "_INDEX_TYPE", str),
        file_name=_need(record, "_FILE_NAME", str),
        file_size=_need(record, "_FILE_SIZE", int),
        row_count=_need(record, "_ROW_COUNT", int),
        deletion_ranges=None if ranges is None else tuple(_deletion_range(item) for item in ranges),
        external_path=_may(record, "_EXTERNAL_PATH", str),
        global_index=None if index is None else _global_index(index),
    )


def _deletion_range(item: Any) -> DeletionRange:
    if not isinstance(item, dict):
        raise _Misfit("_DELETIONS_VECTORS_RANGES", "an item is null")
    return DeletionRange(
        _need(item, "f0", str), _need(item, "f1", int), _need(item, "f2", int), _may(item, "_CARDINALITY", int)
    )


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
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None
        if index is None
        else {
            "_ROW_RANGE_START": index.row_range_start,
            "_ROW_RANGE_END": index.row_range_end,
            "_INDEX_FIELD_ID": index.index_field_id,
            "_EXTRA_FIELD_IDS": index.extra_field_ids,
            "_INDEX_META": index.index_meta,
        },
    }


# ---------------------------------------------------------------------------------------------- records of few files


class _Misfit(Exception):
    """A record lacks a field, or has it with another type."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


def _need(record: dict[str, Any], name: str, kind: type[_T]) -> _T:
    value = record.get(name)
    if not isinstance(value, kind):
        raise _Misfit(name, "it is missing" if value is None else f"it is {type(value).__name__}")
    return value


def _may(record: dict[str, Any], name: str, kind: type[_T]) -> _T | None:
    return None if record.get(name) is None else _need(record, name, kind)


def _convert(make: Callable[[dict[str, Any]], _T], record: dict[str, Any], path: str, version: int) -> _T:
    try:
        _check_version(_need(record, "_VERSION", int), version, path)
        return make(record)
    except _Misfit as error:
        raise CorruptFileError(f"a record does not fit: {error.reason}", path=path, field=error.name) from None


def _check_version(found: int, known: int, path: str) -> None:
    if found != known:
        raise UnsupportedError(
            f"metadata of version {found} is not supported, only version {known}",
            path=path,
            hint="the table was written by a Paimon of another generation",
        )


# --------------------------------------------------------------------------------------------------------- manifests


def decode_manifest(data: bytes, path: str, columns: Collection[str] | None = None) -> pa.RecordBatch:
    """The entries of a manifest as columns of `ENTRY_SCHEMA`, in file order.

    Fields of the writer's schema that are not known are skipped; nullable ones that it does not have are null.

    Args:
        data: the file.
        path: its name, for messages.
        columns: decode only these columns of `ENTRY_SCHEMA` (in its order); all by default.

    Raises:
        CorruptFileError: bytes that are not a manifest.
        UnsupportedError: a version or compression codec that is not known.
    """
    container = avro.read_container(data, path)
    schema = container.schema
    if not isinstance(schema, Record):
        raise CorruptFileError("the schema is not a record", path=path, field="avro.schema")
    fields = [field for field in ENTRY_SCHEMA if columns is None or field.name in columns]
    try:
        present = _present(schema, tuple(field.name for field in fields))
        arrays = _read_arrays(container, schema, fields, present)
    except _Misfit as error:
        raise CorruptFileError(f"entries do not fit: {error.reason}", path=path, field=error.name) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise CorruptFileError(f"entries do not decode: {error}", path=path, field="record") from error
    for field, column in zip(fields, arrays, strict=True):
        if column.null_count and not field.nullable:
            raise CorruptFileError(
                "an entry lacks a value", path=path, field=manifest_schemas.ENTRY_PATHS[field.name].rpartition(".")[2]
            )
        if field.name == "kind" and not set(column.unique().to_pylist()) <= {FileKind.ADD, FileKind.DELETE}:
            raise CorruptFileError("an entry is neither ADD nor DELETE", path=path, field="_KIND")
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _resolve(schema: Record, path: str) -> Node | None:
    """The type at a path; records on the way may be nullable, as pypaimon-rust writes them."""
    node: Node | None = schema
    for name in path.split("."):
        found = None if node is None else optional(node)
        node = node if found is None else found[0]
        node = node.field(name) if isinstance(node, Record) else None
    return node


def _direct(schema: Record, path: str) -> bool:
    """Whether no record on the way to a path is nullable."""
    node: Node | None = schema
    for name in path.split("."):
        if not isinstance(node, Record):
            return False
        node = node.field(name)
    return True


@functools.lru_cache(maxsize=16)
def _present(schema: Record, columns: tuple[str, ...]) -> frozenset[str]:
    """Where the writer's schema has these columns, and the version; raises _Misfit unless they can be read as such."""
    if _resolve(schema, "_VERSION") != Primitive("int"):
        raise _Misfit("_VERSION", "there is no version")
    places = {"_VERSION"} if schema.field(avro.BRANCH) is None else {"_VERSION", avro.BRANCH}
    for name in columns:
        place = manifest_schemas.ENTRY_PATHS[name]
        field = ENTRY_SCHEMA.field(name)
        node = _resolve(schema, place)
        if node is None and not field.nullable:
            raise _Misfit(place, "it is missing")
        if node is not None:
            if not _fits(node, field.type):
                raise _Misfit(place, "it has another type")
            places.add(place)
    return frozenset(places)


def _fits(node: Node, type_: pa.DataType) -> bool:
    found = optional(node)
    if found is not None:
        node = found[0]
    if isinstance(node, Array):
        return pa.types.is_list(type_) and _fits(node.item, type_.value_type)
    if pa.types.is_integer(type_):
        return node in (Primitive("int"), Primitive("long"))
    return node == Primitive("string" if pa.types.is_string(type_) else "bytes")


def _read_arrays(
    container: Container, schema: Record, fields: Sequence[pa.Field], wanted: frozenset[str]
) -> list[pa.Array]:
    count = sum(container.counts)
    walk = None
    data = np.zeros(0, np.uint8)
    if count > _ONE_BY_ONE and all(_direct(schema, place) for place in wanted):
        data = np.frombuffer(b"".join((*container.blocks, bytes(PADDING))), np.uint8)
        walk = _walk(container, schema, data, wanted)
    if walk is None:
        return _read_one_by_one(container, fields, wanted)
    versions = to_arrow(walk.captured["_VERSION"], pa.int64(), data)
    _check_versions(versions, container)
    if avro.BRANCH in wanted:
        branches = to_arrow(walk.captured[avro.BRANCH], pa.int64(), data)
        if branches.unique().to_pylist() != [1]:
            raise CorruptFileError("an entry is null", path=container.path, field="record")
    arrays = []
    for field in fields:
        place = manifest_schemas.ENTRY_PATHS[field.name]
        if place in wanted:
            arrays.append(to_arrow(walk.captured[place], field.type, data))
        else:
            arrays.append(pa.nulls(count, field.type))
    return arrays


def _check_versions(versions: pa.Array, container: Container) -> None:
    for version in set(versions.unique().to_pylist()):
        _check_version(version, MANIFEST_VERSION, str(container.path))


def _read_one_by_one(container: Container, fields: Sequence[pa.Field], wanted: frozenset[str]) -> list[pa.Array]:
    records = avro.decode_records(container)
    _check_versions(array([record["_VERSION"] for record in records], pa.int64()), container)
    arrays = []
    for field in fields:
        place = manifest_schemas.ENTRY_PATHS[field.name]
        if place not in wanted:
            arrays.append(pa.nulls(len(records), field.type))
            continue
        values: list[Any] = records
        for name in place.split("."):
            if any(value is None for value in values):
                raise _Misfit(place, "the record around it is null")
            values = [value[name] for value in values]
        arrays.append(array(values, field.type))
    return arrays


def _walk(container: Container, schema: Record, data: npt.NDArray[np.uint8], wanted: frozenset[str]) -> Walk | None:
    """Decode all records at once; None when it can't be proved where they start."""
    sizes = np.array([len(block) for block in container.blocks], np.int64)
    counts = np.array(container.counts, np.int64)
    if (sizes[counts == 0] != 0).any():
        return None
    sizes, counts = sizes[counts > 0], counts[counts > 0]
    block_ends = np.cumsum(sizes)
    block_starts = block_ends - sizes
    first = avro.first_record(container)
    starts = _united(_guess_starts(schema, data, first), block_starts)
    for max_items in (2 * _longest_list(first) + 16, MAX_ITEMS):
        walk = walk_records(schema, data, starts, wanted, max_items)
        if _proved(starts, walk, block_starts, block_ends, counts):
            return walk
        # Some of the guesses are inside of records: follow the chain of those that begin where another one ends.
        chain = _chain(starts, walk.ends, block_starts, counts)
        if chain is not None:
            walk = walk_records(schema, data, chain, wanted)
            return walk if _proved(chain, walk, block_starts, block_ends, counts) else None
    return None


def _united(a: Positions, b: Positions) -> Positions:
    """Both, sorted, without repetition. Both are sorted, which `np.union1d` makes nothing of; and it imports a lot."""
    both = np.concatenate((a, b))
    both.sort(kind="stable")
    first = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]


def _longest_list(value: object) -> int:
    if isinstance(value, dict):
        return max((_longest_list(member) for member in value.values()), default=0)
    return len(value) if isinstance(value, list) else 0


def _proved(starts: Positions, walk: Walk, block_starts: Positions, block_ends: Positions, counts: Positions) -> bool:
    """Whether the records fill the blocks without a gap, as many in each as the block says."""
    if not walk.ok.all() or len(starts) != int(counts.sum()):
        return False
    first = np.cumsum(counts) - counts
    if not np.array_equal(starts[first], block_starts):
        return False
    following = np.append(starts[1:], block_ends[-1:])
    following[first + counts - 1] = block_ends
    return bool(np.array_equal(walk.ends, following))


def _chain(starts: Positions, ends: Positions, block_starts: Positions, counts: Positions) -> Positions | None:
    after = dict(zip(starts.tolist(), ends.tolist(), strict=True))
    found: list[int] = []
    for start, count in zip(block_starts.tolist(), counts.tolist(), strict=True):
        at = start
        for _ in range(count):
            if at not in after:
                return None
            found.append(at)
            at = after[at]
    return np.array(found, np.int64)


def _guess_starts(schema: Record, data: npt.NDArray[np.uint8], first: dict[str, Any]) -> Positions:
    """Places that look like the head of an entry: the version, a kind, and a partition: its length, as many fields as
    that of the first entry, the row kind."""
    head = (("_VERSION", Primitive("int")), ("_KIND", Primitive("int")), ("_PARTITION", Primitive("bytes")))
    lead = int(schema.fields[0][0] == avro.BRANCH)
    if schema.fields[lead : lead + 3] != head or len(first["_PARTITION"]) < 12:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(data[:-PADDING] == 2 * MANIFEST_VERSION)
    kind = data[at + 1]
    at = at[(kind == 0) | (kind == 2)]
    # A length of 4 + 8n bytes; as a zigzag number it takes one byte, or two from 64 bytes on.
    length = data[at + 2]
    at = at[length & 0x0F == 8]
    row = at + 3 + (data[at + 2] >> 7)
    like = data[row + 4] == 0
    for index in range(4):
        like &= data[row + index] == first["_PARTITION"][index]
    at = at[like]
    if lead:
        at = at[data[at - 1] == 2] - 1  # the branch of the record, 1
    return np.asarray(at, np.int64)


def encode_manifest(entries: pa.RecordBatch | pa.Table, compression: str) -> bytes:
    """The bytes of a manifest.

    Args:
        entries: columns of `ENTRY_SCHEMA`, all of them.
        compression: the value of the option ``manifest.compression``.

    Raises:
        OptionError: an unknown compression.
    """
    from paimon_pyds.metadata.avro_columns import blocks_of, join

    codec = avro.codec_name(compression)
    if isinstance(entries, pa.Table):
        batches = entries.combine_chunks().to_batches()
    else:
        batches = [entries]
    blocks = [block for batch in batches if batch.num_rows for block in blocks_of(join(_entry_pieces(batch)))]
    return avro.write_container(manifest_schemas.ENTRY, codec, blocks)


@functools.lru_cache(maxsize=1)
def _entry_schema() -> Record:
    return cast(Record, parse_schema(manifest_schemas.ENTRY))


def _entry_pieces(entries: pa.RecordBatch) -> list[pa.Array]:
    from paimon_pyds.metadata.avro_columns import encode_field

    columns = {place: entries.column(name) for name, place in manifest_schemas.ENTRY_PATHS.items()}
    columns["_VERSION"] = pa.array(np.full(entries.num_rows, MANIFEST_VERSION, np.int64))
    pieces: list[pa.Array] = []

    def add(record: Record, prefix: str) -> None:
        for name, node in record.fields:
            if isinstance(node, Record):
                add(node, f"{prefix}{name}.")
            else:
                pieces.extend(encode_field(node, columns[prefix + name]))

    add(_entry_schema(), "")
    return pieces
