"""Fast-forward: the main branch gets the history of another one.

Its schemas come first, as its states can't be read without them, and its newest state next, as the next snapshot of the
main branch, created if absent. A failure up to then is undone. A file next to the snapshots
(`paimon_pyds.metadata.intents`) has the former schemas, so that the next call undoes or finishes a killed one; it also
protects the branch and the snapshots of both from removal. Later steps need nothing more of the branch. (Source: Java
Paimon 1.4, class FileSystemBranchManager.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CommitError,
    NotFoundError,
    OptionError,
    PaimonError,
    SnapshotNotFoundError,
)
from paimon_pyds.metadata.changelogs import changelog_ids, remove_changelogs_from
from paimon_pyds.metadata.intents import (
    Forward,
    begin_forward,
    begun_before,
    expiring_before,
    forwards_to,
    is_deleted_now,
    is_purged_now,
    is_rolled_back_now,
    purged_now,
    withdraw,
)
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.record_codec import encode_manifest_list
from paimon_pyds.metadata.schema import utf8_bytes
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot, parse_snapshot, snapshot_to_json
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.branches import opened_branch
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.references import (
    Reference,
    references_of_table,
    snapshot_references,
    tag_references,
)
from paimon_pyds.ops.maintenance.removal import (
    Removal,
    RemovalSummary,
    changelogs_from,
    delete_files,
    only_theirs,
    remove_files,
)
from paimon_pyds.ops.maintenance.tags import discard_success_files
from paimon_pyds.storage import discard, is_file


def fast_forward(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Put a branch's history in the place of the main one's since the branch was made, as Java does.

    Snapshots, changelogs, tags and schemas of the main branch since then go, with the files that only they needed
    (Java leaves these, and changelogs, whose numbers get other snapshots). A commit after the branch's newest state was
    published builds on it. If the operation ends half-way, run it again.

    ``store``: the table, on its main branch.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        SnapshotNotFoundError: nothing was committed to the branch.
        CommitConflictError: somebody wrote to the main branch meanwhile. Nothing was changed.
        CommitError: snapshots of one of the branches are removed, or the table is purged, just now. Nothing was
            changed.
        OptionError: it is the open branch.
    """
    started = time.monotonic()
    _undo_without_branch(store, name)
    branch = opened_branch(store, name)
    if store.branch == name:
        raise OptionError(f"branch {name} is the open one", hint="open the table without it")
    latest = store.latest_snapshot()
    history = _History.of(branch)
    gone = _replaced(store, branch, history)
    removal: Removal | None = None
    if dry_run:
        states = references_of_table(store)
        left = [state for state in states if state not in gone]
        removal = only_theirs(store, gone, lambda: left, maintenance_options(store, None))
    elif store.server is not None:
        if store.latest_snapshot() != latest:
            raise _written_to(store)
        store.server.fast_forward(store, name, branch.snapshot(history.ids[-1]))
    else:
        gone, removal = _forwarded(store, branch, latest)
    summary = RemovalSummary() if removal is None else removal.summary()
    tags, count = tuple(state.tag for state in gone if state.is_tag), sum(state.is_snapshot for state in gone)
    return replace(summary, snapshots=count, tags=tags, seconds=time.monotonic() - started, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _History:
    """What a branch has: its first snapshot, files by their numbers and names, and its first changelog."""

    first: Snapshot
    snapshots: Mapping[int, bytes]
    tags: Mapping[str, bytes]
    schemas: Mapping[int, bytes]
    begin: int

    @property
    def ids(self) -> list[int]:
        return sorted(self.snapshots)

    @staticmethod
    def of(branch: TableStore) -> _History:
        """Raises SnapshotNotFoundError: the branch has no snapshot; BranchNotFoundError: it is being deleted."""
        begun = expiring_before(branch)  # an expiry has left older ones in part
        ids = [id_ for id_ in branch.snapshot_ids() if id_ >= begun]
        if not ids:
            if not branch.schema_ids():
                raise _deleted(branch)
            what = f"branch {branch.branch} has no snapshot: nothing was committed to it"
            raise SnapshotNotFoundError(what, path=branch.root)
        read, paths = branch.io.read_bytes, branch.paths
        try:
            first = branch.snapshot(ids[0])
            history = _History(
                first,
                {id_: read(paths.snapshot(id_)) for id_ in ids},
                {name: read(paths.tag(name)) for name in branch.tag_names()},
                {id_: read(paths.schema(id_)) for id_ in branch.schema_ids()},
                min([first.id, *changelog_ids(branch)]),
            )
        except (FileNotFoundError, NotFoundError) as error:
            if not branch.schema_ids():
                raise _deleted(branch) from error
            raise CommitError(
                f"snapshots or tags of the branch {branch.branch!r} are being removed",
                path=branch.root,
                hint="nothing was changed; try again",
            ) from error
        if not history.schemas:
            raise _deleted(branch)
        return history


def _deleted(branch: TableStore) -> BranchNotFoundError:
    return BranchNotFoundError(
        f"the branch {branch.branch!r} is being deleted", path=branch.root, hint="nothing was changed"
    )


def _written_to(store: TableStore) -> CommitConflictError:
    return CommitConflictError(
        "the main branch was written to meanwhile: its new rows would be lost",
        path=store.root,
        hint="nothing was changed; look at them, then try again",
    )


def _replaced(store: TableStore, branch: TableStore, history: _History) -> list[Reference]:
    """The states of the main branch that go: those since the branch was made. Where its own first ones have expired, an
    earlier one goes, too, if it needs a schema that goes."""
    changed = _changed_schemas(store, history)
    new = {id_: parse_snapshot(data, branch.paths.snapshot(id_)) for id_, data in history.snapshots.items()}
    same = {name: parse_snapshot(data, branch.paths.tag(name)) for name, data in history.tags.items()}
    found = [state for state in snapshot_references(store) if new.get(state.snapshot.id) != state.snapshot]
    found += [tag for tag in tag_references(store) if same.get(tag.tag) != tag.snapshot]
    after = [s for s in found if s.snapshot.id >= history.first.id or s.snapshot.schema_id in changed]
    return [*after, *changelogs_from(store, history.begin)]


def _first_of(gone: Sequence[Reference], history: _History) -> int:
    """The first number that gets another snapshot."""
    return min([history.first.id, *(state.snapshot.id for state in gone if state.is_snapshot)])


def _forwarded(
    store: TableStore, branch: TableStore, latest: Snapshot | None
) -> tuple[list[Reference], Removal | None]:
    """Forward the main branch: the states that went, and the files, None where these are still there."""
    history, earlier = _History.of(branch), forwards_to(store, branch.branch)
    before = _changed_schemas(store, history)
    for one in reversed(earlier):  # what the oldest has seen was there before all of them
        before |= one.schemas
    seen = None if latest is None else latest.delta_manifest_list
    is_done = any(one.latest != seen for one in earlier)  # one that was killed has got so far, or others have written
    target = _first_of(_replaced(store, branch, history), history) - 1
    told = [begin_forward(store, branch.branch, target, Forward("", seen, before))]
    told += [one.path for one in earlier]
    standing: _Standing | None = None
    try:
        _check_alone(store, branch, history, target)
        history = _History.of(branch)  # which stays from here on
        gone, standing = _replaced(store, branch, history), _Standing(store, branch, history)
        ids, changed = store.schema_ids(), _changed_schemas(store, history)
        if store.latest_snapshot() != latest or not changed.keys() <= before.keys():
            raise _written_to(store)
        standing.as_number(1 if latest is None else latest.id + 1)  # what can fail comes first
        is_there = _is_in(store, standing, latest)
        if store.schema_ids() != ids:
            raise _written_to(store)
        _copy_schemas(store, history, changed)
        last = _switch(store, branch, standing, latest, is_there=is_there)
    except BaseException as error:
        with suppress(PaimonError, OSError):  # else the next call does it
            is_public = standing is not None and standing.is_public(latest)
            if not is_done and not is_public:
                _restore_schemas(store, before)
                withdraw(store, *told)
                discard(store.io, [] if standing is None else standing.written)
            elif isinstance(error, CommitConflictError):  # another call was faster
                withdraw(store, told[0])
                discard(store.io, [] if standing is None else standing.written)
        raise
    _finish(store, branch, history, standing, last, gone)
    removal = remove_files(store, gone, maintenance_options(store, None))
    withdraw(store, *told)
    return gone, removal


def _check_alone(store: TableStore, branch: TableStore, history: _History, target: int) -> None:
    """Refuse if another operation has announced itself; one that begins later sees the intent of this one."""
    if is_deleted_now(store, branch.branch) or not branch.snapshot_exists(history.ids[-1]):
        raise _deleted(branch)
    if is_purged_now(store):
        raise purged_now(store)
    if is_rolled_back_now(store) or is_rolled_back_now(branch) or begun_before(store) > target + 1:
        raise CommitError(
            "snapshots are being removed",
            path=store.root,
            hint="nothing was changed; try again; if no such operation is running, call table.snapshots.expire() first",
        )


def _finish(
    store: TableStore, branch: TableStore, history: _History, standing: _Standing, last: int, gone: list[Reference]
) -> None:
    """Put what the branch has besides its newest state in the place of what the main branch has."""
    store.notes.clear()  # nobody has replaced the last commit by mistake
    remove_changelogs_from(store, history.begin)
    first = _first_of(gone, history)
    for id_ in reversed(range(first, last)):
        store.io.replace(store.paths.snapshot(id_), history.snapshots.get(id_) or standing.as_number(id_))
    newer = [id_ for id_ in store.snapshot_ids() if id_ >= first]
    if not any(s.delta_manifest_list in standing.lists for s in store.snapshots_among(newer)):
        discard(store.io, standing.written)  # it is under no other number any more
    tags = [state.tag for state in gone if state.is_tag]
    delete_files(store.io, map(store.paths.tag, tags), 1)
    discard_success_files(store, sorted({*tags} - {*history.tags}))
    for name, data in history.tags.items():
        store.io.replace(store.paths.tag(name), data)
        # The deletion of the branch's tag looks for others after that.
        if not is_file(store.io, branch.paths.tag(name)) and branch.snapshot_exists(standing.snapshot.id):
            store.io.delete([store.paths.tag(name)])
    if ids := store.snapshot_ids():
        store.write_earliest_hint(ids[0])


def _changed_schemas(store: TableStore, history: _History) -> dict[int, bytes | None]:
    """The main branch's schemas that the branch has otherwise, or has not; None for one that it has alone."""
    try:
        there = {id_: store.io.read_bytes(store.paths.schema(id_)) for id_ in store.schema_ids()}
    except FileNotFoundError as error:
        raise store.missing(str(error.filename)) from error
    newer = [id_ for id_ in there if id_ > max(history.schemas)]
    theirs = [id_ for id_, data in history.schemas.items() if there.get(id_) != data]
    return {id_: there.get(id_) for id_ in (*theirs, *newer) if id_ >= history.first.schema_id}


def _copy_schemas(store: TableStore, history: _History, changed: Iterable[int]) -> None:
    """Make the main branch's schemas those of the branch."""
    for id_ in changed:
        if id_ in history.schemas:
            store.io.replace(store.paths.schema(id_), history.schemas[id_])
    store.io.delete([store.paths.schema(id_) for id_ in changed if id_ not in history.schemas])


def _restore_schemas(store: TableStore, before: Mapping[int, bytes | None]) -> None:
    """Undo `_copy_schemas`, unless somebody has committed by a new one."""
    latest = store.latest_snapshot()
    for id_, data in before.items():
        if data is not None:
            store.io.replace(store.paths.schema(id_), data)
        elif latest is None or latest.schema_id != id_:
            store.io.delete([store.paths.schema(id_)])


def _undo_without_branch(store: TableStore, name: str) -> None:
    """Undo what was killed before the main branch had anything of a branch but its schemas, where that is gone."""
    for one in reversed(forwards_to(store, name)) if name not in store.branches() else ():
        latest = store.latest_snapshot()
        if one.latest == (None if latest is None else latest.delta_manifest_list):
            _restore_schemas(store, one.schemas)
        withdraw(store, one.path)


def _is_in(store: TableStore, standing: _Standing, latest: Snapshot | None) -> bool:
    """Whether the main branch has the state already, after a call that ended half-way.
    Raises CommitConflictError: the main branch's latest snapshot is another one now."""
    try:
        return standing.is_in(latest)
    except SnapshotNotFoundError:
        if store.latest_snapshot() == latest:
            raise
        raise _written_to(store) from None


def _switch(
    store: TableStore, branch: TableStore, standing: _Standing, latest: Snapshot | None, *, is_there: bool
) -> int:
    """Make a branch's newest state the main branch's: as the snapshot after the latest one, and as the following ones
    up to its own number. Returns the last of these. A concurrent commit builds on one of them, which is the last one
    then. ``is_there``: see `_is_in`.

    Raises:
        CommitConflictError: that number was taken.
        BranchNotFoundError: the branch is gone: its deletion looks at the main branch later.
    """
    newest = standing.snapshot
    before = last = 0 if latest is None else latest.id
    least = before if is_there else before + 1
    while last < max(least, newest.id):
        if not store.io.create_if_absent(store.paths.snapshot(last + 1), standing.as_number(last + 1)):
            break
        last += 1
        if not branch.snapshot_exists(newest.id):
            for id_ in range(last, before, -1):
                store.io.delete([store.paths.snapshot(id_)])
            store.correct_latest_hint()
            raise _deleted(branch)
        store.write_latest_hint(last)
    if last < least:
        raise _written_to(store)
    return last


class _Standing:
    """A branch's newest snapshot, to be put under several numbers: under others than its own it changes nothing."""

    def __init__(self, store: TableStore, branch: TableStore, history: _History) -> None:
        self._store, self._data = store, history.snapshots[history.ids[-1]]
        self.snapshot = parse_snapshot(self._data, branch.paths.snapshot(history.ids[-1]))
        self.written: list[str] = []

    @cached_property
    def _unchanged(self) -> Snapshot:
        store, id_ = self._store, str(uuid.uuid4())
        codec = str(maintenance_options(store, None).get("manifest.compression"))
        manifests = ManifestReader(store).manifests(self.snapshot)
        (base, base_size), (delta, delta_size) = (
            store.write_manifest_list(encode_manifest_list(part, codec), id_, number)
            for number, part in enumerate((manifests, ()))
        )
        self.written += [store.paths.manifest(base), store.paths.manifest(delta)]
        return replace(
            self.snapshot,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=None,
            changelog_manifest_list_size=None,
            changelog_record_count=None,
            commit_user=id_,
            commit_kind=CommitKind.COMPACT,
            operation=None,
            uuid=None,
            writer_version=None,
            delta_record_count=0,
        )

    @property
    def lists(self) -> set[str]:
        """The names of the manifest lists that it has under other numbers."""
        return {path.rpartition("/")[2] for path in self.written}

    def is_in(self, latest: Snapshot | None) -> bool:
        """Whether a snapshot of the main branch has all that this one has, and nothing else."""
        return latest is not None and self._content(latest) == self._content(self.snapshot)

    def is_public(self, latest: Snapshot | None) -> bool:
        """Whether the main branch has it, under a number after its latest one, also by another call."""
        lists = {self.snapshot.delta_manifest_list, *self.lists}
        ids = [id_ for id_ in self._store.snapshot_ids() if latest is None or id_ > latest.id]
        snapshots = self._store.snapshots_among(ids)
        if any(snapshot.delta_manifest_list in lists for snapshot in snapshots):
            return True
        with suppress(SnapshotNotFoundError):
            return any(map(self.is_in, snapshots))
        return False

    def _content(self, snapshot: Snapshot) -> tuple[object, ...]:
        return snapshot.schema_id, snapshot.index_manifest, [*ManifestReader(self._store).manifests(snapshot)]

    def as_number(self, id_: int) -> bytes:
        """The content of a snapshot file."""
        if id_ == self.snapshot.id:
            return self._data
        return utf8_bytes(snapshot_to_json(replace(self._unchanged, id=id_)), "a snapshot")
