"""Branches: histories of their own, with schemas, snapshots and tags in a directory of their own; files are shared.

A branch appears and goes in one step, by the name of its directory; in object stores, which can't rename one, by its
columns.
(Sources: Paimon documentation, maintenance/manage-branches; Java Paimon 1.4, class FileSystemBranchManager.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import text
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitError,
    OptionError,
    PaimonError,
    TagNotFoundError,
    UnsupportedError,
    suggest,
)
from paimon_pyds.metadata.intents import begin_deletion, forwards_to, withdraw
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore, is_file_name
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.references import (
    Reference,
    all_references,
    references_elsewhere,
)
from paimon_pyds.ops.maintenance.removal import Removal, RemovalSummary, only_theirs
from paimon_pyds.ops.maintenance.tags import snapshot_file
from paimon_pyds.storage import discard, scheme_of

_LOCK = ".half-made"
"""Name of a file in the directory of a branch that is being created in an object store."""
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
        return next(iter(store.on_branch(name).snapshots()), None)
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
        if tag is None:
            raise store.missing(store.paths.schema(newest)) from error
        raise TagNotFoundError(f"the tag {tag!r} is gone", path=store.root) from error
    make(store, name, of_tag, schemas)
    if tag is not None and (tag not in store.tag_names() or store.tag(tag) != snapshot):
        _take_away(store, name)
        raise TagNotFoundError(f"the tag {tag!r} was deleted just now", path=store.root, hint="use another one")
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
            f"the branch {name!r} is being created by another call, or its creation did not finish",
            path=store.root,
            hint="delete the branch if no such call is running",
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


def opened_branch(store: TableStore, name: str) -> TableStore:
    """A branch that is not the main one. Raises BranchNotFoundError."""
    branches = store.branches()
    if text("name", name) not in branches:
        what = "the main branch stays" if name == MAIN_BRANCH else f"there is no branch {name!r:.100}"
        raise BranchNotFoundError(what, path=store.root, hint=suggest(name, branches, "branches"))
    return store.on_branch(name)


def check_unnamed(store: TableStore, name: str) -> None:
    """Raises OptionError for a branch that an option of the main branch names."""
    options = TableOptions(store.on_branch(MAIN_BRANCH).latest_schema().options)
    for key in _OTHERS_READ:
        if options.get(key) == name:
            raise OptionError(f"the option {key} names the branch {name}", path=store.root, hint=f"unset {key} first")


def _take_away(store: TableStore, name: str) -> None:
    """Remove the directory of a branch: its name goes first, in one step, or where that can't be its columns."""
    if store.server is not None:
        return store.server.delete_branch(store, name)
    directory, gone = store.paths.branch_dir(name), f"{store.paths.branches_dir}/.{name}.{uuid.uuid4()}.tmp"
    if scheme_of(store.root) == "file":
        _rename(store, name, gone)
        directory = gone
    else:  # from here on the branch can't be opened
        store.io.delete_tree(store.on_branch(name).paths.schema_dir)
    store.io.delete_tree(directory)


def _take_away_alone(store: TableStore, name: str) -> None:
    """Remove the directory of a branch, unless the main branch gets its history just now.

    Each of the two announces its operation first and looks for others then: one sees the other.
    """
    if store.server is not None:
        return _take_away(store, name)
    main = store.on_branch(MAIN_BRANCH)
    intent = begin_deletion(main, name)
    try:
        if forwards_to(main, name):
            raise CommitError(
                f"a fast-forward of the main branch to the branch {name!r} is running, or was interrupted",
                path=store.root,
                hint=f"wait for it, or run table.branches.fast_forward({name!r}) again, which finishes it; then delete "
                "the branch",
            )
        _take_away(store, name)
    finally:
        with suppress(PaimonError):  # it counts for a day only
            withdraw(main, intent)


def delete_branch(store: TableStore, name: str, *, dry_run: bool = False) -> RemovalSummary:
    """Delete a branch, and the files that only it needed.

    Raises:
        BranchNotFoundError: there is no such branch, or it is the main one.
        OptionError: the table's options name it, or it is the one at hand.
        CommitError: the main branch is fast-forwarded to it.
    """
    started = time.monotonic()
    branch, options = opened_branch(store, name), maintenance_options(store, None)
    check_unnamed(store, name)
    if store.branch == name:
        raise OptionError(f"branch {name} is the open one", hint="open the table without it to delete it")
    states = all_references(branch)
    removal = _unneeded(branch, states, options)
    if not dry_run:
        _take_away_alone(store, name)
        removal = _unneeded(branch, states, options)
        removal.delete()
        removal.delete_directories(options)
    return replace(removal.summary(branches=(name,)), seconds=time.monotonic() - started, dry_run=dry_run)


def _unneeded(branch: TableStore, states: Sequence[Reference], options: TableOptions) -> Removal:
    """The files that these states of a branch need and no other branch does."""
    return only_theirs(branch.on_branch(MAIN_BRANCH), states, lambda: references_elsewhere(branch), options)


def rename_branch(store: TableStore, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot | None:
    """Give a branch another name, or only look whether it can be done; its newest snapshot.

    Raises BranchNotFoundError, AlreadyExistsError, OptionError for no name, or where the table's options name it, and
    UnsupportedError in an object store, where it would take many steps, and commits of others could be lost.
    """
    newest = opened_branch(store, name).latest_snapshot()
    _check_free(store, new_name)
    check_unnamed(store, name)
    if store.server is None and scheme_of(store.root) != "file":
        raise UnsupportedError(
            "a branch in an object store can't be renamed",
            path=store.root,
            hint="create another one from a tag (table.branches.create), and delete this one",
        )
    if dry_run:
        return newest
    if store.server is not None:
        store.server.rename_branch(store, name, new_name)
    else:
        _rename(store, name, store.paths.branch_dir(new_name))
    return newest


def _rename(store: TableStore, name: str, target: str) -> None:
    """Give the directory of a branch another path. Raises BranchNotFoundError: somebody else has, or has deleted it."""
    try:
        store.io.rename(store.paths.branch_dir(name), target)
    except FileNotFoundError as error:
        raise BranchNotFoundError(f"the branch {name!r} was deleted or renamed just now", path=store.root) from error
