"""Manifest files: which data files a commit added and deleted (specification: Paimon documentation, concepts/spec/manifest).

Entries are held as columns (an Arrow RecordBatch of `ENTRY_SCHEMA`), because planning looks at a few fields of very many
entries: a hundred thousand Python objects would cost more than the answer. `DataFile` and `ManifestEntry` are the row form
for the few that survive, and for commits.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["ENTRY_SCHEMA", "DataFile", "FileKind", "ManifestEntry", "ManifestFile", "SimpleStats"]


class FileKind:
    """_KIND of an entry."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Serialised statistics: min and max rows (4-byte big-endian arity + BinaryRow), null counts per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """DataFileMeta: one data file. Sizes in bytes; ``creation_time`` is wall-clock milliseconds in UTC."""

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


ENTRY_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.int8(), False),
        pa.field("partition", pa.binary(), False),
        pa.field("bucket", pa.int32(), False),
        pa.field("total_buckets", pa.int32(), False),
        pa.field("file_name", pa.string(), False),
        pa.field("file_size", pa.int64(), False),
        pa.field("row_count", pa.int64(), False),
        pa.field("min_key", pa.binary(), False),
        pa.field("max_key", pa.binary(), False),
        pa.field("key_stats_min", pa.binary(), False),
        pa.field("key_stats_max", pa.binary(), False),
        pa.field("key_stats_nulls", pa.list_(pa.int64())),
        pa.field("value_stats_min", pa.binary(), False),
        pa.field("value_stats_max", pa.binary(), False),
        pa.field("value_stats_nulls", pa.list_(pa.int64())),
        pa.field("min_sequence_number", pa.int64(), False),
        pa.field("max_sequence_number", pa.int64(), False),
        pa.field("schema_id", pa.int64(), False),
        pa.field("level", pa.int32(), False),
        pa.field("extra_files", pa.list_(pa.string()), False),
        pa.field("creation_time", pa.int64()),
        pa.field("delete_row_count", pa.int64()),
        pa.field("embedded_index", pa.binary()),
        pa.field("file_source", pa.int8()),
        pa.field("value_stats_cols", pa.list_(pa.string())),
        pa.field("external_path", pa.string()),
        pa.field("first_row_id", pa.int64()),
        pa.field("write_cols", pa.list_(pa.string())),
    ]
)
