"""FileIO over obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure. It creates objects if absent (a
put with ``If-None-Match: *``, which all three have), so tables there can be written.

A put of which the outcome is unknown is not sent again by the client, but here, where what became of the first is
looked up before. Objects appear when they are whole: parts of an upload that ended before are not visible.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, BinaryIO, cast

import obstore
import pyarrow as pa
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from paimon_pyds.errors import CommitOutcomeUnknownError, OptionError, StorageError, UnsupportedError
from paimon_pyds.redaction import redact
from paimon_pyds.storage import FileStatus, OutputFile, check_range, is_file, scheme_of
from paimon_pyds.storage.arrow import ArrowFileIO, check_account_key, family
from paimon_pyds.storage.aws_profile import current_profile
from paimon_pyds.storage.object_files import IN_MEMORY, NewObject, ObjectInput

_NAMES: dict[str, dict[str, str]] = {
    "s3": {
        "access_key": "access_key_id",
        "secret_key": "secret_access_key",
        "session_token": "session_token",
        "region": "region",
        "endpoint_override": "endpoint",
        "force_virtual_addressing": "virtual_hosted_style_request",
        "anonymous": "skip_signature",
    },
    "gcs": {"access_token": "bearer_token", "anonymous": "skip_signature", "endpoint_override": "base_url"},
    "azure": {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_token": "sas_key",
        "tenant_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
    },
}
"""What pyarrow's arguments are called by obstore. Timeouts are options of its client."""
_TIMEOUTS = {"request_timeout": "timeout", "connect_timeout": "connect_timeout"}
_TRIES = 5
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_conditional: set[bytes] = set()
"""The stores that were seen to refuse a second put of one key."""
_first_process = 0
"""The process in which obstore's threads run: they don't survive a fork, and a request would wait forever."""


class ObjectStoreFileIO(ArrowFileIO):
    """FileIO over obstore; options and addresses are those of `ArrowFileIO`, which does what only concerns markers of
    directories. A client is made for each process."""

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(root, options)
        self._stores: dict[tuple[str, bool], Any] = {}
        check_account_key(self._arguments, root)

    @property
    def served(self) -> bool:
        """Whether obstore knows what all options mean, and gets the keys that the environment names."""
        kind = family(scheme_of(self._root))
        known = {*_NAMES[kind], *_TIMEOUTS, "project_id"}
        if not known.issuperset(self._arguments):
            return False
        return kind != "s3" or _has_keys(self._arguments) or current_profile().readable

    def __repr__(self) -> str:
        return f"ObjectStoreFileIO({scheme_of(self._root)}://…)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObjectStoreFileIO, (self._root, self._options))

    def _locate(self, path: str, *, retries: bool = True) -> tuple[Any, str]:
        """The client of the path's bucket, and the key; without ``retries`` one that sends each request once."""
        global _first_process
        self.check_server(path)
        _first_process = _first_process or os.getpid()
        if _first_process != os.getpid():
            raise StorageError(
                "this process was forked from one that used object stores, which can't go on here",
                path=path,
                hint="start processes by spawn: multiprocessing.get_context('spawn')",
            )
        authority, _, key = path.partition("://")[2].partition("/")
        bucket = authority.partition("@")[0]
        store = self._stores.get((bucket, retries))
        if store is None:
            try:
                store = self._stores[bucket, retries] = _client(self._root, bucket, self._arguments, retries)
            except (exceptions.BaseError, ValueError, TypeError, OverflowError) as error:
                reason = redact(str(error).partition("\n")[0], self._secrets)
                raise OptionError(f"the store does not take these options: {reason}", path=self._root) from None
        return store, key

    @contextmanager
    def _requests(self, action: str, path: str) -> Iterator[None]:
        """Errors of requests as StorageError without secrets; of objects that are missing as FileNotFoundError."""
        try:
            yield
        except StorageError:
            raise
        except (exceptions.BaseError, ValueError, OSError) as error:
            if any(text in str(error) for text in _NO_BUCKET):
                raise StorageError(
                    f"can't {action}: the bucket does not exist", path=path, hint="check its name and the endpoint"
                ) from None
            if isinstance(error, exceptions.NotFoundError | FileNotFoundError):
                raise FileNotFoundError(2, os.strerror(2), redact(path, self._secrets)) from None
            # What obstore says below the first line may repeat headers.
            reason = redact(str(error).partition("\n")[0], self._secrets)
            raise StorageError(f"can't {action}: {reason}", path=path, hint=_hint(str(error))) from None

    # ------------------------------------------------------------------------------------------------- reading

    def read_bytes(self, path: str) -> bytes:
        store, key = self._locate(path)
        with self._requests("read", path):
            return bytes(obstore.get(store, key).bytes())

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
                with self._requests("read", path):
                    found = [bytes(d) for d in obstore.get_ranges(store, key, starts=starts, lengths=lengths)]
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
        return pa.PythonFile(ObjectInput(self, path, self.size(path)), mode="r")

    def size(self, path: str) -> int:
        store, key = self._locate(path)
        with self._requests("look up", path):
            return int(obstore.head(store, key)["size"])

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        """The first bytes and the size of an object, by one request."""
        store, key = self._locate(path)
        try:
            with self._requests("read", path):
                found = obstore.get(store, key, options={"range": (0, length)})
                return bytes(found.bytes()), int(found.meta["size"])
        except StorageError:  # an empty object has no range
            if self.size(path):
                raise
            return b"", 0

    def exists(self, path: str) -> bool:
        """Whether an object, or anything below that prefix, is there."""
        with suppress(FileNotFoundError):
            return self.size(path) >= 0
        return super().exists(path) if not self.list(path) else True

    def list(self, path: str) -> list[FileStatus]:
        """What lies directly below a prefix, by name; empty when there is nothing."""
        store, key = self._locate(path)
        base = path.rstrip("/")
        try:
            with self._requests("list", path):
                found = obstore.list_with_delimiter(store, f"{key}/" if key else None)
        except FileNotFoundError:
            return []
        entries = [
            FileStatus(f"{base}/{name}", name, 0, True, 0)
            for prefix in found["common_prefixes"]
            if (name := prefix.rstrip("/").rpartition("/")[2])
        ]
        for item in found["objects"]:
            name = item["path"].rpartition("/")[2]
            if item["path"] != key:  # the marker of the directory itself
                modified = int(item["last_modified"].timestamp() * 1000)
                entries.append(FileStatus(f"{base}/{name}", name, item["size"], False, modified))
        return sorted(entries, key=lambda entry: entry.name)

    # ------------------------------------------------------------------------------------------------- writing

    def open_output(self, path: str) -> OutputFile:
        """A new object, which is sent when it is closed: what waits lies on local disk."""
        self._locate(path)
        return NewObject(self.send, self.delete, path)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object in one atomic step; False when it is there already.

        Raises:
            CommitOutcomeUnknownError: it may be there now, or appear later.
            UnsupportedError: the store overwrites objects where it was asked not to.
        """
        if self._identity not in _conditional:
            self._probe(path.rpartition("/")[0])
            _conditional.add(self._identity)
        unsettled: StorageError | None = None
        for attempt in range(_TRIES):
            try:
                return self._create(path, data) or (unsettled is not None and self.read_bytes(path) == data)
            except _UnknownOutcomeError as error:
                unsettled = error.storage_error
            except StorageError:
                if unsettled is None:
                    raise
            time.sleep(random.uniform(0.5, 1) * 0.1 * 2**attempt)
        raise CommitOutcomeUnknownError(
            f"the storage did not say whether {path.rpartition('/')[2]} was created ({unsettled})",
            path=path,
            hint="look whether it is there before writing again",
        )

    def _create(self, path: str, data: bytes) -> bool:
        """One put; False when the object is there. Raises StorageError, _UnknownOutcomeError."""
        store, key = self._locate(path, retries=False)
        try:
            with self._requests("write", path):
                try:
                    obstore.put(store, key, data, mode="create", use_multipart=False)
                except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                    return False
                except exceptions.GenericError as error:
                    reason = redact(str(error).partition("\n")[0], self._secrets)
                    raise _UnknownOutcomeError(StorageError(f"can't write: {reason}", path=path)) from None
        except FileNotFoundError:
            raise StorageError("can't write: the bucket does not exist", path=path) from None
        return True

    def _probe(self, directory: str) -> None:
        """Raise UnsupportedError when the store replaces an object that it is to create only if absent."""
        path = f"{directory}/.paimon-pyds-{uuid.uuid4()}.tmp"
        try:
            self.replace(path, b"")
            refused = False
            with suppress(_UnknownOutcomeError):
                refused = not self._create(path, b"")
        finally:
            self.delete([path])
        if not refused:
            raise UnsupportedError(
                "this store can't create an object only if absent (If-None-Match), so commits could be lost",
                path=directory,
                hint="bring the store up to date, or let a writer that holds a catalog's lock write",
            )

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create an object of a unique name, so that one of the same content is what an earlier try has made."""
        if len(data) <= IN_MEMORY:
            store, key = self._locate(path)
            with suppress(FileNotFoundError, StorageError), self._requests("write", path):
                obstore.put(store, key, data, mode="create", use_multipart=False)
                return
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


class _UnknownOutcomeError(Exception):
    """A put that failed and may have had its effect, or have it yet."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(str(error))
        self.storage_error = error


def _client(root: str, bucket: str, arguments: Mapping[str, Any], retries: bool) -> Any:
    """A client of one bucket. Raises ValueError, obstore's errors."""
    kind = family(scheme_of(root))
    config = {own: arguments[name] for name, own in _NAMES[kind].items() if name in arguments}
    client: dict[str, Any] = {
        own: timedelta(seconds=arguments[name]) for name, own in _TIMEOUTS.items() if name in arguments
    }
    if kind == "s3" and "://" not in (endpoint := config.get("endpoint", "://")):
        config["endpoint"] = f"https://{endpoint}"
    client["allow_http"] = str(config.get("endpoint", config.get("base_url", ""))).startswith("http://")
    retry = {"max_retries": _TRIES if retries else 0, "retry_timeout": timedelta(seconds=120)}
    common: Any = {"client_options": client, "retry_config": retry}
    if kind == "s3":
        if not _has_keys(arguments):
            common["credential_provider"] = current_profile().credentials()
        if not ("region" in config or {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys()) and (
            region := current_profile().region
        ):
            config["region"] = region
        return S3Store(bucket, config=cast(Any, config), **common)
    if kind == "gcs":
        return GCSStore(bucket, config=cast(Any, config), **common)
    config.setdefault("account_name", root.partition("@")[2].partition(".")[0])
    return AzureStore(bucket, config=cast(Any, config), **common)


def _has_keys(arguments: Mapping[str, Any]) -> bool:
    """Whether options or the environment give keys of S3, or say that none are needed: profiles come after these."""
    return "access_key" in arguments or arguments.get("anonymous", False) or "AWS_ACCESS_KEY_ID" in os.environ


def _hint(text: str) -> str:
    """What can be done about an error of a request."""
    if any(sign in text for sign in ("RequestTimeTooSkewed", "not yet valid")):
        return "the clock of this machine is wrong: set it"
    if any(sign in text for sign in ("403", "401", "InvalidAccessKeyId", "SignatureDoesNotMatch", "credential")):
        return "check the credentials, and what they may do in this bucket"
    if any(sign in text for sign in ("301", "redirect", "AuthorizationHeaderMalformed")):
        return "the bucket is in another region: set s3.region"
    return "check the storage options and the network, then try again"
