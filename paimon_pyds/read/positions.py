"""Which live rows of a data file a condition is true for, by position: what deletes and updates ask.

When the file's index answers exactly the data file is not opened; else the columns of the filter are read, and no
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.evolution.columns import Evolution
from paimon_pyds.index.open_indexes import open_embedded_index, open_side_index
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.deletions import deleted_rows
from paimon_pyds.read.file import file_evolution, read_file
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import FileTask, ReadSpec
from paimon_pyds.storage.base import FileIO

__all__ = ["ROW_INDEX", "live_rows", "matching_rows"]

ROW_INDEX = "__paimon_row_index"

RowMask = Callable[[pa.RecordBatch], pa.Array]


def matching_rows(
    spec: ReadSpec, task: FileTask, *, container: bytes | None = None, residual: RowMask | None = None
) -> BitMap:
    """The positions of the rows that are there and for which the condition is true.

    Args:
        spec: its predicate is the condition; ``fields`` are the columns that ``residual`` needs, and its metadata
            column is the row index.
        task: the data file.
        container: the embedded index, when the file has one.
        residual: more to ask of the rows that the predicate keeps: whether to keep each one, null counts as no.

    Raises:
        CorruptFileError: the data file, its index or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    try:
        return _matching(spec, task, container, residual)
    except FileNotFoundError as error:
        path = error.filename or task.path
        raise SnapshotNotFoundError.of_file(path, "searched", "run the operation again") from error


def _matching(spec: ReadSpec, task: FileTask, container: bytes | None, residual: RowMask | None) -> BitMap:
    filtering = file_evolution(spec, task, spec.filter_fields)
    devolved = filtering.devolve(spec.predicate)
    if devolved in (Const.FALSE, Const.UNKNOWN):
        return BitMap()
    if residual is None and filtering.settles(spec.predicate, devolved):
        return _bitmap(live_rows(spec.io, task), task)
    if container is not None or task.index_path is not None:
        answer = _ask(spec, task, container, filtering)
        if answer is not None:
            selection, exact = answer
            if exact and residual is None and filtering.devolves_exactly(spec.predicate):
                return _bitmap(live_rows(spec.io, task, selection), task)
            if selection.is_none:
                return BitMap()
            bitmap = None if selection.positions is None else selection.positions.serialize()
            task = replace(task, selection=bitmap, index_path=None)
    found = [_positions(batch, residual) for batch in read_file(spec, task)]
    return BitMap(np.concatenate(found)) if found else BitMap()


def _ask(
    spec: ReadSpec, task: FileTask, container: bytes | None, filtering: Evolution
) -> tuple[RowSelection, bool] | None:
    """What the file's index says, and whether that is exact; None when indexes are not to be asked."""
    if not spec.use_index:
        return None
    devolved = filtering.devolve(spec.predicate)
    if task.index_path is not None:
        opened = open_side_index(spec.io, task.index_path)
    else:
        assert container is not None
        opened = open_embedded_index(container, task.path)
    with opened as index:
        result = index.evaluate(devolved, task.row_count)
    return result.selection, result.exact


def live_rows(io: FileIO, task: FileTask, selection: RowSelection = RowSelection.ALL) -> RowSelection:
    """The selected rows that are not deleted. Reads the deletion vector, when the file has one.

    Raises:
        CorruptFileError: the vector is damaged.
        StorageError: it can't be read.
    """
    if task.deletion is None or selection.is_none:
        return selection
    return selection.minus(deleted_rows(io, task.deletion, task.row_count), task.row_count)


def _bitmap(selection: RowSelection, task: FileTask) -> BitMap:
    return BitMap(range(task.row_count)) if selection.positions is None else selection.positions


def _positions(batch: pa.RecordBatch, residual: RowMask | None) -> npt.NDArray[np.uint32]:
    if residual is not None:
        batch = batch.filter(pc.fill_null(residual(batch), False))
    return np.asarray(batch.column(batch.num_columns - 1)).astype(np.uint32)
