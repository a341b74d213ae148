"""Work on several threads: pieces that are done at the same time, and generators that run ahead of their consumer.

Threads pay where the work, decoding mostly, releases the interpreter's lock.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from paimon_pyds.base.records import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_T = TypeVar("_T")
_Source = Generator[_T, None, None]
_Work = Callable[[Callable[[], None]], None]


def all_of(pieces: Sequence[Callable[[], _T]], threads: int, permits: threading.Semaphore) -> list[_T]:
    """What each piece returns, in their order. The caller's thread works too.

    Raises what the first piece that failed raised; the others are then not begun.

    ``threads``: how many run at a time, at most. ``permits``: permits for more threads than the caller's, shared with
    other calls; without one it works alone.
    """
    helpers = 0
    while helpers + 1 < min(threads, len(pieces)) and permits.acquire(blocking=False):
        helpers += 1
    if not helpers:
        return [piece() for piece in pieces]
    from concurrent.futures import wait

    results: dict[int, _T] = {}
    errors: dict[int, BaseException] = {}
    numbers, lock = iter(range(len(pieces))), threading.Lock()

    def work() -> None:
        while not errors:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                results[number] = pieces[number]()
            except BaseException as error:  # noqa: BLE001 - carried to the caller, which raises it
                errors[number] = error

    running: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # the interpreter is ending: this thread does it all
            running.extend(_pool().submit(work) for _ in range(helpers))
        work()
    finally:
        wait(future for future in running if not future.cancel())
        permits.release(helpers)
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(pieces))]


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that live on: when a thread ends, its memory is returned to the system page by page, which takes time."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(4 * (os.cpu_count() or 1), "paimon-parallel")


if hasattr(os, "register_at_fork"):  # a child lacks the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_order(
    sources: Iterable[_Source[_T]],
    *,
    threads: int,
    held: int,
    size: Callable[[_T], int],
    permits: threading.Semaphore | None = None,
    eager: bool = False,
) -> Generator[_T, None, None]:
    """The items of all sources, one source after the other, several sources running at a time, in bounded memory.

    Unless ``eager``, nothing runs ahead before the first item was taken: a caller that wants a single item pays for
    one. An error of a source comes after its items, at its place in the order. Closing this iterator closes the sources
    and waits for the threads.

    Args:
        sources: taken one by one, on the caller's thread; each runs on one thread at a time.
        threads: how many run at a time, at most.
        held: bytes of items that may wait for the caller, in addition to one item per thread. The source whose turn it
            is may exceed that while no item of its own waits.
        size: bytes of an item.
        permits: for threads, shared with other calls. A source that gets none runs on the caller's thread when it is
            its turn.
        eager: all items are wanted, and may be few: sources run from the start.
    """
    prefetcher = _Prefetcher(iter(sources), threads, held, size, permits)
    try:
        if eager:
            prefetcher.go_ahead()
        yield from prefetcher.items()
    finally:
        prefetcher.stop()


@dataclass(eq=False, slots=True)
class _Prefetcher(Generic[_T]):
    """The sources that were begun, ``streams``, the one whose turn it is first; arguments are those of `in_order`."""

    sources: Iterator[_Source[_T]]
    threads: int
    most_held: int
    size: Callable[[_T], int]
    permits: threading.Semaphore | None
    streams: deque[_Stream[_T]] = field(default_factory=deque)
    changed: threading.Condition = field(default_factory=threading.Condition)
    held: int = 0
    stopped: bool = False

    def items(self) -> Iterator[_T]:
        while self.streams or self._add():
            for item in self.streams[0].items():
                yield item
                self.go_ahead()
            with self.changed:
                self.streams.popleft()
                self.changed.notify_all()
            if self.streams:
                self.go_ahead()

    def full(self, stream: _Stream[_T]) -> bool:
        """Whether a source has to wait: enough is held, and the caller does not wait for it. With the lock held."""
        if self.stopped or self.held < self.most_held:
            return False
        return stream is not self.streams[0] or bool(stream.ready)

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        for stream in self.streams:
            stream.stop()

    def _add(self) -> bool:
        source = next(self.sources, None)
        if source is not None:
            with self.changed:
                self.streams.append(_Stream(self, source))
        return source is not None

    def go_ahead(self) -> None:
        """Start as many sources as may run. A single one runs on the caller's thread, as there is nothing to run in
        parallel."""
        while (
            sum(not stream.done for stream in self.streams) < self.threads
            and len(self.streams) < 2 * self.threads
            and self._add()
        ):
            pass
        if len(self.streams) == 1:
            return
        for stream in self.streams:
            if not stream.on_thread and not stream.done and not stream.start():
                return


@dataclass(eq=False, slots=True)
class _Stream(Generic[_T]):
    """One source, and its items that wait."""

    prefetcher: _Prefetcher[_T]
    source: _Source[_T]
    ready: deque[_T] = field(default_factory=deque)
    on_thread: bool = False
    error: BaseException | None = None
    done: bool = False

    def start(self) -> bool:
        """Go on with it on a thread, if there is a permit."""
        permits = self.prefetcher.permits
        if permits is not None and not permits.acquire(blocking=False):
            return False
        self.on_thread = True
        try:
            _run_on_thread(self._fill)
        except BaseException:
            self.on_thread = False
            if permits is not None:
                permits.release()
            raise
        return True

    def items(self) -> Iterator[_T]:
        owner = self.prefetcher
        while True:
            if not self.on_thread:
                try:
                    item = next(self.source)
                except StopIteration:
                    self.done = True
                    return
            else:
                with owner.changed:
                    owner.changed.wait_for(lambda: self.ready or self.done)
                    if not self.ready:
                        break
                    item = self.ready.popleft()
                    owner.held -= owner.size(item)
                    owner.changed.notify_all()
            yield item
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        if not self.on_thread:
            self.source.close()
            return
        with self.prefetcher.changed:
            self.prefetcher.changed.wait_for(lambda: self.done)

    def _fill(self, end: Callable[[], None]) -> None:
        """Run the source on a thread. ``end``: called before its end shows."""
        owner = self.prefetcher
        try:
            for item in self.source:
                with owner.changed:
                    self.ready.append(item)
                    owner.held += owner.size(item)
                    owner.changed.notify_all()
                    owner.changed.wait_for(lambda: not owner.full(self))
                    if owner.stopped:
                        break
            self.source.close()
        except BaseException as error:  # noqa: BLE001 - carried to the consumer, which raises it
            self.error = error
        if owner.permits is not None:
            owner.permits.release()
        end()
        with owner.changed:
            self.done = True
            owner.changed.notify_all()


class _Worker:
    """A thread that runs one function after the other. When a thread ends, its memory is returned to the system page by
    page, and the next one has to get it again, which takes longer than reading a small file.

    A function is given another one, which it calls just before others see that it has ended: whoever begins the next
    work because of that gets the same thread."""

    def __init__(self) -> None:
        self._work = SimpleQueue[_Work]()
        threading.Thread(target=self._run, name="paimon-prefetch", daemon=True).start()

    def begin(self, work: _Work) -> None:
        self._work.put(work)

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=IDLE_SECONDS)
            except Empty:
                with suppress(ValueError):  # it was just taken: its work is about to come
                    _idle.remove(self)
                    return
                continue
            work(partial(_idle.append, self))
            del work  # what it refers to may be large


IDLE_SECONDS = 1.0
_idle: deque[_Worker] = deque()
"""Threads that wait for work, which end soon without it. The one that waits longest is next: where the same files are
read again, each thread then reads those that it read before, in memory that it has."""


def _run_on_thread(work: _Work) -> None:
    try:
        worker = _idle.popleft()
    except IndexError:
        worker = _Worker()
    worker.begin(work)


if hasattr(os, "register_at_fork"):  # a child lacks the threads
    os.register_at_fork(after_in_child=_idle.clear)
