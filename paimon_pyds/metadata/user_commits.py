"""Commits that are made once: each has a user, such as a stream, and a number, and a user's numbers grow.

The user's newest snapshot says what it has committed. As in Java Paimon that snapshot expires like any other (classes
FileStoreCommitImpl and ExpireSnapshotsImpl), so a small file per user, its record, says the same: before a commit is
published it names the number and some of the files, and after it the snapshot. Snapshots are believed first; the
record says how far back they have to be looked at, and what there was before them. Expiry completes the record of a
process that was killed between the two; where Java Paimon's has removed the snapshot, the files decide, or else
nothing is committed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import CommitError, CommitOutcomeUnknownError, PaimonError, SnapshotNotFoundError
from paimon_pyds.metadata.json_text import JsonObject
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_pyds.metadata.store import TableStore

_SNAPSHOTS_AT_ONCE = 64
"""Snapshots that are read at once, at most."""
_FILES = 3
"""Files of a commit that a record names, at most: a commit adds all of its files or none."""
_log = logging.getLogger("paimon_pyds.commit")


class CommittedBeforeError(CommitError):
    """The user has committed this number, or a later one, before. Nothing was published now."""


@dataclass(frozen=True, slots=True)
class State:
    """A snapshot by what identifies it: after a rollback another one may have its number. 0 and "" for none."""

    id: int = 0
    delta_manifest_list: str = ""

    @staticmethod
    def of(snapshot: Snapshot | None) -> State:
        """That of a snapshot."""
        return State() if snapshot is None else State(snapshot.id, snapshot.delta_manifest_list)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a user has committed last: the number, and the snapshot, whose number is 0 where it is not known."""

    identifier: int
    state: State


@dataclass(frozen=True, slots=True)
class Intent:
    """A commit that was about to be published: its number, the latest snapshot then, and some of its files."""

    identifier: int
    after: State
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a user's file. ``intent`` is None once it is known what became of it."""

    committed: Committed | None = None
    intent: Intent | None = None

    @property
    def looked_until(self) -> State:
        """Up to this snapshot there is no later commit of the user than ``committed``."""
        if self.intent is not None:
            return self.intent.after
        return State() if self.committed is None else self.committed.state


def read_record(store: TableStore, user: str) -> Record | None:
    """The record of a user; None where it has not written.
    Raises CorruptFileError: the file is damaged, or of another user."""
    path = store.paths.stream_writer(user)
    try:
        return store.parse_file(path, lambda data, at: _parsed(JsonObject(data, at), user))
    except FileNotFoundError:
        return None


def _parsed(json_: JsonObject, user: str) -> Record:
    if json_.text("commitUser") != user:
        raise json_.corrupt(f"it is of the user {json_.text('commitUser')!r:.100}", "commitUser")
    committed = None
    if json_.integer_or_none("commitIdentifier") is not None:
        state = State(json_.count("snapshotId"), json_.text("deltaManifestList"))
        committed = Committed(json_.count("commitIdentifier"), state)
    if json_.integer_or_none("nextIdentifier") is None:
        return Record(committed)
    after = State(json_.count("nextAfterSnapshotId"), json_.text("nextAfterDeltaManifestList"))
    return Record(committed, Intent(json_.count("nextIdentifier"), after, json_.texts("nextFiles")))


def write_record(store: TableStore, user: str, record: Record) -> None:
    """Replace the record of a user."""
    members: dict[str, Any] = {"commitUser": user}
    if (last := record.committed) is not None:
        members |= {"commitIdentifier": last.identifier, "snapshotId": last.state.id}
        members |= {"deltaManifestList": last.state.delta_manifest_list}
    if (intent := record.intent) is not None:
        members |= {"nextIdentifier": intent.identifier, "nextAfterSnapshotId": intent.after.id}
        members |= {"nextAfterDeltaManifestList": intent.after.delta_manifest_list, "nextFiles": list(intent.files)}
    store.io.replace(store.paths.stream_writer(user), json.dumps(members).encode())


def settle_expiring(store: TableStore, gone: Sequence[Snapshot]) -> None:
    """Before snapshots go: record those that a killed process has published and not recorded."""
    newest = {s.commit_user: s for s in gone if s.commit_identifier != BATCH_COMMIT_IDENTIFIER}
    for user, snapshot in newest.items():
        with suppress(PaimonError, OSError):  # then the files decide
            record = read_record(store, user)
            intent = None if record is None else record.intent
            if intent is not None and intent.identifier == snapshot.commit_identifier:
                write_record(store, user, Record(Committed(snapshot.commit_identifier, State.of(snapshot))))


class UserCommits:
    """What a user has committed to a table, as one process knows it: it looks at each snapshot once."""

    def __init__(self, user: str) -> None:
        self.user = user
        self._known: Committed | None = None
        self._seen: State | None = None
        """The latest snapshot when this was looked up last; None before that."""

    def last(self, store: TableStore, latest: Snapshot | None) -> Committed | None:
        """The user's last commit up to the latest snapshot; None for none.

        Raises:
            CommitOutcomeUnknownError: neither snapshots nor the record nor files say whether a commit was published.
        """
        if latest is None:
            self._known, self._seen = None, State()
        elif self._seen is None or not self._follow(store, self._seen, latest):
            self._look_up(store, latest)
        return self._known

    def begin(self, store: TableStore, identifier: int, latest: Snapshot | None, files: Sequence[str]) -> None:
        """Record that a commit is about to be published on top of the latest snapshot."""
        write_record(store, self.user, Record(self._known, Intent(identifier, State.of(latest), tuple(files[:_FILES]))))

    def finish(self, store: TableStore, committed: Committed) -> None:
        """Record a commit that was published. An error is only logged: it is committed."""
        self._known, self._seen = committed, committed.state
        try:
            write_record(store, self.user, Record(committed))
        except (PaimonError, OSError) as error:
            text = "commit %d of %s is published, its record was not written: %s"
            _log.warning(text, committed.identifier, self.user, redact(str(error)))

    def withdraw(self, store: TableStore) -> None:
        """Record that what was about to be published will not be: it was committed before, by another process."""
        write_record(store, self.user, Record(self._known))

    def settle(self, store: TableStore, committed: int | None) -> None:
        """Record what has been committed, whatever there was: the caller knows it."""
        last = None if committed is None else Committed(committed, State.of(store.latest_snapshot()))
        write_record(store, self.user, Record(last))
        self._seen = None

    # --------------------------------------------------------------------------------------------------------- helpers

    def _follow(self, store: TableStore, seen: State, latest: Snapshot) -> bool:
        """Look at the snapshots since the last time; False where they don't all follow that one."""
        if seen == State.of(latest):
            return True
        if latest.id <= seen.id or not _stands(store, seen):
            return False
        found, whole = self._newest(store, seen.id, latest)
        if found is None and not whole:
            return False
        self._known, self._seen = found or self._known, State.of(latest)
        return True

    def _look_up(self, store: TableStore, latest: Snapshot) -> None:
        record = read_record(store, self.user) or Record()
        until = record.looked_until
        if until.id > latest.id or not (_stands(store, until) or _has_expired(store, until)):
            record, until = Record(), State()  # the table was rolled back since
        found, whole = self._newest(store, until.id, latest)
        if found is None:
            found = record.committed
            if record.intent is not None and not whole and self._was_published(store, record.intent):
                found = Committed(record.intent.identifier, State())
        if found is not None and found.state.id and store.publisher is not None:
            with suppress(PaimonError, OSError):  # it may have expired
                store.publisher.after_publish(store, store.snapshot(found.state.id))
        self._known, self._seen = found, State.of(latest)

    def _newest(self, store: TableStore, after: int, latest: Snapshot) -> tuple[Committed | None, bool]:
        """The user's newest commit among the snapshots after a number, and whether all of them are there."""
        last, count, found, missing = latest.id, 1, [latest], 0
        while last > after and found:
            first = max(last - count + 1, after + 1)
            found = [latest] if count == 1 else store.snapshots_among(range(first, last + 1))
            for snapshot in reversed(found):
                if snapshot.commit_user == self.user:
                    return Committed(snapshot.commit_identifier, State.of(snapshot)), True
            missing += last + 1 - first - len(found)
            last, count = first - 1, min(2 * count, _SNAPSHOTS_AT_ONCE)
        return None, not missing

    def _was_published(self, store: TableStore, intent: Intent) -> bool:
        """Whether a commit was published whose snapshot has expired if it was: by its files."""
        names = {path.rpartition("/")[2] for path in intent.files}
        ids = [id_ for id_ in store.snapshot_ids() if id_ > intent.after.id]
        others = [tag for tag in store.tags().values() if tag.id > intent.after.id]
        for snapshot in (*store.snapshots_among(ids[:1]), *others):
            if names & set(ManifestReader(store).live_files(snapshot, ("file_name",))["file_name"].to_pylist()):
                return True
        if names and not store.branches() and all(store.io.exists(path) for path in intent.files):
            return False  # else the compaction and the expiry that took them from the table had removed them
        raise CommitOutcomeUnknownError(
            f"a process was killed while it made commit {intent.identifier} of the user {self.user!r:.100}, and "
            "snapshots have expired since: nothing that is left says whether it was published",
            path=store.root,
            hint="look whether the table has its rows, and call table.stream_writer(user).settle(identifier) with that "
            "number if it has, with the one before if not",
        )


class CommitOnce:
    """The name of one commit: the next one of rows through a store that has it (`TableStore.committing`).

    Args:
        commits: of the user.
        identifier: the number.
        watermark: event time in milliseconds.
    """

    def __init__(self, commits: UserCommits, identifier: int, watermark: int | None = None) -> None:
        self.commits = commits
        self.identifier = identifier
        self.watermark = watermark
        self.is_done = False
        self.before = 0
        """The snapshot of the user's last commit before this one; 0 for none, or where it is not known."""
        self._last = -1
        self._has_begun = False

    def check(self, store: TableStore, latest: Snapshot | None) -> None:
        """Look whether it was made before, up to the snapshot that the commit would follow.
        Raises CommittedBeforeError."""
        last = self.commits.last(store, latest)
        if last is None or last.identifier < self.identifier:
            self.before, self._last = (0, -1) if last is None else (last.state.id, last.identifier)
            return
        if self._has_begun:
            self.commits.withdraw(store)
        raise CommittedBeforeError(
            f"{self.commits.user!r:.100} has committed {last.identifier}, and {self.identifier} before", path=store.root
        )

    def begin(self, store: TableStore, latest: Snapshot | None, files: Sequence[str]) -> None:
        """Called before the commit is published, once for all tries."""
        if not self._has_begun:
            self.commits.begin(store, self.identifier, latest, files)
            self._has_begun = True

    def is_nth(self, count: int) -> bool:
        """Whether this commit is the last one of the next ``count``, by the numbers since the user's commit before."""
        return (self.identifier + 1) // count > (self._last + 1) // count

    def finish(self, store: TableStore, snapshot: Snapshot) -> None:
        """Called when it is published as that snapshot."""
        self.is_done = True
        self.commits.finish(store, Committed(self.identifier, State.of(snapshot)))


def _stands(store: TableStore, state: State) -> bool:
    """Whether the snapshot is there; True for none."""
    try:
        return not state.id or store.snapshot(state.id).delta_manifest_list == state.delta_manifest_list
    except SnapshotNotFoundError:
        return False


def _has_expired(store: TableStore, state: State) -> bool:
    earliest = None
    with suppress(PaimonError):
        earliest = store.earliest_snapshot_id()
    return earliest is not None and state.id < earliest
