"""A filtered read of Avro files decodes each block once, and gives what an unfiltered read and the filter give."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import FileTrace
from support.effort import sampled

ROWS = 40_000


@pytest.fixture(scope="module")
def data() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "text": [None if n % 7 == 0 else f"text {n % 1000}" for n in range(ROWS)],
            "number": pa.array(rng.random(ROWS), mask=rng.random(ROWS) < 0.1),
            "tags": [["a", None, str(n)][: n % 4] for n in range(ROWS)],
            "few": pa.array(rng.integers(0, 100, ROWS), pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def table(data: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    made = pp.Table.create(tmp_path_factory.mktemp("avro") / "t", data.schema, options={"file.format": "avro"})
    made.append(data)
    return made


FILTERS = {
    "few = 7": pc.field("few") == 7,
    "few < 50 AND text LIKE 'text 1%'": (pc.field("few") < 50) & pc.starts_with(pc.field("text"), "text 1"),
    "number IS NULL": pc.field("number").is_null(),
    "few >= 0": pc.field("few") >= 0,
    "few = 7 AND id + few > 9": (pc.field("few") == 7) & (pc.field("id") > 2),
    "text LIKE 'text 5x%'": pc.starts_with(pc.field("text"), "text 5x"),
}


@pytest.mark.parametrize(
    ("filter_", "columns"), sampled(itertools.product(FILTERS, [None, ["id"], ["tags", "few"]]), 2), ids=str
)
def test_blocks_are_decoded_once(table: pp.Table, data: pa.Table, filter_: str, columns: list[str] | None) -> None:
    traces: list[FileTrace] = []
    batches = list(table.scan(filter=filter_, columns=columns).to_batches(on_file=traces.append))
    assert [trace.counters.rows_decoded for trace in traces] == [ROWS]
    expected = data.filter(FILTERS[filter_]).select(columns or data.column_names)
    found = pa.Table.from_batches(batches, expected.schema)
    assert found.equals(expected)


def test_positions_of_rows_that_the_filter_keeps(tmp_path: Path) -> None:
    """A deletion finds its rows by their places in the file, behind rows that were deleted before."""
    data = pa.table({"id": pa.array(range(ROWS)), "few": [n % 100 for n in range(ROWS)]})
    options = {"file.format": "avro", "deletion-vectors.enabled": "true", "bucket": "-1"}
    table = pp.Table.create(tmp_path / "t", data.schema, options=options)
    table.append(data)
    table.delete("id < 20000 AND few <> 5")
    table.delete("few = 7")
    left = [n for n in range(ROWS) if n % 100 != 7 and (n >= 20_000 or n % 100 == 5)]
    assert table.scan().to_arrow().column("id").to_pylist() == left
    assert table.scan(filter="few IN (5, 8)").to_arrow().column("id").to_pylist() == [
        n for n in left if n % 100 in (5, 8)
    ]
