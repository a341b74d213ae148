"""How `LocalFileIO` writes: new files are made exclusively, and published in one atomic step.

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
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import StorageError
from paimon_pyds.storage.faults import storage_error, storage_faults

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_WRITE_BUFFER_BYTES = 1 << 20
"""Bytes that are buffered before a write."""
_NO_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})
_NO_LINKS = _NO_RENAME | {errno.EMLINK, errno.EXDEV}
LOCK_SECONDS = 30.0  # a lock is held for two calls, which may take a second each on a mounted object store
_RENAME_NOREPLACE = 1
"""The flag of renameat2(2)."""
_AT_FDCWD = -100
"""Relative paths start at the working directory (linux/fcntl.h)."""


class LocalOutput:
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


def replace_small(path: str, data: bytes) -> None:
    """Create or replace a small file in one atomic step, without syncing it. Raises OSError."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
    try:
        write_new(temporary, data, sync=False)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


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


def rename_if_free(source: str, target: str) -> None:
    """Rename a directory or file, and make that durable. Raises FileExistsError: the target is there; OSError."""
    if not rename_noreplace(source, target) and not _renamed_otherwise(source, target):
        raise FileExistsError(errno.EEXIST, "exists", target)
    _sync_directory(os.path.dirname(target))


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
