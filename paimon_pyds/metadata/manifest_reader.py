"""The one reader of manifests: the lists of a snapshot, pruned by partition and bucket, and their entries.

Source: Paimon documentation, concepts/spec/manifest.

Whatever reads entries passes here, so that each manifest is compared with what its list says of it. `EntryFilter` says
which entries are wanted; `RowStatistics` gives the statistics of manifests and files to the evaluator of predicates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Flags,
    array,
    from_numpy,
    in_large_chunks,
    is_true,
    one_array,
    one_batch,
    pc,
    scalar,
    to_numpy,
    valid_mask,
)
from paimon_pyds.base.progress import counted, current
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import DecodedColumn, columns_of
from paimon_pyds.base.types import DataType, scalar_to_internal
from paimon_pyds.base.types.kinds import FLOAT_KINDS, UNORDERED_KINDS, Kind
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.manifest import (
    ENTRY_SCHEMA,
    IDENTITY_COLUMNS,
    FileKind,
    ManifestFile,
    entry_schema,
    live_entries,
)
from paimon_pyds.metadata.manifest_store import MIN_CACHED_BYTES
from paimon_pyds.metadata.partition import partition_mask, partition_values
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.prune import ColumnStats, may_match
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and, make_or
from paimon_pyds.storage import requests_at_once

if TYPE_CHECKING:
    from paimon_pyds.metadata.lazy_entries import KeepEntries, LazyEntries

_T = TypeVar("_T")
_PARALLEL_READS = 8
_PARALLEL_BYTES = 1 << 20
"""Number of manifests, or bytes of all of them, from which they are read in parallel; and the least number of parallel
reads."""
MANY_MANIFEST_BYTES = 16 << 20
"""Total size of manifests from which on plans don't cache them in memory, and filter them one after the other: decoded,
they would fill most of the cache of metadata."""
_BYTES_AT_ONCE = 128 << 20
"""Approximate bytes of manifests that are requested from a store at once."""
LARGE_BYTES = 1 << 20
"""Total size of manifests from which on the first filter of a process decodes what it looks at only: decoding and
holding all for a next one takes twice as long."""
_LOCAL_BYTES = 16 << 20
"""Bytes of manifests on local disks that are decoded at a time by more threads than there are cores."""
_MANY_ENTRIES = 100_000
"""Entries from which on memory that Arrow no longer needs is given back before files and splits are made of them: of a
million, a fifth of the peak."""


class ManifestReader:
    """Reads what manifests say of some partitions and buckets of a table.

    Every method raises SnapshotNotFoundError for a file that is gone, and CorruptFileError for one that is damaged.

    ``wanted``: selects entries; all if None. ``on_disk``: cache the entries of large manifests on disk, for the
    next process that plans.
    """

    def __init__(self, store: TableStore, wanted: EntryFilter | None = None, *, on_disk: bool = False) -> None:
        self._store = store
        self._on_disk = on_disk
        self._wanted = None if wanted is None or wanted.keeps_all else wanted

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot, those of its base first; none for None."""
        if snapshot is None:
            return []
        return [*self.listed(snapshot.base_manifest_list, snapshot.base_manifest_list_size), *self.delta(snapshot)]

    def delta(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of what a snapshot changed."""
        return self.listed(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def changelog(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of a snapshot's changelog files; none where it has no changelog."""
        if snapshot.changelog_manifest_list is None:
            return []
        return self.listed(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)

    def listed(self, name: str, size: int | None = None) -> list[ManifestFile]:
        """The manifests of a manifest list; ``size`` in bytes is what names it says of it."""
        return list(self._store.read_manifest_list(name, size))

    def entries(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.Table:
        """The entries of some manifests, in order, ADDs and DELETEs, with these columns of `ENTRY_SCHEMA` (all when
        None); manifests without a wanted one stay closed."""
        return self._entries(self._relevant(manifests), None if columns is None else frozenset(columns))

    def each(self, manifests: Sequence[ManifestFile], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The entries of each manifest, of all partitions; for callers that read each once
        (`TableStore.read_manifests`)."""
        batches = self._store.read_manifests(((m.file_name, m.file_size) for m in manifests), columns)
        return map(self._checked, manifests, batches)

    def _relevant(self, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        return manifests if self._wanted is None else self._wanted.may_hold(manifests)

    def _entries(self, manifests: Sequence[ManifestFile], returned: frozenset[str] | None) -> pa.Table:
        read = returned if returned is None or self._wanted is None else returned.union(self._wanted.columns)
        schema = entry_schema(read)
        names = None if read is None else schema.names
        batches = self._batches(manifests, names)
        if current.get() is not None:
            batches = counted(batches, manifests=len(manifests))
        entries = in_large_chunks(pa.Table.from_batches([b for b in batches if b.num_rows], schema))
        if self._wanted is not None:
            entries = pc.filter(entries, from_numpy(self._wanted.mask(entries)))
        return entries if read == returned else entries.select(entry_schema(returned).names)

    def _batches(self, manifests: Sequence[ManifestFile], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The entries of each manifest, in order. Many, or large ones, that are not in memory are read side by side, as
        are all of a store."""
        if self._on_disk and is_much(manifests):
            names = ENTRY_SCHEMA.names if columns is None else columns
            yield from self.each_decoded(manifests, lambda manifest: self.sift(manifest, names, _all))
            return
        held = [self._store.held_manifest(m.file_name, columns, m.file_size) for m in manifests]
        rest = [manifest for manifest, entries in zip(manifests, held, strict=True) if entries is None]
        large = [m.file_size for m in rest if m.file_size >= MIN_CACHED_BYTES]
        much = len(large) > 1 and sum(large) >= _PARALLEL_BYTES
        few = not much and len(rest) < _PARALLEL_READS and not requests_at_once(self._store.io)
        places = [(m.file_name, m.file_size) for m in rest]
        found = self._store.load_manifests(places, columns, 1 if few else self._threads(rest), on_disk=self._on_disk)
        for manifest, entries in zip(manifests, held, strict=True):
            yield self._checked(manifest, next(found) if entries is None else entries)

    def each_decoded(self, manifests: Sequence[ManifestFile], decode: Callable[[ManifestFile], _T]) -> Iterator[_T]:
        """What ``decode`` makes of each manifest, in order; several are decoded at a time, on threads."""
        from paimon_pyds.storage.concurrent import concurrent_map

        return concurrent_map(decode, manifests, self._threads(manifests))

    def _threads(self, manifests: Sequence[ManifestFile]) -> int:
        """How many threads read some manifests, and decode them in turns."""
        at_once = requests_at_once(self._store.io)
        size = sum(m.file_size for m in manifests) // max(1, len(manifests))
        if at_once:
            return max(_PARALLEL_READS, min(at_once, _BYTES_AT_ONCE // max(1, size)))
        return min(_PARALLEL_READS, max(os.cpu_count() or 1, _LOCAL_BYTES // max(1, size)))

    def sift(self, manifest: ManifestFile, columns: Sequence[str], keep: KeepEntries) -> pa.RecordBatch:
        """The entries of a manifest that ``keep`` wants, as `TableStore.sift_manifest` gives them."""
        seen = 0

        def counted(entries: pa.RecordBatch) -> Flags:
            nonlocal seen
            seen += entries.num_rows
            return keep(entries)

        found = self._store.sift_manifest(
            manifest.file_name, columns, manifest.file_size, counted, on_disk=self._on_disk
        )
        self._check_count(manifest, seen)
        return found

    def live(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The entries of the files that are there after all these manifests (`live_entries`).

        What identifies a file is read only where an entry deletes one. Arguments as those of `entries`.
        """
        returned = None if columns is None else frozenset(columns)
        read = None if returned is None else returned.union(("kind",))
        identified = None if read is None else read.union(IDENTITY_COLUMNS)
        manifests = self._relevant(manifests)
        if any(m.num_deleted_files for m in manifests):
            read = identified
        entries = self._entries(manifests, read)
        if any((to_numpy(kinds) == FileKind.DELETE).any() for kinds in entries["kind"].chunks):
            if read != identified:  # they are not counted by their list
                entries = self._entries(manifests, read := identified)
            entries = live_entries([entries])
        schema = entry_schema(returned)
        parts = entries.select(schema.names).columns
        del entries
        for number, column in enumerate(parts):
            parts[number] = one_array(column)  # which frees its parts: of a million files all take as much again
        if parts and len(parts[0]) >= _MANY_ENTRIES:
            pa.default_memory_pool().release_unused()
        return pa.RecordBatch.from_arrays(parts, schema=schema)

    def live_files(self, snapshot: Snapshot | None, columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The entries of a snapshot's files; none for a table that was never written."""
        return self.live(self.manifests(snapshot), columns)

    def added(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The ADDs among the entries of some manifests. Arguments as those of `entries`."""
        returned = None if columns is None else frozenset(columns)
        entries = self.entries(manifests, None if returned is None else returned.union(("kind",)))
        added = pc.filter(entries, pc.equal(entries["kind"], scalar(FileKind.ADD, pa.int8())))
        return one_batch(added.select(entry_schema(returned).names))

    def adds_rows_only(self, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Whether the files that a snapshot added have rows that an earlier one, ``base``, does not have, and no
        columns of those that it has: in a table with row ids."""
        first = self.added(self.delta(snapshot), ("first_row_id",))["first_row_id"]
        known = (None if base is None else base.next_row_id) or 0
        return not first.null_count and all(row_id >= known for row_id in first.to_pylist())

    def is_first_look(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether this process has not looked at these manifests before, which are large. Noted, so that once only."""
        if sum(m.file_size for m in manifests if m.file_size >= MIN_CACHED_BYTES) < LARGE_BYTES:
            return False  # small ones are decoded together, which sifting them does not do
        looks = [self._store.looked_at(m.file_name, m.file_size) for m in manifests]  # each is noted
        return not all(looks)

    def _checked(self, manifest: ManifestFile, entries: pa.RecordBatch) -> pa.RecordBatch:
        self._check_count(manifest, entries.num_rows)
        return entries

    def _check_count(self, manifest: ManifestFile, count: int) -> None:
        listed = manifest.num_added_files + manifest.num_deleted_files
        if count != listed:
            path = self._store.paths.manifest(manifest.file_name)
            raise CorruptFileError(f"the file has {count} entries, its manifest list says {listed}", path=path)


def is_much(manifests: Iterable[ManifestFile]) -> bool:
    """Whether plans don't hold these manifests in memory."""
    return sum(manifest.file_size for manifest in manifests) > MANY_MANIFEST_BYTES


def _all(entries: pa.RecordBatch | LazyEntries) -> Flags:
    return np.ones(entries.num_rows, np.bool_)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Entries of some partitions and buckets.

    Attributes:
        schema: of the table.
        predicate: bound, on partition columns only.
        partitions: rows of partitions (arity + BinaryRow), instead of the predicate; None for those it keeps.
        buckets: buckets of these partitions; None for all.
    """

    schema: TableSchema
    predicate: Predicate = Const.TRUE
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether no entry is left out."""
        return self.predicate is Const.TRUE and self.partitions is None and self.buckets is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of entries that `mask` looks at."""
        if self.keeps_all:
            return ()
        return ("partition",) if self.buckets is None else ("partition", "bucket")

    def may_hold(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests that may hold such entries."""
        if self.keeps_all or not manifests:
            return list(manifests)
        if self.partitions is not None and not self.partitions:
            return []
        keep = self._by_partition(manifests)
        return [m for m, k in zip(manifests, keep.tolist(), strict=True) if k and self._may_hold_buckets(m)]

    def mask(self, entries: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        """Which entries are wanted; they have `columns`."""
        keep = np.ones(entries.num_rows, np.bool_)
        if self.partitions is not None:
            wanted = array(sorted(self.partitions), pa.binary())
            keep &= is_true(pc.is_in(one_array(entries.column("partition")), wanted))
        elif self.predicate is not Const.TRUE:
            keep &= self.matching_partitions(entries)[0]
        if self.buckets is not None:
            keep &= np.isin(to_numpy(one_array(entries.column("bucket"))), list(self.buckets))
        return keep

    def matching_partitions(self, entries: pa.RecordBatch | pa.Table) -> tuple[npt.NDArray[np.bool_], int, int]:
        """A mask of the entries in matching partitions, the number of these partitions, and the number of all."""
        coded = pc.dictionary_encode(one_array(entries.column("partition")))
        wanted = partition_mask(self.schema, self.predicate, coded.dictionary)
        return wanted[to_numpy(coded.indices)], int(wanted.sum()), len(wanted)

    def _by_partition(self, manifests: Sequence[ManifestFile]) -> npt.NDArray[np.bool_]:
        predicate = self.predicate if self.partitions is None else self._condition_around(self.partitions)
        if predicate is Const.TRUE:
            return np.ones(len(manifests), np.bool_)
        stats = RowStatistics(
            names=list(self.schema.partition_keys),
            types=[f.type for f in self.schema.partition_fields],
            minimum=array([m.partition_stats.min_values for m in manifests], pa.binary()),
            maximum=array([m.partition_stats.max_values for m in manifests], pa.binary()),
            null_counts=array([m.partition_stats.null_counts for m in manifests], pa.list_(pa.int64())),
            row_counts=array([m.num_added_files + m.num_deleted_files for m in manifests], pa.int64()),
            exact_strings=True,
        )
        return may_match(predicate, stats.row_counts, stats.of)

    def _condition_around(self, partitions: Iterable[bytes]) -> Predicate:
        """A condition that holds for these partitions: each column has one of their values.

        Columns of floats are left out: filters may treat values as equal that are different partitions.
        """
        values = partition_values(self.schema.partition_fields, array(sorted(partitions), pa.binary()))
        parts: list[Predicate] = []
        for field, column in zip(self.schema.partition_fields, values.columns, strict=True):
            if field.type.kind in FLOAT_KINDS:
                continue
            ref = ColumnRef(field.name, (), field.type, field.id)
            distinct = column.drop_null().unique()
            literals = tuple(scalar_to_internal(v) for v in distinct.take(pc.array_sort_indices(distinct)))
            among: Predicate = Leaf(Op.IN, ref, literals) if literals else Const.FALSE
            parts.append(make_or(among, Leaf(Op.IS_NULL, ref)) if column.null_count else among)
        return make_and(*parts)

    def _may_hold_buckets(self, manifest: ManifestFile) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        if self.buckets is None or low is None or high is None:
            return True
        return any(low <= bucket <= high for bucket in self.buckets)


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics rows of many files over the same columns.

    ``minimum`` and ``maximum`` are arity + BinaryRow; ``null_counts`` one list per file, or null; ``row_counts`` int64.
    ``nan_counted``: gives where bounds of floats count NaN as the greatest value.
    """

    names: Sequence[str]
    types: Sequence[DataType]
    minimum: pa.BinaryArray
    maximum: pa.BinaryArray
    null_counts: pa.ListArray
    row_counts: pa.Int64Array
    exact_strings: bool = False
    nan_counted: Callable[[], bool | npt.NDArray[np.bool_]] = lambda: True
    _decoded: list[Callable[[int], DecodedColumn]] = dataclass_field(default_factory=list)

    def _ends(self) -> list[Callable[[int], DecodedColumn]]:
        """What gives least and greatest values of a column; many may be wanted."""
        if not self._decoded:
            self._decoded[:] = [columns_of(rows, self.types, arity=True) for rows in (self.minimum, self.maximum)]
        return self._decoded

    def of(self, column: ColumnRef) -> ColumnStats | None:
        """The statistics of one column; None when the files have none for it."""
        if column.path or column.name not in self.names:
            return None
        i = self.names.index(column.name)
        nulls = _element(self.null_counts, i)
        if self.types[i].kind in UNORDERED_KINDS:  # never has bounds, but may have its NULLs counted
            none = pa.nulls(len(self.row_counts))
            return ColumnStats(min=none, max=none, null_count=nulls, row_count=self.row_counts)
        low, high = (decoded(i) for decoded in self._ends())
        unknown = _either(low.unknown, high.unknown)
        if unknown is not None and self.types[i].kind is Kind.DECIMAL:
            # Readers of Avro have NULL for such values, which nobody counted.
            nulls = pc.if_else(from_numpy(~unknown), nulls, scalar(None, pa.int64()))
        return ColumnStats(
            min=unpadded(low.values) if self.types[i].kind is Kind.CHAR else low.values,
            max=high.values,
            null_count=nulls,
            row_count=self.row_counts,
            unknown=unknown,
            exact=self.exact_strings,
            nan_counted=self.nan_counted() if self.types[i].kind in FLOAT_KINDS else True,
        )


def unpadded(minimum: pa.Array) -> pa.Array:
    """A lower bound of CHAR values from that of Java's ORC files, where blanks fill them up and readers take these off.

    So it can be greater than a value that is read (``'h   '`` and ``'h'``), and hide a shorter one before a character
    that sorts before the blank.
    """
    return pc.utf8_rtrim(pc.replace_substring_regex(minimum, r"(?s)[\x00-\x1f].*", ""), " ")


def _either(a: npt.NDArray[np.bool_] | None, b: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _element(lists: pa.ListArray, i: int) -> pa.Int64Array:
    """The i-th element of every list; null where the list is null or shorter."""
    bounds = to_numpy(lists.offsets)
    present = np.diff(bounds) > i
    valid = valid_mask(lists)
    if valid is not None:
        present &= valid
    at = np.where(present, bounds[:-1] + i, 0)
    if not len(lists.values):
        return pa.nulls(len(lists), pa.int64())
    found = pc.take(lists.values, from_numpy(at))
    return found if present.all() else pc.if_else(from_numpy(present), found, scalar(None, pa.int64()))
