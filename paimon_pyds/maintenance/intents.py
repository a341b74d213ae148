"""What an expiry or a rollback is about to remove, as a file beside the snapshots.

Each writes its file first and looks at the others' files then: of two that begin at once, one sees the other. The hints
EARLIEST and LATEST alone can't tell it, as any expiry or commit replaces them.

The names are those of temporary files, so no reader takes them for snapshots, and what a killed process leaves is
removed with the orphan files, by Java Paimon, too.
"""

from __future__ import annotations

import re
import time
import uuid

from paimon_pyds.metadata.store import TableStore, read_hint

_NAME = re.compile(r"\.(?P<what>expire-before|roll-back-to)-(?P<id>[0-9]{1,18})\.[0-9a-f-]{36}")
_TEXTS = {
    "expire-before": "Snapshots before {} and files that only they need are being removed.\n",
    "roll-back-to": "Snapshots after {} are being removed.\n",
}
"""For who finds a file."""
_KILLED_MS = 24 * 3_600_000
"""A rollback that began so long ago was killed."""


def begin_expiry(store: TableStore, end: int) -> str:
    """Tell that the snapshots before a number, and their files, will be removed; the path of the file that tells it."""
    return _write(store, "expire-before", end)


def finish_expiry(store: TableStore, end: int) -> None:
    """The snapshots before a number are gone: what told of them, also those whose processes were killed, goes, too."""
    store.io.delete([path for what, id_, path, _ in _intents(store) if what == "expire-before" and id_ <= end])


def begin_rollback(store: TableStore, target: int) -> str:
    """Tell that the snapshots after a number will be removed; the path of the file that tells it."""
    return _write(store, "roll-back-to", target)


def withdraw(store: TableStore, path: str) -> None:
    """Nothing was, or will be, removed of what a file tells."""
    store.io.delete([path])


def expiring_before(store: TableStore) -> int:
    """The first snapshot that surely stays as far as expiry goes: those before it may have lost files. 0 for none."""
    return max(earliest_by_hint(store) or 0, begun_before(store))


def begun_before(store: TableStore) -> int:
    """The first snapshot that stays after the expiries that have begun here and are not finished. 0 for none."""
    return max([0, *(id_ for what, id_, *_ in _intents(store) if what == "expire-before")])


def rolling_back_to(store: TableStore) -> list[int]:
    """The snapshots that the table is being rolled back to just now; a rollback begun a day ago was killed."""
    since = int(time.time() * 1000) - _KILLED_MS
    return [id_ for what, id_, _, at in _intents(store) if what == "roll-back-to" and (at == 0 or at >= since)]


def earliest_by_hint(store: TableStore) -> int | None:
    """The snapshot that the hint EARLIEST names, if it is there: an expiry up to it may have begun."""
    hint = read_hint(store.io, store.paths.earliest_hint)
    return hint if hint is not None and store.snapshot_exists(hint) else None


def _write(store: TableStore, what: str, id_: int) -> str:
    path = f"{store.paths.snapshot_dir}/.{what}-{id_}.{uuid.uuid4()}"
    store.io.write_bytes(path, _TEXTS[what].format(id_).encode())
    return path


def _intents(store: TableStore) -> list[tuple[str, int, str, int]]:
    """What is to happen, the snapshot, the path, and when it was written, in milliseconds since the epoch, 0 where the
    storage does not tell."""
    return [
        (match["what"], int(match["id"]), status.path, status.modified_ms)
        for status in store.io.list(store.paths.snapshot_dir)
        if (match := _NAME.fullmatch(status.name))
    ]
