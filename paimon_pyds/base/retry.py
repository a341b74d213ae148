"""Attempts that are repeated after a pause: where a file is half written, a server is busy, or another was faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from paimon_pyds.base.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses between attempts, in seconds, which grow by ``factor`` from ``first`` to ``longest``. Chance takes up to
    the share ``jitter`` of each away, or leaves ``least`` seconds of it, so that writers don't collide again."""

    first: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0
    least: float | None = None

    def after(self, attempt: int) -> float:
        """The pause after an attempt, whose number is counted from 1."""
        import random  # seldom

        most = min(self.longest, self.first * self.factor ** min(attempt - 1, 15))
        return random.uniform(most * (1 - self.jitter) if self.least is None else self.least, most)


_NO_PAUSES = Pauses(0.0, 0.0)


class Retry:
    """The attempts of one operation.

    ``pauses``: between attempts. ``attempts``: how many there may be. ``seconds``: since ``began``, after which no
    attempt begins. None stands for no bound. ``count``: the number of the attempt that runs, from 1.
    """

    def __init__(self, pauses: Pauses = _NO_PAUSES, attempts: int | None = None, seconds: float | None = None) -> None:
        self.pauses, self.attempts, self.seconds = pauses, attempts, seconds
        self.count, self.began = 1, time.monotonic()

    @property
    def exhausted(self) -> bool:
        """Whether there is no further attempt."""
        is_late = self.seconds is not None and time.monotonic() - self.began >= self.seconds
        return is_late or (self.attempts is not None and self.count >= self.attempts)

    def again(self, error: Exception) -> None:
        """Wait, and begin the next attempt; raise the error of this attempt if it was the last one."""
        if self.exhausted:
            raise error
        self.next()

    def next(self, seconds: float | None = None) -> None:
        """Wait, and begin the next attempt. ``seconds``: the pause, in place of the usual one."""
        self.pause(seconds)
        self.count += 1

    def pause(self, seconds: float | None = None) -> None:
        """Wait only: the caller counts the next attempt when it begins."""
        time.sleep(self.pauses.after(self.count) if seconds is None else seconds)

    def call(self, work: Callable[[], T], *errors: type[Exception]) -> T:
        """The result of ``work``, which is called again after one of these errors. Raises the last of them."""
        while True:
            try:
                return work()
            except errors as error:
                self.again(error)
