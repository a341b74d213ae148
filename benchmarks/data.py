"""Made-up tables of the benchmarks: the same rows for every engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("code", pa.int32()), ("price", pa.float64()), ("name", pa.string())])
SQL_COLUMNS = "id BIGINT, code INT, price DOUBLE, name STRING"
RARE_CODE = 500
RARE_ROW = 6_543_210
CLUSTER_ROWS = 100
"""Neighbouring rows with the same ``id`` in a clustered table."""
_STRAYS = 2_000


def batches(rows: int, batch_rows: int = 131_072, *, seed: int = 1) -> Iterator[pa.RecordBatch]:
    """``rows`` rows: ``code`` has 1,000 values, one in their middle only once; ``name`` has 100,000."""
    rng = np.random.default_rng(seed)
    names = pa.array([f"name-{i:06d}" for i in range(100_000)])
    for start in range(0, rows, batch_rows):
        n = min(batch_rows, rows - start)
        code = rng.integers(0, 1000, n, dtype=np.int32)
        code[code == RARE_CODE] += 1
        if start <= RARE_ROW < start + n:
            code[RARE_ROW - start] = RARE_CODE
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(start, start + n)),
                pa.array(code),
                pa.array(rng.random(n)),
                names.take(pa.array(rng.integers(0, 100_000, n))),
            ],
            schema=SCHEMA,
        )


def clustered_batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Rows as events arrive: ``id`` ascends, one value per `CLUSTER_ROWS` rows, but one row in 2,000 comes late or
    early, with any value. So each page and row group spans nearly all values: their minimum and maximum say nothing."""
    rng = np.random.default_rng(2)
    for batch in batches(rows):
        ids = batch.column(0).to_numpy() // CLUSTER_ROWS
        strays = rng.integers(0, len(ids), max(1, len(ids) // _STRAYS))
        ids[strays] = rng.integers(0, max(1, rows // CLUSTER_ROWS), len(strays))
        yield batch.set_column(0, SCHEMA.field(0), pa.array(ids))
