"""Branches: histories of their own, with schemas, snapshots and tags in a directory of their own; files are shared.

A branch appears and goes in one step, by the name of its directory.
(Sources: Paimon documentation, maintenance/manage-branches; Java Paimon 1.4, class FileSystemBranchManager.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitConflictError,
    NotFoundError,
    OptionError,
    SnapshotNotFoundError,
    TagNotFoundError,
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
)
from paimon_pyds.maintenance.removal import Removal, RemovalSummary, delete_files, threads_of
from paimon_pyds.maintenance.tags import snapshot_file
from paimon_pyds.metadata.changelogs import changelog_ids, remove_changelogs_from
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.options.option import text

_TRIES = 10


def create_branch(store: TableStore, name: str, tag: str | None = None) -> Snapshot | None:
    """Make a branch: of a tag, with its rows; without one it has the columns only. The snapshot that it begins with.

    Args:
        store: the table, on the branch that the new one comes from.
        name: not ``main``, blank or a number.
        tag: of the table.

    Raises:
        AlreadyExistsError: there is a branch of this name.
        TagNotFoundError: there is no such tag.
        OptionError: no name for a branch.
    """
    _check_free(store, name)
    snapshot = None if tag is None else store.tag(text("tag", tag))
    if store.server is not None:
        store.server.create_branch(store, name, tag)
        return snapshot
    newest = store.latest_schema().id if snapshot is None else snapshot.schema_id
    target, temporary = store.paths.branch_dir(name), f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    files = {f"schema/schema-{id_}": store.paths.schema(id_) for id_ in store.schema_ids() if id_ <= newest}
    try:
        for path, source in files.items():
            store.io.write_bytes(f"{temporary}/{path}", store.io.read_bytes(source))
        if tag is not None and snapshot is not None:
            source = store.paths.tag(tag)
            store.io.write_bytes(f"{temporary}/tag/tag-{tag}", store.io.read_bytes(source))
            store.io.write_bytes(f"{temporary}/snapshot/snapshot-{snapshot.id}", snapshot_file(store, source))
        store.io.rename(temporary, target)
    except FileNotFoundError as error:
        raise TagNotFoundError(f"the tag {tag!r} is gone", path=store.root) from error
    finally:
        store.io.delete_tree(temporary)
    if tag is not None and (tag not in store.tag_names() or store.tag(tag) != snapshot):
        _take_away(store, name)
        raise TagNotFoundError(f"the tag {tag!r} was deleted just now", path=store.root, hint="take another one")
    return snapshot


def _check_free(store: TableStore, name: str) -> None:
    if not text("name", name).strip() or name == MAIN_BRANCH or name.isdecimal() or "/" in name or "\0" in name:
        raise OptionError(
            f"{name!r:.100} is no name for a branch", hint="a name is not main, blank or a number, and has no slash"
        )
    if name in store.branches():
        raise AlreadyExistsError(f"there is a branch {name!r}", path=store.root, hint="delete it, or take another name")


def _check_there(store: TableStore, name: str) -> TableStore:
    branches = store.branches()
    if name not in branches:
        what = "the main branch stays" if name == MAIN_BRANCH else f"there is no branch {name!r:.100}"
        raise BranchNotFoundError(what, path=store.root, hint=suggest(name, branches, "branches"))
    return on_branch(store, name)


def _take_away(store: TableStore, name: str) -> None:
    """Remove the directory of a branch: its name goes first, in one step."""
    if store.server is not None:
        return store.server.delete_branch(store, name)
    gone = f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    store.io.rename(store.paths.branch_dir(name), gone)
    store.io.delete_tree(gone)


def delete_branch(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Delete a branch, and the files that only it needed.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        OptionError: the table's options name it, or it is the one at hand.
    """
    started = time.monotonic()
    branch, options = _check_there(store, name), maintenance_options(store, None)
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        if options.get(key) == name:
            raise OptionError(f"the option {key} names the branch {name}", path=store.root, hint=f"unset {key} first")
    if store.branch == name:
        raise OptionError(f"branch {name} is the one at hand", hint="open the table without it to delete it")
    states = all_references(branch)
    removal = _only_theirs(branch, states, options)
    if not dry_run:
        _take_away(store, name)
        removal = _only_theirs(branch, states, options)
        removal.delete()
    return replace(removal.summary(branches=(name,)), seconds=time.monotonic() - started, dry_run=dry_run)


def _only_theirs(branch: TableStore, states: Sequence[Reference], options: TableOptions) -> Removal:
    """The files that these states of a branch need and no other branch does, also where snapshots expire there."""
    main, others = on_branch(branch, MAIN_BRANCH), references_elsewhere(branch)
    for _ in range(_TRIES):
        try:
            return removal_of(main, states, others, options)
        except NotFoundError:
            left = [other for other in references_elsewhere(branch) if not is_expiring(main, other)]
            if left == others:
                raise
            others = left
    return removal_of(main, states, others, options)


def removal_of(
    store: TableStore, states: Sequence[Reference], others: Sequence[Reference], options: TableOptions
) -> Removal:
    """The files of some states that no others need.

    Args:
        store: the table.
        states: that go.
        others: all states that may share files with them.
        options: how many threads look and remove.
    """
    removal = Removal(store, threads_of(options))
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
    removal.keep(KeptFiles(store, others))
    return removal


def rename_branch(store: TableStore, name: str, new_name: str) -> None:
    """Give a branch another name. Raises BranchNotFoundError, AlreadyExistsError, and OptionError for no name."""
    _check_there(store, name)
    _check_free(store, new_name)
    if store.server is not None:
        store.server.rename_branch(store, name, new_name)
    else:
        store.io.rename(store.paths.branch_dir(name), store.paths.branch_dir(new_name))


def fast_forward(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Put a branch's history in the place of the main one's since the branch was made, as Java does.

    Snapshots, changelogs, tags and schemas of the main branch since then go (Java leaves changelogs, whose numbers get
    other snapshots); data files stay, and are orphans then, as in Java. The newest snapshot of the branch comes first;
    when that ends half-way, run it again.

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
        _check_latest(store, latest)
        if store.server is not None:
            store.server.fast_forward(store, name, branch.snapshot(ids[-1]))
        else:
            _take_over(store, branch, first, ids, tags)
    names = tuple(tag.tag for tag in tags)
    return RemovalSummary(snapshots=len(old), tags=names, seconds=time.monotonic() - started, dry_run=dry_run)


def _check_latest(store: TableStore, latest: Snapshot | None) -> None:
    if store.latest_snapshot() != latest:
        raise CommitConflictError(
            "the main branch was written to meanwhile: its new rows would go",
            path=store.root,
            hint="nothing was changed; look at them, then try again",
        )


def _take_over(
    store: TableStore, branch: TableStore, first: Snapshot, ids: Sequence[int], tags: Sequence[Reference]
) -> None:
    """Put a branch's snapshots, from the first on, and its tags in the place of the main one's, whose tags go."""
    history = min([first.id, *changelog_ids(branch)])  # what the branch has of its own
    try:
        _copy_schemas(store, branch, first.schema_id)
        remove_changelogs_from(store, history)
        _publish(store, branch, ids[-1])
        _copy_snapshots(store, branch, ids)
        delete_files(store.io, (store.paths.tag(tag.tag) for tag in tags), 1)
        for name in branch.tag_names():
            store.io.replace(store.paths.tag(name), branch.io.read_bytes(branch.paths.tag(name)))
    except FileNotFoundError as error:
        raise BranchNotFoundError(f"the branch {branch.branch!r} was deleted just now", path=store.root) from error
    store.write_earliest_hint(store.snapshot_ids()[0])


def _copy_schemas(store: TableStore, branch: TableStore, first: int) -> None:
    theirs = branch.schema_ids()
    for id_ in theirs:
        data, path = branch.io.read_bytes(branch.paths.schema(id_)), store.paths.schema(id_)
        if id_ >= first and not (store.io.exists(path) and store.io.read_bytes(path) == data):
            store.io.replace(path, data)
    delete_files(store.io, (store.paths.schema(id_) for id_ in store.schema_ids() if id_ > theirs[-1]), 1)


def _publish(store: TableStore, branch: TableStore, id_: int) -> None:
    """Make a branch's newest snapshot the main one's, if the branch is there then: who deletes it looks at main later.

    Raises BranchNotFoundError.
    """
    path = store.paths.snapshot(id_)
    before = store.io.read_bytes(path) if store.snapshot_exists(id_) else None
    store.io.replace(path, branch.io.read_bytes(branch.paths.snapshot(id_)))
    if not branch.snapshot_exists(id_):
        if before is None:
            store.io.delete([path])
        else:
            store.io.replace(path, before)
        raise BranchNotFoundError(f"the branch {branch.branch!r} was deleted just now", path=store.root)
    store.write_latest_hint(id_)


def _copy_snapshots(store: TableStore, branch: TableStore, ids: Sequence[int]) -> None:
    """Those before the newest; then those of the main branch that are newer still go, from the last on."""
    for id_ in reversed(ids[:-1]):
        store.io.replace(store.paths.snapshot(id_), branch.io.read_bytes(branch.paths.snapshot(id_)))
    for id_ in reversed([id_ for id_ in store.snapshot_ids() if id_ > ids[-1]]):
        store.io.delete([store.paths.snapshot(id_)])
    gaps = set(store.snapshot_ids()) - set(ids)
    delete_files(store.io, (store.paths.snapshot(id_) for id_ in gaps if id_ > ids[0]), 1)
