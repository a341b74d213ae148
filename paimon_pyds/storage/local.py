"""FileIO on a local or mounted file system. How files get their names is in `publish`."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.redaction import scrubbed
from paimon_pyds.storage.base import FileStatus, OutputFile, check_range, read_coalesced, storage_error, storage_faults
from paimon_pyds.storage.publish import create_new, publish, rename_noreplace, write_new

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["LocalFileIO"]

_GAP = 2048  # reading a gap of 2 KiB from the page cache costs about what one more request does
_MAX_REQUEST = 64 << 20
_WRITE_BUFFER = 1 << 20


class LocalFileIO:
    """FileIO over the operating system's files. It has no state; paths are absolute."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LocalFileIO()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFileIO)

    def __hash__(self) -> int:
        return hash(LocalFileIO)

    # ------------------------------------------------------------------------------------------------- reading

    def read_bytes(self, path: str) -> bytes:
        with storage_faults("read", path, missing_passes=True):
            fd, _ = _open_regular(path)
            with io.FileIO(fd) as file:
                return file.readall()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those at most 2 KiB apart are read together."""
        if not ranges:
            return []
        with storage_faults("read", path, missing_passes=True):
            fd, size = _open_regular(path)
            try:
                for offset, length in ranges:
                    check_range(path, offset, length, size)
                return read_coalesced(lambda o, n: _pread(fd, path, o, n), ranges, _GAP, _MAX_REQUEST)
            finally:
                os.close(fd)

    def open_input(self, path: str) -> pa.NativeFile:
        with storage_faults("open", path, missing_passes=True):
            os.close(_open_regular(path)[0])
            return pa.OSFile(path, "rb")

    def size(self, path: str) -> int:
        with storage_faults("read", path, missing_passes=True):
            info = os.stat(path)
            _check_regular(info.st_mode, path)
            return info.st_size

    def exists(self, path: str) -> bool:
        with storage_faults("look up", path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def list(self, path: str) -> list[FileStatus]:
        entries = []
        with storage_faults("list", path):
            try:
                with os.scandir(path) as scan:
                    for entry in scan:
                        with suppress(FileNotFoundError):
                            entries.append(_status(entry))
            except (FileNotFoundError, NotADirectoryError):
                return []
        entries.sort(key=lambda e: e.name)
        return entries

    # ------------------------------------------------------------------------------------------------- writing

    def open_output(self, path: str) -> OutputFile:
        return _LocalOutput(path)

    def make_dir(self, path: str) -> None:
        with storage_faults("create", path):
            os.makedirs(path, exist_ok=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with this content in one atomic step, or return False when it is there already.

        The file is complete and on the disk when its name appears. See `publish` for file systems without hard
        links.

        Raises:
            StorageError: the storage refuses, or a link that leads nowhere has the name.
        """
        with storage_faults("write", path):
            if publish(path, data):
                return True
            if os.path.islink(path) and not os.path.exists(path):
                raise StorageError(
                    "can't write: a link that leads nowhere is in the way where a file is needed",
                    path=path,
                    hint="remove the link, or bring back what it led to",
                )
            return False

    def write_bytes(self, path: str, data: bytes) -> None:
        with storage_faults("write", path):
            write_new(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small file (hints) in one atomic step. Not synced: a lost hint costs a listing only."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
        with storage_faults("write", path):
            try:
                write_new(temporary, data, sync=False)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with storage_faults("delete", path), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)

    def delete_tree(self, path: str) -> None:
        for attempt in range(3):
            try:
                shutil.rmtree(path)
                return
            except OSError as error:
                if not os.path.lexists(path):
                    return
                # Somebody else writes into it, or deletes it too: what is left goes with the next try.
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or attempt == 2:
                    raise storage_error(error, "delete", path) from scrubbed(error)

    def rename(self, source: str, target: str) -> None:
        """Rename a directory or file. AlreadyExistsError: the target is there; FileNotFoundError: no source."""
        with storage_faults("rename", source, missing_passes=True):
            try:
                if not rename_noreplace(source, target):
                    if os.path.lexists(target):
                        raise FileExistsError(errno.EEXIST, "exists", target)
                    os.rename(source, target)
            except FileExistsError:
                raise AlreadyExistsError("the target of a rename already exists", path=target) from None


class _LocalOutput:
    """A new local file. Unless it is closed it does not count; `abort` removes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        with storage_faults("create", path):
            self._raw = _RawSink(create_new(path), path)
        self._buffer = io.BufferedWriter(self._raw, _WRITE_BUFFER)
        self._size: int | None = None

    @property
    def sink(self) -> BinaryIO:
        return cast(BinaryIO, self._buffer)

    def tell(self) -> int:
        return self._raw.written if self._buffer.closed else self._buffer.tell()

    def close(self) -> int:
        if self._size is None:
            try:
                with storage_faults("write", self._path):
                    self._buffer.flush()
                    os.fsync(self._raw.fileno())
                    self._buffer.close()
            except BaseException:
                self.abort()
                raise
            self._size = self._raw.written
        return self._size

    def abort(self) -> None:
        self._raw.discard = True
        with suppress(OSError, ValueError):
            self._buffer.close()
        with suppress(OSError):
            os.unlink(self._path)


class _RawSink(io.RawIOBase):
    """Unbuffered writes to a file descriptor, its errors as StorageError. After ``discard`` bytes go nowhere."""

    def __init__(self, fd: int, path: str) -> None:
        super().__init__()
        self._fd = fd
        self._path = path
        self.written = 0
        self.discard = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def tell(self) -> int:
        return self.written

    def write(self, data: ReadableBuffer, /) -> int:
        if self.discard:
            return memoryview(data).nbytes
        try:
            count = os.write(self._fd, data)
        except OSError as error:
            raise storage_error(error, "write", self._path) from scrubbed(error)
        self.written += count
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


def _open_regular(path: str) -> tuple[int, int]:
    """A descriptor to read a file, and its size; links followed.

    A FIFO would wait for a writer, and a device may have no end.

    Raises:
        StorageError: something else than a file is there.
        OSError: it can't be opened.
    """
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        info = os.fstat(fd)
        _check_regular(info.st_mode, path)
    except BaseException:
        os.close(fd)
        raise
    return fd, info.st_size


def _check_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        kind = "a FIFO" if stat.S_ISFIFO(mode) else "a device"
        raise StorageError(
            f"can't read: {kind} is in the way where a file is needed", path=path, hint="remove it from the table"
        )


def _pread(fd: int, path: str, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    parts = [data]
    missing = length - len(data)
    while missing:
        data = os.pread(fd, missing, offset + length - missing)
        if not data:
            raise StorageError("the file got shorter while it was read", path=path)
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def _status(entry: os.DirEntry[str]) -> FileStatus:
    info = entry.stat()
    is_dir = stat.S_ISDIR(info.st_mode)
    return FileStatus(entry.path, entry.name, 0 if is_dir else info.st_size, is_dir, info.st_mtime_ns // 1_000_000)
