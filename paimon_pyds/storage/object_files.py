"""Objects of a store as files: one that is written, and one that is read."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from paimon_pyds.storage import FileIO
from paimon_pyds.storage.faults import storage_faults

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

IN_MEMORY_BYTES = 8 << 20
"""Bytes of a new object that are held in memory, and sent in one piece."""


class _Spool(tempfile.SpooledTemporaryFile[bytes]):
    """What waits to be sent; errors of the local disk as StorageError."""

    def write(self, data: ReadableBuffer) -> int:
        with storage_faults("write", tempfile.gettempdir()):
            return super().write(data)

    def seek(self, *where: int) -> int:
        with storage_faults("write", tempfile.gettempdir()):
            return super().seek(*where)


class NewObject:
    """A new object that is gathered in memory and on local disk; closing it sends it with ``send``."""

    def __init__(
        self, send: Callable[[str, BinaryIO], None], delete: Callable[[Sequence[str]], None], path: str
    ) -> None:
        self._send = send
        self._delete = delete
        self._path = path
        self._file = _Spool(IN_MEMORY_BYTES)
        self._size: int | None = None

    @property
    def sink(self) -> BinaryIO:
        return cast(BinaryIO, self._file)

    def tell(self) -> int:
        return self._file.tell() if self._size is None else self._size

    def close(self) -> int:
        if self._size is None:
            size = self._file.tell()
            try:
                self._file.seek(0)
                self._send(self._path, cast(BinaryIO, self._file))
            except BaseException:
                self.abort()
                raise
            self._file.close()
            self._size = size
        return self._size

    def abort(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._delete([self._path])


class ObjectInput:
    """A seekable file whose reads are requests."""

    def __init__(self, io: FileIO, path: str, size: int) -> None:
        self._io, self._path, self._size = io, path, size
        self._at = 0
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        left = max(self._size - self._at, 0)
        length = left if size is None or size < 0 else min(size, left)
        data = self._io.read_range(self._path, self._at, length)
        self._at += length
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
