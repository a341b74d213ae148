"""Byte sources: random access to an index, which is a file of its own, a part of one, or bytes in a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.storage import FIRST_READ, FileIO, check_range, requests_at_once, saves_requests

if TYPE_CHECKING:
    from paimon_pyds.storage.range_cache import CachedRanges


class ByteSource(Protocol):
    """Random access to one run of bytes: a side file, or bytes embedded in a manifest."""

    @property
    def name(self) -> str:
        """For error messages: a path."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes. Raises CorruptFileError past the end."""

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges, coalesced."""


@dataclass(frozen=True, slots=True)
class BytesSource:
    """A ByteSource over bytes in memory."""

    data: bytes
    name: str = "<memory>"

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, length: int) -> bytes:
        check_range(self.name, offset, length, len(self.data))
        return self.data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(o, n) for o, n in ranges]


class FileSource:
    """A ByteSource over a file of a FileIO. ``bytes_read`` counts what was requested.

    ``size``: of the file in bytes, if known. ``immutable``: the file never changes: ranges read from a store are cached
    once `keep` is called. ``start``: what `SavesRequests.read_start` gave of such a file, if it was read before.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        size: int | None = None,
        *,
        immutable: bool = False,
        start: tuple[bytes, int] | None = None,
    ) -> None:
        self._io = io
        self.name = path
        self._size = size
        self._start = b""
        self._ranges: CachedRanges | None = None
        self.bytes_read = 0
        if immutable and requests_at_once(io):
            from paimon_pyds.storage.range_cache import CachedRanges

            self._ranges = CachedRanges(io, path, start)

    @property
    def size(self) -> int:
        if self._size is None:
            if self._ranges is not None:
                self._size = self._ranges.size(FIRST_READ)
            elif saves_requests(self._io):
                self._start, self._size = self._io.read_start(self.name, FIRST_READ)
            else:
                self._size = self._io.size(self.name)
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        if self._ranges is not None:
            return self.read_many([(offset, length)])[0]
        self.bytes_read += length
        start, self._start = self._start, b""  # for the first read, which keeps what it needs
        if 0 <= offset and 0 < length <= len(start) - offset:
            return start[offset : offset + length]
        return self._io.read_range(self.name, offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.bytes_read += sum(n for _, n in ranges)
        if self._ranges is not None:
            return self._ranges.read(ranges)
        return self._io.read_ranges(self.name, ranges)

    def read_joined(self, offsets: Int64s, lengths: Int64s) -> bytes:
        """As the function of this name."""
        read = None if self._ranges is not None else getattr(self._io, "read_joined", None)
        if read is None:
            return b"".join(self.read_many(list(zip(offsets.tolist(), lengths.tolist(), strict=True))))
        self.bytes_read += int(lengths.sum())
        joined: bytes = read(self.name, offsets, lengths)
        return joined

    def keep(self) -> None:
        """Keep what was read of a store, as it has proved right."""
        if self._ranges is not None:
            self._ranges.keep()


def read_joined(source: ByteSource, offsets: Int64s, lengths: Int64s) -> bytes:
    """Several ranges, strung together; callers do not change them. Errors as `ByteSource.read_many`."""
    if isinstance(source, FileSource):
        return source.read_joined(offsets, lengths)
    return b"".join(source.read_many(list(zip(offsets.tolist(), lengths.tolist(), strict=True))))
