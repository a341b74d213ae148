"""Entries in one piece."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["one_batch"]


def one_batch(entries: pa.Table) -> pa.RecordBatch:
    """A table as one record batch; its memory is shared where it is in one chunk already."""
    batches = entries.to_batches()
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.nulls(0, c.type) for c in entries.columns]
    return pa.RecordBatch.from_arrays(columns, schema=entries.schema)
