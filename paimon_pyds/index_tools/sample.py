"""Samples of a table's files, for questions about indexes that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds import formats
from paimon_pyds.errors import OptionError
from paimon_pyds.evolution.columns import plan_evolution
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.options.arguments import integer
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.types import DataField, arrow_schema

__all__ = ["MAX_ROWS", "FileSample", "read_sample", "sample_files"]

MAX_ROWS = 2_000_000
"""Rows taken of one file at most: bounds memory."""
_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class FileSample:
    """The first rows of a data file: some of its columns, ``fields`` of ``file_fields``, under its own names."""

    file: PlannedFile
    file_fields: tuple[DataField, ...]
    fields: tuple[DataField, ...]
    batches: tuple[pa.RecordBatch, ...]
    rows: int

    def devolve(self, predicate: Predicate, table_fields: Sequence[DataField]) -> Predicate:
        """A filter on the table's columns as one on the file's."""
        return plan_evolution(self.file_fields, _wanted(predicate, table_fields)).devolve(predicate)

    def as_table(self, fields: Sequence[DataField]) -> list[pa.RecordBatch]:
        """Columns of the table, read from the file's as they are now. The file's must be among the sample's."""
        evolution = plan_evolution(self.file_fields, fields)
        places = [self.fields.index(f) for f in evolution.file_fields]
        schema = arrow_schema(evolution.file_fields)
        batches = []
        for batch in self.batches:
            if places:
                own = pa.RecordBatch.from_arrays([batch.column(i) for i in places], schema=schema)
            else:
                own = _no_columns(batch.num_rows)
            batches.append(evolution.apply(own))
        return batches

    def mask(self, predicate: Predicate, table_fields: Sequence[DataField]) -> npt.NDArray[np.bool_]:
        """Which of the rows a filter on the table's columns keeps."""
        if isinstance(predicate, Const):
            return np.full(self.rows, predicate is Const.TRUE)
        batches = self.as_table(_wanted(predicate, table_fields))
        return np.concatenate([np.zeros(0, np.bool_), *(np.asarray(matches(predicate, b), np.bool_) for b in batches)])


def _wanted(predicate: Predicate, table_fields: Sequence[DataField]) -> tuple[DataField, ...]:
    names = root_columns(predicate)
    return tuple(f for f in table_fields if f.name in names)


def _no_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def sample_files(files: Sequence[PlannedFile], count: int) -> list[PlannedFile]:
    """``count`` files from all over the table: the same ones each time, larger ones more likely.

    Raises:
        OptionError: less than one is asked for.
    """
    if integer("files", count) < 1:
        raise OptionError(f"a sample needs at least one file, not {count}")
    full = sorted((f for f in files if f.row_count), key=lambda f: f.path)
    if len(full) <= count:
        return full
    ends = np.cumsum([f.row_count for f in full])
    places = (np.arange(count) + 0.5) * (ends[-1] / count)
    chosen = np.unique(np.searchsorted(ends, places, side="right"))
    return [full[int(i)] for i in chosen]


def read_sample(spec: ReadSpec, file: PlannedFile, names: set[str], max_rows: int = MAX_ROWS) -> FileSample:
    """The first rows of some columns (of the file's schema) of a data file.

    Args:
        spec: how to read it.
        file: the data file.
        names: of the columns.
        max_rows: rows at most.

    Raises:
        CorruptFileError, StorageError: the file can't be read.
    """
    own = spec.fields_of(file)
    fields = tuple(f for f in own if f.name in names)
    rows = min(file.row_count, max_rows)
    selection = RowSelection.ALL if rows == file.row_count else RowSelection.of(range(rows))
    if not fields:
        return FileSample(file, own, fields, (_no_columns(rows),), rows)
    reader = formats.by_path(file.path).open_reader(spec.io, file.path, file.size, ReadCounters(), spec.hints(file))
    try:
        batches = tuple(reader.read(fields, selection, _BATCH_ROWS))
    finally:
        reader.close()
    return FileSample(file, own, fields, batches, sum(b.num_rows for b in batches))
