"""Row ids and sequence numbers of a file's rows as columns, for conditions on them (`paimon_pyds.metadata.row_ids`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, is_true, pc
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.format import FoundRows
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.row_ids import ROW_ID_FIELDS, row_id_values
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Predicate

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader

_ROWS_AT_ONCE = 1 << 20
"""Rows whose ids a condition is evaluated on together: few enough for the processor's caches."""


class RowIdReader:
    """`FormatReader` of these columns. ``opened``: opens the data file where that has values of its own, which are NULL
    for rows whose ids follow from their positions; None where it has none."""

    def __init__(
        self, file: PlannedFile, opened: Callable[[], AbstractContextManager[FormatReader]] | None = None
    ) -> None:
        self.row_count = file.row_count
        self._file, self._opened = file, opened

    def groups(self) -> Sequence[tuple[int, int]]:
        return ((0, self.row_count),)

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        if self._opened is not None:
            return RowSelection.ALL
        found = [np.empty(0, np.int64)]
        for start in range(0, self.row_count, _ROWS_AT_ONCE):
            positions = within.window(start, min(start + _ROWS_AT_ONCE, self.row_count))
            rows = positions.to_array(min(_ROWS_AT_ONCE, self.row_count - start)).astype(np.int64) + start
            if len(rows):
                found.append(rows[is_true(matches(predicate, self._values(ROW_ID_FIELDS, rows)))])
        return RowSelection.of(np.concatenate(found).astype(np.uint32))

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        return None

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        return None

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        rows = selection.to_array(self.row_count).astype(np.int64)
        if self._opened is None:
            for start in range(0, len(rows), batch_rows):
                yield self._values(fields, rows[start : start + batch_rows])
            return
        done = 0
        with self._opened() as reader:
            for batch in reader.read(fields, selection, batch_rows):
                derived = self._values(fields, rows[done : done + batch.num_rows])
                done += batch.num_rows
                columns = [pc.coalesce(own, by_position) for own, by_position in zip(batch, derived, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=derived.schema)

    def close(self) -> None:
        pass

    def _values(self, fields: Sequence[DataField], rows: Int64s) -> pa.RecordBatch:
        columns = [row_id_values(self._file, field, rows) for field in fields]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))
