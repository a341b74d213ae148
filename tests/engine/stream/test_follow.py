"""Following a table from Python: loops, ends, positions, consumers, asyncio."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.stream.follow import Change, Follow
from paimon_pyds.errors import (
    ArgumentTypeError,
    OptionError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UnsupportedError,
)
from support.copies import copied
from support.effort import sampled


@copied("t")
def table(path: Path) -> pp.Table:
    """Three snapshots of two rows each."""
    table = pp.Table.create(path, "id BIGINT, v STRING")
    for number in range(3):
        table.append({"id": [number, number + 10], "v": ["a", "b"]})
    return table


def _rows(changes: Iterator[Change]) -> list[tuple[int, int]]:
    return [(change.snapshot, row["id"]) for change in changes for row in change.batch.to_pylist()]


def test_changes_have_rows_snapshots_and_positions(table: pp.Table) -> None:
    follow = table.follow(from_=1, until="latest", columns=["id"])
    changes = list(follow)
    assert [(change.snapshot, len(change), change.to_arrow().to_pydict()) for change in changes] == [
        (1, 2, {"id": [0, 10]}), (2, 2, {"id": [1, 11]}), (3, 2, {"id": [2, 12]}),
    ]  # fmt: skip
    assert [change.position.next for change in changes] == [2, 3, 4]
    assert follow.position == changes[-1].position
    assert follow.arrow_schema.names == ["id"]
    assert "snapshot 1" in repr(changes[0])


def test_the_starts(table: pp.Table) -> None:
    table.tags.create("2020-01-01", snapshot=2)
    times = [snapshot.time_millis for snapshot in table.snapshots.list()]
    second = dt.datetime.fromtimestamp(times[1] / 1000, dt.UTC)

    def ids(from_: Any) -> list[int]:
        return sorted(id_ for _, id_ in _rows(table.follow(from_=from_, until="latest")))

    assert ids(None) == ids("latest-full") == [0, 1, 2, 10, 11, 12]
    assert ids("latest") == []
    assert ids(3) == [2, 12]
    assert ids("2020-01-01") == [0, 1, 2, 10, 11, 12], "a tag comes before a time of that name"
    assert len(ids(second)) >= 4
    assert ids("2020-01-02") == ids(dt.date(2020, 1, 2)) == [0, 1, 2, 10, 11, 12]
    with pytest.raises(TagNotFoundError, match="no mode"):
        ids("newest")
    with pytest.raises(SnapshotNotFoundError):
        ids(9)


def test_the_ends(table: pp.Table) -> None:
    assert _rows(table.follow(from_=1, until=2)) == [(1, 0), (1, 10), (2, 1), (2, 11)]
    assert _rows(table.follow(from_=3, until=2)) == []
    first = table.snapshots.list()[0].time_millis
    until = dt.datetime.fromtimestamp((first + 0) / 1000, dt.UTC)
    assert {number for number, _ in _rows(table.follow(from_=1, until=until))} >= {1}
    assert _rows(table.follow(from_=1, until="2020-01-01")) == []
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.3)
    assert len(_rows(table.follow(from_=1, until=soon, poll=0.05))) == 6


def test_a_bounded_watermark_ends(table: pp.Table) -> None:
    given = {"scan.bounded.watermark": "0"}
    iterator = table.follow(from_=3, options=given, poll=0.01)
    assert next(iterator).snapshot == 3
    iterator.close()
    assert list(iterator) == []


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
@pytest.mark.parametrize("from_", sampled(["latest-full", 1], 1))
def test_it_stops_and_goes_on_at_every_batch(table: pp.Table, from_: Any, batch_rows: int) -> None:
    options = {"source.split.target-size": "1b", "source.split.open-file-cost": "1b"}
    table.append({"id": [7], "v": ["x"]})
    table.append({"id": list(range(100, 105)), "v": ["a"] * 5})

    def restarted(position: Any) -> Follow:
        where = {} if position else {"from_": from_}
        follow = table.follow(position=position, until="latest", options=options, where="v <> 'x'", **where)
        follow._batch_rows = batch_rows
        return follow

    whole = _rows(restarted(None))
    assert len(whole) == 11
    seen: list[tuple[int, int]] = []
    position = None
    while (change := next(restarted(position), None)) is not None:
        seen += [(change.snapshot, row["id"]) for row in change.batch.to_pylist()]
        position = change.position.to_json()
    assert seen == whole


def test_a_position_inside_of_a_snapshot_needs_its_filter(table: pp.Table) -> None:
    table.append({"id": list(range(20, 25)), "v": ["a"] * 5})
    follow = table.follow(from_=4, until="latest")
    follow._batch_rows = 2
    position = next(follow).position
    assert (position.next, position.rows) == (4, 2)
    assert [id_ for _, id_ in _rows(table.follow(position=position, until="latest"))] == [22, 23, 24]
    with pytest.raises(OptionError, match="other files"):
        list(table.follow(position=position, until="latest", where="id > 0"))
    with pytest.raises(OptionError, match="other files"):
        list(table.follow(position=position, until="latest", other_kinds="drop"))


def test_it_waits_for_what_comes(table: pp.Table) -> None:
    seen: list[int] = []

    def read() -> None:
        seen.extend(change.snapshot for change in table.follow(from_="latest", poll=0.01, until=6))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3):
        time.sleep(0.05)
        table.append({"id": [number], "v": ["n"]})
    reader.join(60)
    assert seen == [4, 5, 6]


def test_a_row_is_given_by_the_first_look_after_its_commit(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        table.append({"id": [len(pauses)], "v": ["n"]})

    monkeypatch.setattr("paimon_pyds.engine.stream.follow.time.sleep", sleep)
    seen = [(change.snapshot, len(pauses)) for change in table.follow(from_="latest", poll=7, until=23)]
    assert seen == [(3 + number, number) for number in range(1, 21)]
    assert pauses == [7] * 20


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_consumer_is_where_it_goes_on(table: pp.Table, mode: str) -> None:
    follow = table.follow(from_=1, consumer_id="job", until="latest", options={"consumer.mode": mode})
    next(follow)
    assert table.maintenance.consumers() == {"job": 1, "job.retained": 1}, "the first change is not processed yet"
    next(follow)
    assert table.maintenance.consumers() == {"job": 2, "job.retained": 1}
    follow.close()
    assert _rows(table.follow(from_=1, consumer_id="job", until=2)) == [(2, 1), (2, 11)]
    assert table.maintenance.consumers() == {"job": 3, "job.retained": 2}
    assert _rows(table.follow(consumer_id="job", until="latest")) == [(3, 2), (3, 12)]
    assert table.maintenance.consumers() == {"job": 4, "job.retained": 3}


def test_a_consumer_without_news_does_not_grow_old(table: pp.Table) -> None:
    follow = table.follow(from_=3, consumer_id="job", options={"consumer.expiration-time": "4 ms"})
    assert _rows(islice(follow, 1)) == [(3, 2), (3, 12)]
    assert follow.try_next() is None
    files = [Path(table.path, "consumer", f"consumer-{name}") for name in ("job", "job.retained")]
    for _ in range(2):
        for file in files:
            os.utime(file, (0, 0))
        time.sleep(0.002)
        assert follow.try_next() is None
        assert all(file.stat().st_mtime > 0 for file in files)
    assert table.maintenance.consumers() == {"job": 4, "job.retained": 3}
    table.maintenance.clear_consumers()
    time.sleep(0.002)
    assert follow.try_next() is None
    assert table.maintenance.consumers() == {}, "one that was removed by hand stays away until there is progress"


def test_kinds_are_beside_rows_where_wanted(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "k", "id BIGINT", primary_key=["id"], options={"bucket": "1"})
    table.append({"id": [1, 2]})
    table.delete("id = 1")
    changes = list(table.follow(from_=1, until="latest", rowkind_column="op"))
    assert [change.batch.to_pylist() for change in changes] == [
        [{"op": "+I", "id": 1}, {"op": "+I", "id": 2}], [{"op": "-D", "id": 1}],
    ]  # fmt: skip
    assert _rows(table.follow(from_=1, until="latest", other_kinds="drop")) == [(1, 1), (1, 2)]
    refusing = table.follow(from_=1, until="latest")
    start = refusing.position
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="kind -D"):
            next(refusing)
    assert refusing.position == start


def test_two_followers_see_the_same(table: pp.Table) -> None:
    one, two = (table.follow(from_=1, until="latest") for _ in range(2))
    pairs = list(zip(one, two, strict=True))
    assert all(a.batch == b.batch and a.position == b.position for a, b in pairs)
    assert len(pairs) == 3


def test_async_for(table: pp.Table) -> None:
    async def read() -> list[int]:
        return [change.snapshot async for change in table.follow(from_=1, until="latest")]

    assert asyncio.run(read()) == [1, 2, 3]


def test_waiting_does_not_block_the_loop(table: pp.Table) -> None:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.005)

    async def read() -> list[int]:
        ticking = asyncio.create_task(tick())
        async with table.follow(from_="latest", poll=0.02, until=4) as follow:
            found = [change.snapshot async for change in follow]
        ticking.cancel()
        return found

    async def main() -> list[int]:
        reading = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        await asyncio.to_thread(table.append, {"id": [1], "v": ["n"]})
        return await asyncio.wait_for(reading, 60)

    assert asyncio.run(main()) == [4]
    assert len(ticks) > 3


def test_a_cancelled_read_loses_nothing(table: pp.Table) -> None:
    async def main() -> list[int]:
        follow = table.follow(from_=1, until="latest", poll=0.01)
        found: list[int] = []
        advance, slow = follow._advance, threading.Event()

        def slowly() -> Change | None:
            slow.wait(0.05)
            return advance()

        follow._advance = slowly  # type: ignore[method-assign]
        while True:
            try:
                change = await asyncio.wait_for(anext(follow), 0.01 if len(found) < 2 and not slow.is_set() else 60)
            except TimeoutError:
                await asyncio.sleep(0.1)
                slow.set()
                continue
            except StopAsyncIteration:
                return found
            found.append(change.snapshot)
            slow.clear()

    assert asyncio.run(main()) == [1, 2, 3]


@pytest.mark.parametrize("poll", [0, -1, "0 s", "soon"])
def test_bad_pauses(table: pp.Table, poll: Any) -> None:
    with pytest.raises(OptionError):
        table.follow(poll=poll)


def test_bad_arguments(table: pp.Table) -> None:
    with pytest.raises(ArgumentTypeError):
        table.follow(poll=[])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="together"):
        table.follow(from_=1, position=table.follow().position)
    with pytest.raises(OptionError, match="position"):
        table.follow(position="{}")
    with pytest.raises(OptionError, match="only one of"):
        table.follow(from_=1, options={"scan.timestamp": "2020-01-01"})


def test_text_numbers_of_positions_of_an_empty_table(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "e", "id BIGINT")
    assert list(table.follow(until="latest")) == []
    follow = table.follow(poll=0.01, until=1)
    table.append({"id": [1]})
    assert _rows(follow) == [(1, 1)]
