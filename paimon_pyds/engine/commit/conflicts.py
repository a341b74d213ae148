"""Conflicts: whether the live files and index files of a table are still those that a commit was made from.

Of live files, those of the partitions and buckets are read that a commit touches, and the columns that its checks use.
Source: Paimon documentation, concepts/concurrency-control ("files conflict"): a file that was removed, or that got
another deletion vector, since a commit's base snapshot must not be removed or get a vector by that commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.arrays import array, one_batch, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.engine.commit.key_hashes import check_hash_files
from paimon_pyds.engine.commit.manifests import identities
from paimon_pyds.errors import CommitConflictError, CommitError
from paimon_pyds.metadata.commit_message import Increment, Overwrite, vector_places
from paimon_pyds.metadata.manifest import DELETION_VECTORS, IDENTITY_COLUMNS, RUN_COLUMNS, IndexEntry, ManifestFile
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.paths import partition_directory
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore

_CHECKED = (*IDENTITY_COLUMNS, "total_buckets", "max_sequence_number")


def read_base_files(
    store: TableStore, schema: TableSchema, manifests: Sequence[ManifestFile], increment: Increment
) -> pa.RecordBatch | None:
    """The live files that the checks of a commit look at; None when it has nothing to check.

    Commits look at live files that replace some, that put deletion vectors on some, or that continue the sequence
    numbers of a bucket.

    ``manifests``: all of the snapshot that the commit lands on.

    Returns:
        columns of `ENTRY_SCHEMA`, `RUN_COLUMNS` among them where files are only added; with files that go or must
        stay, what identifies a file; with an overwrite, all.
    """
    named = [batch for batch in (increment.deleted, increment.required) if batch is not None]
    vectors = vector_places(increment.index_entries)
    in_buckets = increment.renumbering is not None or any(b.total_buckets > 0 for b in increment.added)
    if increment.overwrite is None and not named and not vectors and not in_buckets:
        return None
    partitions = {b.partition for b in increment.added}
    if increment.overwrite is None and not named and not vectors:
        return _read_buckets(store, schema, manifests, increment)
    for batch in named:
        partitions.update(batch["partition"].unique().to_pylist())
    partitions.update(entry.partition for entry in increment.index_entries)
    if increment.overwrite is None:
        wanted = EntryFilter(schema, partitions=frozenset(partitions))
        return ManifestReader(store, wanted).live(manifests, _CHECKED)
    replaced = _replaced_partitions(store, manifests, increment.overwrite)
    if replaced is None:
        return ManifestReader(store).live(manifests)
    wanted = EntryFilter(schema, partitions=frozenset(partitions | replaced))
    return ManifestReader(store, wanted).live(manifests)


def _read_buckets(
    store: TableStore, schema: TableSchema, manifests: Sequence[ManifestFile], increment: Increment
) -> pa.RecordBatch:
    """The files of the buckets that get new ones, and of all buckets of partitions where these have no file yet.

    Files of one partition have the same number of buckets, so any of them is enough.
    """
    partitions = frozenset(b.partition for b in increment.added)
    wanted = EntryFilter(schema, partitions=partitions, buckets=frozenset(b.bucket for b in increment.added))
    found = ManifestReader(store, wanted).live(manifests, RUN_COLUMNS)
    unseen = partitions.difference(found["partition"].unique().to_pylist())
    if not unseen:
        return found
    others = EntryFilter(schema, partitions=unseen)
    rest = ManifestReader(store, others).live(manifests, RUN_COLUMNS)
    return one_batch(pa.Table.from_batches([found, rest]))


def _replaced_partitions(
    store: TableStore, manifests: Sequence[ManifestFile], overwrite: Overwrite
) -> set[bytes] | None:
    """The partitions with files that an overwrite replaces; None for all."""
    if overwrite.partitions is None:
        return None
    entries = ManifestReader(store).entries(manifests, ("partition",))
    return overwrite.replaced(entries["partition"].unique().to_pylist())


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The checks of one increment against the snapshot that it lands on. Each raises CommitConflictError. ``root``: the
    table, for errors. ``bucketed``: the table has fixed buckets: there, a bucket has one file of deletion vectors at
    most."""

    increment: Increment
    root: str
    bucketed: bool

    def check_files(self, live: pa.RecordBatch) -> None:
        """Every file that the commit takes away or builds on must still be there, under the same metadata."""
        for entries in (self.increment.deleted, self.increment.required):
            if entries is None or not entries.num_rows:
                continue
            there = live.filter(pc.is_in(live["file_name"], entries["file_name"]))
            last = dict(zip(identities(there), there["max_sequence_number"].to_pylist(), strict=True))
            names, numbers = entries["file_name"].to_pylist(), _numbers_of_keys(entries)
            for name, identity, number in zip(names, identities(entries), numbers, strict=True):
                if identity not in last or number not in (None, last[identity]):
                    raise self._conflict(f"the data file {name} was removed or changed by another commit meanwhile")

    def check_buckets(self, live: pa.RecordBatch, schema: TableSchema) -> None:
        """New files must have as many buckets as their partition; in a new or overwritten one, as the option says.
        ``schema``: the table's now. Raises CommitError where rescaling would help; another try does not."""
        totals: dict[bytes, int] = {}
        if self.increment.overwrite is None:
            pairs = zip(live["partition"].to_pylist(), live["total_buckets"].to_pylist(), strict=True)
            totals = {partition: total for partition, total in pairs if total > 0}  # others wait for their bucket
        own = int(TableOptions(schema.options).get("bucket"))
        for bucket in self.increment.added:
            number = bucket.total_buckets
            before = totals.get(bucket.partition, own if own > 0 else number)
            if not bucket.files or number <= 0 or before == number:
                continue
            where = partition_directory(schema, bucket.partition)
            what = (
                f"Try to write {f'partition {where}' if where else 'table'} with a new bucket num {number}, "
                f"but the previous bucket num is {before}"
            )
            if own != number:
                raise self._conflict(f"{what}: it was rescaled meanwhile")
            raise CommitError(
                what,
                path=self.root,
                hint=f"rescale it first, by table.maintenance.rescale({number}); nothing was published",
            )

    def check_vectors(
        self, old: Sequence[IndexEntry], live: pa.RecordBatch | None, removed: pa.RecordBatch, added: pa.RecordBatch
    ) -> None:
        """The deletion vectors are those that the commit was made from, and new ones are of data files that are there.

        Args:
            old: the index manifest of the snapshot that the commit lands on.
            live: its data files.
            removed: entries of the data files that the commit takes away, without those that come back.
            added: entries of those that come.
        """
        expected = self.increment.expected_vectors
        places = vector_places(old) if expected else {}
        for name, place in expected.items():
            if places.get(name) != place:
                raise self._conflict(f"rows of the data file {name} were deleted by another commit meanwhile")
        unchecked = set(vector_places(self.increment.index_entries))
        if self.increment.required is not None and self.increment.overwrite is None:
            unchecked.difference_update(self.increment.required["file_name"].to_pylist())
        if not unchecked:
            return
        names = array(sorted(unchecked), pa.string())
        there = pc.is_in(names, added["file_name"])
        if live is not None:
            kept = pc.and_not(pc.is_in(names, live["file_name"]), pc.is_in(names, removed["file_name"]))
            there = pc.or_(there, kept)
        missing = names.filter(pc.invert(there))
        if len(missing):
            raise self._conflict(
                f"the data file {missing[0]} was removed by another commit meanwhile: it can't get a deletion vector"
            )

    def next_index_entries(
        self, old: Sequence[IndexEntry], live: pa.RecordBatch | None, removed: pa.RecordBatch, added: pa.RecordBatch
    ) -> list[IndexEntry] | None:
        """The entries of the next index manifest; None when they are the old ones.

        Index files that the increment replaces go, as do those of overwritten partitions and those whose last live data
        file the commit takes away. One that also has vectors of live files must be among those that are replaced: Java
        Paimon writes no more to a table with a vector whose data file is gone. Global indexes go when rows of their
        partition are rewritten: they would answer with the values that rows had, and their readers look for row ids
        where these count from the first row of a file.

        Args:
            old: the entries of the snapshot that the commit lands on.
            live: the live data files of that snapshot; may be None when the commit takes none away.
            removed: entries of the data files that the commit takes away, without those that come back.
            added: entries of the data files that it adds.

        Raises:
            CommitConflictError: an index file to replace is gone, or a data file would get a second vector.
            ValueError: an index file would keep the vector of a data file that goes.
        """
        replaced, fresh = self.increment.replaced_index_files, self.increment.index_entries
        if self.increment.overwrite is None and self.increment.hash_files:
            check_hash_files(old, self.increment.hash_files, self.root)
        missing = replaced - {entry.file_name for entry in old}
        if missing:
            raise self._conflict(f"the index file {min(missing)} was replaced by another commit meanwhile")
        overwrite = self.increment.overwrite
        partitions = set() if overwrite is None else overwrite.replaced(list({entry.partition for entry in old}))
        kept = [entry for entry in old if entry.file_name not in replaced and entry.partition not in partitions]
        unused = _without_live_files(kept, set(removed["file_name"].to_pylist()), live)
        rewritten = _rewritten_partitions(added) if any(entry.global_index for entry in kept) else set()
        kept = [
            entry
            for entry in kept
            if entry.file_name not in unused and not (entry.global_index and entry.partition in rewritten)
        ]
        self._check_added(kept)
        return None if len(kept) == len(old) and not fresh else [*kept, *fresh]

    def _check_added(self, kept: Sequence[IndexEntry]) -> None:
        """Refuse new vectors for data files whose existing vectors stay."""
        added = [e for e in self.increment.index_entries if e.index_type == DELETION_VECTORS]
        vectors = [e for e in kept if e.index_type == DELETION_VECTORS] if added else []
        doubled = vector_places(added).keys() & vector_places(vectors).keys()
        if doubled:
            raise self._conflict(f"rows of the data file {min(doubled)} were deleted by another commit meanwhile")
        if self.bucketed:
            taken = {(e.partition, e.bucket) for e in vectors}
            for entry in added:
                if (entry.partition, entry.bucket) in taken:
                    raise self._conflict(f"rows of bucket {entry.bucket} were deleted by another commit meanwhile")

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(what, path=self.root, hint="run the operation again on the latest snapshot")


def _numbers_of_keys(entries: pa.RecordBatch) -> list[int | None]:
    """The last sequence number of each file of a table with a primary key, where it is a column; else None.

    A commit may have moved them up, and what was made of the rows before has the old ones.
    """
    if "min_key" not in entries.schema.names or entries["min_key"][0].as_py() == EMPTY_ROW:
        return [None] * entries.num_rows
    numbers: list[int | None] = entries["max_sequence_number"].to_pylist()
    return numbers


def _rewritten_partitions(added: pa.RecordBatch) -> set[bytes]:
    """Where rows are written again, with their row ids in a column: the first row id of their files is null."""
    return set(added["partition"].filter(pc.is_null(added["first_row_id"])).to_pylist())


def _without_live_files(entries: Sequence[IndexEntry], gone: set[str], live: pa.RecordBatch | None) -> set[str]:
    """The index files that have vectors only of data files that go."""
    vectors = {e.file_name: {r.data_file for r in e.deletion_ranges or ()} for e in entries}
    touched = {name: files for name, files in vectors.items() if not files.isdisjoint(gone)}
    if not touched or live is None:
        return set(touched)
    files = array(sorted(set().union(*touched.values()) - gone), pa.string())
    stay = set(files.filter(pc.is_in(files, live["file_name"])).to_pylist())
    for name, held in touched.items():
        if not held.isdisjoint(stay):
            raise ValueError(f"the index file {name} would keep the vector of a data file that goes: replace it")
    return set(touched)
