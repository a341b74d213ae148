"""Reading single pages: a Parquet file is put together in memory from the wanted pages only, and pyarrow decodes it.

pyarrow reads whole column chunks. But a chunk of a flat column is a dictionary page, if it has one, and data pages that
stand for themselves; the OffsetIndex has the location and the rows of each. So the dictionary page, the data pages with
wanted rows and a new footer make a small file; pyarrow decodes it, and the wanted rows are taken from the result.
Columns whose pages are cut at the same rows share one such file, row groups become its row groups. Page headers are
checked against the index; those of many pages are read at once.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DictionaryPageHeader, DataPageHeaderV2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Words, from_numpy, one_array, pc, unaligned_words
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import unsigned_varints, varint_sizes, zigzag_decoded
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.conversion import FIXED, INT96, as_fixed
from paimon_pyds.format.parquet.footer import MAGIC
from paimon_pyds.format.parquet.page_picks import PagePick
from paimon_pyds.format.parquet.source import decoding, joined_buffer, open_reader
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    decode_struct,
    encode_struct,
)

Pages: TypeAlias = Sequence[bytes | memoryview]
"""The bytes of pages, in parts that follow one another."""
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
NO_CHECKSUM = 1 << 32
"""Stands for a missing checksum: checksums have 32 bits."""
_THREADS_FROM = 100_000
"""Values from which pyarrow's threads pay."""
_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2 = 5, 7, 8
"""Fields of a PageHeader."""
_COUNTED = frozenset({I32, BOOL_TRUE, BOOL_FALSE})
_LONGEST_NUMBER = 5
"""Bytes of 32 bits in LEB128."""
_LONGEST_HEAD = 64
"""Bytes of a header spelled as below, and a word."""
_FEW = 16
"""Headers up to which reading one after the other is faster."""
_USUAL = (0x15, None, 0x15, None, 0x15, None, 0x15, None, 0x1C, 0x15, None, 0x15, None, 0x15, None, 0x15, None, 0, 0)
_WITHOUT_CRC = (0x15, None, 0x15, None, 0x15, None, 0x2C, 0x15, None, 0x15, None, 0x15, None, 0x15, None, 0, 0)
"""Tokens of a header of a data page without statistics; None is a number."""


@dataclass(frozen=True, slots=True)
class PageHead:
    """One page header: ``length`` are its own bytes, ``fields`` the numbers in the header of its kind, by field id."""

    kind: int
    length: int
    compressed: int
    uncompressed: int
    crc: int
    fields: dict[int, int]


@dataclass(frozen=True, slots=True)
class PageHeads:
    """The headers of several data pages, in arrays; encoding and that of levels are -1 where a header has none."""

    kind: Int64s
    length: Int64s
    compressed: Int64s
    uncompressed: Int64s
    crc: Int64s
    values: Int64s
    encoding: Int64s
    levels: Int64s

    def part(self, some: slice | Int64s) -> PageHeads:
        """Those of some pages."""
        return PageHeads(*(getattr(self, each.name)[some] for each in fields(PageHeads)))


def read_heads(data: bytes, positions: Int64s) -> PageHeads:
    """The headers at these positions. CorruptFileError for what is no header, or cut off."""
    found = None
    if len(positions) > _FEW:
        found = _at_once(data, positions, _USUAL) or _at_once(data, positions, _WITHOUT_CRC)
    if found is None:
        heads = [read_head(data, position) for position in positions.tolist()]
        rows = [
            (h.kind, h.length, h.compressed, h.uncompressed, h.crc, *(h.fields.get(i, -1) for i in (1, 2, 3)))
            for h in heads
        ]
        found = PageHeads(*np.array(rows, np.int64).reshape(-1, 8).T)
    return found


def _at_once(data: bytes, positions: Int64s, pattern: tuple[int | None, ...]) -> PageHeads | None:
    """All headers when each is spelled like this, in tokens of LEB128; None when one is not."""
    octets, at, found = np.frombuffer(data, np.uint8), positions, list[Words]()
    if int(positions.max()) + _LONGEST_HEAD > len(octets):
        octets = np.concatenate([octets, np.zeros(_LONGEST_HEAD, np.uint8)])
    words = unaligned_words(octets)
    for token in pattern:
        if token is None:
            found.append(words[at])
            sizes = varint_sizes(found[-1])
            if int(sizes.max()) > _LONGEST_NUMBER:
                return None
            at = at + sizes
        elif bool((octets[at] != token).any()):
            return None
        else:
            at = at + 1
    if int(at.max()) > len(data):
        return None
    numbers, _ = unsigned_varints(np.concatenate(found))  # one by one takes twice the time
    rows = list(zigzag_decoded(numbers).reshape(len(found), -1))
    if len(rows) == 7:
        rows.insert(3, np.full(len(positions), NO_CHECKSUM))
    kind, uncompressed, compressed, crc, values, encoding, levels, _ = rows
    if bool((kind != DATA_PAGE).any()):
        return None
    return PageHeads(kind, at - positions, compressed, uncompressed, crc, values, encoding, levels)


def read_head(data: bytes, position: int) -> PageHead:
    """The header at a position. CorruptFileError for what is no header, or cut off."""
    found, end = decode_struct(data, position)
    kind, uncompressed, compressed = (_number(found, field_id, -1) for field_id in (1, 2, 3))
    if compressed < 0:
        raise CorruptFileError(f"a page of {compressed} bytes", field="PageHeader.compressed_page_size")
    inner: Struct = {}
    for field_id in (_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2):
        wire, value = found.get(field_id, (0, None))
        if wire == STRUCT:
            inner = value
    fields = {field_id: int(value) for field_id, (wire, value) in inner.items() if wire in _COUNTED}
    return PageHead(kind, end - position, compressed, uncompressed, _number(found, 4, NO_CHECKSUM), fields)


def _number(fields: Struct, field_id: int, default: Any) -> Any:
    wire, value = fields.get(field_id, (0, None))
    return value if wire == I32 else default


def page_heads(picks: Sequence[PagePick], data: bytes) -> tuple[list[tuple[int, PageHead | None]], Int64s, PageHeads]:
    """What the pages of one column say of themselves.

    ``picks``: of one row group after the other. ``data``: the bytes of their ranges, strung together.

    Returns:
        The offset in ``data`` at which each pick begins, with the header of its dictionary page, if any; the offsets of
            the data pages; and their headers.

    Raises:
        CorruptFileError: a page is not as long, or holds not as many values, as the page index says (rows would shift),
            or claims to become more than its column chunk.
    """
    dictionaries, places, begin = [], list[Int64s](), 0
    for pick in picks:
        dictionary = _dictionary_head(pick, data, begin)
        dictionaries.append((begin, dictionary))
        places.append(begin + pick.prefix[1] + np.cumsum(pick.sizes) - pick.sizes)
        begin += pick.size
    positions = np.concatenate(places)
    heads = read_heads(data, positions)
    sizes, rows = (np.concatenate([getattr(pick, name) for pick in picks]) for name in ("sizes", "rows"))
    found, is_data = heads.length + heads.compressed, (heads.kind == DATA_PAGE) | (heads.kind == DATA_PAGE_V2)
    wrong = ~is_data | (found != sizes) | (heads.values != rows) | (heads.compressed < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise _not_as_indexed(found[at], heads.values[at], sizes[at], rows[at])
    largest = np.repeat([pick.chunk.uncompressed_size for pick in picks], [len(pick.sizes) for pick in picks])
    wrong = (heads.uncompressed < 0) | (heads.uncompressed > largest)
    if wrong.any():
        at = int(np.argmax(wrong))
        _check_sizes(int(heads.uncompressed[at]), int(heads.compressed[at]), largest[at])
    return dictionaries, positions, heads


def heads_one_by_one(picks: Sequence[PagePick], data: bytes) -> list[list[tuple[int, PageHead]]]:
    """For each pick the offsets of its data pages in ``data`` and their headers, checked as in `page_heads`: faster for
    few pages."""
    result, position = [], 0
    for pick in picks:
        _dictionary_head(pick, data, position)
        position += pick.prefix[1]
        found = []
        for size, rows in zip(pick.sizes.tolist(), pick.rows.tolist(), strict=True):
            head = read_head(data, position)
            length, values = head.length + head.compressed, head.fields.get(1, -1)
            if head.kind not in (DATA_PAGE, DATA_PAGE_V2) or length != size or values != rows:
                raise _not_as_indexed(length, values, size, rows)
            _check_sizes(head.uncompressed, head.compressed, pick.chunk.uncompressed_size)
            found.append((position, head))
            position += size
        result.append(found)
    return result


def _dictionary_head(pick: PagePick, data: bytes, begin: int) -> PageHead | None:
    """The header of the dictionary page of a pick that begins here in ``data``; None where it has no such page."""
    if not pick.prefix[1]:
        return None
    head = read_head(data, begin)
    _check_sizes(head.uncompressed, head.compressed, pick.chunk.uncompressed_size)
    if head.kind != DICTIONARY_PAGE or head.length + head.compressed != pick.prefix[1]:
        raise CorruptFileError("the bytes before the first data page are not a dictionary page", field="PageHeader")
    return head


def _not_as_indexed(found: int, values: int, size: int, rows: int) -> CorruptFileError:
    return CorruptFileError(
        f"a page of {found} bytes with {values} values, the page index says {size} and {rows}", field="PageHeader"
    )


def _check_sizes(uncompressed: int, compressed: int, chunk_size: int) -> None:
    """CorruptFileError where decompressing a page gives more than its column chunk has."""
    if not 0 <= uncompressed <= chunk_size:
        raise CorruptFileError(
            f"a page of {compressed} bytes that claims to become {uncompressed}, its column chunk has {chunk_size}",
            field="PageHeader.uncompressed_page_size",
        )


def decode_picks(picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[Pages]], path: str) -> list[pa.Array]:
    """The wanted rows, an array per column.

    ``picks``: per column, its picks in one row group after the other; `page_heads` finds nothing wrong with them.
    ``data``: per column and pick, the bytes of `PagePick.ranges`.
    Raises CorruptFileError: the pages can't be decoded.
    """
    alike: dict[bytes, list[int]] = {}
    for column, column_picks in enumerate(picks):
        alike.setdefault(b"|".join(p.boundaries for p in column_picks), []).append(column)
    result: list[pa.Array | None] = [None] * len(picks)
    for columns in alike.values():
        decoded = _decode([picks[c] for c in columns], [data[c] for c in columns], path)
        same = picks[columns[0]]
        before = accumulate((pick.covered for pick in same), initial=0)
        local = np.concatenate([pick.local + rows for pick, rows in zip(same, before, strict=False)])
        first, together = int(local[0]), int(local[-1]) - int(local[0]) + 1 == len(local)
        for column, values in zip(columns, decoded, strict=True):
            taken = values.slice(first, len(local)) if together else pc.take(values, from_numpy(local))
            result[column] = one_array(taken)
    return [array for array in result if array is not None]


def _decode(picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[Pages]], path: str) -> list[pa.ChunkedArray]:
    """Columns of all rows in the picked pages, which are cut alike."""
    rows = [p.covered for p in picks[0]]
    with decoding(path):
        file = _file_of(picks, data, rows)
        threads = sum(rows) * len(picks) >= _THREADS_FROM
        table = open_reader(pa.BufferReader(file)).read_all(use_threads=threads)
    if table.num_rows != sum(rows) or table.num_columns != len(picks):
        raise CorruptFileError(f"pages of {sum(rows)} rows decode to {table.num_rows}", path=path, field="num_values")
    return list(table.columns)


def _file_of(picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[Pages]], rows: Sequence[int]) -> pa.Buffer:
    body: list[bytes | memoryview] = [MAGIC]
    position = len(MAGIC)
    groups: list[Struct] = []
    for part, row_count in enumerate(rows):
        chunks: list[Struct] = []
        for column_picks, column_data in zip(picks, data, strict=True):
            pick = column_picks[part]
            chunks.append(_chunk(pick, position, pick.size, row_count))
            body += column_data[part]
            position += pick.size
        groups.append({1: (LIST, (STRUCT, chunks)), 2: (I64, position), 3: (I64, row_count)})
    elements: list[Struct] = [{4: (BINARY, b"schema"), 5: (I32, len(picks))}]
    elements += [as_fixed(p[0].leaf.element) for p in picks]
    meta: Struct = {1: (I32, 1), 2: (LIST, (STRUCT, elements)), 3: (I64, sum(rows)), 4: (LIST, (STRUCT, groups))}
    footer = encode_struct(meta)
    return joined_buffer([*body, footer, len(footer).to_bytes(4, "little"), MAGIC])


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
