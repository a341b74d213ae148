"""All that is in a table goes, once that is confirmed; Java writes to what is left."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, UnsupportedError
from support.maintenance import files_there, is_exact
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("id", pa.int64())])


def _table(path: Path) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, options={"deletion-vectors.enabled": "true"})
    for number in range(3):
        table.append(pa.table({"id": [number, 10 + number]}, _SCHEMA))
    table.delete("id = 1")
    orphan = path / "bucket-0" / "data-1.parquet"
    orphan.write_bytes(b"123")
    os.utime(orphan, (0, 1e9))
    (path / "bucket-0" / "data-2.orc").write_bytes(b"a writer is about to commit it")
    (path / "consumer").mkdir()
    (path / "consumer/consumer-c").write_text('{"nextSnapshot": 1}')
    return table


def test_what_goes(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.tags.create("x", 2)
    table.branches.create("b", "x")
    before = files_there(tmp_path / "t")
    for confirm in ("", "T", str(tmp_path / "t")):
        with pytest.raises(OptionError, match=r"not confirmed — at .* — give the name of the table, 't'"):
            table.maintenance.purge(confirm, named_states=True)
    with pytest.raises(UnsupportedError, match="has 1 tag and 1 branch"):
        table.maintenance.purge("t")
    with pytest.raises(UnsupportedError, match="branch can't be purged"):
        pp.Table.open(table.path, branch="b").maintenance.purge("t")
    planned = table.maintenance.purge(named_states=True, dry_run=True)
    assert (planned.snapshots, planned.tags, planned.branches, planned.consumers) == (4, ("x",), ("b",), ("c",))
    assert files_there(tmp_path / "t") == before
    summary = table.maintenance.purge("t", named_states=True)
    assert replace(planned, seconds=0, dry_run=False) == replace(summary, seconds=0)
    assert table.count() == 0
    assert (len(table.snapshots.list()), table.tags.list(), table.branches.list()) == (1, {}, [])
    assert not list((tmp_path / "t").rglob("*.parquet"))
    (tmp_path / "t/bucket-0/data-2.orc").unlink()
    is_exact(table)
    again = table.maintenance.purge(dry_run=True)
    assert (again.snapshots, again.data_files, again.metadata_files) == (0, 0, 0)
    assert replace(again, seconds=0, dry_run=False) == replace(table.maintenance.purge("t"), seconds=0)
    table.append(pa.table({"id": [7]}, _SCHEMA))
    assert table.count() == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    assert main(["maintenance", "purge", table.path]) == 1
    assert "add --yes, or --dry-run" in capsys.readouterr().err
    assert main(["maintenance", "purge", table.path, "--dry-run"]) == 0
    assert table.count() == 5
    assert main(["maintenance", "purge", table.path, "--yes"]) == 0
    assert table.count() == 0


@pytest.mark.java
@requires_java_oracle
def test_java_goes_on(oracle: Oracle, tmp_path: Path) -> None:
    table = _table(tmp_path / "db.db/t")
    table.maintenance.purge("t")
    with oracle.batch() as batch:
        empty = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", pa.table({"id": [9]}, _SCHEMA))
    assert empty.lines == []
    assert table.scan().to_arrow()["id"].to_pylist() == [9]
