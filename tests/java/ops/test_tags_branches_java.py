"""Java Paimon reads and writes tables whose tags, branches and snapshots were kept in order here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.storage.local import LocalFileIO
from support.maintenance import has_all
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [pytest.mark.java, requires_java_oracle]

_SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
_TABLES = {
    "append": ([], {"deletion-vectors.enabled": "true"}),
    "key": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
}


def _rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [10 * key for key in keys]}, _SCHEMA)


@pytest.mark.parametrize("retained", [6, 3, 2], ids=["its snapshot is there", "the next is there", "neither"])
def test_java_reads_and_writes_after_a_rollback_to_a_tag_was_stopped(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retained: int
) -> None:
    """Java believes the hint LATEST, even if the snapshot that it names is gone."""
    table = pp.Table.create(tmp_path / "db.db/t", _SCHEMA)
    for number in range(6):
        table.append(_rows(number))
    table.tags.create("x", 3)
    table.snapshots.expire(retain_max=retained)
    delete = LocalFileIO.delete

    def stopping(io: LocalFileIO, paths: Iterable[str]) -> None:
        gone = list(paths)
        delete(io, gone)
        if gone == [table._store.paths.snapshot(6)]:
            raise KeyboardInterrupt

    monkeypatch.setattr(LocalFileIO, "delete", stopping)
    with pytest.raises(KeyboardInterrupt):
        table.snapshots.rollback(tag="x")
    monkeypatch.undo()
    with oracle.batch() as batch:
        stopped = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", _rows(9))
    assert stopped.lines == lines(table.scan(snapshot=5).to_arrow())
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2, 3, 4, 9]
    table.snapshots.rollback(tag="x")
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1, 2]


def test_java_goes_on(oracle: Oracle, tmp_path: Path) -> None:
    tables, branches = {}, {}
    for name, (key, options) in _TABLES.items():
        table = pp.Table.create(tmp_path / name / "db.db/t", _SCHEMA, primary_key=key, options=options)
        for number in range(4):
            table.append(_rows(number, number + 10))
        table.tags.create("old", 2)
        table.tags.create("short", retain="1 d")
        table.delete("k = 3")
        table.snapshots.expire(retain_max=1)
        table.branches.create("b", "old")
        branch = pp.Table.open(table.path, branch="b")
        branch.append(_rows(50))
        branch.delete("k = 0")
        tables[name], branches[name] = table, branch
    with oracle.batch() as batch:
        reads = {
            (name, what): batch.read(tmp_path / name, "db.t", **{what: scan})
            for name in tables
            for what, scan in (("tag", "old"), ("branch", "b"))
        }
        for name in tables:
            batch.tag(tmp_path / name, "db.t", "java")
            batch.write(tmp_path / name, "db.t$branch_b", _rows(60))
            batch.write(tmp_path / name, "db.t", _rows(70))
    for name, table in tables.items():
        assert reads[name, "tag"].lines == lines(table.scan(tag="old").to_arrow())
        rows = branches[name].scan().to_arrow()
        assert reads[name, "branch"].lines == lines(rows.filter(pa.compute.not_equal(rows["k"], 60)))
        assert 60 in rows["k"].to_pylist()
        table.snapshots.rollback("java")
        table.append(_rows(80))
        branches[name].snapshots.expire(retain_max=1)
        table.tags.delete("old")
        has_all(table)
    with oracle.batch() as batch:
        after = {name: batch.read(tmp_path / name, "db.t") for name in tables}
        for name in tables:
            batch.write(tmp_path / name, "db.t", _rows(90))
    for name, table in tables.items():
        rows = table.scan().to_arrow()
        assert after[name].lines == lines(rows.filter(pa.compute.not_equal(rows["k"], 90)))
        assert {80, 90} <= set(rows["k"].to_pylist())
        assert 70 not in rows["k"].to_pylist()
        table.branches.fast_forward("b")
        table.branches.delete("b")
        has_all(table)
    with oracle.batch() as batch:
        last = {name: batch.read(tmp_path / name, "db.t") for name in tables}
        for name in tables:
            batch.write(tmp_path / name, "db.t", _rows(99))
            batch.expire(tmp_path / name, "db.t", 1)
    for name, table in tables.items():
        rows = table.scan().to_arrow()
        assert last[name].lines == lines(rows.filter(pa.compute.not_equal(rows["k"], 99)))
        assert {50, 60, 99} <= set(rows["k"].to_pylist())
