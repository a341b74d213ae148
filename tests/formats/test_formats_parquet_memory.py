"""How much memory reading a Parquet file takes, beside the batches that it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.formats import ReadCounters, ReadHints, by_path
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.types import from_arrow_schema

_ROWS = 2_000_000
_SIZE = 2 * 8 * _ROWS


@pytest.mark.parametrize("read_ahead", [None, 1 << 20])
def test_a_row_group_is_not_held_where_that_is_more_than_may_be_read_ahead(
    tmp_path: Path, read_ahead: int | None
) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 2**62, _ROWS) for name in ("a", "b")})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, row_group_size=_ROWS, use_dictionary=False, compression="none")
    hints = ReadHints(read_ahead=read_ahead)
    reader = by_path(str(path)).open_reader(LocalFileIO(), str(path), path.stat().st_size, ReadCounters(), hints)
    before = pa.total_allocated_bytes()
    most, start = 0, 0
    for batch in reader.read(from_arrow_schema(table.schema), RowSelection.ALL, 10_000):
        assert batch.equals(table.slice(start, batch.num_rows).combine_chunks().to_batches()[0])
        start += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    reader.close()
    assert start == _ROWS
    assert (most < _SIZE // 2) == (read_ahead is not None)
