"""Data files of any format, written and read alone; the suffix of the path says of which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import StorageError
from paimon_pyds.format import ReadCounters, by_path
from paimon_pyds.storage import open_file_io

Fields = tuple[DataField, ...]


def fields_of(*types: Any) -> Fields:
    """Fields c0, c1, … of these types."""
    return tuple(DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate(types))


def table_of(fields: Sequence[DataField], *columns: Any) -> pa.Table:
    """A table of these fields."""
    schema = arrow_schema(fields)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def open_reader(path: Path, counters: ReadCounters | None = None) -> Any:
    """The reader of a file; it counts what it does."""
    io, name = open_file_io(str(path))
    return by_path(name).open_reader(io, name, path.stat().st_size, counters or ReadCounters())


def read_file(
    path: Path,
    fields: Sequence[DataField],
    selection: RowSelection = RowSelection.ALL,
    counters: ReadCounters | None = None,
    batch_rows: int = 1000,
) -> pa.Table:
    """Rows of a file, read in batches of no more than so many."""
    reader = open_reader(path, counters)
    try:
        batches = list(reader.read(fields, selection, batch_rows))
    finally:
        reader.close()
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    return pa.Table.from_batches(batches, arrow_schema(fields))


def write_file(
    path: Path,
    fields: Sequence[DataField],
    table: pa.Table,
    options: dict[str, str] | None = None,
    batch_rows: int = 10_000,
) -> None:
    """A file of these rows, written in batches of so many."""
    io, name = open_file_io(str(path))
    writer = by_path(name).open_writer(io, name, fields, options or {})
    written = 0
    for batch in table.to_batches(batch_rows):
        writer.write(batch)
        assert writer.bytes_written >= written
        written = (
            writer.bytes_written if path.suffix == ".avro" else 0
        )  # the others estimate, and may have to take back
    assert writer.close() == path.stat().st_size


class FullDisk:
    """A storage, and the output of its one file: takes some bytes and then no more."""

    def __init__(self, room: int) -> None:
        self.sink = self
        self.room = room
        self.aborted = False

    def open_output(self, path: str) -> FullDisk:
        return self

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise StorageError("no space left")
        return memoryview(data).nbytes

    def tell(self) -> int:
        return 0

    def close(self) -> int:
        raise AssertionError("a file that was not written counts as closed")

    def abort(self) -> None:
        self.aborted = True
