"""A cache of byte ranges of files in object stores: heads of indexes, footers, page indexes, and whole metadata files.
It is in memory for this process, and on the local disk for the next one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from paimon_pyds.base.cache import TwoLevelCache
from paimon_pyds.storage import FileIO, saves_requests

_MOST_BYTES = 1 << 20
"""Bytes of one file. Longer ranges are rarely read again."""
_HEAD = struct.Struct("<qQ")
_RANGE = struct.Struct("<QQ")
_Ranges: TypeAlias = tuple[int, dict[int, bytes]]
"""The size of a file, and its bytes by their offset."""


def _encoded(found: _Ranges) -> bytes:
    size, ranges = found
    places = [_RANGE.pack(start, len(data)) for start, data in ranges.items()]
    return b"".join([_HEAD.pack(size, len(ranges)), *places, *ranges.values()])


def _decoded(whole: bytes) -> _Ranges:
    size, number = _HEAD.unpack_from(whole)
    at = _HEAD.size + number * _RANGE.size
    ranges = {}
    for start, length in _RANGE.iter_unpack(whole[_HEAD.size : at]):
        ranges[start] = whole[at : at + length]
        at += length
    return size, ranges


RANGE_CACHE = TwoLevelCache[_Ranges](
    "ranges", 64 << 20, _encoded, _decoded, lambda found: sum(200 + len(data) for data in found[1].values())
)


class CachedRanges:
    """The cached ranges of one file that never changes, and those read since; `keep` adds these to the cache.

    ``start``: its first bytes and its size, if they were read before."""

    def __init__(self, io: FileIO, path: str, start: tuple[bytes, int] | None = None) -> None:
        self._io = io
        self._path = path
        self._fresh: dict[int, bytes] = {}
        self._size, self._held = (None if start is not None else RANGE_CACHE.get(io, path)) or (-1, {})
        self._free_bytes = _MOST_BYTES - sum(map(len, self._held.values()))
        if start is not None:
            data, self._size = start
            self.add(0, data)

    @property
    def has_all(self) -> bool:
        """Whether all bytes of the file are cached."""
        return self._size >= 0 and self.get(0, self._size) is not None

    def size(self, guess: int) -> int:
        """The file's size; if it is not cached, the first ``guess`` bytes are read too. Errors as `FileIO.size`."""
        if self._size < 0:
            if saves_requests(self._io):
                start, self._size = self._io.read_start(self._path, guess)
                self.add(0, start)
            else:
                self._size = self._io.size(self._path)
        return self._size

    def whole(self, read: Callable[[], bytes]) -> bytes:
        """All bytes of the file; ``read`` reads them if they are not cached."""
        data = self.get(0, self._size) if self._size >= 0 else None
        if data is None:
            data = read()
            self._size = len(data)
            self.add(0, data)
        return data

    def get(self, offset: int, length: int) -> bytes | None:
        """The bytes of a range if they are cached."""
        for ranges in (self._held, self._fresh):
            for start, data in ranges.items():
                if start <= offset and offset + length <= start + len(data):
                    return data[offset - start : offset - start + length]
        return None

    def ending_at(self, stop: int) -> bytes | None:
        """A cached range that ends at ``stop``."""
        return next((data for start, data in self._held.items() if start + len(data) == stop), None)

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of (offset, length) ranges; those not cached are read. Errors as `FileIO.read_ranges`."""
        found = [self.get(*r) for r in ranges]
        missing = [r for r, data in zip(ranges, found, strict=True) if data is None]
        fresh = iter(self._io.read_ranges(self._path, missing) if missing else ())
        for number, (offset, _) in enumerate(ranges):
            if found[number] is None:
                found[number] = data = next(fresh)
                self.add(offset, data)
        return [data for data in found if data is not None]

    def add(self, offset: int, data: bytes) -> None:
        """Bytes of the file that were read."""
        if len(self._held.get(offset, b"")) < len(data) <= self._free_bytes:
            self._fresh[offset] = data
            self._free_bytes -= len(data)

    def keep(self) -> None:
        """Keep what was read: it has proved right."""
        if not self._fresh:
            return
        self._held, self._fresh = self._held | self._fresh, {}
        RANGE_CACHE.put((self._size, self._held), self._io, self._path)


def forget_ranges(io: FileIO, path: str) -> None:
    """See `paimon_pyds.storage.forget`."""
    RANGE_CACHE.remove(io, path)
