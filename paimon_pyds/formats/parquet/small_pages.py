"""Row groups of many small pages, decoded whole: some thousand rows after the other, zstd undone here.

pyarrow makes a context of zstd for each page (`page_bodies`): 10 million rows in pages of 512 took it three times as
long as in pages of 6,144. This way they take as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Semaphore

import numpy as np
import pyarrow as pa

from paimon_pyds.formats.parquet.arrays import BatchRows
from paimon_pyds.formats.parquet.footer import Chunk, Leaf
from paimon_pyds.formats.parquet.gather_values import gather_values
from paimon_pyds.formats.parquet.page_picks import ZSTD, PagePick, pick_pages
from paimon_pyds.formats.parquet.pages import decode_picks
from paimon_pyds.formats.parquet.source import ParquetSource

_LOCATION_BYTES = 12
"""Of a page in an offset index, about."""
_PAGE_MICROS = 10.0
"""Saved for a page of zstd."""
_COPY_MICROS = 0.0002
"""Lost for a byte of any page, which is copied once more."""


def has_small_pages(leaves: Sequence[Leaf], chunks: Sequence[Chunk]) -> bool:
    """Whether decoding these columns of a row group as `small_pages` does is faster, by what the footer says."""
    saved = 0.0
    for leaf, chunk in zip(leaves, chunks, strict=True):
        if not leaf.flat or chunk.offset_index is None:
            return False
        pages = chunk.offset_index[1] // _LOCATION_BYTES
        saved += _PAGE_MICROS * pages * (chunk.codec == ZSTD) - _COPY_MICROS * chunk.uncompressed_size
    return saved > 0


def small_pages(
    source: ParquetSource, group: int, leaves: Sequence[Leaf], sizing: BatchRows, permits: Semaphore
) -> Iterator[list[pa.Array]]:
    """All rows of a row group, as many at a time as ``sizing`` says; an array per column.

    Args:
        source: the file.
        group: number of the row group.
        leaves: the columns, flat and with a page index.
        sizing: how many rows to decode next.
        permits: for threads.

    Raises:
        CorruptFileError: the pages are not what the page index says, or can't be decoded.
    """
    start, stop = source.footer.groups[group]
    chunks = [source.footer.chunk(group, leaf.index) for leaf in leaves]
    tables = source.tables((group, leaf.index) for leaf in leaves)
    pages = {
        i: (leaf, chunk, tables[group, leaf.index]) for i, (leaf, chunk) in enumerate(zip(leaves, chunks, strict=True))
    }
    stored = source.read([(chunk.start, chunk.compressed_size) for chunk in chunks])
    done = 0
    while done < stop - start:
        rows = np.arange(done, min(done + sizing.next, stop - start))
        picks = [[pick] for _, pick in sorted(pick_pages(pages, rows).items())]
        data = [_bytes_of(pick, whole) for (pick,), whole in zip(picks, stored, strict=True)]
        yield decode_picks(*gather_values(picks, data, source.path, pa.cpu_count(), permits), source.path)
        done += len(rows)


def _bytes_of(pick: PagePick, chunk: bytes) -> bytes:
    begin = pick.chunk.start
    return b"".join([chunk[offset - begin : offset - begin + size] for offset, size in pick.ranges()])
