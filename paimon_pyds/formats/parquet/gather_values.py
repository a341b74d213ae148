"""What is done with the pages of a column before pyarrow decodes them: values are gathered, and zstd is undone at once.

Where few rows are wanted of numbers that are stored plain, and none is NULL, each value lies where its row number says:
the wanted ones are copied into one small page, and nothing else is decoded.
Other pages stay what they are. But pyarrow makes a new context of zstd for each page, which takes as long as to
decompress 12 KiB. The pages of a column are frames that make a stream together, which needs one context. So they are
decompressed here, and handed on as pages that are not compressed.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader), Encodings.md (PLAIN, RLE / bit-packing
hybrid); RFC 8878, section 3.1.1 (frames of zstd).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from threading import Semaphore
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import unaligned_words
from paimon_pyds.caching import cached_property
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.arrays import FIXED
from paimon_pyds.formats.parquet.footer import get
from paimon_pyds.formats.parquet.page_picks import CODECS, PLAIN, RLE, UNCOMPRESSED, WIDTHS, PagePick, few_wanted
from paimon_pyds.formats.parquet.pages import (
    DATA_PAGE,
    DICTIONARY_PAGE,
    NO_CHECKSUM,
    PageHead,
    Pages,
    heads_one_by_one,
    page_heads,
)
from paimon_pyds.formats.parquet.source import decoding
from paimon_pyds.formats.parquet.thrift import I32, STRUCT, Struct, encode_struct, write_varint
from paimon_pyds.formats.threads import all_of

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Int64s: TypeAlias = npt.NDArray[np.int64]
_THREADS_FROM = 64
"""Pages that are worth a thread."""
_MOST_BYTES = 256 << 20
"""Of the pages of a column, decompressed; more are left to pyarrow."""
_MOST_COUNTS = 16
"""Different numbers of rows that pages have; with more it takes longer to look for NULLs."""
_NUMBERS = {4: "<u4", 8: "<u8"}
_ZSTD = "zstd"
_MAGIC = 0xFD2FB528
_CONTEXT_BYTES = 12 << 10
"""So many bytes are decompressed while a context is made."""
_FEW_PAGES = 16
"""So many contexts take about as long as what is done here with a column. For no more, a loop over pages is faster than
arrays of headers."""
_LEAST_FRAME = 16
"""Bytes of a frame that surely has a header of any length."""


def gather_values(
    picks: Sequence[Sequence[PagePick]], data: Sequence[bytes], path: str, threads: int, permits: Semaphore
) -> tuple[list[Sequence[PagePick]], list[Sequence[Pages]]]:
    """Picks of pages that are cheaper to decode, with their bytes; where none are, a column's picks stay as they are.

    Args:
        picks: per column, its picks in one row group after the other.
        data: per column, the bytes of `PagePick.ranges` of all its picks, strung together.
        path: of the file, for errors.
        threads: how many work at a time, at most.
        permits: permits for them.

    Returns:
        Per column its picks, and of each pick the bytes, in parts that follow one another.

    Raises:
        CorruptFileError: the pages are not what the index says, or can't be decompressed.
    """
    pieces = [partial(_simpler, *column, path) for column in zip(picks, data, strict=True)]
    pages = sum(len(pick.starts) for column in picks for pick in column)
    done = all_of(pieces, threads if pages >= _THREADS_FROM else 1, permits)
    return [found for found, _ in done], [parts for _, parts in done]


def _simpler(picks: Sequence[PagePick], data: bytes, path: str) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    with decoding(path):
        found = None
        if sum(len(pick.starts) for pick in picks) <= _FEW_PAGES:
            found = _gathered_one_by_one(picks, data)
        elif (column := _ColumnPages(picks, data)).understood:
            found = column.gathered() if few_wanted(picks) else None
            if found is None and column.cheaper_decompressed:
                found = column.decompressed()
        ends = [*accumulate((pick.size for pick in picks), initial=0)]
        return found or (picks, [[memoryview(data)[start:stop]] for start, stop in pairwise(ends)])


def all_numbers(picks: Sequence[PagePick], data: bytes, path: str) -> _Int64s | None:
    """All values in the picked pages of a column of integers; None where they are not stored plain, or some are NULL.

    Args:
        picks: of INT32 or INT64, in one row group after the other.
        data: the bytes of their ranges, strung together.
        path: of the file, for errors.

    Raises:
        CorruptFileError: the pages are not what the index says, or can't be decompressed.
    """
    with decoding(path):
        column = _ColumnPages(picks, data)
        return column.numbers() if column.understood else None


def _gathered_one_by_one(picks: Sequence[PagePick], data: bytes) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
    """What `_ColumnPages.gathered` finds, page by page: faster for few."""
    heads, chunk, width = heads_one_by_one(picks, data), picks[0].chunk, _width(picks[0])
    each = [head for found in heads for _, head in found]
    if (
        not (width and few_wanted(picks))
        or any(pick.chunk.codec != chunk.codec for pick in picks)
        or (chunk.codec not in CODECS and chunk.codec != UNCOMPRESSED)
        or any((head.kind, head.fields.get(2), head.fields.get(3)) != (DATA_PAGE, PLAIN, RLE) for head in each)
        or sum(head.uncompressed for head in each) > _MOST_BYTES
    ):
        return None
    values, codec = list[bytes](), CODECS.get(chunk.codec)
    for pick, found in zip(picks, heads, strict=True):
        low = first = 0
        ends = np.searchsorted(pick.local, np.cumsum(pick.rows)).tolist()
        for (position, head), rows, high in zip(found, pick.rows.tolist(), ends, strict=True):
            body = _body(data, position, head, codec)
            levels = _no_nulls(rows) if pick.leaf.max_definition else b""
            if body[: len(levels)] != levels:
                return None
            if len(body) - len(levels) < rows * width:
                raise _too_short()
            numbers = np.frombuffer(body, _NUMBERS.get(width, f"V{width}"), rows, len(levels))
            values.append(numbers[pick.local[low:high] - first].tobytes())
            low, first = high, first + rows
    return _page_of(picks, b"".join(values))


def _body(data: bytes, position: int, head: PageHead, codec: str | None) -> memoryview:
    """A page without its header, decompressed."""
    packed = memoryview(data)[position + head.length : position + head.length + head.compressed]
    if head.crc != NO_CHECKSUM and zlib.crc32(packed) != head.crc & 0xFFFFFFFF:
        raise _changed()
    if codec is None:
        if head.uncompressed != head.compressed:
            raise _two_sizes()
        return packed
    if not head.uncompressed:
        return memoryview(b"")
    return memoryview(pa.Codec(codec).decompress(packed, head.uncompressed)).cast("B")


def _width(pick: PagePick) -> int:
    """Bytes of a plain value; 0 for those of any length."""
    if pick.chunk.physical == FIXED:
        return int(get(pick.leaf.element, 2, I32, "type_length") or 0)
    return WIDTHS.get(pick.chunk.physical, 0)


def _page_of(picks: Sequence[PagePick], values: bytes) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    """One page of plain values, all that these picks want; none is NULL."""
    first, count = picks[0], sum(len(pick.local) for pick in picks)
    body = (_no_nulls(count) if first.leaf.max_definition else b"") + values
    page = _head(count, PLAIN, len(body)) + body
    chunk = replace(first.chunk, codec=UNCOMPRESSED, encodings=(PLAIN, RLE), uncompressed_size=len(page))
    pick = replace(
        first, chunk=chunk, starts=np.zeros(1, np.int64), sizes=np.array([len(page)]), rows=np.array([count]),
        local=np.arange(count), prefix=(0, 0), boundaries=b"gathered" + count.to_bytes(8, "big"),
    )  # fmt: skip
    return [pick], [[page]]


class _ColumnPages:
    """The picked pages of one column, in all of its row groups.

    Raises:
        CorruptFileError: they are not what the index says. Properties and methods raise it for damaged pages, too.
    """

    def __init__(self, picks: Sequence[PagePick], data: bytes) -> None:
        self._picks = picks
        self._data = data
        self._dictionaries, self._positions, self._heads = page_heads(picks, data)
        self.codec = CODECS.get(picks[0].chunk.codec)
        """Arrow's name of it; None for none, and for those that are not known."""

    @property
    def understood(self) -> bool:
        """Whether all are of the first version, with the usual levels, in one known codec, and not too large."""
        codec, heads = self._picks[0].chunk.codec, self._heads
        return (
            (self.codec is not None or codec == UNCOMPRESSED)
            and all(pick.chunk.codec == codec for pick in self._picks)
            and bool(((heads.kind == DATA_PAGE) & (heads.levels == RLE)).all())
            and int(heads.uncompressed.sum()) <= _MOST_BYTES
        )

    @property
    def cheaper_decompressed(self) -> bool:
        """Whether contexts of zstd that pages do without take longer than this, and to copy the dictionaries."""
        copied = sum(head.uncompressed for _, head in self._dictionaries if head is not None)
        return self.codec == _ZSTD and copied <= _CONTEXT_BYTES * (len(self._positions) - _FEW_PAGES)

    @cached_property
    def _bodies(self) -> tuple[_Bytes, _Int64s]:
        """The pages without their headers, decompressed, one after the other; and where each begins."""
        heads, view = self._heads, memoryview(self._data)
        starts = self._positions + heads.length
        packed = [view[a:b] for a, b in zip(starts.tolist(), (starts + heads.compressed).tolist(), strict=True)]
        checked = heads.crc != NO_CHECKSUM
        if checked.any():
            sums = np.array([zlib.crc32(body) for body in packed], np.int64)
            if bool((checked & (sums != heads.crc & 0xFFFFFFFF)).any()):
                raise _changed()
        sizes = heads.uncompressed
        if self.codec is None:
            if bool((sizes != heads.compressed).any()):
                raise _two_sizes()
            return np.frombuffer(self._data, np.uint8), starts
        if self.codec == _ZSTD and _are_frames_of(np.frombuffer(self._data, np.uint8), starts, heads.compressed, sizes):
            stream = pa.CompressedInputStream(pa.BufferReader(b"".join(packed)), _ZSTD)
            whole = stream.read_buffer(int(sizes.sum()))
            if whole.size != sizes.sum() or stream.read(1):
                raise CorruptFileError("pages that decompress to another size", field="uncompressed_page_size")
        else:
            codec = pa.Codec(self.codec)
            whole = b"".join([codec.decompress(*one) for one in zip(packed, sizes.tolist(), strict=True) if one[1]])
        return np.frombuffer(whole, np.uint8), np.cumsum(sizes) - sizes

    @property
    def _width(self) -> int:
        return _width(self._picks[0])

    @cached_property
    def _plain(self) -> tuple[_Bytes, _Int64s] | None:
        """The pages, and where the first value of each lies; None where places of values can't be reckoned."""
        heads = self._heads
        if not self._width or bool((heads.encoding != PLAIN).any()):
            return None
        bodies, starts = self._bodies
        nullable = self._picks[0].leaf.max_definition > 0
        levels = self._bytes_of_levels(bodies, starts) if nullable else np.zeros(len(starts), np.int64)
        if levels is None:
            return None
        if bool((heads.uncompressed - levels < heads.values * self._width).any()):
            raise _too_short()
        return bodies, starts + levels

    def numbers(self) -> _Int64s | None:
        """All values of a column of integers; None where places of values can't be reckoned."""
        if self._plain is None:
            return None
        (bodies, starts), width = self._plain, self._width
        ends = (starts + self._heads.values * width).tolist()
        parts = [bodies[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
        return np.concatenate(parts).view(f"<i{width}").astype(np.int64, copy=False)

    def gathered(self) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
        """One page of the wanted values; None where places of values can't be reckoned."""
        if self._plain is None:
            return None
        (bodies, starts), width, rows = self._plain, self._width, self._heads.values
        stops = np.cumsum(rows)
        before = accumulate((pick.covered for pick in self._picks), initial=0)
        wanted = np.concatenate([pick.local + count for pick, count in zip(self._picks, before, strict=False)])
        page = np.searchsorted(stops, wanted, "right")
        at = starts[page] + width * (wanted - (stops - rows)[page])
        values = (
            np.ndarray((max(0, bodies.size - width + 1),), _NUMBERS[width], bodies, 0, (1,))[at]
            if width in _NUMBERS
            else bodies[at[:, None] + np.arange(width)]
        )
        return _page_of(self._picks, values.tobytes())

    def _bytes_of_levels(self, bodies: _Bytes, starts: _Int64s) -> _Int64s | None:
        """The bytes of definition levels before the values of each page; None when some row may have no value."""
        heads = self._heads
        counts = np.unique(heads.values)
        if len(counts) > _MOST_COUNTS:
            return None
        found = np.zeros(len(starts), np.int64)
        for count in counts.tolist():
            usual, here = np.frombuffer(_no_nulls(count), np.uint8), np.flatnonzero(heads.values == count)
            if int(heads.uncompressed[here].min()) < len(usual):
                return None
            if bool((bodies[starts[here][:, None] + np.arange(len(usual))] != usual).any()):
                return None
            found[here] = len(usual)
        return found

    def decompressed(self) -> tuple[Sequence[PagePick], Sequence[Pages]]:
        """The same pages, not compressed."""
        heads, (bodies, starts) = self._heads, self._bodies
        view, sizes = bodies.data, heads.uncompressed.tolist()
        columns = (heads.values.tolist(), heads.encoding.tolist(), sizes, starts.tolist())
        pages = [
            (_head(rows, encoding, size), view[start : start + size])
            for rows, encoding, size, start in zip(*columns, strict=True)
        ]
        lengths = np.array([len(head) for head, _ in pages]) + heads.uncompressed
        picks, parts, first = list[PagePick](), list[Pages](), 0
        for pick, (begin, dictionary) in zip(self._picks, self._dictionaries, strict=True):
            last = first + len(pick.starts)
            prefix = b"" if dictionary is None else self._dictionary(begin, dictionary)
            parts.append([prefix, *(part for page in pages[first:last] for part in page)])
            own = lengths[first:last]
            chunk = replace(pick.chunk, codec=UNCOMPRESSED, uncompressed_size=len(prefix) + int(own.sum()))
            picks.append(replace(pick, chunk=chunk, starts=np.cumsum(own) - own, sizes=own, prefix=(0, len(prefix))))
            first = last
        return picks, parts

    def _dictionary(self, begin: int, head: PageHead) -> bytes:
        """A dictionary page, not compressed."""
        body = bytes(_body(self._data, begin, head, _ZSTD))
        fields: Struct = {i: (I32, v) for i, v in head.fields.items() if i <= 2}
        size = (I32, len(body))
        return encode_struct({1: (I32, DICTIONARY_PAGE), 2: size, 3: size, 7: (STRUCT, fields)}) + body


def _changed() -> CorruptFileError:
    return CorruptFileError("a page whose checksum is another one", field="PageHeader.crc")


def _two_sizes() -> CorruptFileError:
    return CorruptFileError("a page of two sizes that is not compressed", field="PageHeader")


def _too_short() -> CorruptFileError:
    return CorruptFileError("pages that are shorter than their values", field="values")


def _are_frames_of(data: _Bytes, starts: _Int64s, lengths: _Int64s, sizes: _Int64s) -> bool:
    """Whether frames of zstd begin in these places, which say that they decompress to these sizes: then it checks that
    each does."""
    if int(lengths.min()) < _LEAST_FRAME:
        return False
    words = unaligned_words(data)
    begin = words[starts]
    flags = (begin >> np.uint64(32)).astype(np.int64) & 0xFF
    single = flags >> 5 & 1
    if bool((begin & np.uint64(0xFFFFFFFF) != _MAGIC).any() or (flags & 3).any() or (flags >> 6 | single == 0).any()):
        return False
    said = words[starts + 6 - single]  # behind the magic number, the flags, and the size of the window
    bits = np.array([8, 16, 32, 64])[flags >> 6].astype(np.uint64)
    said &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - bits)
    return bool((said.astype(np.int64) + 256 * (bits == 16) == sizes).all())


@lru_cache(maxsize=1024)
def _no_nulls(count: int) -> bytes:
    """How writers say that each of ``count`` rows has a value: the levels' length, and one run."""
    run = _varint(count << 1)
    return (len(run) + 1).to_bytes(4, "little") + run + b"\x01"


@lru_cache(maxsize=8192)
def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _head(rows: int, encoding: int, size: int) -> bytes:
    """The header of a data page that is not compressed."""
    stored = _varint(size << 1)
    return b"\x15\x00\x15%b\x15%b%b" % (stored, stored, _end_of_head(rows, encoding))


@lru_cache(maxsize=1024)
def _end_of_head(rows: int, encoding: int) -> bytes:
    fields: Struct = {1: (I32, rows), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, RLE)}
    return b"\x2c" + encode_struct(fields) + b"\x00"
