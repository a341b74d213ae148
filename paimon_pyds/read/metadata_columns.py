"""The hidden columns: file path, row index, partition, bucket, row id, sequence number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.metadata.partition import partition_texts
from paimon_pyds.scan.split import METADATA_FIELDS, FileTask, ReadSpec
from paimon_pyds.types import arrow_type

__all__ = ["metadata_arrays"]


def metadata_arrays(spec: ReadSpec, task: FileTask, rows: npt.NDArray[np.int64]) -> Sequence[pa.Array]:
    """One array per metadata column asked for, for these positions of the file."""
    return [_array(name, spec, task, rows) for name in spec.metadata_columns]


def _array(name: str, spec: ReadSpec, task: FileTask, rows: npt.NDArray[np.int64]) -> pa.Array:
    type_ = arrow_type(METADATA_FIELDS[name].type)
    n = len(rows)
    match name:
        case "__paimon_file_path":
            return pa.repeat(pa.scalar(task.path, type_), n)
        case "__paimon_row_index":
            return pa.array(rows, type_)
        case "__paimon_bucket":
            return pa.repeat(pa.scalar(task.bucket, type_), n)
        case "_ROW_ID":
            if task.first_row_id is None:
                return pa.nulls(n, type_)
            return pa.array(rows + task.first_row_id, type_)
        case "_SEQUENCE_NUMBER":
            return pa.repeat(pa.scalar(task.sequence_number, type_), n)
    pairs = partition_texts(spec.partition_fields, task.partition, spec.options or {})
    one = pa.array([list(pairs.items())], type_)
    return one.take(pa.array(np.zeros(n, np.int8)))
