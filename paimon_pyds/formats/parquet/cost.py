"""Pages or the whole row group: what costs less.

Both ways decode with pyarrow. A page costs it some microseconds, a row some nanoseconds (more for texts, less for
numbers), and the fixed costs of both ways are alike. What single pages save is the pages between them, and the rows of
pages from which few values are cut out; what they cost more is their own range, header check and gaps, per page. So
pages win until nearly all of them are wanted.

``python -m benchmarks.page_cost`` measures both ways in 112 cases (four kinds of columns, pages of 1,024 and of 6,144
rows, 2 % to 95 % of the pages wanted, by one row each or by an eighth of their rows), fits the constants and tells what
the rule loses: 1.9 % of the time that always knowing the better way would take, where it chose wrongly by a few percent
of pages more or less. Only the constants' ratios decide. They are from local files in the page cache, one core; with
slower storage both ways grow by the bytes they read, which favours pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_pyds.formats.parquet.pages import PagePick
from paimon_pyds.formats.parquet.thin import can_thin

__all__ = ["Estimate", "estimate", "pages_pay_off", "too_many_rows"]

_ROW_MICROS = 0.006
_THIN_ROW_MICROS = 0.004
"""Where few rows of a page are wanted it is decompressed, but not decoded."""
_THIN_PAGE_MICROS = 10.0
"""What cutting values out of a page costs on top, many or few."""
_PAGE_MICROS = 8.5
_SINGLE_PAGE_MICROS = 5.0
"""What a page that is read by itself costs on top."""
_MOST_SELECTED = 0.25
"""Of a row group's rows; above it the page index is not even read."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reading some columns of a row group costs, in microseconds: by single pages, and whole."""

    pages_micros: float
    group_micros: float


def too_many_rows(selected: int, rows: int) -> bool:
    """Whether so many rows of a row group are wanted that nearly every page holds one."""
    return selected > rows * _MOST_SELECTED


def estimate(picks: Iterable[tuple[PagePick, int]], rows: int) -> Estimate:
    """What reading these picks costs, each of a chunk of so many pages, and what a row group of ``rows`` rows does."""
    by_pages = by_group = 0.0
    for pick, pages in picks:
        wanted = len(pick.starts)
        row_micros, page_micros = _ROW_MICROS, _PAGE_MICROS + _SINGLE_PAGE_MICROS
        if can_thin(pick):
            row_micros, page_micros = _THIN_ROW_MICROS, page_micros + _THIN_PAGE_MICROS
        by_pages += pick.covered * row_micros + wanted * page_micros
        by_group += rows * _ROW_MICROS + pages * _PAGE_MICROS
    return Estimate(by_pages, by_group)


def pages_pay_off(picks: Iterable[tuple[PagePick, int]], rows: int) -> bool:
    """Whether to read these picks, each of a chunk of so many pages, rather than a row group of ``rows`` rows.

    The columns are decided on together: each way has its fixed cost, and a column whose pages are all wanted costs the
    same in both.
    """
    cost = estimate(picks, rows)
    return cost.pages_micros < cost.group_micros
