"""Conditions on the row ids and sequence numbers of rows: in a plan, columns of a part of their own.

Rows of a file have row ids from ``_FIRST_ROW_ID`` on, and its sequence number, unless the file has columns of these
names. (Source: Paimon documentation, append-table/row-tracking.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.types import DataField
from paimon_pyds.metadata.planned_file import FileBounds, PlannedFile
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.sql.predicate.prune import ColumnStats, may_match
from paimon_pyds.sql.predicate.tree import ColumnRef, Predicate

ROW_ID = "_ROW_ID"
ROW_ID_FIELDS = (METADATA_FIELDS[ROW_ID], METADATA_FIELDS["_SEQUENCE_NUMBER"])
NAMES = tuple(field.name for field in ROW_ID_FIELDS)
BY_POSITION, IN_FILE = -1, -2
"""What parts for these columns have as their schema id: values follow from positions, or a file has them, whose own
schema id is taken away from it."""


def condition_fields(fields: Sequence[DataField], options: TableOptions) -> tuple[DataField, ...]:
    """The columns that conditions on a table may name. ``fields``: the table's."""
    return (*fields, *ROW_ID_FIELDS) if options.get("row-tracking.enabled") else tuple(fields)


def may_hold_row_ids(predicate: Predicate, entries: pa.RecordBatch) -> Flags:
    """Which entries may hold a match of a predicate, by their ranges of row ids."""
    first, rows = entries.column("first_row_id"), entries.column("row_count")
    last = pc.add(first, pc.subtract(rows, 1))
    held = np.array([names is not None and ROW_ID in names for names in entries.column("write_cols").to_pylist()])
    none = from_numpy(np.zeros(entries.num_rows, np.int64))
    stats = ColumnStats(min=first, max=last, null_count=none, row_count=rows, unknown=held | is_true(first.is_null()))

    def of(column: ColumnRef) -> ColumnStats | None:
        return stats if column.name == ROW_ID else None

    return may_match(predicate, rows, of)


def with_row_ids(
    files: Iterable[PlannedFile], fields_of: Callable[[int], Sequence[DataField]]
) -> Iterator[PlannedFile]:
    """The files, each with a part for the row ids and sequence numbers of its rows."""
    for file in files:
        held = ROW_ID in (file.write_cols or ())
        source = IN_FILE - file.schema_id if held else BY_POSITION
        ids = file._replace(schema_id=source, write_cols=NAMES, file_cols=file.write_cols, parts=(), deletion=None)
        ids = ids._replace(index_path=None, bounds=None)
        bounds = file.bounds
        own = file.parts
        if not own:
            names = file.write_cols or tuple(field.name for field in fields_of(file.schema_id))
            index = None if file.embedded_index is None else FileBounds(None, {}, file.embedded_index)
            stored = tuple(name for name in names if name not in NAMES)
            rest = file._replace(write_cols=stored, file_cols=file.write_cols or stored)
            own = (rest._replace(deletion=None, bounds=index, selection=None, window=None),)
        yield file._replace(
            write_cols=None,
            index_path=None,
            bounds=None if bounds is None else replace(bounds, embedded_index=None),
            parts=(*own, ids._replace(selection=None, window=None)),
        )


def row_id_values(file: PlannedFile, field: DataField, positions: Int64s) -> pa.Array:
    """The values that rows have by their positions. ``field``: one of `ROW_ID_FIELDS`."""
    if field.name == ROW_ID:
        first = file.first_row_id
        return pa.nulls(len(positions), pa.int64()) if first is None else array(positions + first, pa.int64())
    return pa.repeat(scalar(file.sequence_number, pa.int64()), len(positions))
