"""The rows that every engine writes to a table with a primary key, commit by commit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.data import batches

LATER_RUNS = 3
LATER_SHARE = 0.3
"""Each later run has so many of the keys of the first, which has all."""


def key_runs(keys: int) -> Iterator[pa.RecordBatch]:
    """The rows of each commit, in no order."""
    rng = np.random.default_rng(4)
    for number in range(1 + LATER_RUNS):
        rows = int(keys * LATER_SHARE) if number else keys
        batch = next(batches(rows, rows, seed=number))
        yield batch.set_column(0, batch.schema.field(0), pa.array(rng.choice(keys, rows, replace=False)))
