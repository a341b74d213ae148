"""Gathering values: when few rows of a page are wanted, their stored values are copied and the rest is not decoded.

Decompressing a page costs less than half of reading it; the rest goes into rows that nobody wants. So the wanted values
are copied, as they are stored, into a small uncompressed page, and pyarrow decodes that. Types never matter here.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DataPageHeaderV2), Encodings.md (PLAIN, RLE /
bit-packing hybrid).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from threading import Semaphore
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.arrays import FIXED
from paimon_pyds.formats.parquet.footer import get
from paimon_pyds.formats.parquet.page_picks import (
    CODECS,
    LARGE_DICTIONARY,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    RLE_DICTIONARY,
    UNCOMPRESSED,
    WIDTHS,
    PagePick,
    can_gather,
)
from paimon_pyds.formats.parquet.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PageHead, page_heads
from paimon_pyds.formats.parquet.source import decoding
from paimon_pyds.formats.parquet.thrift import I32, STRUCT, Struct, encode_struct, varint, write_varint
from paimon_pyds.formats.threads import all_of

_Int64s = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Bytes: TypeAlias = bytes | memoryview
_NUMBERS = {4: "<u4", 8: "<u8"}
_THREADS_FROM = 64
"""Pages that are worth a thread."""
_MOST_BYTES = 64 << 20
"""Of a page, decompressed; larger ones are left to pyarrow."""
_MOST_RUNS = 8
"""Runs of a page beyond which walking over them costs more than decoding the page."""
_MOST_BITS = 32
_MOST_BINARY_BYTES = 1 << 30


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


class _LeftToPyarrow(Exception):
    """These pages can't be taken apart here, or it would cost more than to decode them."""


def _gather(pick: PagePick, data: bytes, path: str) -> tuple[PagePick, bytes] | None:
    try:
        with decoding(path):
            return _PageGatherer(pick, data).run()
    except _LeftToPyarrow:
        return None
    except IndexError:
        raise CorruptFileError("a page header is cut off", path=path, field="PageHeader") from None


@dataclass(slots=True)
class _Part:
    """Values of one encoding from neighbouring pages: how many rows of each, and which of them have a value (None:
    all)."""

    encoding: int
    rows: list[int]
    values: list[bytes]
    valid: list[_Mask | None]


class _PageGatherer:
    def __init__(self, pick: PagePick, data: bytes) -> None:
        self._pick = pick
        self._data = data
        self._buffer = pa.py_buffer(data)
        name = CODECS.get(pick.chunk.codec)
        self._codec = None if name is None else pa.Codec(name)
        self._width = WIDTHS.get(pick.chunk.physical, 0)  # bytes of a PLAIN value; 0 for those of any length
        if pick.chunk.physical == FIXED:
            self._width = int(get(pick.leaf.element, 2, I32, "type_length") or 0)

    def run(self) -> tuple[PagePick, bytes]:
        pick, parts = self._pick, list[_Part]()
        dictionary, positions, heads = page_heads(pick, self._data)
        pieces = zip(positions.tolist(), heads, pick.rows.tolist(), self._wanted(), strict=True)
        for position, head, count, wanted in pieces:
            encoding, values, valid = self._values(position, head, count, wanted)
            if not parts or parts[-1].encoding != encoding:
                parts.append(_Part(encoding, [], [], []))
            parts[-1].rows.append(len(wanted))
            parts[-1].values.append(values)
            parts[-1].valid.append(valid)
        prefix = b"" if dictionary is None else self._dictionary_for(parts, dictionary)
        pages = [_data_page(part, pick.leaf.max_definition > 0) for part in parts]
        sizes = np.array([len(p) for p in pages], np.int64)
        rows = np.array([sum(part.rows) for part in parts], np.int64)
        body = b"".join([prefix, *pages])
        encodings = (PLAIN, RLE, RLE_DICTIONARY)
        chunk = replace(pick.chunk, codec=UNCOMPRESSED, encodings=encodings, uncompressed_size=len(body))
        count = len(pick.local)
        gathered = replace(
            pick, chunk=chunk, starts=len(prefix) + np.cumsum(sizes) - sizes, sizes=sizes, rows=rows,
            local=np.arange(count), prefix=(0, len(prefix)), boundaries=b"gathered" + count.to_bytes(8, "big"),
        )  # fmt: skip
        return gathered, body

    def _dictionary_for(self, parts: Sequence[_Part], dictionary: PageHead) -> bytes:
        """The dictionary page; nothing where values can be looked up in a large one, which is done then."""
        indexed = [part for part in parts if part.encoding == RLE_DICTIONARY]
        if not indexed:
            return b""
        body, count = self._body(0, dictionary, self._codec is not None), dictionary.fields.get(1, 0)
        wanted = sum(len(values) for part in indexed for values in part.values) // 4
        bounded = self._width or wanted * len(body) <= _MOST_BYTES  # the longest text may be wanted each time
        if len(body) >= LARGE_DICTIONARY and bounded:
            with suppress(_LeftToPyarrow):
                indices = [np.frombuffer(b"".join(part.values), "<u4").astype(np.int64) for part in indexed]
                if max(int(of_part.max(initial=-1)) for of_part in indices) >= count:
                    raise CorruptFileError(f"a value that is not in a dictionary of {count}", field="values")
                found = [self._plain_values(body, count, of_part) if len(of_part) else b"" for of_part in indices]
                for part, values in zip(indexed, found, strict=True):
                    part.encoding, part.values = PLAIN, [values]
                return b""
        fields: Struct = {i: (I32, v) for i, v in dictionary.fields.items() if i <= 2}
        return _page(DICTIONARY_PAGE, 7, fields, bytes(body))

    def _wanted(self) -> list[_Int64s]:
        pick = self._pick
        first = np.cumsum(pick.rows) - pick.rows
        edges = np.append(np.searchsorted(pick.local, first), len(pick.local))
        local = pick.local - np.repeat(first, np.diff(edges))
        return [local[low:high] for low, high in pairwise(edges.tolist())]

    def _body(self, position: int, head: PageHead, compressed: bool, skip: int = 0) -> memoryview:
        """The bytes of a page, decompressed after the first ``skip``."""
        if head.uncompressed > _MOST_BYTES:
            raise _LeftToPyarrow
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

    def _values(self, position: int, head: PageHead, count: int, wanted: _Int64s) -> tuple[int, bytes, _Mask | None]:
        """Encoding and bytes of a page's wanted values, and which of its wanted rows have one; None: all."""
        encoding, levels, values = self._split(position, head, count)
        valid: _Mask | None = None
        stored, places = count, wanted
        if levels is not None:
            present = hybrid_at(levels, 1, count, np.arange(count))
            if present is None:
                raise _LeftToPyarrow
            ranks = np.cumsum(present)
            stored, valid = int(ranks[-1]), present[wanted] != 0
            places = ranks[wanted][valid] - 1
        if not len(places):
            return encoding, b"", valid
        if encoding == PLAIN:
            return encoding, self._plain_values(values, stored, places), valid
        indices = hybrid_at(values[1:], values[0], stored, places)
        if indices is None:
            raise _LeftToPyarrow
        return encoding, indices.astype("<u4").tobytes(), valid

    def _split(self, position: int, head: PageHead, count: int) -> tuple[int, memoryview | None, memoryview]:
        """A data page's encoding, definition levels (None: there is no NULL), and values."""
        fields, nullable = head.fields, self._pick.leaf.max_definition > 0
        is_v2 = head.kind == DATA_PAGE_V2
        encoding = fields.get(4 if is_v2 else 2, -1)
        if encoding == PLAIN_DICTIONARY:
            encoding = RLE_DICTIONARY
        if encoding not in (PLAIN, RLE_DICTIONARY):
            raise _LeftToPyarrow
        if is_v2:
            size = fields.get(5, 0)
            if size < 0 or fields.get(6, 0):
                raise CorruptFileError("levels of a flat column", field="DataPageHeaderV2")
            body = self._body(position, head, bool(fields.get(7, 1)), size)
            start = position + head.length
            levels = memoryview(self._data)[start : start + size] if nullable and fields.get(2, 1) else None
            return encoding, levels, body
        body = self._body(position, head, self._codec is not None)
        if not nullable:
            return encoding, None, body
        if fields.get(3) != RLE:
            raise _LeftToPyarrow
        usual = _no_nulls(count)
        if body[: len(usual)] == usual:
            return encoding, None, body[len(usual) :]
        size = int.from_bytes(body[:4], "little")
        if size > len(body) - 4:
            raise CorruptFileError("levels longer than their page", field="definition levels")
        return encoding, body[4 : 4 + size], body[4 + size :]

    def _plain_values(self, values: memoryview, stored: int, places: _Int64s) -> bytes:
        width = self._width or binary_stride(values, stored)
        if width:
            if len(values) < stored * width:
                raise CorruptFileError(f"{len(values)} bytes for {stored} values of {width}", field="values")
            return np.frombuffer(values, _NUMBERS.get(width, f"V{width}"), stored)[places].tobytes()
        bounds = binary_bounds(values, stored)
        if bounds is None:
            raise _LeftToPyarrow
        texts = pa.Array.from_buffers(pa.binary(), stored, [None, pa.py_buffer(bounds), pa.py_buffer(values)])
        taken = texts.take(pa.array(places))
        _, offsets, data = taken.buffers()
        end = int(np.frombuffer(offsets, np.int32)[len(places)])
        return bytes(memoryview(data)[:end]) if end else b""


@lru_cache(maxsize=64)
def _no_nulls(count: int) -> bytes:
    """How writers say that each of ``count`` rows has a value: the levels' length, and one run."""
    run = bytearray()
    write_varint(run, count << 1)
    return (len(run) + 1).to_bytes(4, "little") + run + b"\x01"


def _data_page(part: _Part, nullable: bool) -> bytes:
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
    if part.encoding == RLE_DICTIONARY:
        count = len(values) // 4
        values = b"\x20" + _literal_head(count) + values + bytes(4 * (-count % 8))
    body += values
    fields: Struct = {1: (I32, rows), 2: (I32, part.encoding), 3: (I32, RLE), 4: (I32, RLE)}
    return _page(DATA_PAGE, 5, fields, bytes(body))


def _literal_head(count: int) -> bytes:
    """The head of a bit-packed run of so many numbers, filled up to a multiple of eight."""
    head = bytearray()
    write_varint(head, (-(-count // 8)) << 1 | 1)
    return bytes(head)


def _page(kind: int, field_id: int, fields: Struct, body: bytes) -> bytes:
    head = {1: (I32, kind), 2: (I32, len(body)), 3: (I32, len(body)), field_id: (STRUCT, fields)}
    return encode_struct(head) + body


def hybrid_at(data: _Bytes, width: int, count: int, wanted: _Int64s) -> _Int64s | None:
    """The numbers at the places ``wanted`` of ``count`` numbers in runs; None for too many runs.

    Args:
        data: runs, and maybe more bytes.
        width: bits of a number, at most 32.
        count: of numbers.
        wanted: which ones, each below ``count``.

    Raises:
        CorruptFileError: the runs end early, or claim no numbers.
    """
    if not 0 <= width <= _MOST_BITS:
        raise CorruptFileError(f"numbers of {width} bits", field="bit width")
    starts: list[int] = []
    places: list[int] = []
    packed: list[bool] = []
    row = position = 0
    value_bytes = (width + 7) // 8
    octets = np.frombuffer(data, np.uint8)
    try:
        while row < count:
            head, position = varint(data, position)  # type: ignore[arg-type]
            length, is_packed = (head >> 1) * (8 if head & 1 else 1), bool(head & 1)
            if not length:
                raise CorruptFileError("a run of no numbers", offset=position, field="run")
            if len(starts) == _MOST_RUNS:
                return None
            size = (head >> 1) * width if is_packed else value_bytes
            alike, stride, first = 1, size + 1, position
            if not is_packed:
                first = int.from_bytes(data[position : position + size], "little")
            elif head < 0x80 and count - row >= 2 * length:
                alike = _alike(octets[position - 1 :: stride][: (count - row) // length])
                if not row and len(wanted) and wanted.max() < alike * length:  # the usual page: no other runs matter
                    run = wanted // length
                    return _bits(data, 8 * (position + run * stride) + (wanted - run * length) * width, width)
            starts.extend(range(row, row + alike * length, length))
            places.extend(range(first, first + alike * stride, stride))
            packed.extend([is_packed] * alike)
            row, position = row + alike * length, position + alike * stride - 1
    except IndexError:
        raise CorruptFileError("runs that end early", offset=position, field="run") from None
    if position > len(data):
        # A last packed run may leave out the bytes of numbers that fill it up to eight.
        missing, spare = position - len(data), ((row - count) * width) // 8
        if not packed[-1] or missing > spare:
            raise CorruptFileError("runs that end early", offset=position, field="run")
    if not starts:
        return np.zeros(len(wanted), np.int64)
    return _run_values(data, width, wanted, np.array(starts), np.array(places), np.array(packed))


def _alike(heads: npt.NDArray[np.uint8]) -> int:
    """How many of these equal the first without a break: runs of one length follow each other at one distance."""
    other = heads != heads[0]
    return int(np.argmax(other)) if other.any() else len(heads)


def _run_values(
    data: _Bytes, width: int, wanted: _Int64s, starts: _Int64s, places: _Int64s, packed: npt.NDArray[np.bool_]
) -> _Int64s:
    if len(starts) == 1 and not packed[0]:
        return np.full(len(wanted), places[0])
    run = np.searchsorted(starts, wanted, side="right") - 1
    is_packed = packed[run]
    result: _Int64s = places[run]
    result[is_packed] = _bits(data, (wanted - starts[run])[is_packed] * width + 8 * result[is_packed], width)
    return result


def _bits(data: _Bytes, first: _Int64s, width: int) -> _Int64s:
    """The numbers of ``width`` bits that begin at these bits, counted from the lowest of the first byte."""
    if len(data) < 8:
        data = bytes(data) + bytes(8)
    words = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))  # those at every byte
    at = np.minimum(first >> 3, len(words) - 1)
    numbers = (words[at] >> (first - 8 * at).astype(np.uint64)) & np.uint64((1 << width) - 1)
    result: _Int64s = numbers.astype(np.int64)
    return result


def binary_stride(data: _Bytes, count: int) -> int:
    """Bytes of each of ``count`` PLAIN byte arrays with its length before it, when all are of one length; else 0."""
    stride, rest = divmod(len(data), max(count, 1))
    if rest or stride < 4 or len(data) > _MOST_BINARY_BYTES:
        return 0
    lengths = np.ndarray((count,), "<u4", data, 0, (stride,))
    return stride if bool((lengths == stride - 4).all()) else 0


def binary_bounds(data: _Bytes, count: int) -> npt.NDArray[np.int32] | None:
    """Where each of ``count`` PLAIN byte arrays, its length before it, begins; and the end of the last.

    None where that needs a walk over all of them. Texts of 1 to 255 bytes without a NUL need none: three NULs are found
    in lengths only. The chain of lengths proves what was found.
    """
    size = len(data)
    if size < 4 or size > _MOST_BINARY_BYTES:
        return None
    octets = np.frombuffer(data, np.uint8)
    zero = octets == 0
    at = np.flatnonzero(zero[1:-2] & zero[2:-1] & zero[3:])
    if len(at) != count:
        return None
    bounds = np.append(at, size)
    if not count or at[0] or bool((bounds[1:] - at != 4 + octets[at].astype(np.int64)).any()):
        return None
    return bounds.astype(np.int32)
