"""Calls side by side, on threads: what takes time is waiting for a storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sized
from typing import TYPE_CHECKING, TypeVar

from paimon_pyds.storage import FileIO, requests_at_once

if TYPE_CHECKING:
    from concurrent.futures import Future

_T = TypeVar("_T")
_R = TypeVar("_R")


def threads_for(io: FileIO, local: int) -> int:
    """The number of threads that send requests to a storage at a time; ``local`` on local disks."""
    return requests_at_once(io) or local


def concurrent_each(call: Callable[[_T], object], items: Iterable[_T], threads: int) -> None:
    """Make a call for each item; arguments and errors as those of `concurrent_map`."""
    deque(concurrent_map(call, items, threads), 0)


def concurrent_map(call: Callable[[_T], _R], items: Iterable[_T], threads: int) -> Generator[_R, None, None]:
    """The results of a call for each item, in order, a few of them ahead of the consumer.

    The first error is raised once all calls that began have ended; no more begin.

    ``call``: on any thread; with one thread or one item, on the caller's. ``items``: taken on the caller's thread.
    ``threads``: calls at a time, at most.
    """
    if isinstance(items, Sized):
        threads = min(threads, len(items))
    if threads < 2:
        yield from map(call, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(threads, thread_name_prefix="paimon-requests")
    begun: deque[Future[_R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(call, item))
            if len(begun) > 2 * threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
