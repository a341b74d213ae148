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

    def copied(self, group: int, rows: tuple[int, int] | None = None) -> list[CopiedPages]:
        """The pages of each column in a row group: those of some rows, from the first to before the second one, or all.
        Pages have to begin and end there."""
        columns = [groups[group] for groups in self.pages]
        start, stop = self.footer.groups[group]
        ends = rows or (0, stop - start)
        some = [slice(*np.searchsorted(pages.table.first_rows, ends).tolist()) for pages in columns]
        places = [place for pages, which in zip(columns, some, strict=True) for place in pages.places(which)]
        data = iter(self.io.read_ranges(self.footer.path, places))
        return [CopiedPages(*each, (next(data), next(data))) for each in zip(columns, some, strict=True)]
