"""The pages of column chunks as bytes, to be copied into chunks of other files.

A page needs nothing but the dictionary of its chunk. So some pages that follow one another, behind that dictionary, are
a chunk, too.
Source: apache/parquet-format, parquet.thrift (ColumnMetaData, PageEncodingStats, Statistics, ColumnIndex).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, from_numpy, pc, scalar
from paimon_pyds.base.types import DataField, DataType
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.footer import MAGIC, Chunk, Footer, Leaf
from paimon_pyds.format.parquet.page_bodies import packed_bodies
from paimon_pyds.format.parquet.page_index import (
    PageTable,
    agrees,
    decode_column_index,
    decode_offset_indexes,
    encode_offset_indexes,
)
from paimon_pyds.format.parquet.page_picks import DICTIONARIES, PLAIN, RLE
from paimon_pyds.format.parquet.pages import DATA_PAGE, DICTIONARY_PAGE, PageHeads, read_heads
from paimon_pyds.format.parquet.prune import RawBounds, column_stats, page_bounds
from paimon_pyds.format.parquet.source import joined_buffer
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    BOOL_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    check_struct,
    encode_struct,
)

Read: TypeAlias = Callable[[Sequence[tuple[int, int]]], Sequence[bytes]]
"""Gives the bytes of ranges, each an offset and a length."""
_UNORDERED, _ASCENDING, _DESCENDING = 0, 1, 2


class ChunkPages(NamedTuple):
    """The data pages of a column chunk that have no gaps between them.

    Attributes:
        meta: ColumnMetaData of the chunk.
        bounds: of the pages; None where the file has none.
    """

    leaf: Leaf
    chunk: Chunk
    meta: Struct
    table: PageTable
    bounds: RawBounds | None

    def places(self, some: slice) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the file has the dictionary page, of no bytes where there is no such page, and some pages:
        offsets and lengths."""
        start, front = self.chunk.start, int(self.table.offsets[0])
        return (start, front - start), (int(self.table.offsets[some][0]), int(self.table.sizes[some].sum()))


class CopiedChunk(NamedTuple):
    """A column chunk as bytes: ColumnChunk but for the places of its indexes, these, and its pages."""

    fields: Struct
    column_index: bytes | None
    offset_index: bytes
    pages: Sequence[bytes]


def chunk_pages(footer: Footer, keys: Sequence[tuple[int, int]], read: Read) -> list[ChunkPages] | None:
    """The pages of chunks, each of a row group and a leaf; None where one of them has no pages, no index of them, or
    gaps. Raises CorruptFileError: an index is damaged."""
    chunks = [footer.chunk(*key) for key in keys]
    if any(chunk.offset_index is None for chunk in chunks):
        return None
    places = [place for c in chunks for place in (c.offset_index, c.column_index) if place is not None]
    data = dict(zip(places, read(places), strict=True))
    for found in data.values():
        check_struct(found, "page index")
    rows = [stop - start for start, stop in (footer.groups[group] for group, _ in keys)]
    tables = decode_offset_indexes([data[chunk.offset_index or (0, 0)] for chunk in chunks], chunks, rows)
    result = []
    for (group, leaf_index), chunk, table in zip(keys, chunks, tables, strict=True):
        ends = table.offsets + table.sizes
        if not len(table) or (table.offsets[1:] != ends[:-1]).any() or ends[-1] != chunk.stop:
            return None
        leaf, bounds = footer.leaves[leaf_index], None
        if chunk.column_index is not None:
            index = decode_column_index(data[chunk.column_index], len(table))
            if agrees(chunk, index):
                bounds = page_bounds(leaf, index, np.diff(table.first_rows).tolist())
        result.append(ChunkPages(leaf, chunk, footer.chunk_meta(group, leaf_index), table, bounds))
    return result


class PageLimits(NamedTuple):
    """The least and the greatest value of each page, NULL of pages that have only NULLs; and how many NULLs all pages
    have."""

    low: pa.Array
    high: pa.Array
    nulls: int


def page_limits(bounds: RawBounds | None, leaf: Leaf, type_: DataType) -> PageLimits | None:
    """The bounds of pages; None where those of a page, or its number of NULLs, are not known."""
    if bounds is None or min(bounds.nulls) < 0:
        return None
    stats = column_stats(leaf, type_, bounds)
    filled = np.array(bounds.nulls) < np.array(bounds.rows)
    if stats.unknown is not None and bool((stats.unknown & filled).any()):
        return None
    nothing = scalar(None, stats.min.type)
    low, high = (pc.if_else(from_numpy(filled), each, nothing) for each in (stats.min, stats.max))
    missing = len(filled) - int(filled.sum())
    return None if max(low.null_count, high.null_count) > missing else PageLimits(low, high, sum(bounds.nulls))


def known_bounds(bounds: RawBounds | None, leaf: Leaf, type_: DataType) -> tuple[pa.Array, pa.Array] | None:
    """The same without the pages that have only NULLs."""
    limits = page_limits(bounds, leaf, type_)
    return None if limits is None else (limits.low.drop_null(), limits.high.drop_null())


class CopiedPages(NamedTuple):
    """Pages of a chunk that get into another file.

    Attributes:
        pages: all pages of the chunk.
        some: which of them.
        data: the bytes of the dictionary page, empty without one, and those of the others.
    """

    pages: ChunkPages
    some: slice
    data: tuple[bytes, bytes]


def copied_group(columns: Sequence[CopiedPages], fields: Sequence[DataField], rows: int, meta: Struct) -> pa.Buffer:
    """A Parquet file in memory that has these pages as its one row group. ``meta``: FileMetaData with the columns.
    Raises CorruptFileError: as `copied_chunk`."""
    chunks, position = list[CopiedChunk](), len(MAGIC)
    for column, field in zip(columns, fields, strict=True):
        chunks.append(copied_chunk(*column, field.type, position))
        position += sum(map(len, chunks[-1].pages))
    return _file_of(chunks, rows, meta)


def copied_chunk(
    old: ChunkPages, some: slice, data: tuple[bytes, bytes], type_: DataType, position: int
) -> CopiedChunk:
    """A column chunk of some pages of another one.

    Args:
        old: the other chunk.
        some: its pages that are in the new one; one at least.
        data: the bytes of its dictionary page, empty without one, and of these pages.
        type_: of the column.
        position: where the new chunk begins in its file.

    Raises CorruptFileError: a page is not what the index says, or has another checksum.
    """
    dictionary, pages = data
    sizes, rows = old.table.sizes[some], np.diff(old.table.first_rows)[some]
    ends = np.cumsum(sizes)
    heads = checked_heads(pages, ends - sizes, sizes, DATA_PAGE)
    if (heads.values != rows).any():
        raise _not_as_indexed()
    kinds = Counter((DATA_PAGE, encoding) for encoding in heads.encoding.tolist())
    uncompressed = int((heads.length + heads.uncompressed).sum())
    if DICTIONARIES.isdisjoint(heads.encoding.tolist()):
        dictionary = b""
    if dictionary:
        front = checked_heads(dictionary, np.zeros(1, np.int64), np.array([len(dictionary)]), DICTIONARY_PAGE)
        kinds[DICTIONARY_PAGE, PLAIN] = 1
        uncompressed += int((front.length + front.uncompressed).sum())
    begin = position + len(dictionary)
    meta: Struct = {
        **{key: field for key, field in old.meta.items() if key in (1, 3, 4, 8)},
        2: (LIST, (I32, sorted({RLE, *(encoding for _, encoding in kinds)}))),
        5: (I64, int(rows.sum())),
        6: (I64, uncompressed),
        7: (I64, len(dictionary) + len(pages)),
        9: (I64, begin),
        13: (LIST, (STRUCT, [{1: (I32, k), 2: (I32, e), 3: (I32, n)} for (k, e), n in sorted(kinds.items())[::-1]])),
    }
    if dictionary:
        meta[11] = (I64, position)
    statistics, column_index = _described(old, some, type_)
    meta[12] = (STRUCT, statistics)
    (offset_index,) = encode_offset_indexes([(begin + ends - sizes, sizes, np.cumsum(rows) - rows)])
    return CopiedChunk({2: (I64, 0), 3: (STRUCT, meta)}, column_index, offset_index, (dictionary, pages))


def _file_of(chunks: Sequence[CopiedChunk], rows: int, meta: Struct) -> pa.Buffer:
    """A file with one row group of these chunks. ``meta``: FileMetaData with their columns."""
    parts = [MAGIC, *(part for chunk in chunks for part in chunk.pages)]
    size = sum(map(len, parts)) - len(MAGIC)
    position = len(MAGIC) + size
    for chunk in chunks:
        for index, field_id in ((chunk.column_index, 6), (chunk.offset_index, 4)):
            if index is not None:
                chunk.fields[field_id], chunk.fields[field_id + 1] = (I64, position), (I32, len(index))
                parts.append(index)
                position += len(index)
    group: Struct = {
        1: (LIST, (STRUCT, [chunk.fields for chunk in chunks])),
        2: (I64, sum(chunk.fields[3][1][6][1] for chunk in chunks)),
        3: (I64, rows),
        5: (I64, len(MAGIC)),
        6: (I64, size),
    }
    footer = encode_struct({**meta, 3: (I64, rows), 4: (LIST, (STRUCT, [group]))})
    return joined_buffer([*parts, footer, len(footer).to_bytes(4, "little"), MAGIC])


def checked_heads(data: bytes, places: Int64s, sizes: Int64s, kind: int) -> PageHeads:
    """The headers of pages of this kind: where they begin in ``data``, and how long they are.

    Raises CorruptFileError: a page is not what the index says, or has another checksum.
    """
    heads = read_heads(data, places)
    if (heads.kind != kind).any() or (heads.length + heads.compressed != sizes).any() or (heads.compressed < 0).any():
        raise _not_as_indexed()
    packed_bodies(data, places, heads)  # compares checksums
    return heads


def _not_as_indexed() -> CorruptFileError:
    return CorruptFileError("a page that is not what the page index says", field="PageHeader")


def _described(old: ChunkPages, some: slice, type_: DataType) -> tuple[Struct, bytes | None]:
    """Statistics and ColumnIndex of some pages of a chunk."""
    bounds = None if old.bounds is None else old.bounds.part(some)
    known = known_bounds(bounds, old.leaf, type_)
    if bounds is None or known is None:
        return {}, None
    statistics: Struct = {3: (I64, sum(bounds.nulls))}
    low, high = known
    if len(low):
        lows, highs = ([bound for bound in each if bound is not None] for each in (bounds.low, bounds.high))
        least = lows[pc.index(low, pc.min_max(low)["min"]).as_py()]
        greatest = highs[pc.index(high, pc.min_max(high)["max"]).as_py()]
        before = old.meta.get(12, (STRUCT, {}))[1]
        statistics |= {5: (BINARY, greatest), 6: (BINARY, least)}
        statistics |= {key: before[key] for key in (7, 8) if key in before}
        if {1, 2} <= before.keys():
            statistics |= {1: (BINARY, greatest), 2: (BINARY, least)}
    index: Struct = {
        1: (LIST, (BOOL_TRUE, [nulls == rows for nulls, rows in zip(bounds.nulls, bounds.rows, strict=True)])),
        2: (LIST, (BINARY, [bound or b"" for bound in bounds.low])),
        3: (LIST, (BINARY, [bound or b"" for bound in bounds.high])),
        4: (I32, _order(low, high)),
        5: (LIST, (I64, bounds.nulls)),
    }
    return statistics, encode_struct(index)


def _order(low: pa.Array, high: pa.Array) -> int:
    """ColumnIndex.boundary_order."""
    ends = [each.cast(pa.uint8()) if pa.types.is_boolean(each.type) else each for each in (low, high)]
    if all(pc.all(pc.less_equal(each[:-1], each[1:])).as_py() in (True, None) for each in ends):
        return _ASCENDING
    descends = all(pc.all(pc.greater_equal(each[:-1], each[1:])).as_py() for each in ends)
    return _DESCENDING if descends else _UNORDERED
