"""Branches, tags and parts of key tables, and gentle look-ups: Java and we read the same of what either has written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle
from support.values import in_order, lines

pytestmark = [requires_java_oracle, pytest.mark.java]

SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int32(), False), ("v", pa.int64())])
MODES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "sums": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row"},
}
modes = pytest.mark.parametrize("name", sampled(MODES, 1))


def _rows(keys: range, v: int, p: int = 0) -> pa.Table:
    return pa.table([[p] * len(keys), list(keys), [v] * len(keys)], schema=SCHEMA)


def _create(warehouse: Path, options: dict[str, str]) -> pp.Table:
    path = warehouse / "db.db" / "t"
    return pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "2", **options})


def _read_alike(oracle: Oracle, table: pp.Table, tag: str | None = None) -> list[str]:
    """The rows, which Java reads, too."""
    branch = table._store.branch
    with oracle.batch() as batch:
        read = batch.read(Path(table.path).parents[1], "db.t", tag=tag, branch=None if branch == "main" else branch)
    found = in_order(lines(table.scan(tag=tag).to_arrow()))
    assert found == in_order(read.lines)
    return found


@modes
def test_branches_are_tables_of_their_own(oracle: Oracle, tmp_path: Path, name: str) -> None:
    table = _create(tmp_path, MODES[name])
    table.append(_rows(range(20), 1))
    table.append(_rows(range(10), 2))
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "first")
        batch.branch(tmp_path, "db.t", "b", tag="first")
    branch = pp.Table.open(table.path, branch="b")
    before = _read_alike(oracle, table)
    assert _read_alike(oracle, branch) == before
    branch.append(_rows(range(5, 15), 3))
    branch.append(_rows(range(15, 30), 4, p=1))
    if name in ("deduplicate", "vectors"):
        branch.update({"v": "v + 100"}, "k = 7")
        branch.delete("k = 8")
    branch.alter({"num-sorted-run.compaction-trigger": "2"})
    branch.append(_rows(range(100, 105), 5))
    with oracle.batch() as batch:
        batch.write(tmp_path, "db.t$branch_b", _rows(range(3, 6), 6))
        batch.add("compact", tmp_path, "db.t$branch_b")
    _read_alike(oracle, branch)
    assert _read_alike(oracle, table) == before
    branch.append(_rows(range(8, 9), 7))
    table.append(_rows(range(40, 45), 8))
    branch.compact(full=True)
    assert _read_alike(oracle, branch) != _read_alike(oracle, table)


@modes
def test_partitions_are_compacted_by_themselves(oracle: Oracle, tmp_path: Path, name: str) -> None:
    table = _create(tmp_path, {**MODES[name], "write-only": "true"})
    for number in range(4):
        for p in (0, 1):
            table.append(_rows(range(number, 20), number, p))
            if number == 1:
                table.compact("p = 1")
        table.compact("p = 0", full=number == 2)
        _read_alike(oracle, table)
    table.compact("p = 1", full=True)
    before = _read_alike(oracle, table)
    with oracle.batch() as batch:
        batch.add("compact", tmp_path, "db.t", "--option", "write-only=false")
    assert _read_alike(oracle, table) == before


@modes
def test_tags_keep_what_compactions_replace(oracle: Oracle, tmp_path: Path, name: str) -> None:
    table = _create(tmp_path, MODES[name])
    table.append(_rows(range(20), 1))
    table.append(_rows(range(10, 30), 2))
    if name in ("deduplicate", "vectors"):
        table.delete("k = 3")
    before = _read_alike(oracle, table)
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "x")
    for number in range(4):
        table.append(_rows(range(number, 20), 3))
        table.compact(full=number == 2)
    with oracle.batch() as batch:
        batch.expire(tmp_path, "db.t", 1)
    assert _read_alike(oracle, table, tag="x") == before
    _read_alike(oracle, table)
    table.append(_rows(range(5), 9))
    table.compact(full=True)
    assert _read_alike(oracle, table, tag="x") == before
    _read_alike(oracle, table)


@modes
def test_gentle_look_ups_leave_rows_to_the_next_compaction(oracle: Oracle, tmp_path: Path, name: str) -> None:
    table = _create(tmp_path, {**MODES[name], "lookup-compact": "gentle", "lookup-compact.max-interval": "3"})
    for number in range(6):
        rows = _rows(range(number, 20), number)
        if number % 2:
            with oracle.batch() as batch:
                batch.write(tmp_path, "db.t", rows)
        else:
            table.append(rows)
        _read_alike(oracle, table)
    table.compact()
    _read_alike(oracle, table)
    table.compact(full=True)
    assert len(_read_alike(oracle, table)) == 20
