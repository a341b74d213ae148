"""FileIO over libhdfs, Hadoop's client in Java, by pyarrow: where hdfs-native is not installed.

Tables are read. Data files can be written too, but no snapshot can be published: pyarrow can't create a file of HDFS
only if it is absent, so two writers could both believe that they won. `create_if_absent` says so instead of risking a
lost commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO, cast

import pyarrow as pa

from paimon_pyds.base.secrets import raise_alone, redact
from paimon_pyds.base.text import whole_number
from paimon_pyds.errors import AlreadyExistsError, OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import FileStatus, OutputFile, check_range, read_coalesced
from paimon_pyds.storage.faults import missing_file, storage_faults
from paimon_pyds.storage.hadoop_settings import PREFIX
from paimon_pyds.storage.remote import RemoteFileIO

_GAP_BYTES = 1 << 20
"""Bytes between two ranges up to which one read takes both: a seek costs more."""
_MAX_REQUEST_BYTES = 64 << 20
"""Bytes of one read of several ranges, to bound memory."""


class LibhdfsFileIO(RemoteFileIO):
    """FileIO over the name node, or the federation of them, that ``root`` names."""

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(root, options)
        self._fs: Any = None

    def _faults(self, action: str, path: str, *, missing_passes: bool = False) -> AbstractContextManager[None]:
        return storage_faults(action, path, missing_passes=missing_passes, secrets=self._secrets)

    def _at(self, path: str) -> tuple[Any, str]:
        """The file system and the path as it wants it."""
        self.check_server(path)
        if self._fs is None:
            with self._faults("connect to", self._root):
                settings = {k[len(PREFIX) :]: str(v) for k, v in self._options.items() if k.startswith(PREFIX)}
                self._fs = _connect(self._root, self._arguments | ({"extra_conf": settings} if settings else {}))
        return self._fs, "/" + path.partition("://")[2].partition("/")[2]

    # ------------------------------------------------------------------------------------------------- reading

    def read_bytes(self, path: str) -> bytes:
        fs, inner = self._at(path)
        with self._faults("read", path, missing_passes=True), fs.open_input_stream(inner, compression=None) as stream:
            data = cast(bytes, stream.read())
        self.counts.add(len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those at most 1 MiB apart are one request."""
        if not ranges:
            return []
        fs, inner = self._at(path)
        with self._faults("read", path, missing_passes=True), fs.open_input_file(inner) as file:
            size = file.size()
            for offset, length in ranges:
                check_range(path, offset, length, size)

            def read(offset: int, length: int) -> bytes:
                data: bytes = file.read_at(length, offset)
                self.counts.add(len(data))
                if len(data) != length:
                    raise StorageError("the storage gave fewer bytes than it has", path=path, hint="try again")
                return data

            return read_coalesced(read, ranges, _GAP_BYTES, _MAX_REQUEST_BYTES)

    def open_input(self, path: str) -> pa.NativeFile:
        fs, inner = self._at(path)
        with self._faults("open", path, missing_passes=True):
            return fs.open_input_file(inner)

    def size(self, path: str) -> int:
        info = self._info(path)
        if info.type.name == "NotFound":
            raise missing_file("read", redact(path, self._secrets))
        return int(info.size or 0)

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type.name != "NotFound")

    def _info(self, path: str) -> Any:
        fs, inner = self._at(path)
        self.counts.add()
        with self._faults("look up", path):
            return fs.get_file_info(inner)

    def list(self, path: str) -> list[FileStatus]:
        import pyarrow.fs as pafs

        fs, inner = self._at(path)
        self.counts.add()
        with self._faults("list", path):
            infos = fs.get_file_info(pafs.FileSelector(inner, allow_not_found=True))
        base = path.rstrip("/")
        return [_status(base, info) for info in sorted(infos, key=lambda i: i.base_name)]

    # ------------------------------------------------------------------------------------------------- writing

    def open_output(self, path: str) -> OutputFile:
        fs, inner = self._at(path)
        with self._faults("create", path):
            fs.create_dir(inner.rpartition("/")[0], recursive=True)
            return _NewFile(path, fs, inner, self._secrets)

    def make_dir(self, path: str) -> None:
        fs, inner = self._at(path)
        with self._faults("create", path):
            fs.create_dir(inner, recursive=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Not possible here. Raises UnsupportedError: always; see the module's text."""
        raise UnsupportedError(
            "committing to tables on HDFS needs hdfs-native: libhdfs can't create a file only if it is absent",
            path=path,
            hint="pip install 'paimon-pyds[hdfs]'",
        )

    def write_bytes(self, path: str, data: bytes) -> None:
        if self.exists(path):
            raise StorageError("can't write: the file exists", path=path)
        self.replace(path, data)

    def replace(self, path: str, data: bytes) -> None:
        output = self.open_output(path)
        try:
            with self._faults("write", path):
                output.sink.write(data)
        except BaseException:
            output.abort()
            raise
        output.close()

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            fs, inner = self._at(path)
            with self._faults("delete", path), suppress(FileNotFoundError):
                fs.delete_file(inner)

    def delete_tree(self, path: str) -> None:
        fs, inner = self._at(path)
        with self._faults("delete", path), suppress(FileNotFoundError):
            fs.delete_dir(inner)

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise AlreadyExistsError("the target of a rename already exists", path=target)
        fs, inner = self._at(source)
        with self._faults("rename", source, missing_passes=True):
            fs.move(inner, self._at(target)[1])


class _NewFile:
    """A file that is being written."""

    def __init__(self, path: str, fs: Any, inner: str, secrets: Collection[str] = ()) -> None:
        self._path = path
        self._secrets = secrets
        self._fs = fs
        self._inner = inner
        self._stream = fs.open_output_stream(inner, compression=None)
        self._size: int | None = None

    @property
    def sink(self) -> BinaryIO:
        return cast(BinaryIO, self._stream)

    def tell(self) -> int:
        return int(self._stream.tell()) if self._size is None else self._size

    def close(self) -> int:
        if self._size is None:
            try:
                with storage_faults("write", self._path, secrets=self._secrets):
                    size = int(self._stream.tell())
                    self._stream.close()
            except BaseException:
                self.abort()
                raise
            self._size = size
        return self._size

    def abort(self) -> None:
        with suppress(OSError, pa.ArrowInvalid, ValueError):
            self._stream.close()
        with suppress(OSError):
            self._fs.delete_file(self._inner)


def _status(base: str, info: Any) -> FileStatus:
    is_dir = info.type.name == "Directory"
    modified = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
    return FileStatus(f"{base}/{info.base_name}", info.base_name, 0 if is_dir else int(info.size), is_dir, modified)


def _connect(root: str, arguments: Mapping[str, Any]) -> Any:
    from pyarrow.fs import HadoopFileSystem

    name, _, port = root.partition("://")[2].partition("/")[0].partition(":")
    try:
        return HadoopFileSystem(host=name or "default", port=whole_number(port) or 0, **arguments)
    except OSError as error:
        missing = next((library for library in ("libjvm", "libhdfs") if f"load {library}" in str(error)), None)
        if missing is None:
            raise
        raise UnsupportedError(
            f"tables on HDFS need the package hdfs-native, or Hadoop, of which this machine has no {missing}",
            path=root,
            hint="pip install 'paimon-pyds[hdfs]'; for Hadoop set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what "
            "`hadoop classpath --glob` prints",
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise_alone(OptionError(f"HDFS does not take these options: {error}", path=root))
