"""Reading columns that several files hold, each for a range of the rows; of files of one row the newest counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.types.nested import nulls_of
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.metadata.evolution.file_columns import plan_evolution
from paimon_pyds.metadata.planned_file import PlannedFile

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader

_NO_FILE = -1
"""In place of the number of a file where none has the rows: their values are NULL."""


class RangesReader(PlainReader):
    """`FormatReader` of such columns.

    ``file``: its parts are the files, the newest first. ``fields_of``: gives the columns of a file. ``open_part``:
    opens one.
    """

    def __init__(
        self,
        file: PlannedFile,
        fields_of: Callable[[PlannedFile], Sequence[DataField]],
        open_part: Callable[[PlannedFile], AbstractContextManager[FormatReader]],
    ) -> None:
        self.row_count = file.row_count
        self._file, self._fields_of, self._open_part = file, fields_of, open_part

    @cached_property
    def _ranges(self) -> list[tuple[int, int, int]]:
        """Ranges of rows, ascending: start, stop, and the number of the file that has their values."""
        begin = self._file.first_row_id or 0
        starts = [(part.first_row_id or 0) - begin for part in self._file.parts]
        stops = [start + part.row_count for start, part in zip(starts, self._file.parts, strict=True)]
        edges = np.unique(np.clip([0, *starts, *stops, self.row_count], 0, self.row_count)).tolist()
        found = []
        for start, stop in pairwise(edges):
            having = (n for n in range(len(starts)) if starts[n] <= start and stop <= stops[n])
            found.append((start, stop, next(having, _NO_FILE)))
        return found

    def groups(self) -> Sequence[tuple[int, int]]:
        return [(start, stop) for start, stop, _ in self._ranges]

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(fields)
        for start, stop, number in self._ranges:
            rows = selection.window(start, stop)
            if rows.is_none:
                continue
            if number == _NO_FILE:
                columns = [nulls_of(rows.count(stop - start), type_) for type_ in schema.types]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
                continue
            part = self._file.parts[number]
            own = plan_evolution(self._fields_of(part), tuple(fields), part.write_cols)
            shift = start - ((part.first_row_id or 0) - (self._file.first_row_id or 0))
            if rows.is_all and (shift or stop - start < part.row_count):
                rows = RowSelection.of(range(shift, shift + stop - start))
            elif rows.positions is not None:
                rows = RowSelection(rows.positions.shift(shift))
            with self._open_part(part) as reader:
                yield from map(own.apply, reader.read(own.file_fields, rows, batch_rows))
