"""Members of metadata that this version does not know: no operation loses them, or a file that they name."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.effort import sampled
from support.maintenance import rows_of
from support.maintenance_world import KINDS, STEPS, World
from support.newer_writer import found, json_files, plant, watched
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.list_(pa.int64()))]
)


def _planted(path: Path) -> set[str]:
    planted = plant(path)
    METADATA_CACHE.clear()  # files never change, but here
    return planted


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_members_go_with_their_records(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    world = World(tmp_path / "t", kind, rng)
    for step in ("append", "append", "delete", "append", "analyze", "tag", "branch", "branch append", "consumer"):
        world.step(step)
    steps = [step for step in dict.fromkeys(STEPS) if step != "purge"]
    rng.shuffle(steps)
    states = {name: rows_of(world.table, snapshot=name) for name in world.numbers_of("main")}
    planted = _planted(tmp_path / "t")
    check = watched(tmp_path / "t", planted)
    check()
    assert {name: rows_of(world.table, snapshot=name) for name in states} == states
    for step in ("append", "orphans", *steps, "expire", "orphans"):
        if step == "orphans":
            time.sleep(0.002)  # a file of this very millisecond counts as new
            gone = world.table.maintenance.remove_orphan_files("0 s", dry_run=False).files["path"].to_pylist()
            assert all("/planted-" in path for path in gone)  # their records are gone, too
        else:
            world.step(step)
        check()


def _table(path: Path, key: list[str] | None = None, **options: str) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, primary_key=key, partition_by=["p"], options=options)
    for number in range(6):
        table.append(_rows(number, number + 10))
    return table


def _rows(*keys: int) -> pa.Table:
    return pa.table({"p": [k % 2 for k in keys], "k": list(keys), "v": [[k] for k in keys]}, _SCHEMA)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (None, {"deletion-vectors.enabled": "true"}),
        (None, {"row-tracking.enabled": "true"}),
        (["p", "k"], {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}),
    ],
)
def test_every_other_operation(tmp_path: Path, key: list[str] | None, options: dict[str, str]) -> None:
    table = _table(tmp_path / "t", key, **options)
    if key is None:
        table.delete("k = 2")
    table.tags.create("x")
    table.branches.create("b", "x")
    rows = rows_of(table)
    planted = _planted(tmp_path / "t")
    check = watched(tmp_path / "t", planted)
    assert rows_of(table) == rows
    assert not table.maintenance.verify(deep=True).findings
    for operation in (
        lambda: table.update({"v": "NULL"}, "k = 3"),
        lambda: table.merge(_rows(4, 90), on=["p", "k"], when_matched="update", when_not_matched="insert"),
        lambda: table.alter(set_options={"file-index.bitmap.columns": "k"}),
        lambda: table.index.build() if key is None else None,
        lambda: table.alter(add_columns={"w": "INT"}, rename_columns={"v": "vs"}),
        lambda: table.tags.rename("x", "y"),
        lambda: table.tags.create("z", 2, retain="1 d"),
        lambda: table.snapshots.rollback("z"),
        lambda: table.maintenance.repair(),
        lambda: table.maintenance.drop_partitions([{"p": 1}]),
        lambda: table.branches.fast_forward("b"),
    ):
        operation()
        check()
    table.maintenance.clone(tmp_path / "copy")
    having, lacking, _ = found(tmp_path / "copy")
    assert having
    assert not planted & lacking
    for path in json_files(tmp_path / "copy"):
        value = json.loads(path.read_text())
        assert value["newMember"]
        for field in value.get("fields", ()):
            assert field["name"] == "w" or field["newMember"]
            assert field["name"] not in ("v", "vs") or field["type"]["newMember"] == "of a type"


def test_vectors_that_stay_keep_their_members(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"deletion-vectors.enabled": "true"})
    table.delete("k IN (1, 3)")
    vectors = {of for of in _planted(tmp_path / "t") if of.startswith("vector of")}
    table.delete("k = 11")  # in the file of 1: that of 3 goes to another index file as it is
    table.snapshots.expire(retain_max=1)
    assert len(vectors) == 2
    assert len(vectors & found(tmp_path / "t")[0]) == 1


def test_snapshots_that_follow_have_members_of_their_own(tmp_path: Path) -> None:
    """A member may be about one snapshot only, as uuid is; Java Paimon hands none down either."""
    table = _table(tmp_path / "t")
    _planted(tmp_path / "t")
    for path in json_files(tmp_path / "t"):
        if path.name.startswith("snapshot-"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "uuid": "u", "writerVersion": "w"}))
    table.append(_rows(50))
    snapshot = json.loads((tmp_path / "t/snapshot/snapshot-7").read_text())
    assert not {"newMember", "uuid", "writerVersion"} & snapshot.keys()


def test_files_go_that_only_members_of_expired_records_named(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    _planted(tmp_path / "t")
    table.append(_rows(50))
    table.compact(full=True)
    table.maintenance.compact_manifests()
    table.snapshots.expire(retain_max=1)
    time.sleep(0.002)  # a file of this very millisecond counts as new
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    _, _, files = found(tmp_path / "t")
    assert files == {path.name for path in (tmp_path / "t").rglob("planted-*")}


@requires_java_oracle
@pytest.mark.java
def test_java_reads_what_is_written_with_unknown_members(oracle: Oracle, tmp_path: Path) -> None:
    table = _table(tmp_path / "db.db" / "t", **{"deletion-vectors.enabled": "true"})
    table.delete("k = 1")
    _planted(tmp_path / "db.db" / "t")
    table.delete("k IN (1, 2)")
    table.maintenance.compact_manifests()
    table.append(_rows(50))
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", [{"p": 1, "k": 60, "v": [1]}])
        again = batch.read(tmp_path, "db.t")
    assert read.lines
    assert len(again.lines) == len(read.lines) + 1
