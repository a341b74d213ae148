"""How requests to a REST catalog are authorised: bearer tokens and signatures of Alibaba's DLF.

(Sources: Paimon documentation, concepts/rest/bear and concepts/rest/dlf; Java Paimon 1.4, class DLFAuthProvider.)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paimon_pyds.base.json_http import Authorization, Request
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import OptionError, UnsupportedError

REFRESH_BEFORE_MS = 3_600_000
"""Tokens are replaced when they expire within this time."""
_ALGORITHM = "DLF4-HMAC-SHA256"
_SERVICE = ("DlfNext", "aliyun_v4_request")
_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_READ_AGAIN = Pauses(0.1, 1.0, factor=5.0)


class Bearer:
    """The option ``token``, sent with each request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(self, request: Request) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def secrets(self) -> list[str]:
        return [self._token]


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    secret: str
    security_token: str | None
    expires_ms: float


class DlfSignature:
    """Signs each request with an access key, of the options or of a file that somebody keeps fresh.

    ``region``: of the endpoint. ``key``: ``dlf.access-key-id``, ``dlf.access-key-secret`` and ``dlf.security-token``;
    None where a file has them. ``token_path``: the file, which is JSON.
    """

    def __init__(self, region: str, key: tuple[str, str, str | None] | None, token_path: str | None) -> None:
        self._region = region
        self._key = None if key is None else _Key(*key, expires_ms=float("inf"))
        self._token_path = token_path
        self._lock = threading.Lock()

    def secrets(self) -> list[str]:
        key = self._key
        return [] if key is None else [key.secret, *([key.security_token] if key.security_token else [])]

    def headers(self, request: Request) -> dict[str, str]:
        return self.signed(request, datetime.now(UTC))

    def signed(self, request: Request, now: datetime) -> dict[str, str]:
        """The headers of a request that is sent at a time, which is in UTC."""
        key = self._fresh_key()
        headers = {
            "x-dlf-date": now.strftime("%Y%m%dT%H%M%SZ"),
            "x-dlf-content-sha256": "UNSIGNED-PAYLOAD",
            "x-dlf-version": "v1",
        }
        if request.body:
            headers["Content-Type"] = "application/json"
            headers["Content-MD5"] = base64.b64encode(hashlib.md5(request.body).digest()).decode()
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

    def _fresh_key(self) -> _Key:
        with self._lock:
            key = self._key
            if key is None or key.expires_ms - time.time() * 1000 < REFRESH_BEFORE_MS:
                key = self._key = self._read_key()
            return key

    def _read_key(self) -> _Key:
        """The key in the token file, which may be half written: it is read again before giving up."""
        faults = (OSError, ValueError, KeyError, TypeError, AttributeError)
        path = Path(self._token_path or "")
        try:
            return Retry(_READ_AGAIN, attempts=4).call(lambda: _parsed_key(json.loads(path.read_bytes())), *faults)
        except faults as error:
            fault = OptionError(
                f"the token file of the option dlf.token-path can't be read ({type(error).__name__})",
                path=self._token_path,
                hint="it is JSON with AccessKeyId, AccessKeySecret, SecurityToken and Expiration",
            )
            raise_alone(fault, scrubbed(error) if isinstance(error, OSError) else None)


def _parsed_key(values: Any) -> _Key:
    expires = values.get("Expiration")
    until = float("inf")
    if expires is not None:
        until = datetime.strptime(expires, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() * 1000
    return _Key(str(values["AccessKeyId"]), str(values["AccessKeySecret"]), values.get("SecurityToken"), until)


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
    if options.get("dlf.signing-algorithm", "openapi" if "dlfnext" in uri.lower() else "default") != "default":
        raise UnsupportedError("the DLF signing algorithm openapi is not supported", hint="use a VPC endpoint of DLF")
    if options.get("dlf.token-loader", "local_file") != "local_file":
        raise UnsupportedError("only the dlf.token-loader local_file is supported", hint="give dlf.token-path")
    region = options.get("dlf.region") or ((found := _REGION.search(uri)) and found[1])
    if not region:
        raise OptionError("the address does not contain the region", hint="give the option dlf.region")
    path, id_, secret = (options.get(f"dlf.{n}") for n in ("token-path", "access-key-id", "access-key-secret"))
    if path is None and (not id_ or not secret):
        raise OptionError("token.provider=dlf needs dlf.token-path, or dlf.access-key-id and dlf.access-key-secret")
    key = None if path is not None or not id_ or not secret else (id_, secret, options.get("dlf.security-token"))
    return DlfSignature(region, key, path)
