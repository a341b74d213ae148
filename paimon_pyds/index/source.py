"""Reading index bytes: windows into a source, a sequential cursor, a metered source and a cache bounded in bytes.

Everything here distrusts lengths: reading past the end of a window is CorruptFileError with the absolute offset.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.storage.base import ByteSource

__all__ = ["ByteCache", "Cursor", "Held", "MeteredSource", "Window", "corrupt", "views"]

_WHOLE = 64 << 10
_PREFIX = 16 << 10


def corrupt(
    source: ByteSource, message: str, *, offset: int | None = None, field: str | None = None
) -> CorruptFileError:
    """An error for a place in a source; ``offset`` counts from the source's start, and is told from the file's."""
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

    __slots__ = ("_length", "_source", "_start", "name", "origin")

    def __init__(self, source: ByteSource, start: int, length: int) -> None:
        if start < 0 or length < 0 or start + length > source.size:
            raise corrupt(source, f"bytes {start} to {start + length} of {source.size} wanted", offset=start)
        self._source = source
        self._start = start
        self._length = length
        self.name = source.name
        self.origin: int = getattr(source, "origin", 0) + start

    @property
    def size(self) -> int:
        return self._length

    def _check(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._length:
            raise corrupt(self, f"{length} bytes wanted, {max(self._length - offset, 0)} are left", offset=offset)

    def read(self, offset: int, length: int) -> bytes:
        self._check(offset, length)
        return self._source.read(self._start + offset, length)

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        for offset, length in ranges:
            self._check(offset, length)
        return self._source.read_many([(self._start + o, n) for o, n in ranges])

    def views(self, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """As `read_many`, without copies of what is long."""
        for offset, length in ranges:
            self._check(offset, length)
        return views(self._source, [(self._start + o, n) for o, n in ranges])


def views(source: ByteSource, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
    """What lies there: views of what was read, where the source gives them."""
    read: Callable[..., Sequence[bytes | memoryview]] = getattr(source, "views", source.read_many)
    return read(ranges)


class Held:
    """A ByteSource over bytes already read, that still tells where in the file they come from."""

    __slots__ = ("_data", "name", "origin")

    def __init__(self, data: bytes, source: ByteSource, offset: int) -> None:
        self._data = data
        self.name = source.name
        self.origin: int = getattr(source, "origin", 0) + offset

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > len(self._data):
            raise corrupt(self, f"{length} bytes wanted, {max(self.size - offset, 0)} are left", offset=offset)
        return self._data[offset : offset + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read(offset, length) for offset, length in ranges]


class MeteredSource:
    """Counts what is asked of a source, and reads its first bytes once: a small source whole, else a prefix.

    An index file's head, and often its dictionaries, lie in the prefix: opening it costs one request.
    """

    __slots__ = ("_prefix", "_source", "bytes_read", "name", "requests")

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._prefix: bytes | None = None
        self.name = source.name
        self.bytes_read = 0
        self.requests = 0

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return len(self._prefix or b"")

    def _load_prefix(self) -> bytes:
        if self._prefix is None:
            size = self._source.size
            length = size if size <= _WHOLE else _PREFIX
            self._prefix = self._source.read(0, length)
            self._count(1, length)
        return self._prefix

    def _inside(self, offset: int, length: int) -> bool:
        return min(offset, length) >= 0 and offset + length <= len(self._load_prefix())

    def _count(self, requests: int, length: int) -> None:
        self.requests += requests
        self.bytes_read += length

    def read(self, offset: int, length: int) -> bytes:
        prefix = self._load_prefix()
        if self._inside(offset, length):
            return prefix[offset : offset + length]
        data = self._source.read(offset, length)
        self._count(1, length)
        return data

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        prefix = self._load_prefix()
        outside = [(o, n) for o, n in ranges if not self._inside(o, n)]
        if not outside:
            return [prefix[o : o + n] for o, n in ranges]
        fetched = dict(zip(outside, self._source.read_many(outside), strict=True))
        self._count(len(outside), sum(n for _, n in outside))
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
        """The next ``length`` bytes."""
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
        """``count`` times a four-byte length, so many bytes, and ``tail`` bytes more; the bytes, and all tails."""
        values: list[bytes] = []
        tails: list[bytes] = []
        at = self.position - self._from
        for _ in range(count):
            if at + 4 > len(self._buffer):
                at = self._refill(at, 4, field)
            size = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
            if size < 0:
                raise corrupt(self.source, f"a length of {size}", offset=self._from + at, field=field)
            if at + 4 + size + tail > len(self._buffer):
                at = self._refill(at, 4 + size + tail, field)
            middle = at + 4 + size
            values.append(self._buffer[at + 4 : middle])
            at = middle + tail
            tails.append(self._buffer[middle:at])
        self.position = self._from + at
        return values, b"".join(tails)

    def _refill(self, at: int, length: int, field: str) -> int:
        self.position = self._from + at
        self._fill(length, field)
        return 0

    def remaining(self) -> int:
        """Bytes between here and the end of the source."""
        return self.source.size - self.position

    def _unpack(self, form: str, width: int, field: str) -> int:
        value: int = struct.unpack(form, self.take(width, field))[0]
        return value

    def u8(self, field: str) -> int:
        """One unsigned byte."""
        return self._unpack(">B", 1, field)

    def u16(self, field: str) -> int:
        """Two bytes, unsigned."""
        return self._unpack(">H", 2, field)

    def i32(self, field: str) -> int:
        """Four bytes, signed."""
        return self._unpack(">i", 4, field)

    def i64(self, field: str) -> int:
        """Eight bytes, signed."""
        return self._unpack(">q", 8, field)

    def count(self, field: str, *, each: int = 1) -> int:
        """A four-byte count of things that take at least ``each`` bytes of what is left."""
        at = self.position
        value = self.i32(field)
        if value < 0 or value * each > self.remaining():
            raise corrupt(self.source, f"{value} is not a possible count here", offset=at, field=field)
        return value


class ByteCache:
    """Least-recently-used values, bounded by their size in bytes. A value larger than the bound is not kept."""

    __slots__ = ("_entries", "_used", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._used = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The value, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of ``size`` bytes, dropping the longest unused ones."""
        if size > self.capacity:
            return
        old = self._entries.pop(key, None)
        if old is not None:
            self._used -= old[1]
        self._entries[key] = (value, size)
        self._used += size
        while self._used > self.capacity:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._used -= dropped

    @property
    def used(self) -> int:
        """Bytes held now."""
        return self._used
