"""Very many sorted runs: merged in rounds, they give what they give at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.keys.merge import windows as window_module
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import SortedBatches, windows_in_rounds
from paimon_pyds.metadata.schema import TableSchema
from support.engine_model import KIND, SEQ

_COLUMNS = pa.schema([("k", pa.int32()), ("v", pa.int64())])
_FILE = pa.schema([("_KEY_k", pa.int32()), (SEQ, pa.int64()), (KIND, pa.int8()), *_COLUMNS])
_Run = Sequence[tuple[int, int | None]]
_RUNS = st.lists(st.dictionaries(st.integers(0, 6), st.none() | st.integers(0, 9), max_size=6), min_size=1, max_size=30)


def _merger(engine: str) -> RowMerger:
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    options = options or {"merge-engine": engine}
    return RowMerger(TableSchema(0, from_arrow_schema(_COLUMNS), 1, primary_keys=("k",), options=options))


def _batch(number: int, run: _Run) -> pa.RecordBatch:
    keys = [key for key, _ in run]
    columns = [keys, [number] * len(run), [0] * len(run), keys, [value for _, value in run]]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, _FILE, strict=True)], schema=_FILE)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
@given(drawn=_RUNS, most=st.integers(2, 5), rows=st.integers(1, 4))
def test_rounds_give_what_one_merge_gives(
    engine: str, drawn: list[dict[int, int | None]], most: int, rows: int
) -> None:
    merger = _merger(engine)
    batches = [_batch(number, sorted(run.items())) for number, run in enumerate(drawn)]
    runs = [
        SortedBatches([batch.slice(start, rows) for start in range(0, batch.num_rows, rows)], "f") for batch in batches
    ]
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(window_module, "MOST_RUNS", most)
        with closing(windows_in_rounds(runs, merger, rows, 1 << 20, "lz4")) as windows:
            for window in windows:
                found += merger.merge(window).to_pylist()
    whole = pa.Table.from_batches(batches, schema=_FILE)
    assert found == (merger.merge(whole).to_pylist() if whole.num_rows else [])
