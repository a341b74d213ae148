"""Intents: expiry, rollback, fast-forward, a purge and the deletion of a branch announce themselves by a file next
to the snapshots.

Each writes its file first and then looks at the others' files: of two that begin at once, at least one sees the other.
The hints EARLIEST and LATEST alone can't do that, as any expiry or commit replaces them.

The names are those of temporary files, so no reader takes them for snapshots, and the removal of orphan files, also
Java Paimon's, removes those of killed processes.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress

from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CommitError, CorruptFileError
from paimon_pyds.metadata.json_text import JsonObject
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.store import TableStore, read_hint
from paimon_pyds.storage import discard
from paimon_pyds.storage.claims import claim_text, is_left_over

_EXPIRY, _ROLLBACK, _FORWARD, _DELETION = "expire-before", "roll-back-to", "forward-after", "delete-branch"
_PURGE = "purge-all"
_ALL = "|".join((_EXPIRY, _ROLLBACK, _FORWARD, _DELETION, _PURGE))
_NAME = re.compile(rf"\.(?P<what>{_ALL})-(?P<id>[0-9]{{1,18}})\.[0-9a-f-]{{36}}")
_TEXTS = {
    _EXPIRY: "Snapshots before {} and files that only they need are being removed.",
    _ROLLBACK: "Snapshots after {} and files that only they need are being removed.",
    _FORWARD: "Snapshots after {} get the history of a branch.",
    _DELETION: "A branch is being deleted.",
    _PURGE: "All rows, snapshots, tags and branches are being removed.",
}
"""The content of the files, which explains them to anyone that finds one."""
_ANY = "surrogateescape"
_KILLED_MS = 24 * 3_600_000
"""Age in milliseconds from which an operation other than an expiry counts as killed."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A fast-forward of the main branch that has begun.

    Attributes:
        path: of the intent file.
        latest: the delta manifest list of the main branch's latest snapshot at that time; None for no snapshot.
        schemas: those of the main branch that it replaces, by number; None for one that was not there.
    """

    path: str
    latest: str | None
    schemas: Mapping[int, bytes | None]


def begin_expiry(store: TableStore, end: int) -> str:
    """Announce that the snapshots before a number, and their files, will be removed. Returns the path of the intent
    file."""
    return _write(store, _EXPIRY, end)


def finish_expiry(store: TableStore, end: int) -> None:
    """Remove the intents of expiries up to a number, which are done, also those of killed processes."""
    store.io.delete([path for what, id_, path, _ in _intents(store) if what == _EXPIRY and id_ <= end])


def begin_rollback(store: TableStore, target: int) -> str:
    """Announce that the snapshots after a number, and their files, will be removed. Returns the path of the intent
    file."""
    return _write(store, _ROLLBACK, target)


def begin_forward(store: TableStore, branch: str, target: int, forward: Forward) -> str:
    """Announce that snapshots of a branch replace those of the main branch after a number. Returns the path of the
    intent file. ``forward``: the current state of the main branch."""
    schemas = {str(id_): None if d is None else d.decode("utf-8", _ANY) for id_, d in forward.schemas.items()}
    return _write(store, _FORWARD, target, {"branch": branch, "latest": forward.latest, "schemas": schemas})


def begin_deletion(store: TableStore, branch: str) -> str:
    """Announce that a branch will be deleted. Returns the path of the intent file, next to the main branch's
    snapshots."""
    return _write(store, _DELETION, 0, {"branch": branch})


def begin_purge(store: TableStore) -> str:
    """Announce that all of a table will be removed. Returns the path of the intent file."""
    return _write(store, _PURGE, 0)


def withdraw(store: TableStore, *paths: str) -> None:
    """Remove intent files: their operations have ended."""
    store.io.delete(paths)


def expiring_before(store: TableStore) -> int:
    """The first snapshot that surely stays as far as expiry goes: those before it may have lost files. 0 for none."""
    return max(earliest_by_hint(store) or 0, begun_before(store))


def begun_before(store: TableStore) -> int:
    """The first snapshot that stays after the expiries that have begun here and are not finished. 0 for none."""
    return max([0, *(id_ for what, id_, *_ in _intents(store) if what == _EXPIRY)])


def rolling_back_to(store: TableStore) -> list[int]:
    """The snapshots that the table is being rolled back to just now, and those after which it gets the history of a
    branch; 0 where it is that branch."""
    found = [id_ for what, id_, *_ in _running(store) if what in (_ROLLBACK, _FORWARD)]
    if store.branch != MAIN_BRANCH:
        found += [0 for _ in forwards_to(store.on_branch(MAIN_BRANCH), store.branch)]
    return found


def is_rolled_back_now(store: TableStore) -> bool:
    """Whether somebody rolls back the branch just now."""
    return any(what == _ROLLBACK for what, *_ in _running(store))


def is_forwarded_now(store: TableStore) -> bool:
    """Whether the main branch gets the history of a branch just now, where the store is of one of the two."""
    if store.branch != MAIN_BRANCH:
        return bool(forwards_to(store.on_branch(MAIN_BRANCH), store.branch))
    return any(what == _FORWARD for what, *_ in _running(store))


def is_purged_now(store: TableStore) -> bool:
    """Whether somebody purges the table just now."""
    return any(what == _PURGE for what, *_ in _running(store.on_branch(MAIN_BRANCH)))


def purged_now(store: TableStore) -> CommitError:
    """The error of a call that can't be done while somebody purges the table."""
    return CommitError("the table is purged just now", path=store.root, hint="nothing was changed; try again later")


def forwards_to(store: TableStore, branch: str) -> list[Forward]:
    """The fast-forwards to a branch that have begun, the oldest first, also those that were killed."""
    found = []
    for path, members in _of_branch(store, _FORWARD, branch):
        with suppress(CorruptFileError, ValueError, AttributeError):  # others' text
            texts = (members.object_or_none("schemas") or {}).items()
            schemas = {int(id_): None if t is None else t.encode("utf-8", _ANY) for id_, t in texts}
            found.append(Forward(path, members.text_or_none("latest"), schemas))
    return found


def is_deleted_now(store: TableStore, branch: str) -> bool:
    """Whether somebody deletes a branch of the table just now."""
    running = {path for what, _, path, _ in _running(store) if what == _DELETION}
    return any(path in running for path, _ in _of_branch(store, _DELETION, branch))


def earliest_by_hint(store: TableStore) -> int | None:
    """The snapshot that the hint EARLIEST names, if it is there: an expiry up to it may have begun."""
    hint = read_hint(store.io, store.paths.earliest_hint)
    return hint if hint is not None and store.snapshot_exists(hint) else None


def _write(store: TableStore, what: str, id_: int, more: Mapping[str, object] | None = None) -> str:
    path = f"{store.paths.snapshot_dir}/.{what}-{id_}.{uuid.uuid4()}"
    members = json.loads(claim_text(_TEXTS[what].format(id_))) | dict(more or {})
    try:
        store.io.write_bytes(path, json.dumps(members).encode())
    except BaseException:
        discard(store.io, [path])  # it may be there, or a part of it
        raise
    return path


def _intents(store: TableStore) -> list[tuple[str, int, str, int]]:
    """The intents: operation, snapshot, path, and time of writing in milliseconds since the epoch, 0 if the storage has
    no times."""
    return [
        (match["what"], int(match["id"]), status.path, status.modified_ms)
        for status in store.io.list(store.paths.snapshot_dir)
        if (match := _NAME.fullmatch(status.name))
    ]


def _running(store: TableStore) -> Iterator[tuple[str, int, str, int]]:
    """The intents of operations that were not killed, as far as this machine can see."""
    since = int(time.time() * 1000) - _KILLED_MS
    for what, id_, path, at in _intents(store):
        if at == 0 or at >= since:
            data = _content(store, path)
            if data and not is_left_over(data, _TEXTS[what].format(id_)):
                yield what, id_, path, at


def _of_branch(store: TableStore, wanted: str, branch: str) -> list[tuple[str, JsonObject]]:
    """The intent files of an operation on a branch, with their content, the oldest first."""
    found = []
    for what, _, path, _ in sorted(_intents(store), key=lambda intent: intent[3]):
        if what == wanted:
            with suppress(CorruptFileError):  # not whole
                members = JsonObject(_content(store, path), path)
                if members.any_or_none("branch") == branch:
                    found.append((path, members))
    return found


def _content(store: TableStore, path: str) -> bytes:
    """What a file says; empty where it is gone since it was listed."""
    try:
        return store.io.read_bytes(path)
    except FileNotFoundError:
        return b""
