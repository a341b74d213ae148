"""The hidden columns: file path, row index, partition, bucket, row id, sequence number.

Rows of a file have row ids from ``_FIRST_ROW_ID`` on, and its sequence number, until an update rewrites them: then the
file holds ``_ROW_ID`` and ``_SEQUENCE_NUMBER`` as columns, NULL where the old rule is right. (Source: Paimon
documentation, append-table/row-tracking, and the files that Java Paimon's row-level commands write.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds import formats
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.metadata.partition import partition_texts
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import METADATA_FIELDS, PlannedFile, ReadSpec
from paimon_pyds.types import arrow_type

__all__ = ["metadata_arrays"]


def metadata_arrays(spec: ReadSpec, file: PlannedFile, rows: npt.NDArray[np.int64]) -> Sequence[pa.Array]:
    """One array per metadata column asked for, for these positions of the file."""
    return [_array(name, spec, file, rows) for name in spec.metadata_columns]


def _array(name: str, spec: ReadSpec, file: PlannedFile, rows: npt.NDArray[np.int64]) -> pa.Array:
    type_ = arrow_type(METADATA_FIELDS[name].type)
    n = len(rows)
    match name:
        case "__paimon_file_path":
            return pa.repeat(pa.scalar(file.path, type_), n)
        case "__paimon_row_index":
            return pa.array(rows, type_)
        case "__paimon_bucket":
            return pa.repeat(pa.scalar(file.bucket, type_), n)
        case "_ROW_ID":
            first = file.first_row_id
            return _kept(name, spec, file, rows, pa.nulls(n, type_) if first is None else pa.array(rows + first, type_))
        case "_SEQUENCE_NUMBER":
            return _kept(name, spec, file, rows, pa.repeat(pa.scalar(file.sequence_number, type_), n))
    pairs = partition_texts(spec.partition_fields, file.partition, spec.options or {})
    one = pa.array([list(pairs.items())], type_)
    return one.take(pa.array(np.zeros(n, np.int8)))


def _kept(name: str, spec: ReadSpec, file: PlannedFile, rows: npt.NDArray[np.int64], derived: pa.Array) -> pa.Array:
    """What the file holds in a column of its own, where it does; else the derived values."""
    if name not in (file.write_cols or ()) or not len(rows):
        return derived
    reader = formats.by_path(file.path).open_reader(spec.io, file.path, file.size, ReadCounters(), spec.hints(file))
    try:
        selection = RowSelection.of(rows.astype(np.uint32))
        held = [batch.column(0) for batch in reader.read([METADATA_FIELDS[name]], selection, len(rows))]
    finally:
        reader.close()
    return pc.coalesce(pa.concat_arrays(held), derived)
