"""Cutting rows by partition and bucket."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, pc, to_numpy
from paimon_pyds.base.row import EMPTY_ROW, encode_rows
from paimon_pyds.keys.bucket import BucketAssigner, PartitionedRows
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema


class Router:
    """Cuts batches by partition and bucket.

    ``schema``: the table's; batches have the partition columns by their names. ``assigner``: says which bucket of its
    partition a row goes to. ``column``: one that only the assigner needs.
    """

    def __init__(self, schema: TableSchema, assigner: BucketAssigner, column: str | None = None) -> None:
        self._column = column
        self._keys = schema.partition_keys
        self._types = [field.type for field in schema.partition_fields]
        self._assigner = assigner
        self.one_target = not self._keys and assigner.one_bucket
        """Whether all rows go to bucket 0 of a table without partitions."""

    def route(self, batch: pa.RecordBatch) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """The batch in pieces of one partition and bucket each; rows keep their order within a piece."""
        if self.one_target:
            yield PartitionBucket(EMPTY_ROW, 0), batch
            return
        partitions, codes, assigned = self.assigned(batch)
        buckets = assigned.astype(np.int64)
        if self._column is not None:
            batch = batch.select([name for name in batch.schema.names if name != self._column])
        least = int(buckets.min())
        span = int(buckets.max()) - least + 1
        targets = codes * span + (buckets - least)
        if (targets != targets[0]).any():
            narrow = np.min_scalar_type(int(targets.max()))  # short numbers are sorted faster
            order = np.argsort(targets.astype(narrow), kind="stable")
            targets, batch = targets[order], batch.take(from_numpy(order))
        starts = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(starts):
            partition, bucket = divmod(int(targets[start]), span)
            yield PartitionBucket(partitions[partition], bucket + least), batch.slice(start, stop - start)

    def assigned(self, batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The partitions of a batch, and of each row which of them, and which bucket, it is in."""
        partitions, codes = self._partitions(batch)
        return partitions, codes, self._assigner.assign(PartitionedRows(batch, partitions, codes))

    def _partitions(self, batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        """The partitions of a batch, and which of them each row is in."""
        codes = np.zeros(batch.num_rows, np.int64)
        if not self._keys:
            return [EMPTY_ROW], codes
        columns = [batch.column(name) for name in self._keys]
        for column in columns:
            coded = pc.dictionary_encode(column, null_encoding="encode")
            codes = codes * len(coded.dictionary) + to_numpy(coded.indices)
        _, first, dense = np.unique(codes, return_index=True, return_inverse=True)
        rows = encode_rows([column.take(from_numpy(first)) for column in columns], self._types, arity=True)
        return rows.to_pylist(), dense.astype(np.int64).reshape(-1)
