"""Requests to a Hive metastore, by Thrift: one connection for each process, made again where it breaks.

The requests are those of the package pymetastore, whose code Apache Thrift made of Hive's own description of them.
(Source: Apache Hive, hive_metastore.thrift, class HiveMetaStoreClient.)
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, redact
from paimon_pyds.catalog.hive.metastore import (
    VIEW,
    MetastoreError,
    UnansweredRequestError,
    structs,
    user_name,
)
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.catalog.hive.settings import HiveSettings

_NO_LOG = logging.NullHandler()
_PAUSES = Pauses(0.2, 2.0)
_TRIES = 4
"""Of a request, and of connecting to all addresses: a metastore may be restarting."""


class MetastoreClient:
    """The `Metastore` of these settings, which may have several addresses."""

    removes_files = True

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
        return self.database("default").catalogName is not None

    def databases(self) -> list[str]:
        found: list[str] = self.call("get_all_databases")
        return found

    def database(self, name: str) -> Any:
        return self.call("get_database", name)

    def create_database(self, database: Any) -> None:
        self.call("create_database", database, again=False)

    def drop_database(self, name: str) -> None:
        self.call("drop_database", name, True, True, again=False)

    def tables(self, database: str) -> Iterator[Any]:
        names, batch = self.call("get_all_tables", database), self.settings.batch
        for start in range(0, len(names), batch):
            wanted = names[start : start + batch]
            request = structs().GetTablesRequest(dbName=database, tblNames=wanted)
            answer = self._first(
                [("get_table_objects_by_name_req", [request]), ("get_table_objects_by_name", [database, wanted])]
            )
            yield from getattr(answer, "tables", answer)

    def views(self, database: str) -> list[str]:
        found: list[str] = self.call("get_tables_by_type", database, "*", VIEW)
        return found

    def table(self, database: str, name: str) -> Any:
        request = structs().GetTableRequest(dbName=database, tblName=name)
        answer = self._first([("get_table_req", [request]), ("get_table", [database, name])])
        return getattr(answer, "table", answer)

    def create_table(self, table: Any) -> None:
        self.call("create_table", table, again=False)

    def alter_table(
        self, database: str, name: str, table: Any, properties: Mapping[str, str] | None = None, *, again: bool = True
    ) -> None:
        context = structs().EnvironmentContext(properties=dict(properties or {}))
        self.call("alter_table_with_environment_context", database, name, table, context, again=again)

    def drop_table(self, database: str, name: str, *, deletes: bool) -> None:
        context = structs().EnvironmentContext(properties={"ifPurge": "TRUE"} if deletes else {})
        self.call("drop_table_with_environment_context", database, name, deletes, context, again=False)

    def add_partitions(self, database: str, table: str, partitions: Sequence[Any]) -> None:
        request = structs().AddPartitionsRequest(
            dbName=database, tblName=table, parts=list(partitions), ifNotExists=True, needResult=False
        )
        self.call("add_partitions_req", request)

    def drop_partition(self, database: str, table: str, values: list[str]) -> None:
        self.call("drop_partition", database, table, values, False)

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

    def _first(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> Any:
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

        from paimon_pyds.catalog.hive.transport import open_transport

        # What it logs is in our error; without a handler, Python would print its tracebacks.
        logging.getLogger("thrift").addHandler(_NO_LOG)
        wrong = list[str]()
        addresses = random.sample(self.settings.addresses, len(self.settings.addresses))
        for host, port in addresses:
            transport = None
            try:
                transport = open_transport(self.settings, host, port)
                client = Client((TCompactProtocol if self.settings.compact else TBinaryProtocol)(transport))
                if self.settings.sends_user:
                    client.set_ugi(user_name(), [])
            except (OptionError, UnsupportedError):
                raise
            except (TException, OSError, EOFError, ValueError) as error:
                if transport is not None:
                    transport.close()
                wrong.append(f"{host}:{port}: {_text(error)}")
                continue
            self._connection = (os.getpid(), client, transport)
            return client
        return StorageError(
            f"the Hive metastore can't be reached ({'; '.join(wrong)})",
            path=self.uri,
            hint="does it run there, and does it want TLS or Kerberos? Its hive-site.xml says it; see hive-conf-dir",
        )

    def _close(self) -> None:
        if self._connection is not None:
            if self._connection[0] == os.getpid():
                self._connection[2].close()
            self._connection = None


def _is_answer(error: Exception) -> bool:
    """Whether it is an exception of Hive's own, which the metastore has sent."""
    return type(error).__module__.startswith("pymetastore.")


def _text(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return redact(message.decode(errors="replace") if isinstance(message, bytes) else str(message))[:500]
