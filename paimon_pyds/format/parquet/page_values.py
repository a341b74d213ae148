"""Column chunks that differ from others in some values: these are replaced in the bytes of their pages.

Source: apache/parquet-format, Encodings.md (PLAIN, RLE_DICTIONARY), parquet.thrift (PageHeader, ColumnIndex).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from struct import iter_unpack
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Octets, from_numpy, pc, to_numpy
from paimon_pyds.base.checksums import crc32
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.chunk_pages import ChunkPages, CopiedPages
from paimon_pyds.format.parquet.data_pages import heads_with_checksums
from paimon_pyds.format.parquet.footer import Footer, footer_of
from paimon_pyds.format.parquet.index_runs import IndexPlaces, encode_indices, indices_at, replace_packed
from paimon_pyds.format.parquet.page_bodies import page_body
from paimon_pyds.format.parquet.page_picks import CODECS, PLAIN, PLAIN_DICTIONARY, value_width
from paimon_pyds.format.parquet.pages import DICTIONARY_PAGE, PageHeads, read_head
from paimon_pyds.format.parquet.prune import RawBounds
from paimon_pyds.format.parquet.settings import DICTIONARY_LIMIT, WriterOptions, few_rows_settings
from paimon_pyds.format.parquet.small_encoder import encoded
from paimon_pyds.format.parquet.thrift import I32, STRUCT, encode_struct

_FLOATS = {4: 4, 5: 8}
"""Physical types of floating-point numbers, with their bytes."""
_LENGTH = 4
"""Bytes of the length in front of a text."""
_MOST_DECODED = 1 / 4
"""Share of a chunk's rows up to which single pages are encoded anew, as their indices have too few bits."""


class ChangedPages(NamedTuple):
    """Pages of a column chunk that have changed rows.

    Attributes:
        pages: all pages of the chunk.
        dictionary: the bytes of its dictionary page, empty without one.
        data: the bytes of its other pages, and ``heads`` their headers.
        which: the numbers of the pages with changed rows.
        page: of each changed row, the place of its page in ``which``, ascending.
        local: of each changed row, its number in the page.
        bodies: the bytes of these pages, decompressed.
        starts: where each begins in ``bodies``.
        values: where the values of each begin, behind the levels.
        is_coded: which of them have indices of the dictionary.
        places: of the rows that change in these, the places of the indices; None without such rows.
        entries: the plain values of the dictionary; empty without such rows.
    """

    pages: ChunkPages
    dictionary: bytes
    data: bytes
    heads: PageHeads
    which: Int64s
    page: Int64s
    local: Int64s
    bodies: Octets
    starts: Int64s
    values: Int64s
    is_coded: Flags
    places: IndexPlaces | None
    entries: Sequence[bytes]

    @property
    def codec(self) -> str | None:
        """Arrow's name of the compression; None for none."""
        return CODECS.get(self.pages.chunk.codec)

    @property
    def width(self) -> int:
        """Bytes of a plain value; 0 for those of any length."""
        return value_width(self.pages.leaf, self.pages.chunk.physical)

    @property
    def rows(self) -> Int64s:
        """How many rows each of these pages has."""
        return self.heads.values[self.which]

    @property
    def ends(self) -> Int64s:
        """Where each ends in ``bodies``."""
        return self.starts + self.heads.uncompressed[self.which]

    @property
    def page_of_place(self) -> Int64s:
        """Of each row of ``places``, what ``page`` has."""
        return self.page[self.is_coded[self.page]]

    @property
    def in_runs(self) -> Flags:
        """Which of these pages have a changed row whose index stands for other rows, too."""
        found = np.zeros(len(self.which), np.bool_)
        if self.places is not None:
            found[self.page_of_place[~self.places.packed]] = True
        return found

    def plain_values(self, rows: Int64s) -> list[bytes]:
        """The values of some of the rows that change, in pages without indices."""
        body, width = self.bodies.data, self.width
        starts = self.values[self.page[rows]] + self.local[rows] * width
        return [bytes(body[start : start + width]) for start in starts.tolist()]

    def as_bounds(self, values: Sequence[bytes], is_low: bool) -> Sequence[bytes]:
        """Plain values as bounds: texts without their length; zeros are negative as least, positive as greatest."""
        size = _FLOATS.get(self.pages.chunk.physical)
        if size is not None:
            zeros, bound = {bytes(size), bytes(size - 1) + b"\x80"}, bytes(size - 1) + (b"\x80" if is_low else b"\0")
            return [bound if value in zeros else value for value in values]
        return values if self.width else [value[_LENGTH:] for value in values]


class StayingBounds(NamedTuple):
    """Of each page with changed rows the bounds of the others, NULL where it has no others.

    ``is_lost``: whether a row changes that has a bound of the page; where none does, these are the bounds that the file
    has.
    """

    low: pa.Array
    high: pa.Array
    is_lost: Flags


class _Fresh(NamedTuple):
    """New values, the number of each, and the bytes of the value that has this number."""

    values: pa.Array
    numbers: Int64s
    raw: Sequence[bytes]


def extremes(values: pa.Array, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Where the least and the greatest value of each part are; no part is empty. ``starts``: where each begins."""
    order = to_numpy(pc.sort_indices(values)).astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return order[np.minimum.reduceat(rank, starts)], order[np.maximum.reduceat(rank, starts)]


def new_chunk(
    old: ChangedPages, bounds: StayingBounds | None, values: pa.Array, field: pa.Field, options: WriterOptions
) -> CopiedPages | None:
    """The chunk with new values of the rows that change; None where its pages can't have them.

    Args:
        old: the pages that change.
        bounds: of the rows that stay; None: the bounds of the chunk are not used any more.
        values: the new values, without NULL.
        field: of the column, as Parquet is written.
        options: the table's.
    """
    numbers, distinct = _distinct(values)
    plain = partial(_plain, field=field, old=old, options=options)
    raw = plain(distinct)
    bodies, encoded_anew, dictionary = old.bodies.copy(), dict[int, bytes](), old.dictionary
    is_coded = old.is_coded[old.page]
    rows = np.flatnonzero(~is_coded)
    if len(rows):
        fresh = np.frombuffer(b"".join(raw), np.uint8).reshape(-1, old.width)
        at = old.values[old.page[rows]] + old.local[rows] * old.width
        bodies[at[:, None] + np.arange(old.width)] = fresh[numbers[rows]]
    if old.places is not None:
        coded = _with_indices(old, bodies, raw, numbers[is_coded], options)
        if coded is None:
            return None
        dictionary, encoded_anew = coded
    data, sizes = _joined(old, bodies, encoded_anew, options)
    pages = old.pages._replace(table=replace(old.pages.table, sizes=sizes))
    if bounds is not None and old.pages.bounds is not None:
        found = _new_bounds(old, old.pages.bounds, bounds, _Fresh(values, numbers, raw), plain)
        pages = pages._replace(bounds=found)
    return CopiedPages(pages, slice(None), (dictionary, data))


def _distinct(values: pa.Array) -> tuple[Int64s, pa.Array]:
    """Of each value its number, and the value of each number; floating-point numbers are equal if their bits are."""
    type_ = values.type
    bits = values.view(f"int{type_.bit_width}") if pa.types.is_floating(type_) else values
    coded = bits.dictionary_encode()
    return to_numpy(coded.indices).astype(np.int64), coded.dictionary.view(type_)


def _plain(values: pa.Array, field: pa.Field, old: ChangedPages, options: WriterOptions) -> list[bytes]:
    """Each value in Parquet's plain encoding: as pyarrow writes them in one page of a file."""
    if not len(values):
        return []
    table = pa.Table.from_arrays([values], schema=pa.schema([field.with_nullable(False)]))
    settings = few_rows_settings(options, table.schema)
    one_page = {"data_page_size": 1 << 30, "max_rows_per_page": len(values), "write_batch_size": len(values)}
    settings |= {name: value for name, value in one_page.items() if name in settings}
    settings |= {"compression": "none", "compression_level": None, "use_dictionary": False, "write_page_index": False}
    file = bytes(encoded(table, settings, "new values"))
    chunk = Footer(bytes(footer_of(memoryview(file))), "new values", len(file)).chunk(0, 0)
    head = read_head(file, chunk.start)
    if head.fields.get(1) != len(values):
        raise ValueError(f"pyarrow writes {len(values)} values in several pages")
    return values_of(memoryview(file)[chunk.start + head.length :], len(values), old.width)


def dictionary_values(page: bytes, codec: str | None, width: int) -> list[bytes]:
    """The plain values of a dictionary page. ``width``: as of `values_of`. Raises CorruptFileError: it is damaged."""
    head = read_head(page, 0)
    body = page_body(page, 0, head, codec)
    if head.fields.get(2) not in (PLAIN, PLAIN_DICTIONARY):
        raise CorruptFileError("a dictionary of unknown encoding", field="DictionaryPageHeader.encoding")
    return values_of(body, head.fields.get(1, 0), width)


def values_of(data: bytes | memoryview, count: int, width: int) -> list[bytes]:
    """The bytes of plain values, those of a text with its length.

    ``width``: bytes of each, 0 of texts. Raises CorruptFileError: they are too few.
    """
    view = memoryview(data)
    if not 0 <= count * (width or _LENGTH) <= len(view):
        raise _too_short()
    if width:
        return [value for (value,) in iter_unpack(f"{width}s", view[: count * width])]
    found, at = list[bytes](), 0
    for _ in range(count):
        stop = at + _LENGTH + int.from_bytes(view[at : at + _LENGTH], "little")
        found.append(bytes(view[at:stop]))
        at = stop
    if at > len(view):
        raise _too_short()
    return found


def _too_short() -> CorruptFileError:
    return CorruptFileError("a dictionary that is shorter than its values", field="DictionaryPageHeader")


def _with_indices(
    old: ChangedPages, bodies: Octets, raw: Sequence[bytes], numbers: Int64s, options: WriterOptions
) -> tuple[bytes, dict[int, bytes]] | None:
    """Write indices of new values into ``bodies``.

    ``raw``: new values. ``numbers``: of each row of pages with indices, which of them it gets.

    Returns:
        The dictionary page, and the pages that are encoded anew, by their places in ``which``: they have runs of rows,
            or too few bits for the indices. None where these are too many, or the dictionary would become too large.
    """
    assert old.places is not None
    dictionary, index_of = _dictionary_with(old, [raw[number] for number in np.unique(numbers).tolist()], options)
    if dictionary is None:
        return None
    of_number = np.array([index_of.get(value, 0) for value in raw], np.int64)
    indices, page = of_number[numbers], old.page_of_place
    again = old.in_runs
    again[page[indices >> old.places.bits > 0]] = True
    if int(old.rows[again].sum()) > _MOST_DECODED * old.pages.chunk.values:
        return None
    stays = ~again[page]
    replace_packed(bodies, old.places, indices, stays)
    found = dict[int, bytes]()
    for place in np.flatnonzero(again).tolist():
        start, values, end, rows = (int(each[place]) for each in (old.starts, old.values, old.ends, old.rows))
        page_of_all, every_row = np.zeros(rows, np.int64), np.arange(rows)
        every = indices_at(bodies, np.array([values]), np.array([end]), page_of_all, every_row)
        if every is None:
            return None
        here = page == place
        every[old.local[old.is_coded[old.page]][here]] = indices[here]
        width = max(int(bodies[values]), int(indices.max()).bit_length())
        found[place] = bytes(bodies[start:values]) + encode_indices(every, width)
    return dictionary, found


def _dictionary_with(
    old: ChangedPages, values: Sequence[bytes], options: WriterOptions
) -> tuple[bytes | None, dict[bytes, int]]:
    """The dictionary page with further values, and the index of each value; None if it would become too large."""
    index_of, before = dict[bytes, int](), old.entries
    for index, value in enumerate(before):
        index_of.setdefault(value, index)
    further = [value for value in values if value not in index_of]
    if not further:
        return old.dictionary, index_of
    for index, value in enumerate(further, len(before)):
        index_of[value] = index
    whole = b"".join([*before, *further])
    if len(whole) > DICTIONARY_LIMIT:
        return None, index_of
    (packed,) = _compressed([whole], old.codec, options)
    crc = crc32(packed)
    encoding = read_head(old.dictionary, 0).fields.get(2, PLAIN)
    fields = {1: (I32, len(before) + len(further)), 2: (I32, encoding)}
    sizes = {2: (I32, len(whole)), 3: (I32, len(packed)), 4: (I32, crc - (crc >> 31 << 32))}
    return encode_struct({1: (I32, DICTIONARY_PAGE), **sizes, 7: (STRUCT, fields)}) + bytes(packed), index_of


def _joined(
    old: ChangedPages, bodies: Octets, encoded_anew: dict[int, bytes], options: WriterOptions
) -> tuple[bytes, Int64s]:
    """The bytes of all data pages, and how many each has."""
    starts, ends = old.starts.tolist(), old.ends.tolist()
    pages = [
        encoded_anew.get(place) or bodies[start:end].data
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    packed = _compressed(pages, old.codec, options)
    heads = heads_with_checksums(old.rows, old.heads.encoding[old.which], list(map(len, pages)), packed)
    sizes = old.pages.table.sizes.copy()
    edges = np.cumsum(sizes)
    begins, stops = ((at[old.which]).tolist() for at in (edges - sizes, edges))
    view, parts, done = memoryview(old.data), list[bytes | memoryview](), 0
    for begin, stop, head, body in zip(begins, stops, heads, packed, strict=True):
        parts += (view[done:begin], head, body)
        done = stop
    sizes[old.which] = [len(head) + len(body) for head, body in zip(heads, packed, strict=True)]
    return b"".join([*parts, view[done:]]), sizes


def _compressed(
    bodies: Sequence[bytes | memoryview], codec: str | None, options: WriterOptions
) -> Sequence[bytes | memoryview]:
    if codec is None:
        return bodies
    compress = pa.Codec(codec, options.level if codec == "zstd" else None).compress
    return [compress(body, asbytes=True) for body in bodies]


def _new_bounds(
    old: ChangedPages, stored: RawBounds, bounds: StayingBounds, new: _Fresh, plain: Callable[[pa.Array], list[bytes]]
) -> RawBounds:
    """The bounds of all pages. ``stored``: those of the file. ``plain``: gives the bytes of values."""
    at = extremes(new.values, np.searchsorted(old.page, np.arange(len(old.which))))
    found = list[list[bytes | None]]()
    for ends, place, staying, is_low in zip((stored.low, stored.high), at, bounds[:2], (True, False), strict=True):
        fresh = new.values.take(from_numpy(place))
        is_fresh = to_numpy(pc.fill_null((pc.less if is_low else pc.greater)(fresh, staying), True))
        is_read = bounds.is_lost & ~is_fresh
        of_read, result = iter(plain(staying.filter(from_numpy(is_read)))), list(ends)
        for i in np.flatnonzero(is_fresh | is_read).tolist():
            value = new.raw[int(new.numbers[place[i]])] if is_fresh[i] else next(of_read)
            (result[int(old.which[i])],) = old.as_bounds([value], is_low)
        found.append(result)
    low, high = found
    return RawBounds(low, high, stored.nulls, stored.rows)
