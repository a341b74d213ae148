"""Files of deletion vectors: new deletions merged into the old ones of a table, a whole index file at a time.

Index files are immutable, so one is replaced as a whole as soon as one of its vectors changes. Tables of fixed buckets
have one index file a bucket; in others ``deletion-vector.index-file.target-size`` splits those of a partition.
(Source: Paimon documentation, concepts/spec/tableindex, "Deletion Vectors", and the index manifests that Java writes.)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import expired_file
from paimon_pyds.metadata.deletion.vector import (
    VECTOR_OVERHEAD_BYTES,
    DeletionVector,
    encode_vector,
    read_vector,
    write_vectors,
)
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DeletionRange, IndexEntry
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import file_paths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.unknown_members import UnknownMember
from paimon_pyds.storage import discard
from paimon_pyds.storage.byte_source import FileSource


@dataclass(frozen=True, slots=True)
class NewVectors:
    """Index files that are written and not yet committed, and what they replace.

    Attributes:
        entries: the new files.
        replaced: names of the index files that go.
        paths: the new files' paths, for callers that have to remove them again.
        deleted: by data file, the number of newly deleted rows.
    """

    entries: tuple[IndexEntry, ...] = ()
    replaced: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    deleted: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(entry.file_size for entry in self.entries)


_Vector = tuple[str, DeletionVector]
"""The name of a data file, and its vector."""


class VectorFiles:
    """The deletion vectors of one snapshot, read on demand.

    Args:
        store: the table.
        schema: the schema that names its options and partitions.
        options: the table's options, a write's own on top.
        entries: the snapshot's index manifest.
        live: its live data files (columns of `ENTRY_SCHEMA`), all of the partitions that are written to; their row
            counts bound the positions of their vectors.
    """

    def __init__(
        self,
        store: TableStore,
        schema: TableSchema,
        options: TableOptions,
        entries: Sequence[IndexEntry],
        live: pa.RecordBatch,
    ) -> None:
        self._io = store.io
        self._bucketed = bool(schema.primary_keys) or int(options.get("bucket")) > 0
        self._bits = 64 if options.get("deletion-vectors.bitmap64") else 32
        self._target_size = int(options.get("deletion-vector.index-file.target-size"))
        self._entries = [e for e in entries if e.index_type == DELETION_VECTORS]
        outside = any(e.external_path is not None for e in self._entries)
        self._directories = PartitionDirectories(store.io, schema, file_paths(store, options, outside=outside))
        self._places = {(e.partition, r.data_file): (e, r) for e in self._entries for r in e.deletion_ranges or ()}
        self._row_counts = _row_counts(live, [name for _, name in self._places])

    def vector(self, partition: bytes, data_file: str) -> DeletionVector | None:
        """The vector of a data file; None if it has no deleted rows.

        Raises:
            CorruptFileError: the vector is damaged, or has a position that is no row of the file.
            SnapshotNotFoundError: the index file is gone.
            StorageError: the index file can't be read.
        """
        place = self._places.get((partition, data_file))
        return None if place is None else self._read(*place)

    def cardinality(self, partition: bytes, data_file: str) -> int:
        """How many rows of a data file are deleted. Errors as `vector`, when the manifest does not say it."""
        place = self._places.get((partition, data_file))
        if place is None:
            return 0
        listed = place[1].cardinality
        return self._read(*place).cardinality if listed is None else listed

    def write(self, changes: Mapping[PartitionBucket, Mapping[str, BitMap | None]]) -> NewVectors:
        """Write new index files: the old vectors of the data files named, with more rows deleted.

        ``changes``: rows to delete by data file (positions may be deleted already); None takes the vector away, as the
        data file goes.

        Raises:
            CorruptFileError: an old vector is damaged.
            SnapshotNotFoundError: its index file is gone.
            StorageError: an index file can't be read or written; those that were written are removed again.
        """
        written: list[str] = []
        entries: list[IndexEntry] = []
        replaced: set[str] = set()
        deleted: dict[str, int] = {}
        try:
            for bucket, files in changes.items():
                old = self._replaced(bucket, files)
                vectors = [*self._unchanged(old, files), *self._merged(bucket, files, deleted)]
                replaced.update(e.file_name for e in old)
                same = {
                    r.data_file: r.unknown for e in old for r in e.deletion_ranges or () if r.data_file not in files
                }
                entries.extend(self._write(bucket, part, same, written) for part in self._parts(vectors))
        except BaseException:
            discard(self._io, written)
            raise
        return NewVectors(tuple(entries), frozenset(replaced), tuple(written), deleted)

    def _read(self, entry: IndexEntry, range_: DeletionRange) -> DeletionVector:
        path = self._directories.index_file(entry)
        source = FileSource(self._io, path, entry.file_size)
        row_count = self._row_counts.get((entry.partition, range_.data_file))
        try:
            return read_vector(source, range_.offset, range_.length, range_.cardinality, row_count)
        except FileNotFoundError:
            raise expired_file(path, "a deletion vector", "changed", "make the change again") from None

    def _replaced(self, bucket: PartitionBucket, files: Mapping[str, BitMap | None]) -> list[IndexEntry]:
        """The index files with a vector that changes; in a fixed bucket all of them, as it may have one only."""
        partition, number = bucket
        mine = [e for e in self._entries if e.partition == partition]
        if self._bucketed:
            return [e for e in mine if e.bucket == number]
        return [e for e in mine if any(r.data_file in files for r in e.deletion_ranges or ())]

    def _unchanged(self, old: Sequence[IndexEntry], files: Mapping[str, BitMap | None]) -> Iterator[_Vector]:
        """Without those that were left behind by data files: full compactions of Java Paimon 1.4 leave the vectors of
        files that they rewrite for nothing else (class FileRewriteCompactTask)."""
        for entry in old:
            for range_ in entry.deletion_ranges or ():
                if range_.data_file not in files and (entry.partition, range_.data_file) in self._row_counts:
                    yield range_.data_file, self._read(entry, range_)

    def _merged(
        self, bucket: PartitionBucket, files: Mapping[str, BitMap | None], deleted: dict[str, int]
    ) -> Iterator[_Vector]:
        for name, positions in files.items():
            if positions is None:
                continue
            old = self.vector(bucket[0], name)
            whole = positions if old is None else positions | old.positions
            deleted[name] = len(whole) - (0 if old is None else old.cardinality)
            if whole:
                yield name, DeletionVector(whole, self._bits)

    def _parts(self, vectors: Sequence[_Vector]) -> Iterator[list[_Vector]]:
        """Vectors in files: a new one begins when the last has grown over the target size, as in Java."""
        if vectors and (self._bucketed or len(vectors) == 1):
            yield list(vectors)
            return
        part: list[_Vector] = []
        size = 1
        for name, vector in vectors:
            part.append((name, vector))
            size += VECTOR_OVERHEAD_BYTES + len(encode_vector(vector.positions, vector.bits))
            if size > self._target_size:
                yield part
                part, size = [], 1
        if part:
            yield part

    def _write(
        self,
        bucket: PartitionBucket,
        vectors: Sequence[_Vector],
        same: Mapping[str, tuple[UnknownMember, ...]],
        written: list[str],
    ) -> IndexEntry:
        """``same``: what is not known here of vectors that stay as they are, by data file."""
        data, ranges = write_vectors([vector for _, vector in vectors])
        entry = IndexEntry(
            partition=bucket[0],
            bucket=bucket[1],
            index_type=DELETION_VECTORS,
            file_name=f"index-{uuid.uuid4()}-{len(written)}",
            file_size=len(data),
            row_count=len(vectors),
            deletion_ranges=tuple(
                DeletionRange(name, *range_, same.get(name, ()))
                for (name, _), range_ in zip(vectors, ranges, strict=True)
            ),
        )
        path = self._directories.index_file(entry)
        written.append(path)
        self._io.write_bytes(path, data)
        return entry


def _row_counts(live: pa.RecordBatch, names: Sequence[str]) -> dict[tuple[bytes, str], int]:
    """Rows of the data files of these names, by partition and name."""
    if not names:
        return {}
    mine = live.filter(pc.is_in(live["file_name"], array(names, pa.string())))
    columns = (mine[name].to_pylist() for name in ("partition", "file_name", "row_count"))
    return {(partition, name): rows for partition, name, rows in zip(*columns, strict=True)}
