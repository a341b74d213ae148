"""Requests to a Paimon REST catalog: its pages, the types of its answers, and its errors.

(Source: Paimon documentation, concepts/rest/rest-api, and its OpenAPI description.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote_plus

from paimon_pyds.base.json_http import JsonClient, UnansweredError
from paimon_pyds.errors import StorageError

MAX_PAGES = 100_000
_OF_ERRORS = frozenset({"message", "resourceType", "resourceName", "code"})
"""What Paimon's answers that are errors have."""
_T = TypeVar("_T")


class RestClient(JsonClient):
    """Sends requests to one server; see `JsonClient`."""

    catalog = "a Paimon REST catalog"

    def told(self, body: Any) -> tuple[str, str, bool]:
        text, resource = str(body.get("message") or ""), str(body.get("resourceType") or "")
        return text, resource, not _OF_ERRORS.isdisjoint(body)

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
                raise StorageError(
                    f"the catalog's list of {member} does not end", path=self.uri, hint="its server repeats a pageToken"
                )
            seen.add(token)


def segment(name: str) -> str:
    """A part of a path, as Java's URLEncoder writes it."""
    return quote_plus(name, safe="*-._").replace("~", "%7E")
