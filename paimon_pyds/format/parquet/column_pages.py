"""The pages of a column by arrays of their headers: values are gathered, and zstd pages decompressed together.

Values in a dictionary, whose places `index_runs` finds, become one plain page; of texts of several lengths, the wanted
indices do, behind the dictionary. Other pages are decompressed together where that is faster (`page_bodies`). Plain
pages without NULL become one page then, others keep their bytes and get a new header: the more pages there are, the
more time that saves in pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.data_pages import (
    FEW_PAGES,
    MOST_BYTES,
    WORD,
    cut_values,
    has_places,
    length_of_all,
    no_nulls,
    page_head,
    page_of,
    too_short,
    value_starts,
)
from paimon_pyds.format.parquet.page_bodies import ZSTD, page_bodies, page_body
from paimon_pyds.format.parquet.page_picks import (
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
from paimon_pyds.format.parquet.pages import DATA_PAGE, DICTIONARY_PAGE, PageHead, Pages, page_heads
from paimon_pyds.format.parquet.thrift import I32, STRUCT, Struct, encode_struct

BLOCK_BYTES = 1 << 20
"""Bytes of pages that are decompressed at a time to take all values: they stay in the processor's cache."""
SPARSE_BLOCK_BYTES = 8 << 20
"""The same to take few values. Most bytes are not looked at, and the work on each block takes longer than to wait for
memory: a look-up of 1,000 rows takes 7% less time than with 1 MiB."""
CONTEXT_BYTES = 12 << 10
"""Bytes that are decompressed in the time that it takes to make a context."""


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
            and int(heads.uncompressed.sum()) <= MOST_BYTES
        )

    @property
    def _cheaper_decompressed(self) -> bool:
        """Whether contexts of zstd that pages do without take longer than this, and to copy the dictionaries."""
        copied = sum(head.uncompressed for _, head in self._dictionaries if head is not None)
        return self.codec == ZSTD and copied <= CONTEXT_BYTES * (len(self._positions) - FEW_PAGES)

    @property
    def _plain(self) -> bool:
        return has_places(self._picks[0]) and bool((self._heads.encoding == PLAIN).all())

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
        buffer, done = pa.allocate_buffer(int(rows.sum()) * width), 0  # Arrow reuses freed memory
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
            raise too_short()

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
            stride = width or length_of_all(bodies, values, sizes, rows[part])
            if not stride:
                return None
            self._check_lengths(part, values - starts + rows[part] * stride)
            first = stops[part] - rows[part]
            low, high = np.searchsorted(wanted, (first[0], stops[part][-1]))
            here = wanted[low:high]
            page = np.searchsorted(first, here, "right") - 1
            found.append(cut_values(bodies, values[page] + stride * (here - first[page]), stride))
        return page_of(self._picks, b"".join(found))

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
            return page_of(self._picks, b"".join(values))
        pages, picks = list[Pages](), list[PagePick]()
        from paimon_pyds.format.parquet.index_runs import index_page

        for pick, (begin, head), indices in each:
            assert head is not None
            prefix, body = self._dictionary(begin, head), index_page(indices)
            (gathered,), (of_group,) = page_of([pick], body, RLE_DICTIONARY, prefix)
            picks.append(gathered)
            pages.append(of_group)
        return picks, pages

    def _indices(self) -> Int64s | None:
        """The wanted rows' indices of dictionaries; None where some have none, or can't be found."""
        if not np.isin(self._heads.encoding, list(DICTIONARIES)).all() or None in (d for _, d in self._dictionaries):
            return None
        ((every, bodies, starts),) = self._bodies(MOST_BYTES + 1)
        values = self._values(every, bodies, starts) if bodies.size >= WORD else None
        if values is None:
            return None
        wanted, first = self._wanted, np.cumsum(self._heads.values) - self._heads.values
        page = np.searchsorted(first, wanted, "right") - 1
        from paimon_pyds.format.parquet.index_runs import indices_at

        return indices_at(bodies, values, starts + self._heads.uncompressed, page, wanted - first[page])

    def decompressed(self) -> tuple[Sequence[PagePick], Sequence[Pages]]:
        """The same pages, not compressed; plain values of a row group without NULL become one page."""
        ((every, bodies, starts),) = self._bodies(MOST_BYTES + 1)
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
                headers = [page_head(*one) for one in zip(rows.tolist(), encodings, sizes.tolist(), strict=True)]
                stored = [view[a:b] for a, b in _ranges(starts[part], sizes)]
                pages = [each for page in zip(headers, stored, strict=True) for each in page]
                lengths = np.array([len(head) for head in headers]) + sizes
            else:
                sizes, rows = sizes - (values - starts)[part], rows.sum(keepdims=True)
                levels = no_nulls(int(rows[0])) if pick.leaf.max_definition else b""
                header = page_head(int(rows[0]), PLAIN, len(levels) + int(sizes.sum()))
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


def _looked_up(body: memoryview, head: PageHead, indices: Int64s, width: int) -> bytes | None:
    """Values of a dictionary, plain; None of texts of several lengths. ``body``: the dictionary's values. ``width``:
    bytes of each, 0 for texts."""
    count, encoding = head.fields.get(1, -1), head.fields.get(2)
    if encoding not in (PLAIN, PLAIN_DICTIONARY) or count <= 0:
        return None
    octets = np.frombuffer(body, np.uint8)
    stride = width or length_of_all(octets, np.zeros(1, np.int64), np.array([len(octets)]), np.array([count]))
    if not stride:
        return None
    if len(octets) < count * stride or int(indices.max()) >= count:
        raise CorruptFileError("an index of a value that the dictionary lacks", field="DictionaryPageHeader")
    return cut_values(octets, indices * stride, stride)


def _ranges(starts: Int64s, sizes: Int64s) -> Iterator[tuple[int, int]]:
    return zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
