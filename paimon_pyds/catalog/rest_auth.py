"""How requests to a REST catalog are authorised: bearer tokens and signatures of Alibaba's DLF.

(Sources: Paimon documentation, concepts/rest/bear and concepts/rest/dlf; Java Paimon 1.4, classes DLFAuthProvider,
DLFOpenApiSigner and DLFECSTokenLoader.)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus
from uuid import uuid4

from paimon_pyds.base.json_http import Authorization, Request
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, redact, scrubbed
from paimon_pyds.errors import OptionError, UnsupportedError

REFRESH_BEFORE_MS = 3_600_000
"""Tokens are replaced when they expire within this time."""
_ALGORITHM = "DLF4-HMAC-SHA256"
_SERVICE = ("DlfNext", "aliyun_v4_request")
_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_READ_AGAIN = Pauses(0.1, 1.0, factor=5.0)
_METADATA = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"
"""Where machines of Alibaba's get the keys of their roles."""
_METADATA_SECONDS, _METADATA_BYTES = 3, 1 << 16
_FAULTS = (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError)
"""What reading a key raises where none is, or something else."""


class Bearer:
    """The option ``token``, sent with each request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(self, request: Request) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def secrets(self) -> list[str]:
        return [self._token]


@dataclass(frozen=True, slots=True)
class Key:
    """An access key. ``expires_ms``: until then it is good; forever by default."""

    id: str
    secret: str
    security_token: str | None
    expires_ms: float = float("inf")


class Signature(ABC):
    """Signs each request with an access key.

    ``key``: the key, or what reads it, again before it expires.
    """

    def __init__(self, key: Key | Callable[[], Key]) -> None:
        self._key = key if isinstance(key, Key) else None
        self._read = None if isinstance(key, Key) else key
        self._lock = threading.Lock()

    def secrets(self) -> list[str]:
        key = self._key
        return [] if key is None else [key.secret, *([key.security_token] if key.security_token else [])]

    def headers(self, request: Request) -> dict[str, str]:
        return self.signed(request, datetime.now(UTC))

    @abstractmethod
    def signed(self, request: Request, now: datetime) -> dict[str, str]:
        """The headers of a request that is sent at a time, which is in UTC."""

    def _fresh_key(self) -> Key:
        with self._lock:
            key = self._key
            if key is None or (self._read and key.expires_ms - time.time() * 1000 < REFRESH_BEFORE_MS):
                assert self._read is not None
                key = self._key = self._read()
            return key


class DlfSignature(Signature):
    """Of requests to DLF's endpoints in networks of Alibaba's. ``region``: of the endpoint."""

    def __init__(self, region: str, key: Key | Callable[[], Key]) -> None:
        super().__init__(key)
        self._region = region

    def signed(self, request: Request, now: datetime) -> dict[str, str]:
        key = self._fresh_key()
        headers = {
            "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
            "x-dlf-content-sha256": "UNSIGNED-PAYLOAD",
            "x-dlf-version": "v1",
        }
        headers |= _of_body(request)
        if key.security_token:
            headers["x-dlf-security-token"] = key.security_token
        query = "&".join(k + (f"={v.strip()}" if v else "") for k, v in sorted(request.query.items()))
        lines = sorted(f"{name.lower()}:{value.strip()}" for name, value in headers.items())
        canonical = "\n".join([request.method, request.path, query, *lines, "UNSIGNED-PAYLOAD"])
        scope = (headers["x-dlf-date"][:8], self._region, *_SERVICE)
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join([_ALGORITHM, headers["x-dlf-date"], "/".join(scope), digest])
        secret = f"aliyun_v4{key.secret}".encode()
        for part in (*scope, text):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        credential = "/".join((key.id, *scope))
        return headers | {"Authorization": f"{_ALGORITHM} Credential={credential},Signature={secret.hex()}"}


class OpenApiSignature(Signature):
    """Of requests to DLF's public endpoints, as to those of Alibaba's other services."""

    def signed(self, request: Request, now: datetime) -> dict[str, str]:
        key = self._fresh_key()
        plain = {"Accept": "application/json", "Content-MD5": "", "Content-Type": "", **_of_body(request)}
        plain["Date"] = format_datetime(now, usegmt=True)
        own = {
            "x-acs-signature-method": "HMAC-SHA1",
            "x-acs-signature-nonce": str(uuid4()),
            "x-acs-signature-version": "1.0",
            "x-acs-version": "2026-01-18",
        }
        if key.security_token:
            own["x-acs-security-token"] = key.security_token.strip()
        query = "&".join(k + (f"={v}" if v else "") for k, v in sorted(request.query.items()))
        resource = unquote_plus(request.path) + (f"?{query}" if query else "")
        lines = (f"{name}:{value}" for name, value in sorted(own.items()))
        text = "\n".join([request.method, *plain.values(), *lines, resource])
        signature = base64.b64encode(hmac.digest(key.secret.encode(), text.encode(), "sha1")).decode()
        sent = {name: value for name, value in plain.items() if value}
        return {**sent, **own, "Authorization": f"acs {key.id}:{signature}"}


def _of_body(request: Request) -> dict[str, str]:
    """The headers that say what a body is."""
    if not request.body:
        return {}
    digest = base64.b64encode(hashlib.md5(request.body).digest()).decode()
    return {"Content-MD5": digest, "Content-Type": "application/json"}


def key_of_file(path: str) -> Key:
    """The key in a file, which may be half written: it is read again before giving up. Raises OptionError."""
    try:
        return Retry(_READ_AGAIN, attempts=4).call(lambda: _parsed_key(json.loads(Path(path).read_bytes())), *_FAULTS)
    except _FAULTS as error:
        fault = OptionError(
            f"the token file of the option dlf.token-path can't be read ({type(error).__name__})",
            path=path,
            hint="it is JSON with AccessKeyId, AccessKeySecret, SecurityToken and Expiration",
        )
        raise_alone(fault, scrubbed(error) if isinstance(error, OSError) else None)


def key_of_machine(address: str, role: str | None) -> Key:
    """The key of a role of this machine. Raises OptionError.

    ``address``: of the service that gives it, with a slash at its end. ``role``: None for the machine's only one.
    """
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def got(name: str) -> bytes:
        with straight.open(f"{address}{name}", timeout=_METADATA_SECONDS) as answer:
            return bytes(answer.read(_METADATA_BYTES))

    def read() -> Key:
        return _parsed_key(json.loads(got(role or got("").decode().strip())))

    try:
        return Retry(_READ_AGAIN, attempts=3).call(read, *_FAULTS)
    except _FAULTS as error:
        fault = OptionError(
            f"this machine gives no key of a role ({type(error).__name__})",
            path=redact(address),
            hint="dlf.token-loader=ecs is for Alibaba's machines that have a role; else give dlf.token-path or a key",
        )
        raise_alone(fault)


def _parsed_key(values: Any) -> Key:
    expires = values.get("Expiration")
    until = float("inf")
    if expires is not None:
        until = datetime.strptime(expires, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() * 1000
    return Key(str(values["AccessKeyId"]), str(values["AccessKeySecret"]), values.get("SecurityToken"), until)


def authorization_of(options: Mapping[str, str]) -> Authorization:
    """The authentication that the options of a REST catalog name.

    Raises:
        OptionError: something is missing.
        UnsupportedError: a provider, an algorithm or a token loader that is not supported.
    """
    provider = options.get("token.provider", "bear" if "token" in options else "").strip().lower()
    if provider == "bear":
        if not options.get("token"):
            raise OptionError("token.provider=bear needs the option token")
        return Bearer(options["token"])
    if provider == "":
        raise OptionError("a REST catalog needs the option token, or token.provider=dlf with dlf.token-path or a key")
    if provider != "dlf":
        raise UnsupportedError(f"token.provider={provider:.40} is not supported", hint="bear and dlf are")
    uri = options.get("uri", "")
    algorithm = options.get("dlf.signing-algorithm", "openapi" if "dlfnext" in uri.lower() else "default")
    if algorithm == "openapi":
        return OpenApiSignature(_key_of(options))
    if algorithm != "default":
        raise UnsupportedError(
            f"dlf.signing-algorithm={algorithm:.40} is not supported", hint="default and openapi are"
        )
    region = options.get("dlf.region") or ((found := _REGION.search(uri)) and found[1])
    if not region:
        raise OptionError(
            "token.provider=dlf signs requests for a region, which the address does not contain",
            hint="give the option dlf.region",
        )
    return DlfSignature(region, _key_of(options))


def _key_of(options: Mapping[str, str]) -> Key | Callable[[], Key]:
    """The key that the options have, or what reads the one that they name."""
    path, id_, secret = (options.get(f"dlf.{n}") for n in ("token-path", "access-key-id", "access-key-secret"))
    loader = options.get("dlf.token-loader", "" if path is None else "local_file")
    if loader == "ecs":
        address = options.get("dlf.token-ecs-metadata-url", _METADATA)
        return partial(key_of_machine, f"{address.rstrip('/')}/", options.get("dlf.token-ecs-role-name"))
    if loader not in ("", "local_file"):
        raise UnsupportedError(f"dlf.token-loader={loader:.40} is not supported", hint="local_file and ecs are")
    if loader and path is not None:
        return partial(key_of_file, path)
    if loader or not id_ or not secret:
        raise OptionError(
            "token.provider=dlf needs dlf.token-path, or dlf.access-key-id and dlf.access-key-secret",
            hint="or dlf.token-loader=ecs, on a machine of Alibaba's that has a role",
        )
    return Key(id_, secret, options.get("dlf.security-token"))
