"""FileIO over obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure. It creates objects if absent (a
put with ``If-None-Match: *``, which all three have), so tables there can be written.

A put of which the outcome is unknown is not sent again by the client, but here, where what became of the first is
looked up before. Objects appear when they are whole: parts of an upload that ended before are not visible.
"""

from __future__ import annotations

import errno
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from typing import Any, BinaryIO

import obstore
import pyarrow as pa
from obstore import exceptions

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    CommitOutcomeUnknownError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from paimon_pyds.storage import FileStatus, OutputFile, check_range, discard, is_file
from paimon_pyds.storage.object_files import IN_MEMORY_BYTES, NewObject, ObjectInput
from paimon_pyds.storage.object_requests import TRIES, ObjectRequests
from paimon_pyds.storage.store_clients import marker_client
from paimon_pyds.storage.store_options import S3_LIKE
from paimon_pyds.storage.whole_listing import NoListError, Witness, is_whole

_JOINED_GAP = 1 << 20
_MARKER = ".directory"
"""An empty object that makes a directory of what has none."""
_NOT_CONDITIONAL = re.compile(r"status code: 501|NotImplemented|If-None-Match")
"""What says that a store knows no conditional put; other failures say nothing of it."""
_conditional: dict[bytes, bool] = {}
"""Whether a store was seen to refuse a second put of one key."""


class ObjectStoreFileIO(ObjectRequests):
    """FileIO over obstore. Raises: as `RemoteFileIO`."""

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(root, options)
        self._lock: Callable[[], AbstractContextManager[Callable[[], bool]]] | None = None

    # ------------------------------------------------------------------------------------------------- reading

    def read_bytes(self, path: str) -> bytes:
        store, key = self._locate(path)
        with self._requests("read", path):
            data = bytes(obstore.get(store, key).bytes())
        self.counts.add(len(data))
        self._witness(path).seen(key)
        return data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges, requested side by side; those at most 1 MiB apart in one request."""
        if any(offset < 0 or length < 0 for offset, length in ranges):
            self._check_ranges(path, ranges)
        wanted = [(offset, length) for offset, length in ranges if length]
        store, key = self._locate(path)
        found: list[bytes] = []
        if wanted:
            starts, lengths = ([r[i] for r in wanted] for i in (0, 1))
            try:
                merged = _merged(wanted)
                self.counts.add(sum(merged), len(merged))
                with self._requests("read", path):
                    found = [
                        bytes(d)
                        for d in obstore.get_ranges(store, key, starts=starts, lengths=lengths, coalesce=_JOINED_GAP)
                    ]
            except MissingFileError:
                raise
            except StorageError:
                self._check_ranges(path, wanted)  # a range that begins past the end is an error of the request
                raise
        if [len(data) for data in found] != [length for _, length in wanted]:
            self._check_ranges(path, wanted)
            raise StorageError("the storage gave fewer bytes than it has", path=path, hint="try again")
        left = iter(found)
        return [next(left) if length else b"" for _, length in ranges]

    def _check_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        size = self.size(path)
        for offset, length in ranges:
            check_range(path, offset, length, size)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, self.size(path))

    def open_sized(self, path: str, size: int) -> pa.NativeFile:
        return pa.PythonFile(ObjectInput(self, path, size), mode="r")

    def size(self, path: str) -> int:
        store, key = self._locate(path)
        self.counts.add()
        with self._requests("look up", path):
            size = int(obstore.head(store, key)["size"])
        self._witness(path).seen(key)
        return size

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        """The first bytes and the size of an object, by one request."""
        store, key = self._locate(path)
        try:
            with self._requests("read", path):
                found = obstore.get(store, key, options={"range": (0, length)})
                data = bytes(found.bytes())
            self.counts.add(len(data))
            self._witness(path).seen(key)
            return data, int(found.meta["size"])
        except MissingFileError:
            raise
        except StorageError:  # an empty object has no range
            if self.size(path):
                raise
            return b"", 0

    def exists(self, path: str) -> bool:
        """Whether an object, or anything below that prefix, is there."""
        store, key = self._locate(path)
        if key and is_file(self, path):
            return True
        with suppress(FileNotFoundError), self._requests("look up", path):
            for _ in range(TRIES):
                if any(obstore.list(store, f"{key}/" if key else None, chunk_size=1)):
                    return True
                if self._is_whole(path, store, key, ()):
                    break
            else:
                raise _cut_short(path)
            if self._kind == "azure" and key:  # an empty directory, where an account has them
                above = obstore.list_with_delimiter(store, f"{parent}/" if (parent := key.rpartition("/")[0]) else None)
                return any(prefix.rstrip("/") == key for prefix in above["common_prefixes"])
        return False

    def list(self, path: str) -> list[FileStatus]:
        """The objects and prefixes directly below a prefix, by name; empty without any."""
        store, key = self._locate(path)
        base = path.rstrip("/")
        self.counts.add()
        try:
            for _ in range(TRIES):
                with self._requests("list", path):
                    found = obstore.list_with_delimiter(store, f"{key}/" if key else None)
                    names = [f"{prefix.rstrip('/')}/\U0010ffff" for prefix in found["common_prefixes"]]
                    names += [item["path"] for item in found["objects"]]
                    whole = self._is_whole(path, store, key, names)
                if whole:
                    break
            else:
                raise _cut_short(path)
        except FileNotFoundError:
            return []
        entries = [
            FileStatus(f"{base}/{name}", name, 0, True, 0)
            for prefix in found["common_prefixes"]
            if (name := prefix.rstrip("/").rpartition("/")[2])
        ]
        for item in found["objects"]:
            name = item["path"].rpartition("/")[2]
            if item["path"] != key and name != _MARKER:  # nor what stands for the directory itself
                modified = int(item["last_modified"].timestamp() * 1000)
                entries.append(FileStatus(f"{base}/{name}", name, item["size"], False, modified))
        return sorted(entries, key=lambda entry: entry.name)

    def _is_whole(self, path: str, store: Any, key: str, names: Sequence[str]) -> bool:
        """Whether a listing that ends with a page, or names nothing, was all there is: see `whole_listing`. Raises
        StorageError: the store does not answer listings with lists."""
        if self._kind not in S3_LIKE:
            return True
        retry = self._retry()
        while True:
            self.counts.add()
            with suppress(NoListError):
                return is_whole(store, key, names, self._witness(path))
            what = "can't list: what the store answers is no list, as objects that are there are missing in it"
            hint = "check the endpoint: a proxy or a console may answer there; else try again"
            retry.again(StorageError(what, path=path, hint=hint))

    def _witness(self, path: str) -> Witness:
        bucket = "/".join(path.split("/", 3)[:3])
        return Witness((self._made_of, bucket), lambda key: is_file(self, f"{bucket}/{key}"))

    # ------------------------------------------------------------------------------------------------- writing

    def open_output(self, path: str) -> OutputFile:
        """A new object, which is sent when it is closed, and spilled to local disk until then."""
        self._locate(path)
        return NewObject(self.send, self.delete, path)

    def make_dir(self, path: str) -> None:
        """Make an object in the directory, as stores have none that are empty."""
        self.replace(f"{path}/{_MARKER}", b"")

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object in one atomic step; False when it is there already.

        Raises:
            CommitOutcomeUnknownError: it may be there now, or appear later.
            UnsupportedError: the store overwrites objects despite a condition, and there is no lock.
        """
        if self._identity not in _conditional:
            _conditional[self._identity] = self._probe(path.rpartition("/")[0])
        if not _conditional[self._identity]:
            return self._create_under_lock(path, data)
        unsettled: StorageError | None = None
        retry = self._retry()
        while True:
            try:
                return self._create(path, data) or (unsettled is not None and self.read_bytes(path) == data)
            except _UnknownOutcomeError as error:
                unsettled = error.storage_error
            except FileNotFoundError:
                pass  # the object of a moment ago may have been the first attempt, not yet whole
            except StorageError:
                if unsettled is None:
                    raise
            retry.again(_unknown_outcome(path, unsettled))

    def _retry(self) -> Retry:
        return Retry(Pauses(0.1, 1.6, jitter=0.5), TRIES, self._timeouts["retry_timeout"])

    def _create(self, path: str, data: bytes) -> bool:
        """One put; False when the object is there. Raises StorageError, _UnknownOutcomeError."""
        store, key = self._locate(path, retries=False)
        try:
            with self._requests("write", path):
                try:
                    obstore.put(store, key, data, mode="create", use_multipart=False)
                except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
                    # S3 also answers 409 to one of two concurrent puts, and the other may yet fail: then there is no
                    # object
                    if "status code: 409" in str(error) and not is_file(self, path):
                        raise_alone(_UnknownOutcomeError(error, "another put of it was under way", path))
                    return False
                except exceptions.GenericError as error:
                    self._unanswered(error)
                    raise_alone(_UnknownOutcomeError(error, self._reason(error), path))
        except FileNotFoundError:
            raise StorageError("can't write: the bucket does not exist", path=path) from None
        return True

    def _probe(self, directory: str) -> bool:
        """Whether the store keeps an object that it is to create only if absent. Raises StorageError: it didn't say."""
        path = f"{directory}/.probe.{uuid.uuid4()}.tmp"  # a name that the search for orphans knows
        retry = self._retry()
        try:
            self.replace(path, b"")
            while True:
                try:
                    return not self._create(path, b"")
                except _UnknownOutcomeError as error:
                    if error.refused:
                        return False
                    fault = error.storage_error
                retry.again(fault)
        finally:
            discard(self, [path])

    def with_lock(self, lock: Callable[[], AbstractContextManager[Callable[[], bool]]]) -> ObjectStoreFileIO:
        """See `Lockable`. Copies for other processes have no lock."""
        other = copy(self)
        other._lock = lock
        return other

    def _create_under_lock(self, path: str, data: bytes) -> bool:
        """Look, then put, which all other writers leave to the one that holds the lock."""
        if self._lock is None:
            raise UnsupportedError(
                "this store can't create an object only if absent (If-None-Match), so commits could be lost",
                path=path.rpartition("/")[0],
                hint="bring the store up to date, or let all writers hold a lock: lock.enabled of a JDBC catalog",
            )
        with self._lock() as held:
            if is_file(self, path):
                return False
            if not held():  # another writer may have looked by now, and is about to put
                raise CommitError(
                    "the lock expired before the store answered; nothing was written",
                    path=path,
                    hint="try again, or raise lock-acquire-timeout for all writers",
                )
            fault: StorageError | None = None
            try:
                self.send(path, data)
            except StorageError as error:
                fault = error
            with suppress(FileNotFoundError, StorageError):
                if held() and (fault is None or self.read_bytes(path) == data):
                    return True
            raise _unknown_outcome(path, fault or StorageError("the lock expired meanwhile")) from fault

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create an object of a unique name, so that one of the same content is what an earlier try has made."""
        if len(data) <= IN_MEMORY_BYTES:
            store, key = self._locate(path)
            try:
                with suppress(FileNotFoundError), self._requests("write", path):
                    obstore.put(store, key, data, mode="create", use_multipart=False)
                    return
            except StorageError as error:
                if error.errno == errno.ETIMEDOUT:
                    raise
        if not is_file(self, path):
            self.send(path, data)
        elif self.read_bytes(path) != data:
            raise StorageError("can't write: the file exists", path=path)

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small object: a put is atomic."""
        self.send(path, data)

    def send(self, path: str, data: bytes | BinaryIO) -> None:
        """Put an object, in parts when it is long. Raises StorageError."""
        store, key = self._locate(path)
        try:
            with self._requests("write", path):
                obstore.put(store, key, data)
        except FileNotFoundError:
            raise StorageError("can't write: the bucket does not exist", path=path) from None

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            store, key = self._locate(path)
            with suppress(FileNotFoundError), self._requests("delete", path):
                obstore.delete(store, key)

    def rename(self, source: str, target: str) -> None:
        """Give an object another name: the store copies it, and shows the copy when it is whole; then the old one goes.
        Two concurrent renames to one name may both succeed.
        Raises AlreadyExistsError: the target is there; UnsupportedError: stores have no directories to rename."""
        if not is_file(self, source):
            raise UnsupportedError("object stores can't rename a directory", path=source, hint="copy it, then drop it")
        if is_file(self, target):
            raise AlreadyExistsError("the target of a rename already exists", path=target)
        store, key = self._locate(source)
        with self._requests("rename", source):
            obstore.copy(store, key, self._locate(target)[1])
        self.delete([source])

    def delete_tree(self, path: str) -> None:
        """Remove what is below a prefix; then the objects that stand for directories."""
        store, key = self._locate(path)
        below = f"{key}/" if key else None
        with suppress(FileNotFoundError), self._requests("delete", path):
            for _ in range(TRIES):
                for found in obstore.list(store, below):
                    _delete_all(store, [item["path"] for item in found])
                markers = [item["path"] for item in obstore.list(store, below).collect()]
                if markers or self._is_whole(path, store, key, ()):
                    break
            else:
                raise _cut_short(path)
            if self._kind == "azure":
                _delete_directories(store, key)
                return
            for marker in sorted(markers, reverse=True):
                obstore.delete(marker_client(store, marker), "")


class _UnknownOutcomeError(Exception):
    """A put that failed and may have had its effect, or have it yet. ``storage_error``: the same for users.
    ``refused``: whether the store said that it has no conditional put."""

    def __init__(self, error: Exception, reason: str, path: str) -> None:
        super().__init__(reason)
        self.storage_error = StorageError(f"can't write: {reason}", path=path)
        self.refused = _NOT_CONDITIONAL.search(str(error)) is not None


def _merged(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """The bytes of each request that obstore makes of some ranges: near ones are one."""
    found: list[list[int]] = []
    for offset, length in sorted(ranges):
        if found and offset <= found[-1][1] + _JOINED_GAP:
            found[-1][1] = max(found[-1][1], offset + length)
        else:
            found.append([offset, offset + length])
    return [stop - start for start, stop in found]


def _delete_all(store: Any, keys: Sequence[str]) -> None:
    """Remove objects; those that are gone are fine, as those that stand for directories seem to be."""
    try:
        obstore.delete(store, keys)
    except (FileNotFoundError, exceptions.NotFoundError):  # of Google Cloud Storage, and others may be left
        for key in keys:
            with suppress(FileNotFoundError, exceptions.NotFoundError):
                obstore.delete(store, key)


def _delete_directories(store: Any, key: str) -> None:
    """Remove directories of Azure, from which the files are gone: real ones, and objects that stand for them."""
    for directory in obstore.list_with_delimiter(store, f"{key}/" if key else None)["common_prefixes"]:
        _delete_directories(store, directory.rstrip("/"))
    if key:
        with suppress(FileNotFoundError, exceptions.NotFoundError):
            obstore.delete(store, key)


def _cut_short(path: str) -> StorageError:
    return StorageError("can't list: what the store lists is cut short", path=path, hint="try again")


def _unknown_outcome(path: str, reason: StorageError | None) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"the storage did not say whether {path.rpartition('/')[2]} was created ({reason})",
        path=path,
        hint="look whether it is there before writing again",
    )
