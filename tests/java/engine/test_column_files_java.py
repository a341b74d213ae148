"""Java Paimon 1.4 reads the files of single columns that are written here; it opens no such table with vectors."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [pytest.mark.java, requires_java_oracle]

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def test_java_reads_updates_of_columns_and_what_a_compaction_made_of_them(tmp_path: Path, oracle: Oracle) -> None:
    table = pp.Table.create(
        tmp_path / "db.db" / "t", {"id": [1, 2, 3], "v": ["a", None, "c"], "n": [1.5, 2.5, None]}, options=OPTIONS
    )
    table.append({"id": [4, 5], "v": ["d", "e"], "n": [4.5, 5.5]})
    table.update({"n": "n * 2"}, "id >= 2")
    table.update({"v": "concat(v, '!')"}, "id <= 4")
    table.alter(rename_columns={"v": "w"}, add_columns={"v": "INT"})
    table.update({"v": "id", "w": "upper(w)"}, "id IN (1, 5)")
    ours = []
    replies = []
    for compacted in (False, True):
        if compacted:
            table.compact(full=True)
            table.update({"n": "0"}, "id = 4")
        with oracle.batch() as batch:
            replies.append(batch.read(tmp_path, "db.t"))
        ours.append(lines(table.to_arrow()))
    assert [sorted(reply.lines) for reply in replies] == [sorted(rows) for rows in ours]


def _check_reads(oracle: Oracle, warehouse: Path, table: pp.Table, filters: dict[str, tuple[str, Any]]) -> None:
    """Java reads the same rows, all of them and by each filter: a column and the value that it equals."""
    with oracle.batch() as batch:
        whole = batch.read(warehouse, "db.t")
        found = {
            text: batch.read(warehouse, "db.t", filter={"op": "eq", "field": name, "literals": [value]})
            for text, (name, value) in filters.items()
        }
    assert sorted(whole.lines) == sorted(lines(table.to_arrow()))
    for text, reply in found.items():
        assert sorted(reply.lines) == sorted(lines(table.scan(text).to_arrow())), text


def test_java_reads_column_files_with_copied_pages(tmp_path: Path, oracle: Oracle) -> None:
    rows = [{"id": i, "v": f"v{i % 9}", "n": float(i), "d": Decimal(i % 5), "t": f"t{i}"} for i in range(3_000)]
    table = pp.Table.create(
        tmp_path / "db.db" / "t",
        "id INT, v STRING, n DOUBLE, d DECIMAL(20, 2), t STRING",
        options={**OPTIONS, "parquet.page.row.count.limit": "64"},
    )
    table.append(rows)
    for number in range(3):
        first = 700 * number + 50
        change = {"v": "'new'", "n": f"-{number}", "d": "d + 100", "t": "upper(t)"}
        table.update(change, f"id BETWEEN {first} AND {first + 90}")
        table.update({"v": "NULL", "d": "NULL"}, f"id BETWEEN {first + 80} AND {first + 130}")
    filters = {
        "v = 'new'": ("v", "new"), "v = 'v3'": ("v", "v3"), "n = -1": ("n", -1.0), "t = 'T750'": ("t", "T750"),
        "id = 760": ("id", 760),
    }  # fmt: skip
    _check_reads(oracle, tmp_path, table, filters)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_java_reads_column_files_of_scattered_changes(codec: str, tmp_path: Path, oracle: Oracle) -> None:
    """Values in plain pages, and in dictionaries that new values are added to."""
    rows = [
        {"id": i, "k": f"k{i * i % 13}", "n": i / 7, "d": Decimal(i) / 4, "c": i * i % 1_000} for i in range(12_000)
    ]
    table = pp.Table.create(
        tmp_path / "db.db" / "t",
        "id INT, k STRING, n DOUBLE, d DECIMAL(20, 2), c INT",
        options={**OPTIONS, "parquet.page.row.count.limit": "64", "file.compression": codec},
    )
    table.append(rows)
    for number in range(4):
        table.update({"k": f"'new {number}'"}, f"id % 97 = {number}")
        table.update({"n": f"-{number}", "d": "d + 1000", "c": f"{number} * 10000"}, f"id % 89 = {number}")
        groups = [pq.ParquetFile(path).metadata.num_row_groups for path in Path(table.path).rglob("data-*.parquet")]
        assert groups == [1] * len(groups)
    filters = {
        "k = 'new 2'": ("k", "new 2"), "k = 'k3'": ("k", "k3"), "n = -1": ("n", -1.0), "c = 30000": ("c", 30_000),
        "id = 89": ("id", 89),
    }  # fmt: skip
    _check_reads(oracle, tmp_path, table, filters)
    assert not table.maintenance.verify(deep=True).findings


def test_java_reads_blob_files_next_to_compacted_rows(tmp_path: Path, oracle: Oracle) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", "id INT, pic BLOB, n STRING", options=OPTIONS)
    for i in range(3):
        table.append([{"id": i, "pic": bytes([65 + i]) * i, "n": "a"}, {"id": i + 10, "pic": None, "n": "b"}])
    for change in (
        lambda: table.update({"n": "'u'"}, "id = 1"),
        lambda: table.compact(full=True),
        lambda: table.update({"n": "'v'"}, "id = 12"),
    ):
        change()
        rows = table.scan(columns=["id", "pic"]).to_arrow().to_pylist()
        ours = [f"{row['id']} {'NULL' if row['pic'] is None else row['pic'].hex()}" for row in rows]
        assert sorted(oracle.program("BlobOracle", table.path)) == sorted(ours)
