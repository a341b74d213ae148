"""Changelogs that outlive their snapshots: they are read after these have expired, and all else leaves them what they
need, until they expire themselves."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.metadata.changelogs import changelog_ids
from paimon_pyds.ops.maintenance.expire import merged
from support.effort import sampled
from support.live_files import table_files
from support.maintenance import files_there, has_all, is_exact, named_only, rows_of

_SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
_LONGER = {"snapshot.num-retained.min": "2", "changelog.num-retained.min": "20"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                     "file-index.in-manifest-threshold": "1b"}),
    "key": (["k"], {"bucket": "1"}),
    "input": (["k"], {"bucket": "1", "changelog-producer": "input"}),
    "lookup": (["k"], {"bucket": "1", "changelog-producer": "lookup"}),
}  # fmt: skip


def _rows(number: int) -> pa.Table:
    return pa.table({"k": list(range(number, number + 4)), "v": [number] * 4}, _SCHEMA)


def _make(path: Path, kind: str, options: dict[str, str] = _LONGER) -> pp.Table:
    """Some ten snapshots: appends, compactions, an overwrite."""
    key, own = KINDS[kind]
    table = pp.Table.create(path, _SCHEMA, primary_key=key, options={**own, **options})
    for number in range(3):
        table.append(_rows(number))
    table.compact(full=True)
    table.append(_rows(5))
    table.overwrite(_rows(6))
    for number in range(7, 10):
        table.append(_rows(number))
    table.compact(full=True)
    return table


def _changes(table: pp.Table, start: int, end: int, **options: str) -> list[str]:
    between = {"incremental-between": f"{start},{end}", **options}
    reads = [table.scan(options=between)]
    if table.schema.primary_keys:
        reads.append(table.system.audit_log(options=between))
    return sorted(repr(row) for read in reads for row in read.to_arrow().to_pylist())


def _is_sound(table: pp.Table) -> None:
    """All files are there that some state needs, and none that none names; and no damage is found."""
    named_only(table)
    assert table.maintenance.verify(deep=True).findings == ()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tables of each kind are made."""
    return tmp_path_factory.mktemp("made")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test has a table of some kind: of all kinds in long runs."""
    if "table" in metafunc.fixturenames:
        metafunc.parametrize("table", sampled(sorted(KINDS), 1, metafunc.function.__name__), indirect=True)


@pytest.fixture
def table(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> pp.Table:
    if not (made / request.param).exists():
        _make(made / request.param, request.param)
    shutil.copytree(made / request.param, tmp_path / "t")
    return pp.Table.open(tmp_path / "t")


def _last(table: pp.Table) -> int:
    last = table._store.latest_snapshot_id()
    assert last is not None
    return last


def test_changes_are_read_after_their_snapshots_have_expired(table: pp.Table) -> None:
    last, rows = _last(table), rows_of(table)
    each = {id_: _changes(table, id_ - 1, id_) for id_ in range(1, last + 1)}
    whole, start = _changes(table, 0, last), table._store.snapshot(1).time_millis
    planned, before = table.snapshots.expire(retain_max=2, dry_run=True), files_there(Path(table.path))
    summary = table.snapshots.expire(retain_max=2)
    assert (planned.snapshots, planned.data_files, planned.metadata_files) == (
        summary.snapshots, summary.data_files, summary.metadata_files,
    )  # fmt: skip
    assert len(before - files_there(Path(table.path))) == (
        summary.snapshots + summary.data_files + summary.metadata_files
    )
    assert table._store.snapshot_ids() == [last - 1, last]
    assert changelog_ids(table._store) == list(range(1, last - 1))
    assert (Path(table.path) / "changelog/LATEST").read_text() == str(last - 2)
    assert {id_: _changes(table, id_ - 1, id_) for id_ in each} == each
    assert _changes(table, 0, last) == whole
    assert rows_of(table) == rows
    _is_sound(table)
    between = {"incremental-between-timestamp": f"{start - 1},{table._store.snapshot(last).time_millis}"}
    by_time = table.scan(options=between).to_arrow().num_rows
    assert by_time == table.scan(options={"incremental-between": f"0,{last}"}).to_arrow().num_rows
    with pytest.raises(SnapshotNotFoundError):
        rows_of(table, snapshot=1)


def test_times_within_changelogs(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_LONGER)
    for number in range(6):
        table.append(_rows(number))
        time.sleep(0.002)
    times = [table._store.snapshot(id_).time_millis for id_ in range(1, 7)]

    def read(start: int, end: int) -> list[str]:
        return rows_of(table, options={"incremental-between-timestamp": f"{start},{end}"})

    ends = [(a, b) for a in (times[0] - 1, *times) for b in times if a < b]
    before = {pair: read(*pair) for pair in ends}
    assert len(before[times[1], times[3]]) == 8
    table.snapshots.expire(retain_max=2)
    assert {pair: read(*pair) for pair in ends} == before


def test_changelogs_expire(table: pp.Table) -> None:
    last = _last(table)
    each = {id_: _changes(table, id_ - 1, id_) for id_ in range(1, last + 1)}
    table.snapshots.expire(retain_max=2)
    assert table.snapshots.expire_changelogs().changelogs == 0, "twenty stay"
    assert table.snapshots.expire_changelogs(retain_max=last - 4, dry_run=True).changelogs == 4
    assert len(changelog_ids(table._store)) == last - 2
    before = files_there(Path(table.path))
    summary = table.snapshots.expire_changelogs(retain_max=last - 4, max_deletes=3)
    assert summary.changelogs == 3
    assert changelog_ids(table._store)[0] == 4
    _is_sound(table)
    options = {"changelog.num-retained.min": "1", "changelog.num-retained.max": str(last - 4)}
    summary = merged(summary, table.snapshots.expire_changelogs(options=options))
    assert summary.changelogs == 4
    assert "4 changelogs" in repr(summary)
    assert len(before - files_there(Path(table.path))) == 4 + summary.data_files + summary.metadata_files
    assert changelog_ids(table._store)[0] == 5
    assert (Path(table.path) / "changelog/EARLIEST").read_text() == "5"
    _is_sound(table)
    assert {id_: _changes(table, id_ - 1, id_) for id_ in range(5, last + 1)} == dict(list(each.items())[4:])
    with pytest.raises(SnapshotNotFoundError, match="snapshot 4 has expired"):
        _changes(table, 3, last)
    table.snapshots.expire_changelogs(retain_max=1)
    assert changelog_ids(table._store) == [last - 2], "the last one stays, as in Java"
    table.snapshots.expire_changelogs(everything=True)
    assert [f.name for f in (Path(table.path) / "changelog").iterdir()] == []
    is_exact(table)
    assert _changes(table, last - 2, last) == sorted([*each[last - 1], *each[last]])


@pytest.mark.parametrize("kind", sampled(sorted(KINDS), 2))
def test_what_went_with_snapshots_is_not_counted_again(tmp_path: Path, kind: str) -> None:
    table = _make(tmp_path / "t", kind)
    table.snapshots.expire(retain_max=2)
    planned, before = table.snapshots.expire_changelogs(everything=True, dry_run=True), files_there(tmp_path / "t")
    summary = table.snapshots.expire_changelogs(everything=True)
    gone = before - files_there(tmp_path / "t")
    assert len(gone) == summary.changelogs + summary.data_files + summary.metadata_files
    assert (planned.data_files, planned.metadata_files, planned.bytes) == (
        summary.data_files, summary.metadata_files, summary.bytes,
    )  # fmt: skip


def test_young_changelogs_stay(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", "append", {"changelog.time-retained": "1 d", "snapshot.num-retained.min": "1"})
    table.snapshots.expire(retain_max=1)
    third = json.loads((tmp_path / "t/changelog/changelog-3").read_text())["timeMillis"]
    assert table.snapshots.expire_changelogs(retain_min=1).changelogs == 0
    assert table.snapshots.expire_changelogs(retain_min=1, older_than=third).changelogs == 2
    assert changelog_ids(table._store)[0] == 3


def test_consumers(table: pp.Table) -> None:
    path, last = Path(table.path) / "consumer/consumer-mine", _last(table)
    path.parent.mkdir()
    path.write_text(json.dumps({"nextSnapshot": 4}))
    table.snapshots.expire(retain_max=1)
    assert table._store.snapshot_ids()[0] == 4, "it may read states"
    assert table.snapshots.expire(retain_max=1, options={"consumer.changelog-only": "true"}).snapshots == last - 4
    table.snapshots.expire_changelogs(everything=True)
    assert changelog_ids(table._store)[0] == 4
    _is_sound(table)


def test_a_tag_goes_and_changelogs_keep_their_files(table: pp.Table) -> None:
    for id_ in (1, 3):
        table.tags.create(f"at{id_}", id_)
    whole, last = _changes(table, 0, _last(table)), _last(table)
    table.snapshots.expire(retain_max=2)
    _is_sound(table)
    for id_ in (1, 3):
        table.tags.delete(f"at{id_}")
        assert _changes(table, 0, last) == whole
    _is_sound(table)
    table.snapshots.expire_changelogs(everything=True)
    is_exact(table)


def test_tags_keep_their_files_when_changelogs_expire(table: pp.Table) -> None:
    rows = {}
    for id_ in (2, 5):
        table.tags.create(f"at{id_}", id_)
        rows[id_] = rows_of(table, tag=f"at{id_}")
    table.snapshots.expire(retain_max=1)
    table.snapshots.expire_changelogs(retain_max=7)
    _is_sound(table)
    table.snapshots.expire_changelogs(everything=True)
    is_exact(table)
    assert {id_: rows_of(table, tag=f"at{id_}") for id_ in rows} == rows


def test_rollback_takes_later_changelogs_along(table: pp.Table) -> None:
    table.tags.create("old", 3)
    table.snapshots.expire(retain_max=2)
    rows, changes = rows_of(table, tag="old"), _changes(table, 0, 3)
    table.snapshots.rollback("old")
    assert changelog_ids(table._store) == [1, 2, 3]
    assert (Path(table.path) / "changelog/LATEST").read_text() == "3"
    assert (rows_of(table), _changes(table, 0, 3)) == (rows, changes)
    has_all(table)
    for number in range(20, 24):
        table.append(_rows(number))
    whole = _changes(table, 0, _last(table))
    table.snapshots.expire(retain_max=1)
    assert _changes(table, 0, _last(table)) == whole
    assert table.maintenance.verify(deep=True).ok
    table.tags.delete("old")
    table.snapshots.rollback(_last(table))
    table.snapshots.expire_changelogs(everything=True)
    has_all(table)
    table.maintenance.remove_orphan_files(timedelta(0), dry_run=False)
    is_exact(table)


def test_a_changelog_of_a_state_that_was_rolled_back_is_not_read(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", "append")
    stale = tmp_path / f"t/changelog/changelog-{_last(table) + 1}"
    table.snapshots.expire(retain_max=2)
    stale.write_bytes((tmp_path / "t/changelog/changelog-1").read_bytes().replace(b'"id" : 1,', b'"id" : 11,'))
    with pytest.raises(SnapshotNotFoundError):
        _changes(table, 0, _last(table) + 1)


def test_branches(table: pp.Table) -> None:
    """Each has changelogs of its own, and leaves the files of the other's."""
    table.tags.create("base", 3)
    table.branches.create("b", "base")
    branch = pp.Table.open(table.path, branch="b")
    for number in (30, 31, 32):
        branch.append(_rows(number))
    branch.compact(full=True)
    main, own = _changes(table, 0, _last(table)), _changes(branch, 3, _last(branch))
    for one in (branch, table, branch):
        one.snapshots.expire(retain_max=1)
    branch.tags.delete("base")
    table.tags.delete("base")
    _is_sound(table)
    assert _changes(table, 0, _last(table)) == main
    assert _changes(branch, 3, _last(branch)) == own
    table.snapshots.expire_changelogs(everything=True)
    assert _changes(branch, 3, _last(branch)) == own
    _is_sound(table)
    rows = rows_of(table)
    table.branches.delete("b")
    assert rows_of(table) == rows
    is_exact(table)


def test_fast_forward_takes_the_changelogs_that_the_branch_has_not(table: pp.Table) -> None:
    table.tags.create("base", 3)
    table.branches.create("b", "base")
    branch = pp.Table.open(table.path, branch="b")
    branch.append(_rows(30))
    table.snapshots.expire(retain_max=1)
    rows, changes = rows_of(branch), _changes(branch, 3, 4)
    table.branches.fast_forward("b")
    assert changelog_ids(table._store) == [1, 2]
    assert (rows_of(table), _changes(table, 3, _last(branch))) == (rows, _changes(branch, 3, _last(branch)))
    assert _changes(table, 3, 4) == changes
    has_all(table)


def test_options_that_keep_changelogs_no_longer(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=5)
    table.alter(unset_options=["changelog.num-retained.min"])
    rows = rows_of(table)
    assert table.snapshots.expire(retain_max=2, dry_run=True).changelogs > 0
    table.snapshots.expire(retain_max=2)
    assert changelog_ids(table._store) == []
    assert rows_of(table) == rows
    is_exact(table)


@pytest.mark.parametrize("how", ["expiry", "purge"])
def test_a_changelog_goes_with_its_snapshot_that_came_back(table: pp.Table, how: str) -> None:
    table.tags.create("old", 3)
    table.snapshots.expire(retain_max=2)
    table.snapshots.rollback("old")
    assert ([s.id for s in table.snapshots.list()], changelog_ids(table._store)) == ([3], [1, 2, 3])
    table.tags.delete("old")
    if how == "purge":
        table.maintenance.purge("t")
    else:
        table.append(_rows(50))
        table.alter(unset_options=["changelog.num-retained.min"])
        table.snapshots.expire(retain_max=1, retain_min=1)
    assert changelog_ids(table._store) == []
    assert table.maintenance.verify(deep=True).findings == ()


def test_a_producer_that_comes_later_leaves_the_deltas(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, primary_key=["k"], options={"bucket": "1", **_LONGER})
    for number in range(3):
        table.append(_rows(number))
    table.compact(full=True)
    table.snapshots.expire(retain_max=3)
    deltas = _changes(table, 0, 3)
    table.alter({"changelog-producer": "input"})
    for number in range(3):
        table.append(_rows(number))
    table.compact(full=True)
    table.snapshots.expire(retain_max=1)
    assert _changes(table, 0, 3, **{"incremental-between-scan-mode": "delta"}) == deltas
    _is_sound(table)
    table.snapshots.expire_changelogs(everything=True)
    is_exact(table)


def test_purge(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=4)
    assert table.maintenance.purge("t", dry_run=True).changelogs > 0
    assert table.maintenance.purge("t").changelogs > 0
    assert changelog_ids(table._store) == []
    assert rows_of(table) == []
    has_all(table)


def test_commits_expire_both(tmp_path: Path) -> None:
    options = {
        "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2",
        "changelog.num-retained.min": "4", "changelog.num-retained.max": "4",
    }  # fmt: skip
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=options)
    for number in range(8):
        table.append(_rows(number))
    assert (table._store.snapshot_ids(), changelog_ids(table._store)) == ([7, 8], [5, 6])
    _is_sound(table)


_DAMAGE: dict[str, Callable[[Path], Path]] = {
    "data-file": lambda t: next(f for f in t.glob("bucket-0/*") if _is_of(t, f, "changelog-1")),
    "manifest-list": lambda t: t / "manifest" / _list_of(t, "changelog-1"),
    "changelog": lambda t: t / "changelog/changelog-1",
}


def _list_of(root: Path, name: str) -> str:
    changelog = json.loads((root / "changelog" / name).read_text())
    return str(changelog.get("changelogManifestList") or changelog["deltaManifestList"])


def _is_of(root: Path, file: Path, name: str) -> bool:
    """Whether a data file is needed by a changelog alone."""
    without = pp.Table.open(root)
    path = root / "changelog" / name
    text = path.read_bytes()
    path.unlink()
    needed = set(table_files(without._store))
    path.write_bytes(text)
    return str(file) not in needed and str(file) in set(table_files(without._store))


@pytest.mark.parametrize("kind", ["append", "input"])
@pytest.mark.parametrize("damage", _DAMAGE)
def test_damage_is_found(tmp_path: Path, kind: str, damage: str) -> None:
    table = _make(tmp_path / "t", kind)
    table.snapshots.expire(retain_max=1)
    path = _DAMAGE[damage](tmp_path / "t")
    path.write_bytes(b"{}") if damage == "changelog" else path.unlink()
    found = table.maintenance.verify().findings
    assert {finding.kind for finding in found} == {damage}
    (of_file,) = (finding for finding in found if finding.path.endswith(path.name))
    assert ("expire_changelogs()" in of_file.what) == (damage != "changelog")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _make(tmp_path / "t", "append")
    table.snapshots.expire(retain_max=2)
    count = len(changelog_ids(table._store))
    assert main(["snapshots", "expire-changelogs", str(tmp_path / "t"), "--everything", "--dry-run"]) == 0
    assert f"{count} changelogs" in capsys.readouterr().out
    few = [
        "snapshots",
        "expire-changelogs",
        str(tmp_path / "t"),
        "--retain-max",
        "4",
        "--output",
        "json",
        "--max-deletes",
        "1",
    ]
    assert main(few) == 0
    assert json.loads(capsys.readouterr().out)["changelogs"] == 1
    assert main(few[:-2]) == 0
    assert json.loads(capsys.readouterr().out)["changelogs"] == count - 3
