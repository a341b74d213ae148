"""The rows of small files that were decoded together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from paimon_pyds.base.records import dataclass
from paimon_pyds.format.batches import bytes_held


@dataclass(frozen=True, slots=True)
class SomeRows:
    """The rows of a file within those of many: ``num_rows`` from ``start`` on."""

    whole: pa.RecordBatch
    start: int
    num_rows: int
    size: int

    def get_total_buffer_size(self) -> int:
        """Bytes of memory that they take, about."""
        return self.size

    def take(self, positions: pa.Array) -> pa.Table:
        """The rows at some positions."""
        return pa.Table.from_batches([self.whole.slice(self.start, self.num_rows)]).take(positions)


def cut(batch: pa.RecordBatch, counts: Sequence[int]) -> list[SomeRows]:
    """The rows of each file, by how many it has."""
    a_row = bytes_held(batch) / max(1, batch.num_rows)
    starts = accumulate(counts, initial=0)
    return [SomeRows(batch, start, count, int(a_row * count)) for start, count in zip(starts, counts, strict=False)]


def strung_together(some: Sequence[SomeRows]) -> list[pa.RecordBatch]:
    """The rows of files of one batch, those of neighbours in one piece."""
    whole, found, start, stop = some[0].whole, list[pa.RecordBatch](), some[0].start, some[0].start
    for each in some:
        if each.start != stop:
            found.append(whole.slice(start, stop - start))
            start = each.start
        stop = each.start + each.num_rows
    return [*found, whole.slice(start, stop - start)]


def whole_of(each: object) -> int | None:
    """The identity of the batch that has the rows of a file; None where the file was decoded alone."""
    return id(each.whole) if isinstance(each, SomeRows) else None
