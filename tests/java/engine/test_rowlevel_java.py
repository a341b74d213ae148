"""Java Paimon and pypaimon-rust on tables whose rows were deleted and updated here, and we on those of Java."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from support.effort import sampled
from support.fixtures import fixture_names, requires_shared, table_path
from support.oracle import Batch, Oracle, Reply
from support.values import lines

_SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("x", pa.float64()), ("p", pa.string())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_WIDE = _VECTORS | {"deletion-vectors.bitmap64": "true"}
_SIDE = {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1 b"}
_BUCKETS = {"bucket": "2", "bucket-key": "id"}
_TABLES: dict[str, dict[str, Any]] = {
    "narrow": {"options": _VECTORS},
    "wide": {"options": _WIDE},
    "narrow_part": {"options": _VECTORS | _SIDE, "partition_by": ["p"]},
    "wide_part": {"options": _WIDE | {"file.format": "orc"}, "partition_by": ["p"]},
    "narrow_buckets": {"options": _VECTORS | _BUCKETS | {"write-only": "true"}},
    "wide_buckets": {"options": _WIDE | _BUCKETS | {"write-only": "true"}, "partition_by": ["p"]},
    "small_files": {"options": _VECTORS | {"deletion-vector.index-file.target-size": "60 b"}},
    "beside_data": {"options": _VECTORS | {"index-file-in-data-file-dir": "true"}, "partition_by": ["p"]},
    "tracking": {"options": _VECTORS | {"row-tracking.enabled": "true"}},
    "rewritten": {"options": {"file.format": "avro"}, "partition_by": ["p"]},
    "rewritten_buckets": {"options": _BUCKETS | _SIDE},
}


def _append(table: pp.Table, ids: range) -> None:
    table.append(
        pa.Table.from_pylist(
            [{"id": i, "c": f"c{i % 7}", "x": i / 4, "p": ("a", None)[i % 2]} for i in ids], schema=_SCHEMA
        )
    )


def _delete(batch: Batch, warehouse: Path, table: str, filter_: dict[str, Any]) -> Reply:
    return batch.add("delete", warehouse, table, "--filter", json.dumps(filter_))


def _rows(table: pp.Table) -> list[str]:
    return lines(table.scan().to_arrow())


def _vectors(table: pp.Table) -> dict[str, list[int]]:
    """The deleted positions of each data file."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    if snapshot.index_manifest is None:
        return {}
    entries = table._store.read_index_manifest(snapshot.index_manifest)
    files = VectorFiles(
        table._store, table.schema, TableOptions(table.options), entries, live_of(table._store, snapshot)
    )
    found = {}
    for entry in entries:
        for range_ in entry.deletion_ranges or ():
            vector = files.vector(entry.partition, range_.data_file)
            assert vector is not None
            found[range_.data_file] = list(vector.positions)
    return found


def test_java_reads_and_goes_on_with_what_was_deleted_here(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name, layout in sampled(_TABLES.items(), 2):
        table = tables[name] = pp.Table.create(tmp_path / "db.db" / name, _SCHEMA, **layout)
        for start in (0, 60, 120):
            _append(table, range(start, start + 60))
        assert table.delete("c = 'c3'").rows_deleted == 26
        assert table.delete("x >= 10 AND x < 12").rows_deleted > 0
        assert table.delete("id = 2 OR id >= 170").rows_deleted > 0
        if name != "tracking":
            assert table.update({"x": "-x", "c": "c || '!'"}, "id IN (7, 8, 9, 130)").rows_updated > 0
    expected = {name: _rows(table) for name, table in tables.items()}
    seen: dict[str, dict[str, Reply]] = {}
    java = {"op": "in", "field": "id", "literals": [0, 11, 12, 60, 61, 62, 63, 150]}
    ask = {"op": "eq", "field": "c", "literals": ["c3"]}
    with oracle.batch() as batch:
        for name in tables:
            seen[name] = {
                "read": batch.read(tmp_path, f"db.{name}"),
                "filter": batch.read(tmp_path, f"db.{name}", filter=ask),
            }
    for name in tables:
        assert seen[name]["read"].lines == expected[name], name
        assert seen[name]["filter"].lines == [], name
    with oracle.batch() as batch:
        after = {}
        for name, table in tables.items():
            if _VECTORS.items() <= table.options.items():
                _delete(batch, tmp_path, f"db.{name}", java)
            after[name] = batch.read(tmp_path, f"db.{name}")
    for name, table in tables.items():
        assert _rows(table) == after[name].lines, name
        table.delete("id IN (1, 13, 64, 151)")
        table.delete("id = 1")
        if name != "tracking":
            table.update({"c": "'late'"}, "id > 140 AND id < 150")
        expected[name] = _rows(table)
        assert len(expected[name]) < len(after[name].lines)
    with oracle.batch() as batch:
        again = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        for name in tables:
            batch.compact(tmp_path, f"db.{name}")
        compacted = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
    for name, table in tables.items():
        assert again[name].lines == expected[name], name
        assert compacted[name].lines == expected[name], name
        assert _rows(table) == expected[name], name
        table.delete("id < 20")
        assert table.count("id < 20") == 0


def test_vectors_are_those_that_java_sees(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name in ("narrow", "wide", "narrow_buckets", "wide_part"):
        table = tables[name] = pp.Table.create(tmp_path / "db.db" / name, _SCHEMA, **_TABLES[name])
        _append(table, range(200))
        table.delete("c IN ('c1', 'c2')")
        table.delete("id < 50 AND id % 3 = 0")
    with oracle.batch() as batch:
        replies = {name: batch.add("dv", tmp_path, f"db.{name}") for name in tables}
    for name, table in tables.items():
        java = {row["fileName"]: row["positions"] for row in replies[name].values}
        assert java == _vectors(table), name
        assert {row["kind"] for row in replies[name].values} == {
            "Bitmap64DeletionVector" if "wide" in name else "BitmapDeletionVector"
        }


@requires_shared
def test_deletes_of_java_are_continued(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name in (n for n in fixture_names() if n.startswith("append_dv")):
        shutil.copytree(table_path(name).parents[1], tmp_path / name)
        table = tables[name] = pp.Table.open(tmp_path / name / "db.db" / "t")
        deleted = _vectors(table)
        rows = table.scan().to_arrow()
        first, last = rows["id"][0].as_py(), rows["id"][-1].as_py()
        assert table.delete(f"id IN ({first}, {last}) OR v = 2").rows_deleted > 1
        assert table.update({"s": "'fresh'"}, "v = 3").rows_updated > 0
        assert table.count("s = 'fresh'") > 0
        assert table.count("v = 2") == 0
        for file, positions in _vectors(table).items():
            assert set(deleted.get(file, [])) <= set(positions)
    assert len(tables) >= 5
    left = {name: _rows(table) for name, table in tables.items()}
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t") for name in tables}
        old = {name: batch.read(tmp_path / name, "db.t", tag="before_compact") for name in tables}
        for name in tables:
            batch.compact(tmp_path / name, "db.t")
        compacted = {name: batch.read(tmp_path / name, "db.t") for name in tables}
    for name, table in tables.items():
        assert reads[name].lines == left[name], name
        assert compacted[name].lines == left[name], name
        assert old[name].lines == lines(table.scan(tag="before_compact").to_arrow()), name
        assert _rows(table) == left[name], name


def test_pypaimon_rust_reads_what_was_deleted_here(tmp_path: Path) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    for name in ("narrow", "narrow_part", "narrow_buckets", "small_files", "rewritten"):
        table = pp.Table.create(tmp_path / "db.db" / name, _SCHEMA, **_TABLES[name])
        _append(table, range(100))
        _append(table, range(100, 200))
        table.delete("c = 'c3' OR id < 10")
        table.update({"x": "x + 0.5"}, "id IN (20, 21, 150)")
        builder = datafusion.PaimonCatalog({"warehouse": str(tmp_path)}).get_table(f"db.{name}").new_read_builder()
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        assert lines(pa.Table.from_batches(batches).cast(table.arrow_schema)) == _rows(table), name
