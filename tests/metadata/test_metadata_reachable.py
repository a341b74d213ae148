"""Every file in a table's directory is needed by some snapshot, tag or branch, and what these need is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import snapshot_files
from paimon_pyds.metadata.store import TableStore
from support.effort import sampled
from support.fixtures import fixture_names, table_path
from support.live_files import branch_files, table_files

_SCHEMA = pa.schema([("p", pa.string()), ("n", pa.int64()), ("s", pa.string())])


def _there(root: Path) -> set[str]:
    """All files but the hints."""
    return {str(f) for f in root.rglob("*") if f.is_file() and f.name not in ("LATEST", "EARLIEST")}


def _rows(partition: str | None, first: int, count: int = 40) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"p": [partition] * count, "n": list(numbers), "s": [f"text {n % 7}" for n in numbers]}, _SCHEMA)


@pytest.mark.parametrize("name", sampled(fixture_names(), 9))
def test_tables_of_java(name: str) -> None:
    root = table_path(name)
    assert set(table_files(TableStore.open(root))) == _there(root)


@pytest.fixture(params=[{}, {"index-file-in-data-file-dir": "true", "data-file.path-directory": "files"}])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    """Vectors, side indexes, a compaction, an overwrite, two schemas."""
    options = {
        "deletion-vectors.enabled": "true", "file-index.bloom-filter.columns": "s", "manifest.merge-min-count": "3",
        "file-index.in-manifest-threshold": "1b", **request.param,
    }  # fmt: skip
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    for number, partition in enumerate(["a", None, "b=/c", "a", "a"]):
        table.append(_rows(partition, 40 * number))
    table.delete("n % 3 = 0")
    table.alter(add_columns={"more": "INT"})
    table.compact()
    table.delete("p = 'a' AND n < 9")
    table.overwrite(_rows("b=/c", 1000).append_column("more", pa.nulls(40, pa.int32())), partition={"p": "b=/c"})
    return table


def test_tables_of_this_package(table: pp.Table) -> None:
    root = Path(table._store.root)
    assert set(table_files(table._store)) == _there(root)
    assert any(path.endswith(".index") for path in table_files(table._store))


def test_what_only_a_tag_or_a_branch_needs(table: pp.Table) -> None:
    root, store = Path(table._store.root), table._store
    first, before = store.snapshot_ids()[0], table.scan().to_arrow().sort_by("n")
    (root / "tag").mkdir()
    shutil.copy(root / f"snapshot/snapshot-{first}", root / "tag/tag-old")
    branch = root / "branch/branch-b"
    shutil.copytree(root / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    (branch / "tag").mkdir()
    shutil.copy(root / f"snapshot/snapshot-{first + 1}", branch / "snapshot")
    shutil.copy(root / f"snapshot/snapshot-{first + 2}", branch / "tag/tag-mine")
    assert set(table_files(store)) == _there(root)
    for id_ in store.snapshot_ids()[:-1]:
        (root / f"snapshot/snapshot-{id_}").unlink()
    needed = set(table_files(store))
    assert needed == set(table_files(store.for_branch("b")))
    assert needed < _there(root)
    for path in _there(root) - needed:
        Path(path).unlink()
    assert table.scan().to_arrow().sort_by("n").equals(before)
    assert table.scan(tag="old").to_arrow().num_rows == 40
    on_branch = pp.Table.open(root, branch="b")
    assert on_branch.scan().to_arrow().num_rows == 80
    assert on_branch.scan(tag="mine").to_arrow().num_rows == 120
    assert set(branch_files(on_branch._store)) < needed


def test_statistics(table: pp.Table) -> None:
    path = Path(table._store.root) / f"snapshot/snapshot-{table._store.snapshot_ids()[-1]}"
    snapshot = json.loads(path.read_text())
    path.write_text(json.dumps({**snapshot, "statistics": "stats-1"}))
    latest = table._store.latest_snapshot()
    assert latest is not None
    assert table._store.paths.statistics("stats-1") in set(snapshot_files(table._store, latest))
