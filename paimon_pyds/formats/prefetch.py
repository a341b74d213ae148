"""Running generators on threads a little ahead of who takes their items: in order, and in bounded memory.

What makes the items (decoding, mostly) releases the interpreter's lock; the consumer takes them as if one generator ran
after the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["in_order"]

_T = TypeVar("_T")
_Source = Generator[_T, None, None]


def in_order(
    sources: Iterable[_Source[_T]],
    *,
    threads: int,
    held: int,
    size: Callable[[_T], int],
    permits: threading.Semaphore | None = None,
) -> Generator[_T, None, None]:
    """The items of all sources, one source after the other, several sources running at a time.

    Nothing runs ahead before the first item was taken: who wants one item only pays for one. An error of a source comes
    after its items, at its place in the order. Closing this iterator closes the sources and waits for the threads.

    Args:
        sources: taken one by one, on the caller's thread; each runs on one thread at a time.
        threads: how many run at a time, at most.
        held: bytes of items that may wait for the caller, beside one item per thread. The source whose turn it is goes
            on beyond that when none of its own wait.
        size: bytes of an item.
        permits: for threads, shared with other calls. A source that gets none runs on the caller's thread when it is
            its turn.
    """
    line = _Line(iter(sources), threads, held, size, permits)
    try:
        yield from line.items()
    finally:
        line.stop()


class _Line(Generic[_T]):
    """The sources that were begun, the one whose turn it is first."""

    def __init__(
        self,
        sources: Iterator[_Source[_T]],
        threads: int,
        held: int,
        size: Callable[[_T], int],
        permits: threading.Semaphore | None,
    ) -> None:
        self._sources = sources
        self._threads = threads
        self._limit = held
        self.size = size
        self.permits = permits
        self.streams: deque[_Stream[_T]] = deque()
        self.changed = threading.Condition()
        self.held = 0
        self.stopped = False

    def items(self) -> Iterator[_T]:
        while self.streams or self._add():
            for item in self.streams[0].items():
                yield item
                self._go_ahead()
            with self.changed:
                self.streams.popleft()
                self.changed.notify_all()
            if self.streams:
                self._go_ahead()

    def full(self, stream: _Stream[_T]) -> bool:
        """Whether a source has to wait: enough is held, and the caller does not wait for it. With the lock held."""
        if self.stopped or self.held < self._limit:
            return False
        return stream is not self.streams[0] or stream.waiting > 0

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        for stream in self.streams:
            stream.stop()

    def _add(self) -> bool:
        source = next(self._sources, None)
        if source is not None:
            with self.changed:
                self.streams.append(_Stream(self, source))
        return source is not None

    def _go_ahead(self) -> None:
        """Start as many sources as may run. A single one runs on the caller's thread: it has nothing to run beside."""
        while self._running() < self._threads and len(self.streams) < 2 * self._threads and self._add():
            pass
        if len(self.streams) == 1:
            return
        for stream in self.streams:
            if not stream.started and not stream.start():
                return

    def _running(self) -> int:
        return sum(not stream.done for stream in self.streams)


class _Stream(Generic[_T]):
    """One source, and its items that wait."""

    def __init__(self, line: _Line[_T], source: _Source[_T]) -> None:
        self._line = line
        self._source = source
        self._ready: deque[_T] = deque()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.done = False

    @property
    def started(self) -> bool:
        """Whether a thread runs it."""
        return self._thread is not None or self.done

    @property
    def waiting(self) -> int:
        """Items that wait for the caller."""
        return len(self._ready)

    def start(self) -> bool:
        """Go on with it on a thread, if there is a permit."""
        permits = self._line.permits
        if permits is not None and not permits.acquire(blocking=False):
            return False
        self._thread = threading.Thread(target=self._fill, name="paimon-prefetch", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None
            if permits is not None:
                permits.release()
            raise
        return True

    def items(self) -> Iterator[_T]:
        while True:
            if self._thread is None:
                try:
                    item = next(self._source)
                except StopIteration:
                    self.done = True
                    return
            else:
                found = self._wait()
                if not found:
                    return
                item = found[0]
            yield item

    def stop(self) -> None:
        if self._thread is None:
            self._source.close()
        else:
            self._thread.join()

    def _wait(self) -> list[_T]:
        """The next item, none at the end."""
        line = self._line
        with line.changed:
            line.changed.wait_for(lambda: self._ready or self.done)
            if self._ready:
                item = self._ready.popleft()
                line.held -= line.size(item)
                line.changed.notify_all()
                return [item]
        if self._error is not None:
            raise self._error
        return []

    def _fill(self) -> None:
        try:
            for item in self._source:
                if not self._put(item):
                    break
            self._source.close()
        except BaseException as error:  # noqa: BLE001 - carried to the consumer, who raises it
            self._error = error
        if self._line.permits is not None:
            self._line.permits.release()
        with self._line.changed:
            self.done = True
            self._line.changed.notify_all()

    def _put(self, item: _T) -> bool:
        line = self._line
        with line.changed:
            self._ready.append(item)
            line.held += line.size(item)
            line.changed.notify_all()
            line.changed.wait_for(lambda: not line.full(self))
            return not line.stopped
