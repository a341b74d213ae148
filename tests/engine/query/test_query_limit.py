"""A limit opens as few files and decodes as few rows as indexes and positions allow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.read import FileTrace
from support.effort import sampled

ROWS = 40_000
OPTIONS = {
    "file-index.bitmap.columns": "color",
    "file-index.in-manifest-threshold": "1 b",
    "parquet.page.size": "4096",
    "parquet.enable.dictionary": "false",
    "deletion-vectors.enabled": "true",
    "compaction.min.file-num": "100",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Three files of 40,000 rows; every hundredth is red, and the first thousand rows of the first file are deleted."""
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("text", pa.string())])
    made = pp.Table.create(tmp_path_factory.mktemp("limit") / "t", schema, options=OPTIONS)
    for part in range(3):
        ids = range(part * ROWS, (part + 1) * ROWS)
        colors = ["red" if i % 100 == 0 else "blue" for i in ids]
        made.append(pa.table([list(ids), colors, [f"text {i % 1000}" for i in ids]], schema=schema))
    made.delete("id < 1000")
    return made


def run(table: pp.Table, **scan: Any) -> tuple[list[int], list[FileTrace]]:
    traces: list[FileTrace] = []
    batches = table.scan(**scan).to_batches(on_file=traces.append)
    return [i for batch in batches for i in batch.column(0).to_pylist()], traces


@pytest.mark.parametrize("options", sampled([{}, {"file-index.read.enabled": "false"}], 1))
@pytest.mark.parametrize("filter_", [None, "color = 'red'", "color = 'red' AND text LIKE '%00'", "text = 'text 7'"])
@pytest.mark.parametrize("limit", [0, 1, 3, 399, 2_000])
def test_the_rows_are_the_first_ones(table: pp.Table, filter_: str | None, limit: int, options: dict[str, str]) -> None:
    ids, _ = run(table, filter=filter_, limit=limit, options=options)
    everything, _ = run(table, filter=filter_)
    assert ids == everything[:limit]


def test_exact_positions_are_all_that_is_decoded(table: pp.Table) -> None:
    ids, traces = run(table, filter="color = 'red'", limit=3)
    assert ids == [1000, 1100, 1200]
    assert len(traces) == 1
    assert traces[0].counters.rows_decoded <= 4_100
    ids, traces = run(table, filter="color = 'red'", limit=395)
    assert [t.rows_returned for t in traces] == [390, 5]


def test_live_rows_without_a_filter(table: pp.Table) -> None:
    ids, traces = run(table, limit=5)
    assert ids == [1000, 1001, 1002, 1003, 1004]
    assert len(traces) == 1
    assert traces[0].counters.rows_decoded <= 4_100


def test_a_filter_without_an_index_is_tried_bit_by_bit(table: pp.Table) -> None:
    ids, traces = run(table, filter="text = 'text 7'", limit=1)
    assert ids == [1007]
    assert traces[0].counters.rows_decoded < ROWS // 4
    ids, _ = run(table, filter="text = 'text 7'", limit=100)
    assert len(ids) == 100


def test_first_rows_of_a_selection() -> None:
    assert RowSelection.ALL.first(3, 10).to_array(10).tolist() == [0, 1, 2]
    assert RowSelection.ALL.first(10, 10).is_all
    assert RowSelection.of([2, 5, 9]).first(2, 10).to_array(10).tolist() == [2, 5]
    assert RowSelection.of([2]).first(2, 10).to_array(10).tolist() == [2]
    assert RowSelection.ALL.first(0, 10).is_none
