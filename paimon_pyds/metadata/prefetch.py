"""Requests that are sent to a store at once, not one after another, as each takes long whatever its size.

The newest snapshot and schema of a table are guessed: those that this machine has seen last. They are requested
together with the listings that show newer ones, so that a wrong guess costs one round trip and nothing else.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from paimon_pyds.base.cache import TwoLevelCache
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.concurrent import concurrent_each

if TYPE_CHECKING:
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.metadata.store import TableStore

Request: TypeAlias = tuple[str, str]
"""A method of the storage, and the path to call it with."""
_SEEN = struct.Struct("<QQ")


class SentRequests:
    """Requests whose answers were not taken yet, each by the thread that sent it: no operation gets an answer that is
    older than itself."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._sent: dict[tuple[int, Request], Future[Any]] = {}

    @contextmanager
    def sending(self, *wanted: Request) -> Iterator[None]:
        """Send these requests; answers that are not taken within are dropped."""
        thread = threading.get_ident()
        fresh = [request for request in wanted if (thread, request) not in self._sent]
        if not fresh:
            yield
            return
        pool = ThreadPoolExecutor(len(fresh), thread_name_prefix="paimon-requests")
        try:
            for method, path in fresh:
                self._sent[thread, (method, path)] = pool.submit(getattr(self._io, method), path)
            yield
        finally:
            for request in fresh:
                self._sent.pop((thread, request), None)
            pool.shutdown(wait=False)

    def ask(self, method: str, path: str) -> Any:
        """An answer: of the request that was sent, once; then of a new one. Errors are those of the storage."""
        sent = self._sent.pop((threading.get_ident(), (method, path)), None)
        return getattr(self._io, method)(path) if sent is None else sent.result()


class NewestIds(NamedTuple):
    """The newest schema and snapshot that this machine has seen of a branch; 0 stands for no snapshot."""

    schema: int = 0
    snapshot: int = 0


_LAST_SEEN = TwoLevelCache[NewestIds](
    "seen", 1 << 20, lambda seen: _SEEN.pack(*seen), lambda data: NewestIds(*_SEEN.unpack(data)), lambda _: 500,
    may_change=True,
)  # fmt: skip


def last_seen(store: TableStore) -> NewestIds:
    """What this process has seen last, else another one on this machine."""
    return _LAST_SEEN.get(store.io, store.root, store.branch) or NewestIds()


def saw(store: TableStore, seen: NewestIds) -> None:
    """Note what was seen, here and for other processes."""
    if seen != last_seen(store):
        _LAST_SEEN.put(seen, store.io, store.root, store.branch)


def newest(store: TableStore) -> tuple[Request, ...]:
    """The requests that find the newest schema, and the newest snapshot unless a catalog knows it."""
    paths, seen = store.paths, last_seen(store)
    schemas = (("list", paths.schema_dir), ("read_bytes", paths.schema(seen.schema)))
    if store.publisher is not None:
        return schemas
    hint = ("read_bytes", paths.latest_hint)
    return (*schemas, hint, *snapshot_requests(store, seen.snapshot)) if seen.snapshot else (*schemas, hint)


def snapshot_requests(store: TableStore, id_: int) -> tuple[Request, Request]:
    """Those for a snapshot, and whether there is a newer one."""
    return ("read_bytes", store.paths.snapshot(id_)), ("size", store.paths.snapshot(id_ + 1))


def load_lists(store: TableStore, snapshot: Snapshot) -> None:
    """Have all lists that plans of a snapshot begin with given at once. Errors as `TableStore.read_manifest`."""
    calls: list[Callable[[], object]] = [
        partial(store.read_manifest_list, snapshot.base_manifest_list, snapshot.base_manifest_list_size, on_disk=True),
        partial(
            store.read_manifest_list, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, on_disk=True
        ),
    ]
    if snapshot.index_manifest is not None:
        calls.append(partial(store.read_index_manifest, snapshot.index_manifest, on_disk=True))
    concurrent_each(lambda call: call(), calls, len(calls))
