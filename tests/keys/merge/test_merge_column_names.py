"""Columns of a table may have any name: merges add columns of their own to its rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

_NAMES = ("older", "place", "section", "_SECTION", "_BUCKET", "_PLACE", "_OLDER")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("at", ["k", "v"])
def test_a_column_may_have_a_name_that_sounds_like_one_of_a_merge(tmp_path: Path, name: str, at: str) -> None:
    key, value = (name, "v") if at == "k" else ("k", name)
    columns = {"p": "INT NOT NULL", key: "BIGINT NOT NULL", value: "INT"}
    options = {"bucket": "1", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", columns, primary_key=["p", key], partition_by="p", options=options)
    for step in range(3):
        rows = [{"p": i % 6, key: i, value: step} for i in range(0, 30, 1 + step)]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    expected = [{"p": i % 6, key: i, value: 2 if i % 3 == 0 else 1 if i % 2 == 0 else 0} for i in range(30)]

    def found(where: str | None = None, **options: str) -> list[dict[str, int]]:
        rows: list[dict[str, int]] = table.scan(where, options=options).to_arrow().sort_by(key).to_pylist()
        return rows

    assert found() == expected
    assert found(f"{value} > 0") == [row for row in expected if row[value]]
    difference = {"incremental-between": "2,3", "incremental-between-scan-mode": "diff"}
    assert found(**difference) == [row for row in expected if row[value] == 2]
    table.compact(full=True)
    assert found() == expected
