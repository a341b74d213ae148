"""Operating-system errors in the words of StorageError, with what the reader can do about each."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pyarrow as pa

from paimon_pyds.errors import PaimonError, StorageError
from paimon_pyds.redaction import redact, scrubbed

__all__ = ["spill_faults", "storage_error", "storage_faults"]

_HINTS = {
    errno.ENOSPC: "free some space or write to another place; nothing was published",
    errno.EDQUOT: "your quota is used up: free some space or ask for more; nothing was published",
    errno.EFBIG: "the file system does not allow files of this size: lower target-file-size",
    errno.EACCES: "check the permissions of this path for the user that runs this process",
    errno.EPERM: "check the permissions of this path for the user that runs this process",
    errno.EROFS: "the file system is mounted read-only: write to another place",
    errno.EIO: "the device or its network failed: look at the system's log, then try again",
    errno.EMFILE: "too many open files in this process: raise ulimit -n or lower the parallelism"
    " (for writers write-max-writers-to-spill)",
    errno.ENFILE: "too many open files on this machine",
    errno.ESTALE: "the network file system lost the file: try again",
    errno.ENAMETOOLONG: "the path is too long for this file system: a shorter table path or partition value helps",
    errno.ENOENT: "the table or one of its directories was removed meanwhile",
    errno.ENOTDIR: "a file is in the way where a directory is needed",
    errno.EISDIR: "a directory is in the way where a file is needed",
    errno.EEXIST: "another writer made it meanwhile",
    errno.ETIMEDOUT: "the storage did not answer in time: try again",
}


def storage_error(error: OSError, action: str, path: str, secrets: Collection[str] = ()) -> StorageError:
    """A StorageError for ``action`` ("write", "list", …) on ``path``; ``errno`` is kept, ``secrets`` are blanked."""
    if isinstance(error, StorageError):
        return error
    reason = (os.strerror(error.errno) if error.errno else redact(str(error), secrets)) or type(error).__name__
    fault = StorageError(f"can't {action}: {reason}", path=path, hint=_HINTS.get(error.errno or 0))
    fault.errno = error.errno
    return fault


class storage_faults:  # of the kind of suppress; a generator would take a fifth of the time of a short read
    """Turn OSError inside into StorageError; with ``missing_passes`` a missing file stays FileNotFoundError.

    Neither they nor their causes show secrets: those given, and what looks like one.
    """

    __slots__ = ("_action", "_missing_passes", "_path", "_secrets")

    def __init__(self, action: str, path: str, *, missing_passes: bool = False, secrets: Collection[str] = ()) -> None:
        self._action = action
        self._path = path
        self._missing_passes = missing_passes
        self._secrets = secrets

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, PaimonError):
            self._raise(error)

    def _raise(self, error: BaseException) -> None:
        """Raise what is to be raised instead of an error, if anything is."""
        secrets = self._secrets
        if isinstance(error, OSError):
            if self._missing_passes and error.errno in (errno.ENOENT, errno.ENOTDIR):
                missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), redact(self._path, secrets))
                raise missing from scrubbed(error, secrets)
            if self._missing_passes and isinstance(error, FileNotFoundError):
                return
            raise storage_error(error, self._action, self._path, secrets) from scrubbed(error, secrets)
        if isinstance(error, pa.ArrowException | UnicodeEncodeError):
            # What pyarrow has no OSError for; a name without bytes.
            reason = redact(str(error).partition("\n")[0], secrets)
            raise StorageError(
                f"can't {self._action}: {reason}", path=self._path, hint="check the storage options and the path"
            ) from scrubbed(error, secrets)


@contextmanager
def spill_faults(what: str, path: str | None = None) -> Iterator[None]:
    """Turn OSError inside into a StorageError that says which rows could not be spilled, and how to make room.

    Args:
        what: the rows, for the message.
        path: the place; the directory of temporary files unless given.
    """
    try:
        yield
    except PaimonError:
        raise
    except OSError as error:
        raise StorageError(
            f"can't spill {what}: {error.strerror or error}",
            path=path or tempfile.tempdir,
            hint="free some space there, or name another directory in TMPDIR",
        ) from error
