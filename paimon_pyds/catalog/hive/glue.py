"""AWS Glue in place of a Hive metastore: the requests that the Glue client for Java sends, which Java Paimon uses by
``metastore.client.class``. As there, Glue has no locks, and gives no table another name.

Unlike that client, a change of a table says which version of it is changed, so that Glue refuses older ones.
(Source: AWS Glue API; awslabs' aws-glue-data-catalog-client-for-apache-hive-metastore.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, redact
from paimon_pyds.catalog.hive.glue_table import (
    changed_partition,
    database_input,
    hive_database,
    hive_table,
    partition_input,
    table_input,
)
from paimon_pyds.catalog.hive.metastore import VIEW, ChangedEntryError, MetastoreError, UnansweredRequestError, structs
from paimon_pyds.catalog.hive.settings import CATALOG_ID, ENDPOINT, REGION, HiveSettings
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError
from paimon_pyds.storage import options_of_store
from paimon_pyds.storage.aws_profile import CredentialProvider, role_credentials
from paimon_pyds.storage.store_options import client_arguments

_PAUSES = Pauses(0.2, 5.0, jitter=0.5)
_TRIES = 6
"""Of a request: Glue has limits of requests a second."""
_AT_ONCE = 100
"""The partitions that a request may add or change."""
_BUSY = ("Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded")
_CHANGED = "ConcurrentModificationException"
_KINDS = {"EntityNotFoundException": "NoSuchObjectException", "InvalidInputException": "InvalidObjectException"}
"""Hive's names of what Glue refuses."""


class GlueClient:
    """The `Metastore` that is the data catalog of an AWS account.

    Raises UnsupportedError: boto3 or pymetastore is not installed.
    """

    removes_files = False

    def __init__(self, settings: HiveSettings) -> None:
        self.settings, self._options = settings, settings.glue or {}
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None
        structs()
        try:
            import boto3  # noqa: F401
        except ImportError:
            raise_alone(
                UnsupportedError("AWS Glue needs boto3", hint="pip install 'paimon-pyds[glue]'", feature="glue")
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return (GlueClient, (self.settings,))

    def __repr__(self) -> str:
        return f"GlueClient({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._options.get(ENDPOINT) or f"AWS Glue {self._options.get(REGION, '')}".rstrip()

    def knows_instants(self) -> bool:
        """Whether it has the type TIMESTAMP WITH LOCAL TIME ZONE: what reads by Glue does not."""
        return False

    def databases(self) -> list[str]:
        return [one["Name"] for one in self._all("get_databases", "DatabaseList", {})]

    def database(self, name: str) -> Any:
        return hive_database(self._send("get_database", {"Name": name})["Database"])

    def create_database(self, database: Any) -> None:
        self._send("create_database", {"DatabaseInput": database_input(database)}, again=False)

    def drop_database(self, name: str) -> None:
        self._send("delete_database", {"Name": name}, again=False)

    def tables(self, database: str) -> Iterator[Any]:
        for entry in self._all("get_tables", "TableList", {"DatabaseName": database}):
            yield hive_table(entry, database)

    def views(self, database: str) -> list[str]:
        return [table.tableName for table in self.tables(database) if table.tableType == VIEW]

    def table(self, database: str, name: str) -> Any:
        answer = self._send("get_table", {"DatabaseName": database, "Name": name})
        return hive_table(answer["Table"], database)

    def create_table(self, table: Any) -> None:
        arguments = {"DatabaseName": table.dbName, "TableInput": self._input(table)}
        self._send("create_table", arguments, again=False)

    def alter_table(
        self, database: str, name: str, table: Any, properties: Mapping[str, str] | None = None, *, again: bool = True
    ) -> None:
        if (database, name.lower()) != (table.dbName, table.tableName.lower()):
            raise UnsupportedError(
                "AWS Glue gives no table another name", hint="make a new one, and copy the rows to it", feature="glue"
            )
        entry = self._input(table)
        version = {"VersionId": table.of_glue["VersionId"]} if table.of_glue.get("VersionId") else {}
        self._send("update_table", {"DatabaseName": database, "TableInput": entry, **version}, again=again)
        if table.partitionKeys and (properties or {}).get("CASCADE") == "true":
            self._change_partitions(database, name, entry["StorageDescriptor"]["Columns"])

    def drop_table(self, database: str, name: str, *, deletes: bool) -> None:
        self._send("delete_table", {"DatabaseName": database, "Name": name}, again=False)

    def add_partitions(self, database: str, table: str, partitions: Sequence[Any]) -> None:
        entries = [partition_input(partition) for partition in partitions]
        self._batches("batch_create_partition", "PartitionInputList", entries, database, table)

    def drop_partition(self, database: str, table: str, values: list[str]) -> None:
        named = {"DatabaseName": database, "TableName": table}
        self._send("delete_partition", {**named, "PartitionValues": values})

    def _change_partitions(self, database: str, table: str, columns: Any) -> None:
        known = self._members("PartitionInput")
        found = self._all("get_partitions", "Partitions", {"DatabaseName": database, "TableName": table})
        entries = [
            {"PartitionValueList": one["Values"], "PartitionInput": changed_partition(one, columns, known)}
            for one in found
        ]
        self._batches("batch_update_partition", "Entries", entries, database, table)

    def _batches(self, request: str, member: str, entries: Sequence[Any], database: str, table: str) -> None:
        """Requests that have some entries each. Raises MetastoreError for the first that Glue refuses, unless it is
        there already, or is to be changed and was removed meanwhile."""
        fine = "AlreadyExistsException" if request.startswith("batch_create") else "EntityNotFoundException"
        for start in range(0, len(entries), _AT_ONCE):
            batch = {member: entries[start : start + _AT_ONCE]}
            answer = self._send(request, {"DatabaseName": database, "TableName": table, **batch})
            details = (error["ErrorDetail"] for error in answer.get("Errors", ()))
            refused = next((one for one in details if one.get("ErrorCode") != fine), None)
            if refused is not None:
                raise self._refusal(request, refused.get("ErrorCode", ""), refused.get("ErrorMessage", ""))

    def _input(self, table: Any) -> dict[str, Any]:
        return table_input(table, self._members("TableInput"))

    def _members(self, shape: str) -> set[str]:
        """The names of what requests take of an entry."""
        return set(self._client().meta.service_model.shape_for(shape).members)

    def _all(self, request: str, member: str, arguments: Mapping[str, Any]) -> Iterator[Any]:
        """The members of all responses to a request, which has several where there are many."""
        token: dict[str, str] = {}
        while True:
            answer = self._send(request, {**arguments, **token})
            yield from answer[member]
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def _send(self, request: str, arguments: Mapping[str, Any], *, again: bool = True) -> Any:
        """The response to a request. ``again`` and errors as those of
        `paimon_pyds.catalog.hive.client.MetastoreClient.call`; OptionError: no credentials, or no region."""
        from botocore.exceptions import BotoCoreError, ClientError

        catalog = {"CatalogId": self._options[CATALOG_ID]} if self._options.get(CATALOG_ID) else {}
        retry = Retry(_PAUSES, attempts=_TRIES)
        while True:
            try:
                return getattr(self._client(), request)(**catalog, **arguments)
            except ClientError as error:
                lost = self._answered(request, error, "VersionId" in arguments)
            except BotoCoreError as error:
                lost = self._unanswered(request, error)
            if isinstance(lost, UnansweredRequestError) and not again:
                raise_alone(lost)
            retry.again(lost)

    def _answered(self, request: str, error: Any, compares: bool) -> StorageError:
        """What a response that is an error means: the error for one after which the request may be sent again. Raises
        MetastoreError: it may not. ``compares``: the request names the version that it changes."""
        code, text = (error.response.get("Error", {}).get(key, "") for key in ("Code", "Message"))
        if code == _CHANGED and compares:
            raise_alone(ChangedEntryError("another has changed the table meanwhile", code, path=self.uri))
        refusal = self._refusal(request, code, text)
        if code in _BUSY or code == _CHANGED:
            return refusal
        if code == "OperationTimeoutException" or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            return UnansweredRequestError(f"no response came to {request} ({code})", path=self.uri)
        raise_alone(refusal)

    def _refusal(self, request: str, code: str, text: str) -> MetastoreError:
        what = f"AWS Glue refuses {request}: {code}: {redact(text)[:500]}"
        return MetastoreError(what, _KINDS.get(code, code), path=self.uri)

    def _unanswered(self, request: str, error: Exception) -> StorageError:
        """The error for a request without a response. Raises OptionError, MetastoreError: it was not sent."""
        from botocore import exceptions

        text = redact(str(error))[:500]
        if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
            hint = "give s3.access-key and s3.secret-key, or what the AWS tools take: a profile, or variables"
            raise_alone(OptionError("AWS Glue needs credentials", hint=hint))
        if isinstance(error, exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError):
            return StorageError(f"AWS Glue can't be reached ({text})", path=self.uri)
        if isinstance(error, exceptions.HTTPClientError):
            return UnansweredRequestError(f"no response came to {request} ({text})", path=self.uri)
        raise_alone(MetastoreError(f"AWS Glue can't be sent {request}: {text}", type(error).__name__, path=self.uri))

    def _client(self) -> Any:
        """The client of this process."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), _new_client(self._options, self.settings.timeout))
            return self._made[1]


def _new_client(options: Mapping[str, str], timeout: float) -> Any:
    """A client of Glue. Credentials are those of the storage's options for S3, else those that boto3 finds itself.
    Raises OptionError: no region."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    arguments = client_arguments("s3://glue", options_of_store("s3://glue", options))
    names = ("access_key_id", "secret_access_key", "session_token")
    own = {f"aws_{name}": arguments[name] for name in names if name in arguments}
    session = get_session()
    if "role_arn" in arguments:
        session._credentials = _renewed(role_credentials(arguments["role_arn"], arguments))
        own = {}
    endpoint = options.get(ENDPOINT, "")
    if endpoint and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    try:
        return boto3.Session(botocore_session=session, **own).client(
            "glue",
            region_name=options.get(REGION) or arguments.get("region"),
            endpoint_url=endpoint or None,
            config=Config(retries={"total_max_attempts": 1}, read_timeout=timeout),
        )
    except (BotoCoreError, ValueError) as error:
        raise_alone(OptionError(f"no client of AWS Glue: {error}", hint="the option aws.region names a region"))


def _renewed(fetch: CredentialProvider) -> Any:
    """The credentials of a role, which botocore renews before they expire."""
    from botocore.credentials import RefreshableCredentials

    def metadata() -> dict[str, str]:
        keys = fetch()
        return {
            "access_key": keys["access_key_id"],
            "secret_key": keys["secret_access_key"],
            "token": keys["token"],
            "expiry_time": keys["expires_at"].isoformat(),
        }

    return RefreshableCredentials.create_from_metadata(metadata(), metadata, "sts-assume-role")
