"""Batches of a good size from batches of any size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

__all__ = ["BatchSizer"]


class BatchSizer:
    """Joins small batches, and cuts large ones, so that those given out have a good size."""

    def __init__(self, schema: pa.Schema, batch_rows: int) -> None:
        self._schema = schema
        self._most = batch_rows
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch, *, keep_small: bool) -> Iterator[pa.RecordBatch]:
        """What can be given out once this batch has come; with ``keep_small`` it may wait for more."""
        if self._rows and self._rows + batch.num_rows > self._most:
            yield from self.rest()
        for start in range(0, batch.num_rows, self._most):
            part = batch.slice(start, self._most)
            self._parts.append(part)
            self._rows += part.num_rows
            if not keep_small or self._rows * 2 >= self._most:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is still waiting."""
        if self._parts:
            parts, self._parts, self._rows = self._parts, [], 0
            if len(parts) == 1:
                yield parts[0]
            else:
                yield from pa.Table.from_batches(parts, self._schema).combine_chunks().to_batches()
