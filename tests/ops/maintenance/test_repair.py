"""Repair: what can be mended without a guess is, and the rest is named and left; rows stay what they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.findings import Finding, RepairPlan
from paimon_pyds.ops.maintenance.repair import Repair
from support.maintenance import rows_of
from support.oracle import Oracle, requires_java_oracle
from support.values import lines


def _made(path: Path, **options: str) -> pp.Table:
    """Five snapshots: three appends, a compaction, an append."""
    table = pp.Table.create(path, pa.schema([("id", pa.int64()), ("c", pa.string())]), options=options)
    for number in range(3):
        table.append(pa.table({"id": range(number * 10, number * 10 + 10), "c": ["red", "blue"] * 5}))
    table.compact(full=True)
    table.append(pa.table({"id": [99], "c": ["red"]}))
    return table


def _repaired(table: pp.Table) -> Repair:
    result = table.maintenance.repair()
    assert isinstance(result, Repair)
    return result


@pytest.mark.parametrize(
    ("hint", "text", "right"), [("LATEST", "99", "2"), ("LATEST", "x", "2"), ("EARLIEST", "", "1")]
)
def test_hints_of_changelogs(tmp_path: Path, hint: str, text: str, right: str) -> None:
    """Java Paimon believes LATEST."""
    table = pp.Table.create(tmp_path / "t", "id BIGINT", options={"changelog.num-retained.min": "20"})
    for number in range(3):
        table.append({"id": [number]})
    table.snapshots.expire(retain_max=1)
    (tmp_path / "t/changelog" / hint).write_text(text)
    assert [finding.kind for finding in table.maintenance.repair().mended] == ["hint"]
    assert (tmp_path / "t/changelog" / hint).read_text() == right
    assert table.maintenance.verify().findings == ()


@pytest.mark.parametrize(("hint", "text"), [("LATEST", "99"), ("LATEST", "x"), ("EARLIEST", "one"), ("EARLIEST", "0")])
def test_a_hint_that_names_no_snapshot_is_written_again(hint: str, text: str, tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    rows = rows_of(table)
    path = tmp_path / "t/snapshot" / hint
    path.write_text(text)
    plan = table.maintenance.repair(dry_run=True)
    assert isinstance(plan, RepairPlan)
    assert [(f.kind, f.path) for f in plan.mends] == [("hint-ahead" if text == "99" else "hint", str(path))]
    assert path.read_text() == text
    assert len(_repaired(table).mended) == 1
    assert path.read_text() == {"LATEST": "5", "EARLIEST": "1"}[hint]
    assert not table.maintenance.verify().findings
    assert rows_of(table) == rows


@pytest.mark.parametrize(("hint", "text"), [("LATEST", "3"), ("EARLIEST", "4")])
def test_a_hint_that_names_another_snapshot_is_left(hint: str, text: str, tmp_path: Path) -> None:
    """A rollback or an expiry may be running that has written it."""
    table = _made(tmp_path / "t")
    (tmp_path / "t/snapshot" / hint).write_text(text)
    _keeps_its_promise(table)
    result = _repaired(table)
    assert (len(result.mended), [f.kind for f in result.left]) == (0, ["hint"])
    assert (tmp_path / "t/snapshot" / hint).read_text() == text
    assert table._store.snapshot_ids() == [1, 2, 3, 4, 5]


def test_an_expiry_that_was_killed_is_brought_to_its_end(tmp_path: Path) -> None:
    """It had written its hint, and removed a first file."""
    table = _made(tmp_path / "t")
    rows = rows_of(table)
    (tmp_path / "t/snapshot/EARLIEST").write_text("4")
    live = set(table.system.read("files")["file_path"].to_pylist())
    next(path for path in (tmp_path / "t").rglob("data-*") if str(path) not in live).unlink()
    assert [f.kind for f in _repaired(table).mended] == ["hint"]
    assert table._store.snapshot_ids() == [4, 5]
    assert not table.maintenance.verify(deep=True).findings
    assert rows_of(table) == rows


@pytest.mark.parametrize("damage", ["gone", "head", "body"])
def test_a_damaged_index_is_built_again(damage: str, tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1 b"}
    table = _made(tmp_path / "t", **options)
    table.snapshots.expire(retain_max=1)
    rows = rows_of(table)
    sides = sorted((tmp_path / "t").rglob("*.index"), key=lambda path: path.stat().st_size)
    data = bytearray(sides[-1].read_bytes())
    data[20 if damage == "head" else -2] ^= 0xFF
    sides[-1].unlink() if damage == "gone" else sides[-1].write_bytes(data)
    result = table.maintenance.repair(table.maintenance.verify(deep=True))
    assert isinstance(result, Repair)
    assert {f.kind for f in result.mended} == {"file-index"}
    assert rows_of(table) == rows
    assert rows_of(table, filter="c = 'red'") == [row for row in rows if "red" in row]
    assert all(
        "only older snapshots need it" in finding.what for finding in table.maintenance.verify(deep=True).findings
    )
    table.snapshots.expire(retain_max=1)
    assert not table.maintenance.verify(deep=True).findings


def test_a_plan_does_not_promise_what_is_left(tmp_path: Path) -> None:
    """An index that only an older snapshot needs is not built again; a hint that lags is left."""
    options = {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1 b"}
    table = _made(tmp_path / "t", **options)
    old = list((tmp_path / "t").rglob("*.index"))
    table.overwrite(table.scan().to_arrow())
    table.append(table.scan().to_arrow())
    for path in old:
        path.write_bytes(path.read_bytes()[:9])
    new = next(path for path in (tmp_path / "t").rglob("*.index") if path not in old)
    new.write_bytes(b"")
    (tmp_path / "t/snapshot/LATEST").write_text("1")
    mended = _keeps_its_promise(table)
    assert [finding.path for finding in mended] == [str(new)]


def _keeps_its_promise(table: pp.Table) -> Sequence[Finding]:
    """What a dry run says is what is done."""
    plan = table.maintenance.repair(dry_run=True)
    assert isinstance(plan, RepairPlan)
    result = _repaired(table)
    assert (plan.mends, set(plan.left)) == (result.mended, set(result.left))
    return result.mended


def test_what_would_be_a_guess_is_left(tmp_path: Path) -> None:
    table = _made(tmp_path / "t")
    Path(table.system.read("files")["file_path"][0].as_py()).unlink()
    result = _repaired(table)
    assert (result.mended, {f.kind for f in result.left}) == ((), {"data-file"})
    assert "restore the file from a copy" in str(result)


# ------------------------------------------------------------------------------------------------ files that are gone


@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_entries_of_files_that_are_gone_are_taken_out(key: list[str], vectors: str, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("p", pa.int32())])
    options = {"deletion-vectors.enabled": vectors} | ({"bucket": "1"} if key else {})
    table = pp.Table.create(tmp_path / "t", schema, primary_key=[*key, *["p"] * bool(key)], partition_by=["p"],
                            options=options)  # fmt: skip
    for p in range(3):
        table.append(pa.table({"id": range(10), "p": [p] * 10}, schema))
    table.delete("id = 3")
    rows = rows_of(table, filter="p <> 1")
    gone = list((tmp_path / "t/p=1").rglob("data-*"))
    files = set(table.system.read("files")["file_path"].to_pylist())
    lost = sorted(str(path) for path in gone if str(path) in files)
    for path in gone:
        path.unlink()
    newest = table.snapshots.latest()
    dry = table.maintenance.remove_unexisting_files(dry_run=True)
    assert sorted(dry.files["file_path"].to_pylist()) == lost
    assert "would be removed" in repr(dry)
    assert table.snapshots.latest() == newest
    done = table.maintenance.remove_unexisting_files(dry_run=False)
    assert done.snapshot_id == table.snapshots.latest().id  # type: ignore[union-attr]
    assert rows_of(table) == rows
    table.append(pa.table({"id": [77], "p": [1]}, schema))
    assert table.count("p = 1") == 1
    table.snapshots.expire(retain_max=1)
    assert not table.maintenance.verify(deep=True).findings
    assert table.maintenance.remove_unexisting_files(dry_run=False).snapshot_id is None


@pytest.mark.parametrize("bucket", ["-1", "1"])
@pytest.mark.parametrize("with_vector", [True, False])
def test_a_file_that_is_gone_shared_an_index_file_with_others(bucket: str, with_vector: bool, tmp_path: Path) -> None:
    """The vectors of the others stay, in a new index file."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    options = {"deletion-vectors.enabled": "true", "bucket": bucket} | ({"bucket-key": "id"} if bucket == "1" else {})
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    for n in range(3):
        table.append(pa.table({"id": range(10 * n, 10 * n + 10), "v": [n] * 10}, schema))
    table.delete("id IN (3, 23)" if not with_vector else "id IN (3, 13, 23)")
    files = table.system.read("files")
    lowest = dict(zip(files["file_path"].to_pylist(), files["min_value_stats"].to_pylist(), strict=True))
    (gone,) = (path for path, text in lowest.items() if "id=10" in text)
    left = rows_of(table, filter="id < 10 OR id >= 20")
    Path(gone).unlink()
    done = table.maintenance.remove_unexisting_files(dry_run=False)
    assert done.files["file_path"].to_pylist() == [gone]
    assert rows_of(table) == left
    table.snapshots.expire(retain_max=1)
    assert not table.maintenance.verify(deep=True).findings


def test_it_fails_at_any_point_and_can_be_done_again(tmp_path: Path) -> None:
    """Each call of the storage fails in turn: rows are those of before, or those that are left."""
    from support.faults_io import FaultyIO, fault_points

    def table_at(number: int) -> tuple[pp.Table, list[str]]:
        table = _made(tmp_path / str(number))
        Path(
            max(table.system.read("files")["file_path"].to_pylist(), key=lambda path: Path(path).stat().st_size)
        ).unlink()
        return table, ["{'id': 99, 'c': 'red'}"]

    def with_io(table: pp.Table, io: FaultyIO) -> pp.Table:
        return pp.Table(TableStore(io, table.path))

    table, left = table_at(0)
    counting = FaultyIO()
    with_io(table, counting).maintenance.remove_unexisting_files(dry_run=False)
    assert rows_of(table) == left
    for number, (at, name) in enumerate(fault_points(counting.done), 1):
        table, left = table_at(number)
        io = FaultyIO(at)
        try:
            with_io(table, io).maintenance.remove_unexisting_files(dry_run=False)
        except (PaimonError, OSError):
            pass
        table.maintenance.remove_unexisting_files(dry_run=False)
        assert rows_of(table) == left, (at, name)


@pytest.mark.java
@requires_java_oracle
def test_java_reads_what_is_left(oracle: Oracle, tmp_path: Path) -> None:
    """Of append and key tables with deletion vectors, after a file with a vector is gone and after a repair."""
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.int32(), False)])
    tables = {}
    for name, key in (("append", []), ("key", ["id", "p"])):
        options = {"deletion-vectors.enabled": "true"} | ({"bucket": "1"} if key else {})
        path = tmp_path / name / "db.db/t"
        tables[name] = table = pp.Table.create(path, schema, primary_key=key, partition_by=["p"], options=options)
        for p in range(3):
            table.append(pa.table({"id": range(10), "p": [p] * 10}, schema))
        table.delete("id = 3")
        for data in (path / "p=1").rglob("data-*"):
            data.unlink()
        (path / "snapshot/EARLIEST").write_text("x")
        table.maintenance.remove_unexisting_files(dry_run=False)
        _repaired(table)
        table.append(pa.table({"id": [5], "p": [1]}, schema))
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t") for name in tables}
    for name, table in tables.items():
        assert table.count() == 19
        assert reads[name].lines == lines(table.scan().to_arrow()), name


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _made(tmp_path / "t")
    path = str(tmp_path / "t")
    (tmp_path / "t/snapshot/LATEST").write_text("99")
    assert main(["maintenance", "repair", path, "--dry-run"]) == 0
    assert "mend: hint" in capsys.readouterr().out
    assert main(["maintenance", "repair", path]) == 0
    assert "1 finding mended, 0 left" in capsys.readouterr().out
    Path(table.system.read("files")["file_path"][0].as_py()).unlink()
    assert main(["maintenance", "repair", path, "--output", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["left"][0]["kind"] == "data-file"
    assert main(["maintenance", "remove-unexisting-files", path, "--output", "csv", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("data-") == 1
    assert main(["maintenance", "remove-unexisting-files", path, "--yes"]) == 0
    assert main(["maintenance", "repair", path]) == 1  # older snapshots still name the file
    table.snapshots.expire(retain_max=1)
    assert main(["maintenance", "verify", path]) == 0
