"""The base of file systems that are read by requests: object stores and HDFS.

Paths are whole URIs (``s3://bucket/key``), as people know them from their tables' metadata.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from paimon_pyds.base.secrets import holds_secret, names_secret, parts_of_secret
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import scheme_of
from paimon_pyds.storage.disk_cache import LocalCache, is_option
from paimon_pyds.storage.store_options import ENDPOINTS, client_arguments, concerns, family

_Self = TypeVar("_Self", bound="RemoteFileIO")
_first_process = 0
"""The process in which threads of a client run: they don't survive a fork, and a request would wait forever."""
_ENVIRONMENT = ("AWS_", "AZURE_", "GOOGLE_", "OSS_", "OBS_", "HADOOP_", "KRB5")
"""Where credentials come from that no option gives."""


def check_process(path: str) -> None:
    """Raise StorageError in a process that was forked from one that has used a client of a store."""
    global _first_process
    _first_process = _first_process or os.getpid()
    if _first_process != os.getpid():
        raise StorageError(
            "this process was forked from one that used object stores or HDFS, which can't go on here",
            path=path,
            hint="start processes by spawn: multiprocessing.get_context('spawn')",
        )


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


class RemoteFileIO:
    """The options, identity and counts of a FileIO whose storage is elsewhere.

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
        scheme, _, rest = root.partition("://")
        self._own = f"{scheme}://{rest.partition('/')[0]}/"
        self._options = {k: v for k, v in (options or {}).items() if concerns(root, k)}
        self._cache_options = {k: v for k, v in (options or {}).items() if is_option(k)}
        self.local_cache = LocalCache.of(self._cache_options)
        self._secrets = tuple(
            part for k, v in self._options.items() if names_secret(k) for part in parts_of_secret(str(v))
        )
        self.counts = RequestCounts()
        self._arguments = client_arguments(root, self._options)
        ambient = sorted((k, v) for k, v in os.environ.items() if k.startswith(_ENVIRONMENT))
        self._identity = sha256(repr((root, sorted(self._options.items()), ambient)).encode()).digest()
        given = sorted((k, str(v)) for k, v in {**dict(ambient), **self._options}.items())
        endpoint = next((self._arguments[name] for name in ENDPOINTS if name in self._arguments), None)
        place = (root, endpoint)  # which a profile may name
        self._version = repr((place, [(k, v) for k, v in given if not names_secret(k) and not holds_secret(v)]))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({scheme_of(self._root)}://…)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._root, self._options | self._cache_options))

    def counted(self: _Self) -> _Self:
        """The same storage, whose requests are counted from now on, and apart."""
        other = copy(self)
        other.counts = RequestCounts()
        return other

    def version(self, path: str) -> str:
        """A version that identifies this store, without credentials; it does not change if an object is replaced."""
        return self._version

    def check_server(self, path: str) -> None:
        """Raise UnsupportedError for a path of another store."""
        if path.startswith(self._own):  # nearly all do, and each request comes by here
            return
        own, other = scheme_of(self._root), scheme_of(path)
        here, there = f"{own}://", f"{other}://"
        if family(own) == family(other):
            here, there = repr(_server(self._root)), repr(_server(path))
            if here == there:
                return
        raise UnsupportedError(
            f"a table on {here} with a file on {there} is not supported",
            path=path,
            hint="all files of a table must be in one store",
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        raise NotImplementedError

    def remove_empty_dir(self, path: str) -> bool:
        """False: object stores have no directories, and libhdfs can't remove one only when it is empty."""
        return False


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
