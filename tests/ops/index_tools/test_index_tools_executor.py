"""The seam that work is spread through: every result is given, and the first error comes last."""

from __future__ import annotations

import threading
import time

import pytest

from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.errors import CorruptFileError, OptionError


def _double(number: int) -> int:
    if number < 0:
        raise CorruptFileError(f"task {number}")
    return 2 * number


@pytest.mark.parametrize("workers", [None, 1, 2, 5])
@pytest.mark.parametrize("tasks", [0, 1, 2, 40])
def test_every_result_comes_once(workers: int | None, tasks: int) -> None:
    assert sorted(LocalExecutor(workers).map(_double, range(tasks))) == [2 * n for n in range(tasks)]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_was_done_is_given_before_the_error(workers: int) -> None:
    started: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> int:
        with lock:
            started.append(number)
        time.sleep(0.01)
        return _double(number)

    done: list[int] = []
    with pytest.raises(CorruptFileError, match="task -1"):
        for result in LocalExecutor(workers).map(work, [1, 2, -1, *range(10, 500)]):
            done.append(result)  # noqa: PERF402 - the list is looked at after the error
    assert sorted(done) == sorted(2 * n for n in started if n >= 0)
    assert len(started) < 50, "no further task is started"


def test_an_abandoned_iterator_starts_nothing_more() -> None:
    started: list[int] = []

    def work(number: int) -> int:
        started.append(number)
        return number

    results = LocalExecutor(2).map(work, range(1000))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(started) < 20


def test_workers_are_some() -> None:
    with pytest.raises(OptionError, match="worker"):
        LocalExecutor(0)
