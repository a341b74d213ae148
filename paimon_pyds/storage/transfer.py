"""Files as they are, from one place to another."""

from __future__ import annotations

import errno
import os

from paimon_pyds.errors import StorageError
from paimon_pyds.storage import FileIO, scheme_of, storage_faults

_CHUNK = 8 << 20
"""Bytes that are copied at a time."""
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def transfer(source: FileIO, path: str, target: FileIO, new_path: str, mode: str) -> int:
    """Bring a file to a new path; the one that is there stays. The size in bytes of the new one.

    Args:
        source: the storage of the file.
        path: of the file.
        target: the storage that it comes to.
        new_path: where; directories are made.
        mode: ``copy``; ``link`` for a hard link; ``move`` for a link where one can be, and else a copy.

    Raises:
        StorageError: the storage refuses, also where ``link`` can't link.
    """
    local = scheme_of(path) == scheme_of(new_path) == "file"
    if mode != "copy" and local and _linked(target, path, new_path):
        return target.size(new_path)
    if mode == "link":
        raise StorageError(
            "can't link: source and target must be on one local disk that has hard links",
            path=path,
            hint="use mode=copy",
        )
    output = target.open_output(new_path)
    try:
        with storage_faults("read", path), source.open_input(path) as file:
            while chunk := file.read_buffer(_CHUNK):
                if not chunk.size:
                    break
                output.sink.write(chunk)
    except BaseException:
        output.abort()
        raise
    return output.close()


def _linked(target: FileIO, path: str, new_path: str) -> bool:
    """Whether a hard link could be made; a link that is not hard is followed."""
    target.make_dir(os.path.dirname(new_path))
    with storage_faults("link", path):
        try:
            os.link(os.path.realpath(path), new_path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
    return True
