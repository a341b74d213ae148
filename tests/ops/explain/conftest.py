"""Tables whose explanations have something to tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp

ROWS = 20_000
SCHEMA = pa.schema(
    [("id", pa.int64()), ("month", pa.int32()), ("dest", pa.string()), ("gate", pa.string()), ("tail", pa.string()),
     ("legs", pa.list_(pa.int32()))]
)  # fmt: skip


def month(m: int, rows: int = ROWS) -> pa.Table:
    """One month: ids ascend, every destination many times, gates in runs of a hundred, every tail number once."""
    rng = np.random.default_rng(m)
    return pa.table(
        {
            "id": np.arange(rows) + m * rows,
            "month": pa.array(np.full(rows, m, np.int32)),
            "dest": pa.array([f"D{i:03d}" for i in rng.integers(0, 200, rows)]),
            "gate": pa.array([f"G{i // 100}" for i in range(rows)]),
            "tail": pa.array([f"N{m}-{i}" for i in range(rows)]),
            "legs": pa.array([[i] for i in range(rows)], pa.list_(pa.int32())),
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Four months, a file each, with bitmap and bloom filter beside them."""
    options = {
        "file-index.bitmap.columns": "dest,gate",
        "file-index.bloom-filter.columns": "tail",
        "file-index.bloom-filter.tail.items": str(ROWS),
        "file-index.in-manifest-threshold": "1b",
    }
    path = tmp_path_factory.mktemp("explain") / "flights"
    table = pp.Table.create(path, SCHEMA, partition_by=["month"], options=options)
    for m in range(1, 5):
        table.append(month(m))
    return table


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Three small files with indexes in the manifest."""
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1 mb"}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string())])
    table = pp.Table.create(Path(tmp_path_factory.mktemp("explain")) / "small", schema, options=options)
    for colors in (["red", "blue", "red"], ["a", "green", "z"], ["red", "zinc", "amber"]):
        table.append(pa.table({"id": [1, 2, 3], "color": colors}, schema))
    return table
