"""What this machine's disk keeps of tables for the next process: decoded manifests, and of object stores the metadata
that was read.

A directory that is the user's alone (``$XDG_CACHE_HOME/paimon-pyds``, else ``~/.cache/paimon-pyds``; source: XDG Base
Directory Specification) has a file for each entry: a head with its key and a checksum, and the data. A file gets its
name once it is whole, so any number of processes may read, write and remove them. A damaged file counts as absent.
Nothing here raises if the disk refuses: the cache is not used then, which is logged.

Only files that never change are cached: those with a UUID in their name. Snapshots and schemas are read each time, so a
table that was dropped, rolled back or created again is seen as it is.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from xxhash import xxh3_64

from paimon_pyds.base.options.option import Kind, parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from paimon_pyds.storage import FileIO

VARIABLE = "PAIMON_PYDS_LOCAL_CACHE"
"""The environment variable: ``off``, or how many bytes the directory may have (``2 GB``)."""
_ENABLED, _DIRECTORY, _MAX_SIZE = "local-cache.enabled", "local-cache.dir", "local-cache.max-size"
_DEFAULT_SIZE = 1 << 30
_LEAST_FILE = 4096
_HEAD = struct.Struct("<8s32sQQ")
_MAGIC = b"PPYDSLC1"
"""Its number grows if the format of the data changes."""
_BODY = 64
"""Offset of the data in a file, so that Arrow's arrays are aligned."""
_UNIQUE = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*"
_OWN_FILE = r"[0-9a-f]{64}\.kept(\.[0-9a-f]{32})?"
_UNFINISHED_SECONDS = 3600
"""A file without its last name that is older was left by a process that was killed."""
_given_up: set[str] = set()
"""Directories that this process writes to no longer."""
_written: dict[str, int] = {}
"""Bytes that this process has written to a directory since it last made room there."""


@dataclass(frozen=True, slots=True)
class LocalCache:
    """The disk cache. ``directory``: its path; None if there is no place for one. ``max_size``: bytes of all its files
    together; the least recently used ones make room. 0 turns it off."""

    directory: str | None
    max_size: int

    @classmethod
    def of(cls, storage_options: Mapping[str, str] | None = None) -> LocalCache:
        """What storage options say, and the environment where they say nothing.
        Raises OptionError: an unknown option of the cache, or one with a bad value."""
        given = {k.lower(): str(v) for k, v in (storage_options or {}).items() if is_option(k)}
        known = (_ENABLED, _DIRECTORY, _MAX_SIZE)
        for key in given:
            if key not in known:
                raise OptionError(f"unknown storage option {key}", hint=f"known: {', '.join(known)}")
        directory, size = given.get(_DIRECTORY) or _user_directory(), _ambient_size()
        if directory is not None and not os.path.isabs(directory):
            raise OptionError(f"{_DIRECTORY} must be an absolute directory", path=directory)
        if _MAX_SIZE in given:
            size = int(parse_value(_MAX_SIZE, Kind.MEMORY, given[_MAX_SIZE]))
        if _ENABLED in given:
            enabled = parse_value(_ENABLED, Kind.BOOLEAN, given[_ENABLED])
            size = (size or _DEFAULT_SIZE) if enabled else 0
        return cls(directory, size)

    def key(self, io: FileIO, path: str, *what: Hashable) -> bytes | None:
        """The key of something derived from a file; None for a file that may change. ``io``: the storage; its version
        is a part of the key, its credentials are not. ``what``: names the derived thing."""
        return self.key_of(io, path, *what) if re.search(_UNIQUE, path.rpartition("/")[2]) else None

    def key_of(self, io: FileIO, path: str, *what: Hashable) -> bytes | None:
        """The same for any file: the caller has to compare the cached data with the storage."""
        version = getattr(io, "version", None)
        if not self.max_size or version is None:
            return None
        import hashlib  # OpenSSL takes time to load, and few tables are that large

        with suppress(OSError):
            return hashlib.sha256(repr((version(path), path, *what)).encode(errors="surrogatepass")).digest()
        return None

    def read(self, key: bytes) -> pa.Buffer | None:
        """The cached data; None if it is not here, or damaged."""
        directory = self._opened(create=False)
        if directory is None:
            return None
        path = _file(directory, key)
        try:
            data = _read(path)
        except OSError:
            return None
        body = data.slice(min(_BODY, data.size))
        sound = data.size > _BODY and data.slice(0, _BODY).to_pybytes() == _head(key, body)
        with suppress(OSError):
            if sound:
                os.utime(path)
            else:
                os.unlink(path)
        return body if sound else None

    def batch(self, key: bytes | None, schema: pa.Schema, load: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """A batch of rows, which is stored as Arrow IPC: the cached one, else what ``load`` gives.

        ``key``: None for a batch that can't be cached. ``schema``: a cached batch of another one is not used.
        """
        data = None if key is None else self.read(key)
        if data is not None:
            with suppress(pa.ArrowException, StopIteration, OSError):
                batch = pa.ipc.open_stream(data).read_next_batch()
                batch.validate(full=True)
                if batch.schema.equals(schema):
                    return batch
        batch = load()
        if key is not None:
            body = pa.BufferOutputStream()
            with pa.ipc.new_stream(body, batch.schema) as stream:
                stream.write_batch(batch)
            self.write(key, body.getvalue())
        return batch

    def remove(self, key: bytes) -> None:
        """Cache it no longer."""
        directory = self._opened(create=False)
        if directory is not None:
            with suppress(OSError):
                os.unlink(_file(directory, key))

    def write(self, key: bytes, data: pa.Buffer | bytes) -> None:
        """Keep some bytes, one at least; what the key had before is replaced."""
        directory = self._opened(create=True)
        if directory is None or directory in _given_up or _BODY + len(data) > self.max_size:
            return
        import uuid

        data = pa.py_buffer(data)
        temporary = f"{_file(directory, key)}.{uuid.uuid4().hex}"
        try:
            try:
                _write(temporary, _head(key, data), data)
                os.rename(temporary, _file(directory, key))
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            self._count(directory, _BODY + data.size)
        except OSError as error:
            _give_up(directory, os.strerror(error.errno or 0))

    def _opened(self, *, create: bool) -> str | None:
        """The directory, when nobody but this user can have put anything there."""
        directory = self.directory
        if directory is None or not self.max_size or not hasattr(os, "geteuid"):
            return None
        try:
            if create and directory not in _given_up:
                os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
                with suppress(FileExistsError):
                    os.mkdir(directory, 0o700)
            found = os.lstat(directory)
        except OSError as error:
            if create:
                _give_up(directory, os.strerror(error.errno or 0))
            return None
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return directory
        _give_up(directory, "it must be a directory of this user, no link, that nobody else may enter (mode 0700)")
        return None

    def _count(self, directory: str, size: int) -> None:
        """Make room after the first file of this process, and after each sixteenth of the whole: a plan may write very
        many files, and the directory is listed for it. Raises OSError."""
        written = _written.get(directory, self.max_size) + max(size, _LEAST_FILE)
        if written > self.max_size // 16:
            self._make_room(directory)
            written = 0
        _written[directory] = written

    def _make_room(self, directory: str) -> None:
        """Remove what was used least recently until all files fit, and what killed processes left. Raises OSError."""
        kept = []
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                if not re.fullmatch(_OWN_FILE, entry.name) or not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
                finished = entry.name.endswith(".kept")
                if finished or status.st_mtime > time.time() - _UNFINISHED_SECONDS:
                    kept.append((finished, status.st_mtime_ns, held_bytes(status), entry.path))
                else:
                    os.unlink(entry.path)
        total = sum(size for _, _, size, _ in kept)
        for finished, _, size, path in sorted(kept):
            if total <= self.max_size:
                return
            if finished:
                with suppress(FileNotFoundError):
                    os.unlink(path)
                total -= size


def held_bytes(status: os.stat_result) -> int:
    """What a file takes of the disk: a small one a whole block."""
    return max(status.st_size, getattr(status, "st_blocks", 0) * 512)


def is_option(key: object) -> bool:
    """Whether a storage option is one of the cache."""
    return str(key).lower().startswith("local-cache.")


def _user_directory() -> str | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "paimon-pyds") if os.path.isabs(base) else None


def _ambient_size() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    if not text or text.lower() in ("on", "true"):
        return _DEFAULT_SIZE
    if text.lower() in ("off", "false"):
        return 0
    return int(parse_value(VARIABLE, Kind.MEMORY, text))


def _give_up(directory: str, reason: str) -> None:
    if directory not in _given_up:
        _given_up.add(directory)
        import logging

        logging.getLogger("paimon_pyds.cache").info("nothing is cached in %s: %s", directory, reason)


def _file(directory: str, key: bytes) -> str:
    return os.path.join(directory, f"{key.hex()}.kept")


def _head(key: bytes, body: pa.Buffer) -> bytes:
    checksum = xxh3_64(key)
    checksum.update(body)
    return _HEAD.pack(_MAGIC, key, body.size, checksum.intdigest()).ljust(_BODY, b"\0")


def _read(path: str) -> pa.Buffer:
    """A file, copied rather than mapped: a page of a mapped file that another machine removes, as homes on network
    storage are shared, ends the process, and could change after its checksum was right. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        data = pa.allocate_buffer(status.st_size if own else 0)
        view = memoryview(data)
        while view and (count := file.readinto(view)):
            view = view[count:]
    return data.slice(0, data.size - len(view))


def _write(path: str, head: bytes, body: pa.Buffer) -> None:
    """A new file; it need not outlive a power failure. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb", buffering=0) as file:
        for part in (head, body):
            view = memoryview(part)
            while view:
                view = view[file.write(view) :]
