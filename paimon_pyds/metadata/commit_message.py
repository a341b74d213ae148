"""The input of a commit: the messages of writers, and the changes made from them, one for each snapshot.

A message has per bucket the increments of a write and of a compaction. (Source: Java Paimon's CommitMessageImpl,
DataIncrement and CompactIncrement.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import files_text, one_line
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DataFile, FileKind, IndexEntry, ManifestEntry, is_apart
from paimon_pyds.metadata.manifest_codec import entries_to_batch
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Operation, Snapshot

if TYPE_CHECKING:
    from paimon_pyds.metadata.user_commits import CommitOnce


@dataclass(frozen=True, slots=True)
class WriteOrigin:
    """The table as it was when a writer finished its files: the commit looks whether it still is that table, and
    whether a snapshot that came later has the files.

    Attributes:
        schema_id: the schema that the files were written by.
        schema_digest: its `metadata.schema.schema_digest`.
        snapshot_id: the latest snapshot at that time; 0 when there was none.
        delta_manifest_list: of that snapshot, as a rollback may give its number to another one; "" when there was none.
    """

    schema_id: int
    schema_digest: str
    snapshot_id: int = 0
    delta_manifest_list: str = ""


@dataclass(frozen=True, slots=True)
class IndexIncrement:
    """Index files of a bucket: deletion vectors, or hashes of keys.

    Attributes:
        new_files: those that come.
        deleted_files: names of those that go; each must still be there.
        paths: of the new ones, for callers that have to remove them again.
    """

    new_files: tuple[IndexEntry, ...] = ()
    deleted_files: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """How rows came into a dynamic bucket.

    Attributes:
        found_in: the names of the partition's hash index files that said where keys are; they must still be there.
        added: a file with the hashes of keys that are new in the bucket, which the commit adds to the bucket's others;
            None for no such key.
        path: of that file.
    """

    found_in: frozenset[str]
    added: IndexEntry | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class CompactIncrement:
    """A compaction of a bucket: a snapshot of its own, after that of the bucket's new files.

    Attributes:
        before: data files that go; each must still be live.
        after: data files that come in their place. One may be of ``before``, at another level.
        changelog_files: the changelog that the compaction made.
        indexes: index files that come and go with it.
    """

    before: tuple[DataFile, ...] = ()
    after: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    indexes: IndexIncrement = IndexIncrement()

    @property
    def written(self) -> tuple[DataFile, ...]:
        """The data files and changelog files that were not there before."""
        before = {file.file_name for file in self.before}
        return (*(file for file in self.after if file.file_name not in before), *self.changelog_files)


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The files written to one bucket.

    Attributes:
        partition: arity + BinaryRow.
        total_buckets: how many buckets the partition has; -1 for a table without buckets.
        directory: where the data files and changelog files are.
        origin: the table as the writer saw it; None where it is not known.
        changelog_files: the changelog of the new data files.
        indexes: index files that come and go with them.
        compact: a compaction, whose files may include the new ones.
        hashes: of the keys of rows that were assigned to a dynamic bucket; None for others.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    directory: str
    files: tuple[DataFile, ...]
    origin: WriteOrigin | None = None
    changelog_files: tuple[DataFile, ...] = ()
    indexes: IndexIncrement = IndexIncrement()
    compact: CompactIncrement = CompactIncrement()
    hashes: KeyHashes | None = None

    def __repr__(self) -> str:
        rows, size = sum(f.row_count for f in self.files), sum(f.file_size for f in self.files)
        return one_line(self, f"bucket {self.bucket}", files_text(len(self.files), rows, size))

    @property
    def sequence_numbers(self) -> tuple[int, int]:
        """The least and the greatest of the rows in new files and their changelog; (0, -1) without any."""
        files = (*self.files, *self.changelog_files)
        least = min((file.min_sequence_number for file in files), default=0)
        return least, max((file.max_sequence_number for file in files), default=-1)

    def paths(self) -> Iterator[str]:
        """Every file written, side indexes and index files included."""
        for file in (*self.files, *self.changelog_files, *self.compact.written):
            for name in (file.file_name, *file.extra_files):
                yield f"{self.directory}/{name}"
        if self.hashes is not None and self.hashes.added is not None:
            yield self.hashes.path
        yield from self.indexes.paths
        yield from self.compact.indexes.paths


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """All that one write task wrote. It pickles: Spark carries it to the driver."""

    buckets: tuple[BucketFiles, ...]

    def __repr__(self) -> str:
        buckets = counted(len(self.buckets), "bucket")
        return one_line(self, files_text(self.file_count, self.row_count, self.size), buckets)

    @property
    def row_count(self) -> int:
        """Rows in new data files."""
        return sum(f.row_count for b in self.buckets for f in b.files if not is_apart(f.file_name))

    @property
    def file_count(self) -> int:
        """New data files."""
        return sum(len(b.files) for b in self.buckets)

    @property
    def size(self) -> int:
        """Bytes of new data files."""
        return sum(f.file_size for b in self.buckets for f in b.files)

    def paths(self) -> Iterable[str]:
        """Every file written: what an abort removes."""
        for bucket in self.buckets:
            yield from bucket.paths()


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The location of a deletion vector. Files are immutable, so equal locations mean equal vectors."""

    index_file: str
    offset: int


def vector_places(entries: Iterable[IndexEntry]) -> dict[str, VectorPlace]:
    """The location of the deletion vector of each data file that has one, by the data file's name."""
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
    None replaces the whole table. Files that wait for their buckets (bucket -2) are spared with ``keeps_postponed``.
    """

    partitions: Callable[[Sequence[bytes]], set[bytes]] | None = None
    keeps_postponed: bool = False

    def replaced(self, rows: Sequence[bytes]) -> set[bytes]:
        """The partitions among ``rows`` that are replaced."""
        return set(rows) if self.partitions is None else self.partitions(rows)


class Guard(Protocol):
    """A check of what changes rely on, in addition to the files that an `Increment` names."""

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raise CommitConflictError if the changes are not valid after a snapshot.

        Args:
            latest: the snapshot that the commit would follow; None in a table without any.
            schema: the table's latest one.
        """


class Renumbering(Protocol):
    """Writes new files with other sequence numbers, if these are a column of the files."""

    def moved(self, bucket: BucketFiles, by: int) -> BucketFiles:
        """The new files of a bucket, whose numbers are increased by ``by``, which may be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What one snapshot changes.

    Attributes:
        kind: of the snapshot. COMPACT leaves all rows as they are.
        operation: what the snapshot names as its origin; None for one that only moves rows.
        added: new data files by bucket. Unless it is a compaction, the commit gives them the sequence numbers and row
            ids that append tables have.
        deleted: entries (`ENTRY_SCHEMA`) that go and must still be live: the files before a compaction, and those that
            row-level operations take away.
        replacements: entries that come in place of ``deleted``, as they are: the files after a compaction, or the same
            ones under other metadata, such as another file index. Of the same file, deletion vectors stay too.
        changelog: entries of changelog files.
        overwrite: live files to replace, looked up in the snapshot the commit lands on.
        required: entries (`IDENTITY_COLUMNS`) that stay and must still be live: files that get a new deletion vector.
        expected_vectors: for data files of ``deleted`` or ``required``, by name, the location of the vector that the
            changes were made from; None for no vector. Another vector by now is a conflict: a delete would get lost.
        guard: checks each snapshot that the commit would follow.
        renumbering: given where sequence numbers are a column of the files, in which no two rows of a bucket may have
            the same number.
        index_entries: new index files.
        replaced_index_files: names of index files that go; each must still be there.
        hash_files: by partition the names of all its hash index files, which said in which buckets the keys of new rows
            are; others now are a conflict: a key might be in two buckets.
        rewrites_manifests: the manifests are written anew, whatever there is of them in the snapshot that it lands on;
            no snapshot is made where that gains nothing.
        statistics: the name of a new statistics file; that of the snapshot before stays when None.
        base_snapshot: where ``deleted`` and ``required`` were found among ``base_files``, all its live files
            (`ENTRY_SCHEMA`): on top of it the commit reads none again. Without ``base_files`` it always reads them.
    """

    kind: CommitKind = CommitKind.APPEND
    operation: Operation | None = None
    added: Sequence[BucketFiles] = ()
    deleted: pa.RecordBatch | None = None
    replacements: pa.RecordBatch | None = None
    changelog: pa.RecordBatch | None = None
    overwrite: Overwrite | None = None
    required: pa.RecordBatch | None = None
    expected_vectors: Mapping[str, VectorPlace | None] = field(default_factory=dict)
    guard: Guard | None = None
    renumbering: Renumbering | None = None
    index_entries: Sequence[IndexEntry] = ()
    replaced_index_files: frozenset[str] = frozenset()
    hash_files: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    rewrites_manifests: bool = False
    statistics: str | None = None
    base_snapshot: Snapshot | None = None
    base_files: pa.RecordBatch | None = None

    @property
    def only_adds(self) -> bool:
        """Whether there are new files and nothing else: existing files stay, or are looked up in the commit's base
        snapshot."""
        return not any((self.deleted, self.replacements, self.required, self.index_entries, self.replaced_index_files))

    def with_files(self, added: Sequence[BucketFiles]) -> Increment:
        """The same, after its new files and those of their changelog were written again."""
        logged = None if self.changelog is None else added_entries((b, b.changelog_files) for b in added)
        return replace(self, added=added, changelog=logged)

    @property
    def is_empty(self) -> bool:
        """Nothing to do: no snapshot is made."""
        return (
            not any(b.files for b in self.added)
            and self.overwrite is None
            and not any((self.deleted, self.replacements, self.changelog))
            and not self.index_entries
            and not self.replaced_index_files
            and not self.rewrites_manifests
            and self.statistics is None
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """One commit.

    Attributes:
        increments: one snapshot each, in this order: an append, an overwrite or row-level changes, and then perhaps a
            compaction. Empty ones make none.
        commit_user: name of the writer; with ``identifier`` it names the commit. Empty for a new unique name.
        watermark: event time in milliseconds; a snapshot's never goes back.
        properties: stored in the snapshots.
        once: by which the commit is made once; its user and number are those above. None: it has no number.
    """

    increments: Sequence[Increment]
    commit_user: str = ""
    identifier: int = BATCH_COMMIT_IDENTIFIER
    watermark: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    once: CommitOnce | None = None


def increments_of(buckets: Sequence[BucketFiles]) -> tuple[Increment, Increment]:
    """The new files of what writers hand to a commit, and its compactions.

    A compaction's data files are ``added`` there, so that a retried commit recognises them. New files with deletion
    vectors make it an overwrite, as in Java: other commits may not ignore it as they do appends.
    """
    indexes, compacted = _merged(b.indexes for b in buckets), _merged(b.compact.indexes for b in buckets)
    append = Increment(
        kind=CommitKind.OVERWRITE if vector_places(indexes.new_files) else CommitKind.APPEND,
        added=tuple(buckets),
        changelog=added_entries((b, b.changelog_files) for b in buckets),
        index_entries=indexes.new_files,
        replaced_index_files=indexes.deleted_files,
        hash_files={b.partition: b.hashes.found_in for b in buckets if b.hashes is not None},
    )
    compact = Increment(
        kind=CommitKind.COMPACT,
        added=tuple(replace(b, files=b.compact.after) for b in buckets if b.compact.after),
        deleted=added_entries((b, b.compact.before) for b in buckets),
        changelog=added_entries((b, b.compact.changelog_files) for b in buckets),
        index_entries=compacted.new_files,
        replaced_index_files=compacted.deleted_files,
    )
    return append, compact


def added_entries(files: Iterable[tuple[BucketFiles, Sequence[DataFile]]]) -> pa.RecordBatch | None:
    """Files of buckets as entries that add them, as they are; None for none."""
    entries = [
        ManifestEntry(FileKind.ADD, bucket.partition, bucket.bucket, bucket.total_buckets, file)
        for bucket, part in files
        for file in part
    ]
    return entries_to_batch(entries) if entries else None


def _merged(indexes: Iterable[IndexIncrement]) -> IndexIncrement:
    increments = list(indexes)
    new = tuple(entry for i in increments for entry in i.new_files)
    return IndexIncrement(new, frozenset().union(*(i.deleted_files for i in increments)))
