"""Gathering values: when few rows of a page are wanted, their stored values are cut out and the rest is not decoded.

Decompressing a page costs less than half of reading it; the rest goes into rows that nobody wants. So the wanted values
are copied, as they are stored, into a small uncompressed page, and pyarrow decodes that. Types never matter here.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DataPageHeaderV2), Encodings.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from threading import Semaphore

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parallel import all_of
from paimon_pyds.formats.parquet.decoding import decoding
from paimon_pyds.formats.parquet.footer import Leaf, get
from paimon_pyds.formats.parquet.int96 import FIXED, INT96
from paimon_pyds.formats.parquet.page_header import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PageHead
from paimon_pyds.formats.parquet.pages import PagePick, page_heads
from paimon_pyds.formats.parquet.rle import binary_bounds, binary_stride, hybrid_at
from paimon_pyds.formats.parquet.thrift import I32, STRUCT, Struct, encode_struct, write_varint

__all__ = ["BYTE_ARRAY", "UNCOMPRESSED", "can_gather", "gather_values"]

_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY = 0, 2, 3, 4, 8
_ENCODINGS = frozenset({_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY})
_DICTIONARIES = frozenset({_PLAIN_DICTIONARY, _RLE_DICTIONARY})
_CODECS = {1: "snappy", 2: "gzip", 6: "zstd", 7: "lz4_raw"}
UNCOMPRESSED = 0
_NUMBERS = {4: "<u4", 8: "<u8"}
_WIDTHS = {1: 4, 2: 8, INT96: 12, 4: 4, 5: 8}
BYTE_ARRAY = 6
_LEAST_ROWS_PER_WANTED = 16
_THREADS_FROM = 64
"""Pages that are worth a thread."""
_MOST_BYTES = 64 << 20
"""Of a page, decompressed; larger ones are left to pyarrow."""

_Int64s = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def can_gather(pick: PagePick) -> bool:
    """Whether so few rows of these pages are wanted that gathering pays, and their encodings are known here."""
    chunk = pick.chunk
    return (
        len(pick.local) * _LEAST_ROWS_PER_WANTED <= pick.covered
        and (chunk.codec in _CODECS or chunk.codec == UNCOMPRESSED)
        and (chunk.physical in _WIDTHS or chunk.physical in (BYTE_ARRAY, FIXED))
        and _ENCODINGS.issuperset(chunk.encodings)
        and (chunk.physical == BYTE_ARRAY or _DICTIONARIES.isdisjoint(chunk.encodings))  # numbers are looked up as fast
    )


def gather_values(
    picks: Sequence[Sequence[PagePick]], data: Sequence[Sequence[bytes]], path: str, threads: int, permits: Semaphore
) -> tuple[list[Sequence[PagePick]], list[Sequence[bytes]]]:
    """Picks of small pages with the wanted rows only, and their bytes; columns to be decoded whole stay as they are.

    Args:
        picks: per column, its picks in one row group after the other.
        data: per column and row group, the bytes of `PagePick.ranges`, strung together.
        path: of the file, for errors.
        threads: how many work at a time, at most.
        permits: permits for them.

    Raises:
        CorruptFileError: the pages are not what the index says, or can't be decompressed.
    """
    columns = [i for i, column in enumerate(picks) if all(map(can_gather, column))]
    pieces = [partial(_gather, picks[i][j], data[i][j], path) for i in columns for j in range(len(picks[i]))]
    pages = sum(len(pick.starts) for i in columns for pick in picks[i])
    done = iter(all_of(pieces, threads if pages >= _THREADS_FROM else 1, permits))
    gathered_picks, gathered_data = list(picks), list(data)
    for i in columns:
        found = [next(done) for _ in picks[i]]
        whole = [one for one in found if one is not None]
        if len(whole) == len(found):
            gathered_picks[i], gathered_data[i] = [pick for pick, _ in whole], [pages for _, pages in whole]
    return gathered_picks, gathered_data


def _gather(pick: PagePick, data: bytes, path: str) -> tuple[PagePick, bytes] | None:
    try:
        with decoding(path):
            return _Thinner(pick, data).run()
    except IndexError:
        raise CorruptFileError("a page header is cut off", path=path, field="PageHeader") from None
    except CorruptFileError as error:
        raise CorruptFileError(error.message, path=path, field=error.field) from None


@dataclass(slots=True)
class _Part:
    """Values of one encoding, cut out of neighbouring pages: how many rows of each, and which of them have a value
    (None: all)."""

    encoding: int
    rows: list[int]
    values: list[bytes]
    valid: list[_Mask | None]


class _Thinner:
    def __init__(self, pick: PagePick, data: bytes) -> None:
        self._pick = pick
        self._data = data
        self._buffer = pa.py_buffer(data)
        name = _CODECS.get(pick.chunk.codec)
        self._codec = None if name is None else pa.Codec(name)
        self._width = _width(pick.leaf, pick.chunk.physical)

    def run(self) -> tuple[PagePick, bytes] | None:
        pick, parts = self._pick, list[_Part]()
        dictionary, positions, heads = page_heads(pick, self._data)
        prefix = b"" if dictionary is None else self._dictionary(dictionary)
        if prefix is None:
            return None
        pieces = zip(positions.tolist(), heads, pick.rows.tolist(), self._wanted(), strict=True)
        for position, head, count, wanted in pieces:
            cut = self._cut(position, head, count, wanted)
            if cut is None:
                return None
            encoding, values, valid = cut
            if not parts or parts[-1].encoding != encoding:
                parts.append(_Part(encoding, [], [], []))
            parts[-1].rows.append(len(wanted))
            parts[-1].values.append(values)
            parts[-1].valid.append(valid)
        pages = [_page(part, pick.leaf.max_definition > 0) for part in parts]
        sizes = np.array([len(p) for p in pages], np.int64)
        rows = np.array([sum(part.rows) for part in parts], np.int64)
        body = b"".join([prefix, *pages])
        chunk = replace(
            pick.chunk, codec=UNCOMPRESSED, encodings=(_PLAIN, _RLE, _RLE_DICTIONARY), uncompressed_size=len(body)
        )
        gathered = replace(
            pick, chunk=chunk, starts=len(prefix) + np.cumsum(sizes) - sizes, sizes=sizes, rows=rows,
            local=np.arange(len(pick.local)), prefix=(0, len(prefix)), cut=b"thin" + len(pick.local).to_bytes(8, "big"),
        )  # fmt: skip
        return gathered, body

    def _dictionary(self, head: PageHead) -> bytes | None:
        """The dictionary page, not compressed; None for one that is too large."""
        body = self._body(0, head, self._codec is not None)
        if body is None:
            return None
        fields: Struct = {i: (I32, v) for i, v in head.fields.items() if i <= 2}
        return _written(DICTIONARY_PAGE, 7, fields, bytes(body))

    def _wanted(self) -> list[_Int64s]:
        """The wanted rows of each page."""
        pick = self._pick
        first = np.cumsum(pick.rows) - pick.rows
        edges = np.append(np.searchsorted(pick.local, first), len(pick.local))
        local = pick.local - np.repeat(first, np.diff(edges))
        return [local[low:high] for low, high in pairwise(edges.tolist())]

    def _body(self, position: int, head: PageHead, compressed: bool, skip: int = 0) -> memoryview | None:
        """The bytes of a page, decompressed after the first ``skip``; None for one that is too large."""
        if head.uncompressed > _MOST_BYTES:
            return None
        start = position + head.length
        whole = memoryview(self._data)[start : start + head.compressed]
        if head.crc is not None and zlib.crc32(whole) != head.crc & 0xFFFFFFFF:
            raise CorruptFileError("a page whose checksum is another one", field="PageHeader.crc")
        if not compressed or self._codec is None:
            return whole[skip:]
        size = head.uncompressed - skip
        if size < 0 or skip > head.compressed:
            raise CorruptFileError("levels longer than their page", field="DataPageHeaderV2")
        if not size:
            return whole[:0]
        packed = self._buffer.slice(start + skip, head.compressed - skip)
        return memoryview(self._codec.decompress(packed, size)).cast("B")

    def _cut(
        self, position: int, head: PageHead, count: int, wanted: _Int64s
    ) -> tuple[int, bytes, _Mask | None] | None:
        """Encoding and bytes of a page's wanted values, and which of its wanted rows have one; None: all."""
        split = self._split(position, head, count)
        if split is None:
            return None
        encoding, levels, values = split
        valid: _Mask | None = None
        stored, places = count, wanted
        if levels is not None:
            present = hybrid_at(levels, 1, count, np.arange(count))
            if present is None:
                return None
            ranks = np.cumsum(present)
            stored, valid = int(ranks[-1]), present[wanted] != 0
            places = ranks[wanted][valid] - 1
        cut = self._cut_plain(values, stored, places) if encoding == _PLAIN else _cut_indices(values, stored, places)
        return None if cut is None else (encoding, cut, valid)

    def _split(self, position: int, head: PageHead, count: int) -> tuple[int, memoryview | None, memoryview] | None:
        """A data page's encoding, definition levels (None: there is no NULL), and values; None for unknown ones."""
        fields, nullable = head.fields, self._pick.leaf.max_definition > 0
        is_v2 = head.kind == DATA_PAGE_V2
        encoding = fields.get(4 if is_v2 else 2, -1)
        if encoding == _PLAIN_DICTIONARY:
            encoding = _RLE_DICTIONARY
        if encoding not in (_PLAIN, _RLE_DICTIONARY):
            return None
        if is_v2:
            size = fields.get(5, 0)
            if size < 0 or fields.get(6, 0):
                raise CorruptFileError("levels of a flat column", field="DataPageHeaderV2")
            body = self._body(position, head, bool(fields.get(7, 1)), size)
            start = position + head.length
            levels = memoryview(self._data)[start : start + size] if nullable and fields.get(2, 1) else None
            return None if body is None else (encoding, levels, body)
        body = self._body(position, head, self._codec is not None)
        if body is None or not nullable:
            return None if body is None else (encoding, None, body)
        if fields.get(3) != _RLE:
            return None
        usual = _no_nulls(count)
        if body[: len(usual)] == usual:
            return encoding, None, body[len(usual) :]
        size = int.from_bytes(body[:4], "little")
        if size > len(body) - 4:
            raise CorruptFileError("levels longer than their page", field="definition levels")
        return encoding, body[4 : 4 + size], body[4 + size :]

    def _cut_plain(self, values: memoryview, stored: int, places: _Int64s) -> bytes | None:
        if not len(places):
            return b""
        width = self._width or binary_stride(values, stored)
        if width:
            if len(values) < stored * width:
                raise CorruptFileError(f"{len(values)} bytes for {stored} values of {width}", field="values")
            return np.frombuffer(values, _NUMBERS.get(width, f"V{width}"), stored)[places].tobytes()
        bounds = binary_bounds(values, stored)
        if bounds is None:
            return None
        texts = pa.Array.from_buffers(pa.binary(), stored, [None, pa.py_buffer(bounds), pa.py_buffer(values)])
        taken = texts.take(pa.array(places))
        _, offsets, data = taken.buffers()
        end = int(np.frombuffer(offsets, np.int32)[len(places)])
        return bytes(memoryview(data)[:end]) if end else b""


def _width(leaf: Leaf, physical: int) -> int:
    """Bytes of a PLAIN value; 0 for those of any length."""
    if physical == FIXED:
        return int(get(leaf.element, 2, I32, "type_length") or 0)
    return _WIDTHS.get(physical, 0)


@lru_cache(maxsize=64)
def _no_nulls(count: int) -> bytes:
    """How writers tell that each of ``count`` rows has a value: the levels' length, and one run."""
    run = bytearray()
    write_varint(run, count << 1)
    return (len(run) + 1).to_bytes(4, "little") + run + b"\x01"


def _cut_indices(values: memoryview, stored: int, places: _Int64s) -> bytes | None:
    """Indices into the dictionary, of 32 bits each."""
    if not len(places):
        return b""
    indices = hybrid_at(values[1:], values[0], stored, places)
    return None if indices is None else indices.astype("<u4").tobytes()


def _page(part: _Part, nullable: bool) -> bytes:
    """The data page of a part."""
    rows = sum(part.rows)
    body = bytearray()
    if nullable and all(valid is None for valid in part.valid):
        body += _no_nulls(rows)
    elif nullable:
        pieces = zip(part.valid, part.rows, strict=True)
        present = np.concatenate([np.ones(n, np.bool_) if valid is None else valid for valid, n in pieces])
        levels = _literal_head(rows) + np.packbits(present, bitorder="little").tobytes()
        body += len(levels).to_bytes(4, "little") + levels
    values = b"".join(part.values)
    if part.encoding == _RLE_DICTIONARY:
        count = len(values) // 4
        values = b"\x20" + _literal_head(count) + values + bytes(4 * (-count % 8))
    body += values
    fields: Struct = {1: (I32, rows), 2: (I32, part.encoding), 3: (I32, _RLE), 4: (I32, _RLE)}
    return _written(DATA_PAGE, 5, fields, bytes(body))


def _literal_head(count: int) -> bytes:
    """The head of a bit-packed run of so many numbers, filled up to a multiple of eight."""
    head = bytearray()
    write_varint(head, (-(-count // 8)) << 1 | 1)
    return bytes(head)


def _written(kind: int, field_id: int, fields: Struct, body: bytes) -> bytes:
    head = {1: (I32, kind), 2: (I32, len(body)), 3: (I32, len(body)), field_id: (STRUCT, fields)}
    return encode_struct(head) + body
