"""Partition rows (``_PARTITION``: arity + BinaryRow) → texts and columns; which a condition keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import array, is_true
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.row import decode_row, decode_rows
from paimon_pyds.types import DataField, arrow_schema
from paimon_pyds.types.java_text import partition_text


class PartitionBucket(NamedTuple):
    """Where rows and files of a table are: the row of the partition (arity + BinaryRow), and the bucket in it."""

    partition: bytes
    bucket: int


FileKey: TypeAlias = tuple[PartitionBucket, str]
"""Partition, bucket and name of a data file."""


@lru_cache(maxsize=4096)
def partition_scalars(fields: tuple[DataField, ...], partition: bytes) -> Mapping[str, pa.Scalar]:
    """Each partition column's value. Raises CorruptFileError."""
    columns = decode_rows(array([partition], pa.binary()), [f.type for f in fields], arity=True)
    return {field.name: column[0] for field, column in zip(fields, columns, strict=True)}


def partition_texts(fields: Sequence[DataField], partition: bytes, options: Mapping[str, str]) -> dict[str, str | None]:
    """Each partition column's value as text, in the form of directory names; None for NULL."""
    legacy = options.get("partition.legacy-name", "true").strip().lower() != "false"
    values = decode_row(partition, [f.type for f in fields])
    return {
        f.name: None if v is None else partition_text(v, f.type, legacy=legacy)
        for f, v in zip(fields, values, strict=True)
    }


def partition_values(fields: Sequence[DataField], partitions: pa.BinaryArray) -> pa.RecordBatch:
    """Partition rows (arity + BinaryRow) as columns, which are nullable whatever the fields say."""
    columns = decode_rows(partitions, [f.type for f in fields], arity=True)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in arrow_schema(fields)]))


def partition_mask(schema: TableSchema, predicate: Predicate, partitions: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which of these partitions (arity + BinaryRow) a bound predicate on partition columns keeps."""
    return is_true(matches(predicate, partition_values(schema.partition_fields, partitions)))
