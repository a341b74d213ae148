"""Sources that run ahead give what they would give one after the other, and stop when nobody takes their items."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.format import threads
from paimon_pyds.format.threads import in_order


def _counting(items: list[int], closed: list[int], number: int) -> Generator[int, None, None]:
    try:
        yield from items
    finally:
        closed.append(number)


@given(
    st.lists(st.lists(st.integers(0, 100), max_size=8), max_size=8),
    st.integers(1, 4),
    st.integers(0, 200),
    st.one_of(st.none(), st.integers(0, 3)),
    st.booleans(),
)
def test_items_come_in_order_whatever_runs_ahead(
    sources: list[list[int]], threads: int, held: int, free: int | None, eager: bool
) -> None:
    closed: list[int] = []
    permits = None if free is None else threading.Semaphore(free)
    made = (_counting(items, closed, i) for i, items in enumerate(sources))
    found = list(in_order(made, threads=threads, held=held, size=lambda x: x, permits=permits, eager=eager))
    assert found == [x for items in sources for x in items]
    assert sorted(closed) == list(range(len(sources)))
    if permits is not None:
        assert sum(permits.acquire(blocking=False) for _ in range(5)) == free


def test_who_takes_one_item_begins_one_source() -> None:
    begun: list[int] = []

    def source(number: int) -> Generator[int, None, None]:
        begun.append(number)
        yield number
        yield number

    items = in_order(map(source, range(9)), threads=3, held=100, size=lambda _: 1)
    assert next(items) == 0
    assert begun == [0]


def test_sources_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)

    def source(number: int) -> Generator[int, None, None]:
        yield number
        meeting.wait()
        yield number

    assert list(in_order(map(source, range(3)), threads=3, held=100, size=lambda _: 1)) == [0, 0, 1, 1, 2, 2]


def test_eager_sources_run_before_an_item_was_taken() -> None:
    meeting = threading.Barrier(2, timeout=60)

    def source(number: int) -> Generator[int, None, None]:
        meeting.wait()
        yield number

    assert list(in_order(map(source, range(2)), threads=2, held=1, size=lambda _: 1, eager=True)) == [0, 1]


def test_what_waits_is_bounded() -> None:
    made = [0] * 6

    def source(number: int) -> Generator[int, None, None]:
        for _ in range(50):
            made[number] += 1
            yield number

    taken = 0
    for _ in in_order(map(source, range(6)), threads=2, held=10, size=lambda _: 1):
        taken += 1
        time.sleep(0.001)  # the sources are faster
        assert sum(made) - taken <= 10 + 2 * 2, made
    assert taken == 300


def test_an_error_comes_after_the_items_before_it() -> None:
    def source(number: int) -> Generator[int, None, None]:
        yield number
        if number == 2:
            raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        for item in in_order(map(source, range(5)), threads=2, held=100, size=lambda _: 1):
            found.append(item)  # noqa: PERF402 - what came before the error counts
    assert found == [0, 1, 2]


def test_closing_stops_the_threads_and_closes_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(threads, "_idle", deque())
    closed: list[int] = []
    before = {*threading.enumerate()}  # those of other tests may end meanwhile
    items = in_order(
        (_counting(list(range(1000)), closed, i) for i in range(4)), threads=3, held=8, size=lambda _: 1
    )  # fmt: skip
    for _ in range(5):
        next(items)
    new = {*threading.enumerate()} - before
    assert new
    items.close()
    for thread in new:
        thread.join(60)
        assert not thread.is_alive()
    assert 0 in closed and len(closed) == len(set(closed))


def test_threads_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they wait already, or wait for too long and are just about to end."""
    for idle in (1.0, 0.0005):
        monkeypatch.setattr(threads, "IDLE_SECONDS", idle)
        seen: list[int] = []

        def source(number: int, seen: list[int] = seen) -> Generator[int, None, None]:
            seen.append(threading.get_ident())
            yield number

        for _ in range(200):
            assert list(in_order(map(source, range(3)), threads=2, held=9, size=lambda _: 1, eager=True)) == [0, 1, 2]
        assert len(seen) == 600 and (idle < 1 or len(set(seen)) < 50)


def test_the_same_work_again_goes_to_the_same_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has memory for it already."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 30)
    monkeypatch.setattr(threads, "_idle", deque())

    def source(number: int, seen: dict[int, int]) -> Generator[int, None, None]:
        seen[number] = threading.get_ident()
        yield number

    found = []
    for _ in range(50):
        found.append(seen := dict[int, int]())
        sources = (source(number, seen) for number in range(2))
        assert list(in_order(sources, threads=2, held=9, size=lambda _: 1, eager=True)) == [0, 1]
    assert len({ident for seen in found for ident in seen.values()}) == 2


def test_an_error_of_a_source_leaves_its_thread_to_others() -> None:
    def broken(number: int) -> Generator[int, None, None]:
        yield number
        raise ValueError(f"broken {number}")

    for _ in range(20):
        with pytest.raises(ValueError, match="broken 0"):
            list(in_order(map(broken, range(3)), threads=2, held=9, size=lambda _: 1, eager=True))
    assert list(in_order((iter_of(i) for i in range(3)), threads=3, held=9, size=lambda _: 1, eager=True)) == [0, 1, 2]


def iter_of(number: int) -> Generator[int, None, None]:
    """A source of one item."""
    yield number
