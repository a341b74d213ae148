"""Requests to a REST catalog: JSON over HTTP, with timeouts, retries, pages, and its errors as ours.

(Source: Paimon documentation, concepts/rest/rest-api, and its OpenAPI description.)
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException, InvalidURL
from typing import Any, TypeVar
from urllib.parse import quote_plus, urlencode

from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import counted, raise_alone, redact, visible
from paimon_pyds.catalog.rest_auth import Authorization, Request
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
MAX_PAGES = 100_000
_BUSY = (429, 503)
_OF_ERRORS = frozenset({"message", "resourceType", "resourceName", "code"})
"""What Paimon's answers that are errors have."""
_T = TypeVar("_T")
_KINDS: Mapping[int, tuple[type[PaimonError], str]] = {
    400: (OptionError, "refused the request"),
    401: (SecurityError, "does not accept the token or signature"),
    403: (SecurityError, "forbids this"),
    404: (NotFoundError, "has no such thing"),
    409: (AlreadyExistsError, "has such a thing already"),
    501: (UnsupportedError, "does not support this"),
}
_HINTS = {401: "check the token and its expiry", 403: "request the permission"}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class UnansweredError(StorageError):
    """The outcome of a request is unknown: no answer came, or not one of a Paimon catalog.

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


class RestClient:
    """Sends requests to one server.

    ``uri``: its address; ``http://`` where no scheme is given. ``authorization``: of all requests. ``headers``: more
    headers of all requests.
    """

    def __init__(self, uri: str, authorization: Authorization, headers: Mapping[str, str]) -> None:
        uri = uri.strip().rstrip("/")
        self.uri = uri if uri.lower().startswith(("http://", "https://")) else f"http://{uri}"
        self.headers = dict(headers)
        self._authorization = authorization

    def __repr__(self) -> str:
        return f"RestClient({redact(self.uri)!r})"

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The answer to a GET, which is sent again where the server is busy or the connection fails.
        Raises MissingResourceError, SecurityError, UnsupportedError, StorageError: by the status."""
        return self._send(Request("GET", path, query or {}), again=True)

    def post(self, path: str, body: Mapping[str, Any], tries: int = MOST_TRIES) -> dict[str, Any]:
        """The answer to a POST, which is sent again only where the server says that it is busy.

        ``path``: of the resource. ``body``: the JSON object that is sent. ``tries``: how often it is sent at most.
        Raises OptionError, AlreadyExistsError: the server refuses it; UnansweredError: the server may have done it.
        """
        return self._send(Request("POST", path, {}, json.dumps(body).encode()), again=False, tries=tries)

    def delete(self, path: str) -> None:
        """DELETE, which is sent again as a GET is; what is gone by then was deleted by an earlier try."""
        self._send(Request("DELETE", path, {}), again=True)

    def member(self, answer: Mapping[str, Any], name: str, type_: type[_T]) -> _T | None:
        """A member of an answer; None where it is missing. Raises UnansweredError for another type."""
        found = answer.get(name)
        if found is None or isinstance(found, type_):
            return found
        raise self._misunderstood(name)

    def texts(self, answer: Mapping[str, Any], name: str) -> dict[str, str]:
        """A member that is a map, its values as texts, without NULLs. Otherwise as `member`."""
        return {k: str(value) for k, value in (self.member(answer, name, dict) or {}).items() if value is not None}

    def _misunderstood(self, name: str) -> UnansweredError:
        return UnansweredError(
            f"the catalog's answer is not Paimon's: {name} is missing or of another type",
            path=self.uri,
            hint="check that the uri is that of a Paimon REST catalog",
        )

    def pages(self, path: str, member: str) -> Iterator[str]:
        """The names of a list that comes in pages."""
        token: str | None = None
        seen: set[str] = set()
        while True:
            answer = self.get(path, {"pageToken": token} if token else None)
            found = self.member(answer, member, list) or []
            if not all(isinstance(name, str) for name in found):
                raise self._misunderstood(member)
            yield from found
            token = self.member(answer, "nextPageToken", str)
            if not token or not found:
                return
            if token in seen or len(seen) == MAX_PAGES:
                raise StorageError(f"the catalog's pages of {member} have no end", path=self.uri)
            seen.add(token)

    def _send(self, request: Request, *, again: bool, tries: int = MOST_TRIES) -> dict[str, Any]:
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
                reason, waited = f"did not answer a {request.method} ({self._clean(error)})", time.monotonic() - begin
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
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {**self.headers, "Accept": "application/json", **self._authorization.headers(request)}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
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
            body = json.loads(_body(error, _ERROR_BYTES))
            text, resource = str(body.get("message") or ""), str(body.get("resourceType") or "")
            known = not _OF_ERRORS.isdisjoint(body)
        except (OSError, HTTPException, ValueError, AttributeError, RecursionError):
            text = resource = ""
            known = False
        kind, what = _KINDS.get(error.code, (UnansweredError, f"failed with status {error.code}"))
        said = (f": {self._clean(text)[:500]}" if text else "") + more
        hint = _HINTS.get(error.code)
        if 300 <= error.code < 400:
            kind, what, hint = StorageError, "sends requests to another address", "give that address as the uri"
        if kind is NotFoundError and not known:
            return NoSuchRequestError(
                "the server answered with status 404, and not as a Paimon catalog does" + more,
                path=self.uri,
                hint="check that the uri is that of a Paimon REST catalog; a gateway may stand before it",
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


def segment(name: str) -> str:
    """A part of a path, as Java's URLEncoder writes it."""
    return quote_plus(name, safe="*-._").replace("~", "%7E")


def _seconds(retry_after: str | None) -> float | None:
    return min(float(retry_after), _PAUSES.longest) if retry_after and retry_after.isdecimal() else None
