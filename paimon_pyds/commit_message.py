"""What a writer hands to the committer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_pyds.metadata.manifest import DataFile

__all__ = ["BucketFiles", "CommitMessage", "WriteOrigin"]


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
class BucketFiles:
    """New data files of one bucket.

    ``partition`` is arity + BinaryRow; ``directory`` where the files are; ``origin`` None where it is not known.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    directory: str
    files: tuple[DataFile, ...]
    origin: WriteOrigin | None = None


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """All that one write task wrote. It pickles: Spark carries it to the driver."""

    buckets: tuple[BucketFiles, ...]

    @property
    def row_count(self) -> int:
        """Rows written."""
        return sum(f.row_count for b in self.buckets for f in b.files)

    @property
    def file_count(self) -> int:
        """Data files written."""
        return sum(len(b.files) for b in self.buckets)

    @property
    def size(self) -> int:
        """Bytes of data files written."""
        return sum(f.file_size for b in self.buckets for f in b.files)

    def paths(self) -> Iterable[str]:
        """Every file written, side indexes included: what an abort removes."""
        for bucket in self.buckets:
            for file in bucket.files:
                yield f"{bucket.directory}/{file.file_name}"
                for extra in file.extra_files:
                    yield f"{bucket.directory}/{extra}"
