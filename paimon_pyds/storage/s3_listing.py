"""A second look at listings of S3 that end where one may have been cut short.

obstore reads any XML as a list, and one that names nothing as an empty one: the page of a proxy, or an error that a
server sends with status 200. Tags or snapshots would not be there then, and what they need would be removed. So what
the server answers is looked at as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from obstore import exceptions

from paimon_pyds.storage.store_clients import listing_address

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BUSY = (429, 500, 502, 503, 504)
"""Status codes of a busy or failing server; other errors mean that signed addresses are refused."""
_MAX_BYTES = 1 << 20
"""Bytes of a response that are read."""


class NoListError(Exception):
    """The server answered a listing with something else; the text says with what."""


def names_more(store: Any, prefix: str, after: str, seconds: float) -> bool:
    """Whether a store names anything directly below a prefix, and behind a name.

    False, too, if the store does not accept signed addresses.

    Args:
        store: a client of S3.
        prefix: ends with ``/``, or is empty.
        after: a key; empty for all.
        seconds: how long to wait.

    Raises:
        NoListError: the answer is no list.
    """
    import urllib.error  # these cost each process that plans a table in a store, and few of them list nothing
    import urllib.request
    from http.client import HTTPException
    from xml.etree import ElementTree

    try:
        address = listing_address(store, prefix, after)
        with urllib.request.urlopen(address, timeout=seconds) as response:
            data = response.read(_MAX_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _BUSY:
                raise NoListError(f"status {error.code}") from None
        return False
    except (exceptions.BaseError, OSError, ValueError, HTTPException):
        return False
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        raise NoListError("no XML") from None
    if _tag(root) != "ListBucketResult":
        code = next((part.text for part in root if _tag(part) == "Code"), None)
        raise NoListError(f"<{_tag(root):.40}>" + (f" of code {code:.40}" if code else ""))
    own = list(root)
    names = [part.text or "" for part in root.iter() if _tag(part) in ("Key", "Prefix") and part not in own]
    return any(name.removeprefix(prefix).strip("/") for name in names)  # what no file is called is no name


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]
