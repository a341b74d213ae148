"""Copies of a state of a table: the same rows, files of its own, nothing left after a failure; Java goes on there."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import AlreadyExistsError, OptionError, PaimonError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.ops.maintenance import clone
from support.effort import sampled
from support.maintenance import files_there, is_exact, rows_of
from support.oracle import Oracle, requires_java_oracle
from support.s3_server import serving
from support.values import lines

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())]
)
_KINDS = {
    "append": ([], {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                    "file-index.in-manifest-threshold": "1b"}),
    "row ids": ([], {"row-tracking.enabled": "true"}),
    "key": (["p", "k"], {"bucket": "2", "changelog-producer": "input"}),
    "dynamic": (["p", "k"], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
}  # fmt: skip


def _rows(*keys: int) -> pa.Table:
    return pa.table({"p": [k % 2 for k in keys], "k": list(keys), "v": [10 * k for k in keys]}, _SCHEMA)


def _table(path: Path, kind: str = "append") -> pp.Table:
    key, options = _KINDS[kind]
    table = pp.Table.create(path, _SCHEMA, primary_key=key, partition_by=["p"], options=options)
    for number in range(4):
        table.append(_rows(number, number + 10))
    table.tags.create("x")
    if "changelog-producer" not in options:
        table.delete("k = 2")
    return table


@pytest.mark.parametrize("kind", sampled(_KINDS, 2, "whole"))
def test_copies(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path / "t", kind)
    table.maintenance.analyze()
    rows, tagged, before = rows_of(table), rows_of(table, tag="x"), files_there(tmp_path / "t")
    planned = table.maintenance.clone(tmp_path / "copy", dry_run=True)
    assert not (tmp_path / "copy").exists()
    summary = table.maintenance.clone(tmp_path / "copy")
    assert (planned.files, planned.bytes) == (summary.files, summary.bytes)
    table.maintenance.clone(tmp_path / "old", tag="x")
    assert files_there(tmp_path / "t") == before
    shutil.rmtree(tmp_path / "t")
    for name, wanted in (("copy", rows), ("old", tagged)):
        copy = pp.Table.open(tmp_path / name)
        assert rows_of(copy) == wanted
        is_exact(copy)
        assert not copy.maintenance.verify(deep=True).findings
        assert len(copy.snapshots.list()) == 1
        copy.append(_rows(50))
        assert len(rows_of(copy)) == len(wanted) + 1
        copy.snapshots.expire(retain_max=1)
        is_exact(copy)
    assert pp.Table.open(tmp_path / "copy").maintenance.statistics() is not None


def test_copies_of_tables_without_partitions(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1, 2]})
    for name, where, rows in (("all", "TRUE", 2), ("blank", " ", 2), ("none", "FALSE", 0), ("null", "NULL", 0)):
        table.maintenance.clone(tmp_path / name, where=where)
        assert pp.Table.open(tmp_path / name).count() == rows


@pytest.mark.parametrize("kind", sampled(_KINDS, 2, "some partitions"))
def test_copies_of_some_partitions(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path / "t", kind)
    table.maintenance.analyze()
    planned = table.maintenance.clone(tmp_path / "copy", where="p = 1", dry_run=True)
    assert 0 < planned.files < table.maintenance.clone(tmp_path / "whole").files
    summary = table.maintenance.clone(tmp_path / "copy", where="p = 1")
    assert (planned.files, planned.bytes) == (summary.files, summary.bytes)
    table.maintenance.clone(tmp_path / "old", tag="x", where="p = 0 AND p IS NOT NULL")
    table.maintenance.clone(tmp_path / "none", where="p > 5")
    rows = {"copy": rows_of(table, filter="p = 1"), "old": rows_of(table, filter="p = 0", tag="x"), "none": []}
    shutil.rmtree(tmp_path / "t")
    for name, wanted in rows.items():
        copy = pp.Table.open(tmp_path / name)
        assert rows_of(copy) == wanted
        is_exact(copy)
        assert not copy.maintenance.verify(deep=True).findings
        assert copy.maintenance.statistics() is None, "these were about all partitions"
        copy.append(_rows(50, 51))
        assert len(rows_of(copy)) == len(wanted) + 2
        copy.snapshots.expire(retain_max=1)
        is_exact(copy)


def test_schemas_and_branches(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.branches.create("b", "x")
    branch = pp.Table.open(table.path, branch="b")
    branch.append(_rows(70))
    table.alter(add_columns={"more": "INT"})
    branch.maintenance.clone(tmp_path / "branch")
    copy = pp.Table.open(tmp_path / "branch")
    assert (rows_of(copy), copy.branches.list()) == (rows_of(branch), [])
    table.maintenance.clone(tmp_path / "new")
    assert pp.Table.open(tmp_path / "new").arrow_schema.names == ["p", "k", "v", "more"]
    table.maintenance.clone(tmp_path / "then", "x")
    assert pp.Table.open(tmp_path / "then").arrow_schema.names == ["p", "k", "v"]
    pp.Table.create(tmp_path / "empty", _SCHEMA).maintenance.clone(tmp_path / "still")
    assert pp.Table.open(tmp_path / "still").count() == 0


def test_what_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    for target in (table.path, tmp_path):
        with pytest.raises(AlreadyExistsError if target is tmp_path else PaimonError):
            table.maintenance.clone(target)
    with pytest.raises(OptionError, match="would be inside of the table"):
        table.maintenance.clone(f"{table.path}/inside")
    with pytest.raises(OptionError, match="give one of them"):
        table.maintenance.clone(tmp_path / "c", 1, timestamp=5)
    with pytest.raises(SnapshotNotFoundError):
        table.maintenance.clone(tmp_path / "c", 99)
    with pytest.raises(OptionError, match="clone takes conditions on partition columns only, not on k"):
        table.maintenance.clone(tmp_path / "c", where="k = 1")
    next((tmp_path / "t").rglob("data-*")).unlink()
    with pytest.raises(SnapshotNotFoundError, match="is gone"):
        table.maintenance.clone(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    assert main(["maintenance", "clone", table.path, str(tmp_path / "c"), "--dry-run"]) == 0
    assert "would be copied" in capsys.readouterr().out
    assert main(["maintenance", "clone", table.path, str(tmp_path / "c"), "--tag", "x"]) == 0
    assert pp.Table.open(tmp_path / "c").count() == 8
    assert main(["maintenance", "clone", table.path, str(tmp_path / "d"), "--tag", "x", "--where", "p = 1"]) == 0
    assert pp.Table.open(tmp_path / "d").count() == 4


@pytest.mark.java
@requires_java_oracle
def test_java_reads_and_writes_copies(oracle: Oracle, tmp_path: Path) -> None:
    tables = {kind: _table(tmp_path / kind / "db.db/t", kind) for kind in ("append", "key", "dynamic")}
    for kind, table in tables.items():
        table.maintenance.clone(tmp_path / f"{kind}-copy" / "db.db/t")
        table.maintenance.clone(tmp_path / f"{kind}-part" / "db.db/t", where="p = 1")
    with oracle.batch() as batch:
        parts = {kind: batch.read(tmp_path / f"{kind}-part", "db.t") for kind in tables}
        reads = {kind: batch.read(tmp_path / f"{kind}-copy", "db.t") for kind in tables}
        originals = {kind: batch.read(tmp_path / kind, "db.t") for kind in tables}
        for kind in tables:
            if kind != "dynamic":
                batch.write(tmp_path / f"{kind}-copy", "db.t", _rows(60))
    for kind in tables:
        copy = pp.Table.open(tmp_path / f"{kind}-copy" / "db.db/t")
        assert sorted(parts[kind].lines) == sorted(lines(tables[kind].scan("p = 1").to_arrow()))
        assert sorted(reads[kind].lines) == sorted(originals[kind].lines)
        if kind != "dynamic":
            assert 60 in copy.scan().to_arrow()["k"].to_pylist()
        else:
            assert sorted(reads[kind].lines) == sorted(lines(copy.scan().to_arrow()))


@pytest.mark.java
@requires_java_oracle
def test_files_outside_of_the_table_come_into_the_copy(oracle: Oracle, tmp_path: Path) -> None:
    outside = tmp_path / "ext"
    options = {"data-file.external-paths": f"file:{outside}", "data-file.external-paths.strategy": "round-robin"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", _SCHEMA, partition_keys=["p"], options=options)
        batch.write(tmp_path, "db.t", _rows(1, 2, 3))
    assert list(outside.rglob("data-*"))
    table = pp.Table.open(tmp_path / "db.db/t")
    table.maintenance.clone(tmp_path / "db.db/copy")
    rows = rows_of(table)
    shutil.rmtree(outside)
    copy = pp.Table.open(tmp_path / "db.db/copy")
    assert rows_of(copy) == rows
    assert len(rows) == 3
    assert "data-file.external-paths" not in copy.options
    is_exact(copy)
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.copy")
    assert sorted(read.lines) == sorted(lines(copy.scan().to_arrow()))


def _set_options(path: Path, options: dict[str, str]) -> None:
    """Options that a writer of another kind has put into the newest schema."""
    schema = json.loads((path / "schema" / "schema-0").read_text())
    schema["options"] |= options
    (path / "schema" / "schema-1").write_text(json.dumps(schema | {"id": 1}))


def test_options_that_name_places_and_branches(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    _set_options(tmp_path / "t", {"path": table.path})
    pp.Table.open(table.path).maintenance.clone(tmp_path / "copy")
    assert "path" not in pp.Table.open(tmp_path / "copy").options
    table.branches.create("b", "x")
    _set_options(tmp_path / "t", {"scan.fallback-branch": "b"})
    with pytest.raises(UnsupportedError, match="come from branch 'b' too"):
        pp.Table.open(table.path).maintenance.clone(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_two_copies_to_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused before it writes: its snapshot and its hint would be in the first one's table."""
    table, other = _table(tmp_path / "t"), pp.Table.create(tmp_path / "o", _SCHEMA)
    other.append(_rows(1, 2, 3))
    write = clone._Copy.write

    def after_another(copy: clone._Copy, snapshot: Snapshot | None, newest: int) -> None:
        monkeypatch.undo()
        other.maintenance.clone(tmp_path / "c")
        write(copy, snapshot, newest)

    monkeypatch.setattr(clone._Copy, "write", after_another)
    with pytest.raises(AlreadyExistsError, match="by now"):
        table.maintenance.clone(tmp_path / "c")
    copy = pp.Table.open(tmp_path / "c")
    assert rows_of(copy) == rows_of(other)
    assert (tmp_path / "c/snapshot/LATEST").read_text() == "1"
    assert not (tmp_path / "c/.clone-lock").exists()
    is_exact(copy)


_KILLED = """
import os, signal, sys
import paimon_pyds as pp
from paimon_pyds.ops.maintenance import clone
run = getattr(clone._Copy, sys.argv[3])
def killed(*arguments):
    if sys.argv[3] == "_copy":
        run(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(clone._Copy, sys.argv[3], killed)
pp.Table.open(sys.argv[1]).maintenance.clone(sys.argv[2])
"""


@pytest.mark.parametrize("moment", ["_copy", "_write_schemas"])
def test_killed(tmp_path: Path, moment: str) -> None:
    table, place = _table(tmp_path / "t"), tmp_path / "c"
    done = subprocess.run([sys.executable, "-c", _KILLED, table.path, place, moment], check=False)
    assert done.returncode == -signal.SIGKILL
    left = files_there(place)
    assert str(place / ".clone-lock") in left
    table.maintenance.clone(place, dry_run=True)
    with pytest.raises(AlreadyExistsError, match=r"left unfinished, by process .* remove this directory"):
        table.maintenance.clone(place, tag="x")
    lock = place / ".clone-lock"
    shutil.copytree(place, tmp_path / "elsewhere")
    shutil.copytree(place, tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    other = tmp_path / "elsewhere" / ".clone-lock"
    other.write_text(lock.read_text().replace('"machine": "', '"machine": "another than '))
    for refused in ("elsewhere", "mine"):
        with pytest.raises(AlreadyExistsError, match="left unfinished"):
            table.maintenance.clone(tmp_path / refused)
    other.write_bytes(b"")  # killed before it could say who it is
    with pytest.raises(AlreadyExistsError, match="left unfinished, by an unknown process;"):
        table.maintenance.clone(tmp_path / "elsewhere")
    assert files_there(place) == left
    table.maintenance.clone(place)
    assert rows_of(pp.Table.open(place)) == rows_of(table)
    is_exact(pp.Table.open(place))
    assert not lock.exists()


def test_a_copy_in_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("moto.server")
    table = _table(tmp_path / "t")
    table.alter(add_columns={"more": "INT"})
    table.append(_rows(40))
    with serving() as server:
        place, options = f"{server.bucket()}/c", server.options()
        table.maintenance.clone(place, storage_options=options)
        copy = pp.Table.open(place, storage_options=options)
        assert rows_of(copy) == rows_of(table)
        with pytest.raises(AlreadyExistsError):
            table.maintenance.clone(place, storage_options=options)
        assert not copy.maintenance.verify(deep=True).findings
