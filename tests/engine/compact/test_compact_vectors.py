"""Deletion vectors of files that a compaction removes go away with them, those of other files stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import StorageError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO
from support.compaction import SCHEMA, VECTORS, ids, index_entries, names, rows
from support.oracle import Oracle
from support.values import lines

_LARGE = {"target-file-row-num": "10"}
_WIDE = {"deletion-vectors.bitmap64": "true"}
_BUCKET = {"bucket": "1", "bucket-key": "id"}
MODES = {
    "32": VECTORS | _LARGE,
    "64": VECTORS | _LARGE | _WIDE,
    "small": VECTORS | _LARGE | {"deletion-vector.index-file.target-size": "40 b"},
    "bucket": VECTORS | _LARGE | _BUCKET,
    "beside data": VECTORS | _LARGE | {"index-file-in-data-file-dir": "true"},
}


def _table(path: Path, options: dict[str, str]) -> pp.Table:
    """Four full files; the second and the last have lost so many rows that they are rewritten."""
    table = pp.Table.create(path, SCHEMA, options=options)
    table.append(rows(0, 40))
    assert table.delete("id IN (0, 10, 11, 12, 13, 25, 30, 31, 32, 33, 34)").rows_deleted == 11
    return table


def _vectors(table: pp.Table) -> dict[str, int]:
    return {r.data_file: r.cardinality or 0 for entry in index_entries(table) for r in entry.deletion_ranges or ()}


def _left() -> list[int]:
    return [i for i in range(40) if i not in (0, 10, 11, 12, 13, 25, 30, 31, 32, 33, 34)]


@pytest.mark.parametrize("mode", MODES)
def test_vectors_of_removed_files_are_gone(tmp_path: Path, mode: str) -> None:
    table = _table(tmp_path / "t", MODES[mode])
    before = table.snapshots.latest()
    files = set(names(table))
    summary = table.compact(options={"compaction.delete-ratio-threshold": "0.3"})
    assert summary.rows_dropped >= 9
    assert set(_vectors(table)) <= set(names(table))
    stayed = files & set(names(table))
    assert {name for name, count in _vectors(table).items() if count} <= stayed
    assert sum(_vectors(table).values()) == 11 - summary.rows_dropped
    assert sorted(ids(table)) == _left()
    assert before is not None
    assert sorted(table.scan(snapshot=before.id, columns=["id"]).to_arrow()["id"].to_pylist()) == _left()
    assert table.delete("id IN (1, 20)").rows_deleted == 2
    assert sorted(ids(table)) == [i for i in _left() if i not in (1, 20)]


@pytest.mark.parametrize("mode", ["32", "64", "bucket"])
def test_deletes_that_come_in_between_are_kept(tmp_path: Path, mode: str) -> None:
    """They replace the index file that the compaction is about to take vectors from."""
    table = _table(tmp_path / "t", MODES[mode])

    class Meanwhile:
        once = True

        def map(self, function: Callable, tasks: list) -> list:  # type: ignore[type-arg]
            done = [function(task) for task in tasks]
            if self.once:
                self.once = False
                pp.Table.open(table.path).delete("id IN (2, 26)")
            return done

    table.compact(options={"compaction.delete-ratio-threshold": "0.3"}, executor=Meanwhile())
    assert set(_vectors(table)) <= set(names(table))
    assert sorted(ids(table)) == [i for i in _left() if i not in (2, 26)]
    on_disk = {p.name for p in Path(table.path, "index").iterdir()}
    named = {
        entry.file_name
        for s in table.snapshots.list()
        if s.index_manifest is not None
        for entry in table._store.read_index_manifest(s.index_manifest)
    }
    assert on_disk == named


class _FullDisk(LocalFileIO):
    """No new index file can be written."""

    def write_bytes(self, path: str, data: bytes) -> None:
        if "/index-" in path:
            raise StorageError("no space left on device", path=path)
        super().write_bytes(path, data)


def test_an_index_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", MODES["32"])
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(StorageError, match="no space"):
        pp.Table(TableStore(_FullDisk(), table.path)).compact(options={"compaction.delete-ratio-threshold": "0.3"})
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    assert table.compact(full=True).rows_dropped == 11


def test_java_reads_deletes_and_compacts_on(oracle: Oracle, tmp_path: Path) -> None:
    tables = {mode.replace(" ", "_"): mode for mode in MODES}
    opened = {name: _table(tmp_path / "db.db" / name, MODES[mode]) for name, mode in tables.items()}
    for table in opened.values():
        table.compact(options={"compaction.delete-ratio-threshold": "0.3"})
    expected = {name: lines(table.scan().to_arrow()) for name, table in opened.items()}
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path, f"db.{name}") for name in opened}
        for name in opened:
            batch.delete(tmp_path, f"db.{name}", {"op": "in", "field": "id", "literals": [1, 14, 26, 35]})
            batch.compact(tmp_path, f"db.{name}")
            batch.expire(tmp_path, f"db.{name}", 1)
        after = {name: batch.read(tmp_path, f"db.{name}") for name in opened}
    for name, table in opened.items():
        assert reads[name].lines == expected[name], name
        table = pp.Table.open(table.path)
        assert lines(table.scan().to_arrow()) == after[name].lines, name
        assert sorted(ids(table)) == [i for i in _left() if i not in (1, 14, 26, 35)], name
