"""Work on the pages of a column before pyarrow decodes them: values are gathered, zstd pages decompressed together.

If few rows are wanted of numbers, or of texts of one length, that are stored plain and without NULL, the row number
gives the place of each value: the wanted ones are copied into one small page, and nothing else is decoded. Values in a
dictionary, whose places `index_runs` finds, become such a page, too; of texts of several lengths, the wanted indices
do, behind the dictionary. A dictionary that no page needs is left out: writers store plain pages once it is full.
Other pages are decompressed together where that is faster (`page_bodies`). Plain pages without NULL become one page
then, others keep their bytes and get a new header: the more pages there are, the more time that saves in pyarrow.
Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader), Encodings.md (PLAIN, RLE / bit-packing
hybrid).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from threading import Semaphore

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets, Words, unaligned_words
from paimon_pyds.base.checksums import crc32s
from paimon_pyds.base.varints import cached_varint, varint_values
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.page_bodies import ZSTD, page_bodies, page_body
from paimon_pyds.format.parquet.page_picks import (
    BYTE_ARRAY,
    CODECS,
    DICTIONARIES,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    RLE_DICTIONARY,
    UNCOMPRESSED,
    PagePick,
    few_wanted,
)
from paimon_pyds.format.parquet.pages import (
    DATA_PAGE,
    DICTIONARY_PAGE,
    PageHead,
    Pages,
    heads_one_by_one,
    page_heads,
)
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.format.parquet.thrift import I32, STRUCT, Struct, encode_struct
from paimon_pyds.format.threads import all_of

_THREADS_FROM = 64
"""Pages that are worth a thread."""
_MOST_BYTES = 256 << 20
"""Decompressed bytes of the pages of a column; more are left to pyarrow."""
BLOCK_BYTES = 1 << 20
"""Bytes of pages that are decompressed at a time to take all values: they stay in the processor's cache."""
SPARSE_BLOCK_BYTES = 8 << 20
"""The same to take few values. Most bytes are not looked at, and the work on each block takes longer than to wait for
memory: a look-up of 1,000 rows takes 7% less time than with 1 MiB."""
_MOST_ROWS = 1 << 20
"""Rows of a page, at most."""
_NUMBERS = {4: "<u4", 8: "<u8"}
_LENGTH, _WORD = 4, 8
"""Bytes of a text's length, and of a word."""
CONTEXT_BYTES = 12 << 10
"""Bytes that are decompressed in the time that it takes to make a context."""
LARGE_DICTIONARIES = 16 << 10
"""Bytes of compressed dictionaries from which finding indices in few pages takes less time than decoding all."""
FEW_PAGES = 16
"""Contexts that take about as long as the work of this module on a column. For no more, a loop over pages is faster
than arrays of headers."""


def gather_values(
    picks: Sequence[Sequence[PagePick]], data: Sequence[bytes], path: str, threads: int, permits: Semaphore
) -> tuple[list[Sequence[PagePick]], list[Sequence[Pages]]]:
    """Picks of pages that are cheaper to decode, with their bytes; where none are, a column's picks stay as they are.

    ``picks``: per column, its picks in one row group after the other. ``data``: per column, the bytes of
    `PagePick.ranges` of all its picks, strung together. ``threads``: how many work at a time, at most.

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
        if sum(len(pick.starts) for pick in picks) > FEW_PAGES:
            return ColumnPages(picks, data).simpler()
        heads = heads_one_by_one(picks, data)
        found = None
        if few_wanted(picks):
            found = _gathered_one_by_one(picks, data, heads)
            if found is None and sum(pick.prefix[1] for pick in picks) >= LARGE_DICTIONARIES:
                found = ColumnPages(picks, data).gathered()
        return found or _as_they_are(picks, data, heads)


def _as_they_are(
    picks: Sequence[PagePick], data: bytes, heads: Sequence[Sequence[tuple[int, PageHead]]]
) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    """The same pages with their dictionaries, where a page needs them."""
    view, needed, parts = memoryview(data), list[PagePick](), list[Pages]()
    for pick, found in zip(picks, heads, strict=True):
        start, stop = found[0][0], found[-1][0] + int(pick.sizes[-1])
        if pick.prefix[1] and not any(_needs_dictionary(head) for _, head in found):
            pick = replace(pick, prefix=(0, 0))
        needed.append(pick)
        parts.append([view[start - pick.prefix[1] : stop]])
    return (needed if any(a is not b for a, b in zip(needed, picks, strict=True)) else picks), parts


def _needs_dictionary(head: PageHead) -> bool:
    encoding = head.fields.get(2 if head.kind == DATA_PAGE else 4)
    return encoding is None or encoding in DICTIONARIES


def _gathered_one_by_one(
    picks: Sequence[PagePick], data: bytes, heads: Sequence[Sequence[tuple[int, PageHead]]]
) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
    """What `ColumnPages.gathered` finds in plain pages, one after the other: faster for few."""
    chunk = picks[0].chunk
    each = [head for found in heads for _, head in found]
    if (
        not _has_places(picks[0])
        or any(pick.chunk.codec != chunk.codec for pick in picks)
        or (chunk.codec not in CODECS and chunk.codec != UNCOMPRESSED)
        or any((head.kind, head.fields.get(2), head.fields.get(3)) != (DATA_PAGE, PLAIN, RLE) for head in each)
        or sum(head.uncompressed for head in each) > _MOST_BYTES
    ):
        return None
    values, codec, width = list[bytes](), CODECS.get(chunk.codec), picks[0].width
    for pick, found in zip(picks, heads, strict=True):
        low = first = 0
        ends = np.searchsorted(pick.local, np.cumsum(pick.rows)).tolist()
        for (position, head), rows, high in zip(found, pick.rows.tolist(), ends, strict=True):
            body = page_body(data, position, head, codec)
            levels = _no_nulls(rows) if pick.leaf.max_definition else b""
            if body[: len(levels)] != levels:
                return None
            octets, begin = np.frombuffer(body, np.uint8), np.array([len(levels)])
            stride = width or _length_of_all(octets, begin, np.array([len(body)]) - begin, np.array([rows]))
            if not stride:
                return None
            if len(body) - len(levels) < rows * stride:
                raise _too_short()
            values.append(_cut(octets, len(levels) + stride * (pick.local[low:high] - first), stride))
            low, first = high, first + rows
    return _page_of(picks, b"".join(values))


def _has_places(pick: PagePick) -> bool:
    """Whether the number of a plain value gives its place, if texts have one length."""
    return pick.width > 0 or pick.chunk.physical == BYTE_ARRAY


def _length_of_all(bodies: Octets, starts: Int64s, sizes: Int64s, rows: Int64s) -> int:
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


def _cut(bodies: Octets, at: Int64s, width: int) -> bytes:
    """The ``width`` bytes that begin at each of these places."""
    if width in _NUMBERS:
        words = np.ndarray((max(0, bodies.size - width + 1),), _NUMBERS[width], bodies, 0, (1,))
        return bytes(words[at])
    return bytes(bodies[at[:, None] + np.arange(width)])


def _looked_up(body: memoryview, head: PageHead, indices: Int64s, width: int) -> bytes | None:
    """Values of a dictionary, plain; None of texts of several lengths. ``body``: the dictionary's values. ``width``:
    bytes of each, 0 for texts."""
    count, encoding = head.fields.get(1, -1), head.fields.get(2)
    if encoding not in (PLAIN, PLAIN_DICTIONARY) or count <= 0:
        return None
    octets = np.frombuffer(body, np.uint8)
    stride = width or _length_of_all(octets, np.zeros(1, np.int64), np.array([len(octets)]), np.array([count]))
    if not stride:
        return None
    if len(octets) < count * stride or int(indices.max()) >= count:
        raise CorruptFileError("an index of a value that the dictionary lacks", field="DictionaryPageHeader")
    return _cut(octets, indices * stride, stride)


def _page_of(
    picks: Sequence[PagePick], values: bytes, encoding: int = PLAIN, prefix: bytes = b""
) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    """One page of values, all that these picks want; none is NULL. ``prefix``: the page of their dictionary."""
    first, count = picks[0], sum(len(pick.local) for pick in picks)
    body = (_no_nulls(count) if first.leaf.max_definition else b"") + values
    page = _head(count, encoding, len(body)) + body
    size, encodings = len(prefix) + len(page), (encoding, PLAIN, RLE)
    chunk = replace(first.chunk, codec=UNCOMPRESSED, encodings=encodings, uncompressed_size=size)
    pick = replace(
        first, chunk=chunk, starts=np.array([len(prefix)]), sizes=np.array([len(page)]), rows=np.array([count]),
        local=np.arange(count), prefix=(0, len(prefix)), boundaries=b"gathered" + count.to_bytes(8, "big"),
    )  # fmt: skip
    return [pick], [[prefix, page]]


class ColumnPages:
    """The picked pages of one column, in all of its row groups.

    ``picks``: in one row group after the other. ``data``: the bytes of their ranges, strung together.

    Raises:
        CorruptFileError: they are not what the index says. Methods raise it, or an error of pyarrow, for damaged pages.
    """

    def __init__(self, picks: Sequence[PagePick], data: bytes) -> None:
        self._picks = picks
        self._data = data
        self._dictionaries, self._positions, self._heads = page_heads(picks, data)
        self.codec = CODECS.get(picks[0].chunk.codec)
        """Arrow's name of it; None for none, and for those that are not known."""

    def part(self, pick: PagePick, first: int) -> ColumnPages:
        """Those pages of the only row group that another pick has, the first of which has this number."""
        part, here = copy(self), slice(first, first + len(pick.starts))
        part._picks, part._positions = [pick], self._positions[here]
        part._heads = self._heads.part(here)
        return part

    def simpler(self) -> tuple[Sequence[PagePick], Sequence[Pages]]:
        """Picks of pages that are cheaper to decode, or these, with their bytes."""
        found = None
        if self._understood:
            found = self.gathered() if few_wanted(self._picks) else None
            if found is None and self._cheaper_decompressed:
                found = self.decompressed()
        if found is not None:
            return found
        view, picks, parts, first = memoryview(self._data), list[PagePick](), list[Pages](), 0
        for pick, (begin, _) in zip(self._picks, self._dictionaries, strict=True):
            start, part = int(self._positions[first]), slice(first, first + len(pick.starts))
            if not self._needs_dictionary(part):
                pick = replace(pick, prefix=(0, 0))
            picks.append(pick)
            parts.append([view[begin : begin + pick.prefix[1]], view[start : start + int(pick.sizes.sum())]])
            first = part.stop
        return picks, parts

    def _needs_dictionary(self, part: slice) -> bool:
        kinds, encodings = self._heads.kind[part], self._heads.encoding[part]
        return bool(((kinds != DATA_PAGE) | np.isin(encodings, [-1, *DICTIONARIES])).any())

    @property
    def _understood(self) -> bool:
        """Whether all are of the first version, with the usual levels, in one known codec, and not too large."""
        codec, heads = self._picks[0].chunk.codec, self._heads
        return (
            (self.codec is not None or codec == UNCOMPRESSED)
            and all(pick.chunk.codec == codec for pick in self._picks)
            and bool(((heads.kind == DATA_PAGE) & (heads.levels == RLE)).all())
            and int(heads.uncompressed.sum()) <= _MOST_BYTES
        )

    @property
    def _cheaper_decompressed(self) -> bool:
        """Whether contexts of zstd that pages do without take longer than this, and to copy the dictionaries."""
        copied = sum(head.uncompressed for _, head in self._dictionaries if head is not None)
        return self.codec == ZSTD and copied <= CONTEXT_BYTES * (len(self._positions) - FEW_PAGES)

    @property
    def _plain(self) -> bool:
        return _has_places(self._picks[0]) and bool((self._heads.encoding == PLAIN).all())

    def _bodies(self, block: int) -> Iterator[tuple[slice, Octets, Int64s]]:
        return page_bodies(self._data, self._positions, self._heads, self.codec, block)

    def _values(self, part: slice, bodies: Octets, starts: Int64s) -> Int64s | None:
        nullable = self._picks[0].leaf.max_definition > 0
        return value_starts(bodies, starts, self._heads.uncompressed[part], self._heads.values[part], nullable)

    def values(self) -> pa.Buffer | None:
        """The bytes of all values of a column of numbers; None where they are not stored plain, or some are NULL."""
        width, rows = self._picks[0].width, self._heads.values
        if not (self._understood and self._plain and width and (rows * width <= self._heads.uncompressed).all()):
            return None
        buffer, done = pa.allocate_buffer(int(rows.sum()) * width), 0  # Arrow keeps memory that it has had
        found = np.frombuffer(buffer, np.uint8)
        for part, bodies, starts in self._bodies(BLOCK_BYTES):
            values = self._values(part, bodies, starts)
            if values is None:
                return None
            sizes = rows[part] * width
            self._check_lengths(part, values - starts + sizes)
            for value, size in zip(values.tolist(), sizes.tolist(), strict=True):
                found[done : done + size] = bodies[value : value + size]
                done += size
        return buffer

    def _check_lengths(self, part: slice, needed: Int64s) -> None:
        if bool((self._heads.uncompressed[part] < needed).any()):
            raise _too_short()

    def gathered(self) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
        """One page of the wanted values; None where places of values can't be reckoned."""
        if not self._understood:
            return None
        if not self._plain:
            return self._looked_up()
        width, rows, found = self._picks[0].width, self._heads.values, list[bytes]()
        stops, wanted = np.cumsum(rows), self._wanted
        for part, bodies, starts in self._bodies(SPARSE_BLOCK_BYTES):
            values = self._values(part, bodies, starts)
            if values is None:
                return None
            sizes = self._heads.uncompressed[part] - (values - starts)
            stride = width or _length_of_all(bodies, values, sizes, rows[part])
            if not stride:
                return None
            self._check_lengths(part, values - starts + rows[part] * stride)
            first = stops[part] - rows[part]
            low, high = np.searchsorted(wanted, (first[0], stops[part][-1]))
            here = wanted[low:high]
            page = np.searchsorted(first, here, "right") - 1
            found.append(_cut(bodies, values[page] + stride * (here - first[page]), stride))
        return _page_of(self._picks, b"".join(found))

    @property
    def _wanted(self) -> Int64s:
        """The numbers of the wanted rows, among those of all pages."""
        before = accumulate((pick.covered for pick in self._picks), initial=0)
        return np.concatenate([pick.local + count for pick, count in zip(self._picks, before, strict=False)])

    def _looked_up(self) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
        """The same of values in dictionaries; of texts of several lengths, of each row group its dictionary, and a page
        of indices."""
        found = self._indices()
        if found is None:
            return None
        edges = np.cumsum([len(pick.local) for pick in self._picks])
        each = list(zip(self._picks, self._dictionaries, np.split(found, edges[:-1]), strict=True))
        values = list[bytes]()
        for pick, (begin, head), indices in each:
            assert head is not None
            of_pick = _looked_up(page_body(self._data, begin, head, self.codec), head, indices, pick.width)
            if of_pick is None:
                break
            values.append(of_pick)
        else:
            return _page_of(self._picks, b"".join(values))
        pages, picks = list[Pages](), list[PagePick]()
        from paimon_pyds.format.parquet.index_runs import index_page

        for pick, (begin, head), indices in each:
            assert head is not None
            prefix, body = self._dictionary(begin, head), index_page(indices)
            (gathered,), (of_group,) = _page_of([pick], body, RLE_DICTIONARY, prefix)
            picks.append(gathered)
            pages.append(of_group)
        return picks, pages

    def _indices(self) -> Int64s | None:
        """The wanted rows' indices of dictionaries; None where some have none, or can't be found."""
        if not np.isin(self._heads.encoding, list(DICTIONARIES)).all() or None in (d for _, d in self._dictionaries):
            return None
        ((every, bodies, starts),) = self._bodies(_MOST_BYTES + 1)
        values = self._values(every, bodies, starts) if bodies.size >= _WORD else None
        if values is None:
            return None
        wanted, first = self._wanted, np.cumsum(self._heads.values) - self._heads.values
        page = np.searchsorted(first, wanted, "right") - 1
        from paimon_pyds.format.parquet.index_runs import indices_at

        return indices_at(bodies, values, starts + self._heads.uncompressed, page, wanted - first[page])

    def decompressed(self) -> tuple[Sequence[PagePick], Sequence[Pages]]:
        """The same pages, not compressed; plain values of a row group without NULL become one page."""
        ((every, bodies, starts),) = self._bodies(_MOST_BYTES + 1)
        values = self._values(every, bodies, starts) if self._plain else None
        if values is not None and self._longer_than_values(starts, values):
            values = None
        picks, found, view, first = list[PagePick](), list[Pages](), bodies.data, 0
        for pick, (begin, dictionary) in zip(self._picks, self._dictionaries, strict=True):
            part = slice(first, first + len(pick.starts))
            sizes, rows = self._heads.uncompressed[part], pick.rows
            prefix = b""
            if dictionary is not None and self._needs_dictionary(part):
                prefix = self._dictionary(begin, dictionary)
            if values is None:
                encodings = self._heads.encoding[part].tolist()
                headers = [_head(*one) for one in zip(rows.tolist(), encodings, sizes.tolist(), strict=True)]
                stored = [view[a:b] for a, b in _ranges(starts[part], sizes)]
                pages = [each for page in zip(headers, stored, strict=True) for each in page]
                lengths = np.array([len(head) for head in headers]) + sizes
            else:
                sizes, rows = sizes - (values - starts)[part], rows.sum(keepdims=True)
                levels = _no_nulls(int(rows[0])) if pick.leaf.max_definition else b""
                header = _head(int(rows[0]), PLAIN, len(levels) + int(sizes.sum()))
                pages = [header, levels, *(view[a:b] for a, b in _ranges(values[part], sizes))]
                lengths = np.array([len(header) + len(levels) + int(sizes.sum())])
            found.append([prefix, *pages])
            chunk = replace(pick.chunk, codec=UNCOMPRESSED, uncompressed_size=len(prefix) + int(lengths.sum()))
            starts_ = np.cumsum(lengths) - lengths
            picks.append(replace(pick, chunk=chunk, starts=starts_, sizes=lengths, rows=rows, prefix=(0, len(prefix))))
            first = part.stop
        return picks, found

    def _longer_than_values(self, starts: Int64s, values: Int64s) -> bool:
        width, heads = self._picks[0].width, self._heads
        return width > 0 and bool((heads.uncompressed != values - starts + heads.values * width).any())

    def _dictionary(self, begin: int, head: PageHead) -> bytes:
        """A dictionary page, not compressed."""
        body = bytes(page_body(self._data, begin, head, self.codec))
        of_kind: Struct = {i: (I32, v) for i, v in head.fields.items() if i <= 2}
        size = (I32, len(body))
        return encode_struct({1: (I32, DICTIONARY_PAGE), 2: size, 3: size, 7: (STRUCT, of_kind)}) + body


def _ranges(starts: Int64s, sizes: Int64s) -> Iterator[tuple[int, int]]:
    return zip(starts.tolist(), (starts + sizes).tolist(), strict=True)


def _too_short() -> CorruptFileError:
    return CorruptFileError("pages that are shorter than their values", field="values")


def value_starts(bodies: Octets, starts: Int64s, sizes: Int64s, rows: Int64s, nullable: bool) -> Int64s | None:
    """The offset of the first value of each page, whose levels come first; None if some row may have no value.

    ``bodies``: the pages' bytes. ``starts``, ``sizes``: where each page is in them. ``rows``: how many it has.
    """
    if not nullable:
        return starts
    if int(rows.max()) >= _MOST_ROWS or int(sizes.min()) < _WORD:
        return None
    lengths, usual = _usual_levels(rows)
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(8) * (np.uint64(_WORD) - lengths.astype(np.uint64)))
    return starts + lengths if bool((unaligned_words(bodies)[starts] & mask == usual).all()) else None


def _usual_levels(counts: Int64s) -> tuple[Int64s, Words]:
    """`_no_nulls` of many counts below 2^20: the lengths, and the bytes as numbers, the first one lowest."""
    twice = counts << 1
    more = (twice >= 1 << 7).astype(np.int64) + (twice >= 1 << 14)
    run = (twice & 0x7F) | (twice & 0x3F80) << 1 | (twice >> 14) << 16 | np.array([0, 0x80, 0x8080])[more]
    words = (more + 2) | run << 32 | 1 << (8 * more + 40)
    return more + 6, words.astype(np.uint64)


@lru_cache(maxsize=1024)
def _no_nulls(count: int) -> bytes:
    """How writers say that each of ``count`` rows has a value: the levels' length, and one run."""
    run = cached_varint(count << 1)
    return (len(run) + 1).to_bytes(4, "little") + run + b"\x01"


def _head(rows: int, encoding: int, size: int) -> bytes:
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
