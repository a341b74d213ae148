"""Which pages hold the wanted rows, and whether a column is read by them or with its whole row group: what costs less.

Both ways decompress, and decode with pyarrow: bytes cost what their codec makes them cost, values some nanoseconds,
texts more than numbers, and a page some microseconds. What single pages save is the pages between them, the values
of pages from which few are gathered, and a context of zstd per page; what they cost more is their own range, header
check and gaps, per page, and a copy. So pages win until nearly all of them are wanted.

``python -m benchmarks.page_cost`` measures both ways in 112 cases (four kinds of columns, pages of 1,024 and of 6,144
rows, 2 % to 95 % of the pages wanted, by one row each or by an eighth of their rows), fits the constants and reports
what the rule loses against always choosing the better way. Only the constants' ratios decide. They are from local files
in the page cache, one core; with slower storage both ways grow by the bytes they read, which favours pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.format.parquet.conversion import FIXED, INT96
from paimon_pyds.format.parquet.footer import Chunk, Footer, Leaf, get
from paimon_pyds.format.parquet.page_index import PageTable
from paimon_pyds.format.parquet.thrift import I32

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import GroupPlan

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
DICTIONARIES = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})
UNCOMPRESSED, ZSTD, CODECS = 0, 6, {1: "snappy", 2: "gzip", 6: "zstd", 7: "lz4_raw"}
BYTE_ARRAY, WIDTHS = 6, {1: 4, 2: 8, INT96: 12, 4: 4, 5: 8}
"""Parquet's numbers of encodings, codecs, and physical types with the bytes of their values."""
_LEAST_ROWS_PER_WANTED = 16
_MOST_HEADERS = 0.15
"""Bytes of page headers and levels, per value: 56 for pages of 512 rows or more."""

_BYTE_MICROS = 0.0008
"""A byte of a compressed page, when it is decompressed."""
_COPY_MICROS = 0.0002
"""A byte of a page that is read by itself and decoded whole."""
_NUMBER_MICROS = 0.005
_TEXT_MICROS = 0.016
"""A value, when it is decoded."""
PAGE_MICROS = 1.5
_ZSTD_PAGE_MICROS = 13.5
"""A page of a row group that is decoded whole; pyarrow makes a context of zstd for each."""
SINGLE_PAGE_MICROS = 11.5
"""A page that is read by itself."""
_GATHER_PAGE_MICROS = 3.5
"""What gathering values of a page costs on top, many or few; the others are not decoded then."""
_GATHER_BYTE_MICROS = 0.0003
"""A byte that is read to gather values."""
_BOTH_MICROS = 500.0
"""What it costs on top to read some columns by pages and others whole."""
_MOST_SELECTED = 0.25
"""Share of a row group's rows above which the page index is not even read."""


def value_width(leaf: Leaf, physical: int) -> int:
    """Bytes of a plain value of this physical type; 0 for those of any length."""
    if physical == FIXED:
        return int(get(leaf.element, 2, I32, "type_length") or 0)
    return WIDTHS.get(physical, 0)


@dataclass(frozen=True, slots=True)
class PagePick:
    """The pages of one column chunk that hold the wanted rows.

    ``starts`` and ``sizes`` are bytes of the file, ``rows`` the number of rows of each page; ``local`` are the wanted
    rows, counted within the rows of these pages; ``prefix`` is the location of the dictionary page; ``boundaries`` is
    equal for picks whose pages begin and end at the same rows.
    """

    leaf: Leaf
    chunk: Chunk
    starts: Int64s
    sizes: Int64s
    rows: Int64s
    local: Int64s
    prefix: tuple[int, int]
    boundaries: bytes

    @property
    def width(self) -> int:
        """Bytes of a plain value; 0 for those of any length."""
        return value_width(self.leaf, self.chunk.physical)

    @property
    def covered(self) -> int:
        """Rows that have to be decoded."""
        return int(self.rows.sum())

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.prefix[1] + int(self.sizes.sum())

    def edges(self, origin: int = 0) -> tuple[Int64s, Int64s]:
        """What to read, from where to where behind ``origin``: the dictionary page first, pages that touch in one."""
        ends = self.starts + self.sizes
        gaps = np.flatnonzero(self.starts[1:] != ends[:-1])
        begins, stops = self.starts[np.append(0, gaps + 1)], ends[np.append(gaps, -1)]
        if self.prefix[1]:
            begins, stops = np.append(self.prefix[0], begins), np.append(sum(self.prefix), stops)
        return begins - origin, stops - origin


def pick_pages(pages: Mapping[int, tuple[Leaf, Chunk, PageTable]], rows: Int64s) -> dict[int, PagePick]:
    """The pages of column chunks of one row group that hold ``rows`` (numbers within it, ascending, at least one).

    The chunks go by any number; those whose pages begin at the same rows share the arrays of their picks.
    """
    picked: dict[bytes, tuple[Int64s, Int64s, Int64s, bytes]] = {}
    picks = {}
    for number, (leaf, chunk, table) in pages.items():
        key = table.first_rows.tobytes()
        if key not in picked:
            picked[key] = _pages_with(table.first_rows, rows)
        at, counts, local, boundaries = picked[key]
        prefix = (chunk.start, int(table.offsets[0]) - chunk.start)
        picks[number] = PagePick(leaf, chunk, table.offsets[at], table.sizes[at], counts, local, prefix, boundaries)
    return picks


def _pages_with(first_rows: Int64s, rows: Int64s) -> tuple[Int64s, Int64s, Int64s, bytes]:
    """Which pages hold these rows, how many rows each has, where in them the wanted ones are, and their boundaries."""
    wanted = np.diff(np.searchsorted(rows, first_rows))
    pages = np.flatnonzero(wanted)
    first = first_rows[pages]
    counts = first_rows[pages + 1] - first
    before = np.cumsum(counts) - counts
    return pages, counts, rows - np.repeat(first - before, wanted[pages]), first.tobytes() + counts.tobytes()


def places_of(picks: Sequence[PagePick]) -> tuple[Int64s, Int64s]:
    """Offsets and lengths of what to read for some picks, one after the other."""
    begins, ends = (np.concatenate(edges) for edges in zip(*(pick.edges() for pick in picks), strict=True))
    return begins, ends - begins


def pick_whole_pages(
    leaf: Leaf, chunk: Chunk, table: PageTable, pages: Int64s, local: Int64s | None = None
) -> PagePick:
    """Some pages of a column chunk, at least one; all of their rows are wanted, unless ``local`` says which."""
    first, rows = table.first_rows[pages], np.diff(table.first_rows)[pages]
    prefix, boundaries = (chunk.start, int(table.offsets[0]) - chunk.start), first.tobytes() + rows.tobytes()
    wanted = np.arange(int(rows.sum())) if local is None else local
    return PagePick(leaf, chunk, table.offsets[pages], table.sizes[pages], rows, wanted, prefix, boundaries)


def few_wanted(picks: Sequence[PagePick]) -> bool:
    """Whether few enough rows of these pages are wanted for gathering their values to pay."""
    return sum(len(pick.local) for pick in picks) * _LEAST_ROWS_PER_WANTED <= sum(pick.covered for pick in picks)


def can_gather(pick: PagePick) -> bool:
    """Whether values of these pages are gathered rather than decoded, likely: of numbers, and of texts of one length,
    without a dictionary. The bytes of such texts are a little more than a multiple of their count."""
    chunk = pick.chunk
    of_one_length = chunk.physical == BYTE_ARRAY and (
        chunk.uncompressed_size % max(1, chunk.values) <= chunk.values * _MOST_HEADERS
    )
    return (
        few_wanted([pick])
        and (chunk.codec in CODECS or chunk.codec == UNCOMPRESSED)
        and (chunk.physical in WIDTHS or chunk.physical == FIXED or of_one_length)
        and DICTIONARIES.isdisjoint(chunk.encodings)
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reading some columns of a row group costs, in microseconds: by single pages, at least some of the columns,
    and whole."""

    pages_micros: float
    group_micros: float


def too_many_rows(selected: int, rows: int) -> bool:
    """Whether enough rows of a row group are wanted for nearly every page to have one."""
    return selected > rows * _MOST_SELECTED


def choose(picks: Mapping[int, tuple[PagePick, int]], rows: int) -> tuple[frozenset[int], Estimate]:
    """Which of these leaves to read by pages, rather than with the whole row group, and what both ways cost.

    ``picks``: by leaf, the pages with wanted rows, and how many pages its chunk has; ``rows``: of the row group.
    """
    by_pages: dict[int, float] = {}
    by_group: dict[int, float] = {}
    for leaf, (pick, pages) in picks.items():
        chunk = pick.chunk
        value = _TEXT_MICROS if chunk.physical == BYTE_ARRAY else _NUMBER_MICROS
        size = chunk.uncompressed_size / max(1, rows)
        row = 0.0 if chunk.codec == UNCOMPRESSED else _BYTE_MICROS * size
        page = _ZSTD_PAGE_MICROS if chunk.codec == ZSTD else PAGE_MICROS
        by_group[leaf] = rows * (row + value) + pages * page
        if can_gather(pick):
            copied = _GATHER_BYTE_MICROS * pick.size
            by_pages[leaf] = pick.covered * row + len(pick.starts) * (SINGLE_PAGE_MICROS + _GATHER_PAGE_MICROS) + copied
        else:
            by_pages[leaf] = pick.covered * (row + value + _COPY_MICROS * size) + len(pick.starts) * SINGLE_PAGE_MICROS
    cheaper = frozenset(leaf for leaf in picks if by_pages[leaf] < by_group[leaf])
    ways = [(sum(by_pages.values()), frozenset(picks))]
    if 0 < len(cheaper) < len(picks):
        both = sum(min(by_pages[leaf], by_group[leaf]) for leaf in picks)
        ways.append((both + _BOTH_MICROS, cheaper))
    least, leaves = min(ways, key=lambda way: way[0])
    cost = Estimate(least, sum(by_group.values()))
    return (leaves if cost.pages_micros < cost.group_micros else frozenset()), cost


def group_plan(
    footer: Footer,
    group: int,
    wanted: int | None,
    columns: Sequence[tuple[str, Sequence[Leaf]]],
    picks: Mapping[int, PagePick],
    estimated: tuple[int, Estimate] | None,
) -> GroupPlan:
    """How a row group would be read, for explanations.

    Args:
        footer: the file's.
        group: number of the row group.
        wanted: how many of its rows are wanted; None for all.
        columns: names and leaves of the columns to read.
        picks: the leaves that are read by pages.
        estimated: how many pages the leaves have, and what both ways cost; None where there was no choice.
    """
    from paimon_pyds.format.protocols import GroupPlan

    start, stop = footer.groups[group]
    rows = stop - start
    sizes = {leaf.index: footer.chunk(group, leaf.index).compressed_size for _, of in columns for leaf in of}
    pages_total, cost = estimated or (0, None)
    reason = ""
    if wanted is None:
        reason = "every row is wanted"
    elif cost is None and too_many_rows(wanted, rows):
        reason = "a quarter of the rows or more is wanted"
    elif cost is None:
        flat = any(leaves[0].flat for _, leaves in columns)
        reason = "the file has no page index" if flat else "nested columns are read whole"
    return GroupPlan(
        number=group,
        rows=rows,
        wanted=rows if wanted is None else wanted,
        bytes=sum((sizes | {leaf: pick.size for leaf, pick in picks.items()}).values()),
        whole_bytes=sum(sizes.values()),
        whole_columns=tuple(name for name, leaves in columns if leaves[0].index not in picks),
        pages=sum(len(pick.starts) for pick in picks.values()),
        pages_total=pages_total,
        pages_micros=None if cost is None else cost.pages_micros,
        group_micros=None if cost is None else cost.group_micros,
        reason=reason,
    )
