"""Consumers: streaming readers with stored progress. ``consumer/consumer-ID`` is a JSON object; its ``nextSnapshot`` is
the first snapshot that the reader still needs.

Numbers of snapshots come again after a rollback. So ``previousSnapshot``, a member of this package alone, identifies
the snapshot before the next: without it, a reader would leave out the new snapshots of numbers that it has read.

Source: Java Paimon 1.4, classes Consumer and ConsumerManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.store import TableStore

_NEXT, _PREVIOUS = "nextSnapshot", "previousSnapshot"
_ID, _IDENTITY = "id", "deltaManifestList"
_RETAINED = ".retained"


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


def consumer_previous(store: TableStore, id_: str) -> str:
    """What identifies the snapshot before the next one of a streaming reader (`position.snapshot_identity`), as it was
    read; empty where that is not known. Raises as `consumer_position`."""

    def parse(data: bytes, path: str) -> str:
        found = JsonObject(data, path)
        previous = found.object_or_none(_PREVIOUS) or {}
        # Another writer may have moved the reader, and left this member as it was.
        is_before_next = previous.get(_ID) == found.integer(_NEXT) - 1
        return str(previous.get(_IDENTITY, "")) if is_before_next else ""

    return store.parse_file(store.paths.consumer(id_), parse)


def consumer_others(store: TableStore, id_: str) -> Mapping[str, Any]:
    """The members of a reader's file that this version does not know; none where the file is absent or damaged."""
    with suppress(FileNotFoundError, CorruptFileError):
        return store.parse_file(
            store.paths.consumer(id_), lambda data, at: JsonObject(data, at).others((_NEXT, _PREVIOUS))
        )
    return {}


def write_consumer(
    store: TableStore, id_: str, next_snapshot: int, others: Mapping[str, Any] | None = None, previous: str = ""
) -> None:
    """Store which snapshot a streaming reader reads next. ``others``: further members of its file; ``previous``: as of
    `consumer_previous`."""
    before = {_PREVIOUS: {_ID: next_snapshot - 1, _IDENTITY: previous}} if previous else {}
    content = to_java_json({_NEXT: next_snapshot, **before, **(others or {})})
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
