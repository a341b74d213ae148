"""Index manifests: the deletion-vector and hash-index files of a snapshot (specification: concepts/spec/manifest, Index
Manifest). A snapshot's index manifest is its full state, not a delta."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DELETION_VECTORS", "HASH", "DeletionRange", "GlobalIndex", "IndexEntry"]

DELETION_VECTORS = "DELETION_VECTORS"
HASH = "HASH"


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Where the vector of one data file lies: ``offset`` of its length field, ``length`` of magic and bitmap."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """What an index over rows of many files covers: row ids ``row_range_start`` … ``row_range_end``, both included."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None


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
