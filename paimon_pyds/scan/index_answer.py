"""What was said of one data file while a filter was narrowed down: for explanations, small and without rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paimon_pyds.predicate.show import to_sql
from paimon_pyds.selection import RowSelection

if TYPE_CHECKING:
    from paimon_pyds.index.evaluate import LeafTrace

__all__ = ["STRIP_BINS", "IndexAnswer", "row_strip", "index_answers"]

STRIP_BINS = 120
"""Parts into which a file's rows are cut to show where the kept ones lie."""
_SHOWN_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What one index of a file said to one leaf of the filter.

    Attributes:
        leaf: the leaf as SQL, in the file's own schema.
        column: the column as the index container names it.
        index: the index's type; ``empty`` when the column holds NULLs only; None when no index could answer.
        rows: how many rows it keeps of the file's ``of``.
        positions: the first of the kept positions, a few; none when all rows are kept.
        strip: where they lie, see `row_strip`.
        bytes_read: what the storage was asked for.
    """

    leaf: str
    column: str
    index: str | None
    rows: int
    of: int
    positions: tuple[int, ...]
    strip: bytes
    bytes_read: int


def index_answers(trace: Iterable[LeafTrace], row_count: int) -> tuple[IndexAnswer, ...]:
    """The index_answers of an evaluation on a file of ``row_count`` rows."""
    return tuple(
        IndexAnswer(
            leaf=to_sql(said.leaf, shorten=True),
            column=said.column,
            index=said.index_type,
            rows=said.result.count(row_count),
            of=row_count,
            positions=_first(said.result),
            strip=row_strip(said.result, row_count),
            bytes_read=said.bytes_read,
        )
        for said in trace
    )


def _first(selection: RowSelection) -> tuple[int, ...]:
    return () if selection.positions is None else tuple(selection.positions[:_SHOWN_POSITIONS])


def row_strip(selection: RowSelection, row_count: int) -> bytes:
    """Where the selected rows of a file lie: `STRIP_BINS` parts of equal length, in file order.

    A part is 0 when it has no selected row, else 1 … 255 for few … all of its rows.
    """
    if selection.positions is None or row_count <= 0:
        return b"\xff" * STRIP_BINS
    edges = [row_count * i // STRIP_BINS for i in range(STRIP_BINS + 1)]
    before = np.array([selection.positions.rank(e - 1) if e else 0 for e in edges], np.int64)
    rows, found = np.diff(edges), np.diff(before)
    share = found / np.maximum(rows, 1)
    if row_count < STRIP_BINS:  # parts without a row of their own show that of their neighbour on the left
        at = (np.arange(STRIP_BINS) * row_count) // STRIP_BINS
        share = np.array([float(int(row) in selection.positions) for row in at])
    return np.where(share > 0, 1 + np.floor(share * 254), 0).astype(np.uint8).tobytes()
