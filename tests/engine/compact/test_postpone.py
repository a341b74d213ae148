"""Tables with bucket=-2: how many buckets partitions get, and how rows that wait for theirs come into them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.append import commit_messages
from paimon_pyds.engine.compact import postpone as module
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitConflictError, CommitError, OptionError, StorageError, UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from support.compaction import VECTORS, Meanwhile, data_files, latest, live
from support.executors import Pickling
from support.maintenance import is_exact
from support.progress import Seen

_SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64(), False), ("v", pa.string())])
_WAITING = {"postpone.batch-write-fixed-bucket": "false"}
_TEN_ROWS = {"postpone.target-row-num-per-bucket": "10"}


def _rows(first: int, count: int, value: str = "a", partitions: str = "xy") -> pa.Table:
    keys = range(first, first + count)
    names = [partitions[k % len(partitions)] for k in keys]
    return pa.table({"p": names, "k": list(keys), "v": [value] * count}, _SCHEMA)


def _make(path: Path, options: Mapping[str, str] | None = None) -> pp.Table:
    own = {"bucket": "-2", **(options or {})}
    return pp.Table.create(path / "t", _SCHEMA, partition_by=["p"], primary_key=["p", "k"], options=own)


def _totals(table: pp.Table) -> dict[str, int]:
    return {row["partition"][2:]: row["total_buckets"] for row in table.system.read("partitions").to_pylist()}


def _waiting(table: pp.Table) -> list[str]:
    return sorted(p.name for p in Path(table.path).rglob("bucket-postpone/*"))


def _values(table: pp.Table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        ({}, 1),
        (_TEN_ROWS, 8),
        ({"postpone.target-size-per-bucket": "200 b"}, 4),
        ({**_TEN_ROWS, "postpone.batch-write-fixed-bucket.max-parallelism": "3"}, 3),
        ({**_TEN_ROWS, "postpone.default-bucket-num": "5"}, 5),
    ],
)
def test_a_batch_says_how_many_buckets_new_partitions_get(
    tmp_path: Path, options: dict[str, str], buckets: int
) -> None:
    table = _make(tmp_path, options)
    table.append(_rows(0, 120))
    assert (_totals(table), table.count(), _waiting(table)) == ({"x": buckets, "y": buckets}, 120, [])
    assert latest(table).commit_kind is CommitKind.APPEND
    is_exact(table)
    table.append(_rows(60, 100, "b"))
    assert (_totals(table), table.count()) == ({"x": buckets, "y": buckets}, 160)
    assert _values(table) == {k: "a" if k < 60 else "b" for k in range(160)}
    assert len({file.bucket for file in table.scan("p = 'x' AND k = 44").plan().files}) == 1
    assert table.lookup(pa.table({"p": ["x", "y"], "k": [44, 101]}))["v"].to_pylist() == ["a", "b"]
    assert table.update({"v": "'u'"}, "k < 5").rows_updated == 5
    assert table.delete("k = 3").rows_deleted == 1
    source = pa.table({"p": ["x", "z"], "k": [4, 4], "v": ["m", "m"]}, _SCHEMA)
    merged = table.merge(source, ["p", "k"], when_matched="update", when_not_matched="insert")
    assert (merged.rows_updated, merged.rows_inserted, table.count("v = 'm'")) == (1, 1, 2)


def test_tasks_of_a_job_agree_on_the_number(tmp_path: Path) -> None:
    table = _make(tmp_path, _TEN_ROWS)
    messages = []
    for task in range(4):
        with TableWriter(write_context(table._store), task) as writer:
            writer.write(_rows(20 * task, 20))
            messages.append(writer.prepare_commit())
    assert len(_waiting(table)) == 8
    commit_messages(table._store, messages)
    assert (_totals(table), table.count(), _waiting(table)) == ({"x": 4, "y": 4}, 80, [])
    with pytest.raises(CommitConflictError, match="look whether the table has the rows"):
        commit_messages(table._store, messages)
    assert table.count() == 80
    is_exact(table)


def test_partitions_that_a_batch_outgrows_get_more_buckets(tmp_path: Path) -> None:
    table = _make(tmp_path, {**_TEN_ROWS, "postpone.batch-write-fixed-bucket.rescale-load-factor": "4"})
    table.append(_rows(0, 20))
    assert _totals(table) == {"x": 1, "y": 1}
    table.append(_rows(0, 80))
    assert _totals(table) == {"x": 1, "y": 1}
    table.append(_rows(0, 81))
    assert (_totals(table), table.count()) == ({"x": 8, "y": 1}, 81)
    assert latest(table).commit_kind is CommitKind.OVERWRITE


def test_rows_wait_until_they_are_compacted(tmp_path: Path) -> None:
    table = _make(tmp_path, {**_WAITING, **_TEN_ROWS})
    kinds = {"rowkind-column": "kind"}
    table.append(_rows(0, 100))
    table.append(_rows(50, 100, "b"))
    deletes = _rows(70, 10).append_column("kind", pa.array(["-D"] * 10))
    table.append(deletes, options=kinds)
    assert (table.count(), len(_waiting(table)), _totals(table)) == (0, 6, {})
    entries = live(table).to_pylist()
    assert {(e["bucket"], e["level"], e["min_sequence_number"], e["max_sequence_number"]) for e in entries} == {
        (-2, 0, -1, -1)
    }
    assert sum(e["delete_row_count"] for e in entries) == 10
    assert table.compact("p = 'x'", dry_run=True).files_before == 3
    seen = Seen()
    summary = table.compact("p = 'x'", executor=Pickling(), progress=seen)
    assert (summary.groups, summary.files_before, seen.done("rewriting", "files")) == (1, 3, 3)
    assert (_totals(table), len(_waiting(table))) == ({"x": 11}, 6)
    assert latest(table).commit_kind is CommitKind.COMPACT
    expected = {k: "a" if k < 50 else "b" for k in range(150) if not 70 <= k < 80}
    assert _values(table) == {k: v for k, v in expected.items() if k % 2 == 0}
    table.compact()
    assert (_values(table), table.compact().snapshot_id) == (expected, None)
    table.append(_rows(0, 10, "c"))
    assert _values(table) == expected
    table.compact()
    assert _values(table) == {k: "c" if k < 10 else v for k, v in expected.items()}
    assert _totals(table) == {"x": 11, "y": 11}


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, VECTORS, {"changelog-producer": "lookup"}])
def test_rows_can_be_seen_after_one_compaction(tmp_path: Path, options: dict[str, str]) -> None:
    table = _make(tmp_path, {**_WAITING, **options})
    for value in "ab":
        table.append(_rows(0, 20, value))
        table.compact()
        assert table.count() == 20
    assert set(_values(table).values()) == {"a" if "merge-engine" in options else "b"}
    if "changelog-producer" in options:
        assert [s.changelog_record_count for s in table.snapshots.list() if s.changelog_record_count] == [20, 40]
    alone = _make(tmp_path / "batch", options)
    alone.append(_rows(0, 20))
    assert alone.count() == 20


def test_the_input_is_the_changelog(tmp_path: Path) -> None:
    table = _make(tmp_path, {**_WAITING, "changelog-producer": "input"})
    table.append(_rows(0, 20))
    assert latest(table).changelog_record_count is None
    table.compact()
    assert latest(table).changelog_record_count == 20


def test_overwriting_takes_what_waits_too(tmp_path: Path) -> None:
    table = _make(tmp_path)
    table.append(_rows(0, 20), options=_WAITING)
    table.append(_rows(100, 20))
    table.overwrite(_rows(7, 1, "o", "x"), {"p": "x"})
    table.compact()
    assert (table.count("p = 'x'"), table.count("p = 'y'")) == (1, 20)


def test_rescaling_leaves_what_waits(tmp_path: Path) -> None:
    table = _make(tmp_path)
    table.append(_rows(0, 20))
    table.append(_rows(0, 20, "b"), options=_WAITING)
    with pytest.raises(OptionError, match="give bucket_num"):
        table.maintenance.rescale()
    assert table.maintenance.rescale(3).partitions == 2
    assert (set(_values(table).values()), table.options["bucket"]) == ({"a"}, "-2")
    table.compact()
    assert (set(_values(table).values()), _totals(table)) == ({"b"}, {"x": 3, "y": 3})


def test_others_may_write_while_rows_are_taken_in(tmp_path: Path) -> None:
    table = _make(tmp_path)
    table.append(_rows(0, 20))
    table.append(_rows(0, 20, "b"), options=_WAITING)
    table.compact(executor=Meanwhile(lambda: table.append(_rows(0, 10, "c"))))
    assert set(_values(table).values()) == {"b"}  # committed later, and so newer
    table.append(_rows(0, 20, "d"), options=_WAITING)
    summary = table.compact(executor=Meanwhile(lambda: table.compact()))
    assert (summary.files_before, set(_values(table).values())) == (0, {"d"})
    table.append(_rows(0, 4, "e", "z"), options=_WAITING)
    table.compact(executor=Meanwhile(lambda: table.append(_rows(50, 4, "f", "z"), options={**_TEN_ROWS, **_DEFAULT})))
    assert (_totals(table)["z"], table.count("p = 'z'")) == (3, 8)


_DEFAULT = {"postpone.default-bucket-num": "3"}


def test_who_wrote_for_another_number_is_told(tmp_path: Path) -> None:
    table = _make(tmp_path)
    with TableWriter(write_context(table._store, _DEFAULT)) as writer:
        writer.write(_rows(0, 20))
        message = writer.prepare_commit()
    table.append(_rows(0, 20))
    with pytest.raises(CommitConflictError, match="new bucket num 3, but the previous bucket num is 1"):
        commit_messages(table._store, [message])


def test_rows_that_come_in_during_an_update_are_no_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(tmp_path)
    table.append(_rows(0, 20))
    table.append(_rows(0, 20, "b"), options=_WAITING)
    summary = table.update({"v": "concat(v, '!')"}, "k < 10", executor=Meanwhile(lambda: table.compact()))
    assert summary.attempts == 2
    assert {v for k, v in _values(table).items() if k < 10} == {"b!"}


def test_a_failure_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(tmp_path)
    table.append(_rows(0, 20))
    there = data_files(table)

    def fails(task: object) -> object:
        raise StorageError("the disk is full")

    monkeypatch.setattr(module, "_write", fails)
    with pytest.raises(StorageError):
        table.append(_rows(0, 20, "b", "z"))
    assert data_files(table) == there
    table.append(_rows(0, 20, "b"), options=_WAITING)
    there = data_files(table)
    with pytest.raises(StorageError):
        table.compact()
    monkeypatch.undo()
    monkeypatch.setattr(TableStore, "try_create_snapshot", lambda self, snapshot: False)
    with pytest.raises(CommitError):
        table.compact(options={"commit.max-retries": "1"})
    assert (data_files(table), set(_values(table).values())) == (there, {"a"})
    monkeypatch.undo()
    table.compact()
    assert set(_values(table).values()) == {"b"}


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="1 or more"):
        _make(tmp_path / "a", {"postpone.target-row-num-per-bucket": "0"}).append(_rows(0, 2))
    table = _make(tmp_path / "b", {"merge-engine": "aggregation", "fields.v.aggregate-function": "min", **_WAITING})
    with pytest.raises(UnsupportedError):  # it would keep all compactions from taking rows in
        table.append(_rows(0, 1).append_column("kind", pa.array(["-D"])), options={"rowkind-column": "kind"})
