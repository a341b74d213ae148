"""Java Paimon reads tables that were merged into here, their indexes included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from support.oracle import Oracle, Reply
from support.values import lines

_SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("x", pa.float64()), ("p", pa.string())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_INDEX = {"file-index.bitmap.columns": "id,c", "file-index.in-manifest-threshold": "1 b"}
_TABLES: dict[str, dict[str, Any]] = {
    "narrow": {"options": _VECTORS | _INDEX},
    "wide": {"options": _VECTORS | {"deletion-vectors.bitmap64": "true"}, "partition_by": ["p"]},
    "buckets": {"options": _VECTORS | {"bucket": "2", "bucket-key": "id", "file.format": "orc"}},
    "tracking": {"options": _VECTORS | {"row-tracking.enabled": "true"}, "partition_by": ["p"]},
    "rewritten_tracking": {"options": {"row-tracking.enabled": "true"}},
    "rewritten": {"options": _INDEX | {"file.format": "avro"}, "partition_by": ["p"]},
}


def _rows(ids: range) -> pa.Table:
    rows = [{"id": i, "c": f"c{i % 7}", "x": i / 4, "p": ("a", None)[i % 2]} for i in ids]
    return pa.Table.from_pylist(rows, _SCHEMA)


def test_java_reads_what_was_merged(oracle: Oracle, tmp_path: Path) -> None:
    expected: dict[str, list[str]] = {}
    for name, layout in _TABLES.items():
        table = pp.Table.create(tmp_path / "db.db" / name, _SCHEMA, **layout)
        for start in (0, 60, 120):
            table.append(_rows(range(start, start + 60)))
        changes = pa.table({"id": range(50, 200, 3), "d": [i % 4 for i in range(50)]})
        done = table.merge(
            changes,
            ["id"],
            when_matched=["d = 0 THEN DELETE", "UPDATE SET x = d + t.x, p = if(d = 1, 'moved', p)"],
            when_not_matched="INSERT (id, c, p) VALUES (source.id, 'new', 'a')",
            when_not_matched_by_source="id >= 170 THEN DELETE",
        )
        assert min(done.rows_deleted, done.rows_updated, done.rows_inserted) > 0
        again = table.merge(_rows(range(70)), ["id", "c"], when_matched="update", when_not_matched="insert")
        assert again.rows_updated + again.rows_inserted == 70
        expected[name] = lines(table.scan().to_arrow())
    seen: dict[str, dict[str, Reply]] = {}
    with oracle.batch() as batch:
        for name in expected:
            filters = {"moved": ("p", "moved"), "new": ("c", "new"), "one": ("id", 53)}
            asked = {
                key: batch.read(tmp_path, f"db.{name}", filter={"op": "eq", "field": field, "literals": [value]})
                for key, (field, value) in filters.items()
            }
            seen[name] = {"all": batch.read(tmp_path, f"db.{name}"), **asked}
    for name, rows in expected.items():
        table = pp.Table.open(tmp_path / "db.db" / name)
        assert seen[name]["all"].lines == rows, name
        assert seen[name]["moved"].lines == lines(table.scan("p = 'moved'").to_arrow()), name
        assert seen[name]["new"].lines == lines(table.scan("c = 'new'").to_arrow()), name
        assert seen[name]["one"].lines == lines(table.scan("id = 53").to_arrow()), name
