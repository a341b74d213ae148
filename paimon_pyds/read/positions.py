"""Which live rows of a data file a condition is true for, by position: what deletes and updates ask.

When the file's index answers exactly the data file is not opened; else the columns of the filter are read, and no
other.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.read.file import read_file
from paimon_pyds.read.live_rows import LiveRows
from paimon_pyds.split import PlannedFile, ReadSpec

__all__ = ["ROW_INDEX", "matching_rows"]

ROW_INDEX = "__paimon_row_index"


def matching_rows(spec: ReadSpec, file: PlannedFile) -> BitMap:
    """The positions of the rows that are there and for which the condition is true.

    Args:
        spec: its predicate is the condition, its metadata column the row index.
        file: the data file, with its embedded index, when it has one.

    Raises:
        CorruptFileError: the data file, its index or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    try:
        return _matching(LiveRows(spec.for_file(file), file))
    except FileNotFoundError as error:
        path = error.filename or file.path
        raise SnapshotNotFoundError.of_file(path, "searched", "run the operation again") from error


def _matching(live: LiveRows) -> BitMap:
    candidates = live.candidates
    live.close()
    if candidates.is_none:
        return BitMap()
    if live.is_exact:
        return BitMap(range(live.file.row_count)) if candidates.positions is None else candidates.positions
    batches = read_file(live.spec, live.file.selecting(candidates))
    found = [np.asarray(batch.column(batch.num_columns - 1)).astype(np.uint32) for batch in batches]
    return BitMap(np.concatenate(found)) if found else BitMap()
