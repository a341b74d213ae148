"""What a writer hands to the committer: per bucket, the increments of a write and of a compaction.

Source: Java Paimon's CommitMessageImpl, DataIncrement and CompactIncrement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paimon_pyds.metadata.manifest import DataFile, IndexEntry


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
        paths: where the new ones are, for who has to remove them again.
    """

    new_files: tuple[IndexEntry, ...] = ()
    deleted_files: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()


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
    """What was written to one bucket.

    Attributes:
        partition: arity + BinaryRow.
        total_buckets: how many buckets the partition has; -1 for a table without buckets.
        directory: where the data files and changelog files are.
        files: new data files.
        origin: the table as the writer saw it; None where it is not known.
        changelog_files: the changelog of the new data files.
        indexes: index files that come and go with them.
        compact: a compaction, whose files may include the new ones.
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
        yield from self.indexes.paths
        yield from self.compact.indexes.paths


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """All that one write task wrote. It pickles: Spark carries it to the driver."""

    buckets: tuple[BucketFiles, ...]

    @property
    def row_count(self) -> int:
        """Rows in new data files."""
        return sum(f.row_count for b in self.buckets for f in b.files)

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
