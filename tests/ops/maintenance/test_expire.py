"""Expiry of snapshots: what goes, what stays, and what each limit means."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, SnapshotNotFoundError
from support.copies import copied
from support.live_files import table_files
from support.maintenance import files_there, rows_of

_SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int64())])
_INDEXES = {
    "deletion-vectors.enabled": "true", "file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "1b",
}  # fmt: skip


def _append(table: pp.Table, first: int, partition: str = "a", count: int = 5) -> None:
    table.append(pa.table({"p": [partition] * count, "id": list(range(first, first + count))}, _SCHEMA))


@copied("t")
def table(path: Path) -> pp.Table:
    """Ten snapshots: appends, deletes by vectors, a compaction, an overwrite."""
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options=_INDEXES)
    for number in range(4):
        _append(table, 10 * number, "ab"[number % 2])
    table.delete("id % 10 = 3")
    table.compact(full=True)
    table.delete("id = 1")
    table.overwrite(pa.table({"p": ["b"], "id": [77]}, _SCHEMA), partition={"p": "b"})
    _append(table, 100)
    table.delete("id = 101")
    return table


def _only_what_is_needed(table: pp.Table) -> None:
    assert files_there(Path(table.path)) == set(table_files(table._store))


def test_nothing_is_left_of_what_expired(table: pp.Table) -> None:
    rows, last = rows_of(table), table._store.snapshot_ids()[-1]
    planned = table.snapshots.expire(retain_max=1, dry_run=True)
    before = files_there(Path(table.path))
    summary = table.snapshots.expire(retain_max=1)
    after = files_there(Path(table.path))
    assert (planned.snapshots, planned.data_files, planned.metadata_files, planned.bytes) == (
        summary.snapshots, summary.data_files, summary.metadata_files, summary.bytes,
    )  # fmt: skip
    assert len(before - after) == summary.snapshots + summary.data_files + summary.metadata_files
    assert table._store.snapshot_ids() == [last]
    assert summary.snapshots == 9
    assert (Path(table.path) / "snapshot/EARLIEST").read_text() == str(last)
    _only_what_is_needed(table)
    assert rows_of(table) == rows
    assert "9 snapshots" in repr(summary)
    assert table.snapshots.expire(retain_max=1).snapshots == 0


def test_what_each_snapshot_shows_stays_as_snapshots_go_one_by_one(table: pp.Table) -> None:
    ids = table._store.snapshot_ids()
    rows = {id_: rows_of(table, snapshot=id_) for id_ in ids}
    for left in range(len(ids) - 1, 0, -1):
        table.snapshots.expire(retain_max=left)
        assert table._store.snapshot_ids() == ids[-left:]
        assert all(rows_of(table, snapshot=id_) == rows[id_] for id_ in ids[-left:])
        _only_what_is_needed(table)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 1 has expired"):
        rows_of(table, snapshot=ids[0])


def test_tags_keep_their_files(table: pp.Table) -> None:
    root, rows = Path(table.path), {}
    (root / "tag").mkdir()
    for id_ in (2, 5, 6):
        shutil.copy(root / f"snapshot/snapshot-{id_}", root / f"tag/tag-at{id_}")
        rows[id_] = rows_of(table, snapshot=id_)
    for left in (7, 4, 1):
        table.snapshots.expire(retain_max=left)
        _only_what_is_needed(table)
    assert {id_: rows_of(table, tag=f"at{id_}") for id_ in rows} == rows


def test_branches_keep_their_files(table: pp.Table) -> None:
    root = Path(table.path)
    branch = root / "branch/branch-b"
    shutil.copytree(root / "schema", branch / "schema")
    for kind, id_, name in (("snapshot", 3, "snapshot-3"), ("tag", 6, "tag-x")):
        (branch / kind).mkdir()
        shutil.copy(root / f"snapshot/snapshot-{id_}", branch / kind / name)
    on_branch = pp.Table.open(root, branch="b")
    rows, tagged = rows_of(on_branch), rows_of(on_branch, tag="x")
    table.snapshots.expire(retain_max=1)
    _only_what_is_needed(table)
    _append(on_branch, 500)
    assert len(rows_of(on_branch)) == len(rows) + 5
    assert rows_of(on_branch, tag="x") == tagged
    main = rows_of(table)
    on_branch.overwrite(pa.table({"p": ["c"], "id": [1]}, _SCHEMA))
    on_branch.snapshots.expire(retain_max=1)
    assert rows_of(table) == main
    assert rows_of(on_branch, tag="x") == tagged
    _only_what_is_needed(table)


def test_consumers_keep_what_they_have_not_read(table: pp.Table) -> None:
    path = Path(table.path) / "consumer/consumer-mine"
    path.parent.mkdir()
    path.write_text(json.dumps({"nextSnapshot": 4}))
    assert table.snapshots.expire(retain_max=1).snapshots == 3
    assert table._store.snapshot_ids()[0] == 4
    path.write_text(json.dumps({"nextSnapshot": 100}))
    assert table.snapshots.expire(retain_max=2).snapshots == 5


def test_limits(table: pp.Table) -> None:
    assert table.snapshots.expire().snapshots == 0, "all are younger than an hour"
    third = table._store.snapshot(3).time_millis
    assert table.snapshots.expire(retain_min=9, older_than=2**62).snapshots == 1
    assert table.snapshots.expire(retain_min=1, older_than=third).snapshots == 1
    assert table._store.snapshot_ids()[0] == 3
    for old in ("2000-01-01", "7 days", timedelta(days=7)):
        assert table.snapshots.expire(retain_min=1, older_than=old).snapshots == 0
    options = {"snapshot.num-retained.min": "2", "snapshot.time-retained": "0 ms", "snapshot.expire.limit": "2"}
    assert table.snapshots.expire(options=options, dry_run=True).snapshots == 6
    assert table.snapshots.expire(options=options).snapshots == 6
    _only_what_is_needed(table)


def test_no_more_go_than_may(table: pp.Table) -> None:
    rows = rows_of(table)
    for options, most in (({}, 1), ({"snapshot.expire.limit": "2"}, 3)):
        assert table.snapshots.expire(1, max_deletes=most, options=options, dry_run=True).snapshots == most
        assert table.snapshots.expire(1, max_deletes=most, options=options).snapshots == most
        _only_what_is_needed(table)
    assert table._store.snapshot_ids() == [5, 6, 7, 8, 9, 10]
    assert table.snapshots.expire(4, max_deletes=50).snapshots == 2
    assert rows_of(table) == rows
    assert "/." not in "".join(files_there(Path(table.path))), "nothing tells of an expiry that is over"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_deletes": 0}, "max_deletes is 0 — at least one of the snapshots"),
        ({"retain_min": 0}, "0 snapshots can't be the number to retain"),
        ({"retain_min": 3, "retain_max": 2}, "at least 3 snapshots must be retained, but at most 2 — raise retain_max"),
        ({"retain_max": 0}, "0 snapshots can't be the number to retain — retain at least 1"),
        ({"options": {"snapshot.expire.limit": "0"}}, "snapshot.expire.limit is 0 — at least one of the snapshots"),
    ],
)
def test_limits_that_make_no_sense(table: pp.Table, limits: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        table.snapshots.expire(**limits)
    with pytest.raises(OptionError, match=r"snapshot\.num-retained\.max"):
        table.snapshots.expire(options={"snapshot.num-retained.maximum": "2"})


def test_a_tag_that_is_damaged_keeps_everything(table: pp.Table) -> None:
    root = Path(table.path)
    tag = json.loads((root / "snapshot/snapshot-5").read_text())
    (root / "tag").mkdir()
    (root / "tag/tag-bad").write_text(json.dumps({**tag, "baseManifestList": "manifest-list-gone"}))
    before = files_there(root)
    with pytest.raises(SnapshotNotFoundError, match="tag bad needs a file that is gone"):
        table.snapshots.expire(retain_max=1)
    assert files_there(root) == before


def test_empty_directories_go_when_asked(table: pp.Table) -> None:
    table.overwrite(pa.table({"p": ["c"], "id": [1]}, _SCHEMA))
    table.snapshots.expire(retain_max=1)
    assert (Path(table.path) / "p=a/bucket-0").is_dir()
    table.overwrite(pa.table({"p": ["d"], "id": [1]}, _SCHEMA))
    table.snapshots.expire(retain_max=1, options={"snapshot.clean-empty-directories": "true"})
    assert sorted(p.name for p in Path(table.path).glob("p=*")) == ["p=a", "p=b", "p=d"]
