"""Attempts and the pauses between them."""

from __future__ import annotations

import pytest

from paimon_pyds.base.options.table_options import TableOptions
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.engine.commit.publisher import Retries


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def test_pauses_grow_to_the_longest() -> None:
    assert [Pauses(0.5, 20.0, factor=4.0).after(attempt) for attempt in range(1, 6)] == [0.5, 2.0, 8.0, 20.0, 20.0]
    assert Pauses(0.1, 8.0).after(100_000) == 8.0


@pytest.mark.parametrize(
    ("pauses", "attempt", "least", "most"),
    [(Pauses(1, 9, jitter=0.5), 1, 0.5, 1), (Pauses(1, 9, jitter=0.5), 3, 2, 4), (Pauses(1, 9, least=0.2), 3, 0.2, 4)],
)
def test_chance_takes_a_part_of_a_pause(pauses: Pauses, attempt: int, least: float, most: float) -> None:
    found = [pauses.after(attempt) for _ in range(200)]
    assert least <= min(found) < (3 * least + most) / 4
    assert (least + 3 * most) / 4 < max(found) <= most


def test_attempts_end_with_the_last_error(waited: list[float]) -> None:
    retry, tried = Retry(Pauses(1, 9), attempts=3), list[int]()

    def work() -> int:
        tried.append(retry.count)
        raise ValueError(len(tried))

    with pytest.raises(ValueError, match="3"):
        retry.call(work, KeyError, ValueError)
    assert (tried, waited) == ([1, 2, 3], [1, 2])


def test_other_errors_end_them_at_once(waited: list[float]) -> None:
    def work() -> int:
        raise KeyError

    with pytest.raises(KeyError):
        Retry(Pauses(1, 9), attempts=3).call(work, ValueError)
    assert waited == []


def test_a_result_ends_them(waited: list[float]) -> None:
    found: list[int | ValueError] = [ValueError(), 7]
    results = iter(found)

    def work() -> int:
        result = next(results)
        if isinstance(result, ValueError):
            raise result
        return result

    assert Retry(Pauses(1, 9), attempts=3).call(work, ValueError) == 7
    assert waited == [1]


def test_time_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    retry, error = Retry(seconds=60), ValueError()
    now = 159.9
    assert not retry.exhausted
    now = 160.0
    with pytest.raises(ValueError) as raised:
        retry.again(error)
    assert raised.value is error


def test_a_server_may_say_how_long_to_wait(waited: list[float]) -> None:
    retry = Retry(Pauses(1, 9), attempts=3)
    retry.next(7)
    retry.again(ValueError())
    assert (retry.count, retry.exhausted, waited) == (3, True, [7, 2])


def test_commits_go_by_the_options_of_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause is between a half of the least one and twice it, four times it, …, the longest."""
    bounds: list[tuple[float, float]] = []
    monkeypatch.setattr("random.uniform", lambda *given: bounds.append(given) or 0.0)
    waits = {"commit.min-retry-wait": "10 ms", "commit.max-retry-wait": "60 ms"}
    retries = Retries()
    assert retries.exhausted
    retries.go_by(TableOptions({"commit.max-retries": "4", **waits}))
    for _ in range(4):
        retries.again(ValueError())
    assert bounds == [(0.005, 0.02), (0.005, 0.04), (0.005, 0.06), (0.005, 0.06)]
    assert retries.exhausted
    late = Retries(TableOptions({"commit.timeout": "1 ms"}))
    late.began -= 1
    assert late.exhausted
