"""Tags, branches and rollback: what each shows, and that exactly the files stay that something needs."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.ops.maintenance import rollback as rollback_module
from paimon_pyds.storage.local import LocalFileIO
from support.copies import copied
from support.maintenance import has_all, is_exact, named_only, rows_of
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("id", pa.int64())])


def _append(table: pp.Table, *ids: int) -> None:
    table.append(pa.table({"id": list(ids)}, _SCHEMA))


@copied("t")
def table(path: Path) -> pp.Table:
    """Five snapshots; the last has the rows of all others in one file."""
    table = pp.Table.create(path, _SCHEMA, options={"deletion-vectors.enabled": "true"})
    for number in range(3):
        _append(table, number, 10 + number)
    table.delete("id = 1")
    table.compact(full=True)
    return table


def test_tags_of_snapshots_and_times(table: pp.Table) -> None:
    states = {id_: rows_of(table, snapshot=id_) for id_ in table._store.snapshot_ids()}
    assert table.tags.create("newest").id == 5
    assert table.tags.create("second", 2).id == 2
    assert table.tags.create("then", timestamp=table._store.snapshot(3).time_millis).id == 3
    assert (Path(table.path) / "tag/tag-second").read_bytes() == (Path(table.path) / "snapshot/snapshot-2").read_bytes()
    table.snapshots.expire(retain_max=1)
    assert table.tags.create("again", 2).id == 2, "of another tag, as the snapshot has expired"
    assert table.tags.rename("again", "new name") == table.tags.list()["new name"]
    assert {name: rows_of(table, tag=name) for name in table.tags.list()} == {
        "newest": states[5], "second": states[2], "new name": states[2], "then": states[3],
    }  # fmt: skip
    is_exact(table)
    assert table.tags.delete("second").data_files == 0, "another tag needs its files"
    assert table.tags.delete("newest").data_files == 0, "it is there as a snapshot"
    assert table.tags.delete("new name", dry_run=True).metadata_files > 0
    assert table.tags.delete("new name").data_files == 0, "the tag after it needs them"
    assert table.tags.delete("then").data_files == 3
    is_exact(table)
    assert rows_of(table) == states[5]


def test_replaced_tags(table: pp.Table) -> None:
    table.tags.create("a", 1)
    table.tags.create("b", 2, replace=True)
    with pytest.raises(AlreadyExistsError, match="there is a tag 'a'"):
        table.tags.create("a")
    table.snapshots.expire(retain_max=1)
    table.tags.create("b", replace=True)
    is_exact(table)
    table.tags.create("a", replace=True)
    is_exact(table)
    assert rows_of(table, tag="a") == rows_of(table, tag="b") == rows_of(table)


def test_tags_with_an_end(table: pp.Table) -> None:
    table.tags.create("short", 1, retain="1 ms")
    table.tags.create("long", 2, retain=timedelta(days=1))
    table.tags.create("endless", 3)
    members = json.loads((Path(table.path) / "tag/tag-long").read_text())
    assert members["tagTimeRetained"] == 86400
    assert len(members["tagCreateTime"]) == 7
    times = {row["tag_name"]: row["time_retained"] for row in table.system.read("tags").to_pylist()}
    assert times == {"short": "PT0.001S", "long": "PT24H", "endless": None}
    table.snapshots.expire(retain_max=1)
    assert table.tags.expire(dry_run=True).tags == ("short",)
    assert table.tags.expire().tags == ("short",)
    is_exact(table)
    assert table.tags.expire(older_than="2000-01-01").tags == ()
    assert table.tags.expire(older_than=2**62).tags == ("endless", "long")
    is_exact(table)


def test_a_dry_run_of_expiring_tags_tells_what_the_last_of_them_takes_along(table: pp.Table) -> None:
    for name, id_ in (("a", 1), ("a again", 1), ("b", 2), ("stays", 3)):
        table.tags.create(name, id_, retain=None if name == "stays" else "1 ms")
    table.snapshots.expire(retain_max=1)
    planned, done = table.tags.expire(dry_run=True), table.tags.expire()
    assert replace(planned, seconds=0, dry_run=False) == replace(done, seconds=0)
    assert done.metadata_files == 4, "two lists of manifests each, as the tag after them needs the files"
    planned, done = table.tags.expire(2**62, dry_run=True), table.tags.expire(2**62)
    assert replace(planned, seconds=0, dry_run=False) == replace(done, seconds=0)
    assert done.data_files == 3
    is_exact(table)


def test_a_branch_has_a_history_of_its_own(table: pp.Table) -> None:
    table.tags.create("x", 2)
    assert table.branches.create("b", "x") == table.tags.list()["x"]
    assert table.branches.create("empty") is None
    branch, main = pp.Table.open(table.path, branch="b"), rows_of(table)
    before = rows_of(branch)
    assert before == rows_of(table, tag="x") == rows_of(branch, tag="x")
    assert rows_of(pp.Table.open(table.path, branch="empty")) == []
    _append(branch, 100)
    branch.delete("id = 0")
    branch.compact(full=True)
    branch.alter(add_columns={"more": "INT"})
    table.snapshots.expire(retain_max=1)
    table.tags.delete("x")
    is_exact(table)
    assert len(rows_of(branch)) == len(before)
    branch.snapshots.expire(retain_max=1)
    branch.tags.delete("x")
    is_exact(table)
    newest = branch.snapshots.latest()
    assert table.branches.rename("b", "c", dry_run=True) == newest
    assert table.branches.rename("b", "c") == newest
    assert table.branches.rename("empty", "none") is None
    table.branches.rename("none", "empty")
    branch = pp.Table.open(table.path, branch="c")
    after = rows_of(branch)
    assert table.branches.list() == ["c", "empty"]
    assert table.branches.delete("empty").data_files == 0
    assert rows_of(table) == main
    planned = table.branches.delete("c", dry_run=True)
    assert rows_of(branch) == after
    assert table.branches.delete("c").data_files == planned.data_files > 0
    assert table.branches.list() == []
    is_exact(table)
    assert rows_of(table) == main


@pytest.mark.parametrize("main_is_ahead", [False, True])
def test_fast_forward(table: pp.Table, main_is_ahead: bool) -> None:
    table.tags.create("x", 3)
    table.branches.create("b", "x")
    branch = pp.Table.open(table.path, branch="b")
    for number in range(1 if main_is_ahead else 4):
        _append(branch, 100 + number)
    branch.alter(add_columns={"more": "INT"})
    table.tags.create("later")
    rows, ids = rows_of(branch), branch._store.snapshot_ids()
    planned = table.branches.fast_forward("b", dry_run=True)
    summary = table.branches.fast_forward("b")
    assert (summary.snapshots, summary.tags) == (planned.snapshots, planned.tags) == (2, ("later",))
    assert (summary.data_files, summary.metadata_files) == (planned.data_files, planned.metadata_files)
    assert rows_of(table) == rows
    assert table._store.snapshot_ids() == [1, 2, *ids, *([5, 6] if main_is_ahead else [])]
    assert all(rows_of(table, snapshot=id_) == rows_of(branch, snapshot=min(id_, ids[-1])) for id_ in range(3, 7))
    assert list(table.tags.list()) == ["x"]
    assert table.arrow_schema.names == ["id", "more"]
    is_exact(table)
    table.append(pa.table({"id": [7], "more": pa.array([1], pa.int32())}))
    assert len(rows_of(table)) == len(rows) + 1
    assert rows_of(branch) == rows


def test_a_writer_goes_on_after_its_commit_was_replaced_by_a_branch(table: pp.Table) -> None:
    table.tags.create("x", 4)
    table.branches.create("b", "x")
    _append(pp.Table.open(table.path, branch="b"), 100)
    _append(pp.Table.open(table.path, branch="b"), 101)
    table.snapshots.rollback(4)
    _append(table, 70)
    pp.Table.open(table.path).branches.fast_forward("b")
    rows = rows_of(table)
    _append(table, 71)
    assert len(rows_of(table)) == len(rows) + 1


def test_rollback(table: pp.Table) -> None:
    states = {id_: rows_of(table, snapshot=id_) for id_ in table._store.snapshot_ids()}
    table.tags.create("third", 3)
    table.tags.create("last")
    planned = table.snapshots.rollback(4, dry_run=True)
    assert rows_of(table) == states[5]
    summary = table.snapshots.rollback(4)
    assert (summary.snapshots, summary.tags) == (planned.snapshots, planned.tags) == (1, ("last",))
    assert (summary.data_files, summary.metadata_files) == (planned.data_files, planned.metadata_files) == (1, 3)
    assert rows_of(table) == states[4]
    is_exact(table)
    _append(table, 50)
    assert table._store.snapshot_ids() == [1, 2, 3, 4, 5]
    table.snapshots.expire(retain_max=1)
    table.snapshots.rollback(tag="third")
    assert rows_of(table) == states[3]
    assert table._store.snapshot_ids() == [3]
    is_exact(table)
    _append(table, 51)
    assert table._store.latest_snapshot_id() == 4
    table.snapshots.rollback(timestamp=table._store.snapshot(3).time_millis)
    assert rows_of(table) == states[3]
    is_exact(table)
    assert table.snapshots.rollback(snapshot=3).snapshots == 0


def test_a_rollback_leaves_files_that_branches_and_tags_need(table: pp.Table) -> None:
    table.tags.create("last")
    table.branches.create("b", "last")
    _append(table, 60)
    rows = rows_of(table, tag="last")
    assert table.snapshots.rollback(2).snapshots == 4
    assert rows_of(pp.Table.open(table.path, branch="b")) == rows
    is_exact(table)
    assert table.branches.delete("b").data_files == 1
    is_exact(table)


def test_a_rollback_from_a_damaged_snapshot(table: pp.Table, caplog: pytest.LogCaptureFixture) -> None:
    """It leads back to what can be read; what nobody can tell stays."""
    rows = rows_of(table, snapshot=3)
    for manifest in table._store.read_manifest_list(table.snapshots.latest().delta_manifest_list):
        Path(table._store.paths.manifest(manifest.file_name)).write_bytes(b"?")
    METADATA_CACHE.clear()
    assert table.snapshots.rollback(3).data_files == 0
    assert "remove_orphan_files finds them" in caplog.text
    assert rows_of(table) == rows
    assert table.maintenance.remove_orphan_files("0 s", dry_run=False).files.num_rows
    is_exact(table)


def test_a_commit_that_does_not_look_goes_with_what_it_was_built_on(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of Java, whose writers are told of success: its rows need files that have gone."""
    aside = f"{table.path}-aside"
    shutil.copytree(table.path, aside)
    _append(pp.Table.open(aside), 70)
    removed = rollback_module.remove_files

    def removing(*arguments: Any) -> Any:
        done = removed(*arguments)
        shutil.copytree(
            aside, table.path, dirs_exist_ok=True, ignore=lambda _, names: {*names} - {"snapshot", "snapshot-6"}
        )
        return done

    monkeypatch.setattr(rollback_module, "remove_files", removing)
    rows = rows_of(table, snapshot=4)
    table.snapshots.rollback(4)
    assert "snapshot 6 was committed during a rollback" in caplog.text
    assert rows_of(table) == rows
    assert table._store.snapshot_ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("retained", [6, 3, 2], ids=["its snapshot is there", "the next is there", "neither"])
def test_rows_that_come_after_a_rollback_to_a_tag_was_stopped_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retained: int
) -> None:
    """Wherever it stops, there is one newest state, and commits go on from it."""
    made = pp.Table.create(tmp_path / "made", _SCHEMA, options={"write-only": "true"})
    for number in range(6):
        _append(made, number)
    made.tags.create("x", 3)
    made.snapshots.expire(retain_max=retained)
    for stop in itertools.count():
        shutil.copytree(made.path, tmp_path / f"{stop}")
        table, calls = pp.Table.open(tmp_path / f"{stop}"), itertools.count()
        with monkeypatch.context() as patch:
            for name in ("delete", "replace"):
                patch.setattr(LocalFileIO, name, _stopping(getattr(LocalFileIO, name), calls, stop))
            with suppress(KeyboardInterrupt):
                table.snapshots.rollback(tag="x")
                break
        after = pp.Table.open(table.path)
        rows = after.scan().to_arrow()["id"].to_pylist()
        for number in (7, 8, 9):
            _append(after, number)
        assert sorted(after.scan().to_arrow()["id"].to_pylist()) == sorted([*rows, 7, 8, 9]), stop
    assert stop > 3
    assert table._store.snapshot_ids()[-1] == 3


def _stopping(call: Callable[..., None], calls: Iterator[int], stop: int) -> Callable[..., None]:
    """The same, but that the process ends after it where it is the call of this number."""

    def stopping(*arguments: object) -> None:
        call(*arguments)
        if next(calls) == stop:
            raise KeyboardInterrupt

    return stopping


@pytest.mark.java
@requires_java_oracle
def test_files_tell_of_new_tags(oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "db.db/t", _SCHEMA, options={"tag.create-success-file": "true"})
    _append(table, 1)
    files = tmp_path / "db.db/t/tag/tag-success-file"
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "theirs")
    table.tags.create("ours")
    assert sorted(file.name for file in files.iterdir()) == ["ours_SUCCESS", "theirs_SUCCESS"]
    ours, theirs = (json.loads((files / f"{name}_SUCCESS").read_text()) for name in ("ours", "theirs"))
    assert list(ours) == list(theirs)
    assert ours["creationTime"] == ours["modificationTime"]
    assert sorted(table.tags.list()) == ["ours", "theirs"]
    table.tags.create("dry", dry_run=True)
    table.tags.rename("ours", "renamed")
    table.tags.delete("theirs")
    assert [file.name for file in files.iterdir()] == ["renamed_SUCCESS"]
    assert table.maintenance.verify().ok
    assert not table.maintenance.remove_orphan_files(0, dry_run=True).files.num_rows
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t", tag="renamed")
    assert len(read.lines) == 1
    table.maintenance.purge("t", named_states=True)
    assert list(files.iterdir()) == []


@pytest.mark.parametrize("key", ["scan.fallback-branch", "scan.primary-branch", "scan.fallback-delta-branch"])
def test_a_branch_that_an_option_names_stays(tmp_path: Path, key: str) -> None:
    """Java's readers of the main branch take its rows, too: without it they would read fewer, and say nothing."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    _append(table, 1)
    table.tags.create("a")
    for name in ("b", "other"):
        table.branches.create(name, "a")
    schema = tmp_path / "t/schema/schema-0"
    members = json.loads(schema.read_text())
    schema.write_text(json.dumps({**members, "options": {**members["options"], key: "b"}}))
    for at in ("main", "other"):
        opened = pp.Table.open(tmp_path / "t", branch=at)
        for change in (
            lambda table=opened: table.branches.delete("b"),
            lambda table=opened: table.branches.rename("b", "c"),
        ):
            with pytest.raises(OptionError, match=f"{key} names the branch b"):
                change()
    table = pp.Table.open(tmp_path / "t")
    table.branches.rename("other", "c")
    table.branches.delete("c")
    assert table.branches.list() == ["b"]


def test_no_file_tells_of_tags_that_went(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"tag.create-success-file": "true"})
    _append(table, 1)
    table.tags.create("a")
    table.branches.create("b", "a")
    files = tmp_path / "t/tag/tag-success-file"
    for undo in (lambda: table.snapshots.rollback("a"), lambda: table.branches.fast_forward("b")):
        _append(pp.Table.open(tmp_path / "t", branch="b"), 7)
        _append(table, 2)
        table.tags.create("later")
        assert sorted(file.name for file in files.iterdir()) == ["a_SUCCESS", "later_SUCCESS"]
        undo()
        assert sorted(table.tags.list()) == ["a"]
        assert [file.name for file in files.iterdir()] == ["a_SUCCESS"]


def test_rollback_to_a_watermark(table: pp.Table) -> None:
    _watermarks(table, [None, 20, 20, -(2**63), 50])
    for watermark, id_ in ((49, 3), (50, 5), (10**15, 5), (20, 3)):
        assert table.snapshots.rollback(watermark=watermark, dry_run=True).snapshots == 5 - id_, watermark
    with pytest.raises(SnapshotNotFoundError, match="no snapshot has a watermark of 19 or earlier"):
        table.snapshots.rollback(watermark=19)
    with pytest.raises(OptionError, match="give one of them"):
        table.snapshots.rollback(3, watermark=20)
    rows = rows_of(table, snapshot=3)
    assert main(["snapshots", "rollback", table.path, "--watermark", "40", "--yes"]) == 0
    assert rows_of(table) == rows
    assert table._store.snapshot_ids() == [1, 2, 3]


def _watermarks(table: pp.Table, values: Sequence[int | None]) -> None:
    for id_, value in enumerate(values, 1):
        path = Path(table._store.paths.snapshot(id_))
        path.write_text(json.dumps({**json.loads(path.read_text()), "watermark": value}))


@pytest.mark.java
@requires_java_oracle
def test_java_goes_back_to_the_same_watermarks(oracle: Oracle, table: pp.Table) -> None:
    _watermarks(table, [-(2**63), 20, 30, 30, 50])
    wanted = [20, 29, 49, 50, 60]  # of several with the very one that is asked for, Java takes any
    found = oracle.program("MaintenanceOracle", "watermarks", table.path, *map(str, wanted))
    assert [5 - table.snapshots.rollback(watermark=w, dry_run=True).snapshots for w in wanted] == [
        int(id_) for id_ in found
    ]


def test_a_branch_that_may_be_there(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.tags.create("x", 2)
    assert table.branches.create("b", "x", ignore_if_exists=True) == table._store.snapshot(2)
    branch = pp.Table.open(table.path, branch="b")
    _append(branch, 90)
    assert table.branches.create("b", "x", ignore_if_exists=True) == branch._store.snapshot(2)
    assert len(branch.snapshots.list()) == 2
    assert main(["branches", "create", table.path, "b"]) == 1
    assert main(["branches", "create", table.path, "b", "--ignore-if-exists"]) == 0
    assert capsys.readouterr().out == "the branch is there already\n"
    with pytest.raises(OptionError, match="no name for a branch"):
        table.branches.create("main", ignore_if_exists=True)


_REFUSED: dict[str, tuple[Callable[[pp.Table], object], type[PaimonError], str]] = {
    "no tag": (lambda t: t.tags.delete("xx"), TagNotFoundError, "no tag 'xx'.*x"),
    "no snapshot": (lambda t: t.tags.create("y", 99), SnapshotNotFoundError, "99"),
    "two sources": (lambda t: t.tags.create("y", 1, timestamp=1), OptionError, "not of both"),
    "blank": (lambda t: t.tags.create(" "), OptionError, "no name for a tag"),
    "slash": (lambda t: t.tags.rename("x", "a/b"), OptionError, "no name for a tag"),
    "taken": (lambda t: t.tags.rename("x", "x"), AlreadyExistsError, "there is a tag 'x'"),
    "main": (lambda t: t.branches.create("main"), OptionError, "no name for a branch"),
    "number": (lambda t: t.branches.create("12"), OptionError, "no name for a branch"),
    "taken branch": (lambda t: t.branches.create("b"), AlreadyExistsError, "there is a branch 'b'"),
    "of no tag": (lambda t: t.branches.create("c", "nope"), TagNotFoundError, "nope"),
    "no branch": (lambda t: t.branches.delete("c"), BranchNotFoundError, "no branch 'c'"),
    "main branch": (lambda t: t.branches.rename("main", "c"), BranchNotFoundError, "main branch stays"),
    "empty branch": (lambda t: t.branches.fast_forward("b"), SnapshotNotFoundError, "has no snapshot"),
    "no target": (lambda t: t.snapshots.rollback(), OptionError, "give one of them"),
    "two targets": (lambda t: t.snapshots.rollback(3, tag="third"), OptionError, "give one of them"),
    "gone target": (lambda t: t.snapshots.rollback(77), SnapshotNotFoundError, "77"),
    "too early": (lambda t: t.snapshots.rollback(timestamp=5), SnapshotNotFoundError, "no snapshot is as old"),
}


@pytest.mark.parametrize("by_java", [False, True], ids=["here", "as by Java"])
def test_a_tag_whose_changelog_has_gone_becomes_a_snapshot(tmp_path: Path, by_java: bool) -> None:
    """Java's snapshot names the changelog all the same: what keeps a table healthy must not refuse it for that."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    options = {"bucket": "1", "changelog-producer": "lookup"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options=options)
    for number in range(3):
        table.append(pa.table({"id": [1, number], "v": [number, number]}, schema))
    with_changelog = [s.id for s in table._store.snapshots() if s.changelog_manifest_list is not None]
    table.tags.create("then", with_changelog[0])
    rows = rows_of(table, tag="then")
    table.snapshots.expire(retain_max=1)
    if not by_java:
        table.branches.create("b", "then")
    table.snapshots.rollback("then")
    snapshot = Path(table.path, f"snapshot/snapshot-{with_changelog[0]}")
    if by_java:
        snapshot.write_bytes(Path(table.path, "tag/tag-then").read_bytes())
    else:
        assert table._store.latest_snapshot().changelog_manifest_list is None
        has_all(table)
        assert rows_of(pp.Table.open(table.path, branch="b")) == rows
        assert table.maintenance.verify().ok
        table.branches.delete("b")
    assert rows_of(table) == rows
    table.append(pa.table({"id": [7], "v": [7]}, schema))
    table.snapshots.expire(retain_max=2)
    named_only(table)
    table.snapshots.expire(retain_max=1)
    is_exact(table)


def test_what_is_refused(table: pp.Table) -> None:
    table.tags.create("x", 2)
    table.branches.create("b")
    for name, (call, error, message) in _REFUSED.items():
        with pytest.raises(error, match=message):
            call(table)
        is_exact(table)
        assert list(table.tags.list()) == ["x"], name
        assert table.branches.list() == ["b"], name


def test_a_snapshot_that_expires_while_it_is_tagged(table: pp.Table) -> None:
    """Its number is below the hint EARLIEST: an expiry has begun, and may not have seen the tag."""
    (Path(table.path) / "snapshot/EARLIEST").write_text("4")
    with pytest.raises(SnapshotNotFoundError, match="is expiring"):
        table.tags.create("x", 2)
    assert table.tags.list() == {}
    with pytest.raises(PaimonError, match="is expiring"):
        table.snapshots.rollback(2)
    assert table._store.latest_snapshot_id() == 5
