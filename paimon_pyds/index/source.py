"""Reading index bytes: windows into a source, a sequential cursor, a metered source and a cache bounded in bytes.

Everything here distrusts lengths: reading past the end of a window is CorruptFileError with the absolute offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.errors import CorruptFileError

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_WHOLE_BYTES = 64 << 10
"""Bytes of a source up to which its first read takes all of it."""
_PREFIX_BYTES = 16 << 10
"""Bytes of the first read of a larger source."""


def corrupt(
    source: ByteSource, message: str, *, offset: int | None = None, field: str | None = None
) -> CorruptFileError:
    """An error for a place in a source; ``offset`` counts from the source's start, errors count it from the file's."""
    origin: int = getattr(source, "origin", 0)
    return CorruptFileError(
        message,
        path=source.name,
        offset=None if offset is None else origin + offset,
        field=field,
        hint="rebuild the file index, or read with file-index.read.enabled=false",
    )


class Window:
    """A ByteSource over one run of bytes of another; ``origin`` is where it starts in the outermost file."""

    __slots__ = ("_source", "_start", "name", "origin", "size")

    def __init__(self, source: ByteSource, start: int, length: int) -> None:
        if start < 0 or length < 0 or start + length > source.size:
            raise corrupt(source, f"bytes {start} to {start + length} of {source.size} wanted", offset=start)
        self._source = source
        self._start = start
        self.size = length
        self.name = source.name
        self.origin: int = getattr(source, "origin", 0) + start

    def _moved(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        for offset, length in ranges:
            _check_inside(self, offset, length)
        return [(self._start + offset, length) for offset, length in ranges]

    def read(self, offset: int, length: int) -> bytes:
        _check_inside(self, offset, length)
        return self._source.read(self._start + offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._source.read_many(self._moved(ranges))

    def views(self, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """As `read_many`, without copies of what is long."""
        return views(self._source, self._moved(ranges))


class LoadedBytes:
    """A ByteSource over bytes already read, which remembers their offset in the file."""

    __slots__ = ("_data", "name", "origin", "size")

    def __init__(self, data: bytes, source: ByteSource, offset: int) -> None:
        self._data = data
        self.size = len(data)
        self.name = source.name
        self.origin: int = getattr(source, "origin", 0) + offset

    def read(self, offset: int, length: int) -> bytes:
        _check_inside(self, offset, length)
        return self._data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(offset, length) for offset, length in ranges]


def _check_inside(source: Window | LoadedBytes, offset: int, length: int) -> None:
    if offset < 0 or length < 0 or offset + length > source.size:
        raise corrupt(source, f"{length} bytes wanted, {max(source.size - offset, 0)} are left", offset=offset)


def views(source: ByteSource, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
    """The bytes of these ranges: views without a copy, if the source has them."""
    read: Callable[..., Sequence[bytes | memoryview]] = getattr(source, "views", source.read_many)
    return read(ranges)


class MeteredSource:
    """Counts the requests to a source, and reads its first bytes once: a small source whole, else a prefix.

    The prefix has an index file's head, and often its dictionaries: opening it costs one request.
    """

    __slots__ = ("_prefix", "_source", "bytes_read", "name", "size")

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.name = source.name
        self.size = source.size
        length = self.size if self.size <= _WHOLE_BYTES else _PREFIX_BYTES
        self._prefix = source.read(0, length)
        self.bytes_read = length

    @property
    def nbytes(self) -> int:
        return len(self._prefix)

    def keep(self) -> None:
        """See `FileSource.keep`; other sources have nothing to keep."""
        from paimon_pyds.storage.byte_source import FileSource

        if isinstance(self._source, FileSource):
            self._source.keep()

    def read(self, offset: int, length: int) -> bytes:
        if min(offset, length) >= 0 and offset + length <= len(self._prefix):
            return self._prefix[offset : offset + length]
        self.bytes_read += length
        return self._source.read(offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        prefix = self._prefix
        outside = [r for r in ranges if min(r) < 0 or r[0] + r[1] > len(prefix)]
        fetched = dict(zip(outside, self._source.read_many(outside), strict=True)) if outside else {}
        self.bytes_read += sum(n for _, n in outside)
        return [fetched[r] if r in fetched else prefix[r[0] : r[0] + r[1]] for r in ranges]


class Cursor:
    """Reads a source from front to back in growing steps, so that a short head costs one small read.

    Integers are big-endian. Every method raises CorruptFileError when the source ends early.
    """

    __slots__ = ("_buffer", "_from", "_step", "position", "source")

    def __init__(self, source: ByteSource, position: int = 0, *, step: int = 4096) -> None:
        self.source = source
        self.position = position
        self._buffer = b""
        self._from = position
        self._step = step

    def take(self, length: int, field: str) -> bytes:
        start = self.position - self._from
        if length < 0 or start + length > len(self._buffer):
            self._fill(length, field)
            start = 0
        self.position += length
        return self._buffer[start : start + length]

    def _fill(self, length: int, field: str) -> None:
        """Have at least ``length`` bytes in the buffer, which then begins at the position."""
        if length < 0 or self.position + length > self.source.size:
            raise corrupt(self.source, f"{length} bytes wanted past the end", offset=self.position, field=field)
        want = min(max(length, self._step), self.source.size - self.position)
        self._buffer = self.source.read(self.position, want)
        self._from = self.position
        self._step = min(self._step * 2, 1 << 20)

    def strings(self, count: int, tail: int, field: str) -> tuple[list[bytes], bytes]:
        """``count`` times: a four-byte length, bytes of that length, and ``tail`` more bytes. The bytes, and all
        tails."""
        values: list[bytes] = []
        tails: list[bytes] = []
        at = self.position - self._from
        for _ in range(count):
            if at + 4 > len(self._buffer):
                self.position, at = self._from + at, 0
                self._fill(4, field)
            size = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
            if size < 0:
                raise corrupt(self.source, f"a length of {size}", offset=self._from + at, field=field)
            if at + 4 + size + tail > len(self._buffer):
                self.position, at = self._from + at, 0
                self._fill(4 + size + tail, field)
            middle = at + 4 + size
            values.append(self._buffer[at + 4 : middle])
            at = middle + tail
            tails.append(self._buffer[middle:at])
        self.position = self._from + at
        return values, b"".join(tails)

    def remaining(self) -> int:
        return self.source.size - self.position

    def u8(self, field: str) -> int:
        return self.take(1, field)[0]

    def u16(self, field: str) -> int:
        return int.from_bytes(self.take(2, field), "big")

    def i32(self, field: str) -> int:
        return int.from_bytes(self.take(4, field), "big", signed=True)

    def i64(self, field: str) -> int:
        return int.from_bytes(self.take(8, field), "big", signed=True)

    def count(self, field: str, *, each: int = 1) -> int:
        """A four-byte count of things that take at least ``each`` bytes of the rest."""
        at = self.position
        value = self.i32(field)
        if value < 0 or value * each > self.source.size - self.position:
            raise corrupt(self.source, f"{value} is not a possible count here", offset=at, field=field)
        return value
