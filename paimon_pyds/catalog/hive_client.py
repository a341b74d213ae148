"""Requests to a Hive metastore, by Thrift: one connection for each process, made again where it breaks.

The requests are those of the package pymetastore, whose code Apache Thrift made of Hive's own description of them.
(Source: Apache Hive, hive_metastore.thrift, class HiveMetaStoreClient.)
"""

from __future__ import annotations

import getpass
import os
import random
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, redact
from paimon_pyds.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.catalog.hive_settings import HiveSettings

_PAUSES = Pauses(0.2, 2.0)
_TRIES = 4
"""Of a request, and of connecting to all addresses: a metastore may be restarting."""


class MetastoreError(StorageError):
    """The metastore refuses a request. ``kind``: the name of Hive's exception."""

    def __init__(self, message: str, kind: str, **more: Any) -> None:
        super().__init__(message, **more)
        self.kind = kind


class UnansweredRequestError(StorageError):
    """No response came to a request, which the metastore may have carried out."""


def structs() -> Any:
    """The module of Hive's structures. Raises UnsupportedError: it is not installed."""
    try:
        from pymetastore.hive_metastore import ttypes
    except ImportError:
        raise UnsupportedError(
            "Hive metastores need pymetastore", hint="pip install 'paimon-pyds[hive]'", feature="hive"
        ) from None
    return ttypes


class MetastoreClient:
    """A metastore, which may have several addresses. It pickles, and may be used by several threads."""

    def __init__(self, settings: HiveSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._connection: tuple[int, Any, Any] | None = None
        structs()

    def __reduce__(self) -> tuple[Any, ...]:
        return (MetastoreClient, (self.settings,))

    def __repr__(self) -> str:
        return f"MetastoreClient({self.uri!r})"

    @property
    def uri(self) -> str:
        """Its addresses, for messages."""
        return ",".join(f"thrift://{host}:{port}" for host, port in self.settings.addresses)

    def knows_instants(self) -> bool:
        """Whether it has the type TIMESTAMP WITH LOCAL TIME ZONE: it came with Hive 3, as catalogs did."""
        return self.call("get_database", "default").catalogName is not None

    def call(self, request: str, *arguments: Any, again: bool = True) -> Any:
        """The response to a request.

        Args:
            request: its name in Hive's description.
            *arguments: of it.
            again: whether the request may be sent once more where no response came: one that reads, or that has the
                same effect when it is repeated.

        Raises:
            MetastoreError: the metastore refuses.
            UnansweredRequestError: no response came.
            StorageError: it can't be reached.
        """
        from thrift.Thrift import TApplicationException, TException

        retry = Retry(_PAUSES, attempts=_TRIES)
        while True:
            with self._lock:
                client = self._connected()
                lost: StorageError
                if isinstance(client, StorageError):
                    lost, sent = client, False
                else:
                    try:
                        return getattr(client, request)(*arguments)
                    except (TException, OSError, EOFError, ValueError) as error:
                        if _is_answer(error):
                            raise_alone(self._refusal(request, error))
                        self._close()
                        if isinstance(error, TApplicationException):  # unknown to it, or an error inside the server
                            raise_alone(self._refusal(request, error))
                        text = f"no response came to {request} ({_text(error)})"
                        lost, sent = UnansweredRequestError(text, path=self.uri), True
                    except BaseException:  # a response may be left in the connection
                        self._close()
                        raise
            if sent and not again:
                raise lost
            retry.again(lost)

    def call_first(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> Any:
        """The response to the first of these requests that the metastore knows: Hive's versions differ. None may change
        anything."""
        for request, arguments in requests[:-1]:
            try:
                return self.call(request, *arguments)
            except MetastoreError as error:
                if error.kind != "TApplicationException" or "method" not in str(error):
                    raise
        request, arguments = requests[-1]
        return self.call(request, *arguments)

    def _refusal(self, request: str, error: Exception) -> MetastoreError:
        return MetastoreError(f"the metastore refuses {request}: {_text(error)}", type(error).__name__, path=self.uri)

    def _connected(self) -> Any:
        """The client of the connection, which is opened where it is closed; a StorageError where that fails."""
        if self._connection is not None and self._connection[0] == os.getpid():
            return self._connection[1]
        from pymetastore.hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.protocol.TCompactProtocol import TCompactProtocol
        from thrift.Thrift import TException
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

        wrong = list[str]()
        addresses = random.sample(self.settings.addresses, len(self.settings.addresses))
        for host, port in addresses:
            plain = TSocket(host, port)
            plain.setTimeout(self.settings.timeout * 1000)
            transport = (TFramedTransport if self.settings.framed else TBufferedTransport)(plain)
            client = Client((TCompactProtocol if self.settings.compact else TBinaryProtocol)(transport))
            try:
                transport.open()
                if self.settings.sends_user:
                    client.set_ugi(user_name(), [])
            except (TException, OSError, EOFError, ValueError) as error:
                transport.close()
                wrong.append(f"{host}:{port}: {_text(error)}")
                continue
            self._connection = (os.getpid(), client, transport)
            return client
        return StorageError(
            f"the Hive metastore can't be reached ({'; '.join(wrong)})",
            path=self.uri,
            hint="does it run there, and does it want plain Thrift? Its hive-site.xml says it; see hive-conf-dir",
        )

    def _close(self) -> None:
        if self._connection is not None:
            if self._connection[0] == os.getpid():
                self._connection[2].close()
            self._connection = None


def user_name() -> str:
    """The user of requests, the owner of what they make: HADOOP_USER_NAME, or the user of this process."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return str(os.getuid())


def host_name() -> str:
    """The name of this machine, for the list of locks."""
    return socket.gethostname()


def _is_answer(error: Exception) -> bool:
    """Whether it is an exception of Hive's own, which the metastore has sent."""
    return type(error).__module__.startswith("pymetastore.")


def _text(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return redact(message.decode(errors="replace") if isinstance(message, bytes) else str(message))[:500]
