"""The partitions of manifest entries as columns, and which of them a condition keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import is_true
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.row import decode_rows
from paimon_pyds.types import DataField, arrow_schema

__all__ = ["partition_mask", "partition_values"]


def partition_values(fields: Sequence[DataField], partitions: pa.BinaryArray) -> pa.RecordBatch:
    """Partition rows (arity + BinaryRow) as columns, which are nullable whatever the fields say."""
    columns = decode_rows(partitions, [f.type for f in fields], arity=True)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in arrow_schema(fields)]))


def partition_mask(schema: TableSchema, predicate: Predicate, partitions: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which of these partitions (arity + BinaryRow) a bound predicate on partition columns keeps."""
    return is_true(matches(predicate, partition_values(schema.partition_fields, partitions)))
