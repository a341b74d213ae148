"""Tables whose compacted files are sorted by other columns than the key: the Spark connector 2.1 writes such ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from support.clustered import clustered, clustered_table
from support.effort import examples
from support.v2_fixtures import Read, read_id, v2_reads, v2_table
from support.values import lines

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


@pytest.mark.parametrize("read", v2_reads("pk_clustering"), ids=read_id)
def test_a_table_of_the_spark_connector(read: Read) -> None:
    table = pp.Table.open(v2_table("pk_clustering"))
    assert lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows
    if read.filter is None:
        _check(table, [{**row, "a": float(row["a"])} for row in map(json.loads, read.rows)], "id")


_KEYS = st.lists(st.integers(0, 12), min_size=1, max_size=8)
_OPERATIONS = st.lists(st.tuples(st.sampled_from(["+I", "-D", "compact", "full"]), _KEYS), max_size=10)
_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "k < 5": lambda row: row["k"] < 5, "v = 2": lambda row: row["v"] == 2, "c = 'b'": lambda row: row["c"] == "b",
    "v > 3 AND k > 2": lambda row: row["v"] > 3 and row["k"] > 2, "k IN (1, 2, 9)": lambda row: row["k"] in (1, 2, 9),
    "c IS NULL OR v < 3": lambda row: row["c"] is None or row["v"] < 3,
}  # fmt: skip


@settings(max_examples=examples(8))
@given(
    st.lists(st.tuples(st.sampled_from(["+I", "-D", "compact", "full"]), _KEYS), max_size=10),
    st.sampled_from([*_FILTERS]),
    st.data(),
)
def test_files_are_read_without_deletes_and_deleted_positions(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, list[int]]], where: str, data: st.DataObject
) -> None:
    """A table with deletion vectors has the same rows whatever says that its files are not sorted by key."""
    options = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true", "num-levels": "5"}
    options |= {"num-sorted-run.compaction-trigger": "2", "file-index.bitmap.columns": "v", "clustering.columns": "c"}
    options["file.format"] = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    path = tmp_path_factory.mktemp("t") / "t"
    table = pp.Table.create(path, "k INT NOT NULL, c STRING, v INT", primary_key="k", options=options)
    for number, (what, keys) in enumerate(operations):
        if what in ("compact", "full"):
            table.compact(full=what == "full")
            continue
        distinct = sorted(set(keys))
        values = [{"k": k, "c": data.draw(st.sampled_from(["a", "b", "c", None])), "v": number} for k in distinct]
        table.append([{"op": what, **row} for row in values], rowkind_column="op")
    before = table.to_arrow().sort_by("k")
    clustered(path)
    table = pp.Table.open(path)
    assert table.to_arrow().sort_by("k").equals(before)
    some = before.filter(pa.array(map(_FILTERS[where], before.to_pylist()), pa.bool_()))
    assert table.scan(where).to_arrow().sort_by("k").equals(some)
    assert table.count(where) == some.num_rows
    assert table.count() == before.num_rows
    assert (table.min("v"), table.max("v")) == tuple(pc.min_max(before["v"]).as_py().values())
    assert table.lookup(list(range(13))).sort_by("k").equals(before)
    assert table.top_n("v desc, 2")["v"].to_pylist() == sorted(before["v"].to_pylist(), reverse=True)[:2]
    assert table.scan(columns=["v"], limit=3).to_arrow().num_rows == min(3, before.num_rows)


def test_files_are_skipped_by_the_columns_that_they_are_sorted_by(tmp_path: Path) -> None:
    table = clustered_table(tmp_path / "t", "k INT NOT NULL, c STRING, v INT", "k", "v", ROWS)
    assert [len(table.scan(where).plan().files) for where in ("v < 4", "v = 5", "v > 0", "v > 9")] == [1, 1, 2, 0]


def test_two_states_are_compared(tmp_path: Path) -> None:
    table = clustered_table(tmp_path / "t", "k INT NOT NULL, c STRING, v INT", "k", "v", ROWS)
    found = table.snapshots.diff(1, 2).to_arrow().select(["k", "rowkind"]).to_pylist()
    assert found == [{"k": k, "rowkind": "+I"} for k in ROWS[1]["k"]]


def test_rows_that_wait_for_a_compaction_are_merged_in_on_request(tmp_path: Path) -> None:
    table = clustered_table(tmp_path / "t", "k INT NOT NULL, c STRING, v INT", "k", "v", ROWS)
    before = table.to_arrow().sort_by("k")
    table.append([{"k": 4, "c": "new", "v": 0}, {"k": 6, "c": "b", "v": 9}])
    assert table.to_arrow().sort_by("k").equals(before)
    whole = table.scan(options={"deletion-vectors.merge-on-read": "true"})
    rows = {row["k"]: row for row in before.to_pylist()}
    rows |= {4: {"k": 4, "c": "new", "v": 0}, 6: {"k": 6, "c": "b", "v": 9}}
    assert whole.to_arrow().to_pylist() == [rows[k] for k in sorted(rows)]
    merged = {"deletion-vectors.merge-on-read": "true"}
    assert table.scan("c = 'b'", options=merged).to_arrow()["k"].to_pylist() == [5, 6]
    assert table.scan("k IN (4, 7)", options=merged).to_arrow()["v"].to_pylist() == [0, 3]
