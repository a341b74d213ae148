"""Where rows go: batches are cut into pieces of one partition and bucket each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.bucket import BucketAssigner, PartitionedRows
from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.row import EMPTY_ROW, encode_rows

__all__ = ["Router"]


class Router:
    """Cuts batches by partition and bucket.

    Args:
        schema: the table's; batches have the partition columns by their names.
        assigner: says which bucket of its partition a row goes to.
    """

    def __init__(self, schema: TableSchema, assigner: BucketAssigner) -> None:
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
        partitions, codes = self._partitions(batch)
        buckets = self._assigner.assign(PartitionedRows(batch, partitions, codes)).astype(np.int64)
        least = int(buckets.min())
        span = int(buckets.max()) - least + 1
        targets = codes * span + (buckets - least)
        if (targets != targets[0]).any():
            order = np.argsort(targets, kind="stable")
            targets, batch = targets[order], batch.take(from_numpy(order))
        starts = [0, *(np.flatnonzero(np.diff(targets)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(starts):
            partition, bucket = divmod(int(targets[start]), span)
            yield PartitionBucket(partitions[partition], bucket + least), batch.slice(start, stop - start)

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
