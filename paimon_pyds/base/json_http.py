"""Requests to a catalog on a server: JSON over HTTP, with timeouts and retries, and its errors as ours.

Secrets show in no error: texts of the server and of libraries are shown without them.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, InvalidURL
from typing import Any, ClassVar, Protocol
from urllib.parse import quote, urlencode

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import counted, raise_alone, redact, visible
from paimon_pyds.errors import (
    AlreadyExistsError,
    NotFoundError,
    OptionError,
    PaimonError,
    SecurityError,
    StorageError,
    UnsupportedError,
)

_log = logging.getLogger("paimon_pyds.catalog")
_TIMEOUT_SECONDS = 60
_UNANSWERED_SECONDS = 80
"""After which a request is not sent again to a server that does not answer: a silent one gets two requests."""
MOST_TRIES = 6
_PAUSES = Pauses(0.5, 30.0, jitter=0.5)
MAX_ANSWER_SECONDS = 120.0
_MAX_BYTES = 256 << 20
_ERROR_BYTES = 1 << 16
_BUSY = (429, 503)
KINDS: Mapping[int, tuple[type[PaimonError], str]] = {
    400: (OptionError, "refused the request"),
    401: (SecurityError, "does not accept the token or signature"),
    403: (SecurityError, "forbids this"),
    404: (NotFoundError, "has no such thing"),
    409: (AlreadyExistsError, "has such a thing already"),
    501: (UnsupportedError, "does not support this"),
}
"""Our error for each status, and what the catalog does."""
_HINTS = {
    401: "check the token and its expiry; of a signature the key, the region, and the clock of this machine",
    403: "request the permission",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a signature covers: the method, the encoded path, the query as it was before encoding, and the body."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"


class Authorization(Protocol):
    """Gives requests their headers of authorisation."""

    def headers(self, request: Request) -> dict[str, str]:
        """The headers of one request. Raises OptionError when a token can't be had."""

    def secrets(self) -> list[str]:
        """The secrets that errors must not show."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class UnansweredError(StorageError):
    """The outcome of a request is unknown: no answer came, or not one of such a catalog.

    ``busy``: it said that it has too much to do. ``pause``: for how many seconds, where it said so.
    """

    busy = False
    pause: float | None = None


class NoSuchRequestError(UnansweredError):
    """The server does not know the address: it is older than the request, or no catalog. It says of nothing in a
    catalog that it is missing."""


class MissingResourceError(NotFoundError):
    """Something is not there; ``resource`` says of what type, such as ``SNAPSHOT``, or is empty. ``repeated``: an
    earlier try may have had it."""

    resource = ""
    repeated = False


class JsonClient:
    """Sends requests to one server, and takes its answers as a kind of catalog gives them.

    ``uri``: its address; ``http://`` where no scheme is given. ``authorization``: of all requests. ``headers``: more
    headers of all requests.
    """

    catalog: ClassVar[str] = "a catalog"
    """What the server should be, as errors name it."""
    kinds: ClassVar[Mapping[int, tuple[type[PaimonError], str]]] = KINDS
    tries: ClassVar[int] = MOST_TRIES
    """How often a request is sent at most."""

    def __init__(self, uri: str, authorization: Authorization, headers: Mapping[str, str]) -> None:
        uri = uri.strip().rstrip("/")
        self.uri = uri if uri.lower().startswith(("http://", "https://")) else f"http://{uri}"
        self.headers = dict(headers)
        self._authorization = authorization

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact(self.uri)!r})"

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The answer to a GET, which is sent again where the server is busy or the connection fails.
        Raises MissingResourceError, SecurityError, UnsupportedError, StorageError: by the status."""
        return self._send(Request("GET", path, query or {}), again=True)

    def post(self, path: str, body: Mapping[str, Any], tries: int | None = None) -> dict[str, Any]:
        """The answer to a POST, which is sent again only where the server says that it is busy.

        ``path``: of the resource. ``body``: the JSON object that is sent. ``tries``: how often at most.
        Raises OptionError, AlreadyExistsError: the server refuses it; UnansweredError: the server may have done it.
        """
        return self._send(Request("POST", path, {}, json.dumps(body).encode()), again=False, tries=tries)

    def post_form(self, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a POST of a form, which is sent again as a GET is. Raises as `post`."""
        body, form = urlencode(fields).encode(), "application/x-www-form-urlencoded"
        return self._send(Request("POST", path, {}, body, form), again=True)

    def delete(self, path: str, query: Mapping[str, str] | None = None) -> None:
        """DELETE, which is sent again as a GET is; what is gone by then was deleted by an earlier try."""
        self._send(Request("DELETE", path, query or {}), again=True)

    def told(self, body: Any) -> tuple[str, str, bool]:
        """What an answer says that is an error: its text, the type of what it is about, and whether a catalog of this
        kind says so. ``body``: parsed JSON; what is raised for another form counts as an answer of something else."""
        raise NotImplementedError

    def _send(self, request: Request, *, again: bool, tries: int | None = None) -> dict[str, Any]:
        tries = tries or self.tries
        unanswered, begin = False, time.monotonic()
        retry = Retry(_PAUSES, tries, _UNANSWERED_SECONDS)
        while True:
            try:
                return self._once(request, retry.began + _UNANSWERED_SECONDS)
            except urllib.error.HTTPError as error:
                with error:
                    if unanswered and request.method == "DELETE" and error.code == 404:
                        return {}
                    if error.code not in _BUSY or retry.count == tries:
                        repeated = unanswered and error.code in (404, 409)
                        raise_alone(self._error(error, "; an earlier try may have done it" if repeated else ""))
                    unanswered, pause = True, _seconds(error.headers.get("Retry-After"))
                    retry.began, reason = time.monotonic(), f"is busy (status {error.code})"
            except (OSError, HTTPException) as error:
                reason, waited = (
                    f"did not answer a {request.method} ({self._clean(_said(error))})",
                    time.monotonic() - begin,
                )
                if not again or retry.exhausted:
                    fault = UnansweredError(
                        f"the catalog {reason}: {counted(retry.count, 'try', 'tries')} in {waited:.0f} s",
                        path=self.uri,
                        hint="check the address and the network"
                        + ("" if again else ", and whether it was done, before you do it again"),
                    )
                    raise_alone(fault)
                unanswered, pause = True, None
            pause = _PAUSES.after(retry.count) if pause is None else pause
            _log.warning(
                "the catalog %s: try %d of at most %d in %.1f s (%s)", visible(reason), retry.count + 1, tries, pause,
                redact(self.uri),
            )  # fmt: skip
            retry.next(pause)

    def _once(self, request: Request, until: float) -> dict[str, Any]:
        query = query_text(request)
        headers = {**self.headers, "Accept": "application/json", **self._authorization.headers(request)}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            sent = urllib.request.Request(
                self.uri + request.path + query, request.body, headers=headers, method=request.method
            )
            response = _OPENER.open(sent, timeout=min(_TIMEOUT_SECONDS, max(until - time.monotonic(), 1)))
        except (ValueError, InvalidURL):  # their texts hold the token
            fault = OptionError(
                "the request can't be sent: the uri, the token or a header has a character that is not allowed there",
                path=self.uri,
                hint="look for a line break at the end of the token",
            )
            raise_alone(fault)
        with response:
            data = _body(response)
        if not data.strip():
            return {}
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise HTTPException("the answer is no JSON object")
        return answer

    def _error(self, error: urllib.error.HTTPError, more: str) -> PaimonError:
        """Our error for an answer that is one; of the server's text nothing is shown that may be a secret."""
        try:
            text, resource, known = self.told(json.loads(_body(error, _ERROR_BYTES)))
        except (OSError, HTTPException, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            text = resource = ""
            known = False
        kind, what = self.kinds.get(error.code, (UnansweredError, f"failed with status {error.code}"))
        said = (f": {self._clean(text)[:500]}" if text else "") + more
        hint = _HINTS.get(error.code)
        if 300 <= error.code < 400:
            kind, what, hint = StorageError, "sends requests to another address", "give that address as the uri"
        if kind is NotFoundError and not known:
            return NoSuchRequestError(
                f"the server answered with status 404, and not as {self.catalog} does" + more,
                path=self.uri,
                hint=f"check the warehouse, and that the uri is that of {self.catalog}; a gateway may stand before it",
            )
        if kind is NotFoundError:
            missing = MissingResourceError(f"the catalog {what}{said}", path=self.uri)
            missing.resource, missing.repeated = resource, bool(more)
            return missing
        fault = kind(f"the catalog {what}{said}", path=self.uri, hint=hint)
        if isinstance(fault, UnansweredError):
            fault.busy, fault.pause = error.code in _BUSY, _seconds(error.headers.get("Retry-After"))
        return fault

    def _clean(self, text: object) -> str:
        return redact(str(text), [*self._authorization.secrets(), *self.headers.values()])


def _said(error: BaseException) -> object:
    """The words of an error alone: without urllib's frame and the system's number."""
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or reason


def query_text(request: Request) -> str:
    """The query as an address has it, blanks as %20: signatures of AWS are over this form."""
    return f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""


def _body(response: Any, most: int = _MAX_BYTES) -> bytes:
    """The body of a response of urllib, or of its HTTPError. Raises OSError: it is too long, or comes too slowly."""
    until, parts, size = time.monotonic() + MAX_ANSWER_SECONDS, [], 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > most:
            raise OSError(f"the answer is longer than {most} bytes")
        if time.monotonic() > until:
            raise TimeoutError(f"the answer takes longer than {MAX_ANSWER_SECONDS:g} seconds")
    return b"".join(parts)


def _seconds(retry_after: str | None) -> float | None:
    return min(float(retry_after), _PAUSES.longest) if retry_after and retry_after.isdecimal() else None
