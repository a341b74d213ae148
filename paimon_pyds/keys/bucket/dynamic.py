"""Dynamic buckets (``bucket=-1`` with a primary key that has all partition columns).

A key stays where it was put first, new keys fill buckets up to ``dynamic-bucket.target-row-num``.

Hash index files have the bucket of each key. The bucket of a new key depends on the writers that work at the same time:

- An assigner that sees all rows of its keys fills one bucket after another, as Java does: the only writer of a job, or
  one of several (`KeyShare`) among which rows were spread by `assigner_of`. Each has buckets of its own.
- Tasks that may see any key go by the hash index alone, which is the same for all of them: the hash of a new key picks
  one of the buckets with room, each as often as it has room. So a key has one bucket, whoever sees it. How many keys a
  job adds is not known then, and its buckets may grow beyond the target.

(Source: Java Paimon's classes HashBucketAssigner, PartitionIndex and BucketAssigner.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import EMPTY_ROW, hash_row, hash_rows
from paimon_pyds.errors import OptionError, SnapshotNotFoundError
from paimon_pyds.keys.bucket.assigner import BucketAssigner, PartitionedRows
from paimon_pyds.keys.bucket.capacity import BucketCapacity, BucketLimits
from paimon_pyds.keys.bucket.hash_index import Hashes, HashIndex
from paimon_pyds.keys.bucket.key_buckets import KeyBuckets
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema

_KEYS_PER_NEW_KEY = 4
"""Tasks that may see any key get room for one more key per this number of keys that a partition has."""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """The keys of one assigner out of several: no other one of the job sees a row of them. ``channel``: which assigner,
    from 0. ``channels``: how many there are in the job."""

    channel: int = 0
    channels: int = 1


def assigner_channels(options: TableOptions, parallelism: int = 1) -> int:
    """How many assigners a job has: as the table's options say, else one for each of its ``parallelism`` tasks."""
    given = [options.get(f"dynamic-bucket.{name}") for name in ("assigner-parallelism", "initial-buckets")]
    return max((int(number) for number in given if number is not None), default=parallelism)


def assigner_of(
    schema: TableSchema, options: TableOptions, rows: pa.RecordBatch, channels: int
) -> npt.NDArray[np.int32]:
    """Which of a job's assigners has the key of each row, from 0.

    ``options``: the table's, the write's own on top. ``rows``: with the columns of the primary key, of the table's
    types. ``channels``: how many assigners there are.
    """

    def hashes(names: Sequence[str]) -> Hashes:
        return hash_rows([rows.column(name) for name in names], [schema.field(name).type for name in names])

    keys = hashes(schema.trimmed_primary_keys)
    partitions = hashes(schema.partition_keys) if schema.partition_keys else _one_hash(EMPTY_ROW)
    return _channels_of(partitions, keys, channels, _assigners(options, channels))


def _one_hash(partition: bytes) -> Hashes:
    return np.array([hash_row(partition)], np.int32)


def _channels_of(partitions: Hashes, keys: Hashes, channels: int, assigners: int) -> npt.NDArray[np.int32]:
    start = np.abs(partitions.astype(np.int64)) % channels
    return np.asarray((start + np.abs(keys.astype(np.int64)) % assigners) % channels, np.int32)


def _assigners(options: TableOptions, channels: int) -> int:
    """How many assigners share the keys of a partition, each with its own buckets."""
    count = min(int(options.get("dynamic-bucket.initial-buckets") or channels), channels)
    most = int(options.get("dynamic-bucket.max-buckets"))
    return max(1, count if most == -1 else min(count, most))


class IndexedBuckets(BucketAssigner):
    """Dynamic buckets as a writer fills them. ``index`` is the hash index of the snapshot that the write goes by; empty
    for an overwrite."""

    one_bucket = False

    def __init__(self, schema: TableSchema, index: HashIndex) -> None:
        self._keys = schema.trimmed_primary_keys
        self._types = [schema.field(name).type for name in self._keys]
        self._index = index

    def total_buckets(self, partition: bytes) -> int:
        return -1

    @abstractmethod
    def new_hashes(self) -> Iterator[tuple[PartitionBucket, Hashes]]:
        """The hashes of keys that were not in the hash index, bucket by bucket, ascending; they are forgotten then."""

    def write_hashes(
        self, buckets: Collection[PartitionBucket], written: list[str]
    ) -> Mapping[PartitionBucket, tuple[frozenset[str], IndexEntry | None, str]]:
        """Write the hashes of keys that are new in some buckets, a file for each.

        ``buckets``: those that rows were written to. ``written``: gets the paths of the files.

        Returns:
            for each bucket the names of the partition's files that said where keys are, and the new file with its path;
            None and "" for none.
        """
        files = {key.partition: self._index.files(key.partition) for key in buckets}
        found_in = {partition: frozenset(e.file_name for e in entries) for partition, entries in files.items()}
        added = {key: self._index.write(key, [new], written) for key, new in self.new_hashes() if key in buckets}
        return {key: (found_in[key.partition], *added.get(key, (None, ""))) for key in buckets}

    def _hashes(self, rows: pa.RecordBatch) -> Hashes:
        return hash_rows([rows.column(name) for name in self._keys], self._types)


class DynamicBuckets(IndexedBuckets):
    """Assigns rows to dynamic buckets; a `paimon_pyds.keys.bucket.BucketAssigner`.

    ``options``: the table's, the write's own on top. ``index``: the hash index of the snapshot that the write goes by;
    empty for an overwrite. ``share``: which keys the assigner has, and nobody else; None where others may see the same.
    ``alone``: no other task of the job has to go by the same hash index, so that a partition whose files have expired
    may go by those of the newest snapshot.
    Raises OptionError: a target or a number of buckets that no table can have.
    """

    def __init__(
        self,
        schema: TableSchema,
        options: TableOptions,
        index: HashIndex,
        share: KeyShare | None,
        *,
        alone: bool = False,
    ) -> None:
        super().__init__(schema, index)
        self._alone = alone
        self._rules = _Rules.of(options, share)
        self._partitions: dict[bytes, _Partition] = {}

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        """See `BucketAssigner`.

        Raises:
            OptionError: all buckets that a partition may have are full; or a row of a key of another assigner.
            CorruptFileError, SnapshotNotFoundError, StorageError: a hash index file can't be read.
        """
        hashes = self._hashes(batch.rows)
        if len(batch.partitions) == 1:
            return self._partition(batch.partitions[0]).assign(hashes)
        out = np.empty(len(hashes), np.int32)
        order = np.argsort(batch.codes, kind="stable")
        ends = np.searchsorted(batch.codes[order], np.arange(len(batch.partitions)), side="right").tolist()
        start = 0
        for partition, end in zip(batch.partitions, ends, strict=True):
            mine = order[start:end]
            out[mine] = self._partition(partition).assign(hashes[mine])
            start = end
        return out

    def new_hashes(self) -> Iterator[tuple[PartitionBucket, Hashes]]:
        for partition, keys in self._partitions.items():
            for bucket, hashes in keys.added.by_bucket():
                yield PartitionBucket(partition, bucket), hashes

    def _partition(self, partition: bytes) -> _Partition:
        while (found := self._partitions.get(partition)) is None:
            try:
                self._partitions[partition] = _Partition(partition, self._index, self._rules)
            except SnapshotNotFoundError:
                newest = self._index.renewed(partition) if self._alone else self._index
                if newest.files(partition) == self._index.files(partition):
                    raise
                self._index = newest
        return found


class AssignedBuckets(IndexedBuckets):
    """Dynamic buckets that rows bring along, as `DynamicBuckets` in other tasks found them; a `BucketAssigner`.
    ``index``: the hash index that these went by. ``column``: has the bucket of each row."""

    def __init__(self, schema: TableSchema, index: HashIndex, column: str) -> None:
        super().__init__(schema, index)
        self._column = column
        self._known: dict[PartitionBucket, KeyBuckets] = {}
        self._added: dict[PartitionBucket, KeyBuckets] = {}

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        """See `BucketAssigner`. Raises CorruptFileError or StorageError where a hash index file can't be read."""
        buckets = to_numpy(batch.rows.column(self._column))
        hashes = self._hashes(batch.rows)
        order = np.lexsort((hashes, buckets, batch.codes))
        sorted_codes, sorted_buckets = batch.codes[order], buckets[order]
        edges = np.flatnonzero(np.diff(sorted_codes) | np.diff(sorted_buckets)) + 1
        for start, stop in pairwise([0, *edges.tolist(), len(order)]):
            bucket = PartitionBucket(batch.partitions[sorted_codes[start]], int(sorted_buckets[start]))
            self._add(bucket, np.unique(hashes[order[start:stop]]))
        return np.asarray(buckets, np.int32)

    def new_hashes(self) -> Iterator[tuple[PartitionBucket, Hashes]]:
        for key, added in self._added.items():
            for _, hashes in added.by_bucket():
                yield key, hashes

    def _add(self, key: PartitionBucket, hashes: Hashes) -> None:
        known = self._known.get(key)
        if known is None:
            files = [entry for entry in self._index.files(key.partition) if entry.bucket == key.bucket]
            readers = [(0, partial(self._index.read, entry)) for entry in files]
            known = KeyBuckets.of(readers, sum(entry.row_count for entry in files))
            self._known[key], self._added[key] = known, KeyBuckets()
        added = self._added[key]
        new = hashes[(known.find(hashes) < 0) & (added.find(hashes) < 0)]
        added.add(new, np.zeros(len(new), np.int32))


@dataclass(frozen=True, slots=True)
class _Rules:
    """What the options say; ``limits`` are of buckets, ``share`` is that of `DynamicBuckets`."""

    limits: BucketLimits
    assigners: int
    share: KeyShare | None

    @classmethod
    def of(cls, options: TableOptions, share: KeyShare | None) -> _Rules:
        side_by_side = share is not None and share.channels > 1
        channels = share.channels if share is not None and side_by_side else assigner_channels(options)
        return cls(BucketLimits.of(options), _assigners(options, channels), share)


class _Partition:
    """The keys of one partition."""

    def __init__(self, partition: bytes, index: HashIndex, rules: _Rules) -> None:
        self._rules = rules
        self._hash = _one_hash(partition)
        files = index.files(partition)
        counts = {entry.bucket: entry.row_count for entry in files}
        readers = [(entry.bucket, partial(self._read, index, entry)) for entry in files]
        self._known = KeyBuckets.of(readers, sum(counts.values()))
        self.added = KeyBuckets()
        self._capacity = BucketCapacity(rules.limits, counts)
        self._open: tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]] | None = None
        if rules.share is None:
            buckets, free_keys = self._capacity.opened(
                max(1, sum(counts.values()) // _KEYS_PER_NEW_KEY), rules.assigners
            )
            ends = np.cumsum(free_keys, dtype=np.float64)
            self._open = buckets, ends / ends[-1] * 2**32

    def assign(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        distinct, places = np.unique(hashes, return_inverse=True)
        if len(self._mine(distinct)) < len(distinct):
            raise OptionError("a row has a key of another assigner", hint="spread rows by assigner_of")
        buckets = self._known.find(distinct)
        unknown = np.flatnonzero(buckets < 0)
        buckets[unknown] = self.added.find(distinct[unknown])
        new = unknown[buckets[unknown] < 0]
        places = places.reshape(-1)
        if len(new):
            keys = distinct[new]
            if self._open is None:
                first = np.empty(len(distinct), np.int64)
                first[places[::-1]] = np.arange(len(places))[::-1]
                buckets[new] = self._fill(keys, first[new])
            else:
                buckets[new] = self._pick(keys, *self._open)
            self.added.add(keys, buckets[new])
        return np.asarray(buckets[places])

    def _read(self, index: HashIndex, entry: IndexEntry) -> Hashes:
        return self._mine(index.read(entry))

    def _mine(self, hashes: Hashes) -> Hashes:
        share = self._rules.share
        if share is None or share.channels == 1:
            return hashes
        mine: Hashes = hashes[_channels_of(self._hash, hashes, share.channels, self._rules.assigners) == share.channel]
        return mine

    def _fill(self, keys: Hashes, ages: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Buckets for new keys: each assigner of the partition fills its own, one after the other, as keys come."""
        count = self._rules.assigners
        assigners = np.abs(keys.astype(np.int64)) % count
        out = np.empty(len(keys), np.int32)
        for number in np.unique(assigners).tolist():
            mine = np.flatnonzero(assigners == number)
            given = self._capacity.give(len(mine), number, count)
            if (given != given[0]).any():
                mine = mine[np.argsort(ages[mine])]
            out[mine] = given
        return out

    def _pick(
        self, keys: Hashes, buckets: npt.NDArray[np.int32], ends: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int32]:
        places = np.searchsorted(ends, keys.view(np.uint32).astype(np.float64), side="right")
        return np.asarray(buckets[np.minimum(places, len(buckets) - 1)])
