"""Row groups of many small pages, decoded whole: some hundred thousand rows after the other, zstd undone here.

pyarrow makes a context of zstd for each page (`page_bodies`): 10 million rows of five columns in pages of 512 took it
2.3 times the processor time of pages of 6,144, in pages of 1,024 1.6 times. This way it is 1.5 and 1.3 times, as
headers and checksums are looked at page by page still. The compressed bytes of a row group are held, as pyarrow does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Semaphore
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.format.parquet.conversion import BatchRows
from paimon_pyds.format.parquet.footer import Chunk, Leaf
from paimon_pyds.format.parquet.page_index import PageTable
from paimon_pyds.format.parquet.page_picks import WIDTHS, ZSTD, PagePick, pick_whole_pages
from paimon_pyds.format.parquet.source import ParquetSource, decoding
from paimon_pyds.format.threads import all_of

if TYPE_CHECKING:
    from paimon_pyds.format.parquet.pages import Pages

_AS_STORED = frozenset({pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32()})
_LOCATION_BYTES = 12
"""Bytes of a page in an offset index, about."""
_INDEX_BYTES = 30
"""Bytes of an offset index besides its pages: its checksum, mostly."""
_MOST_ROWS = 3_000
"""Rows of a small page. For pages of 6,144 rows, as written by default, pyarrow is faster: it uses its memory again."""
_PAGE_MICROS = 10.0
"""Saved for a page of zstd."""
COPY_MICROS = 0.0002
"""Lost for a byte of any page, which is copied once more."""
COLUMN_MICROS = 150.0
"""Lost for the calls that decode some rows of a column."""


def has_small_pages(leaves: Sequence[Leaf], chunks: Sequence[Chunk], bytes_at_once: int) -> bool:
    """Whether decoding these columns of a row group as `small_pages` does is faster, by what the footer says.

    ``bytes_at_once``: of all columns, those of the rows that are decoded together.
    """
    saved, size = 0.0, sum(chunk.uncompressed_size for chunk in chunks)
    for leaf, chunk in zip(leaves, chunks, strict=True):
        if not leaf.flat or chunk.offset_index is None:
            return False
        pages = max(1, (chunk.offset_index[1] - _INDEX_BYTES) // _LOCATION_BYTES)
        saved += _PAGE_MICROS * pages * (chunk.codec == ZSTD and chunk.values <= _MOST_ROWS * pages)
    return saved > COPY_MICROS * size + COLUMN_MICROS * len(leaves) * -(-size // bytes_at_once)


def small_pages(
    source: ParquetSource, group: int, leaves: Sequence[Leaf], sizing: BatchRows, permits: Semaphore
) -> Iterator[list[pa.Array]]:
    """All rows of a row group, as many at a time as ``sizing`` says; an array per column.

    ``leaves``: the columns, flat and with a page index. ``sizing``: how many rows to decode next.
    Raises CorruptFileError: the pages are not what the page index says, or can't be decoded.
    """
    from paimon_pyds.format.parquet.pages import decode_picks

    start, stop = source.footer.groups[group]
    with source.arrow_file(int96=False) as file:
        schema = file.schema_arrow  # pyarrow converts all columns at each access
    by_name = dict(zip(schema.names, schema.types, strict=True))
    types = [by_name[leaf.path[0]] for leaf in leaves]
    columns = _columns(source, group, leaves)
    done = 0
    while done < stop - start:
        rows = min(sizing.next, stop - start - done)
        pieces = [partial(column.decode, done, rows, type_) for column, type_ in zip(columns, types, strict=True)]
        found = all_of(pieces, pa.cpu_count(), permits)
        others = [one for one in found if not isinstance(one, pa.Array)]
        decoded = iter(decode_picks([picks for picks, _ in others], [data for _, data in others], source.path))
        yield [one if isinstance(one, pa.Array) else next(decoded) for one in found]
        done += rows


def _columns(source: ParquetSource, group: int, leaves: Sequence[Leaf]) -> list[_Column]:
    keys = [(group, leaf.index) for leaf in leaves]
    chunks, tables = [source.footer.chunk(*key) for key in keys], source.tables(keys)
    stored = source.read([(chunk.start, chunk.compressed_size) for chunk in chunks])[::-1]
    return [
        _Column(leaf, chunk, tables[key], stored.pop(), source.path)
        for leaf, chunk, key in zip(leaves, chunks, keys, strict=True)
    ]


class _Column:
    """A column chunk. ``stored`` are its bytes."""

    def __init__(self, leaf: Leaf, chunk: Chunk, table: PageTable, stored: bytes, path: str) -> None:
        from paimon_pyds.format.parquet.column_pages import ColumnPages

        self._leaf, self._chunk, self._table, self._path = leaf, chunk, table, path
        every = pick_whole_pages(leaf, chunk, table, np.arange(len(table)), np.zeros(0, np.int64))
        begins, ends = (edges.tolist() for edges in every.edges(chunk.start))
        parts = [stored[begin:end] for begin, end in zip(begins, ends, strict=True)]
        with decoding(path):
            self._pages = ColumnPages([every], b"".join(parts))

    def decode(
        self, first: int, rows: int, type_: pa.DataType
    ) -> pa.Array | tuple[Sequence[PagePick], Sequence[Pages]]:
        """Some rows, from the row of this number on: decoded, where Arrow holds values as they are stored; pages for
        `decode_picks` where it doesn't."""
        starts, stored = self._table.first_rows, _as_stored(type_, self._chunk.physical)
        low, high = np.searchsorted(starts, (first, first + rows - 1), "right").tolist()
        before = first - int(starts[low - 1])
        local = np.zeros(0, np.int64) if stored else np.arange(before, before + rows)
        pick = pick_whole_pages(self._leaf, self._chunk, self._table, np.arange(low - 1, high), local)
        with decoding(self._path):
            pages = self._pages.part(pick, low - 1)
            values = pages.values() if stored else None
            if values is not None:
                return pa.Array.from_buffers(type_, pick.covered, [None, values]).slice(before, rows)
            if stored:
                pages = self._pages.part(replace(pick, local=np.arange(before, before + rows)), low - 1)
            return pages.simpler()


def _as_stored(type_: pa.DataType, physical: int) -> bool:
    kept = type_ in _AS_STORED or pa.types.is_timestamp(type_)
    return kept and bool(type_.bit_width == 8 * WIDTHS[physical])
