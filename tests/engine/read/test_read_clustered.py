"""Tables whose compacted files are sorted by other columns than the key: the Spark connector 2.1 writes such ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from support.clustered import clustered_table
from support.fixtures import DEV, has_shared

ROWS = [
    {"k": [1, 4, 7, 8], "c": ["z", "b", "a", "m"], "v": [1, 2, 3, 4]},
    {"k": [2, 5, 9], "c": ["y", "b", "c"], "v": [5, 6, 7]},
]


def _check(table: pp.Table, rows: list[dict[str, Any]], key: str) -> None:
    assert not table.maintenance.verify(deep=True).findings
    keys = sorted(row[key] for row in rows)
    assert table.scan().to_arrow().sort_by(key).to_pylist() == sorted(rows, key=lambda row: row[key])
    for row in rows:
        assert table.lookup(row[key]).to_pylist() == [row]
        assert table.scan(f"{key} = {row[key]}").to_arrow().to_pylist() == [row]
        assert table.count(f"{key} > {row[key]}") == sum(k > row[key] for k in keys)
    assert table.lookup([*keys, 1000])[key].to_pylist() == keys
    assert table.top_n(f"{key} desc, 2")[key].to_pylist() == keys[:-3:-1]
    assert (table.min(key), table.max(key)) == (keys[0], keys[-1])
    assert {(row["min_key"], row["level"]) for row in table.system.read("files").to_pylist()} == {(None, 1)}


@pytest.mark.parametrize("by", ["c", "v"])
@pytest.mark.parametrize("type_", ["INT", "BIGINT", "SMALLINT"])
def test_rows_are_found_by_key(tmp_path: Path, by: str, type_: str) -> None:
    table = clustered_table(tmp_path / "t", f"k {type_} NOT NULL, c STRING, v INT", "k", by, ROWS)
    rows = [dict(zip(part, row, strict=True)) for part in ROWS for row in zip(*part.values(), strict=True)]
    _check(table, rows, "k")


def test_text_keys_and_keys_of_two_columns(tmp_path: Path) -> None:
    one = clustered_table(tmp_path / "one", "c STRING NOT NULL, v INT", "c", "v", [{"c": ["b", "a"], "v": [1, 2]}])
    assert one.lookup(["a", "b", "c"]).to_pylist() == [{"c": "a", "v": 2}, {"c": "b", "v": 1}]
    two = clustered_table(tmp_path / "two", "k INT NOT NULL, c STRING NOT NULL, v INT", "k, c", "v", ROWS)
    assert two.lookup([(7, "a"), (2, "y"), (2, "z")])["v"].to_pylist() == [3, 5]
    for table in (one, two):
        assert not table.maintenance.verify(deep=True).findings
        assert table.system.read("files")["max_key"].null_count == table.system.read("files").num_rows
        assert table.scan("c = 'a'").count() == 1


@pytest.mark.skipif(not has_shared(), reason="needs a table of the Spark connector 2.1")
def test_a_table_of_the_spark_connector() -> None:
    assert DEV is not None
    folder = DEV.parent / "v2" / "pk_clustering"
    if not folder.is_dir():
        pytest.skip("needs a table of the Spark connector 2.1")
    rows = [json.loads(line) for line in (folder / "expected" / "full.jsonl").read_text().splitlines()]
    table = pp.Table.open(folder / "table" / "db.db" / "t")
    _check(table, [{**row, "a": float(row["a"])} for row in rows], "id")
