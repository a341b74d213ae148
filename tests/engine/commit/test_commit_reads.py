"""A commit reads the manifests of partitions that it touches, and the columns that its checks use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, Overwrite, commit, committer
from paimon_pyds.engine.commit.conflicts import read_base_files
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.snapshot import CommitKind
from support.counting_io import counted

_SCHEMA = pa.schema([("p", pa.string()), ("n", pa.int64())])
_PARTITIONS = [None, *(f"day {i:02}" for i in range(11))]
_OPTIONS = {"bucket": "4", "bucket-key": "n", "manifest.merge-min-count": "1000"}


def _rows(partition: str | None, *numbers: int) -> pa.Table:
    return pa.table({"p": pa.array([partition] * len(numbers), pa.string()), "n": list(numbers)}, _SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """Twelve partitions, each in a manifest of its own."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=_OPTIONS)
    for partition in _PARTITIONS:
        table.append(_rows(partition, *range(20)))
    return table


def _written(table: pp.Table, rows: pa.Table) -> list[BucketFiles]:
    with TableWriter(table.write_context()) as writer:
        writer.write(rows)
        return list(writer.prepare_commit().buckets)


@pytest.mark.parametrize("partition", [None, "day 03", "day 10"])
def test_an_append_opens_the_manifest_of_its_partition(table: pp.Table, partition: str | None) -> None:
    added = _written(table, _rows(partition, *range(100, 110)))
    store, io = counted(table._store.root)
    assert commit(store, Changes((Increment(added=added),)), TableOptions(_OPTIONS)) is not None
    assert len(io.manifests) == 1
    live = live_of(store, store.latest_snapshot())
    for bucket in range(4):
        mine = live.filter(pc.and_(pc.equal(live["bucket"], bucket), pc.equal(live["partition"], added[0].partition)))
        old, new = sorted(zip(*(mine[f"{m}_sequence_number"].to_pylist() for m in ("min", "max")), strict=True))
        assert new[0] == old[1] + 1  # the sequence goes on


def test_an_append_to_a_new_partition_opens_no_manifest(table: pp.Table) -> None:
    added = _written(table, _rows("day 99", 1, 2, 3))
    store, io = counted(table._store.root)
    commit(store, Changes((Increment(added=added),)), TableOptions(_OPTIONS))
    assert io.manifests == []
    assert table.scan("p = 'day 99'").to_arrow().num_rows == 3


def test_a_commit_that_takes_files_away_opens_the_manifest_of_their_partition(table: pp.Table) -> None:
    live = live_of(table._store, table._store.latest_snapshot())
    deleted = live.filter(pc.equal(live["partition"], live["partition"][len(live) - 1]))
    store, io = counted(table._store.root)
    changes = Changes((Increment(deleted=deleted, kind=CommitKind.OVERWRITE),))
    commit(store, changes, TableOptions(_OPTIONS))
    assert len(io.manifests) == 1
    assert table.scan().to_arrow().num_rows == 20 * (len(_PARTITIONS) - 1)
    with pytest.raises(CommitConflictError, match="was removed or changed"):
        commit(store, changes, TableOptions(_OPTIONS))


def test_an_overwrite_of_partitions_leaves_the_others(table: pp.Table) -> None:
    added = _written(table, _rows("day 05", 7))
    written = {b.partition for b in added}
    store, _ = counted(table._store.root)
    commit(
        store,
        Changes(
            (Increment(added=added, overwrite=Overwrite(lambda rows: written & set(rows)), kind=CommitKind.OVERWRITE),)
        ),
        TableOptions(_OPTIONS),
    )
    assert table.scan("p = 'day 05'").to_arrow()["n"].to_pylist() == [7]
    assert table.scan().to_arrow().num_rows == 20 * (len(_PARTITIONS) - 1) + 1


def test_another_number_of_buckets_is_found_where_the_bucket_has_no_file_yet(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=_OPTIONS)
    (first,) = _written(table, _rows("a", 1))
    commit(table._store, Changes((Increment(added=[first]),)), TableOptions(_OPTIONS))
    (second,) = _written(table, _rows("a", 1))
    elsewhere = replace(second, bucket=(first.bucket + 1) % 4, total_buckets=8)
    with pytest.raises(CommitConflictError, match="new bucket num 8"):
        commit(table._store, Changes((Increment(added=[elsewhere]),)), TableOptions(_OPTIONS))


def test_a_delete_looks_for_live_files_again_only_on_top_of_another_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"deletion-vectors.enabled": "true"})
    table.append(_rows("a", *range(20)))
    read: list[int] = []

    def counting(*arguments: Any) -> pa.RecordBatch | None:
        read.append(1)
        return read_base_files(*arguments)

    monkeypatch.setattr(committer, "read_base_files", counting)
    assert table.delete("n = 3").rows_deleted == 1
    assert not read
    publish = FileSystemPublisher.publish

    def outrun(*arguments: Any) -> bool:
        monkeypatch.setattr(FileSystemPublisher, "publish", publish)
        table.append(_rows("b", 100))
        read.clear()
        return publish(*arguments)

    monkeypatch.setattr(FileSystemPublisher, "publish", outrun)
    assert table.delete("n = 4").rows_deleted == 1
    assert read
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [0, 1, 2, *range(5, 20), 100]
