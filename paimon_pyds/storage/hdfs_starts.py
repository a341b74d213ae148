"""The first bytes of many files of HDFS, requested at once by one thread.

Threads that each wait for one file take Python's lock from one another, which costs more processor time than to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdfs_native import AsyncClient

    from paimon_pyds.storage.remote import RequestCounts


def starts_of(
    client: AsyncClient, paths: Sequence[str], length: int, at_once: int, unit: int, counts: RequestCounts
) -> list[tuple[bytes, int] | None]:
    """The first ``length`` bytes of each file, or all if it has fewer, and its size; None where it can't be read, or
    may have a block that is not reported yet.

    The thread must not run a loop of events. ``paths``: as the client wants them. ``at_once``: files that are read at
    a time, at most. ``unit``: the bytes of which each block is a multiple, unless it is a file's last one. ``counts``:
    where requests are counted.
    """
    found: list[tuple[bytes, int] | None] = [None] * len(paths)
    numbers = iter(range(len(paths)))

    async def start(path: str) -> tuple[bytes, int] | None:
        counts.add()
        reader = await client.read(path)
        size = len(reader)
        if not size % unit:
            return None
        data = bytes(await reader.read_range(0, min(length, size)))
        counts.add(len(data))
        return (data, size) if len(data) == min(length, size) else None

    async def some() -> None:
        for number in numbers:  # which all share
            try:
                found[number] = await start(paths[number])
            except (OSError, RuntimeError, ValueError, NotImplementedError):
                continue  # a read of this file alone tries again, and raises what is wrong

    async def all_of_them() -> None:
        # A panic of hdfs-native ends one of these, whose file is None, and not the others.
        await asyncio.gather(*(some() for _ in range(min(at_once, len(paths)))), return_exceptions=True)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(all_of_them())
    finally:
        loop.close()
    return found
