"""FileIO on a local or mounted file system. New files are made exclusively, and published in one atomic step.

The content is written and synced under a temporary name first and then linked to its own name, which the kernel does
for one of all rivals and only when the name is free. Where hard links are refused (FUSE volumes, some network shares),
`renameat2` with RENAME_NOREPLACE does the same. Where that is missing too, a process checks that the name is free and
renames, while it holds a lock file in the same directory, which is created exclusively: readers see whole files only. A
process that dies in that moment leaves its lock, and the next writers are refused with the name of its holder and
advice. Nothing here could prove that it isn't about to rename, and then a commit would be replaced.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import io
import os
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.storage import FileStatus, OutputFile, check_range, read_coalesced, storage_error, storage_faults

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_GAP = 2048  # reading a gap of 2 KiB from the page cache costs about what one more request does
_MAX_REQUEST = 1 << 20  # what is read together is copied once more
_WRITE_BUFFER_BYTES = 1 << 20
"""Bytes that are buffered before a write."""
_NO_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})
_NO_LINKS = _NO_RENAME | {errno.EMLINK, errno.EXDEV}
_MANY_RANGES = 64
"""Ranges from which threads read one after the other, as many small reads of several threads slow each other."""
_TURN_SECONDS = 0.005
"""Seconds to wait for a turn; after that a thread reads without one."""
LOCK_SECONDS = 30.0  # a lock is held for two calls, which may take a second each on a mounted object store
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_RENAME_NOREPLACE = 1
"""The flag of renameat2(2)."""
_AT_FDCWD = -100
"""Relative paths start at the working directory (linux/fcntl.h)."""


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
        return _LocalOutput(path)

    def make_dir(self, path: str) -> None:
        with storage_faults("create", path):
            os.makedirs(path, exist_ok=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with this content in one atomic step, or return False when it is there already.

        The file is complete and on the disk when its name appears. See `publish` for file systems without hard
        links.
        Raises StorageError: the storage refuses, or a link that leads nowhere has the name.
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
        with storage_faults("rename", source, missing_passes=True):
            try:
                if not rename_noreplace(source, target) and not _renamed_otherwise(source, target):
                    raise FileExistsError(errno.EEXIST, "exists", target)
                _sync_directory(os.path.dirname(target))
            except FileExistsError:
                raise AlreadyExistsError("the target of a rename already exists", path=target) from None


class _LocalOutput:
    """A new local file. Unless it is closed it does not count; `abort` removes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        with storage_faults("create", path):
            self._raw = _RawSink(create_new(path), path)
        self._buffer = io.BufferedWriter(self._raw, _WRITE_BUFFER_BYTES)
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
            raise_alone(storage_error(error, "write", self._path), scrubbed(error))
        self.written += count
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


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


def create_new(path: str) -> int:
    """A descriptor of a new file, its directories made when they are missing. Raises FileExistsError, OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def write_new(path: str, data: bytes, *, sync: bool = True) -> None:
    """Create a file with this content; unless ``sync`` is off, it is on the disk then. Raises OSError."""
    fd = create_new(path)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def publish(path: str, data: bytes) -> bool:
    """Create the file with this content in one atomic step; False when it is there already. Raises OSError."""
    if os.path.lexists(path):
        return False
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
    try:
        write_new(temporary, data)
        created = _give_name(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    if created:
        _sync_directory(directory)
    return created


def _give_name(temporary: str, path: str) -> bool:
    """Give a finished temporary file its name; False when the name is taken. Raises OSError."""
    try:
        os.link(temporary, path)
        return True
    except OSError as error:
        # A network file system may report a failure for a link that it made: the link count shows it.
        with suppress(OSError):
            if os.stat(temporary).st_nlink == 2 and os.path.samefile(temporary, path):
                return True
        if error.errno == errno.EEXIST:
            return False
        if error.errno not in _NO_LINKS:
            raise
    try:
        return rename_noreplace(temporary, path) or _rename_locked(temporary, path)
    except FileExistsError:
        return False


def _renamed_otherwise(source: str, target: str) -> bool:
    """Rename without RENAME_NOREPLACE; False when the target is there. Raises OSError.

    A directory with something in it is never replaced (POSIX, rename); a file needs the lock.
    """
    if not stat.S_ISDIR(os.lstat(source).st_mode):
        return _rename_locked(source, target)
    if os.path.lexists(target):
        return False
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _rename_locked(temporary: str, path: str) -> bool:
    """Rename when the target is free, while no other process does so; False when it is taken. Raises OSError."""
    directory, name = os.path.split(path)
    lock = os.path.join(directory, f".{name}.lock")
    if not _take_lock(lock, path):
        return False
    try:
        os.lstat(path)  # any other failure than a missing file says nothing about it
        return False
    except FileNotFoundError:
        os.rename(temporary, path)
        return True
    finally:
        with suppress(OSError):  # the name is taken, or the next writer reports the lock
            os.unlink(lock)


def _take_lock(lock: str, path: str) -> bool:
    """Create the lock file of a path; False when another process created the path. Raises OSError, and StorageError
    when another process holds the lock for longer than it can need."""
    import socket

    now = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    owner = f"process {os.getpid()} on {socket.gethostname()} since {now}"
    retry = Retry(Pauses(0.05, 0.05, jitter=0.8), seconds=LOCK_SECONDS)
    while True:
        with suppress(FileExistsError):
            write_new(lock, owner.encode())
            return True
        if os.path.lexists(path):
            return False
        if retry.exhausted:
            raise StorageError(
                f"can't write: {_holder_of(lock)} holds the lock of a file that it didn't create",
                path=path,
                hint=f"if that process runs no more, remove {lock} and write again; reading goes on meanwhile",
            )
        retry.next()


def _holder_of(lock: str) -> str:
    """The process that wrote a lock file, if the file names it."""
    with suppress(OSError), open(lock, "rb") as file:
        return file.read(200).decode(errors="replace") or "an unknown process"
    return "an unknown process"


def rename_noreplace(source: str, target: str) -> bool:
    """Rename when the target is free, else raise FileExistsError. False where the system has no such call."""
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_RENAME:
        return False
    raise OSError(code, os.strerror(code), source)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _sync_directory(directory: str) -> None:
    """Make a new name durable. Not every file system allows it, and the name is published either way."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
