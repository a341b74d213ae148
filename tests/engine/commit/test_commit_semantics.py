"""What each kind of commit does to the table's state."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.retry import Pauses
from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.errors import (
    CommitConflictError,
    CommitError,
    OptionError,
    SchemaError,
    TableNotFoundError,
    UnknownColumnError,
)
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from paimon_pyds.metadata.store import TableStore
from support.races import race

_SCHEMA = pa.schema([("p", pa.string()), ("q", pa.int32()), ("v", pa.int64())])


def _rows(*rows: tuple[object, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], schema=_SCHEMA)


def _content(table: pp.Table, **scan: object) -> list[tuple[object, ...]]:
    rows = table.scan(**scan).to_arrow().to_pylist()  # type: ignore[arg-type]
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p", "q"])


def test_append_then_overwrite_whole_table(table: pp.Table) -> None:
    first = table.append(_rows(("a", 1, 1), ("b", 2, 2)))
    second = table.overwrite(_rows(("c", 3, 3)))
    assert first is not None
    assert second is not None
    assert (first.id, first.commit_kind, first.commit_identifier) == (1, CommitKind.APPEND, BATCH_COMMIT_IDENTIFIER)
    assert (second.id, second.commit_kind) == (2, CommitKind.OVERWRITE)
    assert (second.total_record_count, second.delta_record_count) == (1, -1)
    assert _content(table) == [("c", 3, 3)]
    assert _content(table, snapshot=1) == [("a", 1, 1), ("b", 2, 2)]


def test_overwrite_of_named_partitions(table: pp.Table) -> None:
    table.append(_rows(("a", 1, 1), ("a", 2, 2), ("b", 1, 3), (None, 1, 4)))
    table.overwrite(_rows(("a", 7, 9)), partition={"p": "a"})
    assert _content(table) == sorted([("a", 7, 9), ("b", 1, 3), (None, 1, 4)], key=repr)
    table.overwrite(_rows(), partition={"p": None})
    assert _content(table) == [("a", 7, 9), ("b", 1, 3)]
    table.overwrite(_rows(("b", 1, 5)), partition={"p": "b", "q": "1"})
    assert _content(table) == [("a", 7, 9), ("b", 1, 5)]


def test_partitions_are_named_as_columns_are_anywhere(table: pp.Table) -> None:
    """Exactly, else ignoring case."""
    table.append(_rows(("a", 1, 1), ("b", 1, 3)))
    table.overwrite(_rows(("a", 7, 9)), partition={"P": "a"})
    assert _content(table) == [("a", 7, 9), ("b", 1, 3)]
    table.maintenance.drop_partitions({"P": "b", "Q": 1})
    assert _content(table) == [("a", 7, 9)]
    with pytest.raises(OptionError, match="'p' is named twice"):
        table.overwrite(_rows(), partition={"p": "a", "P": "a"})
    with pytest.raises(UnknownColumnError, match="1 is no partition column"):
        table.overwrite(_rows(), partition={1: "a"})
    assert _content(table) == [("a", 7, 9)]


def test_dynamic_overwrite_touches_only_partitions_of_the_data(table: pp.Table) -> None:
    table.append(_rows(("a", 1, 1), ("a", 2, 2), ("b", 1, 3)))
    table.overwrite(_rows(("a", 2, 20), ("c", 1, 30)), dynamic=True)
    assert _content(table) == [("a", 1, 1), ("a", 2, 20), ("b", 1, 3), ("c", 1, 30)]
    assert table.overwrite(_rows(), dynamic=True) is None
    assert len(table.snapshots.list()) == 2


def test_static_overwrite_by_nothing_empties_the_table(table: pp.Table) -> None:
    table.append(_rows(("a", 1, 1)))
    table.overwrite(_rows())
    assert _content(table) == []
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.total_record_count == 0


def test_rows_outside_of_the_overwritten_partition_are_refused_and_removed(table: pp.Table) -> None:
    table.append(_rows(("a", 1, 1)))
    before = sorted(Path(table.path).rglob("data-*"))
    with pytest.raises(SchemaError, match="outside"):
        table.overwrite(_rows(("b", 1, 1)), partition={"p": "a"})
    assert sorted(Path(table.path).rglob("data-*")) == before
    with pytest.raises(OptionError, match="no partition column"):
        table.overwrite(_rows(("b", 1, 1)), partition={"v": 1})
    assert _content(table) == [("a", 1, 1)]


def test_no_rows_make_no_snapshot(table: pp.Table) -> None:
    assert table.append(_rows()) is None
    assert table.snapshots.latest() is None


def test_manifests_are_merged(tmp_path: Path) -> None:
    options = {"manifest.merge-min-count": "3", "manifest.full-compaction-threshold-size": "1b"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    for i in range(12):
        table.append(_rows((f"p{i % 3}", i, i)))
        if i % 4 == 3:
            table.overwrite(_rows(("p0", -i, -i)), partition={"p": "p0"})
    store = table._store
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    base = store.read_manifest_list(snapshot.base_manifest_list)
    assert len(base) <= 4
    expected = [("p0", -11, -11)] + [(f"p{i % 3}", i, i) for i in range(12) if i % 3]
    assert _content(table) == sorted(expected, key=repr)
    for snapshot in table.snapshots.list():
        assert len(_content(table, snapshot=snapshot.id)) == snapshot.total_record_count


def test_large_manifests_are_not_written_again_by_each_commit(tmp_path: Path) -> None:
    """Their entries take less than was thought, so none has the target size."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options={"manifest.target-file-size": "20 kb"})
    row = encode_row(["a"], [from_arrow_schema(_SCHEMA)[0].type])
    none = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    file = DataFile(
        file_name="", file_size=1, row_count=1, min_key=EMPTY_ROW, max_key=EMPTY_ROW, key_stats=none, value_stats=none,
        min_sequence_number=0, max_sequence_number=0, schema_id=0, creation_time=0,
    )  # fmt: skip
    files = tuple(replace(file, file_name=f"data-{uuid.uuid4()}-0.parquet") for _ in range(3000))
    added = BucketFiles(row, 0, -1, f"{table.path}/p=a/bucket-0", files)
    commit(table._store, Changes([Increment(added=[added])]), TableOptions(table.options))
    for number in range(6):
        table.append(_rows(("b", number, number)))
    lists = [table._store.read_manifest_list(snapshot.base_manifest_list) for snapshot in table.snapshots.list()]
    large = [{m.file_name for m in one if m.num_added_files > 20} for one in lists]
    assert large[-1] == large[3], "they are as they were"
    assert sum(m.num_added_files for m in lists[-1]) == 3005
    sizes = [m.file_size for m in lists[-1] if m.num_added_files > 20]
    assert sum(sizes) > 20 << 10, "enough to be joined"
    assert sum(size > 12 << 10 for size in sizes) >= len(sizes) - 2, "but for the first and the last"


def test_a_lost_race_is_tried_again_on_top_of_the_winner(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    other = pp.Table.open(table.path)
    race(monkeypatch, lambda: other.append(_rows(("x", 1, 1))))
    landed = table.append(_rows(("y", 1, 2)))
    assert landed is not None
    assert landed.id == 2
    assert _content(table) == [("x", 1, 1), ("y", 1, 2)]
    lists = {p.name for p in Path(table.path, "manifest").glob("manifest-list-*")}
    named = {n for s in table.snapshots.list() for n in (s.base_manifest_list, s.delta_manifest_list)}
    assert lists == named


@pytest.mark.parametrize("snapshots", [0, 2])
@pytest.mark.parametrize("what", ["dropped", "made anew", "made anew, as many commits", "renamed"])
def test_a_table_that_is_gone_when_the_snapshot_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, snapshots: int
) -> None:
    """Its snapshot goes again, too: the next table of that path would have it."""
    catalog = pp.Catalog(tmp_path)
    table = catalog.create_table("t", _SCHEMA)
    create = TableStore.try_create_snapshot

    def append(table: pp.Table) -> None:
        for number in range(snapshots):
            table.append(_rows(("x", 1, number)))

    def late(self: TableStore, snapshot: Any) -> bool:
        monkeypatch.setattr(TableStore, "try_create_snapshot", create)
        if what == "renamed":
            catalog.rename_table("t", "u")
        else:
            catalog.drop_table("t")
        if what.startswith("made anew"):
            made = catalog.create_table("t", _SCHEMA)
            if what.endswith("commits"):
                append(made)
        return create(self, snapshot)

    append(table)
    monkeypatch.setattr(TableStore, "try_create_snapshot", late)
    with pytest.raises((TableNotFoundError, CommitConflictError)):
        table.append(_rows(("y", 1, 2)))
    again = catalog.table("t") if what.startswith("made anew") else catalog.create_table("t", _SCHEMA)
    kept = snapshots if what.endswith("commits") else 0
    assert len(_content(again)) == kept
    append(again)
    assert len(_content(again)) == kept + snapshots


def test_endless_races_end_in_one_clear_error(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableStore, "try_create_snapshot", lambda self, snapshot: False)
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    with pytest.raises(CommitError, match="other commits were faster"):
        table.append(_rows(("y", 1, 2)))
    assert not list(Path(table.path).rglob("data-*"))
    assert not list(Path(table.path, "manifest").glob("*"))


def test_bucketed_appends_continue_sequence_numbers_and_guard_the_bucket_count(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"bucket": "2", "bucket-key": "v"})
    table.append(_rows(*[("a", 1, i) for i in range(10)]))
    table.append(_rows(*[("a", 1, i) for i in range(10)]))
    rows = [e for m in _entries(table) for e in m.to_pylist()]
    by_bucket: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        by_bucket.setdefault(row["bucket"], []).append((row["min_sequence_number"], row["max_sequence_number"]))
        assert row["total_buckets"] == 2
    for ranges in by_bucket.values():
        ranges.sort()
        assert ranges[0][0] == 0
        assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(ranges))
    table.alter({"bucket": "3"})
    table.append(_rows(("a", 1, 1)))
    assert {row["total_buckets"] for m in _entries(table) for row in m.to_pylist()} == {2}
    table.overwrite(_rows(("a", 1, 1)))
    assert _content(table) == [("a", 1, 1)]


def _entries(table: pp.Table) -> list[pa.RecordBatch]:
    store, snapshot = table._store, table.snapshots.latest()
    assert snapshot is not None
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return [store.read_manifest(m.file_name) for name in lists for m in store.read_manifest_list(name)]
