"""Manifests that are written anew: the same files are live, deleted entries are gone, and Java goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.ops.maintenance import compact_manifests as module
from support.maintenance import is_exact, rows_of
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

_SCHEMA = pa.schema([("p", pa.int32()), pa.field("id", pa.int64(), nullable=False)])


def _append(table: pp.Table, id_: int) -> None:
    table.append(pa.table({"p": [id_ % 2], "id": [id_]}, _SCHEMA))


def _table(path: Path, **options: str) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options={"deletion-vectors.enabled": "true", **options})
    for number in range(6):
        _append(table, number)
    table.delete("id = 3")
    return table


def _manifests(table: pp.Table) -> list[Any]:
    return ManifestReader(table._store).manifests(table.snapshots.latest())


def test_what_is_written_anew(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    rows, count, before = rows_of(table), len(_manifests(table)), table.snapshots.latest()
    assert before is not None
    planned = table.maintenance.compact_manifests(dry_run=True)
    assert (planned.rewritten, planned.snapshot_id, table.snapshots.latest()) == (count, None, before)
    summary = table.maintenance.compact_manifests()
    assert (summary.manifests, summary.manifests_after, summary.rewritten, summary.bytes) == (
        count, 1, count, planned.bytes,
    )  # fmt: skip
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.id, snapshot.commit_kind) == (summary.snapshot_id, CommitKind.COMPACT)
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, before.total_record_count)
    assert snapshot.index_manifest == before.index_manifest
    assert [m.num_deleted_files for m in _manifests(table)] == [0]
    assert rows_of(table) == rows
    assert table.maintenance.compact_manifests().snapshot_id is None
    assert table.snapshots.latest() == snapshot
    table.snapshots.expire(retain_max=1)
    is_exact(table)


def test_large_manifests_stay_unless_entries_of_theirs_are_deleted(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"manifest.target-file-size": "1 b"})
    first = [m.file_name for m in _manifests(table)]
    table.delete("p = 1")
    rows = rows_of(table)
    summary = table.maintenance.compact_manifests()
    now = {m.file_name for m in _manifests(table)}
    assert 0 < summary.rewritten < summary.manifests
    assert len(now.intersection(first)) == 3, "those of the other partition"
    assert not any(m.num_deleted_files for m in _manifests(table))
    assert rows_of(table) == rows
    assert table.maintenance.compact_manifests().snapshot_id is None
    assert not table.maintenance.verify(deep=True).findings


def test_nothing_to_do(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    assert table.maintenance.compact_manifests().snapshot_id is None
    assert table.maintenance.compact_manifests(dry_run=True).rewritten == 0
    _append(table, 1)
    assert table.maintenance.compact_manifests().snapshot_id is None
    is_exact(table)


def test_a_commit_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t")
    commit = module.commit

    def late(*arguments: Any) -> Any:
        _append(table, 100)
        return commit(*arguments)

    monkeypatch.setattr(module, "commit", late)
    table.maintenance.compact_manifests()
    assert len(_manifests(table)) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 4, 5, 100]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    assert main(["maintenance", "compact-manifests", table.path, "--dry-run"]) == 0
    assert "manifests (" in capsys.readouterr().out
    assert main(["maintenance", "compact-manifests", table.path, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifests_after"] == 1


@pytest.mark.java
@requires_java_oracle
@pytest.mark.parametrize("key", [[], ["p", "id"]])
def test_java_goes_on(oracle: Oracle, tmp_path: Path, key: list[str]) -> None:
    schema = pa.schema([field.with_nullable(not key) for field in _SCHEMA])
    options = {"deletion-vectors.enabled": "true", **({"bucket": "1"} if key else {})}
    table = pp.Table.create(tmp_path / "db.db/t", schema, primary_key=key, partition_by=["p"], options=options)
    for number in range(6):
        table.append(pa.table({"p": [number % 2], "id": [number]}, schema))
    table.delete("id = 3")
    assert table.maintenance.compact_manifests().manifests_after == 1
    rows = lines(table.scan().to_arrow())
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", pa.table({"p": [1], "id": [9]}, schema))
        batch.compact(tmp_path, "db.t")
        after = batch.read(tmp_path, "db.t")
    assert read.lines == rows
    assert after.lines == lines(table.scan().to_arrow())
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 4, 5, 9]
