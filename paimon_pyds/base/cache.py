"""Values that are worked out once: of an object, and of a process within a bound in bytes."""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):
    """`functools.cached_property` without its lock, as it is from Python 3.12 on; before, one lock for all objects of a
    class let all scans of a process plan one after the other, and a child that was forked meanwhile waited for ever.

    Two threads that read the property at the same time may both compute the value; the later one stays.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[_T] | _T:
        if instance is None:
            return self
        # Not a data descriptor: from now on the instance's own attribute is found first.
        value = instance.__dict__[self._name] = self._function(instance)
        return value


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage is collected within: where very many objects are made that all stay, each search for cycles would look
    at those made before, which takes as long again. Threads may be within at once; the first to leave ends it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class ByteLimitedCache:
    """A thread-safe map that forgets values once they weigh more than ``limit`` bytes together.

    Values that threads share are loaded by `get_or_load`: two may load one at once, and the second result is dropped.
    Values that one thread at a time may use are taken out by `take` and come back by `put`. Values that exceed the
    limit are not cached.

    Such a map lives as long as the process, and its lock works in a child that was forked while a thread held it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[Hashable, tuple[Any, int, int]] = OrderedDict()
        """Value, weight and place in ``_keys``, the least recently used first."""
        self._keys: list[Hashable] = []
        self.weight = 0
        """Size of all cached values, in bytes."""
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def get_or_load(self, key: Hashable, load: Callable[[], _T], weigh: Callable[[_T], int]) -> _T:
        """The value of a key; ``load`` gives it and ``weigh`` its size in bytes when it is not here.

        What was used least recently makes room for it.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return cast(_T, entry[0])
        value = load()
        weight = weigh(value)
        with self._lock:
            if key not in self._entries and weight <= self.limit:
                while self.weight + weight > self.limit:
                    self._remove(next(iter(self._entries)))
                self._add(key, value, weight)
        return value

    def peek(self, key: Hashable) -> Any:
        """The value of a key if it is here, else None."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry[0]

    def take(self, key: Hashable) -> Any:
        """The value of a key, which is no longer here afterwards; None when it was not here."""
        with self._lock:
            return self._remove(key) if key in self._entries else None

    def put(self, key: Hashable, value: Any, weight: int) -> None:
        """Cache a value of ``weight`` bytes; it replaces the former value of the key.

        Random values are dropped to make room: if it were the oldest ones, a caller that reads more values than fit,
        again and again in the same order, would never find one.
        """
        import random

        with self._lock:
            if key in self._entries:
                self._remove(key)
            if weight > self.limit:
                return
            while self.weight + weight > self.limit:
                self._remove(random.choice(self._keys))
            self._add(key, value, weight)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._keys.clear()
            self.weight = 0

    def _forked(self) -> None:
        # A thread that the child does not have may hold the lock before `locked` says so. What one is at that has it
        # in full is half done.
        held, self._lock = self._lock.locked(), threading.Lock()
        if held:
            self.clear()

    def _add(self, key: Hashable, value: Any, weight: int) -> None:
        self._entries[key] = (value, weight, len(self._keys))
        self._keys.append(key)
        self.weight += weight

    def _remove(self, key: Hashable) -> Any:
        value, weight, place = self._entries.pop(key)
        last = self._keys.pop()
        if place < len(self._keys):  # the last key takes the place that is free now
            self._keys[place] = last
            self._entries[last] = (*self._entries[last][:2], place)
        self.weight -= weight
        return value
