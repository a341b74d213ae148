"""Requests to an object store: which client sends them, and what their errors mean to users."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from obstore import exceptions

from paimon_pyds.base.secrets import raise_alone, redact
from paimon_pyds.errors import OptionError, StorageError
from paimon_pyds.storage import scheme_of
from paimon_pyds.storage.faults import missing_file
from paimon_pyds.storage.object_errors import (
    bucket_word,
    hint_of,
    is_bucket_missing,
    is_unanswered,
    lacks_credentials,
    reason_of,
)
from paimon_pyds.storage.remote import RemoteFileIO, check_process
from paimon_pyds.storage.store_clients import REQUESTS_AT_ONCE, TIMEOUTS, has_keys, store_client
from paimon_pyds.storage.store_options import family, option_prefix

_BRIEF = {"connect_timeout": 2, "request_timeout": 5}
"""The same after a store could not be reached: the clean-up does not wait as long again. In seconds."""
_BRIEF_SECONDS = 10
TRIES = 5
"""Attempts of a request, or of a listing that may be cut short."""
_clients: WeakValueDictionary[tuple[bytes, str, bool, bool], Any] = WeakValueDictionary()
"""Those in use, by what they are made of: tables of one bucket share connections, of which each table holds some."""


class ObjectRequests(RemoteFileIO):
    """Clients of a store, and errors of their requests. A client is made for each process."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(root, options)
        self._kind = family(scheme_of(root))
        authority = root.partition("://")[2].partition("/")[0]
        if self._kind == "azure" and "@" not in authority and "." in authority:
            raise OptionError(
                "the address names no container",
                path=root,
                hint="write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/path",
            )
        self._stores: dict[tuple[str, bool, bool], Any] = {}
        self._unreachable_until = 0.0
        self._timeouts = {name: self._arguments.get(name, seconds) for name, seconds in TIMEOUTS.items()}
        place = (self._kind, authority.partition("@")[2])
        ambient = sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_") or k.upper().endswith("_PROXY"))
        self._made_of = sha256(repr((place, sorted(self._arguments.items()), ambient)).encode()).digest()

    def _locate(self, path: str, *, retries: bool = True) -> tuple[Any, str]:
        """The client of the path's bucket, and the key; without ``retries`` one that sends each request once."""
        self.check_server(path)
        check_process(path)
        authority, _, key = path.partition("://")[2].partition("/")
        bucket = authority.partition("@")[0]
        brief = time.monotonic() < self._unreachable_until
        store = self._stores.get((bucket, retries, brief))
        if store is None:
            timeouts = self._timeouts
            if brief:
                timeouts = timeouts | {name: min(seconds, timeouts[name]) for name, seconds in _BRIEF.items()}
            tries = TRIES if retries and not brief else 0
            shared = (self._made_of, bucket, retries, brief)
            try:
                store = _clients.get(shared)
                if store is None:
                    store = store_client(self._root, bucket, self._arguments, timeouts, tries)
                    if has_keys(self._arguments):  # else those of a file or service, which may be others next time
                        _clients[shared] = store
                self._stores[bucket, retries, brief] = store
            except (exceptions.BaseError, ValueError, TypeError, OverflowError) as error:
                reason = self._reason(error)
                raise_alone(OptionError(f"the store does not take these options: {reason}", path=self._root))
        return store, key

    @contextmanager
    def _requests(self, action: str, path: str) -> Iterator[None]:
        """Errors of requests as StorageError without secrets; of objects that are missing as MissingFileError."""
        try:
            yield
        except StorageError:
            raise
        except (exceptions.BaseError, ValueError, OSError) as error:
            if is_bucket_missing(str(error)):
                what, hint = bucket_word(self._kind), "check its name and the endpoint"
                raise_alone(StorageError(f"can't {action}: the {what} does not exist", path=path, hint=hint))
            if isinstance(error, exceptions.NotFoundError | FileNotFoundError):
                raise_alone(missing_file(action, redact(path, self._secrets)))
            reason, hint = self._reason(error), hint_of(str(error), self._kind)
            if lacks_credentials(str(error)):
                reason = "no credentials were given, and this machine has no identity that the store knows"
            elif self._unanswered(error):
                raise_alone(self._unreachable(action, path, reason))
            raise_alone(StorageError(f"can't {action}: {reason}", path=path, hint=hint))
        except BaseException as error:
            if type(error).__module__ != "pyo3_runtime":
                raise
            raise_alone(StorageError(f"can't {action}: obstore panicked ({self._reason(error)})", path=path))

    def _reason(self, error: BaseException) -> str:
        """What an error says, without secrets."""
        return redact(reason_of(str(error)), self._secrets)

    def _unanswered(self, error: Exception) -> bool:
        """Whether a request got no answer at all: the next ones wait briefly then."""
        found = is_unanswered(str(error))
        if found:
            self._unreachable_until = time.monotonic() + _BRIEF_SECONDS
        return found

    def _unreachable(self, action: str, path: str, reason: str) -> StorageError:
        waits = ", ".join(f"{name.replace('_', '-')} {seconds} s" for name, seconds in self._timeouts.items())
        prefix = option_prefix(self._kind)
        fault = StorageError(
            f"can't {action}, the store can't be reached: {reason}",
            path=path,
            hint=f"check the endpoint and the network, then try again; options {prefix}… set how long is waited"
            f" ({waits})",
        )
        fault.errno = errno.ETIMEDOUT
        return fault
