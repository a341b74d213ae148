"""Merge on read of the files of a section: what is read of them, and within which bounds."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.row.encode import encode_row
from paimon_pyds.base.types import from_arrow_schema, parse_type
from paimon_pyds.engine.read import merged_files
from paimon_pyds.engine.read.split_read import read_splits
from paimon_pyds.engine.scan.result import pack
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet import reader as parquet_reader
from paimon_pyds.keys.merge.filter import MergeFilter
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile, SortedRun
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import Merging, ReadSpec
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.local import LocalFileIO

_COLUMNS = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
_FIELDS = from_arrow_schema(_COLUMNS)
_NOWHERE = PartitionBucket(b"", 0)


def _spec(**options: str) -> ReadSpec:
    schema = TableSchema(0, _FIELDS, 1, primary_keys=("k",), options={"merge-engine": "deduplicate", **options})
    return ReadSpec(LocalFileIO(), {0: _FIELDS}, _FIELDS, merging=Merging(schema, MergeFilter(Const.TRUE)))


def _file(
    path: Path, rows: Sequence[tuple[int, int]], numbers: Sequence[int] | None, reach: tuple[int, int], level: int = 0
) -> PlannedFile:
    """A file of keys and values; without ``numbers`` it has no column of sequence numbers."""
    columns = {"k": [k for k, _ in rows], "v": [v for _, v in rows]}
    table = pa.table(columns, schema=_COLUMNS).append_column(VALUE_KIND, pa.array([0] * len(rows), pa.int8()))
    if numbers is not None:
        table = table.append_column(SEQUENCE_NUMBER, pa.array(numbers, pa.int64()))
    pq.write_table(table, path)
    first, last = (encode_row([k], [parse_type("BIGINT NOT NULL")]) for k in (rows[0][0], rows[-1][0]))
    run = SortedRun(level, (first, last), merged=True, sequence_range=reach)
    return PlannedFile(str(path), path.stat().st_size, len(rows), 0, _NOWHERE, sequence_number=reach[1], run=run)


def _rows(files: Sequence[PlannedFile], **options: str) -> list[tuple[int, int]]:
    return [(row["k"], row["v"]) for batch in read_splits(_spec(**options), files) for row in batch.to_pylist()]


def test_runs_in_the_order_of_their_numbers_are_merged_without_these(tmp_path: Path) -> None:
    files = [
        _file(tmp_path / "new.parquet", [(2, 20), (3, 30)], None, (40, 41)),
        _file(tmp_path / "low.parquet", [(1, 1), (2, 2)], None, (0, 19), level=5),
        _file(tmp_path / "high.parquet", [(3, 3), (4, 4)], None, (5, 17), level=5),
        _file(tmp_path / "old.parquet", [(3, 10), (4, 11)], None, (20, 39)),
    ]
    assert _rows(files) == [(1, 1), (2, 20), (3, 30), (4, 11)]


@pytest.mark.parametrize("reach", [(5, 9), (0, 9), (3, 4)])
def test_runs_whose_numbers_overlap_are_merged_by_them(tmp_path: Path, reach: tuple[int, int]) -> None:
    files = [
        _file(tmp_path / "a.parquet", [(1, 1), (2, 2)], [3, 9], (3, 9)),
        _file(tmp_path / "b.parquet", [(1, 10), (2, 20)], [reach[1], reach[0]], reach),
    ]
    assert _rows(files) == [(1, 10 if reach[1] > 3 else 1), (2, 2)]


def test_numbers_may_lie_anywhere_between_those_of_other_runs(tmp_path: Path) -> None:
    """pypaimon's manifests give the second file of a write its last number only."""
    files = [
        _file(tmp_path / "a.parquet", [(1, 1), (2, 1)], [3, 4], (3, 4)),
        _file(tmp_path / "b.parquet", [(1, 2), (2, 2)], [5, 6], (7, 7)),
    ]
    assert _rows(files) == [(1, 2), (2, 2)]


@pytest.mark.parametrize(("older", "newer"), [([3, 8], [5, 6]), ([3, 4], [5, 2]), ([3, 5], [5, 6])])
def test_numbers_that_manifests_put_in_another_order_are_an_error(
    tmp_path: Path, older: list[int], newer: list[int]
) -> None:
    files = [
        _file(tmp_path / "a.parquet", [(1, 1), (2, 1)], older, (3, 4)),
        _file(tmp_path / "b.parquet", [(1, 2), (2, 2)], newer, (5, 6)),
    ]
    with pytest.raises(CorruptFileError, match="sequence numbers") as caught:
        _rows(files)
    assert "full=True" in str(caught.value)


def test_a_level_that_is_newer_than_files_of_level_0_is_merged_by_numbers(tmp_path: Path) -> None:
    files = [
        _file(tmp_path / "compacted.parquet", [(1, 1)], [7], (7, 7), level=5),
        _file(tmp_path / "late.parquet", [(1, 2)], [6], (6, 6)),
    ]
    assert _rows(files) == [(1, 1)]


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Files can be opened for one round of a merge, and for what is open anyway."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
@pytest.mark.usefixtures("few_descriptors")
def test_very_many_runs_are_merged_with_few_open_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    newest: dict[int, int] = {}
    files = []
    for number in range(200):
        keys = np.sort(rng.choice(6_000, 1_200, replace=False))
        values = rng.integers(0, 2**62, len(keys))
        newest.update(zip(keys.tolist(), values.tolist(), strict=True))
        rows = list(zip(keys.tolist(), values.tolist(), strict=True))
        files.append(_file(tmp_path / f"{number}.parquet", rows, None, (number, number)))
    assert _rows(files) == sorted(newest.items())


def test_what_java_spills_with_another_codec_is_read(tmp_path: Path) -> None:
    files = [_file(tmp_path / f"{n}.parquet", [(0, n), (1, n)], None, (n, n)) for n in range(70)]
    assert _rows(files, **{"spill-compression": "lzo"}) == [(0, 69), (1, 69)]


def test_batches_of_all_runs_fit_what_may_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_files, "HELD_BYTES", 1 << 17)
    read: list[int] = []
    read_file = merged_files.read_file

    def noted(*arguments: Any, batch_rows: int, **more: Any) -> Iterator[pa.RecordBatch]:
        read.append(batch_rows)
        return read_file(*arguments, batch_rows=batch_rows, **more)

    monkeypatch.setattr(merged_files, "read_file", noted)
    rows = [(k, k) for k in range(5_000)]
    assert _rows([_file(tmp_path / f"{n}.parquet", rows, None, (n, n)) for n in range(4)]) == rows
    assert 1 <= 16 * sum(read) <= 1 << 17


@pytest.mark.parametrize(("runs", "threads"), [(4, range(2, 9)), (40, range(1, 2))])
def test_few_row_groups_are_decoded_ahead_in_a_merge(
    runs: int, threads: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    begun: list[tuple[int, int]] = []
    in_order = parquet_reader.in_order

    def noted(*arguments: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        begun.append((more["held"], more["threads"]))
        return in_order(*arguments, **more)

    monkeypatch.setattr(parquet_reader, "in_order", noted)
    files = [_file(tmp_path / f"{n}.parquet", [(1, n)], None, (n, n)) for n in range(runs)]
    assert _rows(files) == [(1, runs - 1)]
    assert len(begun) == runs
    assert sum(held for held, _ in begun) <= 128 << 20
    assert all(count in threads for _, count in begun)


def test_sections_of_one_bucket_may_be_in_several_splits(tmp_path: Path) -> None:
    file = _file(tmp_path / "f.parquet", [(1, 1)], None, (0, 0))
    assert file.run is not None
    runs = [SortedRun(0, file.run.key_range, merged=True, section=section) for section in (0, 0, 1, 1)]
    files = [file._replace(path=f"{n}", size=60, run=run) for n, run in enumerate(runs)]
    assert [[f.path for f in group] for group in pack(files, 130, 1)] == [["0", "1"], ["2", "3"]]
    assert [[f.path for f in group] for group in pack(files, 190, 1)] == [["0", "1"], ["2", "3"]]
    assert [[f.path for f in group] for group in pack(files, 240, 1)] == [["0", "1", "2", "3"]]
