"""Expiry beside Java's on a copy of the same table: what Java removes is gone, and both read the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from support.effort import sampled
from support.live_files import table_files
from support.maintenance import files_there, rows_of
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [pytest.mark.java, requires_java_oracle]

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())]
)
_KEY = {"bucket": "2"}
TABLES = {
    "append": {},
    "vectors": {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                "file-index.in-manifest-threshold": "1b"},
    "buckets": {"bucket": "2", "bucket-key": "k"},
    "key": _KEY,
    "key-vectors": {**_KEY, "deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1"},
    "input-changelog": {**_KEY, "changelog-producer": "input"},
    "lookup-changelog": {**_KEY, "changelog-producer": "lookup"},
}  # fmt: skip


def _rows(start: int, count: int, value: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"p": [n % 2 for n in numbers], "k": list(numbers), "v": [value] * count}, _SCHEMA)


def _make(path: Path, name: str) -> pp.Table:
    keyed = not ("append" in name or name in ("vectors", "buckets"))
    key = ["p", "k"] if keyed else []
    table = pp.Table.create(path / "db.db" / "t", _SCHEMA, primary_key=key, partition_by=["p"], options=TABLES[name])
    for number in range(4):
        table.append(_rows(5 * number, 20, number))
    if "changelog" not in name:
        table.delete("k = 7")
    table.compact(full=True)
    table.append(_rows(0, 10, 9))
    table.overwrite(_rows(40, 6, 10).filter(pc.field("p") == 1), partition={"p": 1})
    return table


@pytest.mark.parametrize("tagged", [False, True], ids=["plain", "tags and a branch"])
def test_the_same_files_stay(oracle: Oracle, tmp_path: Path, tagged: bool) -> None:
    tables = {name: _make(tmp_path / name, name) for name in sampled(TABLES, 1, str(tagged))}
    if tagged:
        with oracle.batch() as batch:
            for name, table in tables.items():
                for id_ in table._store.snapshot_ids()[1::3]:
                    batch.tag(tmp_path / name, "db.t", f"at{id_}", snapshot=id_)
                if "changelog" not in name:  # Java takes away what the branch's first snapshot has of it
                    batch.branch(tmp_path / name, "db.t", "b", tag=f"at{table._store.snapshot_ids()[1]}")
    before = {name: rows_of(table) for name, table in tables.items()}
    at_tags = {name: {tag: rows_of(table, tag=tag) for tag in table.tags.list()} for name, table in tables.items()}
    for name, table in tables.items():
        table.append(_rows(60, 3, 1))
        table.delete("k = 61") if "changelog" not in name else table.append(_rows(61, 2, 5))
        table.compact(full=True)
        shutil.copytree(tmp_path / name, tmp_path / f"java-{name}")
        before[name] = rows_of(table)
    with oracle.batch() as batch:
        for name in tables:
            batch.expire(tmp_path / f"java-{name}", "db.t", 2)
    for name, table in tables.items():
        theirs = pp.Table.open(tmp_path / f"java-{name}" / "db.db" / "t")
        table.snapshots.expire(retain_max=2, retain_min=2)
        there = {Path(f).relative_to(table.path) for f in files_there(Path(table.path))}
        java = {Path(f).relative_to(theirs.path) for f in files_there(Path(theirs.path))}
        assert there <= java, name
        assert set(table_files(table._store)) == files_there(Path(table.path)), name
        orphans = {str(Path(theirs.path) / f) for f in java - there}
        assert orphans.isdisjoint(table_files(theirs._store)), name
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t") for name in tables}
        tags = {n: {tag: batch.read(tmp_path / n, "db.t", tag=tag) for tag in at_tags[n]} for n in tables}
    for name, table in tables.items():
        assert rows_of(table) == before[name], name
        assert reads[name].lines == lines(table.scan().to_arrow()), name
        for tag, read in tags[name].items():
            assert rows_of(table, tag=tag) == at_tags[name][tag], (name, tag)
            assert read.lines == lines(table.scan(tag=tag).to_arrow()), (name, tag)


def test_the_same_directories_stay_when_a_tag_goes(oracle: Oracle, tmp_path: Path) -> None:
    """Empty ones of buckets and partitions go under ``snapshot.clean-empty-directories``."""
    for clean in ("true", "false"):
        place, copy = tmp_path / clean / "t", tmp_path / clean / "java"
        options = {"snapshot.clean-empty-directories": clean, "write-only": "true"}
        table = pp.Table.create(place, _SCHEMA, partition_by=["p"], options=options)
        table.append(_rows(0, 6, 1))
        table.tags.create("x")
        table.overwrite(_rows(0, 6, 2).filter(pc.field("p") == 1))
        table.snapshots.expire(retain_max=1)
        shutil.copytree(place, copy)
        oracle.program("MaintenanceOracle", "delete-tag", copy, "x")
        table.tags.delete("x")
        there = {str(path.relative_to(place)) for path in place.glob("p=*/**/")}
        java = {str(path.relative_to(copy)) for path in copy.glob("p=*/**/")}
        assert there == java, clean
        assert ("p=0" in there) == (clean == "false")
