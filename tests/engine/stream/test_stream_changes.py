"""What snapshots bring to a stream, by kind of table and snapshot."""

from __future__ import annotations

import pickle
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.stream import Limits, StreamPosition
from paimon_pyds.errors import OptionError, SchemaError, SnapshotNotFoundError, UnknownColumnError, UnsupportedError
from paimon_pyds.metadata.snapshot import snapshot_to_json
from support.streams import read_all, rows_between, stream_of

_CHANGES = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}


def _ids(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, int]]:
    return [(number, row["id"]) for number, row in rows]


def _kinds(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, str, int, str]]:
    return [(number, row["kind"], row["id"], row["v"]) for number, row in rows]


@pytest.fixture
def append(tmp_path: Path) -> pp.Table:
    return pp.Table.create(tmp_path / "append", "id BIGINT, v STRING")


@pytest.fixture
def keyed(tmp_path: Path) -> pp.Table:
    return pp.Table.create(tmp_path / "keyed", "id BIGINT, v STRING", primary_key=["id"], options={"bucket": "2"})


def test_appends_are_read_and_compactions_bring_nothing(append: pp.Table) -> None:
    append.append({"id": [1, 2], "v": ["a", "b"]})
    stream = stream_of(append)
    start = stream.start()
    append.append({"id": [3], "v": ["c"]})
    append.compact(full=True)
    append.append({"id": [4], "v": ["d"]})
    rows, end = read_all(stream, start)
    assert _ids(rows) == [(1, 1), (1, 2), (2, 3), (4, 4)]
    assert end.next == 5
    assert stream.end(end) == end


def test_a_step_without_news_reads_nothing(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    stream = stream_of(append)
    end = stream.end(stream.start())
    assert stream.splits(end, end) == []
    assert stream.end(end) == end


def test_overwrites_of_append_tables_are_read_where_the_option_says(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    append.overwrite({"id": [2], "v": ["b"]})
    append.append({"id": [3], "v": ["c"]})
    stream = stream_of(append, options=_CHANGES)
    assert _ids(read_all(stream, stream.start())[0]) == [(1, 1), (3, 3)]
    stream = stream_of(append, options={**_CHANGES, "streaming-read-append-overwrite": "true"})
    assert _ids(read_all(stream, stream.start())[0]) == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(OptionError, match="streaming-read-append-overwrite"):
        stream_of(append, options={"streaming-read-overwrite": "true"})


def test_keys_without_a_producer_come_as_they_were_written(keyed: pp.Table) -> None:
    keyed.append({"id": [1, 2], "v": ["a", "b"]})
    stream = stream_of(keyed, kind_column="kind")
    start = stream.start()
    keyed.append({"id": [1], "v": ["A"]})
    keyed.delete("id = 2")
    keyed.compact(full=True)
    rows, _ = read_all(stream, start)
    assert sorted(_kinds(rows)[:2]) == [(1, "+I", 1, "a"), (1, "+I", 2, "b")]
    assert _kinds(rows)[2:] == [(2, "+I", 1, "A"), (3, "-D", 2, "b")]
    assert stream.arrow_schema.names == ["kind", "id", "v"]


def test_overwrites_of_keys_take_away_what_they_replaced(keyed: pp.Table) -> None:
    keyed.append({"id": [1, 2], "v": ["a", "b"]})
    keyed.append({"id": [1], "v": ["A"]})
    keyed.overwrite({"id": [2, 3], "v": ["x", "y"]})
    stream = stream_of(keyed, kind_column="kind", options={**_CHANGES, "scan.snapshot-id": "3"})
    assert read_all(stream, stream.start())[0] == []
    given = {**_CHANGES, "scan.snapshot-id": "3", "streaming-read-overwrite": "true"}
    stream = stream_of(keyed, kind_column="kind", options=given)
    rows = _kinds(read_all(stream, stream.start())[0])
    assert sorted(rows[:2]) == [(3, "-D", 1, "A"), (3, "-D", 2, "b")]
    assert sorted(rows[2:]) == [(3, "+I", 2, "x"), (3, "+I", 3, "y")]


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_changelogs_are_read_also_of_compactions(tmp_path: Path, producer: str) -> None:
    options = {"bucket": "1", "changelog-producer": producer}
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    stream = stream_of(table, kind_column="kind")
    start = stream.start()
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.compact(full=True)
    table.append({"id": [1], "v": ["A"]})
    table.delete("id = 2")
    table.compact(full=True)
    rows, _ = read_all(stream, start)
    seen: dict[int, str] = {}
    for _, kind, id_, value in _kinds(rows):
        if kind in ("+I", "+U"):
            seen[id_] = value
        elif kind == "-D" or seen.get(id_) == value:
            seen.pop(id_, None)
    assert seen == {1: "A"}


def test_other_kinds_are_refused_or_dropped_but_never_rows(keyed: pp.Table) -> None:
    keyed.append({"id": [1], "v": ["a"]})
    keyed.delete("id = 1")
    keyed.append({"id": [2], "v": ["b"]})
    refusing = stream_of(keyed, options=_CHANGES)
    with pytest.raises(UnsupportedError, match="kind -D"):
        read_all(refusing, refusing.start())
    dropping = stream_of(keyed, options=_CHANGES, other_kinds="drop")
    assert _ids(read_all(dropping, dropping.start())[0]) == [(1, 1), (3, 2)]
    with pytest.raises(OptionError, match="refuse or drop"):
        stream_of(keyed, other_kinds="ignore")


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_engines_whose_files_are_no_changes_need_a_producer(tmp_path: Path, engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    with pytest.raises(UnsupportedError, match="streaming reading is not supported"):
        stream_of(table)


def test_filters_act_on_each_row_of_a_change(keyed: pp.Table) -> None:
    keyed.append({"id": [1, 2], "v": ["a", "b"]})
    keyed.append({"id": [1], "v": ["z"]})
    stream = stream_of(keyed, where="v = 'a'", kind_column="kind", columns=["v"], options=_CHANGES)
    assert read_all(stream, stream.start())[0] == [(1, {"kind": "+I", "v": "a"})]


def test_columns_and_names(append: pp.Table) -> None:
    with pytest.raises(UnknownColumnError):
        stream_of(append, columns=["nothing"])
    with pytest.raises(SchemaError, match="another name"):
        stream_of(append, kind_column="ID")
    append.append({"id": [1], "v": ["a"]})
    stream = stream_of(append, columns=["v"])
    assert read_all(stream, stream.start())[0] == [(1, {"v": "a"})]


def test_splits_pickle_and_give_the_same_rows_by_bucket(keyed: pp.Table) -> None:
    for number in range(6):
        keyed.append({"id": [number, number + 100], "v": [str(number), "x"]})
    stream = stream_of(keyed, kind_column="kind", options=_CHANGES)
    start = stream.start()
    end = stream.end(start)
    ordered = rows_between(stream, start, end)
    assert [number for number, _ in ordered] == sorted(number for number, _ in ordered)
    found = pickle.loads(pickle.dumps(stream.splits(start, end, by_bucket=True)))
    rows = [row for split in found for batch in split.read() for row in batch.to_pylist()]
    assert sorted(map(str, rows)) == sorted(str(row) for _, row in ordered)


def test_a_bucket_is_in_one_split_before_and_after_a_compaction(keyed: pp.Table) -> None:
    for number in range(3):
        keyed.append({"id": [1], "v": [str(number)]})
        keyed.compact(full=True)
    stream = stream_of(keyed, kind_column="kind", options=_CHANGES)
    (split,) = stream.splits(start := stream.start(), stream.end(start), by_bucket=True)
    assert [row["v"] for batch in split.read() for row in batch.to_pylist()] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("limits", "steps"),
    [(Limits(max_files=1), 4), (Limits(max_files=2), 2), (Limits(max_rows=3), 4), (Limits(max_rows=4), 2),
     (Limits(max_bytes=1), 4), (Limits(max_bytes=1 << 30), 1), (Limits(), 1)],
)  # fmt: skip
def test_limits(append: pp.Table, limits: Limits, steps: int) -> None:
    stream = stream_of(append, options=_CHANGES)
    start = position = stream.start()
    for number in range(4):
        append.append({"id": [number, 10 + number], "v": ["a", "b"]})
    count = 0
    while (end := stream.end(position, limits)) != position:
        position, count = end, count + 1
    assert count == steps
    assert rows_between(stream, start, position) == read_all(stream, start, limits)[0]


def test_a_state_is_read_in_splits(append: pp.Table) -> None:
    for number in range(5):
        append.append({"id": [number], "v": ["a"]})
    given = {"source.split.target-size": "1b", "source.split.open-file-cost": "1b"}
    stream = stream_of(append, options=given)
    start = position = stream.start()
    places: list[StreamPosition] = []
    while (end := stream.end(position, Limits(max_files=2))) != position:
        places.append(position := end)
    assert [(place.next, place.splits) for place in places] == [(5, 2), (5, 4), (6, 0)]
    rows = [row for a, b in zip([start, *places], places, strict=False) for row in rows_between(stream, a, b)]
    assert _ids(rows) == [(5, number) for number in range(5)]
    other = stream_of(append, where="id > 1", options=given)
    for a, b in ((start, places[0]), (places[0], places[1]), (places[1], places[2])):
        with pytest.raises(OptionError, match=r"other splits.*start a new stream"):
            other.splits(a, b)
    assert _ids(rows_between(other, start, places[2])) == [(5, 2), (5, 3), (5, 4)], "as a whole it has any filter"


def test_few_rows_wait_for_more(append: pp.Table) -> None:
    stream = stream_of(append, options=_CHANGES)
    limits = Limits(min_rows=3, max_delay_ms=3_600_000)
    append.append({"id": [1], "v": ["a"]})
    first = stream.end(stream.start(), limits)
    assert first.next == 2
    append.append({"id": [2], "v": ["a"]})
    assert stream.end(first, limits) == first
    append.append({"id": [3, 4], "v": ["a", "b"]})
    assert stream.end(first, limits).next == 4
    append.append({"id": [5], "v": ["a"]})
    assert stream.end(first, Limits(min_rows=30, max_delay_ms=0)).next == 5


def test_the_newest_bounds_a_step(append: pp.Table) -> None:
    stream = stream_of(append, options=_CHANGES)
    start = stream.start()
    append.append({"id": [1], "v": ["a"]})
    newest = stream.end(start)
    append.append({"id": [2], "v": ["a"]})
    assert stream.end(start, newest=newest) == newest
    assert stream.end(newest, newest=newest) == newest
    assert stream.end(newest).next == 3


def test_expired_snapshots_end_a_stream(append: pp.Table) -> None:
    stream = stream_of(append)
    start = stream.start()
    for number in range(4):
        append.append({"id": [number], "v": ["a"]})
    position = stream.end(start, Limits(max_files=1))
    append.snapshots.expire(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        stream_of(append).end(position)
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        stream_of(append).end(start)


@pytest.mark.parametrize("kept_by", ["changelog", "consumer"])
def test_a_rollback_is_noticed_when_what_was_read_last_has_expired(append: pp.Table, kept_by: str) -> None:
    options = {"consumer-id": "job"} if kept_by == "consumer" else {}
    if kept_by == "changelog":
        append.alter({"changelog.num-retained.min": "100"})
    for number in range(3):
        append.append({"id": [number], "v": ["a"]})
    stream = stream_of(append, options=options)
    end = stream.end(stream.start())
    stream.confirm(end)
    append.snapshots.rollback(2)
    for number in range(3):
        append.append({"id": [number + 10], "v": ["a"]})
    append.snapshots.expire(retain_max=1 if options else 2, retain_min=1)
    assert [snapshot.id for snapshot in append.snapshots.list()] == ([3, 4, 5] if options else [4, 5])
    with pytest.raises(SnapshotNotFoundError, match="rolled back to snapshot 2"):
        stream_of(append, options=options).end(end)


def test_a_rollback_behind_the_position_is_noticed(append: pp.Table) -> None:
    for number in range(3):
        append.append({"id": [number], "v": ["a"]})
    stream = stream_of(append)
    end = stream.end(stream.start())
    append.snapshots.rollback(1)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        stream_of(append).end(end)
    for number in range(4):
        append.append({"id": [number + 10], "v": ["a"]})
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        stream_of(append).end(end)
    with pytest.raises(SnapshotNotFoundError, match="rolled back"):
        stream.end(end)


def test_a_table_that_was_created_anew_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "again"
    table = pp.Table.create(path, "id BIGINT")
    table.append({"id": [1]})
    stream = stream_of(table)
    end = stream.end(stream.start())
    shutil.rmtree(path)
    table = pp.Table.create(path, "id BIGINT")
    for number in range(3):
        table.append({"id": [number]})
    with pytest.raises(SnapshotNotFoundError, match="created anew"):
        stream_of(table).end(end)


def test_added_columns_are_not_read_by_a_stream_that_began_before(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    stream = stream_of(append)
    start = stream.start()
    append.alter(add_columns={"w": "INT"})
    append.append({"id": [2], "v": ["b"], "w": [7]})
    assert read_all(stream, start)[0] == [(1, {"id": 1, "v": "a"}), (2, {"id": 2, "v": "b"})]
    again = stream_of(append, schema_id=start.schema)
    assert read_all(again, start)[0] == read_all(stream, start)[0]
    newer = stream_of(append)
    assert [row for _, row in read_all(newer, start)[0]] == [
        {"id": 1, "v": "a", "w": None}, {"id": 2, "v": "b", "w": 7},
    ]  # fmt: skip


def test_a_dropped_column_ends_a_stream_before_its_snapshot(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    stream = stream_of(append)
    ids = stream_of(append, columns=["id"], where="id > 0")
    values = stream_of(append, columns=["id"], where="v = 'a'")
    start = stream.start()
    append.append({"id": [2], "v": ["b"]})
    append.alter(drop_columns=["v"], add_columns={"w": "INT"})
    append.append({"id": [3], "w": [4]})
    end = stream.end(start)
    assert end.next == 3
    with pytest.raises(SchemaError, match="column v was dropped"):
        stream.end(end)
    assert values.end(start).next == 3
    assert ids.end(start).next == 4


def test_a_column_of_another_type_ends_a_stream_before_its_snapshot(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    append.alter(rename_columns={"v": "w"}, add_columns={"n": "INT"})
    stream = stream_of(append)
    start = stream.start()
    append.append({"id": [2], "w": ["b"], "n": [3]})
    append.alter(change_types={"n": "BIGINT"}, rename_columns={"w": "x"})
    append.append({"id": [3], "x": ["c"], "n": [4]})
    end = stream.end(start)
    assert end.next == 3
    with pytest.raises(SchemaError, match="column n has the type BIGINT now, and had INT"):
        stream.end(end)
    others = stream_of(append, columns=["id", "w"], schema_id=start.schema)
    assert [row for _, row in read_all(others, end)[0]] == [{"id": 3, "w": "c"}]


def test_positions_of_other_streams_are_refused(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    stream = stream_of(append)
    start = stream.start()
    end = stream.end(start)
    with pytest.raises(OptionError, match="not of one stream"):
        stream.splits(end, start)
    other = stream_of(append, options={"scan.mode": "latest"}).start()
    with pytest.raises(OptionError, match="not of one stream"):
        stream.splits(other, end)


def test_a_delay_leaves_young_snapshots_for_later(append: pp.Table) -> None:
    append.append({"id": [1], "v": ["a"]})
    slow = stream_of(append, options={**_CHANGES, "streaming.read.snapshot.delay": "1 h"})
    assert slow.end(slow.start()) == slow.start()
    soon = stream_of(append, options={**_CHANGES, "streaming.read.snapshot.delay": "1 ms"})
    time.sleep(0.01)
    assert soon.end(soon.start()).next == 2


def test_a_bounded_watermark_ends_a_stream_before_it(append: pp.Table) -> None:
    for watermark in (10, 20, 30):
        append.append({"id": [watermark], "v": ["a"]})
        newest = append.snapshots.list()[-1]
        marked = snapshot_to_json(replace(newest, watermark=watermark))
        Path(append.path, "snapshot", f"snapshot-{newest.id}").write_text(marked)
    stream = stream_of(append, options={**_CHANGES, "scan.bounded.watermark": "20"})
    rows, end = read_all(stream, stream.start())
    assert _ids(rows) == [(1, 10), (2, 20)]
    assert stream.is_finished(end)
    assert not stream.is_finished(stream.start())
    state = stream_of(append, options={"scan.bounded.watermark": "5"})
    rows, end = read_all(state, state.start())
    assert sorted(_ids(rows)) == [(3, 10), (3, 20), (3, 30)]
    assert state.is_finished(end), "the state is read, though it is later"
    seen = [change.snapshot for change in append.follow(from_=1, options={"scan.bounded.watermark": "10"}, poll=0.01)]
    assert seen == [1]


def test_first_row_gives_each_key_once(tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"}
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    stream = stream_of(table, kind_column="kind")
    start = stream.start()
    for value in "abc":
        table.append({"id": [1, 2], "v": [value, value]})
        table.compact(full=True)
    assert sorted(_kinds(read_all(stream, start)[0]))[0][1:] == ("+I", 1, "a")
    assert len(read_all(stream, start)[0]) == 2


def test_a_state_with_vectors_has_what_is_not_compacted(tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.compact(full=True)
    table.append({"id": [2, 3], "v": ["B", "c"]})
    stream = stream_of(table, kind_column="kind")
    rows = _kinds(read_all(stream, stream.start())[0])
    newest = table.snapshots.list()[-1].id
    assert sorted(rows) == [(newest, "+I", 1, "a"), (newest, "+I", 2, "B"), (newest, "+I", 3, "c")]


def test_an_overwrite_needs_the_snapshot_before_it(keyed: pp.Table) -> None:
    keyed.append({"id": [1], "v": ["a"]})
    keyed.append({"id": [2], "v": ["b"]})
    keyed.overwrite({"id": [3], "v": ["c"]})
    keyed.append({"id": [4], "v": ["d"]})
    given = {**_CHANGES, "streaming-read-overwrite": "true"}
    stream = stream_of(keyed, kind_column="kind", options=given)
    start = stream.start()
    end = stream.end(start, Limits(max_snapshots=2))
    keyed.snapshots.expire(retain_max=2, retain_min=1)
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        stream.end(end)


@pytest.fixture
def waiting(tmp_path: Path) -> pp.Table:
    """Rows of two partitions, some in their buckets and some waiting for them, and some compacted meanwhile."""
    table = pp.Table.create(
        tmp_path / "waiting", "p STRING, id BIGINT, v STRING", partition_by="p", primary_key="p, id",
        options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
    )  # fmt: skip
    _write(table, (1, "a"), (2, "a"), (3, "a"))
    table.compact()
    _write(table, (2, "b"), (4, "b"))
    _write(table, (2, "c"), (3, None), (4, "c"))
    return table


def _write(table: pp.Table, *rows: tuple[int, str | None]) -> None:
    """Upserts, and deletes where there is no value."""
    ids, values = zip(*rows, strict=True)
    kinds = ["+I" if value else "-D" for value in values]
    data = {"p": ["xy"[id_ % 2] for id_ in ids], "id": ids, "v": values, "op": kinds}
    table.append({name: list(column) for name, column in data.items()}, rowkind_column="op")


def _applied(rows: list[tuple[int, dict[str, Any]]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for _, row in rows:
        if row["kind"] == "-D":
            found.pop(row["id"], None)
        else:
            found[row["id"]] = row["v"]
    return found


def test_rows_that_wait_for_their_bucket_come_as_they_are_written(waiting: pp.Table) -> None:
    rows, end = read_all(stream := stream_of(waiting, kind_column="kind", options=_CHANGES), stream.start())
    assert [(n, r["kind"], r["id"], r["v"]) for n, r in rows if n > 2] == [
        (3, "+I", 2, "b"), (3, "+I", 4, "b"), (4, "+I", 2, "c"), (4, "+I", 4, "c"), (4, "-D", 3, None),
    ]  # fmt: skip
    assert _applied(rows) == {1: "a", 2: "c", 4: "c"}
    waiting.compact()
    assert read_all(stream, end)[0] == [], "they came already"
    _write(waiting, (5, "d"))
    assert [row["id"] for _, row in read_all(stream, end)[0]] == [5]


@pytest.mark.parametrize("split_size", ["1b", "1gb"])
def test_a_state_has_what_waits_after_the_rest(waiting: pp.Table, split_size: str) -> None:
    given = {"source.split.target-size": split_size, "source.split.open-file-cost": "1b"}
    stream = stream_of(waiting, kind_column="kind", options=given)
    for limits in (Limits(), Limits(max_files=1)):
        rows, _ = read_all(stream, stream.start(), limits)
        assert len(rows) == 3 + 5
        assert _applied(rows) == {1: "a", 2: "c", 4: "c"}
    dropping = stream_of(waiting, other_kinds="drop", options=given)
    assert len(read_all(dropping, dropping.start())[0]) == 7
    filtered = stream_of(waiting, where="id = 4 AND v > 'b'", options=given)
    assert [row["v"] for _, row in read_all(filtered, filtered.start())[0]] == ["c"]
    with pytest.raises(UnsupportedError, match="-D"):
        read_all(plain := stream_of(waiting), plain.start())


def test_a_follower_goes_on_inside_of_what_waits(waiting: pp.Table) -> None:
    seen: list[tuple[int, dict[str, Any]]] = []
    position = None
    while True:
        follow = waiting.follow(position=position, rowkind_column="kind", until="latest")
        follow._batch_rows = 1
        if (change := next(follow, None)) is None:
            break
        seen += [(change.snapshot, row) for row in change.batch.to_pylist()]
        position = change.position.to_json()
    assert len(seen) == 3 + 5
    assert _applied(seen) == {1: "a", 2: "c", 4: "c"}


def test_what_waits_and_its_buckets_are_in_one_split(waiting: pp.Table) -> None:
    _write(waiting, (2, "d"))
    waiting.append({"p": ["x"], "id": [2], "v": ["e"]}, options={"postpone.batch-write-fixed-bucket": "true"})
    stream = stream_of(waiting, kind_column="kind", options={"scan.mode": "from-snapshot", "scan.snapshot-id": "3"})
    start = stream.start()
    parts = [
        {file.partition for file in s.split.files} for s in stream.splits(start, stream.end(start), by_bucket=True)
    ]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 2
    assert _applied(read_all(stream, start)[0])[2] == "e"


def test_overwrites_of_what_waits_are_refused(waiting: pp.Table) -> None:
    with pytest.raises(UnsupportedError, match="bucket=-2"):
        stream_of(waiting, options={"streaming-read-overwrite": "true"})
