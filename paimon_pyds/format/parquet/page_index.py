"""The page index: the location and the bounds of each page of a column chunk.

Source: apache/parquet-format, PageIndex.md and parquet.thrift (OffsetIndex, PageLocation, ColumnIndex). Both are lists
with an entry per page; the usual spelling is decoded with numpy for all pages at once, any other field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Octets, join_binary, scalar, unaligned_words
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import LONGER, unsigned_varints, unzigzag, zigzag_decoded
from paimon_pyds.base.varints import varint as varint_of
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.footer import Chunk, require
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
    decode_struct,
    field_head,
    list_head,
    skip_field,
    varint,
)

_Columns: TypeAlias = tuple[Int64s, Int64s, Int64s]
_Bounds: TypeAlias = "list[bytes] | Octets"
"""Byte strings; those of one length as rows of bytes."""
_INTEGERS = (1, 2)
"""Parquet's numbers of the physical types INT32 and INT64."""
_NULL_PAGES, _MIN_VALUES, _MAX_VALUES, _BOUNDARY_ORDER, _NULL_COUNTS = range(1, 6)
"""Fields of a ColumnIndex."""
_HEADS = (0x16, 0x15, 0x16)
"""The bytes before the fields of a PageLocation: its offset (i64), size (i32), and first row (i64)."""
_LONGEST_LOCATION = 40
"""Bytes of three numbers that fit words, what stands around them, and a word."""
_OBJECT_BYTES = 48
"""Bytes that a byte string takes in addition to its content."""
_BLOCK_BYTES = 1 << 17
"""Bytes of indexes that are decoded at once: their arrays stay in the processor's cache, in memory that is used
again."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """The data pages of one column chunk, in order.

    ``offsets`` are file positions of the page headers, ``sizes`` lengths with header, ``first_rows`` row numbers within
    the row group, with the group's row count as last element (so one longer than the others).
    """

    offsets: Int64s
    sizes: Int64s
    first_rows: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.sizes.nbytes + self.first_rows.nbytes


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """Bounds of the values of each page, in Parquet's plain encoding; of a page of NULLs only they are empty."""

    null_pages: Flags
    minima: _Bounds
    maxima: _Bounds
    null_counts: Int64s | None

    @property
    def nbytes(self) -> int:
        counts = 0 if self.null_counts is None else self.null_counts.nbytes
        return (
            self.null_pages.nbytes
            + counts
            + sum(
                sum(map(len, values)) + _OBJECT_BYTES * len(values) if isinstance(values, list) else values.nbytes
                for values in (self.minima, self.maxima)
            )
        )


def decode_offset_indexes(data: Sequence[bytes], chunks: Sequence[Chunk], rows: Sequence[int]) -> list[PageTable]:
    """The page tables of column chunks; ``rows`` has the number of rows of each one's row group.
    Raises CorruptFileError: pages outside their chunk, overlapping, or rows that do not ascend from 0."""
    return [_table(*found) for found in zip(decode_locations(data), chunks, rows, strict=True)]


def _table(locations: _Columns, chunk: Chunk, rows: int) -> PageTable:
    offsets, sizes, first = locations
    if not len(offsets):
        if rows:
            raise CorruptFileError(f"no pages for {rows} rows", field="page_locations")
        return PageTable(offsets, sizes, np.zeros(1, np.int64))
    ends = offsets + sizes
    if offsets[0] < chunk.start or ends[-1] > chunk.stop or sizes.min() <= 0 or (offsets[1:] < ends[:-1]).any():
        raise CorruptFileError("pages outside their column chunk, or overlapping", field="PageLocation.offset")
    first_rows = np.empty(len(first) + 1, np.int64)
    first_rows[:-1], first_rows[-1] = first, rows
    if first_rows[0] != 0 or (first_rows[1:] <= first_rows[:-1]).any():
        raise CorruptFileError("first rows of pages do not ascend", field="PageLocation.first_row_index")
    return PageTable(offsets, sizes, first_rows)


def decode_locations(data: Sequence[bytes]) -> list[_Columns]:
    """Offsets, sizes and first rows of OffsetIndexes, unchecked. Raises CorruptFileError: one of them is not an
    OffsetIndex."""
    found, before = list[_Columns](), accumulate(map(len, data), initial=0)
    for _, block in groupby(zip(data, before, strict=False), lambda one: one[1] // _BLOCK_BYTES):
        together = [index for index, _ in block]
        found += _locations_at_once(together) or map(_locations_one_by_one, together)
    return found


def encode_offset_indexes(locations: Sequence[_Columns]) -> list[bytes]:
    """The OffsetIndexes of pages with these offsets, sizes and first rows."""
    if not locations:
        return []
    numbers = zip(_HEADS, map(np.concatenate, zip(*locations, strict=True)), strict=True)
    from paimon_pyds.format.avro.encode import varints

    fields = [part for head, values in numbers for part in (scalar(bytes([head]), pa.binary()), varints(values))]
    body, bounds = join_binary(*fields, scalar(b"\0", pa.binary()))
    counts = [len(offsets) for offsets, _, _ in locations]
    edges = bounds[np.append(0, np.cumsum(counts))].tolist()
    return [
        _head_of_list(count) + body[start:stop] + b"\0"
        for count, (start, stop) in zip(counts, pairwise(edges), strict=True)
    ]


def _head_of_list(count: int) -> bytes:
    """What stands before the locations of ``count`` pages."""
    return bytes([0x19, count << 4 | STRUCT]) if count < 15 else bytes([0x19, 0xF0 | STRUCT]) + varint_of(count)


def _locations_at_once(data: Sequence[bytes]) -> list[_Columns] | None:
    """All PageLocations when each is spelled as its three fields in order; None when one is not.

    No byte of theirs is 0 but the one behind each, and the number of an index's first row: so they are cut apart.
    """
    heads = [_head_of_locations(d) for d in data]
    bodies = [d[pos:] for d, (_, pos) in zip(data, heads, strict=True)]
    body = np.frombuffer(b"".join([*bodies, bytes(_LONGEST_LOCATION)]), np.uint8)
    zeros, begins = np.flatnonzero(body == 0), [*accumulate(map(len, bodies), initial=0)]
    edges = (np.searchsorted(zeros, begins) + 1).tolist()
    if any(size == 0 or low + size + 1 >= high for (size, _), (low, high) in zip(heads, pairwise(edges), strict=True)):
        return None
    pages = [*accumulate((size for size, _ in heads), initial=0)]
    stops = np.concatenate([zeros[low : low + size] for low, (size, _) in zip(edges, heads, strict=False)])
    at = np.append(0, stops[:-1] + 1)
    at[pages[:-1]] = begins[:-1]
    words, columns = unaligned_words(body), []
    for head in _HEADS:
        if (body[at] != head).any():
            return None
        numbers, sizes = unsigned_varints(words[at + 1])
        if sizes.max() == LONGER:
            return None
        columns.append(zigzag_decoded(numbers))
        at += sizes + np.int64(1)
    if (at != stops).any():
        return None
    first, second, third = columns
    return [(first[low:high], second[low:high], third[low:high]) for low, high in pairwise(pages)]


def _head_of_locations(data: bytes) -> tuple[int, int]:
    """How many PageLocations there are, and where the first begins; no pages where anything else stands there."""
    if len(data) < 3 or data[0] != 0x19 or data[1] & 0x0F != STRUCT:  # field 1, a list of structs
        return 0, 0
    if data[1] >> 4 < 15:
        return data[1] >> 4, 2
    try:
        return varint(data, 2)
    except IndexError:
        return 0, 0


def _locations_one_by_one(data: bytes) -> _Columns:
    index, _ = decode_struct(data)
    element, locations = require(index, 1, LIST, "OffsetIndex.page_locations")
    if locations and element != STRUCT:
        raise CorruptFileError("not a list of structs", field="OffsetIndex.page_locations")
    offsets = [require(p, 1, I64, "PageLocation.offset") for p in locations]
    sizes = [require(p, 2, I32, "PageLocation.compressed_page_size") for p in locations]
    rows = [require(p, 3, I64, "PageLocation.first_row_index") for p in locations]
    return _int64(offsets), _int64(sizes), _int64(rows)


def _int64(values: list[int]) -> Int64s:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise CorruptFileError("a number of more than 64 bits", field="page index") from None


def decode_column_index(data: bytes, pages: int) -> ColumnIndex:
    """The bounds of ``pages`` pages.
    Raises CorruptFileError: another number of entries, a field of the wrong type, or one that is missing."""
    null_pages: Flags | None = None
    bounds: dict[int, _Bounds] = {}
    counts: Int64s | None = None
    pos = field_id = 0
    try:
        while True:
            wire, field_id, pos = field_head(data, pos, field_id)
            if wire == 0 or field_id > _NULL_COUNTS:  # fields ascend; histograms of levels follow
                break
            if wire != LIST or field_id == _BOUNDARY_ORDER:
                pos = skip_field(data, pos, wire)
                continue
            element, size, pos = list_head(data, pos)
            if size != pages:
                raise CorruptFileError(f"{size} entries for {pages} pages", field=f"ColumnIndex field {field_id}")
            if field_id == _NULL_PAGES and element in (BOOL_TRUE, BOOL_FALSE):
                null_pages = np.frombuffer(data, np.uint8, size, pos) == 1
                pos += size
            elif field_id in (_MIN_VALUES, _MAX_VALUES) and element == BINARY:
                bounds[field_id], pos = _binaries(data, pos, size)
            elif field_id == _NULL_COUNTS and element == I64:
                counts, pos = _numbers(data, pos, size)
            else:
                raise CorruptFileError(f"a list of Thrift type {element}", field=f"ColumnIndex field {field_id}")
    except (IndexError, ValueError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError("the column index is cut off", field="ColumnIndex") from None
    if null_pages is None or len(bounds) != 2:
        raise CorruptFileError("a required field is missing", field="ColumnIndex")
    return ColumnIndex(null_pages, bounds[_MIN_VALUES], bounds[_MAX_VALUES], counts)


def agrees(chunk: Chunk, index: ColumnIndex) -> bool:
    """Whether the bounds of pages can be those of their chunk: the least and the greatest integer are each in some
    page.

    Bounds that a writer may shorten, or of types with several forms of one value, are not compared.
    """
    stats = chunk.statistics or {}
    if chunk.physical not in _INTEGERS:
        return True
    return all(
        found is None or found[0] != BINARY or _holds(values, found[1])
        for found, values in ((stats.get(6), index.minima), (stats.get(5), index.maxima))
    )


def _holds(bounds: _Bounds, value: bytes) -> bool:
    if isinstance(bounds, list):
        return value in bounds
    return len(value) == bounds.shape[1] and bool((bounds == np.frombuffer(value, np.uint8)).all(axis=1).any())


def listed(bounds: _Bounds) -> list[bytes]:
    """Bounds of a column index, one by one."""
    if isinstance(bounds, list):
        return bounds
    data, width = bounds.tobytes(), bounds.shape[1]
    return [data[at : at + width] for at in range(0, len(data), width)]


def _binaries(data: bytes, pos: int, count: int) -> tuple[_Bounds, int]:
    """A list of byte strings; those of one short length, as numbers are, are cut out in one go."""
    length = data[pos] if count else 0
    stop = pos + count * (length + 1)
    if 0 < length < 0x80 and stop <= len(data):
        heads = data[pos : stop : length + 1]
        if heads.count(length) == count:
            return np.frombuffer(data, np.uint8, stop - pos, pos).reshape(count, -1)[:, 1:], stop
    values = []
    for _ in range(count):
        length, pos = varint(data, pos)
        if length > len(data) - pos:
            raise CorruptFileError(f"{length} bytes claimed, {len(data) - pos} left", offset=pos, field="ColumnIndex")
        values.append(data[pos : pos + length])
        pos += length
    return values, pos


def _numbers(data: bytes, pos: int, count: int) -> tuple[Int64s, int]:
    raw = np.frombuffer(data, np.uint8, count, pos)
    if (raw < 0x80).all():  # one byte each
        return (raw >> 1).astype(np.int64) ^ -(raw & 1).astype(np.int64), pos + count
    values = []
    for _ in range(count):
        number, pos = varint(data, pos)
        values.append(unzigzag(number))
    return _int64(values), pos
