"""FileIO over pyarrow's file systems: S3, Google Cloud Storage, Azure, HDFS.

Reading works everywhere. Data files can be written too, but a snapshot can't be published: pyarrow has no conditional
put, so two writers could both believe that they won. `create_if_absent` says so instead of risking a lost commit; where
obstore is installed `object_store` serves instead, but for HDFS.

Paths are whole URIs (``s3://bucket/key``), as people know them from their tables' metadata.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from typing import Any, BinaryIO, cast

import pyarrow as pa

from paimon_pyds.errors import AlreadyExistsError, OptionError, StorageError, UnsupportedError, suggest
from paimon_pyds.redaction import holds_secret, names_secret, redact, scrubbed
from paimon_pyds.storage import FileStatus, OutputFile, check_range, read_coalesced, scheme_of, storage_faults

_GAP = 1 << 20
_MAX_REQUEST = 64 << 20

_PATH_STYLE = "s3.path-style-access"
_ARGUMENTS = {
    _PATH_STYLE: "force_virtual_addressing",
    "s3.access-key": "access_key",
    "s3.secret-key": "secret_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.endpoint": "endpoint_override",
    "s3.role-arn": "role_arn",
    "s3.anonymous": "anonymous",
    "s3.request-timeout": "request_timeout",
    "s3.connect-timeout": "connect_timeout",
    "gs.access-token": "access_token",
    "gs.anonymous": "anonymous",
    "gs.endpoint": "endpoint_override",
    "gs.project-id": "project_id",
    "azure.account-name": "account_name",
    "azure.account-key": "account_key",
    "azure.sas-token": "sas_token",
    "azure.tenant-id": "tenant_id",
    "azure.client-id": "client_id",
    "azure.client-secret": "client_secret",
    "hdfs.user": "user",
    "hdfs.replication": "replication",
    "hdfs.kerberos-ticket": "kerb_ticket",
}
"""Arguments of pyarrow's file systems by the names of storage options."""
_FAMILIES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure", "viewfs": "hdfs"}
_PREFIXES = {"s3": ("s3.", "s3a.", "fs.s3a."), "gcs": ("gs.",), "azure": ("azure.",), "hdfs": ("hdfs.",)}
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "KRB5")
"""Where credentials come from that no option gives."""
_ALIASES = {
    "s3.path.style.access": _PATH_STYLE,
    **dict.fromkeys(("s3.session.token", "s3.security-token", "s3.security.token"), "s3.session-token"),
    "s3.endpoint.region": "s3.region",
}
"""Other spellings of options, by Java Paimon and Hadoop."""
_FLAGS = frozenset({"anonymous"})
_NUMBERS = frozenset({"request_timeout", "connect_timeout", "replication"})


class ArrowFileIO:
    """FileIO over the pyarrow file system that serves ``root``'s scheme.

    ``options`` are Paimon's names (``s3.access-key``, ``s3.endpoint``, ``s3.path-style-access``, …); anything not given
    comes from the environment, as the vendor's tools do it. It connects at first use, and again after unpickling. Two
    are equal that reach the same place with the same options and environment.

    Raises:
        OptionError: an unknown option of this scheme, or credentials in the address.
    """

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        user = family(scheme_of(root)) in ("s3", "gcs") and "@" in root.split("://", 1)[-1].partition("/")[0]
        if user or holds_secret(root):
            raise OptionError(
                "credentials in the address are not taken",
                path=root,
                hint="give them as storage options, such as s3.access-key and s3.secret-key, or in the environment",
            )
        self._root = root
        self._options = {k: v for k, v in (options or {}).items() if concerns(scheme_of(root), k)}
        self._secrets = tuple(str(v) for k, v in self._options.items() if names_secret(k))
        self._fs: Any = None
        check_names(self._options)
        self._arguments = _arguments(self._options)
        ambient = sorted((k, v) for k, v in os.environ.items() if k.startswith(_ENVIRONMENT))
        self._identity = sha256(repr((root, sorted(self._options.items()), ambient)).encode()).digest()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def version(self, path: str) -> str:
        """What tells this store from others, without credentials; objects that are replaced are not told apart."""
        given = {**os.environ, **self._options}
        where = sorted(
            (k, str(v))
            for k, v in given.items()
            if (k in self._options or k.startswith(_ENVIRONMENT)) and not names_secret(k) and not holds_secret(str(v))
        )
        return repr((self._root, where))

    def __repr__(self) -> str:
        return f"ArrowFileIO({scheme_of(self._root)}://…)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ArrowFileIO, (self._root, self._options))

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
            return cast(bytes, stream.read())

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
            raise FileNotFoundError(2, "No such file or directory", redact(path, self._secrets))
        return int(info.size or 0)

    def exists(self, path: str) -> bool:
        """Whether an object, or anything below that prefix, is there."""
        return bool(self._info(path).type.name != "NotFound")

    def _info(self, path: str) -> Any:
        fs, inner = self._at(path)
        with self._faults("look up", path):
            return fs.get_file_info(inner)

    def list(self, path: str) -> list[FileStatus]:
        """What lies directly below a prefix, by name; empty when there is nothing."""
        import pyarrow.fs as pafs

        fs, inner = self._at(path)
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
        """Not possible here.

        Raises:
            UnsupportedError: always; see the module's text.
        """
        raise UnsupportedError(
            f"committing to tables on {scheme_of(path)}:// is not supported by pyarrow: it can't create if absent",
            path=path,
            hint="pip install 'paimon-pyds[cloud]', which can (not with s3.role-arn; AWS profiles with roles or SSO"
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

        Raises:
            AlreadyExistsError: the target is there.
            UnsupportedError: object stores have no rename.
        """
        if family(scheme_of(source)) in ("s3", "gcs"):
            raise UnsupportedError("object stores can't rename a directory", path=source, hint="copy it, then drop it")
        if self.exists(target):
            raise AlreadyExistsError("the target of a rename already exists", path=target)
        fs, inner = self._at(source)
        with self._faults("rename", source, missing_passes=True):
            fs.move(inner, self._at(target)[1])


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


def family(scheme: str) -> str:
    """The kind of store that a scheme names: s3, gcs, azure, hdfs."""
    return _FAMILIES.get(scheme, scheme)


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


def concerns(scheme: str, key: str) -> bool:
    """Whether an option is one of this kind of store: tasks get no credentials of others."""
    return key.lower().startswith(_PREFIXES[family(scheme)])


def _plain_name(key: str) -> str:
    """An option's name in lower case; Hadoop's names for S3 as Paimon's."""
    name = key.lower()
    for prefix in ("fs.s3a.", "s3a."):
        if name.startswith(prefix):
            name = f"s3.{name[len(prefix) :]}".replace("access.key", "access-key").replace("secret.key", "secret-key")
    return _ALIASES.get(name, name)


def check_names(options: Iterable[str]) -> None:
    """Raise OptionError for a name that no store knows, with near ones."""
    for key in options:
        name = _plain_name(str(key))
        if name not in _ARGUMENTS:
            prefix = next((p for ps in _PREFIXES.values() for p in ps if name.startswith(p)), "")
            near = suggest(name, [known for known in _ARGUMENTS if known.startswith(prefix)], "there are") or ""
            may_be_secret = not prefix and not near.startswith("did you mean")
            raise OptionError(f"unknown storage option{'' if may_be_secret else f' {key}'}", hint=near)


def _arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of the file system from Paimon's option names, which are known."""
    arguments: dict[str, Any] = {}
    for key, value in options.items():
        argument = _ARGUMENTS[_plain_name(key)]
        if argument == "force_virtual_addressing":
            # pyarrow addresses by path already; only the opposite has to be asked for.
            arguments[argument] = not _flag(key, value)
        else:
            arguments[argument] = (
                _flag(key, value) if argument in _FLAGS else _number(key, value) if argument in _NUMBERS else value
            )
    return arguments


def _flag(key: str, value: str) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise OptionError(f"storage option {key} must be true or false")
    return str(value).lower() == "true"


def _number(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise OptionError(f"storage option {key} must be a whole number") from None


def _connect(root: str, arguments: Mapping[str, Any]) -> Any:
    import pyarrow.fs as pafs

    store = family(scheme_of(root))
    authority = root.split("://", 1)[1].partition("/")[0]
    kinds = {"s3": "S3FileSystem", "gcs": "GcsFileSystem", "azure": "AzureFileSystem", "hdfs": "HadoopFileSystem"}
    kind = getattr(pafs, kinds[store], None)
    if kind is None:
        raise UnsupportedError(f"this pyarrow ({pa.__version__}) is built without {kinds[store]}", path=root)
    arguments = dict(arguments)
    if store == "s3":
        endpoint = arguments.get("endpoint_override", "")
        if "://" in endpoint:
            arguments["scheme"], arguments["endpoint_override"] = endpoint.split("://", 1)
    elif store == "azure":
        arguments.setdefault("account_name", authority.partition("@")[2].partition(".")[0])
        check_account_key(arguments, root)
    elif store == "hdfs":
        host, _, port = authority.partition(":")
        arguments |= {"host": host or "default", "port": int(port) if port.isdigit() else 0}
    try:
        return kind(**arguments)
    except (TypeError, ValueError, OverflowError) as error:
        secrets = [str(value) for name, value in arguments.items() if names_secret(name)]
        reason = redact(str(error), secrets)
        raise OptionError(f"{kinds[store]} does not take these options: {reason}", path=root) from scrubbed(
            error, secrets
        )


def check_account_key(arguments: Mapping[str, Any], root: str) -> None:
    """Raise OptionError for a key of an Azure account that isn't base64; the error doesn't show it."""
    try:
        b64decode(arguments.get("account_key") or "", validate=True)
    except ValueError:
        raise OptionError(
            "azure.account-key is not base64", path=root, hint="copy the whole access key of the storage account"
        ) from None
