"""A Parquet file that another one differs from in some rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.parquet.chunk_pages import ChunkPages, CopiedPages
from paimon_pyds.format.parquet.footer import Footer
from paimon_pyds.format.parquet.thrift import Struct
from paimon_pyds.storage import FileIO

_BATCH_ROWS = 1 << 16
"""Rows that are read at a time: half a MiB of numbers."""


class OldFile(NamedTuple):
    """The file, with what is known of its pages.

    Attributes:
        size: its bytes.
        schema: its Arrow schema, and ``fields`` its columns.
        meta: FileMetaData with the columns.
        pages: for each column those of each row group.
    """

    io: FileIO
    footer: Footer
    size: int
    schema: pa.Schema
    fields: Sequence[DataField]
    meta: Struct
    pages: Sequence[Sequence[ChunkPages]]

    def read(self, fields: Sequence[DataField], rows: RowSelection) -> Iterator[pa.RecordBatch]:
        """Some rows of it."""
        from paimon_pyds.format.parquet.reader import ParquetReader

        reader = ParquetReader(self.io, self.footer.path, self.size, ReadCounters(), ReadHints())
        try:
            yield from reader.read(fields, rows, _BATCH_ROWS)
        finally:
            reader.close()

    def parts(self, rows: Int64s) -> dict[int, slice]:
        """The row groups that have some of these rows, each with the places of its own among them."""
        edges = np.searchsorted(rows, [start for start, _ in self.footer.groups] + [self.footer.row_count]).tolist()
        return {group: slice(*ends) for group, ends in enumerate(pairwise(edges)) if ends[0] < ends[1]}

    def copied(self, at: int, group: int) -> CopiedPages:
        """All pages of a column chunk."""
        pages = self.pages[at][group]
        dictionary, data = self.io.read_ranges(self.footer.path, pages.places(slice(None)))
        return CopiedPages(pages, slice(None), (dictionary, data))
