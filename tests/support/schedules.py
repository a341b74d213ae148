"""Actors that work on one table at the same time, one I/O call at a time, and whose turn it is comes from a seed.

Each actor has a thread, which waits before every call of its FileIO. Only one runs at any moment, so that a seed gives
the same schedule again.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from paimon_pyds.base.retry import Pauses
from support.faults_io import AFTER, BEFORE, HALF, FaultyIO, full_disk
from support.memory_io import MemoryIO

_STUCK = 120.0
"""Seconds after which a schedule where nobody moves is a failure."""


class Killed(BaseException):
    """An actor's process is no more: nothing that it does has an effect."""


class Schedule:
    """Whose turn it is.

    Attributes:
        clock: how many turns there were.
    """

    def __init__(self, rng: random.Random, actors: int) -> None:
        self._rng = rng
        self._mean = rng.choice([0, 1, 10, 50])  # turns that an actor has in a row
        self._changed = threading.Condition()
        self._waiting: list[deque[threading.Event]] = [deque() for _ in range(actors)]
        self._gone: set[int] = set()
        self._turns = (-1, 0)  # who has more turns without asking, and how many
        self.clock = 0

    def wait(self, actor: int) -> None:
        """Wait for an actor's next turn."""
        turn = threading.Event()
        with self._changed:
            whose, left = self._turns
            if whose == actor and left:
                self._turns = actor, left - 1
                self.clock += 1
                return
            self._waiting[actor].append(turn)
            self._changed.notify_all()
        turn.wait()

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """Run all actors to their ends; raises what one of them raised."""
        errors: list[BaseException] = []

        def live(number: int, actor: Callable[[], None]) -> None:
            try:
                self.wait(number)
                actor()
            except BaseException as error:  # noqa: BLE001 - told by the thread of the test
                errors.append(error)
            finally:
                with self._changed:
                    self._gone.add(number)
                    self._changed.notify_all()

        for number, actor in enumerate(actors):
            threading.Thread(target=live, args=(number, actor), daemon=True).start()
        while (turn := self._next()) is not None:
            self.clock += 1
            turn.set()
        if errors:
            raise errors[0]

    def _next(self) -> threading.Event | None:
        """The next actor's turn, once all of them wait or are gone; None when all are gone."""
        with self._changed:
            if not self._changed.wait_for(self._still, _STUCK):
                raise TimeoutError("the actors wait for each other")
            ready = [n for n, turns in enumerate(self._waiting) if turns]
            if not ready:
                return None
            actor = self._rng.choice(ready)
            more = 0 if not self._mean else int(self._rng.expovariate(1 / self._mean))
            self._turns = actor, more if len(ready) > 1 else 1 << 30
            return self._waiting[actor].popleft()

    def _still(self) -> bool:
        return all(turns or n in self._gone for n, turns in enumerate(self._waiting))


class ActorIO(FaultyIO):
    """The FileIO of one actor: each call waits for its turn; one may fail, or be the last that has an effect."""

    def __init__(self, schedule: Schedule, actor: int, files: dict[str, bytes], faults: random.Random | None) -> None:
        self._schedule, self._actor = schedule, actor
        self._dead = False
        self._aim = None
        at, mode, error = None, BEFORE, full_disk
        if faults is not None:
            at, mode = faults.randrange(60), faults.choice([BEFORE, AFTER, HALF])
            self._aim = faults.choice([None, None, "create_if_absent", "write"])
            error = faults.choice([full_disk, _interrupt, self._kill])
        super().__init__(at, mode, error, io=MemoryIO(files, f"/{actor}"))

    def _kill(self, operation: str) -> BaseException:
        self._dead = True
        return Killed(operation)

    def _do(self, name: str, effect: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self._schedule.wait(self._actor)
        if self._dead:
            raise Killed(name)
        return super()._do(name, effect, half)

    def _fails(self, number: int, name: str) -> bool:
        if self.failed is not None or self._at is None:
            return False
        return name == self._aim if self._aim is not None and number >= self._at // 4 else number == self._at


def _interrupt(operation: str) -> BaseException:
    return KeyboardInterrupt(operation)


@contextmanager
def repeatable(seed: str) -> Iterator[None]:
    """Names that come from the seed, and no waiting between tries."""
    rng = random.Random(seed)
    with (
        mock.patch.object(uuid, "uuid4", side_effect=lambda: uuid.UUID(int=rng.getrandbits(128), version=4)),
        mock.patch.object(Pauses, "after", return_value=0.0),
    ):
        yield
