"""Pages or the whole column chunk: what costs less.

Both ways decode with pyarrow, so a row costs the same; single pages add a fixed cost per page (its own range, header
check and entry in the made-up file) and per column (the page index and the made-up file itself), and save the rows of
the other pages. The constants were measured on local files in the page cache; on an object store requests weigh more,
but `FileIO.read_ranges` joins near ones there.
"""

from __future__ import annotations

from paimon_pyds.formats.parquet.pages import PagePick

__all__ = ["pages_pay_off", "too_many_rows"]

COLUMN_MICROS = 200.0
PAGE_MICROS = 20.0
ROW_MICROS = 0.012
_MOST_SELECTED = 0.25
"""Of a row group's rows; above it the page index is not even read."""


def too_many_rows(selected: int, rows: int) -> bool:
    """Whether so many rows of a row group are wanted that nearly every page holds one."""
    return selected > rows * _MOST_SELECTED


def pages_pay_off(pick: PagePick, rows: int) -> bool:
    """Whether to read these pages of a column chunk of ``rows`` rows rather than all of it."""
    single = COLUMN_MICROS + PAGE_MICROS * len(pick.starts) + ROW_MICROS * pick.covered
    return single < ROW_MICROS * rows
