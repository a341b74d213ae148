"""Calls side by side: in order, so many at a time, and none after an error."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count, islice

import pytest

from paimon_pyds.storage.concurrent import concurrent_map, threads_for
from paimon_pyds.storage.local import LocalFileIO


def test_calls_run_side_by_side_and_results_come_in_order() -> None:
    together = threading.Barrier(4, timeout=60)  # breaks where fewer than four run at a time

    def call(number: int) -> int:
        together.wait()
        return number

    assert list(concurrent_map(call, range(12), 4)) == list(range(12))


@pytest.mark.parametrize(("items", "threads"), [([1], 8), ([1, 2], 1), ([], 8), (range(1), 8)])
def test_few_calls_run_on_the_caller(items: Sequence[int], threads: int) -> None:
    found = list(concurrent_map(lambda _: threading.current_thread(), items, threads))
    assert found == [threading.current_thread()] * len(items)


def test_endless_items_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []
    results = concurrent_map(taken.append, count(), 3)
    assert list(islice(results, 5)) == [None] * 5
    results.close()
    assert len(taken) <= 5 + 2 * 3 + 1


def test_after_an_error_no_call_begins() -> None:
    begun: list[int] = []

    def call(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise ValueError(number)

    with pytest.raises(ValueError, match="2"):
        list(concurrent_map(call, range(1000), 2))
    before = len(begun)
    assert before <= 2 + 2 * 2 + 2 and len(begun) == before


def test_local_disks_have_their_own_number() -> None:
    assert threads_for(LocalFileIO(), 7) == 7
