"""Conflicts: whether the table still is what a commit was made from.

Source: Paimon documentation, concepts/concurrency-control ("files conflict"): a file that was removed, or that got
another deletion vector, since a commit's base snapshot must not be removed or get a vector by that commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.commit.changes import Increment, vector_places
from paimon_pyds.commit.manifests import identities
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.metadata.manifest import DELETION_VECTORS, IndexEntry

__all__ = ["Conflicts"]

_AGAIN = "run the operation again on the latest snapshot"


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The checks of one commit. Each raises CommitConflictError.

    ``bucketed`` tells a table of fixed buckets: there, a bucket has one file of deletion vectors at most.
    """

    changes: Increment
    root: str
    bucketed: bool

    def check_files(self, live: pa.RecordBatch) -> None:
        """Every file that the commit takes away or builds on must still be there, under the same metadata."""
        for entries in (self.changes.deleted, self.changes.required):
            if entries is None or not entries.num_rows:
                continue
            there = set(identities(live.filter(pc.is_in(live["file_name"], entries["file_name"]))))
            for name, identity in zip(entries["file_name"].to_pylist(), identities(entries), strict=True):
                if identity not in there:
                    raise self._conflict(f"the data file {name} was removed or changed by another commit meanwhile")

    def check_buckets(self, live: pa.RecordBatch) -> None:
        """Files of one partition must agree on the number of buckets."""
        if self.changes.overwrite is not None:
            return
        known = dict(zip(live["partition"].to_pylist(), live["total_buckets"].to_pylist(), strict=True))
        for bucket in self.changes.added:
            before = known.get(bucket.partition)
            if before is not None and bucket.files and before != bucket.total_buckets:
                raise CommitConflictError(
                    f"Try to write table with a new bucket num {bucket.total_buckets}, "
                    f"but the previous bucket num is {before}",
                    path=self.root,
                    hint="overwrite the partition to change its number of buckets",
                )

    def check_vectors(self, entries: Iterable[IndexEntry]) -> None:
        """The deletion vectors that the commit was made from must still be those of the snapshot it lands on."""
        expected = self.changes.expected_vectors
        if not expected:
            return
        places = vector_places(entries)
        for name, place in expected.items():
            if places.get(name) != place:
                raise self._conflict(f"rows of the data file {name} were deleted by another commit meanwhile")

    def check_replaced(self, entries: Iterable[IndexEntry]) -> None:
        """The index files that go must still be there: what replaces them holds their other vectors."""
        missing = self.changes.replaced_index_files - {entry.file_name for entry in entries}
        if missing:
            raise self._conflict(f"the index file {min(missing)} was replaced by another commit meanwhile")

    def check_added(self, kept: Sequence[IndexEntry]) -> None:
        """New vectors must come beside, not over, those that stay."""
        added = [e for e in self.changes.index_entries if e.index_type == DELETION_VECTORS]
        if not added:
            return
        vectors = [e for e in kept if e.index_type == DELETION_VECTORS]
        doubled = vector_places(added).keys() & vector_places(vectors).keys()
        if doubled:
            raise self._conflict(f"rows of the data file {min(doubled)} were deleted by another commit meanwhile")
        if self.bucketed:
            taken = {(e.partition, e.bucket) for e in vectors}
            for entry in added:
                if (entry.partition, entry.bucket) in taken:
                    raise self._conflict(f"rows of bucket {entry.bucket} were deleted by another commit meanwhile")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(what, path=self.root, hint=_AGAIN)
