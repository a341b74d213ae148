"""Reading single pages: a Parquet file is put together in memory from the wanted pages only, and pyarrow decodes it.

pyarrow reads whole column chunks. But a chunk of a flat column is a dictionary page, if it has one, and data pages that
stand for themselves; the OffsetIndex tells where each lies and which rows it holds. So for the rows that are wanted, a
small file is made of the dictionary page, the data pages with those rows and a new footer, and the rows are taken from
what it decodes to. Columns whose pages are cut at the same rows share one such file, row groups become its row groups.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DataPageHeaderV2), PageIndex.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.decoding import decoding, open_file
from paimon_pyds.formats.parquet.footer import MAGIC, Chunk, Leaf
from paimon_pyds.formats.parquet.int96 import FIXED, INT96, as_fixed
from paimon_pyds.formats.parquet.page_header import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    PageHead,
    read_head,
    read_heads,
)
from paimon_pyds.formats.parquet.page_index import PageTable
from paimon_pyds.formats.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, Struct, encode_struct

__all__ = ["PagePick", "decode_picks", "page_heads", "pick_pages"]

_THREADS_FROM = 16
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PagePick:
    """The pages of one column chunk that hold the wanted rows.

    ``starts`` and ``sizes`` are bytes of the file, ``rows`` how many rows each page has; ``local`` are the wanted rows,
    counted in the rows of these pages; ``prefix`` is where the dictionary page lies.
    """

    leaf: Leaf
    chunk: Chunk
    starts: _Int64s
    sizes: _Int64s
    rows: _Int64s
    local: _Int64s
    prefix: tuple[int, int]
    cut: bytes

    @property
    def covered(self) -> int:
        """Rows that have to be decoded."""
        return int(self.rows.sum())

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.prefix[1] + int(self.sizes.sum())

    def ranges(self) -> list[tuple[int, int]]:
        """What to read: (offset, length), the dictionary page first, pages that touch in one."""
        found = [self.prefix] if self.prefix[1] else []
        ends = self.starts + self.sizes
        gaps = np.flatnonzero(self.starts[1:] != ends[:-1]).tolist()
        for first, last in zip([0, *(gap + 1 for gap in gaps)], [*gaps, -1], strict=True):
            begin = int(self.starts[first])
            found.append((begin, int(ends[last]) - begin))
        return found


def pick_pages(pages: Mapping[int, tuple[Leaf, Chunk, PageTable]], rows: _Int64s) -> dict[int, PagePick]:
    """The pages of column chunks of one row group that hold ``rows`` (numbers within it, ascending, at least one).

    The chunks go by any number; those whose pages begin at the same rows share the arrays of their picks.
    """
    cuts: dict[bytes, tuple[_Int64s, _Int64s, _Int64s, bytes]] = {}
    picks = {}
    for number, (leaf, chunk, table) in pages.items():
        key = table.first_rows.tobytes()
        if key not in cuts:
            cuts[key] = _cut_pages(table.first_rows, rows)
        at, counts, local, cut = cuts[key]
        prefix = (chunk.start, int(table.offsets[0]) - chunk.start)
        picks[number] = PagePick(leaf, chunk, table.offsets[at], table.sizes[at], counts, local, prefix, cut)
    return picks


def _cut_pages(first_rows: _Int64s, rows: _Int64s) -> tuple[_Int64s, _Int64s, _Int64s, bytes]:
    """Which pages hold these rows, how many rows each has, where in them the wanted ones are, and a name of the cut."""
    wanted = np.diff(np.searchsorted(rows, first_rows))
    pages = np.flatnonzero(wanted)
    first = first_rows[pages]
    counts = first_rows[pages + 1] - first
    before = np.cumsum(counts) - counts
    return pages, counts, rows - np.repeat(first - before, wanted[pages]), first.tobytes() + counts.tobytes()


def decode_picks(picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[bytes]], path: str) -> list[pa.Array]:
    """The wanted rows, an array per column.

    Args:
        picks: per column, its picks in one row group after the other.
        data: per column and row group, the bytes of `PagePick.ranges`, strung together.
        path: of the file, for errors.

    Raises:
        CorruptFileError: the pages are not what the index says, or can't be decoded.
    """
    alike: dict[bytes, list[int]] = {}
    for column, column_picks in enumerate(picks):
        alike.setdefault(b"|".join(p.cut for p in column_picks), []).append(column)
    result: list[pa.Array | None] = [None] * len(picks)
    for columns in alike.values():
        decoded = _decode([picks[c] for c in columns], [data[c] for c in columns], path)
        local = _local_rows(picks[columns[0]])
        for column, values in zip(columns, decoded, strict=True):
            taken = pc.take(values, local)
            result[column] = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
    return [array for array in result if array is not None]


def _local_rows(picks: Sequence[PagePick]) -> pa.Array:
    parts, before = [], 0
    for pick in picks:
        parts.append(pick.local + before)
        before += pick.covered
    return pa.array(np.concatenate(parts))


def _decode(picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[bytes]], path: str) -> list[pa.ChunkedArray]:
    """Columns of all rows in the picked pages, which are cut alike."""
    rows = [p.covered for p in picks[0]]
    file = _file_of(picks, data, rows, path)
    with decoding(path):
        table = open_file(pa.BufferReader(file)).read(use_threads=sum(len(p.starts) for p in picks[0]) >= _THREADS_FROM)
    if table.num_rows != sum(rows) or table.num_columns != len(picks):
        raise CorruptFileError(f"pages of {sum(rows)} rows decode to {table.num_rows}", path=path, field="num_values")
    return list(table.columns)


def _file_of(
    picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[bytes]], rows: Sequence[int], path: str
) -> bytes:
    body: list[bytes] = [MAGIC]
    position = len(MAGIC)
    groups: list[Struct] = []
    for part, row_count in enumerate(rows):
        chunks: list[Struct] = []
        for column_picks, column_data in zip(picks, data, strict=True):
            pick, pages = column_picks[part], column_data[part]
            try:
                page_heads(pick, pages)
            except CorruptFileError as error:
                raise CorruptFileError(error.message, path=path) from None
            chunks.append(_chunk(pick, position, len(pages), row_count))
            body.append(pages)
            position += len(pages)
        groups.append({1: (LIST, (STRUCT, chunks)), 2: (I64, position), 3: (I64, row_count)})
    footer = _footer([p[0].leaf for p in picks], groups, sum(rows))
    return b"".join([*body, footer, len(footer).to_bytes(4, "little"), MAGIC])


def _chunk(pick: PagePick, position: int, size: int, rows: int) -> Struct:
    chunk, prefix = pick.chunk, pick.prefix[1]
    meta: Struct = {
        1: (I32, FIXED if chunk.physical == INT96 else chunk.physical),
        2: (LIST, (I32, list(chunk.encodings))),
        3: (LIST, (BINARY, list(chunk.path))),
        4: (I32, chunk.codec),
        5: (I64, rows),
        6: (I64, chunk.uncompressed_size),
        7: (I64, size),
        9: (I64, position + prefix),
    }
    if prefix:
        meta[11] = (I64, position)
    return {2: (I64, position), 3: (STRUCT, meta)}


def _footer(leaves: Sequence[Leaf], groups: list[Struct], rows: int) -> bytes:
    elements: list[Struct] = [{4: (BINARY, b"schema"), 5: (I32, len(leaves))}]
    elements += [as_fixed(leaf.element) for leaf in leaves]
    return encode_struct({1: (I32, 1), 2: (LIST, (STRUCT, elements)), 3: (I64, rows), 4: (LIST, (STRUCT, groups))})


def page_heads(pick: PagePick, data: bytes) -> tuple[PageHead | None, _Int64s, list[PageHead]]:
    """The header of the dictionary page, if there is one; where the data pages lie in ``data``; and their headers.

    Raises:
        CorruptFileError: a page is not as long, or holds not as many values, as the page index says (rows would shift),
            or claims to become more than its column chunk.
    """
    begin, dictionary = pick.prefix[1], None
    if begin:
        dictionary = read_head(data, 0)
        if dictionary.kind != DICTIONARY_PAGE or _size(dictionary, pick.chunk) != begin:
            raise CorruptFileError("what stands before the first data page is no dictionary page", field="PageHeader")
    positions = begin + np.cumsum(pick.sizes) - pick.sizes
    heads = read_heads(data, positions)
    for head, size, rows in zip(heads, pick.sizes.tolist(), pick.rows.tolist(), strict=True):
        found, values = _size(head, pick.chunk), head.fields.get(1)
        if head.kind not in (DATA_PAGE, DATA_PAGE_V2) or found != size or values != rows:
            raise CorruptFileError(
                f"a page of {found} bytes with {values} values, the page index says {size} and {rows}",
                field="PageHeader",
            )
    return dictionary, positions, heads


def _size(head: PageHead, chunk: Chunk) -> int:
    """Bytes of a page with its header, when decompressing it gives no more than its chunk has."""
    if not 0 <= head.uncompressed <= chunk.uncompressed_size:
        raise CorruptFileError(
            f"a page of {head.compressed} bytes that claims to become {head.uncompressed}, its column chunk has "
            f"{chunk.uncompressed_size}", field="PageHeader.uncompressed_page_size",
        )  # fmt: skip
    return head.length + head.compressed
