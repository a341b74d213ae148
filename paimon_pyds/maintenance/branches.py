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
    OptionError,
    SnapshotNotFoundError,
    TagNotFoundError,
    suggest,
)
from paimon_pyds.maintenance.expire import maintenance_options
from paimon_pyds.maintenance.references import (
    KeptFiles,
    Reference,
    on_branch,
    references_elsewhere,
    snapshot_references,
    tag_references,
)
from paimon_pyds.maintenance.removal import Removal, RemovalSummary, delete_files, threads_of
from paimon_pyds.maintenance.tags import tag_file
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.options.option import text


def create_branch(store: TableStore, name: str, tag: str | None = None) -> None:
    """Make a branch: of a tag, with its rows; without one it has the columns only.

    Args:
        store: the table, on the branch that the new one comes from.
        name: not ``main``, blank or a number.
        tag: of the table.

    Raises:
        AlreadyExistsError: there is a branch of this name.
        TagNotFoundError: there is no such tag.
        OptionError: no name for a branch.
    """
    store.check_allowed("get branches")
    _check_free(store, name)
    snapshot = None if tag is None else store.tag(text("tag", tag))
    newest = store.latest_schema().id if snapshot is None else snapshot.schema_id
    target, temporary = store.paths.branch_dir(name), f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    files = {f"schema/schema-{id_}": store.paths.schema(id_) for id_ in store.schema_ids() if id_ <= newest}
    try:
        for path, source in files.items():
            store.io.write_bytes(f"{temporary}/{path}", store.io.read_bytes(source))
        if tag is not None and snapshot is not None:
            source = store.paths.tag(tag)
            store.io.write_bytes(f"{temporary}/tag/tag-{tag}", store.io.read_bytes(source))
            store.io.write_bytes(f"{temporary}/snapshot/snapshot-{snapshot.id}", tag_file(store, source, None))
        store.io.rename(temporary, target)
    except FileNotFoundError as error:
        raise TagNotFoundError(f"the tag {tag!r} is gone", path=store.root) from error
    finally:
        store.io.delete_tree(temporary)
    if tag is not None and (tag not in store.tag_names() or store.tag(tag) != snapshot):
        _take_away(store, name)
        raise TagNotFoundError(f"the tag {tag!r} was deleted just now", path=store.root, hint="take another one")


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
    gone = f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    store.io.rename(store.paths.branch_dir(name), gone)
    store.io.delete_tree(gone)


def delete_branch(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Delete a branch, and the files that only it needed.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        OptionError: the table's options name it, or it is the one at hand.
    """
    store.check_allowed("lose branches")
    started = time.monotonic()
    branch, options = _check_there(store, name), maintenance_options(store, None)
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        if options.get(key) == name:
            raise OptionError(f"the option {key} names the branch {name}", path=store.root, hint=f"unset {key} first")
    if store.branch == name:
        raise OptionError(f"branch {name} is the one at hand", hint="open the table without it to delete it")
    states = [*snapshot_references(branch), *tag_references(branch)]
    removal = removal_of(store, states, references_elsewhere(branch), options)
    if not dry_run:
        _take_away(store, name)
        removal = removal_of(store, states, references_elsewhere(branch), options)
        removal.delete()
    return replace(removal.summary(branches=[name]), seconds=time.monotonic() - started, dry_run=dry_run)


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
    tagged = [state.snapshot for state in states if not state.keeps_changelog]
    removal.add_added(snapshots)
    removal.add_changelogs(snapshots)
    for snapshot in (*snapshots[:1], *tagged):
        removal.add_live(snapshot)
    removal.add_metadata(snapshots)
    removal.add_metadata(tagged, changelogs=False)
    removal.keep(KeptFiles(store, others))
    return removal


def rename_branch(store: TableStore, name: str, new_name: str) -> None:
    """Give a branch another name. Raises BranchNotFoundError, AlreadyExistsError, and OptionError for no name."""
    store.check_allowed("rename branches")
    _check_there(store, name)
    _check_free(store, new_name)
    store.io.rename(store.paths.branch_dir(name), store.paths.branch_dir(new_name))


def fast_forward(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Put a branch's history in the place of the main one's since the branch was made, as Java does.

    Snapshots, tags and schemas of the main branch since then go; data files stay, and are orphans then, as in Java. The
    newest snapshot of the branch comes first; when that ends half-way, run it again.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        SnapshotNotFoundError: nothing was committed to the branch.
        OptionError: it is the branch at hand.
    """
    store.check_allowed("be fast-forwarded")
    started = time.monotonic()
    branch = _check_there(store, name)
    if store.branch == name:
        raise OptionError(f"branch {name} is the one at hand", hint="open the table without it")
    ids = branch.snapshot_ids()
    if not ids:
        raise SnapshotNotFoundError(f"branch {name} has no snapshot: nothing was committed to it", path=store.root)
    first = branch.snapshot(ids[0])
    new = {s.snapshot.id: s.snapshot for s in snapshot_references(branch)}
    old = [s for s in snapshot_references(store) if s.snapshot.id >= first.id and new.get(s.snapshot.id) != s.snapshot]
    same = {tag.name: tag.snapshot for tag in tag_references(branch)}
    tags = [t for t in tag_references(store) if t.snapshot.id >= first.id and same.get(t.name) != t.snapshot]
    if not dry_run:
        _copy_schemas(store, branch, first.schema_id)
        _copy_snapshots(store, branch, ids)
        delete_files(store.io, (store.paths.tag(tag.tag) for tag in tags), 1)
        for tag_name in branch.tag_names():
            store.io.replace(store.paths.tag(tag_name), branch.io.read_bytes(branch.paths.tag(tag_name)))
        store.io.replace(store.paths.earliest_hint, str(store.snapshot_ids()[0]).encode())
    names = tuple(tag.tag for tag in tags)
    return RemovalSummary(snapshots=len(old), tags=names, seconds=time.monotonic() - started, dry_run=dry_run)


def _copy_schemas(store: TableStore, branch: TableStore, first: int) -> None:
    theirs = branch.schema_ids()
    for id_ in theirs:
        data, path = branch.io.read_bytes(branch.paths.schema(id_)), store.paths.schema(id_)
        if id_ >= first and not (store.io.exists(path) and store.io.read_bytes(path) == data):
            store.io.replace(path, data)
    delete_files(store.io, (store.paths.schema(id_) for id_ in store.schema_ids() if id_ > theirs[-1]), 1)


def _copy_snapshots(store: TableStore, branch: TableStore, ids: Sequence[int]) -> None:
    """The newest first; then those of the main branch that are newer still go, from the last on."""
    for id_ in reversed(ids):
        store.io.replace(store.paths.snapshot(id_), branch.io.read_bytes(branch.paths.snapshot(id_)))
        if id_ == ids[-1]:
            store.write_latest_hint(id_)
    for id_ in reversed([id_ for id_ in store.snapshot_ids() if id_ > ids[-1]]):
        store.io.delete([store.paths.snapshot(id_)])
    gaps = set(store.snapshot_ids()) - set(ids)
    delete_files(store.io, (store.paths.snapshot(id_) for id_ in gaps if id_ > ids[0]), 1)
