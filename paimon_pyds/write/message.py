"""What a writer hands to the committer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_pyds.metadata.manifest import DataFile

__all__ = ["BucketFiles", "CommitMessage"]


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """New data files of one bucket. ``partition`` is arity + BinaryRow; ``directory`` where the files are."""

    partition: bytes
    bucket: int
    total_buckets: int
    directory: str
    files: tuple[DataFile, ...]


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
