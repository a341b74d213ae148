"""FileIO over hdfs-native: a client of HDFS in Rust, which needs neither Java nor Hadoop on this machine.

A file that is published is written under a temporary name in the same directory, and renamed when it is whole. The name
node does that for one of all rivals, and only when the name is free; Java Paimon commits the same way. The answer to a
rename may be lost, or a name node may fail over meanwhile: what became of it is seen by the temporary name, which
nobody else removes.

hdfs-native itself goes to the other name node, waits while none is active (``dfs.client.failover.*``), and writes a
block again when a data node fails.
"""

from __future__ import annotations

import errno
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

import hdfs_native
import pyarrow as pa

from paimon_pyds.base.options.option import parse_memory
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    MissingFileError,
    OptionError,
    PaimonError,
    StorageError,
)
from paimon_pyds.storage import FileStatus, OutputFile, check_range, discard, read_coalesced, scheme_of
from paimon_pyds.storage.faults import missing_file
from paimon_pyds.storage.hadoop_settings import hadoop_settings
from paimon_pyds.storage.hdfs_address import address_of, check_mounted, complete
from paimon_pyds.storage.hdfs_client import AnyClient, client_of
from paimon_pyds.storage.hdfs_errors import hdfs_error, is_refusal
from paimon_pyds.storage.hdfs_user import umask_of
from paimon_pyds.storage.object_files import NewObject, ObjectInput
from paimon_pyds.storage.remote import RemoteFileIO, check_process

if TYPE_CHECKING:
    from hdfs_native import AsyncClient, Client, FileReader

_GAP_BYTES = 256 << 10
"""Bytes between two ranges up to which one read takes both: a request to a data node costs more."""
_MAX_REQUEST_BYTES = 64 << 20
"""Bytes of one read of several ranges, to bound memory."""
_CHUNK_BYTES = 4 << 20
_OPEN_FILES = 256
"""Files of which the places of blocks are remembered."""
_TRIES = 3
_BLOCK_UNIT = 512
"""Sizes of blocks are multiples of it in bytes, as each checksum covers this many."""
_REPORT_PAUSES = Pauses(0.02, 1.0)
REPORT_SECONDS = 30.0
"""How long data nodes have to report a block, about as long as a writer in Java waits for them to close a file."""


class HdfsFileIO(RemoteFileIO):
    """FileIO over the name node, name service or mount table that ``root`` names. Raises: as `RemoteFileIO`.

    The settings of Hadoop are read when it is made, and go along when it is pickled: tasks need no files of them.
    """

    requests_at_once = 32

    def __init__(
        self, root: str, options: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(root, options)
        self._settings = complete(hadoop_settings(self._options) if settings is None else settings)
        told = repr((self._identity, sorted(self._settings.items())))
        self._identity = sha256(told.encode()).digest()
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None
        self._readers: OrderedDict[str, FileReader] = OrderedDict()
        self._lock = Lock()
        umask = umask_of(self._settings.get("fs.permissions.umask-mode", "022"))
        self._directory_mode = 0o777 & ~umask
        replication = self._arguments.get("replication") or self._settings.get("dfs.replication")
        block = self._settings.get("dfs.blocksize") or self._settings.get("dfs.block.size")
        try:
            self._write_options: dict[str, Any] = {
                "permission": 0o666 & ~umask,
                "replication": None if replication is None else int(replication),
                "block_size": None if block is None else parse_memory(block),
            }
        except ValueError as error:
            raise OptionError(f"dfs.replication or dfs.blocksize is not a number: {error}", path=root) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._root, self._options | self._cache_options, self._settings))

    def _connected(self) -> Client:
        """The client, which connects at its first call. Raises StorageError, OptionError."""
        if self._client is None:
            self._client = self._new_client(hdfs_native.Client)
        return self._client

    def _new_client(self, kind: type[AnyClient]) -> AnyClient:
        user, ticket = self._arguments.get("user"), self._arguments.get("kerb_ticket")
        with self._calls("connect to", self._root):
            return client_of(kind, self._root, self._options, self._settings, user=user, ticket=ticket)

    def _at(self, path: str) -> tuple[Client, str]:
        """The client, and the path as it wants it."""
        inner = self._inner(path)
        return self._connected(), inner

    def _inner(self, path: str) -> str:
        """A path as clients want it."""
        self.check_server(path)
        check_process(path)
        inner = "/" + path.partition("://")[2].partition("/")[2]
        if scheme_of(self._root) == "viewfs":
            check_mounted(path, inner, address_of(self._root, self._settings), self._settings)
        return inner

    @contextmanager
    def _calls(self, action: str, path: str) -> Iterator[None]:
        """Errors of hdfs-native as StorageError without secrets; of files that are missing as MissingFileError."""
        try:
            yield
        except PaimonError:
            raise
        except (OSError, RuntimeError, ValueError, NotImplementedError) as error:
            raise_alone(hdfs_error(error, action, path, self._secrets), scrubbed(error, self._secrets))
        except BaseException as error:
            if type(error).__module__ != "pyo3_runtime":
                raise
            raise_alone(StorageError(f"can't {action}: hdfs-native panicked ({error})", path=path))

    # ------------------------------------------------------------------------------------------------- reading

    def _open(self, path: str) -> FileReader:
        """A file, where its blocks are. Only `read_range` of it may be called: threads share it."""
        with self._lock:
            reader = self._readers.get(path)
            if reader is not None:
                self._readers.move_to_end(path)
                return reader
        return self._opened_anew(path)

    def _opened_anew(self, path: str) -> FileReader:
        """As `_open`, of the file that is there now. Raises StorageError: its last block stays unreported."""
        client, inner = self._at(path)
        retry = Retry(_REPORT_PAUSES, seconds=REPORT_SECONDS)
        while True:
            self.counts.add()
            with self._calls("open", path):
                reader = client.read(inner)
            if len(reader) % _BLOCK_UNIT or len(reader) >= (size := self.size(path)):
                break
            # A name node may close a file before data nodes have reported its last block. Until then that one is not
            # among the places of blocks, nor counted in their length. (Source: Hadoop's settings of HDFS,
            # dfs.namenode.file.close.num-committed-allowed.)
            retry.again(
                StorageError(
                    f"can't read: the data nodes have not reported the last block yet, {len(reader)} of {size} bytes"
                    " are there",
                    path=path,
                    hint="try again; if it stays, look at the data nodes (hdfs dfsadmin -report)",
                )
            )
        with self._lock:
            self._readers[path] = reader
            while len(self._readers) > _OPEN_FILES:
                self._readers.popitem(last=False)
        return reader

    def _read(self, path: str, reader: FileReader, offset: int, length: int) -> bytes:
        """One range. Blocks may have moved since the file was opened, or what allowed to read them has expired."""
        if not length:
            return b""
        try:
            with self._calls("read", path):
                data = bytes(reader.read_range(offset, length))
        except StorageError:
            reader = self._opened_anew(path)
            check_range(path, offset, length, len(reader))
            with self._calls("read", path):
                data = bytes(reader.read_range(offset, length))
        self.counts.add(len(data))
        if len(data) != length:
            raise StorageError("the storage gave fewer bytes than it has", path=path, hint="try again")
        return data

    def read_bytes(self, path: str) -> bytes:
        reader = self._opened_anew(path)
        return self._read(path, reader, 0, len(reader))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those at most 256 KiB apart are one request."""
        if not ranges:
            return []
        reader = self._open(path)
        if max(offset + length for offset, length in ranges) > len(reader):  # it may have been replaced by a longer one
            reader = self._opened_anew(path)
        for offset, length in ranges:
            check_range(path, offset, length, len(reader))
        return read_coalesced(
            lambda offset, length: self._read(path, reader, offset, length), ranges, _GAP_BYTES, _MAX_REQUEST_BYTES
        )

    def open_input(self, path: str) -> pa.NativeFile:
        return self.open_sized(path, len(self._opened_anew(path)))

    def open_sized(self, path: str, size: int) -> pa.NativeFile:
        return pa.PythonFile(ObjectInput(self, path, size), mode="r")

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        """The first bytes and the size of a file."""
        reader = self._opened_anew(path)
        return self._read(path, reader, 0, min(length, len(reader))), len(reader)

    def read_starts(self, paths: Sequence[str], length: int) -> list[tuple[bytes, int] | None]:
        """As `ReadsTogether.read_starts`."""
        from paimon_pyds.storage.hdfs_starts import starts_of  # imports asyncio

        inner = list(map(self._inner, paths))
        with self._lock:  # a file may have been replaced
            for path in paths:
                self._readers.pop(path, None)
        if self._async_client is None:
            self._async_client = self._new_client(hdfs_native.AsyncClient)
        return starts_of(self._async_client, inner, length, self.requests_at_once, _BLOCK_UNIT, self.counts)

    def _info(self, path: str) -> Any:
        """What the name node says of a path, None where nothing is."""
        client, inner = self._at(path)
        self.counts.add()
        with suppress(MissingFileError), self._calls("look up", path):
            return client.get_file_info(inner)
        return None

    def size(self, path: str) -> int:
        info = self._info(path)
        if info is None:
            raise missing_file("read", path)
        if info.isdir:
            raise hdfs_error(IsADirectoryError("it is a directory"), "read", path)
        return int(info.length)

    def exists(self, path: str) -> bool:
        return self._info(path) is not None

    def list(self, path: str) -> list[FileStatus]:
        client, inner = self._at(path)
        self.counts.add()
        try:
            with self._calls("list", path):
                found = list(client.list_status(inner))
        except MissingFileError:
            return []
        except StorageError as error:
            if error.errno == errno.ENOTDIR:
                return []
            raise
        base = path.rstrip("/")
        entries = []
        for info in found:
            if info.path.rstrip("/") == inner.rstrip("/") and not info.isdir:
                return []  # a file, which HDFS lists as itself
            name = info.path.rpartition("/")[2]
            size = 0 if info.isdir else int(info.length)
            entries.append(FileStatus(f"{base}/{name}", name, size, bool(info.isdir), int(info.modification_time)))
        return sorted(entries, key=lambda entry: entry.name)

    # ------------------------------------------------------------------------------------------------- writing

    def open_output(self, path: str) -> OutputFile:
        """A new file, which is sent when it is closed, and spilled to local disk until then: a write that a failure
        broke off begins again."""
        self._at(path)
        sent: list[str] = []

        def send(path: str, data: BinaryIO) -> None:
            self._send(path, data)
            sent.append(path)

        return NewObject(send, lambda _: self.delete(sent), path)  # what has the name else is of others

    def make_dir(self, path: str) -> None:
        client, inner = self._at(path)
        self.counts.add()
        with self._calls("create", path):
            client.mkdirs(inner, self._directory_mode, True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file in one atomic step; False when it is there already.

        Raises:
            CommitOutcomeUnknownError: it may be there now, or appear later.
        """
        temporary = _temporary(path)
        try:
            self._send(temporary, data)
        except BaseException:
            discard(self, [temporary])
            raise
        return self._publish(temporary, path, data)

    def _publish(self, temporary: str, path: str, data: bytes) -> bool:
        """Rename a new file; False, and it is removed, when the name is taken."""
        client, source = self._at(temporary)
        target = self._at(path)[1]
        retry = Retry(Pauses(0.2, 3.2, jitter=0.5), _TRIES)
        while True:
            self.counts.add()
            try:
                client.rename(source, target, False)
                return True
            except (OSError, RuntimeError) as error:
                fault = hdfs_error(error, "write", path, self._secrets)
                refused = isinstance(error, FileExistsError) or is_refusal(error)
            if not self._told(self.exists, temporary, path, fault):
                # Renamed by an attempt whose answer was lost, or the table is gone.
                if self._told(self._holds, path, path, fault, data):
                    return True
                raise_alone(fault if not self._told(self.exists, _parent(path), path, fault) else _unknown(path, fault))
            if refused or retry.exhausted:
                break
            retry.next()
        # An earlier attempt whose answer was lost may be under way: it can't have its effect without its source.
        removed = False
        try:
            with self._calls("delete", temporary):
                removed = client.delete(source, False)
        except StorageError:
            if not refused or retry.count > 1:
                raise_alone(_unknown(path, fault))
        if not removed and self._told(self._holds, path, path, fault, data):
            return True
        if fault.errno == errno.EEXIST:
            return False
        raise_alone(fault)

    def _told(self, ask: Callable[..., bool], where: str, path: str, fault: StorageError, *more: bytes) -> bool:
        """What the name node answers. Raises CommitOutcomeUnknownError: it doesn't."""
        try:
            return ask(where, *more)
        except StorageError:
            raise_alone(_unknown(path, fault))

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.read_bytes(path) == data
        except MissingFileError:
            return False

    def write_bytes(self, path: str, data: bytes) -> None:
        if not self.create_if_absent(path, data):
            raise StorageError("can't write: the file exists", path=path)

    def replace(self, path: str, data: bytes) -> None:
        temporary = _temporary(path)
        client, source = self._at(temporary)
        try:
            self._send(temporary, data)
            self.counts.add()
            with self._calls("write", path):
                client.rename(source, self._at(path)[1], True)
        except BaseException:
            discard(self, [temporary])
            raise

    def _send(self, path: str, data: bytes | BinaryIO) -> None:
        """Write a file of a unique name, with its directories; again from the start when that broke off."""
        client, inner = self._at(path)
        retry = Retry(Pauses(0.2, 3.2, jitter=0.5), _TRIES)
        while True:
            try:
                with self._calls("write", path):
                    self._send_once(client, inner, data, overwrite=retry.count > 1)
                return
            except StorageError as error:
                if error.errno == errno.EEXIST and retry.count == 1:
                    if self.size(path):
                        raise
                    # The answer to its creation was lost, and hdfs-native sent it again: nobody else has this name.
                elif retry.exhausted or error.errno not in (None, errno.EAGAIN, errno.ETIMEDOUT):
                    discard(self, [path])
                    raise
            retry.next()

    def _send_once(self, client: Client, inner: str, data: bytes | BinaryIO, *, overwrite: bool) -> None:
        options = hdfs_native.WriteOptions(**self._write_options, overwrite=overwrite, create_parent=True)
        self.counts.add()
        writer = client.create(inner, options)
        if isinstance(data, bytes):
            if data:
                writer.write(data)
        else:
            data.seek(0)
            while chunk := data.read(_CHUNK_BYTES):
                writer.write(chunk)
        writer.close()

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            client, inner = self._at(path)
            self.counts.add()
            with suppress(MissingFileError), self._calls("delete", path):
                client.delete(inner, False)
            with self._lock:
                self._readers.pop(path, None)

    def delete_tree(self, path: str) -> None:
        client, inner = self._at(path)
        self.counts.add()
        with suppress(MissingFileError), self._calls("delete", path):
            client.delete(inner, True)

    def remove_empty_dir(self, path: str) -> bool:
        info = self._info(path)
        if info is None or not info.isdir:
            return False
        client, inner = self._at(path)
        self.counts.add()
        try:
            with self._calls("delete", path):
                return bool(client.delete(inner, False))
        except MissingFileError:
            return False
        except StorageError as error:
            if error.errno == errno.ENOTEMPTY:
                return False
            raise

    def rename(self, source: str, target: str) -> None:
        """Rename a directory or file. Raises AlreadyExistsError: the target is there; MissingFileError: no source."""
        client, inner = self._at(source)
        if self._info(source) is None:
            raise missing_file("rename", source)
        other = self._at(target)[1]
        self.counts.add()
        try:
            with self._calls("rename", source):
                client.rename(inner, other, False)
        except MissingFileError:
            # Of two attempts, which hdfs-native makes when an answer is lost, the first had its effect.
            if self.exists(target) and not self.exists(source):
                return
            raise
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            if self.exists(source):
                raise AlreadyExistsError("the target of a rename already exists", path=target) from None


def _temporary(path: str) -> str:
    """A new name in the same directory, of a form that the search for orphans knows."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4()}.tmp"


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _unknown(path: str, reason: StorageError) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"the name node did not say whether {path.rpartition('/')[2]} was created ({reason})",
        path=path,
        hint="look whether it is there before writing again",
    )
