"""Paimon's REST catalog: databases and tables of a server, which also decides which snapshot is a table's latest.

The server gives a table's path and, where ``data-token.enabled`` is set, credentials that expire; files are read and
written there as anywhere else. External tables commit by their file system, as in Java Paimon.
(Source: Paimon documentation, concepts/rest, its OpenAPI description; Java Paimon 1.4, class RESTCatalog.)
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO, cast

import pyarrow as pa

from paimon_pyds.base.json_http import MissingResourceError
from paimon_pyds.base.types import field_to_json
from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.catalog.rest_auth import REFRESH_BEFORE_MS, authorization_of
from paimon_pyds.catalog.rest_client import RestClient, segment
from paimon_pyds.catalog.rest_table import ExternalRestTable, RestTable
from paimon_pyds.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.directory_store import DirectoryStore
from paimon_pyds.metadata.paths import MAIN_BRANCH, ExternalPaths
from paimon_pyds.metadata.schema import CURRENT_SCHEMA_VERSION, parse_schema
from paimon_pyds.metadata.store import TableStore, cache_of
from paimon_pyds.ops.ddl.create import TableDefinition, table_schema
from paimon_pyds.storage import (
    FileIO,
    OutputFile,
    normalise_location,
    open_file_io,
    options_of_store,
    saves_requests,
)
from paimon_pyds.storage.disk_cache import is_option
from paimon_pyds.storage.object_files import NewObject, ObjectInput

_OWN = ("uri", "warehouse", "token", "token.provider", "prefix", "data-token.enabled")
_TABLE_DEFAULT = "table-default."
_PREFIXES = ("dlf.", "header.", _TABLE_DEFAULT)
_OSS_ENDPOINT = "dlf.oss-endpoint"
_FORMAT_TABLE = "format-table"
_KINDS = ("table", "materialized-table", _FORMAT_TABLE)


class RestBackend:
    """The `CatalogBackend` of a server.

    ``options``: ``uri``, ``warehouse``, how requests are authorised, and options of the storage.
    Raises OptionError: an option is missing; PaimonError: the server refuses, or can't be reached.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        if not options.get("uri"):
            raise OptionError("a REST catalog needs the option uri, the server's address")
        self.warehouse = options.get("warehouse", "")
        self._storage = {k: v for k, v in options.items() if k not in _OWN and not k.startswith(_PREFIXES)}
        self._client = RestClient(options["uri"], authorization_of(options), _named("header.", options))
        config = self._client.get("/v1/config", {"warehouse": self.warehouse} if self.warehouse else None)
        self._options = {**self._client.texts(config, "defaults"), **options, **self._client.texts(config, "overrides")}
        self._client.headers.update(_named("header.", self._options))
        prefix = self._options.get("prefix")
        self._root = f"/v1/{segment(prefix)}" if prefix else "/v1"

    def databases(self) -> list[str]:
        return sorted(self._client.pages(f"{self._root}/databases", "databases"))

    def has_database(self, name: str) -> bool:
        try:
            self._client.get(self._database(name))
        except MissingResourceError:
            return False
        return True

    def create_database(self, name: str) -> None:
        self._client.post(f"{self._root}/databases", {"name": name, "options": {}})

    def drop_database(self, name: str) -> None:
        try:
            self._client.delete(self._database(name))
        except MissingResourceError as error:
            raise DatabaseNotFoundError(error.message, path=error.path) from error

    def missing_hint(self) -> str | None:
        return None

    def tables(self, database: str) -> list[str]:
        return sorted(self._client.pages(f"{self._database(database)}/tables", "tables"))

    def views(self, database: str) -> list[str]:
        return []  # they are the server's matter

    def path(self, identifier: Identifier) -> str:
        return str(self._described(identifier)["path"])

    def store(self, identifier: Identifier) -> TableStore:
        described = self._described(identifier)
        path, table = str(described["path"]), self._table(identifier)
        main = self._table(replace(identifier, branch=None))
        kind = ExternalRestTable if described.get("isExternal") else RestTable
        publisher = kind(self._client, main, identifier.branch or MAIN_BRANCH, str(described.get("id")))
        if self._options.get("data-token.enabled", "").lower() == "true":
            io = cast("FileIO", VendedFileIO(self._client, table, path, self._options, self._storage))
            path = normalise_location(path)
        else:
            io, path = open_file_io(path, {**options_of_store(path, self._options), **self._storage})
        schema = self._client.member(described, "schema", dict) or {}
        if self._client.texts(schema, "options").get("type") == _FORMAT_TABLE:
            given = {"version": CURRENT_SCHEMA_VERSION, "id": described.get("schemaId"), "highestFieldId": 0}
            data = json.dumps({**given, **schema}).encode()
            return DirectoryStore(io, path, parse_schema(data, path)).for_branch(identifier.branch or MAIN_BRANCH)
        external_paths, local_cache = ExternalPaths.of(self._storage), cache_of(self._storage)
        store = TableStore(io, path, external=external_paths, publisher=publisher, local_cache=local_cache)
        return store.for_branch(identifier.branch or MAIN_BRANCH)

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        defaults = _named(_TABLE_DEFAULT, self._options)
        schema = table_schema(replace(definition, options={**defaults, **(definition.options or {})}))
        self._client.post(
            f"{self._database(identifier.database)}/tables",
            {
                "identifier": {"database": identifier.database, "object": identifier.object_name},
                "schema": {
                    "fields": [field_to_json(field) for field in schema.fields],
                    "partitionKeys": list(schema.partition_keys),
                    "primaryKeys": list(schema.primary_keys),
                    "options": dict(schema.options),
                    "comment": schema.comment,
                },
            },
        )
        return self.store(identifier)

    def drop_table(self, identifier: Identifier) -> None:
        try:
            self._client.delete(self._table(identifier))
        except MissingResourceError as error:
            raise TableNotFoundError(error.message, path=error.path) from error

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        """Nothing: a server drops a table whatever was committed to it since it was looked at."""

    def repair_table(self, identifier: Identifier) -> None:
        raise UnsupportedError(
            "a REST catalog's server says what its tables are: there is nothing to repair from files",
            hint="table.maintenance.repair() mends damaged files",
        )

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        names = {
            what: {"database": name.database, "object": name.object_name}
            for what, name in (("source", identifier), ("destination", new))
        }
        try:
            self._client.post(f"{self._root}/tables/rename", names)
        except MissingResourceError as error:
            hint = "an earlier try may have done it" if error.repeated else None
            raise TableNotFoundError(error.message, path=error.path, hint=hint) from error
        except AlreadyExistsError as error:
            raise AlreadyExistsError(f"table {new} already exists", path=error.path) from error

    def _described(self, identifier: Identifier) -> dict[str, Any]:
        """What the server says of a table. Raises TableNotFoundError."""
        try:
            answer = self._client.get(self._table(identifier))
        except MissingResourceError as error:
            raise TableNotFoundError(error.message, path=error.path) from error
        if not isinstance(answer.get("path"), str):
            raise StorageError(f"the catalog does not say where table {identifier} is", path=self._client.uri)
        schema = self._client.member(answer, "schema", dict) or {}
        kind = self._client.texts(schema, "options").get("type", "table")
        if kind not in _KINDS:
            text = f"{identifier} is not a Paimon table: its type is {kind!r:.40}"
            raise UnsupportedError(text, path=answer["path"], feature="object-tables")
        return answer

    def _database(self, name: str) -> str:
        return f"{self._root}/databases/{segment(name)}"

    def _table(self, identifier: Identifier) -> str:
        return f"{self._database(identifier.database)}/tables/{segment(identifier.object_name)}"


class VendedFileIO:
    """The `FileIO` of a table by credentials that the catalog gives out, and gives anew an hour before they expire, or
    at half of their time where that is less.

    Pickled, it is the storage by the credentials of now: tasks get neither the catalog's token nor its address.

    Args:
        client: of the server.
        table: the path of its requests.
        path: where the table is.
        options: of the catalog, the server's among them.
        own: the caller's; only these configure the cache on this machine's disk.
    """

    def __init__(
        self, client: RestClient, table: str, path: str, options: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        self._client, self._table, self._path, self._options = client, table, path, options
        self._cache = {key: value for key, value in own.items() if is_option(key)}
        self._lock = threading.Lock()
        self._io: FileIO | None = None
        self._renewed_ms = 0.0

    def __repr__(self) -> str:
        return f"VendedFileIO({self._table!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VendedFileIO) and (self._client, self._table) == (other._client, other._table)

    def __hash__(self) -> int:
        return hash((self._client, self._table))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_same, (self._current(),))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._current(), name)

    def open_output(self, path: str) -> OutputFile:
        """As of every `FileIO`. A file may outlive credentials: it is sent by those at its end."""
        opened = self._current().open_output(path)
        if not isinstance(opened, NewObject):
            return opened
        return NewObject(self._send, lambda paths: self._current().delete(paths), path)

    def _send(self, path: str, data: BinaryIO) -> None:
        cast("Any", self._current()).send(path, data)

    def open_input(self, path: str) -> pa.NativeFile:
        """As of every `FileIO`. Reads use the current credentials, too."""
        if not saves_requests(self._current()):
            return self._current().open_input(path)
        return self.open_sized(path, self._current().size(path))

    def open_sized(self, path: str, size: int) -> pa.NativeFile:
        """As of `SavesRequests`."""
        return pa.PythonFile(ObjectInput(cast("FileIO", self), path, size), mode="r")

    def _current(self) -> FileIO:
        with self._lock:
            now = time.time() * 1000
            if self._io is None or now > self._renewed_ms:
                answer = self._client.get(f"{self._table}/token")
                given = {**self._options, **self._client.texts(answer, "token")}
                if self._options.get(_OSS_ENDPOINT):  # Java, too, takes it for that of the token
                    given["fs.oss.endpoint"] = self._options[_OSS_ENDPOINT]
                self._io, _ = open_file_io(self._path, options_of_store(self._path, given) | self._cache)
                expires = (self._client.member(answer, name, int) for name in ("expiresAtMillis", "expiresAt"))
                left = next(filter(None, expires), now) - now
                self._renewed_ms = now + left - min(REFRESH_BEFORE_MS, left / 2)
            return self._io


def _same(io: FileIO) -> FileIO:
    return io


def _named(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options that begin so, by the rest of their names."""
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
