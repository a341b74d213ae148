"""New files on a local or mounted file system: made exclusively, and published under their names in one atomic step.

The content is written and synced under a temporary name first and then linked to its own name, which the kernel does
for one of all rivals and only when the name is free. Where hard links are refused (FUSE volumes, some network shares),
`renameat2` with RENAME_NOREPLACE does the same. Where that is missing too, the file is created exclusively and then
filled: one writer still wins, but a reader may for a moment see it incomplete (`metadata.store` looks again), and a
crash in between leaves an incomplete file, to be removed by hand.
"""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from contextlib import suppress

__all__ = ["create_new", "publish", "rename_noreplace", "write_new"]

_NO_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_LINKS = _NO_RENAME | {errno.EPERM, errno.EMLINK, errno.EXDEV}
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100


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
        created = _give_name(temporary, path, data)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    if created:
        _sync_directory(directory)
    return created


def _give_name(temporary: str, path: str, data: bytes) -> bool:
    """Give a finished temporary file with this content its name; False when the name is taken. Raises OSError."""
    try:
        os.link(temporary, path)
        return True
    except OSError as error:
        # A network file system may report a failure for a link that it made: the link count tells.
        with suppress(OSError):
            if os.stat(temporary).st_nlink == 2 and os.path.samefile(temporary, path):
                return True
        if error.errno == errno.EEXIST:
            return False
        if error.errno not in _NO_LINKS:
            raise
    try:
        if rename_noreplace(temporary, path):
            return True
        write_new(path, data)
        return True
    except FileExistsError:
        return False


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


_LIBC: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _LIBC:
        _LIBC.append(ctypes.CDLL(None, use_errno=True))
    return _LIBC[0]


def _sync_directory(directory: str) -> None:
    """Make a new name durable. Not every file system allows it, and the name is published either way."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
