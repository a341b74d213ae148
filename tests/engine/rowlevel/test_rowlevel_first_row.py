"""DELETE in tables with merge-engine=first-row: files without the rows that go, as the Spark connector 2.1 does it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.manifest_reader import ManifestReader
from support.effort import LONG, sampled
from support.executors import Pickling
from support.oracle import Oracle, requires_java_oracle
from support.races import race
from support.values import lines

_SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("n", pa.int64())])
_FIRST = {"merge-engine": "first-row", "bucket": "1"}
_KEY = ["p", "id"]
_LAYOUTS: dict[str, dict[str, Any]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "changelog": {"changelog-producer": "lookup"},
    "buckets": {"bucket": "3", "target-file-row-num": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    "thin": {"data-file.thin-mode": "true"},
    "ignoring": {"ignore-delete": "true"},
    "index": {"file-index.bitmap.columns": "n"},
}


def _table(path: Path, **options: Any) -> pp.Table:
    return pp.Table.create(path, _SCHEMA, primary_key=_KEY, partition_by=["p"], options={**_FIRST, **options})


def _data(rows: dict[int, int]) -> pa.Table:
    return pa.table([[i % 2 for i in rows], list(rows), list(rows.values())], schema=_SCHEMA)


def _state(table: pp.Table) -> dict[int, int]:
    rows = table.to_arrow()
    found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows == table.count()
    return found


@pytest.mark.parametrize("layout", sampled(_LAYOUTS, 5))
def test_rows_go_and_their_keys_may_come_again(tmp_path: Path, layout: str) -> None:
    pick = random.Random(layout)
    table, model = _table(tmp_path / "t", **_LAYOUTS[layout]), dict[int, int]()
    for _ in range(12 if LONG else 2):
        rows = {pick.randrange(30): pick.randrange(10) for _ in range(12)}
        table.append(_data(rows))
        model = {**rows, **model}
        limit, part = pick.randrange(10), pick.choice(["", " AND p = 1"])
        summary = table.delete(f"n < {limit} AND id % 3 = 0{part}", executor=Pickling())
        gone = {i for i, n in model.items() if n < limit and i % 3 == 0 and (not part or i % 2)}
        assert summary.rows_deleted == len(gone)
        assert (summary.snapshot_id is None) == (not gone)
        model = {i: n for i, n in model.items() if i not in gone}
        assert _state(table) == model
        if pick.random() < 0.3:
            table.compact(full=True)
            assert _state(table) == model
    assert not table.maintenance.verify().findings


def test_only_files_that_lose_rows_are_written_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.append(_data({0: 0, 2: 1, 4: 2, 6: 3, 1: 4, 3: 5}))
    before = {file.name for file in table.scan().plan().files}
    summary = table.delete("id IN (2, 4)")
    after = {file.name for file in table.scan().plan().files}
    assert (summary.rows_deleted, summary.files_removed) == (2, len(before - after))
    assert before & after
    assert _state(table) == {0: 0, 6: 3, 1: 4, 3: 5}
    live = ManifestReader(table._store).live_files(table.snapshots.latest())
    assert all(level > 0 for level in live["level"].to_pylist())
    assert table.snapshots.latest().operation == "DELETE"
    assert table.delete("id = 77").snapshot_id is None


def test_what_waits_for_a_compaction_has_to_come_first(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"write-only": "true"})
    table.append(_data({0: 0, 1: 1}))
    table.compact(full=True)
    table.append(_data({0: 50, 2: 60, 3: 7}))
    with pytest.raises(UnsupportedError, match=r"needs all rows compacted.*table\.compact\(full=True\)"):
        table.delete("id = 0")
    assert table.delete("id = 100").rows_deleted == 0  # no waiting file may hold it
    table.compact(full=True)
    assert table.delete("id = 0").rows_deleted == 1
    assert _state(table) == {1: 1, 2: 60, 3: 7}


def test_a_table_that_compacts_brings_rows_in_by_itself(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.append(_data({0: 0}))
    table.append(_data({0: 50, 2: 60}), options={"write-only": "true"})
    assert _state(table) == {0: 0}
    assert table.delete("n < 70").rows_deleted == 2
    assert _state(table) == {}
    table.compact(full=True)
    assert _state(table) == {}


_MEANWHILE: dict[str, tuple[Callable[[pp.Table], Any], dict[int, int]]] = {
    "an append of the key": (lambda t: t.append(_data({4: 70})), {2: 2, 6: 6}),
    "an append of others": (lambda t: t.append(_data({8: 8})), {2: 2, 6: 6, 8: 8}),
    "a compaction": (lambda t: t.compact(full=True), {2: 2, 6: 6}),
    "a delete of others": (lambda t: t.delete("id = 2"), {6: 6}),
    "a delete of the same": (lambda t: t.delete("id = 4"), {2: 2, 6: 6}),
    "an overwrite": (lambda t: t.overwrite(_data({4: 9})), {}),
}


@pytest.mark.parametrize("what", _MEANWHILE)
def test_beside_other_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    table = _table(tmp_path / "t")
    table.append(_data({2: 2}))
    table.append(_data({4: 4, 6: 6}))
    intruder, (other, expected) = pp.Table.open(table.path), _MEANWHILE[what]
    race(monkeypatch, lambda: other(intruder))
    table.delete("id = 4")
    assert _state(table) == expected
    table.compact(full=True)
    assert _state(table) == expected


def test_keys_in_any_partition(tmp_path: Path) -> None:
    table = pp.Table.create(
        tmp_path / "t", _SCHEMA, primary_key=["id"], partition_by=["p"], options={"merge-engine": "first-row"}
    )
    table.append(_data({0: 0, 1: 1, 2: 2}))
    assert table.delete("id <= 1").rows_deleted == 2
    assert _state(table) == {2: 2}
    table.append(pa.table({"p": [1, 1], "id": [0, 2], "n": [5, 6]}))
    assert _state(table) == {0: 5, 2: 2}


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    table.append(_data({0: 0, 1: 1}))
    assert main(["delete", table.path, "--where", "id = 1"]) == 0
    assert "1 row deleted" in capsys.readouterr().out
    assert _state(table) == {0: 0}


@requires_java_oracle
@pytest.mark.java
def test_java_reads_and_writes_on(oracle: Oracle, tmp_path: Path) -> None:
    """Java reads what is left, and takes a key that was deleted again."""
    table = _table(tmp_path / "db.db" / "t", **{"changelog-producer": "lookup"})
    table.append(_data({i: i for i in range(10)}))
    table.delete("n >= 3 AND n < 7")
    path = oracle.scratch_file(".jsonl")
    path.write_text('{"p": 0, "id": 4, "n": 70}\n{"p": 0, "id": 2, "n": 80}\n', encoding="utf-8")
    with oracle.batch() as batch:
        first = batch.read(tmp_path, "db.t")
        batch.add("write", tmp_path, "db.t", path)
        batch.compact(tmp_path, "db.t")
        second = batch.read(tmp_path, "db.t")
    assert first.lines == lines(table.scan(snapshot=first_snapshot(table)).to_arrow())
    assert second.lines == lines(table.to_arrow())
    assert _state(table) == {0: 0, 1: 1, 2: 2, 4: 70, 7: 7, 8: 8, 9: 9}


def first_snapshot(table: pp.Table) -> int:
    """That of the delete."""
    return next(snapshot.id for snapshot in table.snapshots.list() if snapshot.operation == "DELETE")
