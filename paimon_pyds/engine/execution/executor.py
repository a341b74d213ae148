"""The seam through which big work is spread: one function over many tasks, on this machine's cores or on Spark's.

The function is a module's own and the tasks are plain data, so that both pickle. `LocalExecutor` is here; the one that
runs on Spark is `paimon_pyds.spark.executor.SparkExecutor`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Generic, Protocol, TypeVar, runtime_checkable

from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.planned_file import PlannedFile

T = TypeVar("T")
R = TypeVar("R")

_WAITING_RESULTS_PER_WORKER = 2
"""Results that may wait for their consumer, per worker: bounds memory."""


class Executor(Protocol):
    """Runs one function over many tasks."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, as tasks are done: in no order.

        If a task fails, no further one is started, the results of all completed tasks are returned, and then the first
        error is raised: so the caller knows which files to remove.
        """


@runtime_checkable
class ShufflingExecutor(Executor, Protocol):
    """One that can also send data from worker to worker."""

    def shuffle(
        self,
        split: Callable[[T], Iterator[tuple[int, bytes]]],
        tasks: Sequence[T],
        gather: Callable[[int, Iterator[bytes]], R],
        parts: int,
    ) -> Iterator[R]:
        """Cut what tasks read into parts, and make a result of each part; for results and errors see `map`.

        Args:
            split: gives the number of a part and some data of it, in any order and as often as it likes.
            tasks: what ``split`` is run over.
            gather: is called once for each part that there is data of, with all of it: in the order of the tasks, and
                within these as ``split`` gave it.
            parts: how many there are, numbered from 0 on.
        """


class LocalExecutor:
    """Threads of this process, one per core by default: pyarrow and numpy work outside of the interpreter's lock."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise OptionError(f"an executor needs a worker or more, not {workers}")
        self._workers = workers or os.cpu_count() or 1

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """See `Executor`. An abandoned iterator starts no further task."""
        if self._workers == 1 or len(tasks) <= 1:
            yield from map(function, tasks)
            return
        waiting = deque(tasks)
        running: set[Future[R]] = set()
        failure: BaseException | None = None
        with ThreadPoolExecutor(min(self._workers, len(tasks)), thread_name_prefix="paimon-task") as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < self._workers * _WAITING_RESULTS_PER_WORKER:
                        running.add(pool.submit(copy_context().run, function, waiting.popleft()))
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        error = None if future.cancelled() else future.exception()
                        if error is not None:
                            failure = failure or error
                            waiting.clear()
                            for other in running:
                                other.cancel()
                        elif not future.cancelled():
                            yield future.result()
            finally:
                waiting.clear()
                for other in running:
                    other.cancel()
        if failure is not None:
            raise failure


def mapped(
    executor: Executor,
    name: str,
    function: Callable[[T], R],
    tasks: Sequence[T],
    files_of: Callable[[T], Iterable[PlannedFile]],
    *,
    by_reading: bool = True,
) -> Iterator[R]:
    """``executor.map(function, tasks)`` as a phase of the operation that runs: which files are done is counted.

    Args:
        executor: where they run.
        name: of the phase.
        function: of a module, so that it pickles.
        tasks: plain data.
        files_of: the files that a task works on; those of several tasks count with the first.
        by_reading: see `phase`.
    """
    if not phase().is_seen:
        yield from executor.map(function, tasks)
        return
    first = {file.path: (number, file) for number, task in reversed(list(enumerate(tasks))) for file in files_of(task)}
    with phase(name, (file for _, file in first.values()), by_reading=by_reading) as step:
        for number, result in executor.map(_Numbered(function), list(enumerate(tasks))):
            step.advance(file for file in files_of(tasks[number]) if first[file.path][0] == number)
            yield result


@dataclass(frozen=True, slots=True)
class _Numbered(Generic[T, R]):
    """Gives the number of a task with its result, which come in no order."""

    function: Callable[[T], R]

    def __call__(self, task: tuple[int, T]) -> tuple[int, R]:
        return task[0], self.function(task[1])
