"""Bucket assigners: which bucket of its partition each row of a write goes to.

How the rows of a bucket are written is not decided here: see `paimon_pyds.engine.write.bucket_writer`.
(Specification: Paimon documentation, concepts/data-distribution.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.bucket.functions import bucket_of
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.schema import TableSchema


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    """Rows and the partition of each: ``partitions[codes[i]]`` (arity + BinaryRow) is that of row i."""

    rows: pa.RecordBatch
    partitions: Sequence[bytes]
    codes: npt.NDArray[np.int64]


class BucketAssigner(Protocol):
    """Assigns rows to buckets."""

    one_bucket: bool
    """Whether all rows of a partition go to bucket 0."""

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        """The bucket of every row."""

    def total_buckets(self, partition: bytes) -> int:
        """How many buckets the manifest says that the partition has; -1 where rows go to no bucket of their own."""


class UnawareBucket(BucketAssigner):
    """Tables without buckets (``bucket=-1``): any row may go to any file."""

    one_bucket = True

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        return np.zeros(batch.rows.num_rows, np.int32)

    def total_buckets(self, partition: bytes) -> int:
        return -1


Known: TypeAlias = Callable[[bytes], "int | None"]
"""How many buckets a partition has; None for none yet."""


class FixedBuckets(BucketAssigner):
    """A fixed number of buckets: a function of the row's bucket key decides. The option ``bucket`` is the number of new
    partitions; those that have files keep theirs, ``known``, until they are rescaled."""

    def __init__(self, schema: TableSchema, options: TableOptions, known: Known) -> None:
        self._count = int(options.get("bucket"))
        self._keys = schema.bucket_keys
        self._types = [schema.field(name).type for name in self._keys]
        self._function = str(options.get("bucket-function.type"))
        self._known = known
        self._totals: dict[bytes, int] = {}
        self.one_bucket = not self._keys

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        buckets = np.zeros(batch.rows.num_rows, np.int32)
        if self.one_bucket:
            return buckets
        totals = np.array([self.total_buckets(partition) for partition in batch.partitions])
        columns = [batch.rows.column(name) for name in self._keys]
        if (totals == totals[0]).all() and totals[0] > 0:
            return bucket_of(columns, self._types, int(totals[0]), self._function)
        totals = totals[batch.codes]
        buckets[totals < 0] = POSTPONE_BUCKET
        for total in np.unique(totals[totals > 0]).tolist():
            here = array(np.flatnonzero(totals == total))
            buckets[to_numpy(here)] = bucket_of([c.take(here) for c in columns], self._types, total, self._function)
        return buckets

    def total_buckets(self, partition: bytes) -> int:
        if partition not in self._totals:
            self._totals[partition] = self._known(partition) or self._count
        return self._totals[partition]


class PlacedRows(BucketAssigner):
    """Tables whose key may be in any partition: rows have to come with their partition and their bucket, in ``column``;
    None where no column has it."""

    one_bucket = False

    def __init__(self, column: str | None) -> None:
        self._column = column

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        """See `BucketAssigner`. Raises UnsupportedError without a column: a writer does not know where keys are."""
        if self._column is None:
            raise UnsupportedError(
                "the primary key does not hold all partition columns: a write may have to delete the key's row in "
                "another partition, and a single writer can't find it",
                hint="write by Table.append, or by paimon_pyds.spark.write(df, path)",
            )
        return to_numpy(batch.rows.column(self._column)).astype(np.int32)

    def total_buckets(self, partition: bytes) -> int:
        return -1


class OneBucket(BucketAssigner):
    """Rows that all belong to one bucket of the ``total_buckets`` of their partition, such as new versions of rows."""

    one_bucket = False

    def __init__(self, bucket: int, total_buckets: int) -> None:
        self._bucket = bucket
        self._total = total_buckets

    def assign(self, batch: PartitionedRows) -> npt.NDArray[np.int32]:
        return np.full(batch.rows.num_rows, self._bucket, np.int32)

    def total_buckets(self, partition: bytes) -> int:
        return self._total


class PostponedBuckets(FixedBuckets):
    """Buckets that are decided on later (``bucket=-2``): each partition has as many as its first files were given.

    Rows of partitions that have none wait in bucket -2, unless ``postpone.default-bucket-num`` says how many there are;
    so do all rows without ``postpone.batch-write-fixed-bucket``. (Java: classes PostponeFixedBucketSink and
    PostponeBucketRowKeyExtractor.)
    """

    def __init__(self, schema: TableSchema, options: TableOptions, known: Known) -> None:
        super().__init__(schema, options, known)
        self.one_bucket = False
        self._wait = not options.get("postpone.batch-write-fixed-bucket")
        self._count = int(options.get("postpone.default-bucket-num") or POSTPONE_BUCKET)

    def total_buckets(self, partition: bytes) -> int:
        return POSTPONE_BUCKET if self._wait else super().total_buckets(partition)


def bucket_assigner(
    schema: TableSchema, options: TableOptions, known: Known = lambda partition: None
) -> BucketAssigner:
    """The assigner for the option ``bucket``. ``options``: the table's, overridden by the write's own. ``known``:
    returns the number of buckets of a partition; None if it has none yet.
    Raises UnsupportedError: a kind of buckets that can't be written to."""
    count = int(options.get("bucket"))
    if count == -1:
        return UnawareBucket()
    if count > 0:
        return FixedBuckets(schema, options, known)
    if count == POSTPONE_BUCKET:
        return PostponedBuckets(schema, options, known)
    raise UnsupportedError(f"writing to bucket={count} is not supported")


def makes_buckets(options: TableOptions) -> bool:
    """Whether a batch write to a postpone-bucket table chooses the number of buckets when it is committed."""
    return bool(options.get("bucket") == POSTPONE_BUCKET and options.get("postpone.batch-write-fixed-bucket"))


_MOST_SHARES = 8
"""Tasks that share the new buckets of a partition, at most: each of them reads all rows."""


def bucket_shares(buckets: range, least: int) -> list[frozenset[int]]:
    """New buckets of a partition, divided over tasks that each read all rows and write those of theirs.

    ``least``: how many a task has at least, so that rows are not read too often; they are 8 times at most.
    """
    size = max(least, -(-len(buckets) // _MOST_SHARES))
    return [frozenset(buckets[start : start + size]) for start in range(0, len(buckets), size)]
