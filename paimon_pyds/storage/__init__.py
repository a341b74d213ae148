"""Byte storage: local disks and volumes, object stores, HDFS. `open_file_io` chooses by the scheme of a location.

In: paths and byte ranges. Out: bytes, listings, atomic creates. Other rooms use `open_file_io`, `FileIO`, `discard`
and, for indexes, `byte_source`. A location is a path, absolute or relative, a ``file:`` URI, a ``dbfs:`` path of
Databricks, or an object store's URI. As in Java Paimon, nothing in a URI is percent-decoded: partition directories hold
``%`` signs of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import BinaryIO, Protocol, TypeGuard, runtime_checkable

import numpy as np
import pyarrow as pa

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import (
    CorruptFileError,
    OptionError,
    PaimonError,
    UnsupportedError,
)

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
"""The beginning of a URI."""
LOCAL_INDEXES = ByteLimitedCache(64 << 20, at_random=True)
"""A cache for local data files, by path: their version, and the decoded footer and page index."""
FIRST_READ = 256 << 10
"""Bytes of a file in a store that are requested with its size."""
MANY_RANGES = 64
"""Ranges from which joining them in arrays is faster."""
OPTIONS_OF_ALL = ("external-paths.", "local-cache.")
"""Prefixes of storage options for every kind of store; the code that uses such an option checks it."""
_OBJECT_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "oss", "obs"})
_HADOOP_SCHEMES = frozenset({"hdfs", "viewfs"})
_ALTERNATIVES = {
    "cosn": "mount the bucket, or reach it by its S3-compatible endpoint (s3://… with s3.endpoint)",
    **dict.fromkeys(("wasb", "wasbs"), "use the abfss:// address of the same container"),
    **dict.fromkeys(("http", "https"), "download the table first"),
}
"""Hints for schemes that are not supported."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One entry of a directory listing. ``modified_ms`` is milliseconds since the epoch, 0 where unknown; ``is_link``:
    the entry is a link, and the rest is of what it leads to."""

    path: str
    name: str
    size: int
    is_dir: bool
    modified_ms: int
    is_link: bool = False


class OutputFile(Protocol):
    """A new file being written. It counts as written only after `close`; `abort` removes what there is."""

    @property
    def sink(self) -> BinaryIO:
        """The writable binary stream (pyarrow accepts it)."""

    def tell(self) -> int:
        """Bytes written so far."""

    def close(self) -> int:
        """Flush, make durable, close; the size in bytes. A failure removes the file and raises StorageError."""

    def abort(self) -> None:
        """Close and remove. Never raises for a file that is gone."""


@runtime_checkable
class FileIO(Protocol):
    """Byte storage. Paths are absolute, as `open_file_io` normalised them; errors are StorageError and its kin.

    Implementations pickle: Spark sends them to tasks. They hash, and are equal if they reach the same files with the
    same rights: metadata that one has read is cached for all that are equal to it.
    """

    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises MissingFileError when it is not there."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``offset``. Raises CorruptFileError when the file ends before."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those close to one another are read in one request."""

    def open_input(self, path: str) -> pa.NativeFile:
        """A seekable input for pyarrow's readers. Raises MissingFileError."""

    def open_output(self, path: str) -> OutputFile:
        """A new file; parent directories are made. Raises StorageError when it exists."""

    def size(self, path: str) -> int:
        """The file's size in bytes. Raises MissingFileError."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory, by name; empty when it does not exist."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; fine when it is there."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with this content in one atomic step, or return False when it is there already."""

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create a file of a unique name, durably. Raises StorageError when it exists."""

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small file (hints) in one atomic step."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those that are gone are fine."""

    def delete_tree(self, path: str) -> None:
        """Remove a directory and everything in it; fine when gone."""

    def remove_empty_dir(self, path: str) -> bool:
        """Remove a directory; False, and nothing is done, when it holds something, is gone, or no directory."""

    def rename(self, source: str, target: str) -> None:
        """Rename a directory or file. Raises AlreadyExistsError when the target is there."""


class SavesRequests(Protocol):
    """A FileIO that looks up a size by a whole request."""

    def open_sized(self, path: str, size: int) -> pa.NativeFile:
        """As `open_input`, of a file of which the size is known."""

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        """The first ``length`` bytes, or all if the file has fewer, and the file's size. Errors as `size`."""


class ReadsTogether(Protocol):
    """A FileIO that reads the first bytes of many files in one thread, for less processor time than in several."""

    def read_starts(self, paths: Sequence[str], length: int) -> list[tuple[bytes, int] | None]:
        """What `SavesRequests.read_start` gives of each file, which are requested together; None where that failed, or
        waits for something: to read it alone tries again, and says what is wrong.

        Called in a thread that runs no loop of asyncio. Raises StorageError, OptionError: there is no client, or a path
        is of another store.
        """


@runtime_checkable
class Lockable(Protocol):
    """A FileIO whose store may not be able to create a file only if absent."""

    def with_lock(self, lock: Callable[[], AbstractContextManager[Callable[[], bool]]]) -> FileIO:
        """The same FileIO, with a lock for stores that can only check first and write then. ``lock``: enters the lock,
        and returns a function that returns whether it has not expired."""


def saves_requests(io: object) -> TypeGuard[SavesRequests]:
    """Whether a storage is a `SavesRequests`, or stands for one: from Python 3.12 on isinstance doesn't see that."""
    return hasattr(io, "read_start")


def reads_together(io: object) -> TypeGuard[ReadsTogether]:
    """Whether a storage is a `ReadsTogether`, or stands for one."""
    return hasattr(io, "read_starts")


def requests_at_once(io: FileIO) -> int:
    """The number of parallel requests to a store, as each takes long whatever its size; 0 for a local disk."""
    return getattr(io, "requests_at_once", 0)


def forget(io: FileIO, path: str) -> None:
    """Keep nothing of a file any longer: it is damaged, and may be replaced by a copy of what it was."""
    LOCAL_INDEXES.take(path)
    if requests_at_once(io):
        from paimon_pyds.storage.range_cache import forget_ranges

        forget_ranges(io, path)


def is_file(io: FileIO, path: str) -> bool:
    """Whether a file is there; to object stores this is one request, where `FileIO.exists` may need several."""
    try:
        return io.size(path) >= 0
    except FileNotFoundError:
        return False


def scheme_of(path: str) -> str:
    """The scheme of a path in lower case; ``"file"`` for a path without one."""
    match = SCHEME.match(path)
    return match[1].lower() if match else "file"


def check_range(path: str, offset: int, length: int, size: int) -> None:
    """Raises CorruptFileError unless the range is inside a file of ``size`` bytes."""
    if offset < 0 or length < 0 or offset + length > size:
        raise CorruptFileError(
            f"{length} bytes wanted at {offset}, the file has {size}: it is truncated or something points past its end",
            path=path,
            offset=offset,
        )


def read_coalesced(
    read: Callable[[int, int], bytes], ranges: Sequence[tuple[int, int]], gap: int, max_request: int
) -> list[bytes]:
    """The bytes of each (offset, length), in the order given.

    Ranges at most ``gap`` bytes apart are read in one request of at most ``max_request`` bytes (a single range may be
    longer). Ranges may overlap and come in any order.
    """
    if len(ranges) == 1:
        return [read(*ranges[0])]
    result = [b""] * len(ranges)
    order: Sequence[int] = range(len(ranges))
    if len(ranges) > MANY_RANGES:  # most of many ranges have no neighbour, likely
        offsets, lengths = np.array(ranges, np.int64).T
        by_offset = np.argsort(offsets, kind="stable")
        stops = np.maximum.accumulate((offsets + lengths)[by_offset])
        apart = np.concatenate([[True], offsets[by_offset][1:] - stops[:-1] > gap, [True]])
        alone = apart[:-1] & apart[1:]
        for i in by_offset[alone].tolist():
            result[i] = read(*ranges[i])
        order = by_offset[~alone].tolist()
    order = sorted(order, key=ranges.__getitem__)
    together: list[int] = []
    start = stop = 0
    for number in [*order, -1] if order else ():
        offset, length = ranges[number]
        end = offset + length
        if together and (number < 0 or offset - stop > gap or max(stop, end) - start > max_request):
            data = read(start, stop - start)
            if len(together) == 1:
                result[together[0]] = data
            else:
                for i in together:
                    begin = ranges[i][0] - start
                    result[i] = data[begin : begin + ranges[i][1]]
            together = []
        if not together:
            start, stop = offset, end
        together.append(number)
        stop = max(stop, end)
    return result


def discard(io: FileIO, paths: Iterable[str]) -> None:
    """Remove files, best effort: what stays harms nobody, and the error that led here is the one to report."""
    listed = list(paths)
    try:
        io.delete(listed)
    except (OSError, PaimonError):
        for path in listed:  # the storage may have stopped at the first that it could not remove
            with suppress(OSError, PaimonError):
                io.delete([path])


def is_path(text: str) -> bool:
    """Whether the operating system can have a file of this name: half of a surrogate pair has no bytes."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def normalise_location(location: str | os.PathLike[str]) -> str:
    """The one spelling of a location: an absolute local path, or ``scheme://authority/path`` without a trailing slash.
    Raises OptionError: an empty location, or one with a NUL character or half of a surrogate pair."""
    text: object = os.fspath(location)
    if not isinstance(text, str) or not text.strip() or not is_path(text):
        raise OptionError(f"not a location: {location!r:.200}", hint="give the path of a table or warehouse")
    match = SCHEME.match(text)
    if match is None:
        return os.path.abspath(os.path.expanduser(text))
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        return os.path.abspath(_without_authority(rest))
    if scheme == "dbfs":
        path = os.path.abspath(_without_authority(rest))
        return path if path == "/Volumes" or path.startswith("/Volumes/") else "/dbfs" + path
    if scheme in _HADOOP_SCHEMES and not rest.startswith("//"):
        rest = f"///{rest.lstrip('/')}"  # the name node that Hadoop's settings name
    named = scheme in _HADOOP_SCHEMES and rest.startswith("///")
    authority, _, key = (rest[2:] if named else rest.lstrip("/")).partition("/")
    clean = "/".join(part for part in key.split("/") if part not in ("", "."))
    return f"{scheme}://{authority}/{clean}".rstrip("/")


def _without_authority(rest: str) -> str:
    """``//host/path`` and ``///path`` to ``/path``; only this machine can be the host."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost"):
        raise OptionError(f"a file: address of another machine: {host}", hint="write file:///path, with three slashes")
    return slash + path


def open_file_io(
    location: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[FileIO, str]:
    """The FileIO that serves a location, and the location in the spelling that FileIO understands.

    ``storage_options`` (credentials, endpoints) matter to object stores only: those of others are passed over.

    Raises:
        OptionError: an empty location, an option that no store knows, or one that contradicts the location.
        UnsupportedError: a scheme that nothing here serves.
    """
    path = normalise_location(location)
    scheme = scheme_of(path)
    own = [key for key in storage_options or () if not str(key).lower().startswith(OPTIONS_OF_ALL)]
    if own:
        from paimon_pyds.storage.store_options import check_names

        check_names(own)
    if scheme == "file":
        from paimon_pyds.storage.local import LocalFileIO

        return LocalFileIO(), path
    from importlib.util import find_spec  # local tables don't need it

    if scheme in _HADOOP_SCHEMES:
        if find_spec("hdfs_native") is None:
            from paimon_pyds.storage.libhdfs import LibhdfsFileIO

            return LibhdfsFileIO(path, storage_options), path
        from paimon_pyds.storage.hdfs import HdfsFileIO

        return HdfsFileIO(path, storage_options), path
    if scheme in _OBJECT_SCHEMES:
        if find_spec("obstore") is None:
            raise UnsupportedError(
                f"tables on {scheme}:// need obstore", path=path, hint="pip install 'paimon-pyds[cloud]'"
            )
        from paimon_pyds.storage.object_store import ObjectStoreFileIO

        return ObjectStoreFileIO(path, storage_options), path
    raise UnsupportedError(
        f"storage of scheme {scheme}:// is not supported",
        path=path,
        hint=_ALTERNATIVES.get(scheme, "use a local path, file:, dbfs:/Volumes, s3, gs, abfs(s), oss, obs or hdfs"),
    )


def options_of_store(location: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """The storage options that `open_file_io` uses for a location: tasks get no credentials of other stores.

    Those that it would refuse are left out: a server may give some that only Java's file systems know.
    """
    location = normalise_location(location)
    if scheme_of(location) not in _OBJECT_SCHEMES | _HADOOP_SCHEMES:
        return {}
    from paimon_pyds.storage.store_options import concerns, is_known

    return {key: value for key, value in storage_options.items() if concerns(location, key) and is_known(key)}
