"""Caches that are bounded by bytes, in memory and in front of the disk."""

from __future__ import annotations

import gc
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

from paimon_pyds.base.cache import ByIdentity, ByteLimitedCache, SizedCache, TwoLevelCache
from paimon_pyds.errors import StorageError
from paimon_pyds.storage.disk_cache import LocalCache

_NAME = "manifest-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-0"


def test_a_cache_forgets_what_was_used_least_recently() -> None:
    cache = ByteLimitedCache(10)
    loads: list[str] = []

    def load_of(key: str, weight: int = 4) -> str:
        def load() -> str:
            loads.append(key)
            return key

        return cache.get_or_load(key, load, lambda _: weight)

    load_of("a"), load_of("b"), load_of("a"), load_of("c")
    assert cache.weight == 8 and cache.get("b") is None and cache.get("a") == "a"
    load_of("heavy", 11)
    assert cache.get("heavy") is None and cache.weight == 8
    load_of("a")
    assert loads == ["a", "b", "c", "heavy"]
    cache.clear()
    assert cache.weight == 0 and cache.get("a") is None


def test_small_values_take_little_room_from_large_ones() -> None:
    cache = SizedCache(1000, small_limit=100, small=10)
    cache.get_or_load("large", lambda: "large", lambda _: 900)
    for number in range(1, 1000):
        cache.get_or_load(number, lambda number=number: number, lambda _: 10)  # type: ignore[misc]
    assert [cache.get(key) for key in ("large", 1, 999)] == ["large", None, 999]
    assert cache.weight == 1000
    cache.get_or_load("others", lambda: "others", lambda _: 900)
    assert [cache.get(key) for key in ("large", "others", 999)] == [None, "others", 999]
    cache.clear()
    assert cache.weight == 0 and cache.get(999) is None


def test_a_cache_stays_in_bounds_under_threads() -> None:
    cache = ByteLimitedCache(1000)

    def work(seed: int) -> None:
        for i in range(500):
            key = (seed * 31 + i * 7) % 97
            assert cache.get_or_load(key, lambda key=key: key, lambda v: 10 + v) == key  # type: ignore[misc]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 0 < cache.weight <= 1000


def test_a_failing_load_is_not_kept() -> None:
    cache = ByteLimitedCache(10)
    with pytest.raises(StorageError):
        cache.get_or_load("k", lambda: (_ for _ in ()).throw(StorageError("no")), lambda _: 1)
    assert cache.get_or_load("k", lambda: "v", lambda _: 1) == "v"


def test_some_of_what_does_not_fit_is_found_again() -> None:
    cache = ByteLimitedCache(100, at_random=True)
    found = 0
    for number in [*range(12)] * 50:
        found += cache.take(number) is not None
        cache.put(number, str(number), 10)
        assert cache.weight <= 100
    assert found > 200
    cache.put("large", "value", 101)
    assert cache.take("large") is None
    kept = [number for number in range(12) if cache.take(number) is not None]
    assert (len(kept), cache.weight) == (10, 0)


def test_room_among_many_values_is_made_without_a_look_at_all_of_them() -> None:
    cache = ByteLimitedCache(50_000, at_random=True)
    for number in range(60_000):
        cache.put(number, str(number), 1)
    tracemalloc.start()
    for number in range(60_000, 60_100):
        cache.put(number, str(number), 1)
        cache.take(number - 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000  # bytes: a copy of the keys would take 8 for each of them
    kept = cache.weight
    assert sum(cache.take(number) is not None for number in range(60_100)) == kept > 49_000
    assert cache.weight == 0


@pytest.mark.parametrize("at_random", [True, False])
def test_each_cached_value_is_found_under_its_own_key(at_random: bool) -> None:
    cache = ByteLimitedCache(40, at_random=at_random)
    random = Random(7)
    for _ in range(2_000):
        number = random.randrange(12)
        assert cache.take(number) in (None, number)
        cache.put(number, number, random.randrange(1, 12))
        loaded = random.randrange(12)
        assert cache.get_or_load(loaded, lambda loaded=loaded: loaded, lambda _: 5) == loaded  # type: ignore[misc]
        assert cache.weight <= 40


def test_a_lock_that_is_taken_and_does_not_say_so_yet_is_not_waited_for_in_a_child() -> None:
    """The thread that waited for it has it, and not the interpreter, when another one forks."""

    class Taken:
        def locked(self) -> bool:
            return False

        def __enter__(self) -> None:
            raise AssertionError("this would wait for ever")

        def __exit__(self, *_: object) -> None:
            pass

    cache = ByteLimitedCache(10)
    cache.put("a", 1, 1)
    cache._lock = Taken()  # type: ignore[assignment]
    cache.forked()
    assert cache.take("a") == 1


def test_a_value_that_is_too_heavy_replaces_the_former_one() -> None:
    cache = ByteLimitedCache(100)
    cache.put("a", "old", 10)
    cache.put("a", "new", 101)
    assert (cache.get("a"), cache.weight) == (None, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_was_forked_while_a_thread_was_within_can_use_it() -> None:
    cache = ByteLimitedCache(100)
    cache.put("a", "half done", 10)
    with cache._lock:
        child = os.fork()
        if not child:
            cache.put("b", "b", 10)
            os._exit(0 if (cache.get("a"), cache.get("b")) == (None, "b") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get("a") == "half done"


def test_many_short_lived_ones_leave_nothing() -> None:
    """Each open index has one of its own."""
    gc.collect()
    tracemalloc.start()
    for _ in range(2_000):
        ByteLimitedCache(100)
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 100_000


class _Storage:
    """A store with a disk cache."""

    def __init__(self, directory: Path | None) -> None:
        self.local_cache = None if directory is None else LocalCache(str(directory), 1 << 20)

    def version(self, path: str) -> str:
        return "1"


def _numbers(*, may_change: bool = False) -> TwoLevelCache[int]:
    return TwoLevelCache("n", 1000, lambda n: b"%d" % n, int, lambda _: 10, may_change=may_change)


def test_the_next_process_finds_values_on_disk(tmp_path: Path) -> None:
    io, first = _Storage(tmp_path / "cache"), _numbers()
    assert first.get(io, _NAME, "size") is None
    first.put(7, io, _NAME, "size")
    second = _numbers()
    assert (second.get(io, _NAME, "size"), second.get(io, _NAME, "rows")) == (7, None)
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    assert (second.get(io, _NAME, "size"), _numbers().get(io, _NAME, "size")) == (7, None), "in memory, and gone"
    first.clear()
    assert first.get(io, _NAME, "size") is None


def test_removed_values_are_gone_from_memory_and_disk(tmp_path: Path) -> None:
    io, cache = _Storage(tmp_path / "cache"), _numbers()
    cache.put(7, io, _NAME)
    cache.remove(io, _NAME)
    assert (cache.get(io, _NAME), _numbers().get(io, _NAME)) == (None, None)


def test_files_that_may_change_are_on_disk_only_where_the_caller_compares_them(tmp_path: Path) -> None:
    io = _Storage(tmp_path / "cache")
    for may_change in (False, True):
        _numbers(may_change=may_change).put(7, io, "LATEST")
        assert _numbers(may_change=may_change).get(io, "LATEST") == (7 if may_change else None)


def test_storage_without_a_disk_cache_has_memory_only(tmp_path: Path) -> None:
    for io in (_Storage(None), object()):
        cache = _numbers()
        cache.put(7, io, _NAME)
        assert (cache.get(io, _NAME), _numbers().get(io, _NAME)) == (7, None)


def test_tuples_are_found_again_by_identity() -> None:
    cache, made = ByIdentity[int](), list[int]()

    def make() -> int:
        made.append(len(made))
        return len(made)

    def pair(i: int) -> tuple[int, int]:
        return i, i

    first, equal, mutable = pair(1), pair(1), [1, 1]
    assert first is not equal
    assert [cache.get((one,), 0, make) for one in (first, equal, first, equal)] == [1, 2, 1, 2]
    assert cache.get((first,), 1, make) == 3
    assert [cache.get((mutable,), 0, make) for _ in range(2)] == [4, 5]  # type: ignore[arg-type]
    for i in range(500):  # few are held; of others a later tuple may have the identity
        assert cache.get((pair(i),), 0, partial(int, i)) == i
    assert cache.get((first,), 0, make) == 6
