"""Doing a few pieces of work at the same time and waiting for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

__all__ = ["all_of"]

_T = TypeVar("_T")


def all_of(pieces: Sequence[Callable[[], _T]], threads: int, permits: threading.Semaphore) -> list[_T]:
    """What each piece returns, in their order. The caller's thread works too.

    Raises what the first piece that failed raised; the others are then not begun.

    Args:
        pieces: of work that releases the interpreter's lock for the most part.
        threads: how many run at a time, at most.
        permits: permits for more threads than the caller's, shared with other calls; without one it works alone.
    """
    helpers: list[threading.Semaphore] = []
    while len(helpers) + 1 < min(threads, len(pieces)) and permits.acquire(blocking=False):
        helpers.append(permits)
    if not helpers:
        return [piece() for piece in pieces]
    pool = _Pool(pieces)
    running = [threading.Thread(target=pool.work, name="paimon-parallel", daemon=True) for _ in helpers]
    try:
        for thread in running:
            thread.start()
        pool.work()
    finally:
        for thread in running:
            if thread.ident is not None:
                thread.join()
        for permit in helpers:
            permit.release()
    return pool.results()


class _Pool:
    def __init__(self, pieces: Sequence[Callable[[], Any]]) -> None:
        self._pieces = pieces
        self._results: list[Any] = [None] * len(pieces)
        self._errors: dict[int, BaseException] = {}
        self._next = iter(range(len(pieces)))
        self._lock = threading.Lock()

    def work(self) -> None:
        while not self._errors:
            with self._lock:
                at = next(self._next, None)
            if at is None:
                return
            try:
                self._results[at] = self._pieces[at]()
            except BaseException as error:  # noqa: BLE001 - carried to the caller, who raises it
                self._errors[at] = error

    def results(self) -> list[Any]:
        if self._errors:
            raise self._errors[min(self._errors)]
        return self._results
