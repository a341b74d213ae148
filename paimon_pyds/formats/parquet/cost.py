"""Pages or the whole row group, for each column: what costs less.

Both ways decompress, and decode with pyarrow: bytes cost what their codec makes them cost, values some nanoseconds,
texts more than numbers, and a page some microseconds. What single pages save is the pages between them, and the values
of pages from which few are cut out; what they cost more is their own range, header check and gaps, per page. So pages
win until nearly all of them are wanted, and then still for texts of which few are.

``python -m benchmarks.page_cost`` measures both ways in 112 cases (four kinds of columns, pages of 1,024 and of 6,144
rows, 2 % to 95 % of the pages wanted, by one row each or by an eighth of their rows), fits the constants and tells what
the rule loses against always knowing the better way. Only the constants' ratios decide. They are from local files in
the page cache, one core; with slower storage both ways grow by the bytes they read, which favours pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_pyds.formats.parquet.footer import Chunk
from paimon_pyds.formats.parquet.gather_values import BYTE_ARRAY, UNCOMPRESSED, can_gather
from paimon_pyds.formats.parquet.pages import PagePick

__all__ = ["Estimate", "choose", "too_many_rows"]

_BYTE_MICROS = 0.0008
"""A byte of a compressed page, when it is decompressed."""
_NUMBER_MICROS = 0.007
_TEXT_MICROS = 0.0235
"""A value, when it is decoded."""
_PAGE_MICROS = 15.0
_SINGLE_PAGE_MICROS = 10.5
"""What a page that is read by itself costs on top."""
_THIN_PAGE_MICROS = 40.0
"""What cutting values out of a page costs on top, many or few; its values are not decoded then. A thread alone needs
18, several that wait for the interpreter's lock more: a page of 6,144 numbers took 30 longer than to decode it."""
_BOTH_MICROS = 500.0
"""What it costs on top to read some columns by pages and others whole."""
_MOST_SELECTED = 0.25
"""Of a row group's rows; above it the page index is not even read."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reading some columns of a row group costs, in microseconds: by single pages, at least some of the columns,
    and whole."""

    pages_micros: float
    group_micros: float


def too_many_rows(selected: int, rows: int) -> bool:
    """Whether so many rows of a row group are wanted that nearly every page holds one."""
    return selected > rows * _MOST_SELECTED


def choose(picks: Mapping[int, tuple[PagePick, int]], rows: int) -> tuple[frozenset[int], Estimate]:
    """Which of these leaves to read by pages, rather than with the whole row group, and what both ways cost.

    Args:
        picks: by leaf, the pages with wanted rows, and how many pages its chunk has.
        rows: of the row group.
    """
    by_pages = {leaf: _pages_micros(pick, rows) for leaf, (pick, _) in picks.items()}
    by_group = {leaf: _chunk_micros(pick.chunk, rows, pages) for leaf, (pick, pages) in picks.items()}
    cheaper = frozenset(leaf for leaf in picks if by_pages[leaf] < by_group[leaf])
    ways = [(sum(by_pages.values()), frozenset(picks))]
    if 0 < len(cheaper) < len(picks):
        both = sum(min(by_pages[leaf], by_group[leaf]) for leaf in picks)
        ways.append((both + _BOTH_MICROS, cheaper))
    least, leaves = min(ways, key=lambda way: way[0])
    cost = Estimate(least, sum(by_group.values()))
    return (leaves if cost.pages_micros < cost.group_micros else frozenset()), cost


def _chunk_micros(chunk: Chunk, rows: int, pages: int) -> float:
    return rows * (_undo_micros(chunk, rows) + _value_micros(chunk)) + pages * _PAGE_MICROS


def _pages_micros(pick: PagePick, rows: int) -> float:
    row, page = _undo_micros(pick.chunk, rows), _PAGE_MICROS + _SINGLE_PAGE_MICROS
    if can_gather(pick):
        page += _THIN_PAGE_MICROS
    else:
        row += _value_micros(pick.chunk)
    return pick.covered * row + len(pick.starts) * page


def _undo_micros(chunk: Chunk, rows: int) -> float:
    """A row's share of decompressing the chunk."""
    return 0.0 if chunk.codec == UNCOMPRESSED else _BYTE_MICROS * chunk.uncompressed_size / max(1, rows)


def _value_micros(chunk: Chunk) -> float:
    return _TEXT_MICROS if chunk.physical == BYTE_ARRAY else _NUMBER_MICROS
