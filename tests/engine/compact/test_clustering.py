"""Clustering columns of tables: what a compaction sorts by them, and which files incremental clustering takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.write.clustering import ClusteredBucketWriter
from paimon_pyds.errors import OptionError, PaimonError, SchemaError, UnsupportedError
from support.compaction import SCHEMA, VECTORS, data_files, deleted, ids, latest, live, make, rows

INCREMENTAL = {
    "clustering.incremental": "true",
    "clustering.columns": "price",
    "num-sorted-run.compaction-trigger": "3",
}


def _prices(table: pp.Table) -> list[float]:
    found: list[float] = table.scan(columns=["price"]).to_arrow()["price"].to_pylist()
    return found


def _levels(table: pp.Table) -> list[int]:
    return sorted(int(level) for level in live(table)["level"].to_pylist())


@pytest.mark.parametrize("spilling", [False, True])
def test_writers_order_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spilling: bool) -> None:
    spilled = []
    spill = ClusteredBucketWriter.spill
    monkeypatch.setattr(ClusteredBucketWriter, "spill", lambda writer: spilled.append(writer) or spill(writer))
    if spilling:
        monkeypatch.setattr("paimon_pyds.engine.write.writer.OPEN_BYTES", 20_000)
    options = {"clustering.columns": "price", "write-buffer-size": "64 kb", "target-file-row-num": "700"}
    table = pp.Table.create(tmp_path / "t", SCHEMA, options=options, partition_by=["day"])
    table.append(b for number in range(20) for b in rows(number * 200, 200).to_batches(max_chunksize=50))
    for day in (0, 1):
        found = table.scan(f"day = {day}").to_arrow()["price"].to_pylist()
        assert len(found) == 1600
        assert found == sorted(found)
    assert max(c.max_depth for c in table.index.layout("price", where="day = 1").columns) <= 2
    assert sorted(ids(table)) == list(range(4000))
    assert bool(spilled) is spilling


def test_writers_put_rows_on_a_curve(tmp_path: Path) -> None:
    """Of all their rows, though these come in the order of one of the columns."""
    many = {"target-file-row-num": "1000", "clustering.columns": "id,price"}
    files = [make(tmp_path / n, 0, many | more) for n, more in (("z", {}), ("h", {"clustering.strategy": "hilbert"}))]
    for table in files:
        table.append(rows(0, 16_000))
        assert max(c.average_depth for c in table.index.layout("id,price").columns) < 9
        assert sorted(ids(table)) == list(range(16_000))


def test_incremental_clustering_leaves_writes_alone_unless_asked(tmp_path: Path) -> None:
    for asked in (False, True):
        options = INCREMENTAL | {"clustering.incremental.optimize-write": str(asked).lower()}
        table = make(tmp_path / str(asked), 1, options)
        assert (_prices(table) == sorted(_prices(table))) is asked
        assert _levels(table) == [0]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 1, {"clustering.columns": "price"})
    there = data_files(table)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(10, 500).to_batches()
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        table.append(broken())
    assert data_files(table) == there


def test_files_that_are_rewritten_are_sorted_by_the_clustering_columns(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, {"clustering.columns": "price"})
    assert table.compact(dry_run=True).files_before == 6
    table.compact()
    assert _prices(table) == sorted(_prices(table))
    assert table.compact().snapshot_id is None  # what is there stays
    table.append(rows(60))
    assert table.compact().snapshot_id is None
    table.compact(order_by="id")
    assert ids(table) == list(range(70))


@pytest.mark.parametrize(
    ("columns", "strategy", "order"),
    [
        ({"clustering.columns": "price"}, {"clustering.strategy": "auto"}, "order"),
        ({"clustering.columns": "price,id"}, {}, "zorder"),
        ({"clustering.columns": "price, id"}, {"clustering.strategy": "hilbert"}, "hilbert"),
        ({"sink.clustering.by-columns": "price,id"}, {"sink.clustering.strategy": "hilbert"}, "hilbert"),
        ({"clustering.columns": "day,id"}, {}, "zorder"),
    ],
)
def test_the_strategy_is_that_of_an_order_named_in_the_call(
    tmp_path: Path, columns: dict[str, str], strategy: dict[str, str], order: str
) -> None:
    found = []
    by = "".join(columns.values()).replace("day,", "")
    for name, options, call in (
        ("clustered", columns | strategy, {}),
        ("ordered", {}, {"order_by": by, "order": order}),
    ):
        table = make(tmp_path / name, 3, options, partition_by=["day"])
        table.compact(full=True, **call)
        found.append(table.scan("day = 1").to_arrow()["id"].to_pylist())
    assert found[0] == found[1]


def test_ordered_buckets_keep_their_order(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 3, {"clustering.columns": "price", "bucket": "1", "bucket-key": "id"})
    table.compact(full=True)
    assert ids(table) == list(range(30))


@pytest.mark.parametrize("buckets", [{}, {"bucket": "1", "bucket-key": "id", "bucket-append-ordered": "false"}])
def test_incremental_clustering_takes_runs_by_number_and_size(tmp_path: Path, buckets: dict[str, str]) -> None:
    table = make(tmp_path / "t", 2, INCREMENTAL | buckets)
    assert table.compact().snapshot_id is None  # two runs: the trigger is three
    table.append(rows(20))
    assert table.compact().files_before == 3
    assert (_levels(table), _prices(table)) == ([3], sorted(_prices(table)))
    assert table.compact().snapshot_id is None
    assert table.compact(full=True).snapshot_id is None
    table.append(rows(30, 4000))
    before = latest(table).id
    table.compact(full=True)
    assert (latest(table).id, _levels(table), _prices(table)) == (before + 1, [3], sorted(_prices(table)))
    for number in range(3):
        table.append(rows(4030 + number, 1))
    table.compact()
    assert _levels(table) == [2, 3]  # the large run stays as it is
    assert sorted(ids(table)) == list(range(4033))


def test_other_columns_cluster_anew_only_when_all_is_asked_for(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 3, INCREMENTAL)
    table.compact()
    table.alter(set_options={"clustering.columns": "id"})
    assert table.compact().snapshot_id is None
    table.compact(full=True)
    assert (_levels(table), ids(table)) == ([3], list(range(30)))
    assert table.compact(full=True).snapshot_id is None


def test_a_full_clustering_drops_deleted_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 3, INCREMENTAL | VECTORS)
    table.compact()
    table.delete("id IN (3, 4)")
    assert table.compact().snapshot_id is None
    assert table.compact(full=True).rows_dropped == 2
    assert (deleted(table), _levels(table), sorted(ids(table))) == (0, [3], [i for i in range(30) if i not in (3, 4)])


def test_a_local_sort_sorts_small_tasks_each_for_itself(tmp_path: Path) -> None:
    options = {"clustering.incremental.mode": "local-sort", "target-file-size": "3 kb"}
    table = make(tmp_path / "t", 8, INCREMENTAL | options)
    summary = table.compact(full=True)
    assert summary.groups > 1
    assert set(_levels(table)) == {3}
    assert sorted(ids(table)) == list(range(80))
    runs = sum(b < a for a, b in itertools.pairwise(_prices(table))) + 1
    assert runs == summary.groups
    assert table.compact(full=True).snapshot_id is None


def test_idle_partitions_are_clustered_fully_beside_those_of_a_call(tmp_path: Path) -> None:
    options = {"clustering.history-partition.idle-to-full-sort": "1 ms", "clustering.history-partition.limit": "1"}
    table = make(tmp_path / "t", 2, INCREMENTAL | options, partition_by=["day"])

    def clustered() -> set[bytes]:
        return {r["partition"] for r in live(table).to_pylist() if r["level"]}

    assert table.compact().snapshot_id is None  # all partitions are of the call
    for expected in (1, 2, 2):
        table.compact("day = 1")
        assert len(clustered()) == expected
    assert sorted(ids(table)) == list(range(20))
    table.append(rows(20, 10))
    table.compact("day = 1", options={"clustering.history-partition.idle-to-full-sort": "1 d"})
    assert len(clustered()) == 3  # the third run of day 1


@pytest.mark.parametrize(
    ("options", "call", "error", "text"),
    [
        ({"clustering.columns": ""}, {}, OptionError, r"incremental=true needs clustering\.columns"),
        ({"clustering.columns": "tags"}, {}, OptionError, "'tags', a column of type ARRAY"),
        ({"clustering.strategy": "peano"}, {}, OptionError, "clustering.strategy can.t be .peano"),
        ({"sink.clustering.strategy": "peano"}, {}, OptionError, "clustering.strategy can.t be .peano"),
        ({}, {"order_by": "id"}, UnsupportedError, r"ordered by its clustering\.columns"),
        ({}, {"options": {"clustering.columns": "nothing"}}, SchemaError, "no column 'nothing'"),
        (
            {"bucket": "1", "bucket-key": "id", "clustering.incremental": "false"},
            {"options": {"clustering.incremental": "true"}},
            UnsupportedError,
            "without deletion vectors",
        ),
    ],
)
def test_what_can_not_be_clustered_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], call: dict[str, Any], error: type[PaimonError], text: str
) -> None:
    table = pp.Table.create(
        tmp_path / "t", SCHEMA.append(pa.field("tags", pa.list_(pa.int32()))), options=INCREMENTAL | options
    )
    with pytest.raises(error, match=text):
        table.compact(**call)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bucket": "2", "bucket-key": "id"}, "needs bucket-append-ordered=false"),
        (
            {"bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false", **VECTORS},
            "needs deletion-vectors.enabled=false",
        ),
        ({"row-tracking.enabled": "true", "data-evolution.enabled": "true"}, "exclude one another"),
    ],
)
def test_options_that_exclude_incremental_clustering_make_no_table(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        pp.Table.create(tmp_path / "t", SCHEMA, options=INCREMENTAL | options)
