"""Consumers: streaming readers with stored progress. ``consumer/consumer-ID`` is a JSON object; its ``nextSnapshot`` is
the first snapshot that the reader still needs.

Numbers of snapshots come again after a rollback. So ``previousSnapshot``, a member of this package alone, identifies
the snapshot before the next: without it, a reader would leave out the new snapshots of numbers that it has read.

Source: Java Paimon 1.4, classes Consumer and ConsumerManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.store import TableStore

_NEXT, _PREVIOUS = _KNOWN = "nextSnapshot", "previousSnapshot"
_ID, _IDENTITY = "id", "deltaManifestList"
_RETAINED = ".retained"


class Consumer(NamedTuple):
    """The stored progress of a streaming reader.

    Attributes:
        next: the number of the snapshot that it reads next.
        previous: identifies the snapshot before that one (`position.snapshot_identity`), as it was read; empty where
            that is not known.
        others: the members of its file that this version does not know.
    """

    next: int
    previous: str = ""
    others: Mapping[str, Any] = {}


def consumers(store: TableStore) -> dict[str, int]:
    """The number of the snapshot that each streaming reader of a branch reads next, by its id.

    Raises CorruptFileError for a file that does not say it.
    """
    found = {}
    for id_ in consumer_names(store):
        with suppress(FileNotFoundError):  # removed since it was listed
            found[id_] = consumer_position(store, id_)
    return found


def consumer_names(store: TableStore) -> list[str]:
    """The ids of the streaming readers of a branch, also of those whose files are damaged."""
    files = (status.name for status in store.io.list(store.paths.consumer_dir) if not status.is_dir)
    return sorted(name.removeprefix("consumer-") for name in files if name.startswith("consumer-"))


def consumer_position(store: TableStore, id_: str) -> int:
    """The snapshot that a streaming reader reads next. Raises FileNotFoundError; CorruptFileError for a file that does
    not say it."""
    return store.parse_file(store.paths.consumer(id_), lambda data, path: JsonObject(data, path).integer(_NEXT))


def read_consumer(store: TableStore, id_: str) -> Consumer:
    """The progress of a streaming reader, by one look at its file: another writer may move it. Raises as
    `consumer_position`."""

    def parse(data: bytes, path: str) -> Consumer:
        found = JsonObject(data, path)
        next_, previous = found.integer(_NEXT), found.object_or_none(_PREVIOUS) or {}
        # Another writer may have moved the reader, and left this member as it was.
        identity = str(previous.get(_IDENTITY, "")) if previous.get(_ID) == next_ - 1 else ""
        return Consumer(next_, identity, found.others(_KNOWN))

    return store.parse_file(store.paths.consumer(id_), parse)


def consumer_others(store: TableStore, id_: str) -> Mapping[str, Any]:
    """The members of a reader's file that this version does not know; none where the file is absent or damaged."""
    with suppress(FileNotFoundError, CorruptFileError):
        return store.parse_file(store.paths.consumer(id_), lambda data, at: JsonObject(data, at).others(_KNOWN))
    return {}


def write_consumer(store: TableStore, id_: str, consumer: Consumer) -> None:
    """Store the progress of a streaming reader."""
    next_, previous, others = consumer
    before = {_PREVIOUS: {_ID: next_ - 1, _IDENTITY: previous}} if previous else {}
    content = to_java_json({_NEXT: next_, **before, **others})
    store.io.replace(store.paths.consumer(id_), content.encode())


def retaining_consumer(id_: str) -> str:
    """The id of the second consumer of a streaming reader, by which it keeps a snapshot before the next one."""
    return f"{id_}{_RETAINED}"


def consumer_owner(id_: str) -> str:
    """The streaming reader that a consumer is of."""
    return id_.removesuffix(_RETAINED)


def forget_consumer(store: TableStore, id_: str) -> None:
    """Forget a streaming reader, and the consumer that retains what it needs."""
    store.io.delete([store.paths.consumer(name) for name in (id_, retaining_consumer(id_))])
