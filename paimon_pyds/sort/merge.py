"""Merging sorted rows: several sources that are in order become one, in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.buffers import one_batch
from paimon_pyds.sort.keys import sort_positions

__all__ = ["merge_sorted"]


def merge_sorted(
    sources: Sequence[Iterator[pa.RecordBatch]], keys_of: Callable[[pa.RecordBatch], Sequence[pa.Array]]
) -> Iterator[pa.RecordBatch]:
    """The rows of all sources in order; of rows with equal keys those of an earlier source come first.

    A batch of each source is in memory, and what is given out is no larger than these together.

    Args:
        sources: batches of rows that are in order.
        keys_of: the keys of a batch, as `sort_positions` compares them: `SortKeys.of` of some columns.
    """
    waiting = [source for source in (_Source(batches, keys_of) for batches in sources) if source.load()]
    while len(waiting) > 1:
        # What comes later in any source is no less than the least of the last rows in memory.
        ends = [source.key(source.stop - 1) for source in waiting]
        least = min(ends)
        first = ends.index(least)
        parts = [source.take(least, including=number <= first) for number, source in enumerate(waiting)]
        rows = one_batch(pa.Table.from_batches([part for part in parts if part.num_rows]))
        yield rows.take(sort_positions(keys_of(rows)))
        waiting = [source for source in waiting if source.start < source.stop or source.load()]
    for source in waiting:
        yield source.batch.slice(source.start)
        yield from source.batches


class _Source:
    """One source of a merge: the batch in memory, and which of its rows have not been given out."""

    batch: pa.RecordBatch

    def __init__(
        self, batches: Iterator[pa.RecordBatch], keys_of: Callable[[pa.RecordBatch], Sequence[pa.Array]]
    ) -> None:
        self.batches = batches
        self.start = self.stop = 0
        self._keys_of = keys_of
        self._keys: Sequence[pa.Array] = ()

    def load(self) -> bool:
        """Go on to the next batch that has rows; False when there is none."""
        for batch in self.batches:
            if batch.num_rows:
                self.batch, self._keys = batch, self._keys_of(batch)
                self.start, self.stop = 0, batch.num_rows
                return True
        return False

    def key(self, row: int) -> list[tuple[bool, Any]]:
        """The key of a row as Python compares it: NULL first."""
        return [((value := key[row].as_py()) is not None, value) for key in self._keys]

    def take(self, bound: list[tuple[bool, Any]], *, including: bool) -> pa.RecordBatch:
        """The rows below the bound, and those equal to it on request; they count as given out."""
        search = bisect_right if including else bisect_left
        start, self.start = self.start, search(range(self.stop), bound, self.start, key=self.key)
        return self.batch.slice(start, self.start - start)
