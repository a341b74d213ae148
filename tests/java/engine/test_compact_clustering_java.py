"""Incremental clustering in turn with Java Paimon: both pick the same files, and go on from one another's levels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import paimon_pyds as pp
from support.compaction import live, make, rows
from support.oracle import Oracle
from support.values import lines

_CLUSTERED = {
    "clustering.incremental": "true",
    "clustering.columns": "price,id",
    "num-sorted-run.compaction-trigger": "3",
}

pytestmark = [pytest.mark.java, pytest.mark.slow]


def _java(oracle: Oracle, *arguments: str) -> list[tuple[int, list[str]]]:
    """What Java picks: output level and files, a pair for each partition."""
    return sorted(
        (int(level), names.split(","))
        for level, names in (line.split() for line in oracle.program("ClusterOracle", *arguments))
    )


def _picked(table: pp.Table, before: Sequence[dict[str, object]]) -> list[tuple[int, list[str]]]:
    """What a compaction here took, in the same form."""
    after = {row["file_name"]: row for row in live(table).to_pylist()}
    there = {row["file_name"] for row in before}
    gone: dict[bytes, list[str]] = {}
    for row in before:
        if row["file_name"] not in after:
            gone.setdefault(row["partition"], []).append(row["file_name"])
    levels = {row["partition"]: row["level"] for name, row in after.items() if name not in there}
    return sorted((levels[partition], sorted(names)) for partition, names in gone.items())


def test_both_pick_the_same_and_go_on_from_one_another(oracle: Oracle, tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    table = make(warehouse / "db.db" / "t", 2, _CLUSTERED, partition_by=["day"])
    count = 20
    for turn in range(4):
        for _ in range(2):
            table.append(rows(count, 7 + 3 * turn))
            count += 7 + 3 * turn
        how = "full" if turn == 3 else "minor"
        before = live(table).to_pylist()
        java = _java(oracle, "run" if turn % 2 else "pick", how, table.path)
        if turn % 2 == 0:
            table.compact(full=how == "full")
        assert _picked(table, before) == java, turn
        assert java or turn == 0
        assert sorted(r["id"] for r in table.scan().to_arrow().to_pylist()) == list(range(count))
    assert {r["level"] for r in live(table).to_pylist()} == {3}
    with oracle.batch() as batch:
        read = batch.read(warehouse, "db.t")
    assert read.lines == lines(table.scan().to_arrow())


def test_buckets_go_on_from_one_another(oracle: Oracle, tmp_path: Path) -> None:
    """Java clusters buckets as it writes to them, and when it is told to."""
    buckets = {"bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false"}
    table = make(tmp_path / "w" / "db.db" / "t", 3, _CLUSTERED | buckets)
    table.compact()
    ours = {row["file_name"] for row in live(table).to_pylist() if row["level"]}
    assert ours
    with oracle.batch() as batch:
        batch.write(tmp_path / "w", "db.t", rows(30))
        batch.compact(tmp_path / "w", "db.t")
    after = live(table).to_pylist()
    assert {row["level"] for row in after} == {3}
    assert ours.isdisjoint(row["file_name"] for row in after)
    for number in range(3):
        table.append(rows(40 + number, 1))
    table.compact(full=True)
    assert {row["level"] for row in live(table).to_pylist()} == {3}
    with oracle.batch() as batch:
        read = batch.read(tmp_path / "w", "db.t")
    assert read.lines == lines(table.scan().to_arrow())
    assert sorted(r["id"] for r in table.scan().to_arrow().to_pylist()) == list(range(43))
