"""Requests to an Iceberg REST catalog (Apache Iceberg, REST catalog specification; settings: its Java client, classes
RESTSessionCatalog, OAuth2Properties and AwsProperties, by the names that follow ``metadata.iceberg.rest.``)."""

from __future__ import annotations

import base64
import functools
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote

from paimon_pyds.base.json_http import (
    KINDS,
    Authorization,
    JsonClient,
    MissingResourceError,
    Request,
    UnansweredError,
    query_text,
)
from paimon_pyds.base.options.core import ICEBERG_REST
from paimon_pyds.base.options.iceberg import rest_auth
from paimon_pyds.base.secrets import raise_alone
from paimon_pyds.errors import AlreadyExistsError, OptionError, SecurityError, UnsupportedError

_REGISTER = "POST /v1/{prefix}/namespaces/{namespace}/register"
"""What a catalog has among its endpoints if it takes tables that exist."""
_REFRESH_SECONDS = 60.0
"""A token is replaced when it expires within this time."""
_TOKEN_SECONDS = 3600.0
"""For how long a token is good that says nothing of it."""


class IcebergClient(JsonClient):
    """Sends requests to one server; see `JsonClient`."""

    catalog = "an Iceberg REST catalog"
    tries = 3
    kinds = {  # noqa: RUF012 - never changed
        **KINDS,
        406: (UnsupportedError, "does not support this"),
        419: (SecurityError, "says that the token has expired"),
        422: (OptionError, "refused the request"),
    }

    def told(self, body: Any) -> tuple[str, str, bool]:
        error = body["error"]
        if isinstance(error, str):  # of a server of tokens
            return str(body.get("error_description") or error), error, True
        return str(error.get("message") or ""), str(error.get("type") or ""), True

    def misunderstood(self, what: str) -> NoReturn:
        """Raises UnansweredError: an answer lacks something."""
        raise UnansweredError(
            f"the catalog's answer is not Iceberg's: {what} is missing or of another type",
            path=self.uri,
            hint="check that metadata.iceberg.rest.uri is that of an Iceberg REST catalog",
        )


class _Fixed:
    """The same headers for all requests. ``secrets``: what is secret in them."""

    def __init__(self, headers: Mapping[str, str], *secrets: str) -> None:
        self._headers, self._secrets = dict(headers), list(secrets)

    def headers(self, request: Request) -> dict[str, str]:
        return self._headers

    def secrets(self) -> list[str]:
        return self._secrets


class _ClientCredentials:
    """Tokens of OAuth 2, which a server gives for an id and a secret."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        id_, colon, secret = _needed(settings, "credential").partition(":")
        self._secret = secret if colon else id_
        self._fields = {
            "grant_type": "client_credentials",
            **({"client_id": id_} if colon else {}),
            "client_secret": self._secret,
            "scope": settings.get("scope", "catalog"),
            **{name: settings[name] for name in ("audience", "resource") if name in settings},
        }
        where = settings.get("oauth2-server-uri") or f"{settings['uri'].rstrip('/')}/v1/oauth/tokens"
        self._client = IcebergClient(where, _Fixed({}, self._secret), {})
        self._token, self._until = "", 0.0
        self._lock = threading.Lock()

    def headers(self, request: Request) -> dict[str, str]:
        with self._lock:
            if time.monotonic() > self._until:
                answer = self._client.post_form("", self._fields)
                token, lasts = answer.get("access_token"), answer.get("expires_in")
                if not isinstance(token, str):
                    self._client.misunderstood("access_token")
                seconds = float(lasts) if isinstance(lasts, int) else _TOKEN_SECONDS
                self._token, self._until = token, time.monotonic() + seconds - _REFRESH_SECONDS
            return {"Authorization": f"Bearer {self._token}"}

    def secrets(self) -> list[str]:
        return [self._secret, self._token]


class _AwsSignature:
    """Signs requests for catalogs of AWS, such as Glue's."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        import boto3

        self._uri = settings["uri"].rstrip("/")
        self._region = settings.get("rest.signing-region") or _needed(settings, "client.region")
        self._service = settings.get("rest.signing-name", "execute-api")
        self._given = [settings.get(f"rest.{n}") for n in ("access-key-id", "secret-access-key", "session-token")]
        self._session = boto3.Session(*self._given, region_name=self._region)

    def headers(self, request: Request) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        address = self._uri + request.path + query_text(request)
        unsigned = AWSRequest(request.method, address, data=request.body or b"")
        try:
            credentials = self._session.get_credentials()
        except BotoCoreError as error:
            raise_alone(OptionError(f"there are no keys of AWS ({type(error).__name__})"))
        if credentials is None:
            raise OptionError("there are no keys of AWS", hint="set rest.access-key-id, or a profile of AWS")
        SigV4Auth(credentials.get_frozen_credentials(), self._service, self._region).add_auth(unsigned)
        return dict(unsigned.headers)

    def secrets(self) -> list[str]:
        return [secret for secret in self._given[1:] if secret]


def _needed(settings: Mapping[str, str], name: str) -> str:
    """A setting. Raises OptionError: it is not there."""
    if not settings.get(name):
        raise OptionError(
            f"the catalog's authorisation needs {ICEBERG_REST}{name}", hint="give it to each write, options={…}"
        )
    return settings[name]


def _authorization(settings: Mapping[str, str]) -> Authorization:
    match rest_auth(settings):
        case "basic":
            name, password = (_needed(settings, f"rest.auth.basic.{part}") for part in ("username", "password"))
            pair = base64.b64encode(f"{name}:{password}".encode()).decode()
            return _Fixed({"Authorization": f"Basic {pair}"}, pair, password)
        case "oauth2" if settings.get("token"):
            return _Fixed({"Authorization": f"Bearer {settings['token']}"}, settings["token"])
        case "oauth2":
            return _ClientCredentials(settings)
        case "sigv4":
            return _AwsSignature(settings)
    return _Fixed({})


def _client(settings: Mapping[str, str]) -> IcebergClient:
    headers = {key.removeprefix("header."): text for key, text in settings.items() if key.startswith("header.")}
    return IcebergClient(settings["uri"], _authorization(settings), headers)


class IcebergCatalog:
    """A REST catalog of Iceberg. ``settings``: of its client, ``uri`` among them."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        client = _client(settings)
        warehouse = settings.get("warehouse")
        answer = client.get("/v1/config", {"warehouse": warehouse} if warehouse else None)
        defaults, overrides = (answer.get(name) or {} for name in ("defaults", "overrides"))
        endpoints = answer.get("endpoints")
        if not isinstance(defaults, dict) or not isinstance(overrides, dict):
            client.misunderstood("defaults or overrides")
        merged = {key: str(text) for key, text in {**defaults, **settings, **overrides}.items()}
        self._client = client if merged["uri"] == settings["uri"] else _client(merged)
        prefix = merged.get("prefix", "").strip("/")
        self._root = f"/v1/{prefix}" if prefix else "/v1"
        self.registers = not isinstance(endpoints, list) or not endpoints or _REGISTER in endpoints
        """Whether it may have `register`."""

    def load(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The metadata of a table; None where it is missing, or its namespace."""
        try:
            return self._metadata(self._client.get(self._path(namespace, name)))
        except MissingResourceError:
            return None

    def create(self, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a table, and its namespace where that is missing; the table's metadata.
        Raises AlreadyExistsError: another process was faster."""
        path = f"{self._path(namespace)}/tables"
        try:
            return self._metadata(self._client.post(path, body))
        except MissingResourceError:
            try:
                self._client.post(f"{self._root}/namespaces", {"namespace": [namespace], "properties": {}})
            except AlreadyExistsError:
                pass
            return self._metadata(self._client.post(path, body))

    def commit(self, namespace: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Update a table; its metadata then. ``body``: requirements and updates.
        Raises AlreadyExistsError: a requirement does not hold."""
        return self._metadata(self._client.post(self._path(namespace, name), body))

    def register(self, namespace: str, name: str, location: str) -> dict[str, Any]:
        """Make a metadata file a table. Raises AlreadyExistsError: there is a table of this name."""
        body = {"name": name, "metadata-location": location}
        return self._metadata(self._client.post(f"{self._path(namespace)}/register", body))

    def drop(self, namespace: str, name: str) -> None:
        """Take a table out of the catalog; its files stay."""
        try:
            self._client.delete(self._path(namespace, name), {"purgeRequested": "false"})
        except MissingResourceError:
            pass

    def _path(self, namespace: str, name: str | None = None) -> str:
        path = f"{self._root}/namespaces/{quote(namespace, safe='')}"
        return path if name is None else f"{path}/tables/{quote(name, safe='')}"

    def _metadata(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        found = answer.get("metadata")
        if not isinstance(found, dict):
            self._client.misunderstood("metadata")
        for name, type_ in (("table-uuid", str), ("schemas", list), ("last-column-id", int)):
            if not isinstance(found.get(name), type_):
                self._client.misunderstood(name)
        return found


@functools.lru_cache(maxsize=8)
def _known_catalog(settings: tuple[tuple[str, str], ...]) -> IcebergCatalog:
    return IcebergCatalog(dict(settings))


def catalog_of(settings: Mapping[str, str]) -> IcebergCatalog:
    """The catalog of some settings; a process reads its own settings once."""
    return _known_catalog(tuple(sorted(settings.items())))
