"""Manifests, which data files a commit added and deleted, and index manifests, all deletion-vector and hash-index files
of a snapshot (specification: Paimon documentation, concepts/spec/manifest).

Entries are held as columns (an Arrow RecordBatch of `ENTRY_SCHEMA`), because planning looks at a few fields of very
many entries: a hundred thousand Python objects would cost more than the answer. `DataFile` and `ManifestEntry` are the
row form for the few that survive, and for commits. The Avro schemas of all metadata files are those that Java Paimon
1.4 writes (names and order of fields included); `ENTRY_PATHS` says which field fills which column.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import in_large_chunks, is_true, one_array, pc, scalar
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.text import one_line, size_text

if TYPE_CHECKING:
    from paimon_pyds.format.avro.schema import Node
    from paimon_pyds.metadata.unknown_members import UnknownMember

MANIFEST_VERSION = 2
"""``_VERSION`` of the records of manifest lists and of manifests."""
INDEX_MANIFEST_VERSION = 1
"""``_VERSION`` of the records of index manifests."""
DELETION_VECTORS = "DELETION_VECTORS"
APART = r"\.blob$|\.vector\."
"""What names of files have in them that hold BLOB or VECTOR columns apart from the other columns of the same rows."""
HASH = "HASH"


def is_blob_file(name: str) -> bool:
    """Whether a file holds values of a BLOB column."""
    return name.endswith(".blob")


def is_apart(name: str) -> bool:
    """Whether a file holds BLOB or VECTOR columns apart from the others."""
    return re.search(APART, name) is not None


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
    "record", _VERSION="int", _FILE_NAME="string", _FILE_SIZE="long", _NUM_ADDED_FILES="long",
    _NUM_DELETED_FILES="long", _PARTITION_STATS=_stats("record__PARTITION_STATS"), _SCHEMA_ID="long",
    _MIN_BUCKET=["int"], _MAX_BUCKET=["int"], _MIN_LEVEL=["int"], _MAX_LEVEL=["int"], _MIN_ROW_ID=["long"],
    _MAX_ROW_ID=["long"],
)  # fmt: skip
"""A record of a manifest list (_VERSION 2)."""
EXTRA_MANIFEST_FILE = {
    **MANIFEST_FILE, "fields": [*MANIFEST_FILE["fields"], *_record("", _EXTRA_FILES=[_STRINGS])["fields"]]
}  # fmt: skip
"""The same for manifests with extra files, as Java Paimon 2.2 writes it."""
_FILE = _record(
    "record__FILE", _FILE_NAME="string", _FILE_SIZE="long", _ROW_COUNT="long", _MIN_KEY="bytes", _MAX_KEY="bytes",
    _KEY_STATS=_stats("record__FILE__KEY_STATS"), _VALUE_STATS=_stats("record__FILE__VALUE_STATS"),
    _MIN_SEQUENCE_NUMBER="long", _MAX_SEQUENCE_NUMBER="long", _SCHEMA_ID="long", _LEVEL="int", _EXTRA_FILES=_STRINGS,
    _CREATION_TIME=[{"type": "long", "logicalType": "timestamp-millis"}], _DELETE_ROW_COUNT=["long"],
    _EMBEDDED_FILE_INDEX=["bytes"], _FILE_SOURCE=["int"], _VALUE_STATS_COLS=[_STRINGS], _EXTERNAL_PATH=["string"],
    _FIRST_ROW_ID=["long"], _WRITE_COLS=[_STRINGS],
)  # fmt: skip
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
"""Column of `ENTRY_SCHEMA`, but for ``unknown`` → place of its value in an entry."""
_DELETION_RANGE = _record("record__DELETIONS_VECTORS_RANGES", f0="string", f1="int", f2="int", _CARDINALITY=["long"])
GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX", _ROW_RANGE_START="long", _ROW_RANGE_END="long", _INDEX_FIELD_ID="int",
    _EXTRA_FIELD_IDS=[{"type": "array", "items": "int"}], _INDEX_META=["bytes"],
)  # fmt: skip
INDEX_ENTRY = _record(
    "record", _VERSION="int", _KIND="int", _PARTITION="bytes", _BUCKET="int", _INDEX_TYPE="string",
    _FILE_NAME="string", _FILE_SIZE="long", _ROW_COUNT="long",
    _DELETIONS_VECTORS_RANGES=[{"type": "array", "items": ["null", _DELETION_RANGE]}], _EXTERNAL_PATH=["string"],
    _GLOBAL_INDEX=[GLOBAL_INDEX],
)  # fmt: skip
"""A record of an index manifest (_VERSION 1)."""


class FileKind:
    """_KIND of an entry."""

    ADD = 0
    DELETE = 1


FILE_SOURCE_APPEND = 0
"""_FILE_SOURCE of a file that a write made."""
FILE_SOURCE_COMPACT = 1
"""_FILE_SOURCE of one that a compaction made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """DataFileMeta: one data file. Sizes in bytes; ``creation_time`` is what clocks showed where it
    was written, in milliseconds, as Java has it."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return one_line(self, self.file_name, size_text(self.row_count, self.file_size), f"level {self.level}")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file added to or deleted from a bucket. ``partition`` is arity + BinaryRow."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A record of a manifest list: one manifest, and what its entries span."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    extra_files: tuple[str, ...] | None = None
    unknown: tuple[UnknownMember, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the files that belong to this manifest alone, such as the sidecars that tell readers which
        blocks of it they can leave out (source: Java Paimon 2.2, class ManifestSidecar)."""
        return self.extra_files or ()

    def names(self) -> Iterator[str]:
        """The names of all files that the record names, and what may be one."""
        yield from (self.file_name, *self.beside, *(name for member in self.unknown for name in member.names()))


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """The location of the vector of one data file: ``offset`` of its length field, ``length`` of magic and bitmap."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None
    unknown: tuple[UnknownMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """What an index over rows of many files covers: row ids ``row_range_start`` … ``row_range_end``, both included."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    unknown: tuple[UnknownMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One index file of one (partition, bucket). ``partition`` is arity + BinaryRow."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None
    kind: int = 0
    unknown: tuple[UnknownMember, ...] = ()

    def names(self) -> Iterator[str]:
        """The names of all files that the record names but data files, and what may be one."""
        index = () if self.global_index is None else self.global_index.unknown
        ranges = (range_.unknown for range_ in self.deletion_ranges or () if range_.unknown)
        yield from (
            self.file_name,
            *(name for member in chain(self.unknown, index, *ranges) for name in member.names()),
        )


ENTRY_SCHEMA = pa.schema([
    pa.field("kind", pa.int8(), False), pa.field("partition", pa.binary(), False),
    pa.field("bucket", pa.int32(), False), pa.field("total_buckets", pa.int32(), False),
    pa.field("file_name", pa.string(), False), pa.field("file_size", pa.int64(), False),
    pa.field("row_count", pa.int64(), False), pa.field("min_key", pa.binary(), False),
    pa.field("max_key", pa.binary(), False), pa.field("key_stats_min", pa.binary(), False),
    pa.field("key_stats_max", pa.binary(), False), pa.field("key_stats_nulls", pa.list_(pa.int64())),
    pa.field("value_stats_min", pa.binary(), False), pa.field("value_stats_max", pa.binary(), False),
    pa.field("value_stats_nulls", pa.list_(pa.int64())), pa.field("min_sequence_number", pa.int64(), False),
    pa.field("max_sequence_number", pa.int64(), False), pa.field("schema_id", pa.int64(), False),
    pa.field("level", pa.int32(), False), pa.field("extra_files", pa.list_(pa.string()), False),
    pa.field("creation_time", pa.int64()), pa.field("delete_row_count", pa.int64()),
    pa.field("embedded_index", pa.binary()), pa.field("file_source", pa.int8()),
    pa.field("value_stats_cols", pa.list_(pa.string())), pa.field("external_path", pa.string()),
    pa.field("first_row_id", pa.int64()), pa.field("write_cols", pa.list_(pa.string())),
    pa.field("unknown", pa.binary()),
])  # fmt: skip
"""The columns of entries. ``unknown`` has the members that this version does not know (`unknown_members.packed`)."""


@functools.lru_cache(maxsize=64)
def entry_schema(columns: frozenset[str] | None) -> pa.Schema:
    """`ENTRY_SCHEMA`, or some columns of it in its order."""
    return ENTRY_SCHEMA if columns is None else pa.schema([field for field in ENTRY_SCHEMA if field.name in columns])


PLACE_COLUMNS = (
    "kind", "partition", "bucket", "total_buckets", "file_name", "file_size", "row_count", "max_sequence_number",
    "schema_id", "level", "extra_files", "external_path", "first_row_id", "write_cols",
)  # fmt: skip
"""The columns that a plan needs of all files. The others, mostly statistics, are four times as large."""
COLUMN_GROUPS = (PLACE_COLUMNS, tuple(name for name in ENTRY_SCHEMA.names if name not in PLACE_COLUMNS))
"""The groups of columns in which decoded entries are cached."""
IDENTITY_COLUMNS = ("partition", "bucket", "level", "file_name", "extra_files", "embedded_index", "external_path")
"""The columns that identify a file: the same file with another embedded index is another one."""
ROW_GROUP, ANCHOR, SUPPLIED, SHARED = "row_group", "anchor", "supplied_columns", "shared_columns"
"""Columns that `column_files.with_row_groups` adds to entries."""
MERGED, SECTION, OLDER = "merged", "section", "older"
"""Columns that planning adds to entries of a table with a primary key: see `keys.merge.files_to_merge`."""
RUN_COLUMNS = (
    "partition", "bucket", "total_buckets", "file_name", "file_size", "level", "min_sequence_number",
    "max_sequence_number", "row_count", "delete_row_count", "creation_time",
)  # fmt: skip
"""What a write looks at of a bucket's files: its writer, its commit and the choice of what to compact after it read the
same columns, so that a manifest is parsed once."""


def is_of_compaction(entries: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Whether a compaction wrote the file of each entry, by ``file_source``; without it, a write did."""
    source = entries["file_source"]
    return pc.fill_null(pc.equal(source, scalar(FILE_SOURCE_COMPACT, pa.int8())), False)


def live_entries(batches: Sequence[pa.RecordBatch | pa.Table]) -> pa.Table:
    """The files that are there after all these manifests: ADDs that no DELETE matches.

    A DELETE matches an ADD of the same partition, bucket, level, file name, extra files, embedded index and external
    path, whichever comes first, as Java's scan does it: a file is added once and deleted once. A DELETE without its ADD
    has no effect.

    ``batches``: entries of the manifests, one or more, of one schema, which has ``kind`` and the columns that identify
    a file; other columns of `ENTRY_SCHEMA` may be left out.

    Returns:
        entries of kind ADD, in order, over the same memory when there is no DELETE.
    """
    tables = [b if isinstance(b, pa.Table) else pa.Table.from_batches([b]) for b in batches if b.num_rows]
    if not tables:
        return pa.Table.from_batches([], batches[0].schema if batches else ENTRY_SCHEMA)
    entries = in_large_chunks(pa.concat_tables(tables))
    deleted = pc.equal(entries.column("kind"), scalar(FileKind.DELETE, pa.int8()))
    if not is_true(deleted).any():
        return entries
    added = pc.filter(entries, pc.invert(deleted))
    gone = pc.filter(entries, deleted)
    # Only names are compared of the many; whole identities of the few whose name was deleted.
    named = pc.is_in(added.column("file_name"), pc.unique(gone.column("file_name")))
    suspects = pc.filter(added, named)
    if suspects.num_rows == 0:
        return added
    dead = pc.is_in(file_identities(suspects), file_identities(gone))
    keep = pc.invert(named).combine_chunks()
    return pc.filter(added, pc.replace_with_mask(keep, named.combine_chunks(), pc.invert(dead)))


def file_identities(entries: pa.RecordBatch | pa.Table) -> pa.Array:
    """What identifies the file of each entry (`IDENTITY_COLUMNS`), as bytes that are equal exactly for equal files."""
    from paimon_pyds.format.avro.encode import encode_columns

    if not entries.num_rows:
        return pa.nulls(0, pa.binary())
    columns = [one_array(entries.column(name)) for name in IDENTITY_COLUMNS]
    return encode_columns(list(zip(_identity_types(), columns, strict=True)))


@functools.cache
def _identity_types() -> list[Node]:
    from paimon_pyds.format.avro.schema import parse_schema

    strings = {"type": "array", "items": "string"}
    types = ("bytes", "int", "int", "string", strings, ["null", "bytes"], ["null", "string"])
    return [parse_schema(type_) for type_ in types]
