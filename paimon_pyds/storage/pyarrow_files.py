"""FileIO over pyarrow's file systems: S3, Google Cloud Storage, Azure, HDFS.

Reading works everywhere. Data files can be written too, but a snapshot can't be published: pyarrow has no conditional
put, so two writers could both believe that they won. `create_if_absent` says so instead of risking a lost commit; where
obstore is installed `object_store` serves instead, but for HDFS.

Paths are whole URIs (``s3://bucket/key``), as people know them from their tables' metadata.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Lock
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa

from paimon_pyds.base.numerals import whole_number
from paimon_pyds.base.secrets import holds_secret, names_secret, parts_of_secret, raise_alone, redact, scrubbed
from paimon_pyds.errors import AlreadyExistsError, OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import (
    FileStatus,
    OutputFile,
    check_range,
    missing_file,
    read_coalesced,
    scheme_of,
    storage_faults,
)
from paimon_pyds.storage.disk_cache import LocalCache, is_option
from paimon_pyds.storage.store_options import check_account_key, client_arguments, concerns, family

_Self = TypeVar("_Self", bound="ArrowFileIO")
_GAP = 1 << 20
"""Bytes between ranges up to which one request reads both."""
_MAX_REQUEST = 64 << 20
"""Bytes of one request, at most."""

_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_", "OSS_", "OBS_", "HADOOP_", "KRB5")
"""Where credentials come from that no option gives."""
_FILE_SYSTEMS = {"gcs": "GcsFileSystem", "azure": "AzureFileSystem", "hdfs": "HadoopFileSystem"}
ONLY_OBSTORE = frozenset({"service_account", "authority_host"})
"""Arguments that pyarrow's file systems don't have."""
_EXTRA = "pip install 'paimon-pyds[cloud]', which can"


class RequestCounts:
    """Requests that read from a store, and the bytes that they gave. Threads may share one."""

    def __init__(self) -> None:
        self.requests = self.bytes = 0
        self._lock = Lock()

    def add(self, size: int = 0, requests: int = 1) -> None:
        """Count some."""
        with self._lock:
            self.requests += requests
            self.bytes += size


class ArrowFileIO:
    """FileIO over the pyarrow file system that serves ``root``'s scheme.

    ``options`` are Paimon's names (``s3.access-key``, ``s3.endpoint``, ``s3.path-style-access``, …); anything not given
    comes from the environment, as the vendor's tools do it. It connects at first use, and again after unpickling. Two
    are equal that reach the same place with the same options and environment.
    Raises OptionError: an unknown option of this scheme, or credentials in the address.
    """

    requests_at_once = 32

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        user = family(scheme_of(root)) not in ("azure", "hdfs") and "@" in root.split("://", 1)[-1].partition("/")[0]
        if user or holds_secret(root):
            raise OptionError(
                "credentials in the address are not taken",
                path=root,
                hint="give them as storage options, such as s3.access-key and s3.secret-key, or in the environment",
            )
        self._root = root
        self._options = {k: v for k, v in (options or {}).items() if concerns(root, k)}
        self._cache_options = {k: v for k, v in (options or {}).items() if is_option(k)}
        self.local_cache = LocalCache.of(self._cache_options)
        self._secrets = tuple(
            part for k, v in self._options.items() if names_secret(k) for part in parts_of_secret(str(v))
        )
        self._fs: Any = None
        self.counts = RequestCounts()
        self._arguments = client_arguments(root, self._options)
        ambient = sorted((k, v) for k, v in os.environ.items() if k.startswith(_ENVIRONMENT))
        self._identity = sha256(repr((root, sorted(self._options.items()), ambient)).encode()).digest()
        given = sorted((k, str(v)) for k, v in {**dict(ambient), **self._options}.items())
        place = (root, self._arguments.get("endpoint_override"))  # which a profile may name
        self._version = repr((place, [(k, v) for k, v in given if not names_secret(k) and not holds_secret(v)]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def counted(self: _Self) -> _Self:
        """The same storage, whose requests are counted from now on, and apart."""
        other = copy(self)
        other.counts = RequestCounts()
        return other

    def version(self, path: str) -> str:
        """A version that identifies this store, without credentials; it does not change if an object is replaced."""
        return self._version

    def __repr__(self) -> str:
        return f"ArrowFileIO({scheme_of(self._root)}://…)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ArrowFileIO, (self._root, self._options | self._cache_options))

    def _faults(self, action: str, path: str, *, missing_passes: bool = False) -> AbstractContextManager[None]:
        return storage_faults(action, path, missing_passes=missing_passes, secrets=self._secrets)

    def check_server(self, path: str) -> None:
        """Raise UnsupportedError for a path of another store."""
        scheme = scheme_of(path)
        if family(scheme) != family(scheme_of(self._root)):
            raise UnsupportedError(
                f"a table on {scheme_of(self._root)}:// with a file on {scheme}:// can't be read in one go", path=path
            )
        if _server(path) != _server(self._root):
            raise UnsupportedError(
                f"a table on {_server(self._root)!r} with a file on {_server(path)!r} can't be read in one go",
                path=path,
            )

    def _at(self, path: str) -> tuple[Any, str]:
        """The file system and the path as it wants it."""
        scheme = scheme_of(path)
        self.check_server(path)
        if self._fs is None:
            with self._faults("connect to", self._root):
                self._fs = _connect(self._root, self._arguments)
        rest = path.split("://", 1)[1] if "://" in path else path
        if family(scheme) == "azure":
            container, _, key = rest.partition("/")
            return self._fs, f"{container.partition('@')[0]}/{key}".rstrip("/")
        if family(scheme) == "hdfs":
            return self._fs, "/" + rest.partition("/")[2]
        return self._fs, rest

    # ------------------------------------------------------------------------------------------------- reading

    def read_bytes(self, path: str) -> bytes:
        fs, inner = self._at(path)
        with self._faults("read", path, missing_passes=True), fs.open_input_stream(inner, compression=None) as stream:
            data = cast(bytes, stream.read())
        self.counts.add(len(data))
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several (offset, length) ranges; those at most 1 MiB apart are one request, which costs less than two."""
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

            return read_coalesced(read, ranges, _GAP, _MAX_REQUEST)

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
        """Whether an object, or anything below that prefix, is there."""
        return bool(self._info(path).type.name != "NotFound")

    def _info(self, path: str) -> Any:
        fs, inner = self._at(path)
        self.counts.add()
        with self._faults("look up", path):
            return fs.get_file_info(inner)

    def list(self, path: str) -> list[FileStatus]:
        """The files and directories directly below a prefix, by name; empty without any."""
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
            if family(scheme_of(path)) == "hdfs":
                fs.create_dir(inner.rpartition("/")[0], recursive=True)
            return _ArrowOutput(path, fs, inner, self._secrets)

    def make_dir(self, path: str) -> None:
        """Make a directory; in object stores, an empty object that stands for one."""
        fs, inner = self._at(path)
        with self._faults("create", path):
            fs.create_dir(inner, recursive=True)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Not possible here. Raises UnsupportedError: always; see the module's text."""
        raise UnsupportedError(
            f"committing to tables on {scheme_of(path)}:// is not supported by pyarrow: it can't create if absent",
            path=path,
            hint="pip install obstore, which can (not with s3.role-arn; AWS profiles with roles or SSO"
            " need boto3); reading works",
        )

    def write_bytes(self, path: str, data: bytes) -> None:
        if self.exists(path):
            raise StorageError("can't write: the file exists", path=path)
        self.replace(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a small object: a put is atomic."""
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

    def remove_empty_dir(self, path: str) -> bool:
        """False: object stores have no directories, and pyarrow can't remove one of HDFS only when it is empty."""
        return False

    def rename(self, source: str, target: str) -> None:
        """Rename where the storage has directories (HDFS, Azure with hierarchical names).
        Raises AlreadyExistsError: the target is there; UnsupportedError: object stores have no rename."""
        refused = UnsupportedError("object stores can't rename a directory", path=source, hint="copy it, then drop it")
        if family(scheme_of(source)) not in ("azure", "hdfs"):
            raise refused
        if self.exists(target):
            raise AlreadyExistsError("the target of a rename already exists", path=target)
        fs, inner = self._at(source)
        with self._faults("rename", source, missing_passes=True):
            try:
                fs.move(inner, self._at(target)[1])
            except pa.ArrowNotImplementedError:  # an account of Azure without directories
                raise refused from None


class _ArrowOutput:
    """A new object; most stores show it only once it is closed."""

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


def _server(path: str) -> str:
    """The Azure account or HDFS name node that an address names; "" for stores that are one for all buckets."""
    authority = path.partition("://")[2].partition("/")[0]
    match family(scheme_of(path)):
        case "azure":
            return authority.partition("@")[2]
        case "hdfs":
            return authority
        case _:
            return ""


def _status(base: str, info: Any) -> FileStatus:
    is_dir = info.type.name == "Directory"
    modified = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
    return FileStatus(f"{base}/{info.base_name}", info.base_name, 0 if is_dir else int(info.size), is_dir, modified)


def _connect(root: str, arguments: Mapping[str, Any]) -> Any:
    import pyarrow.fs as pafs

    store = family(scheme_of(root))
    name = _FILE_SYSTEMS.get(store, "S3FileSystem")
    kind = getattr(pafs, name, None)
    if kind is None:
        raise UnsupportedError(f"this pyarrow ({pa.__version__}) is built without {name}", path=root)
    if only := ONLY_OBSTORE & arguments.keys():
        raise UnsupportedError(
            f"pyarrow can't use this storage option: {', '.join(sorted(only))}", path=root, hint=_EXTRA
        )
    check_account_key(arguments, root)
    try:
        return kind(**_pyarrow_arguments(store, root, dict(arguments)))
    except OSError as error:
        missing = next((library for library in ("libjvm", "libhdfs") if f"load {library}" in str(error)), None)
        if missing is None:
            raise
        raise UnsupportedError(
            f"hdfs is read through Hadoop, of which {missing} is not found on this machine",
            path=root,
            hint="set JAVA_HOME, HADOOP_HOME, and CLASSPATH to what `hadoop classpath --glob` prints",
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        secrets = [str(value) for name, value in arguments.items() if names_secret(name)]
        reason = redact(str(error), secrets)
        raise_alone(OptionError(f"{name} does not take these options: {reason}", path=root), scrubbed(error, secrets))


def _pyarrow_arguments(store: str, root: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as pyarrow wants them: addresses without their schemes, and what an address says."""
    authority = root.split("://", 1)[1].partition("/")[0]
    scheme, slashes, host = arguments.get("endpoint_override", "").partition("://")
    if store == "hdfs":
        name, _, port = authority.partition(":")
        return arguments | {"host": name or "default", "port": whole_number(port) or 0}
    if store == "azure":
        account = arguments.setdefault("account_name", authority.partition("@")[2].partition(".")[0])
        if slashes:
            del arguments["endpoint_override"]
            arguments |= {f"{part}_storage_scheme": scheme for part in ("blob", "dfs")}
            arguments |= {
                f"{part}_storage_authority": host.partition("/")[0].removeprefix(account) for part in ("blob", "dfs")
            }
    elif slashes:
        arguments |= {"scheme": scheme, "endpoint_override": host}
    if "access_token" in arguments:  # its end is unknown; the store refuses it then
        arguments["credential_token_expiration"] = datetime.now(UTC) + timedelta(days=1)
    return arguments
