"""What follows commits by itself, and partitions that expire."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.append import OverwriteMode, append, overwrite
from paimon_pyds.engine.rowlevel.clauses import MergeOptions
from paimon_pyds.engine.rowlevel.delete import delete
from paimon_pyds.engine.rowlevel.merge_into import merge_into
from paimon_pyds.engine.rowlevel.update import update
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind, snapshot_to_json
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.after_commit import after_commit
from paimon_pyds.ops.maintenance.tag_creation import create_due_tags
from support.effort import sampled
from support.maintenance import is_exact, rows_of
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("p", pa.string()), ("id", pa.int64())])
_SOON = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "2"}


def _append(table: pp.Table, id_: int, partition: str = "a", options: dict[str, str] | None = None) -> None:
    table.append(pa.table({"p": [partition], "id": [id_]}, _SCHEMA), options=options)


def _made_at(table: pp.Table, id_: int, moment: datetime) -> None:
    """Give a snapshot another time."""
    snapshot = table._store.snapshot(id_)
    object.__setattr__(snapshot, "time_millis", int(moment.timestamp() * 1000))
    Path(table._store.paths.snapshot(id_)).write_text(snapshot_to_json(snapshot))


def test_commits_expire_snapshots(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_SOON)
    for number in range(4):
        time.sleep(0.002)  # a snapshot is older than now
        _append(table, number)
        assert len(table._store.snapshot_ids()) == min(number + 1, 2)
    _append(table, 5, options={"write-only": "true"})
    assert len(table._store.snapshot_ids()) == 3
    table.delete("id = 2")
    table.compact(full=True)
    assert len(table._store.snapshot_ids()) == 2
    assert len(rows_of(table)) == 4
    is_exact(table)


def test_no_more_than_may_go_at_once(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"snapshot.expire.limit": "3"})
    for number in range(8):
        _append(table, number, options={"write-only": "true"})
    time.sleep(0.002)
    _append(table, 9, options=_SOON)
    assert table._store.snapshot_ids() == list(range(4, 10))


def test_what_fails_after_a_commit_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"tag.automatic-creation": "process-time"})
    _append(table, 1, options={"tag.creation-delay": "1 d"})
    assert re.search(r"is committed.*tag\.creation-delay", caplog.text)
    assert len(rows_of(table)) == 1


_TAGS: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["2026-01-04", "2026-01-05"]),
    ({"tag.period-formatter": "without_dashes", "tag.num-retained-max": "1"}, ["20260105"]),
    ({"tag.creation-delay": "7 h"}, ["2026-01-04", "2026-01-05"]),
    ({"tag.creation-period": "hourly"}, ["2026-01-05 22", "2026-01-06 05", "2026-01-06 06"]),
    ({"tag.creation-period": "two-hours"}, ["2026-01-05 20", "2026-01-06 04"]),
    ({"tag.creation-period-duration": "30 min"}, ["202601052230", "202601052300", "202601060530", "202601060630"]),
    ({"tag.creation-period": "hourly", "tag.automatic-completion": "true"},
     ["2026-01-05 22", "2026-01-05 23", "2026-01-06 00", "2026-01-06 01"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "names"), _TAGS)
def test_automatic_tags(tmp_path: Path, options: dict[str, str], names: list[str]) -> None:
    table = _due_for_tags(tmp_path / "t", options)
    planned = table.tags.create_due(dry_run=True)
    assert table.tags.list() == {}
    assert table.tags.create_due() == planned
    assert sorted(table.tags.list()) == names
    assert table.tags.create_due() == ()
    assert table.tags.create_due(options={"tag.automatic-creation": "none"}) == ()


def test_a_dry_run_names_a_tag_once(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    for number in range(3):
        _append(table, number)
        _made_at(table, number + 1, datetime.fromisoformat(f"2026-01-05 23:10:{10 * number:02}"))
    options = {"tag.automatic-creation": "process-time", "tag.creation-period-duration": "1 s"}
    assert table.tags.create_due(options=options, dry_run=True) == table.tags.create_due(options=options)
    assert list(table.tags.list()) == ["202601052309", "202601052310"]


def _due_for_tags(path: Path, options: dict[str, str]) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA)
    for number, moment in enumerate(["2026-01-05 23:10", "2026-01-05 23:50", "2026-01-06 06:20", "2026-01-06 07:10"]):
        _append(table, number)
        _made_at(table, number + 1, datetime.fromisoformat(moment))
    table.alter({"tag.automatic-creation": "process-time", **options})
    _append(table, 10, options={"write-only": "true"})
    _made_at(table, 5, datetime.fromisoformat("2026-01-06 07:10"))
    return table


def test_commits_make_and_delete_tags(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=options)
    _append(table, 1)
    (name,) = table.tags.list()
    assert abs(datetime.strptime(name, "%Y-%m-%d %H") - datetime.now()) < timedelta(hours=3)
    table.tags.create("mine", retain="1 ms")
    time.sleep(0.01)
    _append(table, 2)
    assert name in table.tags.list() and "mine" not in table.tags.list()  # an hour may have ended


@pytest.mark.parametrize("write_only", ["false", "true"])
def test_a_tag_of_each_batch_write(tmp_path: Path, write_only: str) -> None:
    options = {"tag.automatic-creation": "batch", "sink.process-time-zone": "UTC", "tag.num-retained-max": "2"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={**options, "write-only": write_only})
    assert table.tags.create_due() == ()
    for day in range(1, 5):
        _append(table, day)
        today = datetime.now(UTC).strftime("batch-write-%Y-%m-%d")
        (name,) = set(table.tags.list()) & {today}
        assert rows_of(table, tag=name) == rows_of(table)
        assert table.tags.create_due() == ()
        table.tags.rename(name, f"batch-write-2026-01-0{day}")
        if day == 1:
            table.tags.create("mine")
    assert sorted(table.tags.list()) == ["batch-write-2026-01-03", "batch-write-2026-01-04", "mine"]
    table.delete("id = 1", options={"tag.batch.customized-name": "last"})
    table.delete("id = 2", options={"tag.batch.customized-name": "last"})
    assert rows_of(table, tag="last") == rows_of(table)
    assert len(rows_of(table)) == 2


@pytest.mark.java
@requires_java_oracle
def test_java_makes_the_same_tag_of_a_batch_write(oracle: Oracle, tmp_path: Path) -> None:
    for name in ("batch-write-2026-01-06", "mine"):
        table = pp.Table.create(tmp_path / name, _SCHEMA)
        _append(table, 1)
        _made_at(table, 1, datetime(2026, 1, 6, 23, 30, tzinfo=UTC))
        options = {"tag.automatic-creation": "batch", "sink.process-time-zone": "UTC", "write-only": "true"}
        table.alter(options | ({"tag.batch.customized-name": name} if name == "mine" else {}))
        oracle.program("MaintenanceOracle", "batch-tag", table.path)
        assert list(table.tags.list()) == [name]
        table.tags.delete(name)
        assert table.tags.create_due() == (name,)


def test_forgotten_consumers(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options={"consumer.expiration-time": "1 h", **_SOON})
    consumer = tmp_path / "t/consumer/consumer-c"
    consumer.parent.mkdir()
    consumer.write_text('{"nextSnapshot": 1}')
    for number in range(4):
        time.sleep(0.002)
        _append(table, number)
    assert table._store.snapshot_ids()[0] == 1
    os.utime(consumer, (0, time.time() - 4000))
    _append(table, 9)
    assert not consumer.exists()
    assert table._store.snapshot_ids()[0] > 1


_BY_CHANGE = {"partition.expiration-strategy": "update-time"}
_OLD = {"partition.expiration-time": "10 d"}


def _partitions(table: pp.Table) -> list[str | None]:
    return sorted({row["p"] for row in table.scan().to_arrow().to_pylist()}, key=str)


_EXPIRED: list[tuple[list[str | None], dict[str, str], list[str | None]]] = [
    (["2020-01-01", "2020-1-2", "2999-01-01", "none", None], {}, ["2999-01-01", None, "none"]),
    (["20200101", "29990101", "2020-01-01"], {"partition.timestamp-formatter": "yyyyMMdd"},
     ["2020-01-01", "29990101"]),
    (["2020", "2999"], {"partition.timestamp-pattern": "$p-06-01 12:00:00"}, ["2999"]),
    (["2020-01-01T05", "2020-13-01T05"], {"partition.timestamp-formatter": "yyyy-MM-dd'T'HH"}, ["2020-13-01T05"]),
    (["2020-01-01", "2020-01-02", "2020-01-03"], {"partition.expiration-max-num": "2"}, ["2020-01-03"]),
    (["2020-01-01", "a"], _BY_CHANGE, ["2020-01-01", "a"]),
    (["2020-01-01", "a"], {**_BY_CHANGE, "partition.expiration-time": "0 ms"}, []),
    (["b", None, "2020-01-01"],
     {**_BY_CHANGE, "partition.expiration-time": "0 ms", "partition.expiration-max-num": "1"}, [None, "b"]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "options", "left"), _EXPIRED)
def test_partitions(tmp_path: Path, values: list[str | None], options: dict[str, str], left: list[str | None]) -> None:
    table = _with_partitions(tmp_path / "t", values, options)
    planned = table.maintenance.expire_partitions(dry_run=True)
    assert len(rows_of(table)) == len(values)
    summary = table.maintenance.expire_partitions()
    assert summary.partitions == planned.partitions
    assert len(summary.partitions) == len(values) - len(left)
    assert _partitions(table) == left


def _with_partitions(path: Path, values: list[str | None], options: dict[str, str]) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options={**_OLD, **options})
    for number, value in enumerate(values):
        _append(table, number, value)
    time.sleep(0.002)
    return table


@pytest.mark.java
@requires_java_oracle
def test_java_makes_the_same_tags_and_expires_the_same_partitions(oracle: Oracle, tmp_path: Path) -> None:
    for number, (options, names) in enumerate(sampled(_TAGS, 2)):
        table = _due_for_tags(tmp_path / f"tags{number}", options)
        oracle.program("MaintenanceOracle", "tags", table.path)
        assert sorted(table.tags.list()) == names, options
        theirs = {name: tag.id for name, tag in table.tags.list().items()}
        for name in names:
            table.tags.delete(name)
        create_due_tags(table._store, TableOptions(table.options))
        assert {name: tag.id for name, tag in table.tags.list().items()} == theirs, options
    for number, (values, options, left) in enumerate(sampled(_EXPIRED, 2)):
        table = _with_partitions(tmp_path / f"partitions{number}", values, options)
        oracle.program("MaintenanceOracle", "partitions", table.path)
        assert _partitions(table) == left, (values, options)


@pytest.mark.java
@requires_java_oracle
def test_a_formatter_without_a_day_reads_no_time(oracle: Oracle, tmp_path: Path) -> None:
    """Java takes no partition for one of a month: the month that goes on would expire."""
    for number, letters in enumerate(["yyyyMM", "yyyy", "MMdd", "HHmm", "yyyydd"]):
        options = {"partition.timestamp-formatter": letters}
        table = _with_partitions(tmp_path / f"{number}", ["202001", "2020", "0101", "200001"], options)
        with pytest.raises(UnsupportedError, match=r"has no (year|month|day), so no partition is a time"):
            table.maintenance.expire_partitions()
        oracle.program("MaintenanceOracle", "partitions", table.path)
        assert len(_partitions(table)) == 4, letters


def test_partitions_expire_in_batches_and_after_commits(tmp_path: Path) -> None:
    options = {**_OLD, "partition.expiration-batch-size": "2", "end-input.check-partition-expire": "true"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"], options=options)
    for number in range(5):
        _append(table, number, f"2020-01-0{number + 1}", {"write-only": "true"})
    _append(table, 9, "2999-01-01")
    assert _partitions(table) == ["2999-01-01"]
    assert table._store.latest_snapshot_id() == 9


def test_partitions_that_can_t_expire(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, partition_by=["p"])
    with pytest.raises(OptionError, match=r"partition\.expiration-time is not set"):
        table.maintenance.expire_partitions()
    with pytest.raises(UnsupportedError, match="custom is Java's own"):
        table.maintenance.expire_partitions(options={**_OLD, "partition.expiration-strategy": "custom"})
    with pytest.raises(UnsupportedError, match="'EEE' is not supported"):
        table.maintenance.expire_partitions(options={**_OLD, "partition.timestamp-formatter": "EEE"})
    with pytest.raises(OptionError, match="no partitions"):
        pp.Table.create(tmp_path / "u", _SCHEMA).maintenance.expire_partitions(options=_OLD)


@pytest.mark.parametrize(
    ("columns", "pattern", "gone"),
    [
        ({"d": ["x", "x"], "dt": ["2020-01-01", "2999-01-01"]}, "$dt", ["d=x/dt=2020-01-01"]),
        ({"dt": ["2020-01-01", "2999-01-01"], "d": [" 10:00:00", ""]}, "$dt$d", ["dt=2020-01-01/d= 10%3A00%3A00"]),
        ({"d": ["2020-01", "2999-01"], "dt": ["-01", "-01"]}, "$d$dt", ["d=2020-01/dt=-01"]),
        ({"y": ["2020", "2999"], "yy": ["01", "01"], "yyy": ["02", "02"]}, "$y-$yy-$yyy", ["y=2020/yy=01/yyy=02"]),
        ({"a": ["2020", "$b$b"], "b": ["01", "2020"]}, "$a-$b-01", ["a=2020/b=01"]),
    ],
)
def test_the_longest_column_of_a_pattern_is_meant(
    tmp_path: Path, columns: dict[str, list[str]], pattern: str, gone: list[str]
) -> None:
    """Java replaces `$d` within `$dt`, and such partitions stay there forever."""
    rows = pa.table({**columns, "id": [1, 2]})
    options = {**_OLD, "partition.timestamp-pattern": pattern}
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=list(columns), options=options)
    table.append(rows)
    assert list(table.maintenance.expire_partitions().partitions) == gone
    assert table.to_arrow()["id"].to_pylist() == [2]


_KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
_ROWS = pa.table([[1, 2], [1, 2]], schema=_KEYED)
_COMMITS: dict[str, Callable[[TableStore], object]] = {
    "append": lambda store: append(store, _ROWS),
    "overwrite": lambda store: overwrite(store, _ROWS, OverwriteMode()),
    "delete": lambda store: delete(store, "id = 1"),
    "update": lambda store: update(store, {"v": 5}, "id = 1"),
    "merge": lambda store: merge_into(store, _ROWS, ["id"], MergeOptions("update")),
}


@pytest.mark.parametrize("commit", _COMMITS.values(), ids=_COMMITS)
def test_one_function_is_all_that_follows_a_commit(commit: Callable[[TableStore], object], tmp_path: Path) -> None:
    """The engine only commits: a caller that forgets `after_commit` is seen here by what is not done."""
    options = {"bucket": "1", "full-compaction.delta-commits": "1"}
    table = pp.Table.create(tmp_path / "t", _KEYED, primary_key=["id"], options=options)
    table.append(_ROWS, options={"write-only": "true"})
    store = table._store
    commit(store)
    committed = store.latest_snapshot()
    assert committed is not None
    assert (committed.id, committed.commit_kind is CommitKind.COMPACT) == (2, False)
    after_commit(store, committed.id, {})
    latest = store.latest_snapshot()
    assert latest is not None
    assert (latest.id, latest.commit_kind) == (3, CommitKind.COMPACT)
    is_exact(table)


def test_commits_with_write_only_are_compacted_together(tmp_path: Path) -> None:
    options = {"bucket": "1", "full-compaction.delta-commits": "1"}
    table = pp.Table.create(
        tmp_path / "t", pa.schema([*_KEYED, ("p", pa.int32())]), primary_key=["id", "p"], partition_by=["p"],
        options=options,
    )  # fmt: skip
    for partition in (1, 2, 3):
        table.append([{"id": 1, "v": 2, "p": partition}], options={"write-only": "true"})
    after_commit(table._store, 3, {}, write_only_since=1)
    levels = {file["partition"]: file["level"] for file in table.system.scan("files").to_arrow().to_pylist()}
    assert levels == {"{1}": 0, "{2}": 5, "{3}": 5}
