"""A progress bar on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["RowsProgress", "rows_progress"]


class RowsProgress:
    """Counts rows, and shows the count on a terminal."""

    def __init__(self, what: str) -> None:
        from tqdm import tqdm

        self.rows = 0
        self._bar = tqdm(unit=" rows", unit_scale=True, desc=what, disable=not sys.stderr.isatty(), leave=False)

    def __call__(self, rows: int) -> None:
        self._bar.update(rows - self.rows)
        self.rows = rows

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


@contextmanager
def rows_progress(what: str) -> Iterator[RowsProgress]:
    """A progress bar of rows."""
    progress = RowsProgress(what)
    try:
        yield progress
    finally:
        progress.close()
