"""What was read from immutable metadata files, kept for the next plan in this process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

__all__ = ["METADATA_CACHE", "ByteLimitedCache"]

T = TypeVar("T")


class ByteLimitedCache:
    """A thread-safe map that forgets what was used least recently once its values weigh more than ``limit`` bytes.

    Two threads may load the same value at once; the second result is dropped. What exceeds the limit is not kept.
    Such a map lives as long as the process, and its lock works in a child that was forked while a thread held it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def get_or_load(self, key: Hashable, load: Callable[[], T], weigh: Callable[[T], int]) -> T:
        """The value of a key; ``load`` gives it and ``weigh`` its size in bytes when it is not here."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return cast(T, entry[0])
        value = load()
        weight = weigh(value)
        with self._lock:
            if key not in self._entries and weight <= self._limit:
                self._entries[key] = (value, weight)
                self._weight += weight
                self._shrink()
        return value

    def peek(self, key: Hashable) -> Any:
        """The value of a key if it is here, else None."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry[0]

    @property
    def weight(self) -> int:
        """The weight of what is kept, in bytes."""
        return self._weight

    @property
    def limit(self) -> int:
        """The bound in bytes."""
        return self._limit

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _forked(self) -> None:
        if self._lock.locked():  # by a thread that the child does not have: what it was at is half done
            self._lock = threading.Lock()
            self.clear()

    def _shrink(self) -> None:
        while self._weight > self._limit:
            _, (_, weight) = self._entries.popitem(last=False)
            self._weight -= weight


METADATA_CACHE = ByteLimitedCache(256 << 20)
"""Decoded manifests and manifest lists of this process, by path and size. Names are unique, so nothing gets stale."""
