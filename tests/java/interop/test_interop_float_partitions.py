"""Partitions of floats that Java before 19 and later ones spell differently, in turns with the Java at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from support.oracle import Oracle

_KEYS: dict[str, dict[str, Any]] = {
    "append": {"options": {"bucket": "-1"}},
    "key": {"primary_keys": ["f", "id"], "options": {"bucket": "1"}},
}


@pytest.mark.parametrize("kind", _KEYS)
@pytest.mark.parametrize("single", [True, False])
def test_java_and_this_package_take_turns_in_partitions_of_floats(
    tmp_path: Path, oracle: Oracle, kind: str, single: bool
) -> None:
    """Rows of both are in the directories that Java made, which it finds again."""
    type_, dtype = ("FLOAT", np.float32) if single else ("DOUBLE", np.float64)
    columns = {"f": f"{type_} NOT NULL", "id": "INT NOT NULL", "v": "STRING"}
    fields = tuple(DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns.items()))
    exact = [1.1e10, 7.3866076e25, -(2.0**57 + 2**20), 2e23, 2.0**-44, 2.0**-126, 0.5, 1e22, 3.1e8, 16777217.5]
    values = [float(dtype(value)) for value in exact]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, partition_keys=["f"], **_KEYS[kind])
        batch.write(tmp_path, "db.t", [{"f": value, "id": i, "v": "java"} for i, value in enumerate(values)])
    root = tmp_path / "db.db" / "t"
    made = {path.name for path in root.glob("f=*")}
    table = pp.Table.open(root)
    assert dict(zip(*table.scan(columns=["f", "id"]).to_arrow().sort_by("id").to_pydict().values(), strict=True)) == {
        value: i for i, value in enumerate(values)
    }
    ours = {"f": pa.array(values, pa.from_numpy_dtype(dtype)), "id": [100 + i for i in range(len(values))]}
    table.append(pa.table({**ours, "v": ["ours"] * len(values)}))
    table.update({"v": "'new'"}, "id IN (0, 2, 4)")
    table.delete("id IN (1, 3, 5, 100)")
    table.compact(full=True)
    assert {path.name for path in root.glob("f=*")} == made
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    left = {i: "new" if i in (0, 2, 4) else "java" for i in range(len(values)) if i not in (1, 3, 5)}
    left |= {100 + i: "ours" for i in range(1, len(values))}
    assert (
        {row["id"]: row["v"] for row in read.values}
        == left
        == dict(zip(*table.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    )
