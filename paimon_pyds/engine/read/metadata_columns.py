"""Metadata columns of rows: the place of each row, and its ids in tables with row tracking."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import arrow_type
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.metadata.partition import partition_texts
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.row_ids import IN_FILE
from paimon_pyds.metadata.split import METADATA_FIELDS, ReadSpec


def metadata_column(name: str, spec: ReadSpec, file: PlannedFile, rows: npt.NDArray[np.int64]) -> pa.Array:
    """A metadata column for these positions of the file.

    Rows of a file have row ids from ``_FIRST_ROW_ID`` on, and its sequence number, until an update rewrites them: then
    the file holds ``_ROW_ID`` and ``_SEQUENCE_NUMBER`` as columns, NULL where the old rule is right. (Source: Paimon
    documentation, append-table/row-tracking, and the files that Java Paimon's row-level commands write.)
    """
    type_ = arrow_type(METADATA_FIELDS[name].type)
    n = len(rows)
    match name:
        case "__paimon_file_path":
            return pa.repeat(scalar(file.path, type_), n)
        case "__paimon_row_index":
            return array(rows, type_)
        case "__paimon_bucket":
            return pa.repeat(scalar(file.bucket, type_), n)
        case "_ROW_ID":
            first = file.first_row_id
            ids = pa.nulls(n, type_) if first is None else array(rows + first, type_)
            return _held_or(ids, name, spec, file, rows)
        case "_SEQUENCE_NUMBER":
            return _held_or(pa.repeat(scalar(file.sequence_number, type_), n), name, spec, file, rows)
    pairs = partition_texts(spec.partition_fields, file.partition, spec.options or {})
    one = array([list(pairs.items())], type_)
    return pc.take(one, array(np.zeros(n, np.int8)))


def _held_or(derived: pa.Array, name: str, spec: ReadSpec, file: PlannedFile, rows: npt.NDArray[np.int64]) -> pa.Array:
    """What the file holds in a column of its own, where it does; else the derived values."""
    file = next((part for part in file.parts if part.schema_id <= IN_FILE), file)
    if name not in (file.write_cols or ()) or not len(rows):
        return derived
    selection = RowSelection.of(rows.astype(np.uint32))
    with open_data_file(spec, file) as reader:
        held = [batch.column(0) for batch in reader.read([METADATA_FIELDS[name]], selection, len(rows))]
    return pc.coalesce(pa.concat_arrays(held), derived)
