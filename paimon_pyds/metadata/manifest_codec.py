"""Bytes ⇄ the entries of a manifest as columns (specification: Paimon documentation, concepts/spec/manifest)."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Any, cast

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, one_batch, pc, to_numpy
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.compression import codec_name
from paimon_pyds.format.avro.container import (
    BRANCH,
    Container,
    decode_records,
    read_container,
    read_parts,
    write_container,
)
from paimon_pyds.format.avro.schema import Array, Node, Primitive, Record, Unread, optional
from paimon_pyds.metadata.lazy_entries import KeepEntries, LazyEntries
from paimon_pyds.metadata.manifest import (
    ENTRY,
    ENTRY_PATHS,
    ENTRY_SCHEMA,
    MANIFEST_VERSION,
    FileKind,
    ManifestEntry,
    entry_schema,
)
from paimon_pyds.metadata.record_codec import Misfit, check_version
from paimon_pyds.metadata.unknown_members import (
    KnownSchema,
    by_path,
    members_at,
    pack,
    packed,
    unread_paths,
)

_KNOWN = KnownSchema(ENTRY)
_UNKNOWN = "unknown"
ONE_BY_ONE_RECORDS = 48
"""Up to this many records are read one by one: that is faster then."""
PART_RECORDS = 16_384
"""Records that are decoded at once where there are more: their cursors then fit in the processor's cache."""
RECORDS_AT_ONCE = 10_000
"""Records in memory at once if they are read one by one."""
_TOGETHER_BYTES = 4 << 20
"""Decompressed bytes of manifests that are decoded at once."""
_LEAST = {
    "file_size": 0, "row_count": 0, "schema_id": 0, "level": 0, "min_sequence_number": -1, "max_sequence_number": -1,
}  # fmt: skip
"""The least values of columns without nulls. Java numbers rows that have no number yet, of a bucket that is yet to be
chosen, with -1."""


def decode_manifest(
    data: bytes, path: str, columns: Collection[str] | None = None, keep: KeepEntries | None = None
) -> pa.RecordBatch:
    """The entries of a manifest as columns of `ENTRY_SCHEMA`, in file order.

    Fields of the writer's schema that are not known are in the column ``unknown``; nullable ones that it does not have
    are null.

    ``columns``: decode only these columns of `ENTRY_SCHEMA` (in its order); all by default. ``keep``: which of some
    entries to give; all by default. Memory is bounded by what it keeps.

    Raises:
        CorruptFileError: bytes that are not a manifest.
        UnsupportedError: a version or compression codec that is not known.
    """
    containers = read_parts(data, path, PART_RECORDS, node_of=_KNOWN.node_of)
    entries = (_lazy_entries(container, columns, some=keep is not None) for container in containers)
    parts = [(part if keep is None else part.filter(keep(part))).batch() for part in entries]
    return parts[0] if len(parts) == 1 else one_batch(pa.Table.from_batches(parts))


def decode_manifests(
    files: Iterable[tuple[bytes, str]], columns: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The entries of each of many manifests, as `decode_manifest` gives them. Small ones are decoded together, because
    each takes a fixed time for itself.

    ``files``: bytes and names, in order. ``columns``: as for `decode_manifest`, whose errors are raised.
    """
    held: list[Container] = []
    size = 0
    for data, path in files:
        container = read_container(data, path, node_of=_KNOWN.node_of)
        more = sum(map(len, container.blocks))
        if held and (size + more > _TOGETHER_BYTES or container.schema != held[0].schema):
            yield from _entries_of_each(held, columns)
            held, size = [], 0
        held.append(container)
        size += more
    yield from _entries_of_each(held, columns)


def _entries_of_each(containers: Sequence[Container], columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    joined = _entries_of_all(containers, columns) if len(containers) > 1 else None
    at = 0
    for container in containers:
        if joined is None:
            yield _entries_of(container, columns)
        else:
            count = sum(container.counts)
            yield joined.slice(at, count)
            at += count


def _entries_of_all(containers: Sequence[Container], columns: Collection[str] | None) -> pa.RecordBatch | None:
    """The entries of containers of the same schema; None where one is damaged, and has to be named."""
    counts, blocks, offsets = (
        tuple(chain.from_iterable(parts))
        for parts in zip(*((c.counts, c.blocks, c.offsets) for c in containers), strict=True)
    )
    with suppress(CorruptFileError, UnsupportedError):
        return _entries_of(Container(containers[0].schema, counts, blocks, offsets, None), columns)
    return None


def _entries_of(container: Container, columns: Collection[str] | None) -> pa.RecordBatch:
    return _lazy_entries(container, columns).batch()


def _lazy_entries(container: Container, columns: Collection[str] | None, *, some: bool = False) -> LazyEntries:
    """The entries of a container. ``some``: few of them may be wanted."""
    schema, path = container.schema, container.path
    if not isinstance(schema, Record):
        raise CorruptFileError("the schema is not a record", path=path, field="avro.schema")
    entries = entry_schema(None if columns is None else frozenset(columns))

    def checked(name: str, rows: Int64s | None) -> pa.Array:
        with _as_corrupt(path):
            column = make(name, rows)
        _check(entries.field(name), column, path)
        return column

    with _as_corrupt(path):
        make = _read_columns(container, schema, list(entries), _present(schema, tuple(entries.names)), some)
    return LazyEntries(entries, sum(container.counts), checked)


@contextmanager
def _as_corrupt(path: object) -> Iterator[None]:
    try:
        yield
    except Misfit as error:
        raise CorruptFileError(f"entries do not fit: {error.reason}", path=path, field=error.name) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise CorruptFileError(f"entries do not decode: {error}", path=path, field="record") from error


def _check(field: pa.Field, column: pa.Array, path: object) -> None:
    where = ENTRY_PATHS.get(field.name, "").rpartition(".")[2]
    if column.null_count and not field.nullable:
        raise CorruptFileError("an entry lacks a value", path=path, field=where)
    if field.name == "kind" and not np.isin(to_numpy(column), (FileKind.ADD, FileKind.DELETE)).all():
        raise CorruptFileError("an entry is neither ADD nor DELETE", path=path, field=where)
    least = _LEAST.get(field.name)
    if least is not None and len(column) and (found := int(to_numpy(column).min())) < least:
        raise CorruptFileError(f"an entry says {found}", path=path, field=where)


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


def _has(schema: Record, path: str) -> bool:
    """Whether there is something at a path on which no record is nullable."""
    return _direct(schema, path) and _resolve(schema, path) is not None


@functools.lru_cache(maxsize=16)
def _present(schema: Record, columns: tuple[str, ...]) -> frozenset[str]:
    """Where the writer's schema has these columns, and the version; raises Misfit unless they can be read as such."""
    if _resolve(schema, "_VERSION") != Primitive("int"):
        raise Misfit("_VERSION", "there is no version")
    places = {"_VERSION"} if schema.field(BRANCH) is None else {"_VERSION", BRANCH}
    for name in columns:
        if name == _UNKNOWN:
            places.update(unread_paths(schema))
            continue
        place = ENTRY_PATHS[name]
        field = ENTRY_SCHEMA.field(name)
        node = _resolve(schema, place)
        if node is None and not field.nullable:
            raise Misfit(place, "it is missing")
        if node is not None:
            if not _fits(node, field.type):
                raise Misfit(place, "it has another type")
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


def _read_columns(
    container: Container, schema: Record, fields: Sequence[pa.Field], wanted: frozenset[str], some: bool
) -> Callable[[str, Int64s | None], pa.Array]:
    """What makes a column of these by its name, of some rows or of all."""
    count = sum(container.counts)
    records = None
    if count > ONE_BY_ONE_RECORDS and all(_direct(schema, place) for place in wanted):
        from paimon_pyds.metadata.manifest_records import walk_manifest  # most tables have short manifests

        records = walk_manifest(container, schema, wanted, some and _has(schema, ENTRY_PATHS["row_count"]))

    @functools.cache
    def read_slowly() -> dict[str, pa.Array]:
        return dict(zip((f.name for f in fields), _read_one_by_one(container, fields, wanted), strict=True))

    def slowly(name: str, rows: Int64s | None) -> pa.Array:
        array = read_slowly()[name]
        return array if rows is None else pc.take(array, from_numpy(rows))

    if records is None:
        read_slowly()
        return slowly
    from paimon_pyds.metadata.manifest_records import UnprovedError

    _check_versions(records.column("_VERSION", pa.int64()), container)
    if BRANCH in wanted:
        branches = records.column(BRANCH, pa.int64())
        if pc.unique(branches).to_pylist() != [1]:
            raise CorruptFileError("an entry is null", path=container.path, field="record")

    def column(name: str, rows: Int64s | None) -> pa.Array:
        type_ = ENTRY_SCHEMA.field(name).type
        places = unread_paths(schema) if name == _UNKNOWN else [ENTRY_PATHS[name]]
        try:
            found = {place: records.column(place, type_, rows) for place in places if place in wanted}
        except UnprovedError:  # as a list of an entry is very long, or by damage
            for known in records.head.captured.keys() & {ENTRY_PATHS[f.name] for f in fields if f.name != _UNKNOWN}:
                f = next(f for f in fields if ENTRY_PATHS.get(f.name) == known)
                if not read_slowly()[f.name].equals(records.column(known, f.type)):
                    raise CorruptFileError("entries do not decode", path=container.path, field="record") from None
            return slowly(name, rows)
        if name == _UNKNOWN:
            nodes = ((path, _resolve(schema, path)) for path in places)
            members = {path: (node, found[path]) for path, node in nodes if isinstance(node, Unread)}
            return packed(members, count if rows is None else len(rows))
        return found[places[0]] if found else pa.nulls(count if rows is None else len(rows), type_)

    return column


def _check_versions(versions: pa.Array, container: Container) -> None:
    for version in set(pc.unique(versions).to_pylist()):
        check_version(version, MANIFEST_VERSION, str(container.path))


def _read_one_by_one(container: Container, fields: Sequence[pa.Field], wanted: frozenset[str]) -> list[pa.Array]:
    """A part at a time: records take some hundred times the memory of their columns, and a few kilobytes may unpack to
    millions of them."""
    records = decode_records(container)
    parts = [_columns_of(list(islice(records, RECORDS_AT_ONCE)), container, fields, wanted)]
    while part := list(islice(records, RECORDS_AT_ONCE)):
        parts.append(_columns_of(part, container, fields, wanted))
    return parts[0] if len(parts) == 1 else [pa.concat_arrays(column) for column in zip(*parts, strict=True)]


def _columns_of(
    records: list[dict[str, Any]], container: Container, fields: Sequence[pa.Field], wanted: frozenset[str]
) -> list[pa.Array]:
    _check_versions(array([record["_VERSION"] for record in records], pa.int64()), container)
    arrays = []
    for field in fields:
        if field.name == _UNKNOWN:
            paths = unread_paths(container.schema)
            arrays.append(array([pack(members_at(record, paths)) for record in records], pa.binary()))
            continue
        place = ENTRY_PATHS[field.name]
        if place not in wanted:
            arrays.append(pa.nulls(len(records), field.type))
            continue
        values: list[Any] = records
        for name in place.split("."):
            if None in values:
                raise Misfit(place, "the record around it is null")
            values = [value[name] for value in values]
        arrays.append(array(values, field.type))
    return arrays


def encode_manifest(entries: pa.RecordBatch | pa.Table, compression: str) -> bytes:
    """The bytes of a manifest.

    ``entries``: columns of `ENTRY_SCHEMA`, all of them. ``compression``: the value of the option
    ``manifest.compression``.
    Raises OptionError: an unknown compression; UnsupportedError: unknown members that can't be written again.
    """
    from paimon_pyds.format.avro.encode import blocks_of, encode_columns

    codec = codec_name(compression)
    batches = entries.combine_chunks().to_batches() if isinstance(entries, pa.Table) else [entries]
    unknown = [by_path(batch["unknown"]) for batch in batches]
    schema = _KNOWN.extended(chain.from_iterable(members for members, _ in unknown))
    node = cast(Record, _KNOWN.node_of(json.dumps(schema).encode()))
    blocks = [
        block
        for batch, (_, values) in zip(batches, unknown, strict=True)
        if batch.num_rows
        for block in blocks_of(encode_columns(_fields_of(batch, node, values)))
    ]
    return write_container(schema, codec, blocks)


def _fields_of(
    entries: pa.RecordBatch, schema: Record, unknown: Mapping[str, Sequence[bytes | None]]
) -> list[tuple[Node, pa.Array]]:  # fmt: skip
    """The fields of records, in order, with their values."""
    columns = {place: entries.column(name) for name, place in ENTRY_PATHS.items()}
    columns["_VERSION"] = from_numpy(np.full(entries.num_rows, MANIFEST_VERSION, np.int64))
    fields: list[tuple[Node, pa.Array]] = []

    def add(record: Record, prefix: str) -> None:
        for name, node in record.fields:
            place = prefix + name
            if isinstance(node, Record):
                add(node, f"{place}.")
            elif isinstance(node, Unread):
                values = unknown.get(place)
                column = pa.nulls(entries.num_rows, pa.binary()) if values is None else array(values, pa.binary())
                fields.append((node, column))
            else:
                fields.append((node, columns[place]))

    add(schema, "")
    return fields


def entries_to_batch(entries: Iterable[ManifestEntry]) -> pa.RecordBatch:
    """Entries as columns of `ENTRY_SCHEMA`, in the same order."""
    rows = [
        (
            e.kind, e.partition, e.bucket, e.total_buckets,
            f.file_name, f.file_size, f.row_count, f.min_key, f.max_key,
            f.key_stats.min_values, f.key_stats.max_values, f.key_stats.null_counts,
            f.value_stats.min_values, f.value_stats.max_values, f.value_stats.null_counts,
            f.min_sequence_number, f.max_sequence_number, f.schema_id, f.level, f.extra_files, f.creation_time,
            f.delete_row_count, f.embedded_index, f.file_source, f.value_stats_cols, f.external_path, f.first_row_id,
            f.write_cols, None,
        )
        for e in entries
        for f in (e.file,)
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else [()] * len(ENTRY_SCHEMA)
    arrays = [array(column, field.type) for column, field in zip(columns, ENTRY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)
