"""Values that are worked out once: of an object, and of a process within a bound in bytes."""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast, overload
from weakref import WeakSet

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


class ByIdentity(Generic[_T]):
    """Results that are worked out once for the same tuples, which are not compared: tuples of thousands of columns
    take milliseconds. The tuples are held, so that no other one gets their identity."""

    _MOST = 64
    """Tuples that are held: those of the tables of one query, and of a few before."""

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[object, ...], _T]] = {}

    def get(self, same: tuple[object, ...], others: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` gave for these objects, ``same`` by identity and ``others`` by value; several threads may make
        it at the same time. Objects that are no tuples may change, and are not looked up."""
        if any(type(each) is not tuple for each in same):
            return make()
        key = (*map(id, same), others)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self._MOST:
                self._found.clear()
            found = self._found[key] = same, make()
        return found[1]


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


_caches: WeakSet[ByteLimitedCache] = WeakSet()


class ByteLimitedCache:
    """A thread-safe map that forgets values once they weigh more than ``limit`` bytes together.

    Values that threads share are loaded by `get_or_load`, which two may do at once. Values that only one thread at a
    time may use are taken out by `take` and come back by `put`. Values that exceed the limit are not cached.

    ``at_random``: any values make room for others, not those that were used least recently: if it were these, a caller
    that reads more values than fit, again and again in the same order, would never find one.

    Its lock works in a child that was forked while a thread held it.
    """

    def __init__(self, limit: int, *, at_random: bool = False) -> None:
        self.limit = limit
        self._at_random = at_random
        self._entries: OrderedDict[Hashable, tuple[Any, int, int]] = OrderedDict()
        """Value, weight and place in ``_keys``, the least recently used first."""
        self._keys: list[Hashable] = []
        self.weight = 0
        """Size of all cached values, in bytes."""
        self._lock = threading.Lock()
        _caches.add(self)

    def get_or_load(self, key: Hashable, load: Callable[[], _T], weigh: Callable[[_T], int]) -> _T:
        """The value of a key; ``load`` gives it and ``weigh`` its size in bytes when it is not here."""
        value = self.get(key)
        if value is None:
            value = load()
            self.put(key, value, weigh(value))
        return cast(_T, value)

    def get(self, key: Hashable) -> Any:
        """The value of a key if it is here, else None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def take(self, key: Hashable) -> Any:
        """The value of a key, which is no longer here afterwards; None when it was not here."""
        with self._lock:
            return self._remove(key) if key in self._entries else None

    def put(self, key: Hashable, value: Any, weight: int) -> None:
        """Cache a value of ``weight`` bytes; it replaces the former value of the key."""
        with self._lock:
            if key in self._entries:
                self._remove(key)
            if weight > self.limit:
                return
            while self.weight + weight > self.limit:
                self._remove(_any(self._keys) if self._at_random else next(iter(self._entries)))
            self._entries[key] = (value, weight, len(self._keys))
            self._keys.append(key)
            self.weight += weight

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._keys.clear()
            self.weight = 0

    def forked(self) -> None:
        """Make it usable in a child. A thread that the child does not have may hold the lock before `locked` says so.
        Its changes are half done where it has the lock in full."""
        held, self._lock = self._lock.locked(), threading.Lock()
        if held:
            self.clear()

    def _remove(self, key: Hashable) -> Any:
        value, weight, place = self._entries.pop(key)
        last = self._keys.pop()
        if place < len(self._keys):  # the last key takes the place that is free now
            self._keys[place] = last
            self._entries[last] = (*self._entries[last][:2], place)
        self.weight -= weight
        return value


class SizedCache:
    """A `ByteLimitedCache` in which small values have a limit of their own: a process that goes on for days, such as a
    stream, makes small ones without end that nobody reads again.

    ``limit``: bytes of all values. ``small_limit``: of the small ones among them. ``small``: bytes of a small value, at
    most.
    """

    def __init__(self, limit: int, *, small_limit: int, small: int) -> None:
        self.limit, self._most = limit, small
        self._small, self._large = ByteLimitedCache(small_limit), ByteLimitedCache(limit - small_limit)

    @property
    def weight(self) -> int:
        """Size of all cached values, in bytes."""
        return self._small.weight + self._large.weight

    def get_or_load(self, key: Hashable, load: Callable[[], _T], weigh: Callable[[_T], int]) -> _T:
        """As `ByteLimitedCache.get_or_load`."""
        value = self.get(key)
        if value is None:
            value = load()
            self.put(key, value, weigh(value))
        return cast(_T, value)

    def put(self, key: Hashable, value: Any, weight: int) -> None:
        """As `ByteLimitedCache.put`."""
        (self._small if weight <= self._most else self._large).put(key, value, weight)

    def get(self, key: Hashable) -> Any:
        """The value of a key if it is here, else None."""
        value = self._small.get(key)
        return self._large.get(key) if value is None else value

    def clear(self) -> None:
        """Forget everything."""
        self._small.clear()
        self._large.clear()


class TwoLevelCache(Generic[_T]):
    """Values of files: in memory for this process, and on disk for the next one if the storage has a ``local_cache``.

    ``name``: of the values. ``limit``: bytes in memory. ``encode``, ``decode``: to the bytes on disk, and back.
    ``weigh``: bytes of a value in memory. ``may_change``: files may change, and the caller compares values with them.
    """

    def __init__(
        self, name: str, limit: int, encode: Callable[[_T], bytes], decode: Callable[[bytes], _T],
        weigh: Callable[[_T], int], *, may_change: bool = False,
    ) -> None:  # fmt: skip
        self._memory = ByteLimitedCache(limit, at_random=True)
        self._name, self._encode, self._decode, self._weigh, self._may_change = name, encode, decode, weigh, may_change

    def get(self, io: Any, path: str, *what: Hashable) -> _T | None:
        """The value of a file; None if it is not cached. ``what``: distinguishes those of one file."""
        value: _T | None = self._memory.get((io, path, *what))
        if value is None:
            disk, key = self._place(io, path, what)
            data = None if key is None else disk.read(key)
            value = None if data is None else self._decode(data.to_pybytes())
            if value is not None:
                self._memory.put((io, path, *what), value, self._weigh(value))
        return value

    def put(self, value: _T, io: Any, path: str, *what: Hashable) -> None:
        """Cache the value of a file."""
        self._memory.put((io, path, *what), value, self._weigh(value))
        disk, key = self._place(io, path, what)
        if key is not None:
            disk.write(key, self._encode(value))

    def remove(self, io: Any, path: str, *what: Hashable) -> None:
        """Cache it no longer."""
        self._memory.take((io, path, *what))
        disk, key = self._place(io, path, what)
        if key is not None:
            disk.remove(key)

    def clear(self) -> None:
        """Forget what is in memory."""
        self._memory.clear()

    def _place(self, io: Any, path: str, what: tuple[Hashable, ...]) -> tuple[Any, bytes | None]:
        if (disk := getattr(io, "local_cache", None)) is None:
            return None, None
        return disk, (disk.key_of if self._may_change else disk.key)(io, path, *what, self._name)


def _any(keys: list[Hashable]) -> Hashable:
    import random  # seldom

    return random.choice(keys)


def _forked() -> None:
    for cache in list(_caches):
        cache.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
