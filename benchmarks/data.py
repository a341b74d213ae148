"""Made-up tables of the benchmarks: the same rows for every engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("code", pa.int32()), ("price", pa.float64()), ("name", pa.string())])
SQL_COLUMNS = "id BIGINT, code INT, price DOUBLE, name STRING"
RARE_CODE = 500
RARE_ROW = 6_543_210


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
