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
from paimon_pyds.metadata.store import METADATA_CACHE
from paimon_pyds.ops.maintenance import rollback as rollback_module
from paimon_pyds.storage.local import LocalFileIO
from support.maintenance import has_all, is_exact, named_only, rows_of
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("id", pa.int64())])


def _append(table: pp.Table, *ids: int) -> None:
    table.append(pa.table({"id": list(ids)}, _SCHEMA))


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """Five snapshots; the last has the rows of all others in one file."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"deletion-vectors.enabled": "true"})
    for number in range(3):
        _append(table, number, 10 + number)
    table.delete("id = 1")
    table.compact(full=True)
    return table


def test_tags_of_snapshots_and_times(table: pp.Table) -> None:
    states = {id_: rows_of(table, snapshot=id_) for id_ in table.store.snapshot_ids()}
    assert table.create_tag("newest").id == 5
    assert table.create_tag("second", 2).id == 2
    assert table.create_tag("then", timestamp=table.store.snapshot(3).time_millis).id == 3
    assert (Path(table.path) / "tag/tag-second").read_bytes() == (Path(table.path) / "snapshot/snapshot-2").read_bytes()
    table.expire_snapshots(retain_max=1)
    assert table.create_tag("again", 2).id == 2, "of another tag, as the snapshot has expired"
    assert table.rename_tag("again", "new name") == table.tags()["new name"]
    assert {name: rows_of(table, tag=name) for name in table.tags()} == {
        "newest": states[5], "second": states[2], "new name": states[2], "then": states[3],
    }  # fmt: skip
    is_exact(table)
    assert table.delete_tag("second").data_files == 0, "another tag needs its files"
    assert table.delete_tag("newest").data_files == 0, "it is there as a snapshot"
    assert table.delete_tag("new name", dry_run=True).metadata_files > 0
    assert table.delete_tag("new name").data_files == 0, "the tag after it needs them"
    assert table.delete_tag("then").data_files == 3
    is_exact(table)
    assert rows_of(table) == states[5]


def test_replaced_tags(table: pp.Table) -> None:
    table.create_tag("a", 1)
    table.create_tag("b", 2, replace=True)
    with pytest.raises(AlreadyExistsError, match="there is a tag 'a'"):
        table.create_tag("a")
    table.expire_snapshots(retain_max=1)
    table.create_tag("b", replace=True)
    is_exact(table)
    table.create_tag("a", replace=True)
    is_exact(table)
    assert rows_of(table, tag="a") == rows_of(table, tag="b") == rows_of(table)


def test_tags_with_an_end(table: pp.Table) -> None:
    table.create_tag("short", 1, retain="1 ms")
    table.create_tag("long", 2, retain=timedelta(days=1))
    table.create_tag("endless", 3)
    members = json.loads((Path(table.path) / "tag/tag-long").read_text())
    assert members["tagTimeRetained"] == 86400
    assert len(members["tagCreateTime"]) == 7
    times = {row["tag_name"]: row["time_retained"] for row in table.system("tags").to_pylist()}
    assert times == {"short": "PT0.001S", "long": "PT24H", "endless": None}
    table.expire_snapshots(retain_max=1)
    assert table.expire_tags(dry_run=True).tags == ("short",)
    assert table.expire_tags().tags == ("short",)
    is_exact(table)
    assert table.expire_tags(older_than="2000-01-01").tags == ()
    assert table.expire_tags(older_than=2**62).tags == ("endless", "long")
    is_exact(table)


def test_a_dry_run_of_expiring_tags_tells_what_the_last_of_them_takes_along(table: pp.Table) -> None:
    for name, id_ in (("a", 1), ("a again", 1), ("b", 2), ("stays", 3)):
        table.create_tag(name, id_, retain=None if name == "stays" else "1 ms")
    table.expire_snapshots(retain_max=1)
    planned, done = table.expire_tags(dry_run=True), table.expire_tags()
    assert replace(planned, seconds=0, dry_run=False) == replace(done, seconds=0)
    assert done.metadata_files == 4, "two lists of manifests each, as the tag after them needs the files"
    planned, done = table.expire_tags(2**62, dry_run=True), table.expire_tags(2**62)
    assert replace(planned, seconds=0, dry_run=False) == replace(done, seconds=0)
    assert done.data_files == 3
    is_exact(table)


def test_a_branch_has_a_history_of_its_own(table: pp.Table) -> None:
    table.create_tag("x", 2)
    assert table.create_branch("b", "x") == table.tags()["x"]
    assert table.create_branch("empty") is None
    branch, main = pp.Table.open(table.path, branch="b"), rows_of(table)
    before = rows_of(branch)
    assert before == rows_of(table, tag="x") == rows_of(branch, tag="x")
    assert rows_of(pp.Table.open(table.path, branch="empty")) == []
    _append(branch, 100)
    branch.delete("id = 0")
    branch.compact(full=True)
    branch.alter(add_columns={"more": "INT"})
    table.expire_snapshots(retain_max=1)
    table.delete_tag("x")
    is_exact(table)
    assert len(rows_of(branch)) == len(before)
    branch.expire_snapshots(retain_max=1)
    branch.delete_tag("x")
    is_exact(table)
    newest = branch.snapshot()
    assert table.rename_branch("b", "c", dry_run=True) == newest
    assert table.rename_branch("b", "c") == newest
    assert table.rename_branch("empty", "none") is None
    table.rename_branch("none", "empty")
    branch = pp.Table.open(table.path, branch="c")
    after = rows_of(branch)
    assert table.branches() == ["c", "empty"]
    assert table.delete_branch("empty").data_files == 0
    assert rows_of(table) == main
    planned = table.delete_branch("c", dry_run=True)
    assert rows_of(branch) == after
    assert table.delete_branch("c").data_files == planned.data_files > 0
    assert table.branches() == []
    is_exact(table)
    assert rows_of(table) == main


@pytest.mark.parametrize("main_is_ahead", [False, True])
def test_fast_forward(table: pp.Table, main_is_ahead: bool) -> None:
    table.create_tag("x", 3)
    table.create_branch("b", "x")
    branch = pp.Table.open(table.path, branch="b")
    for number in range(1 if main_is_ahead else 4):
        _append(branch, 100 + number)
    branch.alter(add_columns={"more": "INT"})
    table.create_tag("later")
    rows, ids = rows_of(branch), branch.store.snapshot_ids()
    planned = table.fast_forward("b", dry_run=True)
    summary = table.fast_forward("b")
    assert (summary.snapshots, summary.tags) == (planned.snapshots, planned.tags) == (2, ("later",))
    assert (summary.data_files, summary.metadata_files) == (planned.data_files, planned.metadata_files)
    assert rows_of(table) == rows
    assert table.store.snapshot_ids() == [1, 2, *ids, *([5, 6] if main_is_ahead else [])]
    assert all(rows_of(table, snapshot=id_) == rows_of(branch, snapshot=min(id_, ids[-1])) for id_ in range(3, 7))
    assert list(table.tags()) == ["x"]
    assert table.arrow_schema.names == ["id", "more"]
    is_exact(table)
    table.append(pa.table({"id": [7], "more": pa.array([1], pa.int32())}))
    assert len(rows_of(table)) == len(rows) + 1
    assert rows_of(branch) == rows


def test_a_writer_goes_on_after_its_commit_was_replaced_by_a_branch(table: pp.Table) -> None:
    table.create_tag("x", 4)
    table.create_branch("b", "x")
    _append(pp.Table.open(table.path, branch="b"), 100)
    _append(pp.Table.open(table.path, branch="b"), 101)
    table.rollback(4)
    _append(table, 70)
    pp.Table.open(table.path).fast_forward("b")
    rows = rows_of(table)
    _append(table, 71)
    assert len(rows_of(table)) == len(rows) + 1


def test_rollback(table: pp.Table) -> None:
    states = {id_: rows_of(table, snapshot=id_) for id_ in table.store.snapshot_ids()}
    table.create_tag("third", 3)
    table.create_tag("last")
    planned = table.rollback(4, dry_run=True)
    assert rows_of(table) == states[5]
    summary = table.rollback(4)
    assert (summary.snapshots, summary.tags) == (planned.snapshots, planned.tags) == (1, ("last",))
    assert (summary.data_files, summary.metadata_files) == (planned.data_files, planned.metadata_files) == (1, 3)
    assert rows_of(table) == states[4]
    is_exact(table)
    _append(table, 50)
    assert table.store.snapshot_ids() == [1, 2, 3, 4, 5]
    table.expire_snapshots(retain_max=1)
    table.rollback(tag="third")
    assert rows_of(table) == states[3]
    assert table.store.snapshot_ids() == [3]
    is_exact(table)
    _append(table, 51)
    assert table.store.latest_snapshot_id() == 4
    table.rollback(timestamp=table.store.snapshot(3).time_millis)
    assert rows_of(table) == states[3]
    is_exact(table)
    assert table.rollback(snapshot=3).snapshots == 0


def test_a_rollback_leaves_files_that_branches_and_tags_need(table: pp.Table) -> None:
    table.create_tag("last")
    table.create_branch("b", "last")
    _append(table, 60)
    rows = rows_of(table, tag="last")
    assert table.rollback(2).snapshots == 4
    assert rows_of(pp.Table.open(table.path, branch="b")) == rows
    is_exact(table)
    assert table.delete_branch("b").data_files == 1
    is_exact(table)


def test_a_rollback_from_a_damaged_snapshot(table: pp.Table, caplog: pytest.LogCaptureFixture) -> None:
    """It leads back to what can be read; what nobody can tell stays."""
    rows = rows_of(table, snapshot=3)
    for manifest in table.store.read_manifest_list(table.snapshot().delta_manifest_list):
        Path(table.store.paths.manifest(manifest.file_name)).write_bytes(b"?")
    METADATA_CACHE.clear()
    assert table.rollback(3).data_files == 0
    assert "remove_orphan_files finds them" in caplog.text
    assert rows_of(table) == rows
    assert table.remove_orphan_files("0 s", dry_run=False).files.num_rows
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
    table.rollback(4)
    assert "snapshot 6 was committed during a rollback" in caplog.text
    assert rows_of(table) == rows
    assert table.store.snapshot_ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("retained", [6, 3, 2], ids=["its snapshot is there", "the next is there", "neither"])
def test_rows_that_come_after_a_rollback_to_a_tag_was_stopped_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retained: int
) -> None:
    """Wherever it stops, there is one newest state, and commits go on from it."""
    made = pp.Table.create(tmp_path / "made", _SCHEMA, options={"write-only": "true"})
    for number in range(6):
        _append(made, number)
    made.create_tag("x", 3)
    made.expire_snapshots(retain_max=retained)
    for stop in itertools.count():
        shutil.copytree(made.path, tmp_path / f"{stop}")
        table, calls = pp.Table.open(tmp_path / f"{stop}"), itertools.count()
        with monkeypatch.context() as patch:
            for name in ("delete", "replace"):
                patch.setattr(LocalFileIO, name, _stopping(getattr(LocalFileIO, name), calls, stop))
            with suppress(KeyboardInterrupt):
                table.rollback(tag="x")
                break
        after = pp.Table.open(table.path)
        rows = after.scan().to_arrow()["id"].to_pylist()
        for number in (7, 8, 9):
            _append(after, number)
        assert sorted(after.scan().to_arrow()["id"].to_pylist()) == sorted([*rows, 7, 8, 9]), stop
    assert stop > 3
    assert table.store.snapshot_ids()[-1] == 3


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
    table.create_tag("ours")
    assert sorted(file.name for file in files.iterdir()) == ["ours_SUCCESS", "theirs_SUCCESS"]
    ours, theirs = (json.loads((files / f"{name}_SUCCESS").read_text()) for name in ("ours", "theirs"))
    assert list(ours) == list(theirs)
    assert ours["creationTime"] == ours["modificationTime"]
    assert sorted(table.tags()) == ["ours", "theirs"]
    table.create_tag("dry", dry_run=True)
    table.rename_tag("ours", "renamed")
    table.delete_tag("theirs")
    assert [file.name for file in files.iterdir()] == ["renamed_SUCCESS"]
    assert table.verify().ok
    assert not table.remove_orphan_files(0, dry_run=True).files.num_rows
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t", tag="renamed")
    assert len(read.lines) == 1
    table.purge("t", named_states=True)
    assert list(files.iterdir()) == []


@pytest.mark.parametrize("key", ["scan.fallback-branch", "scan.primary-branch", "scan.fallback-delta-branch"])
def test_a_branch_that_an_option_names_stays(tmp_path: Path, key: str) -> None:
    """Java's readers of the main branch take its rows, too: without it they would read fewer, and say nothing."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    _append(table, 1)
    table.create_tag("a")
    for name in ("b", "other"):
        table.create_branch(name, "a")
    schema = tmp_path / "t/schema/schema-0"
    members = json.loads(schema.read_text())
    schema.write_text(json.dumps({**members, "options": {**members["options"], key: "b"}}))
    for at in ("main", "other"):
        opened = pp.Table.open(tmp_path / "t", branch=at)
        for change in (
            lambda table=opened: table.delete_branch("b"),
            lambda table=opened: table.rename_branch("b", "c"),
        ):
            with pytest.raises(OptionError, match=f"{key} names the branch b"):
                change()
    table = pp.Table.open(tmp_path / "t")
    table.rename_branch("other", "c")
    table.delete_branch("c")
    assert table.branches() == ["b"]


def test_no_file_tells_of_tags_that_went(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"tag.create-success-file": "true"})
    _append(table, 1)
    table.create_tag("a")
    table.create_branch("b", "a")
    files = tmp_path / "t/tag/tag-success-file"
    for undo in (lambda: table.rollback("a"), lambda: table.fast_forward("b")):
        _append(pp.Table.open(tmp_path / "t", branch="b"), 7)
        _append(table, 2)
        table.create_tag("later")
        assert sorted(file.name for file in files.iterdir()) == ["a_SUCCESS", "later_SUCCESS"]
        undo()
        assert sorted(table.tags()) == ["a"]
        assert [file.name for file in files.iterdir()] == ["a_SUCCESS"]


def test_rollback_to_a_watermark(table: pp.Table) -> None:
    _watermarks(table, [None, 20, 20, -(2**63), 50])
    for watermark, id_ in ((49, 3), (50, 5), (10**15, 5), (20, 3)):
        assert table.rollback(watermark=watermark, dry_run=True).snapshots == 5 - id_, watermark
    with pytest.raises(SnapshotNotFoundError, match="no snapshot has a watermark of 19 or earlier"):
        table.rollback(watermark=19)
    with pytest.raises(OptionError, match="give one of them"):
        table.rollback(3, watermark=20)
    rows = rows_of(table, snapshot=3)
    assert main(["rollback", table.path, "--watermark", "40", "--yes"]) == 0
    assert rows_of(table) == rows
    assert table.store.snapshot_ids() == [1, 2, 3]


def _watermarks(table: pp.Table, values: Sequence[int | None]) -> None:
    for id_, value in enumerate(values, 1):
        path = Path(table.store.paths.snapshot(id_))
        path.write_text(json.dumps({**json.loads(path.read_text()), "watermark": value}))


@pytest.mark.java
@requires_java_oracle
def test_java_goes_back_to_the_same_watermarks(oracle: Oracle, table: pp.Table) -> None:
    _watermarks(table, [-(2**63), 20, 30, 30, 50])
    wanted = [20, 29, 49, 50, 60]  # of several with the very one that is asked for, Java takes any
    found = oracle.program("MaintenanceOracle", "watermarks", table.path, *map(str, wanted))
    assert [5 - table.rollback(watermark=w, dry_run=True).snapshots for w in wanted] == [int(id_) for id_ in found]


def test_a_branch_that_may_be_there(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.create_tag("x", 2)
    assert table.create_branch("b", "x", ignore_if_exists=True) == table.store.snapshot(2)
    branch = pp.Table.open(table.path, branch="b")
    _append(branch, 90)
    assert table.create_branch("b", "x", ignore_if_exists=True) == branch.store.snapshot(2)
    assert len(branch.snapshots()) == 2
    assert main(["branch", "create", table.path, "b"]) == 1
    assert main(["branch", "create", table.path, "b", "--if-missing"]) == 0
    assert capsys.readouterr().out == "the branch is there already\n"
    with pytest.raises(OptionError, match="no name for a branch"):
        table.create_branch("main", ignore_if_exists=True)


_REFUSED: dict[str, tuple[Callable[[pp.Table], object], type[PaimonError], str]] = {
    "no tag": (lambda t: t.delete_tag("xx"), TagNotFoundError, "no tag 'xx'.*x"),
    "no snapshot": (lambda t: t.create_tag("y", 99), SnapshotNotFoundError, "99"),
    "two sources": (lambda t: t.create_tag("y", 1, timestamp=1), OptionError, "not of both"),
    "blank": (lambda t: t.create_tag(" "), OptionError, "no name for a tag"),
    "slash": (lambda t: t.rename_tag("x", "a/b"), OptionError, "no name for a tag"),
    "taken": (lambda t: t.rename_tag("x", "x"), AlreadyExistsError, "there is a tag 'x'"),
    "main": (lambda t: t.create_branch("main"), OptionError, "no name for a branch"),
    "number": (lambda t: t.create_branch("12"), OptionError, "no name for a branch"),
    "taken branch": (lambda t: t.create_branch("b"), AlreadyExistsError, "there is a branch 'b'"),
    "of no tag": (lambda t: t.create_branch("c", "nope"), TagNotFoundError, "nope"),
    "no branch": (lambda t: t.delete_branch("c"), BranchNotFoundError, "no branch 'c'"),
    "main branch": (lambda t: t.rename_branch("main", "c"), BranchNotFoundError, "main branch stays"),
    "empty branch": (lambda t: t.fast_forward("b"), SnapshotNotFoundError, "has no snapshot"),
    "no target": (lambda t: t.rollback(), OptionError, "give one of them"),
    "two targets": (lambda t: t.rollback(3, tag="third"), OptionError, "give one of them"),
    "gone target": (lambda t: t.rollback(77), SnapshotNotFoundError, "77"),
    "too early": (lambda t: t.rollback(timestamp=5), SnapshotNotFoundError, "no snapshot is as old"),
}


@pytest.mark.parametrize("by_java", [False, True], ids=["here", "as by Java"])
def test_a_tag_whose_changelog_has_gone_becomes_a_snapshot(tmp_path: Path, by_java: bool) -> None:
    """Java's snapshot names the changelog all the same: what keeps a table healthy must not refuse it for that."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    options = {"bucket": "1", "changelog-producer": "lookup"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options=options)
    for number in range(3):
        table.append(pa.table({"id": [1, number], "v": [number, number]}, schema))
    with_changelog = [s.id for s in table.store.snapshots() if s.changelog_manifest_list is not None]
    table.create_tag("then", with_changelog[0])
    rows = rows_of(table, tag="then")
    table.expire_snapshots(retain_max=1)
    if not by_java:
        table.create_branch("b", "then")
    table.rollback("then")
    snapshot = Path(table.path, f"snapshot/snapshot-{with_changelog[0]}")
    if by_java:
        snapshot.write_bytes(Path(table.path, "tag/tag-then").read_bytes())
    else:
        assert table.store.latest_snapshot().changelog_manifest_list is None
        has_all(table)
        assert rows_of(pp.Table.open(table.path, branch="b")) == rows
        assert table.verify().ok
        table.delete_branch("b")
    assert rows_of(table) == rows
    table.append(pa.table({"id": [7], "v": [7]}, schema))
    table.expire_snapshots(retain_max=2)
    named_only(table)
    table.expire_snapshots(retain_max=1)
    is_exact(table)


def test_what_is_refused(table: pp.Table) -> None:
    table.create_tag("x", 2)
    table.create_branch("b")
    for name, (call, error, message) in _REFUSED.items():
        with pytest.raises(error, match=message):
            call(table)
        is_exact(table)
        assert list(table.tags()) == ["x"], name
        assert table.branches() == ["b"], name


def test_a_snapshot_that_expires_while_it_is_tagged(table: pp.Table) -> None:
    """Its number is below the hint EARLIEST: an expiry has begun, and may not have seen the tag."""
    (Path(table.path) / "snapshot/EARLIEST").write_text("4")
    with pytest.raises(SnapshotNotFoundError, match="expires just now"):
        table.create_tag("x", 2)
    assert table.tags() == {}
    with pytest.raises(PaimonError, match="expires just now"):
        table.rollback(2)
    assert table.store.latest_snapshot_id() == 5
