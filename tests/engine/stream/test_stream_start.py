"""Where streams start: each mode, its options, consumers, and what is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.stream import StreamPosition
from paimon_pyds.engine.stream.options import StreamOptions
from paimon_pyds.engine.stream.start import starting_position
from paimon_pyds.errors import OptionError, SnapshotNotFoundError, TagNotFoundError
from paimon_pyds.storage.local import LocalFileIO
from support.copies import copied
from support.streams import read_all, stream_of


def _start(table: pp.Table, **options: Any) -> StreamPosition:
    return _start_by(table, {key.replace("__", ".").replace("_", "-"): v for key, v in options.items()})


def _start_by(table: pp.Table, options: dict[str, Any]) -> StreamPosition:
    store = table._store
    schema = store.latest_schema()
    return starting_position(store, schema, StreamOptions(schema, options, store.root))


@copied("t")
def table(path: Path) -> pp.Table:
    """Four snapshots: rows 0 to 2, and a compaction after the second; they are made at different times."""
    table = pp.Table.create(path, "id BIGINT")
    for number in range(3):
        table.append({"id": [number]})
        time.sleep(0.003)
        if number == 1:
            table.compact(full=True)
            time.sleep(0.003)
    return table


def _seen(table: pp.Table, **options: Any) -> list[tuple[int, int]]:
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    stream = stream_of(table, options=given)
    return [(number, row["id"]) for number, row in read_all(stream, stream.start())[0]]


_ALL = [(1, 0), (2, 1), (4, 2)]


@pytest.mark.parametrize("mode", [{}, {"scan__mode": "default"}, {"scan__mode": "latest-full"}, {"scan__mode": "full"}])
def test_the_newest_state_is_read_first(table: pp.Table, mode: dict[str, str]) -> None:
    assert sorted(_seen(table, **mode)) == [(4, 0), (4, 1), (4, 2)]


def test_the_newest_changes_are_waited_for(table: pp.Table) -> None:
    assert _seen(table, scan__mode="latest") == []
    assert _start(table, scan__mode="latest").next == 5


def test_a_snapshot_starts_with_its_changes(table: pp.Table) -> None:
    assert _seen(table, scan__snapshot_id="1") == _ALL
    assert _seen(table, scan__mode="from-snapshot", scan__snapshot_id="3") == _ALL[2:]
    assert _start(table, scan__snapshot_id="5").next == 5
    with pytest.raises(SnapshotNotFoundError, match="the next one is 5"):
        _start(table, scan__snapshot_id="6")


def test_a_snapshot_starts_with_its_state(table: pp.Table) -> None:
    given = {"scan__mode": "from-snapshot-full", "scan__snapshot_id": "2"}
    assert _seen(table, **given) == [(2, 0), (2, 1), (4, 2)]
    with pytest.raises(SnapshotNotFoundError):
        _start(table, scan__mode="from-snapshot-full", scan__snapshot_id="9")
    with pytest.raises(OptionError, match=r"needs scan\.snapshot-id"):
        _start(table, scan__mode="from-snapshot-full")


def test_a_tag_starts_with_the_state_that_it_keeps(table: pp.Table) -> None:
    table.tags.create("old", snapshot=2)
    assert _seen(table, scan__tag_name="old") == [(2, 0), (2, 1), (4, 2)]
    with pytest.raises(TagNotFoundError):
        _start(table, scan__tag_name="new")
    table.snapshots.expire(retain_max=2, retain_min=2)
    stream = stream_of(table, options={"scan.tag-name": "old"})
    assert [row["id"] for _, row in read_all(stream, stream.start())[0]] == [0, 1, 2]


def test_times_start_with_the_first_snapshot_since(table: pp.Table) -> None:
    times = [snapshot.time_millis for snapshot in table.snapshots.list()]
    for number, millis in enumerate(times, start=1):
        assert _start(table, scan__timestamp_millis=str(millis)).next == number
        assert _start(table, scan__mode="from-timestamp", scan__timestamp_millis=str(millis + 1)).next == number + 1
    assert _start(table, scan__timestamp_millis="0").next == 1
    assert _start(table, scan__timestamp="2020-01-01").next == 1
    assert _start(table, scan__timestamp="2999-01-01").next == 5


def test_the_last_compaction_is_read_first(table: pp.Table) -> None:
    assert sorted(_seen(table, scan__mode="compacted-full")) == [(3, 0), (3, 1), (4, 2)]
    fresh = pp.Table.create(f"{table.path}-fresh", "id BIGINT")
    fresh.append({"id": [1]})
    assert _start(fresh, scan__mode="compacted-full").start == 1


def test_files_made_since_a_time_are_read_first(table: pp.Table) -> None:
    last = table.snapshots.list()[-1].time_millis
    key = "scan.file-creation-time-millis"
    for since, expected in ((0, {0, 1, 2}), (last - 1_000_000, {0, 1, 2}), (last + 1_000_000, set())):
        stream = stream_of(table, options={key: str(since)})
        assert {row["id"] for _, row in read_all(stream, stream.start())[0]} == expected
    files = table.system.read("files").to_pylist()
    newest = max(file["creation_time"] for file in files)
    millis = (
        int(newest.timestamp() * 1000)
        if newest.tzinfo
        else int(time.mktime(newest.timetuple()) * 1000) + (newest.microsecond // 1000)
    )
    stream = stream_of(table, options={key: str(millis)})
    assert [row["id"] for _, row in read_all(stream, stream.start())[0]] == [2]
    with pytest.raises(OptionError, match="needs scan"):
        _start(table, scan__mode="from-file-creation-time")


@pytest.mark.parametrize("mode", ["latest-full", "compacted-full", "latest", "from-timestamp", "from-snapshot"])
def test_a_stream_of_an_empty_table_reads_what_comes(tmp_path: Path, mode: str) -> None:
    table = pp.Table.create(tmp_path / "t", "id BIGINT")
    more = {"from-timestamp": {"scan.timestamp": "2020-01-01"}, "from-snapshot": {"scan.snapshot-id": "1"}}
    stream = stream_of(table, options={"scan.mode": mode, **more.get(mode, {})})
    start = stream.start()
    assert stream.end(start) == start
    table.append({"id": [1]})
    table.append({"id": [2]})
    assert [row["id"] for _, row in read_all(stream, start)[0]] == [1, 2]


def test_starts_that_have_expired_become_the_earliest(table: pp.Table) -> None:
    table.snapshots.expire(retain_max=2, retain_min=2)
    assert _start(table, scan__snapshot_id="1").next == 3
    assert _start(table, scan__mode="from-snapshot-full", scan__snapshot_id="1").start == 3
    assert _start(table, scan__timestamp="2020-01-01").next == 3


def test_changelogs_that_outlive_snapshots_are_a_start(tmp_path: Path) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "10",
        "snapshot.num-retained.min": "1",
    }
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key=["id"], options=options)
    for number in range(4):
        table.append({"id": [1], "v": [number]})
    position = _start(table, scan__snapshot_id="2")
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots.list()] == [4]
    assert _start(table, scan__snapshot_id="2").next == position.next
    assert _start(table, scan__timestamp="2020-01-01").next == 1
    stream = stream_of(table)
    assert [row["v"] for _, row in read_all(stream, position)[0]] == [1, 2, 3]


def test_stored_options_say_where_streams_start(table: pp.Table) -> None:
    table.alter(set_options={"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    assert _start(table).next == 2
    assert _start(table, scan__mode="latest").next == 5


@pytest.mark.parametrize(
    ("options", "match"),
    [({"scan.watermark": "1"}, "scan.watermark"), ({"scan.version": "1"}, "scan.version"),
     ({"incremental-between": "1,2"}, "incremental-between"),
     ({"scan.snapshot-id": "1", "scan.timestamp": "2020-01-01"}, "only one of"),
     ({"scan.snapshot-id": "x"}, "scan.snapshot-id"), ({"scan.mode": "sideways"}, "scan.mode"),
     ({"scan.mode": "from-creation-timestamp"}, "scan.mode"), ({"scan.mode": "latest-delta"}, "scan.mode"),
     ({"scan.mode": "latest", "scan.file-creation-time-millis": "1"}, "together"), ({"scan.modes": "x"}, "scan.modes")],
)  # fmt: skip
def test_other_starts_are_refused(table: pp.Table, options: dict[str, str], match: str) -> None:
    with pytest.raises((OptionError, NotImplementedError), match=match):
        _start_by(table, options)


def test_consumers_go_on(table: pp.Table) -> None:
    given = {"consumer-id": "job", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    stream = stream_of(table, options=given)
    end = stream.end(stream.start())
    assert table.maintenance.consumers() == {}
    stream.confirm(end)
    assert table.maintenance.consumers() == {"job": 5, "job.retained": 4}
    assert stream_of(table, options=given).start().next == 5
    assert stream_of(table, options={**given, "consumer.ignore-progress": "true"}).start().next == 1
    assert stream_of(table, options={**given, "consumer-id": "other"}).start().next == 1


def test_a_state_that_is_not_read_yet_is_kept(table: pp.Table) -> None:
    stream = stream_of(table, options={"consumer-id": "job"})
    start = stream.start()
    stream.confirm(start)
    assert table.maintenance.consumers() == {"job.retained": 4}, "nobody could go on from the changes of snapshot 4"
    for number in range(3):
        table.append({"id": [10 + number]})
    table.compact(full=True)
    table.snapshots.expire(retain_max=1, retain_min=1)
    again = stream_of(table, options={"consumer-id": "job"})
    rows, end = read_all(again, start)
    assert [row["id"] for _, row in rows] == [0, 1, 2, 10, 11, 12]
    assert again.start().first == "full"
    again.confirm(end)
    assert table.maintenance.consumers() == {"job": 9, "job.retained": 8}
    assert again.start() == replace(again.start(), first="changes", start=9)


def test_the_rows_that_an_overwrite_replaces_are_kept(tmp_path: Path) -> None:
    options = {"bucket": "1", "streaming-read-overwrite": "true", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", "id BIGINT", primary_key=["id"], options=options)
    table.append({"id": [1]})
    follow = table.follow(consumer_id="job", until="latest", rowkind_column="kind")
    assert [row for change in follow for row in change.batch.to_pylist()] == [{"kind": "+I", "id": 1}]
    assert table.maintenance.consumers() == {"job": 2, "job.retained": 1}
    table.overwrite({"id": [2]})
    table.snapshots.expire(retain_max=1, retain_min=1)
    follow = table.follow(consumer_id="job", until="latest", rowkind_column="kind")
    changes = [row for change in follow for row in change.batch.to_pylist()]
    assert changes == [{"kind": "-D", "id": 1}, {"kind": "+I", "id": 2}]
    table.maintenance.reset_consumer("job")
    assert table.maintenance.consumers() == {}


def test_a_follower_that_has_not_begun_keeps_what_it_needs(table: pp.Table) -> None:
    follow = table.follow(from_=1, consumer_id="job", until="latest")
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert [change.snapshot for change in follow] == [1, 2, 4]
    assert table.maintenance.consumers() == {"job": 5, "job.retained": 4}


def test_consumers_keep_snapshots(table: pp.Table) -> None:
    table.maintenance.reset_consumer("job", 2)
    table.snapshots.expire(retain_max=1, retain_min=1)
    stream = stream_of(table, options={"consumer-id": "job"})
    assert [row["id"] for _, row in read_all(stream, stream.start())[0]] == [1, 2]
    stream.confirm(read_all(stream, stream.start())[1])
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots.list()] == [4]


def test_consumers_of_other_tables_are_refused(table: pp.Table) -> None:
    table.maintenance.reset_consumer("job", 5)
    table.snapshots.rollback(2)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        _start(table, consumer_id="job")


def test_a_consumer_notices_a_rollback_that_new_commits_hide(table: pp.Table) -> None:
    """By the number alone it would leave out rows of new snapshots that have the numbers of old ones."""
    assert [change.snapshot for change in table.follow(from_=1, consumer_id="job", until="latest")] == [1, 2, 4]
    table.snapshots.rollback(2)
    for number in range(3, 7):
        table.append({"id": [number]})
    with pytest.raises(SnapshotNotFoundError, match="snapshot 4 is another one now: the table was rolled back"):
        list(table.follow(consumer_id="job", until="latest"))
    table.maintenance.reset_consumer("job", 3)
    seen = [change.batch["id"].to_pylist() for change in table.follow(consumer_id="job", until="latest")]
    assert seen == [[3], [4], [5], [6]]
    assert _start(table, consumer_id="job").next == 7


def test_a_consumer_that_another_writer_moved_goes_on(table: pp.Table) -> None:
    list(table.follow(from_=1, consumer_id="job", until="latest"))
    file = Path(table.path, "consumer", "consumer-job")
    stored = json.loads(file.read_text())
    assert stored == {"nextSnapshot": 5, "previousSnapshot": {"id": 4, "deltaManifestList": ANY}}
    for moved in ({"nextSnapshot": 3}, {**stored, "nextSnapshot": 3}):
        file.write_text(json.dumps(moved))
        assert [change.snapshot for change in table.follow(consumer_id="job", until="latest")] == [4]


def test_a_consumer_that_another_reader_moves_meanwhile(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that its file says is of one moment."""
    list(table.follow(from_=1, consumer_id="job", until="latest"))
    file = Path(table.path, "consumer", "consumer-job")
    after = file.read_bytes()
    table.maintenance.reset_consumer("job", 2)
    read = LocalFileIO.read_bytes

    def then_moved(io: LocalFileIO, path: str) -> bytes:
        found = read(io, path)
        if path == str(file):
            file.write_bytes(after)
        return found

    monkeypatch.setattr(LocalFileIO, "read_bytes", then_moved)
    assert _start(table, consumer_id="job").next == 2
    assert _start(table, consumer_id="job").next == 5


def test_a_branch_has_its_own_stream(table: pp.Table) -> None:
    table.tags.create("base", snapshot=2)
    table.branches.create("b", tag="base")
    branch = pp.Table.open(table.path, branch="b")
    branch.append({"id": [77]})
    stream = stream_of(table, options={"branch": "b"})
    assert sorted(row["id"] for _, row in read_all(stream, stream.start())[0]) == [0, 1, 77]
