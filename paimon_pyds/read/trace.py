"""What reading a data file told: rows after each step, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.index.evaluate import IndexResult

__all__ = ["FileTrace"]


@dataclass(slots=True)
class FileTrace:
    """What happened to one file while it was read, or asked without being read.

    Attributes:
        path: the data file.
        rows: how many rows it has.
        rows_after_index, rows_after_deletions, rows_after_pages: positions left after each step; None before it.
        rows_returned: rows given out.
        millis: time spent on it, waiting for who takes its batches left out.
        index_results: what its indexes said, in the order in which they were asked.
        counters: what the storage was asked for.
    """

    path: str
    rows: int
    rows_after_index: int | None = None
    rows_after_deletions: int | None = None
    rows_after_pages: int | None = None
    rows_returned: int = 0
    millis: float = 0.0
    index_results: list[IndexResult] = field(default_factory=list)
    counters: ReadCounters = field(default_factory=ReadCounters)
