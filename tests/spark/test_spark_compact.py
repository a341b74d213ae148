"""Compaction on the workers of a Spark session."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.spark import compact
from paimon_pyds.spark.maintenance import rescale
from support.compaction import SCHEMA, VECTORS, data_files, ids, latest, live, make, rows
from support.effort import sampled
from support.maintenance import is_exact
from support.progress import Seen

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


@pytest.mark.slow
def test_groups_are_rewritten_by_the_workers(spark: Any, tmp_path: Path) -> None:
    options = {**VECTORS, "file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1b"}
    table = make(tmp_path / "t", 6, options, partition_by=["day"])
    table.delete("id IN (1, 7, 11)")
    seen = Seen()
    dry = compact(spark, table.path, dry_run=True)
    assert (dry.files_before, dry.rows_dropped, latest(table).id) == (14, 3, 7)
    summary = compact(spark, table.path, "day = 1 OR day IS NULL", full=True, progress=seen)
    assert (summary.groups, summary.files_before, summary.files_after, summary.rows_dropped) == (2, 12, 2, 3)
    assert (seen.done("rewriting"), summary.rows) == (36, 33)
    assert latest(table).commit_kind is CommitKind.COMPACT
    ordered = compact(spark, table.path, order_by="price", order="zorder", options={"write-buffer-size": "64 kb"})
    assert (ordered.groups, ordered.rows, ordered.files_after) == (3, 57, 3)
    assert sorted(ids(table)) == [i for i in range(60) if i not in (1, 7, 11)]
    frame = spark.read.format("paimon_pyds").option("filter", "color = 'red'").load(table.path)
    assert frame.count() == table.count("color = 'red'") > 0


@pytest.mark.slow
def test_what_a_worker_says_of_damage_arrives_and_nothing_is_left(spark: Any, tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, partition_by=["day"])
    damaged = sorted(Path(table.path).rglob("day=0/*/*.parquet"))[0]
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    there = data_files(table)
    with pytest.raises(CorruptFileError):
        compact(spark, table.path)
    assert data_files(table) == there
    assert latest(table).id == 5


RANGES = {"target-file-size": "4 kb", "source.split.target-size": "6 kb", "source.split.open-file-cost": "1 b"}


@pytest.mark.slow
@pytest.mark.parametrize("order", sampled(["order", "zorder", "hilbert"], 1))
def test_a_large_partition_is_sorted_by_ranges(spark: Any, tmp_path: Path, order: str) -> None:
    """The files of one range after another have no value in common, and no row is lost or doubled."""
    tracked = {"row-tracking.enabled": "true"} if order == "zorder" else {}
    table = pp.Table.create(tmp_path / "t", SCHEMA, options=VECTORS | RANGES | tracked)
    for number in range(4):
        table.append(rows(number * 500, 500))
    table.delete("id IN (7, 700, 1999)")
    columns = [*SCHEMA.names, *(["_ROW_ID", "_SEQUENCE_NUMBER"] if tracked else [])]
    before = table.scan(columns=columns).to_arrow().sort_by("id")
    by = ["price", "id"] if order == "order" else ["id", "price"]
    summary = compact(spark, table.path, order_by=by, order=order)
    assert (summary.groups, summary.rows, summary.rows_dropped) == (1, 1997, 3)
    assert table.scan(columns=columns).to_arrow().sort_by("id").equals(before)
    is_exact(table)
    parts = [pq.read_table(file.path, columns=by).to_pylist() for file in table.scan().plan().files]
    assert len(parts) > 4
    ends = sorted((min(keys), max(keys)) for keys in ([tuple(row[c] for c in by) for row in part] for part in parts))
    if order == "order":
        assert all(low[1] < high[0] for low, high in itertools.pairwise(ends))
        entries = sorted((e["min_sequence_number"], e["max_sequence_number"]) for e in live(table).to_pylist())
        assert [first for first, _ in entries] == [0, *(last + 1 for _, last in entries[:-1])]
    else:
        assert max(c.average_depth for c in table.index.layout(by).columns) < len(parts) * 0.7


@pytest.mark.slow
def test_a_damaged_file_of_a_large_partition_is_named_and_nothing_is_left(spark: Any, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, options=RANGES)
    for number in range(4):
        table.append(rows(number * 500, 500))
    damaged = sorted(Path(table.path).rglob("*.parquet"))[1]
    data = damaged.read_bytes()
    damaged.write_bytes(data[:200] + bytes(200) + data[400:])
    there = data_files(table)
    with pytest.raises(CorruptFileError):
        compact(spark, table.path, order_by="price")
    assert (data_files(table), latest(table).id) == (there, 4)


@pytest.mark.slow
@pytest.mark.parametrize("key", [(), ("id", "day")], ids=["append", "key"])
def test_buckets_are_rescaled_by_the_workers(spark: Any, tmp_path: Path, key: tuple[str, ...]) -> None:
    options = {"bucket": "2", "bucket-key": "id"}
    table = pp.Table.create(tmp_path / "t", SCHEMA, primary_key=key, partition_by=["day"], options=options)
    given = rows(0, 30)
    given = given.set_column(3, SCHEMA.field("day"), given["day"].fill_null(2))
    if key:
        table.append(given.set_column(1, SCHEMA.field("color"), [["older"] * 30]))
    for start in (0, 10, 20):
        table.append(given.slice(start, 10))
    seen = Seen()
    summary = rescale(spark, table.path, 6, "day = 1", progress=seen)
    assert (summary.partitions, summary.rows) == (1, 12)
    assert seen.done("rewriting") in ((12, 24) if key else (12,))  # of a key, tasks count all versions
    assert latest(table).commit_kind is CommitKind.OVERWRITE
    assert {f.total_buckets for f in table.scan("day = 1").plan().files} == {6}
    assert {f.total_buckets for f in table.scan("day = 0").plan().files} == {2}
    assert sorted(ids(table)) == list(range(30))
    frame = spark.read.format("paimon_pyds").option("filter", "id = 11").load(table.path)
    assert [row.color for row in frame.collect()] == [given["color"][11].as_py()]
