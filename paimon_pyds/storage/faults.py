"""Errors of the operating system and of pyarrow as errors of a storage, with hints and without secrets."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection

import pyarrow as pa

from paimon_pyds.base.secrets import raise_alone, redact, scrubbed
from paimon_pyds.errors import MissingFileError, PaimonError, StorageError

_HINTS = {
    errno.ENOSPC: "free some space or write to another place; nothing was published",
    errno.EDQUOT: "your quota is used up: free some space or have it raised; nothing was published",
    errno.EFBIG: "the file system does not allow files of this size: lower target-file-size",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check the permissions of this path for the user of this process"),
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
"""Hints for errors of the operating system."""


def storage_error(error: OSError, action: str, path: str, secrets: Collection[str] = ()) -> StorageError:
    """A StorageError for ``action`` ("write", "list", …) on ``path``; ``errno`` stays, ``secrets`` are blanked."""
    if isinstance(error, StorageError):
        return error
    reason = (os.strerror(error.errno) if error.errno else redact(str(error), secrets)) or type(error).__name__
    fault = StorageError(f"can't {action}: {reason}", path=path, hint=_HINTS.get(error.errno or 0))
    fault.errno = error.errno
    return fault


def missing_file(action: str, path: str) -> MissingFileError:
    """The error for a file that is not there; ``path`` has no secret."""
    fault = MissingFileError(
        f"can't {action}: {os.strerror(errno.ENOENT)}", path=path, hint="if it was there a moment ago, try again"
    )
    fault.errno, fault.filename = errno.ENOENT, path
    return fault


class storage_faults:  # of the kind of suppress; a generator would take a fifth of the time of a short read
    """Turn OSError inside into StorageError; with ``missing_passes`` a missing file is a MissingFileError.

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
        if error is None or isinstance(error, PaimonError):
            return
        secrets = self._secrets
        if isinstance(error, OSError):
            if self._missing_passes and (
                error.errno in (errno.ENOENT, errno.ENOTDIR) or isinstance(error, FileNotFoundError)
            ):
                # In no variable: this frame would hold the error, which holds it and all that the callers have loaded.
                raise_alone(missing_file(self._action, redact(self._path, secrets)), scrubbed(error, secrets))
            raise_alone(storage_error(error, self._action, self._path, secrets), scrubbed(error, secrets))
        if isinstance(error, pa.ArrowException | UnicodeEncodeError):
            # What pyarrow has no OSError for; a name without bytes.
            reason = redact(str(error).partition("\n")[0], secrets)
            fault = StorageError(
                f"can't {self._action}: {reason}", path=self._path, hint="check the storage options and the path"
            )
            raise_alone(fault, scrubbed(error, secrets))
