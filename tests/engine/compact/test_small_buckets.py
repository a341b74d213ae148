"""Small buckets, which are compacted together, become what each becomes by itself."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings

import paimon_pyds as pp
from paimon_pyds.engine.compact import key_task, small_buckets
from paimon_pyds.errors import CorruptFileError, StorageError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.compaction import Meanwhile, data_files, live
from support.effort import LONG
from support.executors import Pickling
from support.key_model import ENGINES, physical
from support.key_world import KeyWorld
from support.random_world import random_world
from support.table_model import Column
from support.table_world import POOLS, SEEDS, Pools
from support.values import in_order, lines

SORTED = [engine for kind, engines in ENGINES.items() if kind != "clustering" for engine in engines]
"""Engines whose files are sorted by key."""
_DIFFER = ("file_name", "file_size", "creation_time")
"""What is new each time a file is written: files of few rows leave out a page index, which would repeat the footer."""
SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])


class _World(KeyWorld):
    """One whose writes don't compact."""

    def __init__(self, pools: Pools, seed: int, path: Path, log: list[str]) -> None:
        super().__init__(SORTED, pools, seed, path, log)
        self.table.alter({"write-only": "true"})

    def _options(self, keys: Sequence[Column], columns: Sequence[Column]) -> dict[str, str]:
        return {**super()._options(keys, columns), "changelog-producer": "none"}

    def step(self) -> None:
        self.pick([self.write, self.write, self.write_tasks, self.alter, self.compact])()


def _files(table: pp.Table) -> list[str]:
    """What manifests say of the live files, and their rows."""

    def said(entry: dict[str, Any]) -> dict[str, Any]:
        of_it = [name.removeprefix(entry["file_name"]) for name in entry["extra_files"]]
        return {**{name: value for name, value in entry.items() if name not in _DIFFER}, "extra_files": of_it}

    return sorted(repr([said(entry), physical(table, entry)]) for entry in live(table).to_pylist())


def _compact(table: pp.Table, *, together: bool, full: bool = True) -> list[int]:
    """Compact a table; the number of buckets of each call that compacted several together."""
    counts: list[int] = []
    merge = small_buckets._Merge

    def counted(task: small_buckets.SmallBuckets) -> Any:
        counts.append(len(task.tasks))
        return merge(task)

    rows = small_buckets.SMALL_ROWS if together else -1
    with mock.patch.multiple(small_buckets, SMALL_ROWS=rows, _Merge=counted):
        table.compact(full=full)
    return counts


@pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
@settings(max_examples=500 if LONG else 12, phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
@given(pools=POOLS, seed=SEEDS)
def test_files_are_those_of_buckets_that_are_compacted_one_at_a_time(pools: Pools, seed: int) -> None:
    """All types, formats, engines, indexes and statistics."""
    with random_world(pools, seed | 1, _World) as world:  # of odd seeds small files are read together
        for _ in range(world.random.randint(2, 4)):
            world.write()
        first, full = world.table, world.random.random() < 0.7
        shutil.copytree(first.path, other_path := Path(f"{first.path}-2"))
        other = pp.Table.open(other_path)
        for table, together in ((first, True), (other, False)):
            _compact(table, together=together, full=full)
        assert _files(first) == _files(other)
        METADATA_CACHE.clear()


# ------------------------------------------------------------------------------------------------------- what is joined


def _make(path: Path, buckets: int = 20, **options: str) -> pp.Table:
    """A table of one bucket a partition, with two versions of a row in each, and another row."""
    options = {"bucket": "1", "write-only": "true", **options}
    table = pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    for value in ("old", "new"):
        table.append(_rows(range(buckets), value))
    return table


def _rows(partitions: Sequence[int], value: str) -> pa.Table:
    places = [(p, k) for p in partitions for k in (7, 8 if value == "old" else 9)]
    return pa.table([[p for p, _ in places], [k for _, k in places], [value] * len(places)], schema=SCHEMA)


def _read(table: pp.Table) -> list[str]:
    return in_order(lines(table.scan().to_arrow()))


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}])
def test_buckets_share_what_is_made_once_and_start_no_threads(tmp_path: Path, options: dict[str, str]) -> None:
    table = _make(tmp_path / "t", 140, **options)
    other = pp.Table.open(shutil.copytree(table.path, tmp_path / "other"))
    with mock.patch.object(key_task, "WriterThreads", side_effect=AssertionError("threads for one bucket")):
        assert sorted(_compact(table, together=True)) == [12, 128]
    _compact(other, together=False)
    assert _read(table) == _read(other)
    assert len(_read(table)) == 420
    assert _files(table) == _files(other)
    entries = live(table)
    assert (entries.num_rows, set(entries["level"].to_pylist())) == (140, {5})


def test_buckets_of_many_or_long_rows_are_compacted_by_themselves(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", 4)
    many = pa.table([[1] * 2000, range(2000), ["x"] * 2000], schema=SCHEMA)
    table.append(many)
    table.append(pa.table([[2], [5], ["y" * (1 << 20)]], schema=SCHEMA))
    expected = _read(table)
    alone: list[int] = []
    merge_one = small_buckets.merge_one
    with mock.patch.object(small_buckets, "merge_one", lambda task: alone.append(1) or merge_one(task)):
        assert _compact(table, together=True) == [3]
    assert len(alone) == 2
    assert _read(table) == expected
    assert live(table).num_rows == 4


def test_rows_that_are_held_are_bounded(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", 30)
    expected, written = _read(table), list[int]()
    write = small_buckets.SmallFilesWriter.write

    def counted(self: Any, buckets: Sequence[Any], rows: Any) -> Any:
        written.append(len(buckets))
        return write(self, buckets, rows)

    with (
        mock.patch.object(small_buckets, "MOST_BYTES", 1),
        mock.patch.object(small_buckets.SmallFilesWriter, "write", counted),
    ):
        assert _compact(table, together=True) == [30]
    assert written == [1] * 30
    assert _read(table) == expected


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_bucket_whose_rows_are_all_deleted_gets_no_file(tmp_path: Path, file_format: str) -> None:
    table = _make(tmp_path / "t", 5, **{"file.format": file_format})
    table.delete("p < 2 AND k > 0 AND v IS NOT NULL")
    table.delete("p = 2 AND k = 9")
    expected = _read(table)
    assert len(expected) == 8
    assert _compact(table, together=True) == [5]
    assert _read(table) == expected
    assert live(table).num_rows == 3


def test_tasks_travel(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", 140)
    expected = _read(table)
    assert table.compact(full=True, executor=Pickling()).groups == 140
    assert _read(table) == expected
    assert live(table).num_rows == 140


# --------------------------------------------------------------------------------------------------------------- errors


def test_a_damaged_file_is_named_and_nothing_stays(tmp_path: Path) -> None:
    table = _make(tmp_path / "t")
    [broken, _] = (tmp_path / "t" / "p=11").rglob("*.parquet")
    content = broken.read_bytes()
    broken.write_bytes(content[:40] + b"\xff" * (len(content) - 40))
    before = data_files(table)
    with pytest.raises(CorruptFileError) as error:
        table.compact(full=True)
    assert str(error.value.path).endswith(broken.name)
    assert data_files(table) == before
    broken.write_bytes(content)
    assert table.compact(full=True).groups == 20


def test_a_run_that_is_not_sorted_is_named(tmp_path: Path) -> None:
    table = _make(tmp_path / "t")
    [file, _] = (tmp_path / "t" / "p=3").rglob("*.parquet")
    rows = pq.read_table(file, partitioning=None)
    pq.write_table(rows.take([1, 0]), file)
    before = data_files(table)
    with pytest.raises(CorruptFileError):
        table.compact(full=True)
    assert data_files(table) == before


@pytest.mark.parametrize("fails_at", [0, 1, 7])
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, fails_at: int) -> None:
    table = _make(tmp_path / "t")
    expected, before = _read(table), data_files(table)
    write_file = small_buckets.SmallFilesWriter._write_file
    left = iter(range(fails_at))

    def failing(self: Any, path: str, rows: pa.RecordBatch) -> Any:
        found = write_file(self, path, rows)
        if next(left, None) is None:
            raise StorageError("full", path=path)
        return found

    with mock.patch.object(small_buckets.SmallFilesWriter, "_write_file", failing), pytest.raises(StorageError):
        table.compact(full=True)
    assert data_files(table) == before
    assert _read(table) == expected


def test_files_of_buckets_that_were_done_go_with_the_others(tmp_path: Path) -> None:
    """One bucket of several is compacted by itself, another one fails after it."""
    table = _make(tmp_path / "t")
    before, done = data_files(table), list[int]()
    merge_one = small_buckets.merge_one

    def failing(task: key_task.MergeTask) -> Any:
        if done:
            raise StorageError("full", path="x")
        done.append(1)
        return merge_one(task)

    with (
        mock.patch.object(small_buckets._Merge, "merged", return_value=None),
        mock.patch.object(small_buckets, "merge_one", failing),
        pytest.raises(StorageError),
    ):
        table.compact(full=True)
    assert done
    assert data_files(table) == before


def test_a_file_that_another_compaction_took_away_holds_up_its_bucket_only(tmp_path: Path) -> None:
    table, other = _make(tmp_path / "t"), pp.Table.open(tmp_path / "t")
    expected = _read(table)

    def meanwhile() -> None:
        other.compact(full=True, where="p = 4")
        for path in old:
            path.unlink()

    old = list((tmp_path / "t" / "p=4").rglob("*.parquet"))
    summary = table.compact(full=True, executor=Meanwhile(meanwhile, before=True))
    assert summary.groups == 19
    assert _read(table) == expected
    assert live(table).num_rows == 20
