"""Clocks of the benchmarks; nothing here needs a package."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def computed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call computed on all cores, and what it returned. Other work hardly changes them."""
    start = cpu_seconds()
    result = call()
    return cpu_seconds() - start, result


def median_of(call: Callable[[], Any], runs: int = 7) -> tuple[float, Any]:
    """The median seconds of ``runs`` calls after one that warms up, and what the last returned."""
    call()
    measured = [timed(call) for _ in range(runs)]
    return sorted(seconds for seconds, _ in measured)[runs // 2], measured[-1][1]


def cpu_seconds() -> float:
    """What this process and those that it waited for have computed so far, on all cores."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def held_mib() -> float:
    """The memory that this program holds now; Linux only."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def peak_mib() -> float:
    """The most memory that this program held at once.

    Linux keeps ``ru_maxrss`` through exec: a small process that a large one forked would show the large one's peak.
    """
    try:
        with open("/proc/self/status") as file:
            kib = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib / 1024
