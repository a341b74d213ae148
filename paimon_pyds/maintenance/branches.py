"""Branches: histories of their own, with schemas, snapshots and tags in a directory of their own; files are shared.

A branch appears and goes in one step, by the name of its directory; in object stores, which can't rename one, by its
columns.
(Sources: Paimon documentation, maintenance/manage-branches; Java Paimon 1.4, class FileSystemBranchManager.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_pyds.caching import cached_property
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitConflictError,
    NotFoundError,
    OptionError,
    SnapshotNotFoundError,
    TagNotFoundError,
    UnsupportedError,
    suggest,
)
from paimon_pyds.maintenance.expire import maintenance_options
from paimon_pyds.maintenance.references import (
    KeptFiles,
    Reference,
    all_references,
    is_expiring,
    on_branch,
    references_elsewhere,
    snapshot_references,
    tag_references,
    wait_or_raise,
)
from paimon_pyds.maintenance.removal import Removal, RemovalSummary, delete_files, threads_of
from paimon_pyds.maintenance.tags import discard_success_files, snapshot_file
from paimon_pyds.metadata.changelogs import changelog_ids, remove_changelogs_from
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.record_codec import encode_manifest_list
from paimon_pyds.metadata.schema import utf8_bytes
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot, snapshot_to_json
from paimon_pyds.metadata.store import TableStore, is_file_name
from paimon_pyds.options import TableOptions
from paimon_pyds.options.option import text
from paimon_pyds.storage import discard, scheme_of

_TRIES = 10
_LOCK = ".half-made"
"""In the directory of a branch that is made in an object store."""
_OTHERS_READ = (
    "scan.fallback-branch", "scan.primary-branch", "scan.fallback-snapshot-branch", "scan.fallback-delta-branch",
)  # fmt: skip
"""Options that name branches whose rows Java's readers of the main branch take, too."""


def create_branch(
    store: TableStore, name: str, tag: str | None = None, *, ignore_if_exists: bool = False, dry_run: bool = False
) -> Snapshot | None:
    """Make a branch: of a tag, with its rows; without one it has the columns only. The snapshot that it begins with.

    ``store``: the table, on the branch that the new one comes from. ``name``: not ``main``, blank or a number.
    ``ignore_if_exists``: give the first snapshot of a branch of this name, and leave it as it is.

    Raises:
        AlreadyExistsError: there is a branch of this name.
        TagNotFoundError: there is no such tag.
        OptionError: no name for a branch.
    """
    if ignore_if_exists and name in store.branches():
        return next(iter(on_branch(store, name).snapshots()), None)
    _check_free(store, name)
    snapshot = None if tag is None else store.tag(text("tag", tag))
    if dry_run:
        return snapshot
    if store.server is not None:
        store.server.create_branch(store, name, tag)
        return snapshot
    newest = store.latest_schema().id if snapshot is None else snapshot.schema_id
    files = {store.paths.schema(id_): f"schema/schema-{id_}" for id_ in store.schema_ids() if id_ <= newest}
    make = _make_at_once if scheme_of(store.root) == "file" else _make_in_place
    try:
        of_tag = {}
        if tag is not None and snapshot is not None:
            source = store.paths.tag(tag)
            of_tag = {
                f"tag/tag-{tag}": store.io.read_bytes(source),
                f"snapshot/snapshot-{snapshot.id}": snapshot_file(store, source),
            }
        schemas = {path: store.io.read_bytes(source) for source, path in files.items()}
    except FileNotFoundError as error:
        raise TagNotFoundError(f"the tag {tag!r} is gone", path=store.root) from error
    make(store, name, of_tag, schemas)
    if tag is not None and (tag not in store.tag_names() or store.tag(tag) != snapshot):
        _take_away(store, name)
        raise TagNotFoundError(f"the tag {tag!r} was deleted just now", path=store.root, hint="take another one")
    return snapshot


def _make_at_once(store: TableStore, name: str, of_tag: Mapping[str, bytes], schemas: Mapping[str, bytes]) -> None:
    """Make the directory of a branch: it gets its name when it is whole."""
    temporary = f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    try:
        for path, data in {**schemas, **of_tag}.items():
            store.io.write_bytes(f"{temporary}/{path}", data)
        store.io.rename(temporary, store.paths.branch_dir(name))
    finally:
        store.io.delete_tree(temporary)


def _make_in_place(store: TableStore, name: str, of_tag: Mapping[str, bytes], schemas: Mapping[str, bytes]) -> None:
    """Make a branch where directories can't be renamed. It can be opened once it has columns: they come last, the
    newest first. What a process leaves that is killed is half-made, and can be deleted."""
    target = store.paths.branch_dir(name)
    lock = f"{target}/{_LOCK}"
    if not store.io.create_if_absent(lock, b""):
        raise AlreadyExistsError(
            f"the branch {name!r} is made by another call, or was left half-made by it",
            path=store.root,
            hint="delete the branch if that call runs no more",
        )
    made = [lock]
    try:
        if any(not entry.name.startswith(".") for entry in store.io.list(target)):
            raise AlreadyExistsError(f"there is a branch {name!r} by now", path=store.root)
        for path, data in (*of_tag.items(), *reversed([*schemas.items()])):
            made.append(f"{target}/{path}")
            store.io.write_bytes(made[-1], data)
    except BaseException:
        discard(store.io, reversed(made))
        raise
    discard(store.io, [lock])


def _check_free(store: TableStore, name: str) -> None:
    if not text("name", name).strip() or name == MAIN_BRANCH or name.isdecimal() or not is_file_name(name):
        raise OptionError(
            f"{name!r:.100} is no name for a branch", hint="a name is not main, blank or a number, and has no slash"
        )
    if name in store.branches():
        raise AlreadyExistsError(f"there is a branch {name!r}", path=store.root, hint="delete it, or take another name")


def _check_there(store: TableStore, name: str) -> TableStore:
    branches = store.branches()
    if text("name", name) not in branches:
        what = "the main branch stays" if name == MAIN_BRANCH else f"there is no branch {name!r:.100}"
        raise BranchNotFoundError(what, path=store.root, hint=suggest(name, branches, "branches"))
    return on_branch(store, name)


def _check_unnamed(store: TableStore, name: str) -> None:
    """Raises OptionError for a branch that an option of the main branch names."""
    options = TableOptions(on_branch(store, MAIN_BRANCH).latest_schema().options)
    for key in _OTHERS_READ:
        if options.get(key) == name:
            raise OptionError(f"the option {key} names the branch {name}", path=store.root, hint=f"unset {key} first")


def _take_away(store: TableStore, name: str) -> None:
    """Remove the directory of a branch: its name goes first, in one step, or where that can't be its columns."""
    if store.server is not None:
        return store.server.delete_branch(store, name)
    directory, gone = store.paths.branch_dir(name), f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    if scheme_of(store.root) == "file":
        store.io.rename(directory, gone)
        directory = gone
    else:  # who opens it finds no columns from here on
        store.io.delete_tree(on_branch(store, name).paths.schema_dir)
    store.io.delete_tree(directory)


def delete_branch(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Delete a branch, and the files that only it needed.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        OptionError: the table's options name it, or it is the one at hand.
    """
    started = time.monotonic()
    branch, options = _check_there(store, name), maintenance_options(store, None)
    _check_unnamed(store, name)
    if store.branch == name:
        raise OptionError(f"branch {name} is the one at hand", hint="open the table without it to delete it")
    states = all_references(branch)
    removal = _only_theirs(branch, states, options)
    if not dry_run:
        _take_away(store, name)
        removal = _only_theirs(branch, states, options)
        removal.delete()
        removal.delete_directories(options)
    return replace(removal.summary(branches=(name,)), seconds=time.monotonic() - started, dry_run=dry_run)


def _only_theirs(branch: TableStore, states: Sequence[Reference], options: TableOptions) -> Removal:
    """The files that these states of a branch need and no other branch does, also where snapshots expire there."""
    main, others, settled = on_branch(branch, MAIN_BRANCH), references_elsewhere(branch), 0
    for _ in range(_TRIES):
        try:
            return removal_of(main, states, others, options)
        except NotFoundError as error:
            left = [other for other in references_elsewhere(branch) if not is_expiring(main, other)]
            if left == others:
                settled = wait_or_raise(error, settled)
            others = left
    return removal_of(main, states, others, options)


def removal_of(
    store: TableStore, states: Sequence[Reference], others: Sequence[Reference], options: TableOptions
) -> Removal:
    """The files of some states that no others need. ``others``: all states that may share files with them. ``options``:
    how many threads look and remove."""
    removal = Removal(store, threads_of(options))
    for branch in dict.fromkeys(state.branch for state in states):
        _add_states(removal, [state for state in states if state.branch == branch])
    removal.keep(KeptFiles(store, others))
    return removal


def _add_states(removal: Removal, states: Sequence[Reference]) -> None:
    """Gather the files of all states of a branch."""
    snapshots = [state.snapshot for state in states if state.keeps_changelog]
    expired = [state.snapshot for state in states if state.is_changelog]
    first = [state.snapshot for state in states if state.keeps_changelog and not state.is_changelog][:1]
    tagged = [state.snapshot for state in states if not state.keeps_changelog]
    removal.add_added(snapshots)
    removal.add_changelogs(snapshots)
    removal.add_deleted([*expired, *first] if expired else ())  # what changelogs keep is deleted by theirs or the next
    for snapshot in (*first, *tagged):
        removal.add_live(snapshot)
    removal.add_metadata(snapshots)
    removal.add_metadata(tagged, changelogs=False)


def rename_branch(store: TableStore, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot | None:
    """Give a branch another name, or only look whether it can be done; its newest snapshot.

    Raises BranchNotFoundError, AlreadyExistsError, OptionError for no name, or where the table's options name it, and
    UnsupportedError in an object store, where it would take many steps, and commits of others could be lost.
    """
    newest = _check_there(store, name).latest_snapshot()
    _check_free(store, new_name)
    _check_unnamed(store, name)
    if store.server is None and scheme_of(store.root) != "file":
        raise UnsupportedError(
            "a branch in an object store keeps its name",
            path=store.root,
            hint="make another one of a tag (create_branch), and delete this one",
        )
    if dry_run:
        return newest
    if store.server is not None:
        store.server.rename_branch(store, name, new_name)
    else:
        store.io.rename(store.paths.branch_dir(name), store.paths.branch_dir(new_name))
    return newest


def fast_forward(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Put a branch's history in the place of the main one's since the branch was made, as Java does.

    Snapshots, changelogs, tags and schemas of the main branch since then go (Java leaves changelogs, whose numbers get
    other snapshots); data files stay, and are orphans then, as in Java. The branch's newest state comes first, by the
    next number of the main branch, created if absent: until then nothing was changed, and who commits later builds on
    it. When that ends half-way, run it again.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        SnapshotNotFoundError: nothing was committed to the branch.
        CommitConflictError: somebody wrote to the main branch meanwhile. Nothing was changed.
        OptionError: it is the branch at hand.
    """
    started = time.monotonic()
    branch = _check_there(store, name)
    if store.branch == name:
        raise OptionError(f"branch {name} is the one at hand", hint="open the table without it")
    ids, latest = branch.snapshot_ids(), store.latest_snapshot()
    if not ids:
        raise SnapshotNotFoundError(f"branch {name} has no snapshot: nothing was committed to it", path=store.root)
    first = branch.snapshot(ids[0])
    new = {s.snapshot.id: s.snapshot for s in snapshot_references(branch)}
    old = [s for s in snapshot_references(store) if s.snapshot.id >= first.id and new.get(s.snapshot.id) != s.snapshot]
    same = {tag.name: tag.snapshot for tag in tag_references(branch)}
    tags = [t for t in tag_references(store) if t.snapshot.id >= first.id and same.get(t.name) != t.snapshot]
    if not dry_run:
        if store.latest_snapshot() != latest:
            raise _written_to(store)
        if store.server is not None:
            store.server.fast_forward(store, name, branch.snapshot(ids[-1]))
        else:
            _take_over(store, branch, first, ids, tags, latest)
    names = tuple(tag.tag for tag in tags)
    return RemovalSummary(snapshots=len(old), tags=names, seconds=time.monotonic() - started, dry_run=dry_run)


def _written_to(store: TableStore) -> CommitConflictError:
    return CommitConflictError(
        "the main branch was written to meanwhile: its new rows would go",
        path=store.root,
        hint="nothing was changed; look at them, then try again",
    )


def _take_over(
    store: TableStore,
    branch: TableStore,
    first: Snapshot,
    ids: Sequence[int],
    tags: Sequence[Reference],
    latest: Snapshot | None,
) -> None:
    """Put a branch's snapshots, from the first on, and its tags in the place of the main one's, whose tags go."""
    history = min([first.id, *changelog_ids(branch)])  # what the branch has of its own
    try:
        files = {id_: branch.io.read_bytes(branch.paths.snapshot(id_)) for id_ in ids}
        standing = _Standing(store, branch.snapshot(ids[-1]), files[ids[-1]])
        before = _copy_schemas(store, branch, first.schema_id)
        try:
            last = _switch(store, branch, standing, latest)
        except (CommitConflictError, NotFoundError):
            _restore_schemas(store, before)
            discard(store.io, standing.written)
            raise
        store.notes.clear()  # nobody has replaced the last commit by mistake
        remove_changelogs_from(store, history)
        for id_ in reversed(range(first.id, last)):
            store.io.replace(store.paths.snapshot(id_), files.get(id_) or standing.as_number(id_))
        if last == standing.snapshot.id:  # under no other number any more
            discard(store.io, standing.written)
        delete_files(store.io, (store.paths.tag(tag.tag) for tag in tags), 1)
        discard_success_files(store, sorted({tag.tag for tag in tags} - {*branch.tag_names()}))
        for name in branch.tag_names():
            store.io.replace(store.paths.tag(name), branch.io.read_bytes(branch.paths.tag(name)))
    except FileNotFoundError as error:
        raise BranchNotFoundError(f"the branch {branch.branch!r} was deleted just now", path=store.root) from error
    store.write_earliest_hint(store.snapshot_ids()[0])


def _copy_schemas(store: TableStore, branch: TableStore, first: int) -> dict[int, bytes | None]:
    """Make the main branch's schemas those of a branch; what is changed, as it was before, None for what is new."""
    theirs, before = branch.schema_ids(), dict[int, bytes | None]()
    for id_ in theirs:
        data, path = branch.io.read_bytes(branch.paths.schema(id_)), store.paths.schema(id_)
        old = store.io.read_bytes(path) if store.io.exists(path) else None
        if id_ >= first and old != data:
            before[id_] = old
            store.io.replace(path, data)
    for id_ in store.schema_ids():
        if id_ > theirs[-1]:
            before[id_] = store.io.read_bytes(store.paths.schema(id_))
            store.io.delete([store.paths.schema(id_)])
    return before


def _restore_schemas(store: TableStore, before: Mapping[int, bytes | None]) -> None:
    """Undo `_copy_schemas`, unless somebody has committed by a new one."""
    latest = store.latest_snapshot()
    for id_, data in before.items():
        if data is not None:
            store.io.replace(store.paths.schema(id_), data)
        elif latest is None or latest.schema_id != id_:
            store.io.delete([store.paths.schema(id_)])


def _switch(store: TableStore, branch: TableStore, standing: _Standing, latest: Snapshot | None) -> int:
    """Make a branch's newest state the main one's, under the number after the latest one and those that follow up to
    its own; the last of these. Who commits meanwhile goes on from one of them: it is the last one then.

    Raises:
        CommitConflictError: that number was taken.
        BranchNotFoundError: the branch is gone: who deletes it looks at main later.
    """
    newest = standing.snapshot
    before = last = 0 if latest is None else latest.id
    least = before if standing.is_in(latest) else before + 1  # it is after a call that ended half-way
    while last < max(least, newest.id):
        if not store.io.create_if_absent(store.paths.snapshot(last + 1), standing.as_number(last + 1)):
            break
        last += 1
        if not branch.snapshot_exists(newest.id):
            store.io.delete([store.paths.snapshot(last)])
            raise BranchNotFoundError(f"the branch {branch.branch!r} was deleted just now", path=store.root)
        store.write_latest_hint(last)
    if last < least:
        raise _written_to(store)
    return last


class _Standing:
    """A branch's newest snapshot, to be put under several numbers: under others than its own it changes nothing."""

    def __init__(self, store: TableStore, snapshot: Snapshot, data: bytes) -> None:
        self.snapshot = snapshot
        self._store, self._data = store, data
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

    def is_in(self, latest: Snapshot | None) -> bool:
        """Whether a snapshot of the main branch has all that this one has, and nothing else."""
        return latest is not None and self._content(latest) == self._content(self.snapshot)

    def _content(self, snapshot: Snapshot) -> tuple[object, ...]:
        return snapshot.schema_id, snapshot.index_manifest, [*ManifestReader(self._store).manifests(snapshot)]

    def as_number(self, id_: int) -> bytes:
        """The content of a snapshot file."""
        if id_ == self.snapshot.id:
            return self._data
        return utf8_bytes(snapshot_to_json(replace(self._unchanged, id=id_)), "a snapshot")
