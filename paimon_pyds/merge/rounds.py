"""Windows of any number of sorted runs, in rounds where there are many: open files and memory stay within bounds."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pyarrow as pa

from paimon_pyds.buffers import sliced
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.merge.windows import SortedBatches, windows
from paimon_pyds.sort.spill import SpillFile

MOST_RUNS = 64
"""Runs that are merged at once, at most: of each a file is open, and a few batches are in memory."""


def windows_in_rounds(
    runs: Sequence[SortedBatches], merger: RowMerger, batch_rows: int, batch_bytes: int, compression: str
) -> Generator[pa.RecordBatch, None, None]:
    """`windows` of the runs. Of more than `MOST_RUNS`, neighbours are first made one run each, on the local disk.

    These hold the rows only that are needed to merge those of a key: see `RowMerger.needed`.

    Args:
        runs: the oldest first. A run is not begun before it is its turn.
        merger: of the table.
        batch_rows: rows in a batch of what is spilled, at most.
        batch_bytes: bytes in such a batch at most, about.
        compression: of what is spilled: ``zstd``, ``lz4`` or ``none``.

    Raises:
        CorruptFileError: a run is not sorted by its keys, or repeats one that it must not.
        StorageError: the local disk is full.
    """
    spilled: list[SpillFile[int]] = []
    try:
        while len(runs) > MOST_RUNS:
            spilled.append(SpillFile(compression, "the rows of a merge"))
            runs = _round(runs, merger, batch_rows, batch_bytes, spilled[-1])
        yield from windows(runs, merger.keys, merger.needed)
    finally:
        for spill in spilled:
            spill.close()


def _round(
    runs: Sequence[SortedBatches], merger: RowMerger, batch_rows: int, batch_bytes: int, spill: SpillFile[int]
) -> list[SortedBatches]:
    """Fewer runs: groups of the newest, as those are the smallest, are merged until there are few enough."""
    left, merged = list(runs), list[SortedBatches]()
    while left and len(left) + len(merged) > MOST_RUNS:
        size = min(MOST_RUNS, len(left) + len(merged) - MOST_RUNS + 1)
        group, left = left[-size:], left[:-size]
        number = len(merged)
        for window in windows(group, merger.keys, merger.needed):
            for rows in sliced(merger.needed_in_order(window), batch_rows, batch_bytes):
                spill.add(number, rows)
        merged.append(SortedBatches(spill.take(number), group[0].name, repeats=True))
    return [*left, *reversed(merged)]
