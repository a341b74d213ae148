"""Whether a listing of S3 that is empty, or ends with a page, was all there is.

obstore reads any XML as a list, and one that names nothing as an empty one: the page of a proxy, or an error that a
server sends with status 200. Tags or snapshots would seem to be missing then, and the files that they need would be
removed. So such a listing is requested once more; and where that is empty too, the server has to list an object that is
known to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import obstore
from obstore import exceptions

from paimon_pyds.base.cache import ByteLimitedCache

PAGE = 1000
"""Names of a listing that come at once."""
_KNOWN = ByteLimitedCache(1 << 20, at_random=True)
"""The key of an object that was read or written, by the client's identity and bucket."""
_ENTRY_BYTES = 500
"""Memory of one key in the cache, about."""


class NoListError(Exception):
    """The server answers a listing with something else."""


class Witness:
    """An object of a bucket that is known to be there.

    ``place``: identifies the bucket and the way to it. ``is_there``: whether there is an object of a key.
    """

    def __init__(self, place: object, is_there: Callable[[str], bool]) -> None:
        self._place = place
        self._is_there = is_there

    def seen(self, key: str) -> None:
        """An object was read, or made."""
        _KNOWN.put(self._place, key, _ENTRY_BYTES)

    def listed(self, store: Any) -> str | None:
        """The key, after the server listed objects around it; None where no key is known, or it may not be listed.
        Raises NoListError: the server doesn't list an object that is there."""
        key: str | None = _KNOWN.get(self._place)
        if key is None:
            return None
        with suppress(exceptions.PermissionDeniedError):
            if lists(store, key.rpartition("/")[0], key[:-1]):
                return key
            if self._is_there(key):
                raise NoListError
        _KNOWN.take(self._place)
        return None


def lists(store: Any, prefix: str, after: str = "") -> bool:
    """Whether a store lists anything below a prefix and behind a key."""
    return any(obstore.list(store, f"{prefix}/" if prefix else None, offset=after or None, chunk_size=1))


def is_whole(store: Any, prefix: str, names: Sequence[str], witness: Witness) -> bool:
    """Whether a listing was all there is.

    Args:
        store: a client of S3.
        prefix: a key without its last ``/``, or empty.
        names: the keys of objects; of a directory, a key behind all of its objects.
        witness: an object that the server has to list.

    Raises:
        NoListError: the server answers with something else than lists.
    """
    if len(names) % PAGE:
        return True
    *_, before, last = ["", "", *sorted(names)]
    if lists(store, prefix, last):
        return False
    if not names:
        return not f"/{witness.listed(store) or ''}".startswith(f"/{prefix}/" if prefix else "/?")
    if not lists(store, prefix, before):
        raise NoListError
    return True
