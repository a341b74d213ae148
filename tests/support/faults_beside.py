"""An operation on a table in memory, and what happens beside it before one of its I/O calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial, wraps
from typing import Any, TypeVar

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileStatus
from support.effort import sampled
from support.faults_io import FaultyIO
from support.live_files import table_files
from support.memory_io import MemoryIO
from support.schedules import repeatable

Found = TypeVar("Found")

_CALLS = 8
"""I/O calls before each of which something else happens, of those of an operation; all of them in long runs."""


class AgedIO(MemoryIO):
    """Files that were there at the start are old, and others too young to be orphans."""

    def __init__(self, files: dict[str, bytes], old: frozenset[str] = frozenset()) -> None:
        super().__init__(files)
        self._old = old

    def list(self, path: str) -> list[FileStatus]:
        return [replace(s, modified_ms=1 if s.path in self._old else 10**15) for s in super().list(path)]


class BesideIO(FaultyIO):
    """Before its call ``at`` something happens beside."""

    def __init__(self, files: dict[str, bytes], at: int | None, beside: Callable[[], None]) -> None:
        super().__init__(at, io=AgedIO(files, frozenset(files)))
        self._beside = beside

    def _do(self, name: str, effect: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self._at == len(self.done):
            self._at = None  # other threads may be at it
            self._beside()
        self.done.append(name)
        return effect()


def table_in(files: dict[str, bytes], branch: str | None = None) -> pp.Table:
    """The table of these files, with no fault."""
    table = pp.Table(TableStore(MemoryIO(files), "/t"))
    return table if branch is None else pp.Table(table._store.for_branch(branch))


def each_moment(
    start: dict[str, bytes],
    operation: Callable[[pp.Table], object],
    beside: Callable[[pp.Table], object],
    moments: Sequence[int] | None = None,
) -> Iterator[dict[str, bytes]]:
    """The files after an operation, where something happened beside it before one of its calls."""
    for at in sampled(range(len(calls_of(start, operation))), _CALLS) if moments is None else moments:
        METADATA_CACHE.clear()
        files = dict(start)
        with repeatable("0"):
            operation(pp.Table(TableStore(BesideIO(files, at, partial(beside, table_in(files))), "/t")))
        METADATA_CACHE.clear()
        yield files


def calls_of(start: dict[str, bytes], operation: Callable[[pp.Table], object]) -> list[str]:
    io = BesideIO(dict(start), None, lambda: None)
    with repeatable("0"):
        operation(pp.Table(TableStore(io, "/t")))
    return io.done


def once_each(look: Callable[[dict[str, bytes]], Found]) -> Callable[[dict[str, bytes]], Found]:
    """A function of the files of a table, called once for the same files: most moments lead to one of a few states."""

    @cache
    def of_items(items: frozenset[tuple[str, bytes]]) -> Found:
        return look(dict(items))

    @wraps(look)
    def of_files(files: dict[str, bytes]) -> Found:
        METADATA_CACHE.clear()  # which names files by their paths
        return of_items(frozenset(files.items()))

    return of_files


@once_each
def missing_files(files: dict[str, bytes]) -> set[str]:
    """The files that a state of the table or of a branch needs, and that are not there."""
    return set(table_files(table_in(files)._store)) - set(files)
