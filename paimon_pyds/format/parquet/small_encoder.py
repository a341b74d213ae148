"""Encoding files of few rows, each by one call: what files of one schema share is made once.

Such a file has one row group and one page of each column, so that a page index would only repeat the footer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_pyds.base.types import DataField
from paimon_pyds.errors import SchemaError
from paimon_pyds.format.parquet.footer import MAGIC, footer_of
from paimon_pyds.format.parquet.settings import (
    FEW_BYTES,
    FEW_ROWS,
    WriterOptions,
    few_rows_settings,
    file_schema,
    stored_schema,
    writer_settings,
)
from paimon_pyds.format.parquet.thrift import with_checksum
from paimon_pyds.format.parquet.writer import RowChecks, columns_with_nan, shared_columns_of, shredding_of

MOST_ROWS = 1_024
"""Rows of a file up to which one page of each column is as good as several, and less to write."""


class SmallFileEncoder:
    """Encodes files of few rows. ``fields``, ``options``: as for `FileFormat.open_writer`, with its errors."""

    def __init__(self, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        self._options = WriterOptions.parse(options)
        self._schema = file_schema(fields)
        is_shredded = shredding_of(fields, options) is not None or bool(shared_columns_of(fields, options))
        self._is_plain = not is_shredded and stored_schema(self._schema).types == self._schema.types
        self._most_rows = min(MOST_ROWS, self._options.page_rows)
        self._most_bytes = min(self._options.page_bytes, self._options.group_bytes)
        self._few_rows = few_rows_settings(self._options, self._schema)

    def encode(self, batch: pa.RecordBatch, path: str) -> bytes | None:
        """A file with these rows; None where only `FileFormat.open_writer` writes it: they are too many, or have values
        whose bounds pyarrow would write into the footer, by which Java Paimon would skip rows.

        Raises SchemaError: as `FormatWriter.write`.
        """
        size = batch.nbytes
        if not self._is_plain or batch.num_rows > self._most_rows or size > self._most_bytes:
            return None
        batch = RowChecks(self._schema, path).checked(batch)
        if columns_with_nan(batch):
            return None
        table = pa.Table.from_arrays(batch.columns, schema=self._schema)
        is_few = batch.num_rows <= FEW_ROWS and size <= FEW_BYTES
        settings = self._few_rows if is_few else writer_settings(self._options, table)
        return _with_footer_checksum(memoryview(encoded(table, {**settings, "write_page_index": False}, path)))


def encoded(table: pa.Table, settings: Mapping[str, object], path: str) -> pa.Buffer:
    """A Parquet file in memory that has these rows as one row group. ``settings``: of pyarrow's writer.

    Raises SchemaError: pyarrow can't write a value.
    """
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    try:
        with pq.ParquetWriter(sink, table.schema, **settings) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
    except pa.ArrowException as error:
        raise SchemaError(f"rows can't be written as Parquet: {error}", path=path) from error
    return sink.getvalue()


def _with_footer_checksum(file: memoryview) -> bytes:
    """A Parquet file with the checksum of its footer."""
    bare = footer_of(file)
    footer = with_checksum(bytes(bare))
    return b"".join((file[: -8 - len(bare)], footer, len(footer).to_bytes(4, "little"), MAGIC))
