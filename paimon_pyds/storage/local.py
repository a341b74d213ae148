"""FileIO on a local or mounted file system. What writes is in `local_writes`, which reading does not load."""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.storage import FileStatus, OutputFile, check_range, read_coalesced
from paimon_pyds.storage.faults import storage_error, storage_faults

if TYPE_CHECKING:
    pass

_GAP = 2048  # reading a gap of 2 KiB from the page cache costs about what one more request does
_MAX_REQUEST = 1 << 20  # what is read together is copied once more
_MANY_RANGES = 64
"""Ranges from which threads read one after the other, as many small reads of several threads slow each other."""
_TURN_SECONDS = 0.005
"""Seconds to wait for a turn; after that a thread reads without one."""
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class LocalFileIO:
    """FileIO over the operating system's files. It has no state; paths are absolute."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LocalFileIO()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFileIO)

    def __hash__(self) -> int:
        return hash(LocalFileIO)

    def version(self, path: str) -> str:
        """A version by which the file differs from a later one of the same name. Raises OSError."""
        return f"local {os.stat(path).st_mtime_ns}"

    def read_bytes(self, path: str) -> bytes:
        with storage_faults("read", path, missing_passes=True):
            fd, _ = _open_regular(path)
            with io.FileIO(fd) as file:
                return file.readall()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with storage_faults("read", path, missing_passes=True):
            fd, size = _open_regular(path)
            try:
                if offset < 0 or length < 0 or offset + length > size:
                    check_range(path, offset, length, size)
                return _pread(fd, path, offset, length)
            finally:
                os.close(fd)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those at most 2 KiB apart are read together."""
        if not ranges:
            return []
        with storage_faults("read", path, missing_passes=True):
            fd, size = _open_regular(path)
            try:
                for offset, length in ranges:
                    if offset < 0 or length < 0 or offset + length > size:
                        check_range(path, offset, length, size)
                with _turn() if len(ranges) > _MANY_RANGES else nullcontext():
                    return read_coalesced(functools.partial(_pread, fd, path), ranges, _GAP, _MAX_REQUEST)
            finally:
                os.close(fd)

    def read_joined(self, path: str, offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> bytes:
        """Several ranges, joined. For many distant ranges this is faster than `read_ranges`.

        The result may be a memoryview, which callers do not change.
        """
        ranges = list(zip(offsets.tolist(), lengths.tolist(), strict=True))
        if not hasattr(os, "preadv"):
            return b"".join(self.read_ranges(path, ranges))
        with storage_faults("read", path, missing_passes=True):
            fd, size = _open_regular(path)
            try:
                for i in np.flatnonzero((offsets < 0) | (lengths < 0) | (offsets > size - lengths)).tolist():
                    check_range(path, *ranges[i], size)
                view = np.empty(int(lengths.sum()), np.uint8).data  # a bytearray is filled with zeros first
                with _turn() if len(ranges) > _MANY_RANGES else nullcontext():
                    start, read = 0, os.preadv
                    for offset, length in ranges:
                        stop = start + length
                        done = read(fd, [view[start:stop]], offset)
                        if done < length:  # Linux reads 2 GiB at a time
                            view[start + done : stop] = _pread(fd, path, offset + done, length - done)
                        start = stop
                return cast(bytes, view)
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

    def open_output(self, path: str) -> OutputFile:
        from paimon_pyds.storage.local_writes import LocalOutput

        return LocalOutput(path)

    def make_dir(self, path: str) -> None:
        with storage_faults("create", path):
            os.makedirs(path, exist_ok=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with this content in one atomic step, or return False when it is there already.

        The file is complete and on the disk when its name appears. See `local_writes` for file systems without
        hard links.
        Raises StorageError: the storage refuses, or a link that leads nowhere has the name.
        """
        from paimon_pyds.storage.local_writes import publish

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
        from paimon_pyds.storage.local_writes import write_new

        with storage_faults("write", path):
            write_new(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small file (hints) in one atomic step. Not synced: a lost hint costs a listing only."""
        from paimon_pyds.storage.local_writes import replace_small

        with storage_faults("write", path):
            replace_small(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with storage_faults("delete", path), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)

    def delete_tree(self, path: str) -> None:
        import shutil  # loads all kinds of compression

        for attempt in range(3):
            try:
                shutil.rmtree(path)
                return
            except OSError as error:
                if not os.path.lexists(path):
                    return
                # Another process writes into it, or deletes it too: the next attempt removes the rest.
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or attempt == 2:
                    raise_alone(storage_error(error, "delete", path), scrubbed(error))

    def remove_empty_dir(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                return False
            raise_alone(storage_error(error, "delete", path), scrubbed(error))
        return True

    def rename(self, source: str, target: str) -> None:
        """Rename a directory or file. AlreadyExistsError: the target is there; FileNotFoundError: no source."""
        from paimon_pyds.storage.local_writes import rename_if_free

        with storage_faults("rename", source, missing_passes=True):
            try:
                rename_if_free(source, target)
            except FileExistsError:
                raise AlreadyExistsError("the target of a rename already exists", path=target) from None


def _open_regular(path: str) -> tuple[int, int]:
    """A descriptor to read a file, and its size; links followed. A FIFO would wait for a writer, and a device may have
    no end: raises StorageError for those, and OSError."""
    fd = os.open(path, _READ_FLAGS)
    try:
        info = os.fstat(fd)
        _check_regular(info.st_mode, path)
    except BaseException:
        os.close(fd)
        raise
    return fd, info.st_size


def _check_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        kind = "a FIFO" if stat.S_ISFIFO(mode) else "a device"
        raise StorageError(
            f"can't read: {kind} is in the way where a file is needed", path=path, hint="remove it from the table"
        )


@contextmanager
def _turn() -> Iterator[None]:
    """One thread at a time does very many reads: each lets go of the interpreter's lock, and two threads would wait for
    one another at each. Where reads take long, it is worth doing them at the same time: then none waits for its turn.
    """
    turns = _turns()
    taken = turns.acquire(timeout=_TURN_SECONDS)
    try:
        yield
    finally:
        if taken:
            turns.release()


@functools.cache
def _turns() -> threading.Lock:
    return threading.Lock()


if hasattr(os, "register_at_fork"):  # a child lacks the threads that hold it
    os.register_at_fork(after_in_child=_turns.cache_clear)


def _pread(fd: int, path: str, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    while len(data) < length:  # Linux reads 2 GiB at a time
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            raise StorageError("the file got shorter while it was read", path=path)
        data += more
    return data


def _status(entry: os.DirEntry[str]) -> FileStatus:
    info = entry.stat()
    is_dir = stat.S_ISDIR(info.st_mode)
    size, modified = 0 if is_dir else info.st_size, info.st_mtime_ns // 1_000_000
    return FileStatus(entry.path, entry.name, size, is_dir, modified, entry.is_symlink())
