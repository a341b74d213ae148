"""Orphan files: what nothing names is found wherever it lies, and nothing else goes."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.engine.execution.executor import Executor
from paimon_pyds.errors import NotFoundError, OptionError, SecurityError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.copies import copied
from support.effort import sampled
from support.executors import ShufflingWorkers
from support.fixtures import fixture_names, table_path
from support.live_files import table_files
from support.maintenance import files_there, rows_of

_SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int64())])
_UUID = "0d1e2f30-1111-4222-8333-444455556666"
_ORPHANS = {
    "data": [
        "p=a/bucket-0/data-x-0.parquet",
        "p=a/bucket-0/data-x-0.parquet.index",
        "p=gone/bucket-7/changelog-x-1.parquet",
    ],
    "manifest": ["manifest/manifest-x-0", "manifest/manifest-list-x-1", "manifest/index-manifest-x-0"],
    "index": ["index/index-x-0"],
    "statistics": ["statistics/stat-x-0"],
    "temporary": [
        f"snapshot/.snapshot-9.{_UUID}.tmp",
        f"branch/branch-b/snapshot/.LATEST.{_UUID}.tmp",
        f"schema/.schema-1.{_UUID}",
        f"branch/.b.{_UUID}.tmp/schema/schema-0",
        f"branch/.b.{_UUID}.tmp/tag/tag-success-file/old_SUCCESS",
    ],
}
_KEPT = ["README.txt", "p=a/notes.txt", "snapshot/snapshot-9.bak", "other/bucket-0/data-1.parquet", "tag/.hidden"]


@copied("t")
def table(path: Path) -> pp.Table:
    """Snapshots of all kinds, a tag that keeps one that has expired, a branch."""
    options = {
        "deletion-vectors.enabled": "true",
        "file-index.bitmap.columns": "id",
        "file-index.in-manifest-threshold": "1b",
    }
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options=options)
    for number in range(4):
        table.append(pa.table({"p": ["ab"[number % 2]] * 5, "id": list(range(10 * number, 10 * number + 5))}, _SCHEMA))
    table.tags.create("old", 2)
    table.branches.create("b", "old")
    pp.Table.open(table.path, branch="b").append(pa.table({"p": ["c"], "id": [1]}, _SCHEMA))
    table.delete("id % 10 = 3")
    table.compact(full=True)
    table.snapshots.expire(retain_max=1)
    return table


def _put(root: str, name: str, days: float = 2) -> str:
    path = Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    os.utime(path, (time.time() - 86400 * days,) * 2)
    return str(path)


def _age(root: str) -> None:
    for path in Path(root).rglob("*"):
        os.utime(path, (time.time() - 86400 * 30,) * 2)


class _Workers(ShufflingWorkers):
    """On other machines: all that travels is pickled."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        return map(*pickle.loads(pickle.dumps((function, tasks))))

    def shuffle(self, split: Any, tasks: Sequence[Any], gather: Any, parts: int) -> Iterator[Any]:
        return super().shuffle(*pickle.loads(pickle.dumps((split, tasks, gather))), parts)


_EXECUTORS = pytest.mark.parametrize("executor", [None, _Workers()], ids=["here", "workers"])


@_EXECUTORS
def test_each_orphan_is_found_and_nothing_else(table: pp.Table, executor: Executor | None) -> None:
    _age(table.path)
    branch = pp.Table.open(table.path, branch="b")
    rows = rows_of(table), rows_of(table, tag="old"), rows_of(branch)
    expected = {_put(table.path, name): kind for kind, names in _ORPHANS.items() for name in names}
    kept = {_put(table.path, name) for name in _KEPT}
    young = _put(table.path, "p=a/bucket-0/data-young.parquet", days=0.5)
    found = table.maintenance.remove_orphan_files(executor=executor, dry_run=True)
    assert found.looked_at == table.maintenance.remove_orphan_files(dry_run=True).looked_at > len(expected)
    assert dict(zip(found.files["path"].to_pylist(), found.files["kind"].to_pylist(), strict=True)) == expected
    assert found.bytes == 5 * len(expected)
    assert "would go" in repr(found)
    assert set(expected) <= files_there(Path(table.path))
    begun = Path(table.path, f"branch/.c.{_UUID}.tmp/schema")
    begun.mkdir(parents=True)
    removed = table.maintenance.remove_orphan_files(dry_run=False, executor=executor)
    assert removed.files.equals(found.files)
    begun.rmdir()  # whoever makes a branch is about to write there
    begun.parent.rmdir()
    assert [path.name for path in Path(table.path, "branch").iterdir()] == ["branch-b"]
    assert files_there(Path(table.path)) == {*kept, young} | set(table_files(table._store))
    assert (rows_of(table), rows_of(table, tag="old"), rows_of(branch)) == rows
    assert not table.maintenance.remove_orphan_files(timedelta(hours=13), dry_run=True).files.num_rows
    assert table.maintenance.remove_orphan_files("6 h", dry_run=True).files["path"].to_pylist() == [young]


@pytest.mark.parametrize("name", sampled(fixture_names(), 9))
def test_tables_of_java_have_none(name: str, tmp_path: Path) -> None:
    root = tmp_path / "t"
    shutil.copytree(table_path(name), root)
    _age(str(root))
    found = pp.Table.open(root).maintenance.remove_orphan_files(dry_run=True)
    assert found.files.num_rows == 0
    assert found.looked_at >= 3 or name == "empty_table"


@pytest.mark.parametrize("what", ["manifest/manifest-*", "manifest/manifest-list-*"])
@_EXECUTORS
def test_nothing_goes_where_a_state_is_damaged(
    table: pp.Table, what: str, executor: Executor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    orphan = _put(table.path, "index/index-x-0")
    for path in Path(table.path).glob(what):
        path.unlink()
    METADATA_CACHE.clear()
    with pytest.raises(NotFoundError, match="nothing was removed"):
        pp.Table.open(table.path).maintenance.remove_orphan_files(dry_run=False, executor=executor)
    assert Path(orphan).exists()


def test_what_is_committed_while_workers_search_stays(table: pp.Table) -> None:
    """Files that were written long ago: the search reads what snapshots name before it looks into the directories."""
    rows = pa.table({"p": ["a"], "id": [77]}, _SCHEMA)

    class Beside(_Workers):
        def shuffle(self, split: Any, tasks: Sequence[Any], gather: Any, parts: int) -> Iterator[Any]:
            pp.Table.open(table.path).append(rows)
            _age(table.path)
            return super().shuffle(split, tasks, gather, parts)

    assert not table.maintenance.remove_orphan_files(dry_run=False, executor=Beside()).files.num_rows
    assert rows_of(table).count(repr(rows.to_pylist()[0])) == 1


def test_external_directories_are_looked_into_when_asked(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    options = {"data-file.external-paths": f"file://{outside}"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    orphan = _put(str(outside), "p=a/bucket-0/data-x-0.parquet")
    assert not table.maintenance.remove_orphan_files(dry_run=False).files.num_rows
    assert table.maintenance.remove_orphan_files(dry_run=False, external=True).files["path"].to_pylist() == [orphan]
    assert not Path(orphan).exists()


@pytest.mark.parametrize(
    "place",
    ["p=z", "p=z/bucket-0", "p=a/bucket-9", "index", "statistics", "changelog", "branch/branch-b/changelog",
     f"branch/.b.{_UUID}.tmp"],
)  # fmt: skip
@_EXECUTORS
def test_what_links_lead_to_stays(table: pp.Table, place: str, executor: Executor | None, tmp_path: Path) -> None:
    """Who may write into a table could have any directory emptied by who looks after it."""
    names = ["keep.txt", "bucket-0/data-x-0.parquet", "p=a/bucket-0/data-x-0.parquet", f".x.{_UUID}.tmp"]
    files = [_put(str(tmp_path / "elsewhere"), name) for name in names]
    link = Path(table.path, place)
    if link.is_dir():
        shutil.copytree(link, tmp_path / "elsewhere", dirs_exist_ok=True)  # the table is whole
        shutil.rmtree(link)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    assert not table.maintenance.remove_orphan_files(dry_run=False, executor=executor).files.num_rows
    assert all(os.path.exists(file) for file in files)


@pytest.mark.parametrize("link", ["inner", "inner/data"])
def test_a_directory_of_data_that_is_a_link_is_left(link: str, tmp_path: Path) -> None:
    options = {"data-file.path-directory": "inner/data"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    files = [_put(str(tmp_path / "elsewhere"), f"{step}p=a/bucket-0/data-x-0.parquet") for step in ("", "data/")]
    Path(table.path, link).parent.mkdir(exist_ok=True)
    Path(table.path, link).symlink_to(tmp_path / "elsewhere")
    assert not table.maintenance.remove_orphan_files(dry_run=False).files.num_rows
    assert all(os.path.exists(file) for file in files)


def test_external_directories_of_others_are_not_emptied(tmp_path: Path) -> None:
    """The option is the table's own: who made it may mean any directory."""
    other = pp.Table.create(tmp_path / "other", _SCHEMA, partition_by=["p"])
    other.append(pa.table({"p": ["a"], "id": [1]}, _SCHEMA))
    options = {"data-file.external-paths": f"file://{tmp_path}/other"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    _age(other.path)
    with pytest.raises(SecurityError, match="another table"):
        table.maintenance.remove_orphan_files(dry_run=False, external=True)
    table.alter(set_options={"data-file.external-paths": f"file://{tmp_path}/free"})
    orphan = _put(str(tmp_path / "free"), "p=a/bucket-0/data-x-0.parquet")
    shutil.rmtree(tmp_path / "other")
    careful = {"external-paths.trust-table": "false"}
    with pytest.raises(SecurityError, match=r"not allowed.*external-paths\.allow"):
        pp.Table.open(table.path, storage_options=careful).maintenance.remove_orphan_files(dry_run=False, external=True)
    allowing = careful | {"external-paths.allow": f"file://{tmp_path}/other,file://{tmp_path}/free"}
    found = pp.Table.open(table.path, storage_options=allowing).maintenance.remove_orphan_files(
        dry_run=False, external=True
    )
    assert found.files["path"].to_pylist() == [orphan]


def test_a_time_to_come_is_refused(table: pp.Table) -> None:
    with pytest.raises(OptionError, match="in the future"):
        table.maintenance.remove_orphan_files(int(time.time() * 1000) + 60_000, dry_run=True)
    with pytest.raises(OptionError, match="older_than"):
        table.maintenance.remove_orphan_files("soon", dry_run=True)
