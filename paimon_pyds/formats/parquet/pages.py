"""Reading single pages: a Parquet file is put together in memory from the wanted pages only, and pyarrow decodes it.

pyarrow reads whole column chunks. But a chunk of a flat column is a dictionary page, if it has one, and data pages that
stand for themselves; the OffsetIndex tells where each lies and which rows it holds. So for the rows that are wanted, a
small file is made of the dictionary page, the data pages with those rows and a new footer, and the rows are taken from
what it decodes to. Columns whose pages are cut at the same rows share one such file, row groups become its row groups.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DataPageHeaderV2), PageIndex.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.decoding import decoding, open_file
from paimon_pyds.formats.parquet.footer import MAGIC, Chunk, Leaf
from paimon_pyds.formats.parquet.int96 import FIXED, INT96, as_fixed
from paimon_pyds.formats.parquet.pageindex import PageTable
from paimon_pyds.formats.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    encode_struct,
    field_head,
    skip_field,
    varint,
    zigzag,
)  # fmt: skip

__all__ = ["PagePick", "decode_picks", "pick_pages"]

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
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
        gaps = np.flatnonzero(self.starts[1:] != self.starts[:-1] + self.sizes[:-1]) + 1
        first = np.concatenate(([0], gaps))
        begin = self.starts[first]
        end = (self.starts + self.sizes)[np.concatenate((gaps - 1, [len(self.starts) - 1]))]
        found.extend(zip(begin.tolist(), (end - begin).tolist(), strict=True))
        return found


def pick_pages(leaf: Leaf, chunk: Chunk, table: PageTable, rows: _Int64s) -> PagePick:
    """The pages that hold ``rows`` (numbers within the row group, ascending, at least one)."""
    at = np.searchsorted(table.first_rows, rows, side="right") - 1
    pages = at[np.concatenate(([True], at[1:] != at[:-1]))]
    first = table.first_rows[pages]
    counts = table.first_rows[pages + 1] - first
    before = np.cumsum(counts) - counts
    place = np.searchsorted(pages, at)
    prefix = (chunk.start, int(table.offsets[0]) - chunk.start)
    return PagePick(
        leaf, chunk, table.offsets[pages], table.sizes[pages], counts, rows - first[place] + before[place], prefix,
        first.tobytes() + counts.tobytes(),
    )  # fmt: skip


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
            _check_pages(pick, pages, path)
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


# ------------------------------------------------------------------------------------------------------ page headers


def _check_pages(pick: PagePick, data: bytes, path: str) -> None:
    """Each page is as long, and holds as many values, as the index says: else rows would shift."""
    position = pick.prefix[1]
    try:
        if position:
            kind, size, _ = _page_header(data, 0, pick.chunk.uncompressed_size)
            if kind != _DICTIONARY_PAGE or size != position:
                raise CorruptFileError(
                    "what stands before the first data page is no dictionary page", field="PageHeader"
                )
        for size, rows in zip(pick.sizes.tolist(), pick.rows.tolist(), strict=True):
            kind, found, values = _page_header(data, position, pick.chunk.uncompressed_size)
            if kind not in (_DATA_PAGE, _DATA_PAGE_V2) or found != size or values != rows:
                raise CorruptFileError(
                    f"a page of {found} bytes with {values} values, the page index says {size} and {rows}",
                    field="PageHeader",
                )
            position += size
    except IndexError:
        raise CorruptFileError("a page header is cut off", path=path, field="PageHeader") from None
    except CorruptFileError as error:
        raise CorruptFileError(error.message, path=path) from None


def _page_header(data: bytes, pos: int, limit: int) -> tuple[int, int, int]:
    """Type, whole length and number of values of the page at ``pos``, none of whose claims exceeds ``limit`` bytes."""
    start, field_id = pos, 0
    kind = uncompressed = compressed = values = -1
    while True:
        wire, field_id, pos = field_head(data, pos, field_id)
        if wire == 0:
            break
        if field_id <= 3 and wire == I32:
            raw, pos = varint(data, pos)
            if field_id == 1:
                kind = zigzag(raw)
            elif field_id == 2:
                uncompressed = zigzag(raw)
            else:
                compressed = zigzag(raw)
        elif field_id in (5, 8) and wire == STRUCT and data[pos] == 0x15:  # num_values is the first field of both
            raw, _ = varint(data, pos + 1)
            values = zigzag(raw)
            pos = skip_field(data, pos, wire)
        else:
            pos = skip_field(data, pos, wire)
    if compressed < 0 or not 0 <= uncompressed <= limit:
        raise CorruptFileError(
            f"a page of {compressed} bytes that claims to become {uncompressed}, its column chunk has {limit}",
            field="PageHeader.uncompressed_page_size",
        )
    return kind, pos - start + compressed, values
