"""Changelogs that outlive their snapshots, beside Java: the same files stay, streams of Java read what is left here,
and either goes on with what the other has left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.changelogs import changelog_ids
from support.effort import LONG, sampled
from support.live_files import table_files
from support.maintenance import files_there, has_all, is_exact, named_only, rows_of
from support.oracle import Batch, Oracle, requires_java_oracle
from support.values import dumps, in_order, json_rows

pytestmark = [pytest.mark.java, requires_java_oracle]

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())]
)
_OPTIONS = {"snapshot.num-retained.min": "2", "changelog.num-retained.min": "7",
            "changelog.num-retained.max": "7"}  # fmt: skip
TABLES: dict[str, dict[str, str]] = {
    "append": {},
    "vectors": {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                "file-index.in-manifest-threshold": "1b"},
    "key": {"bucket": "2", "manifest.merge-min-count": "3"},
    "key-input": {"bucket": "1", "changelog-producer": "input"},
    "key-lookup": {"bucket": "1", "changelog-producer": "lookup"},
}  # fmt: skip


def _rows(start: int, count: int, value: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"p": [n % 2 for n in numbers], "k": list(numbers), "v": [value] * count}, _SCHEMA)


def _change(table: pp.Table, number: int) -> None:
    for one in range(3):
        table.append(_rows(3 * one, 10, 10 * number + one))
    if "changelog-producer" not in table.options:
        table.delete(f"k = {number}")
    table.compact(full=True)
    if number % 2:
        table.overwrite(_rows(40, 6, number).filter(pc.field("p") == 1), partition={"p": 1})


def _make(warehouse: Path, name: str) -> pp.Table:
    key = ["p", "k"] if name.startswith("key") else []
    options = {**_OPTIONS, **TABLES[name]}
    table = pp.Table.create(warehouse / "db.db/t", _SCHEMA, primary_key=key, partition_by=["p"], options=options)
    _change(table, 1)
    _change(table, 2)
    return table


def _open(warehouse: Path) -> pp.Table:
    return pp.Table.open(warehouse / "db.db/t")


def _stream(batch: Batch, warehouse: Path, start: int) -> Any:
    options = ("--option", "scan.mode=from-snapshot", "--option", f"scan.snapshot-id={start}")
    return batch.add("stream", warehouse, "db.t", *options)


def _streamed(reply: Any) -> list[str]:
    return in_order(line for line in reply.lines if '"round"' not in line)


def _changes(table: pp.Table, start: int) -> list[str]:
    between = {"incremental-between": f"{start - 1},{table._store.latest_snapshot_id()}"}
    rows = table.system.audit_log(options=between).to_arrow()
    found = json_rows(rows.rename_columns(["_kind" if n == "rowkind" else n for n in rows.schema.names]))
    return in_order(map(dumps, found))


def _expire(table: pp.Table, retain: int) -> None:
    table.snapshots.expire(retain_max=retain, retain_min=retain)
    table.snapshots.expire_changelogs(older_than=2**62)


def _names(root: Path) -> set[str]:
    return {str(Path(file).relative_to(root)) for file in files_there(root)}


def test_the_same_stays(oracle: Oracle, tmp_path: Path) -> None:
    """Here first, then by Java, and the other way round."""
    tables = {name: _make(tmp_path / name, name) for name in sampled(TABLES, 1, "same")}
    for turn, retain in enumerate((3, 2, 4) if LONG else (3, 2)):
        with oracle.batch() as batch:
            for name, table in tables.items():
                shutil.rmtree(tmp_path / f"java-{name}", ignore_errors=True)
                shutil.copytree(tmp_path / name, tmp_path / f"java-{name}")
                batch.expire(tmp_path / f"java-{name}", "db.t", retain)
                _expire(table, retain)
        with oracle.batch() as batch:
            streams = {}
            for name, table in tables.items():
                theirs = _open(tmp_path / f"java-{name}")
                ids = changelog_ids(table._store)
                assert ids == changelog_ids(theirs._store), (name, turn)
                assert _names(Path(table.path)) == _names(Path(theirs.path)), (name, turn)
                for id_ in ids:
                    mine, other = (json.loads(Path(t.path, f"changelog/changelog-{id_}").read_text())
                                   for t in (table, theirs))  # fmt: skip
                    mine.pop("operation", None)  # a member of Java 2
                    other.pop("operation", None)
                    assert mine == other, (name, turn)
                assert set(table_files(table._store)) <= files_there(Path(table.path)), (name, turn)
                assert table.maintenance.verify(deep=True).ok, (name, turn)
                streams[name] = [_stream(batch, tmp_path / f"{w}{name}", ids[0]) for w in ("", "java-")]
        for name, (ours, theirs_) in streams.items():
            start = changelog_ids(tables[name]._store)[0]
            assert _changes(tables[name], start) == _streamed(ours) == _streamed(theirs_), (name, turn)
            if turn:  # go on with what Java has left
                shutil.rmtree(tmp_path / name)
                shutil.copytree(tmp_path / f"java-{name}", tmp_path / name)
                tables[name] = _open(tmp_path / name)
            rows = rows_of(tables[name])
            assert len(rows) and rows == rows_of(_open(tmp_path / f"java-{name}"))
            _change(tables[name], 3 + turn)


@pytest.mark.parametrize("name", sampled(TABLES, 1))
def test_java_knows_what_is_left(oracle: Oracle, tmp_path: Path, name: str) -> None:
    """No file that is left is an orphan to Java, which rolls back, and expires all, as is done here."""
    table = _make(tmp_path / name, name)
    table.tags.create("old", 4)
    _expire(table, 2)
    before, rows = files_there(Path(table.path)), rows_of(table, tag="old")
    assert oracle.program("MaintenanceOracle", "orphans", table.path) == []
    assert files_there(Path(table.path)) == before
    ours, theirs = (shutil.copytree(tmp_path / name, tmp_path / f"{who}-{name}") / "db.db/t" for who in ("our", "java"))
    oracle.program("MaintenanceOracle", "changelogs", theirs)
    pp.Table.open(ours).snapshots.expire_changelogs(everything=True)
    assert changelog_ids(pp.Table.open(theirs)._store) == []
    has_all(pp.Table.open(theirs))
    is_exact(pp.Table.open(ours))
    assert _names(ours) <= _names(theirs)
    for target in (table._store.snapshot_ids()[-2], "old"):
        rolled = shutil.copytree(tmp_path / name, tmp_path / f"{target}-{name}") / "db.db/t"
        oracle.program("MaintenanceOracle", "rollback", rolled, target)
        table.snapshots.rollback(target)
        assert changelog_ids(pp.Table.open(rolled)._store) == changelog_ids(table._store)
        assert rows_of(table) == rows_of(pp.Table.open(rolled))
        named_only(table)
        there = _names(rolled)
        theirs = oracle.program("MaintenanceOracle", "orphans", rolled)
        left = {str(Path(path.removeprefix("file:")).relative_to(rolled)) for path in theirs}
        assert left
        assert _names(Path(table.path)) == there - left  # what Java leaves are orphans to it, too
    assert rows_of(table) == rows
