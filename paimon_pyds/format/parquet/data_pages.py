"""Data pages without NULL: where their values are, and pages that are made of values.

If values are numbers, or texts of one length, and stored plain, the row number gives the place of each.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader), Encodings.md (PLAIN, RLE / bit-packing
hybrid).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from paimon_pyds.base.arrays import Int64s, Octets, Words, unaligned_words
from paimon_pyds.base.checksums import crc32s
from paimon_pyds.base.varints import cached_varint, varint_values
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.page_picks import BYTE_ARRAY, PLAIN, RLE, UNCOMPRESSED, PagePick
from paimon_pyds.format.parquet.pages import Pages
from paimon_pyds.format.parquet.thrift import I32, Struct, encode_struct

MOST_BYTES = 256 << 20
"""Decompressed bytes of the pages of a column; more are left to pyarrow."""
FEW_PAGES = 16
"""Contexts that take about as long as the work of `column_pages` on a column. For no more, a loop over pages is faster
than arrays of headers."""
_MOST_ROWS = 1 << 20
"""Rows of a page, at most."""
_NUMBERS = {4: "<u4", 8: "<u8"}
_LENGTH, WORD = 4, 8
"""Bytes of a text's length, and of a word."""


def has_places(pick: PagePick) -> bool:
    """Whether the number of a plain value gives its place, if texts have one length."""
    return pick.width > 0 or pick.chunk.physical == BYTE_ARRAY


def length_of_all(bodies: Octets, starts: Int64s, sizes: Int64s, rows: Int64s) -> int:
    """Bytes of each text, with those of its length, in pages of plain texts when all have as many; else 0.

    ``starts``: where the first text of each page begins. ``sizes``: bytes of all texts of each page. ``rows``: how many
    texts each page has.
    """
    if int(sizes.min()) < _LENGTH:
        return 0
    stride = _LENGTH + int.from_bytes(bodies[starts[0] : starts[0] + _LENGTH].tobytes(), "little")
    if bool((sizes != stride * rows).any()):
        return 0
    steps, other = np.diff(starts, append=0), np.append(rows[1:] != rows[:-1], False)
    other[1:-1] |= steps[1:-1] != steps[:-2]
    for low, high in pairwise([0, *(np.flatnonzero(other) + 1).tolist(), len(rows)]):  # pages that are as long
        shape, strides = (high - low, int(rows[low])), (int(steps[low]), stride)
        lengths = np.ndarray(shape, "<u4", bodies, int(starts[low]), strides)
        if bool((lengths != stride - _LENGTH).any()):
            return 0
    return stride


def cut_values(bodies: Octets, at: Int64s, width: int) -> bytes:
    """The ``width`` bytes that begin at each of these places."""
    if width in _NUMBERS:
        words = np.ndarray((max(0, bodies.size - width + 1),), _NUMBERS[width], bodies, 0, (1,))
        return bytes(words[at])
    return bytes(bodies[at[:, None] + np.arange(width)])


def page_of(
    picks: Sequence[PagePick], values: bytes, encoding: int = PLAIN, prefix: bytes = b""
) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    """One page of values, all that these picks want; none is NULL. ``prefix``: the page of their dictionary."""
    first, count = picks[0], sum(len(pick.local) for pick in picks)
    body = (no_nulls(count) if first.leaf.max_definition else b"") + values
    page = page_head(count, encoding, len(body)) + body
    size, encodings = len(prefix) + len(page), (encoding, PLAIN, RLE)
    chunk = replace(first.chunk, codec=UNCOMPRESSED, encodings=encodings, uncompressed_size=size)
    pick = replace(
        first, chunk=chunk, starts=np.array([len(prefix)]), sizes=np.array([len(page)]), rows=np.array([count]),
        local=np.arange(count), prefix=(0, len(prefix)), boundaries=b"gathered" + count.to_bytes(8, "big"),
    )  # fmt: skip
    return [pick], [[prefix, page]]


def too_short() -> CorruptFileError:
    """The error for pages that end before their values."""
    return CorruptFileError("pages that are shorter than their values", field="values")


def value_starts(bodies: Octets, starts: Int64s, sizes: Int64s, rows: Int64s, nullable: bool) -> Int64s | None:
    """The offset of the first value of each page, whose levels come first; None if some row may have no value.

    ``bodies``: the pages' bytes. ``starts``, ``sizes``: where each page is in them. ``rows``: how many it has.
    """
    if not nullable:
        return starts
    if int(rows.max()) >= _MOST_ROWS or int(sizes.min()) < WORD:
        return None
    lengths, usual = _usual_levels(rows)
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(8) * (np.uint64(WORD) - lengths.astype(np.uint64)))
    return starts + lengths if bool((unaligned_words(bodies)[starts] & mask == usual).all()) else None


def _usual_levels(counts: Int64s) -> tuple[Int64s, Words]:
    """`no_nulls` of many counts below 2^20: the lengths, and the bytes as numbers, the first one lowest."""
    twice = counts << 1
    more = (twice >= 1 << 7).astype(np.int64) + (twice >= 1 << 14)
    run = (twice & 0x7F) | (twice & 0x3F80) << 1 | (twice >> 14) << 16 | np.array([0, 0x80, 0x8080])[more]
    words = (more + 2) | run << 32 | 1 << (8 * more + 40)
    return more + 6, words.astype(np.uint64)


@lru_cache(maxsize=1024)
def no_nulls(count: int) -> bytes:
    """How writers say that each of ``count`` rows has a value: the levels' length, and one run."""
    run = cached_varint(count << 1)
    return (len(run) + 1).to_bytes(4, "little") + run + b"\x01"


def page_head(rows: int, encoding: int, size: int) -> bytes:
    """The header of a data page that is not compressed."""
    stored = cached_varint(size << 1)
    return b"\x15\x00\x15%b\x15%b\x2c%b" % (stored, stored, _end_of_head(rows, encoding))


def heads_with_checksums(
    rows: Int64s, encodings: Int64s, sizes: Sequence[int], bodies: Sequence[bytes | memoryview]
) -> list[bytes]:
    """The headers of data pages: how many rows each has, how it is encoded, its bytes, and these once compressed."""
    crc = np.array(crc32s(bodies), np.uint64)
    zigzag = np.where(crc < 1 << 31, crc << np.uint64(1), np.uint64((1 << 33) - 1) - (crc << np.uint64(1)))
    numbers = [
        np.array(sizes, np.uint64) << np.uint64(1),
        np.array(list(map(len, bodies)), np.uint64) << np.uint64(1),
        zigzag,
    ]
    fields = zip(*(varint_values(each).to_pylist() for each in numbers), strict=True)
    ends = map(_end_of_head, rows.tolist(), encodings.tolist())
    return [b"\x15\x00\x15%b\x15%b\x15%b\x1c%b" % (*each, end) for each, end in zip(fields, ends, strict=True)]


@lru_cache(maxsize=1024)
def _end_of_head(rows: int, encoding: int) -> bytes:
    of_kind: Struct = {1: (I32, rows), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, RLE)}
    return encode_struct(of_kind) + b"\x00"
