"""What a commit wants to do to the table, before it is known which snapshot it lands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_pyds.commit_message import BucketFiles
from paimon_pyds.metadata.index_manifest import DELETION_VECTORS, IndexEntry
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Operation, Snapshot

__all__ = ["Changes", "Overwrite", "VectorPlace", "vector_places"]


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Where a deletion vector lies. Files are immutable, so an equal place means an equal vector."""

    index_file: str
    offset: int


def vector_places(entries: Iterable[IndexEntry]) -> dict[str, VectorPlace]:
    """Where the vector of each data file lies that has one; data files by name."""
    return {
        r.data_file: VectorPlace(entry.file_name, r.offset)
        for entry in entries
        if entry.index_type == DELETION_VECTORS
        for r in entry.deletion_ranges or ()
    }


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Which live files an overwrite replaces.

    ``partitions`` is a function from the distinct partition rows (arity + BinaryRow) to the ones that are replaced;
    None replaces the whole table.
    """

    partitions: Callable[[Sequence[bytes]], set[bytes]] | None = None

    def replaced(self, rows: Sequence[bytes]) -> set[bytes]:
        """The partitions among ``rows`` that are replaced."""
        return set(rows) if self.partitions is None else self.partitions(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One commit.

    Attributes:
        added: new data files by bucket.
        overwrite: live files to replace, looked up in the snapshot the commit lands on.
        deleted: entries (`ENTRY_SCHEMA`) that must still be live: compaction and row-level operations.
        readded: entries of files of ``deleted`` that stay under other metadata, such as another file index: the same
            rows at the same positions, so sequence numbers, row ids and deletion vectors stay too.
        required: entries that stay and must still be live: files that get a new deletion vector.
        expected_vectors: for data files of ``deleted`` or ``required``, by name, where the vector was that the changes
            were made from; None for no vector. Another one now is a conflict: a delete would get lost.
        guard: asked with each snapshot that the commit would land on, and the schema; it raises CommitConflictError
            when the changes do not hold there.
        index_entries: new index files.
        replaced_index_files: names of index files that go; each must still be there.
        operation: what the snapshot is told to come from; None for one that only moves rows.
        commit_user: who commits; with ``identifier`` it names the commit.
    """

    added: Sequence[BucketFiles] = ()
    overwrite: Overwrite | None = None
    deleted: pa.RecordBatch | None = None
    readded: pa.RecordBatch | None = None
    required: pa.RecordBatch | None = None
    expected_vectors: Mapping[str, VectorPlace | None] = field(default_factory=dict)
    guard: Callable[[Snapshot | None, TableSchema], None] | None = None
    index_entries: Sequence[IndexEntry] = ()
    replaced_index_files: frozenset[str] = frozenset()
    kind: CommitKind = CommitKind.APPEND
    operation: Operation | None = None
    commit_user: str = ""
    identifier: int = BATCH_COMMIT_IDENTIFIER
    watermark: int | None = None
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def only_adds(self) -> bool:
        """New files and nothing else: what is there stays, or is looked up in the snapshot the commit lands on."""
        return not any((self.deleted, self.readded, self.required, self.index_entries, self.replaced_index_files))

    @property
    def is_empty(self) -> bool:
        """Nothing to do: no snapshot is made."""
        return (
            not any(b.files for b in self.added)
            and self.overwrite is None
            and not any(batch is not None and batch.num_rows for batch in (self.deleted, self.readded))
            and not self.index_entries
            and not self.replaced_index_files
        )
