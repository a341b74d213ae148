"""Small Parquet files, each decoded whole by one call: the schemas of many are looked at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow.types import is_map, is_struct

from paimon_pyds.base.arrays import empty_table, one_batch
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import PaimonError
from paimon_pyds.format.parquet.conversion import conform_batch
from paimon_pyds.format.parquet.footer import MAGIC
from paimon_pyds.format.parquet.source import open_reader
from paimon_pyds.format.parquet.thrift import check_struct

_MOST_DECODED = 64 << 20
"""Bytes that the rows of one file may become. A page of kilobytes may stand for gigabytes of equal texts."""


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. Used by one thread.

    ``fields`` carry the names and types that the files have.
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._schema = arrow_schema(fields)
        self._seen: Any = None
        self._leaves: list[int] | None = None

    def decode(self, data: bytes, rows: int, path: str) -> pa.Table | None:
        """All rows of a file; None where the format's reader has to find out what is the matter with it.

        ``data``: the whole file. ``rows``: how many the manifest says it has.
        """
        length = int.from_bytes(data[-8:-4], "little")
        if data[-4:] != MAGIC or length > len(data) - 12:
            return None
        try:
            check_struct(data[-8 - length : -8], "FileMetaData")
            reader = open_reader(pa.BufferReader(pa.py_buffer(data)))
            metadata = reader.metadata
            sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            if metadata.num_rows != rows or sum(sizes) * max(rows, 1) > _MOST_DECODED * max(1, len(self._schema)):
                return None
            leaves = self._leaves_of(metadata.schema)
            if not leaves:
                return None if leaves is None else empty_table(self._schema)
            table = reader.read_all(column_indices=leaves, use_threads=False)
        except (pa.ArrowException, PaimonError, OSError, ValueError, MemoryError, OverflowError):
            return None
        return table if table.num_rows == rows and table.num_columns == len(self._schema) else None

    def joined(self, tables: Sequence[pa.Table], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns. Raises as `conform_batch`."""
        names, first = self._schema.names, tables[0].schema
        own_keys = any(is_struct(first.field(f.name).type) for f in self._schema if is_map(f.type))  # see `SharedKeys`
        try:
            whole = None if own_keys else pa.concat_tables(tables).select(names)
        except pa.ArrowInvalid:  # their schemas differ
            whole = None
        if whole is None:
            parts = [conform_batch(one_batch(table.select(names)), self._schema, path) for table in tables]
            whole = pa.Table.from_batches(parts, self._schema)
        return conform_batch(one_batch(whole), self._schema, path)

    def _leaves_of(self, schema: Any) -> list[int] | None:
        """The leaves of the wanted columns, in the order of the file; None where one is missing or of 96 bits."""
        if self._seen is not None and schema.equals(self._seen):
            return self._leaves
        found, wanted = list[int](), set(self._schema.names)
        missing = set(wanted)
        for number in range(len(schema)):
            column = schema.column(number)
            name = column.path.partition(".")[0] if column.path not in wanted else column.path
            if name in wanted:
                missing.discard(name)
                found.append(number)
                if column.physical_type == "INT96":
                    missing.add(name)
        self._seen, self._leaves = schema, None if missing else found
        return self._leaves
