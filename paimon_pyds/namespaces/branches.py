"""The branches of a table: histories of their own."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from paimon_pyds.base.progress import shown
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.namespaces.namespace import Namespace

if TYPE_CHECKING:
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.typing import Progress


class Branches(Namespace):
    """Branches of a table: ``table.branches``."""

    def list(self) -> builtins.list[str]:
        """Names of branches besides main.

        Returns:
            Their names, in alphabetical order.
        """
        return builtins.list(self._store.branches())

    def create(
        self, name: str, tag: str | None = None, *, ignore_if_exists: bool = False, dry_run: bool = False
    ) -> Snapshot | None:
        """Make a branch, a history of its own: ``Table.open(path, branch=name)`` reads and writes it.

        Args:
            name: of the branch.
            tag: the branch begins with its rows; without one, with none.
            ignore_if_exists: a branch of this name stays as it is.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            The snapshot that the branch begins with.

        Raises:
            AlreadyExistsError: the branch exists, and ``ignore_if_exists`` is False.
            TagNotFoundError: no such tag.
            OptionError: the name is not valid.
        """
        from paimon_pyds.ops.maintenance.branches import create_branch

        return create_branch(self._store, name, tag, ignore_if_exists=ignore_if_exists, dry_run=dry_run)

    def rename(self, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot | None:
        """Give a branch another name; its newest snapshot.

        Args:
            name: of the branch.
            new_name: what it is called from now on.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            The newest snapshot of the branch; None for an empty one.

        Raises:
            BranchNotFoundError: no such branch.
            AlreadyExistsError: the new name is taken.
            OptionError: the new name is not valid, or options of the table name the branch.
            UnsupportedError: the table is in an object store, which can't rename it in one step.
        """
        from paimon_pyds.ops.maintenance.branches import rename_branch

        return rename_branch(self._store, name, new_name, dry_run=dry_run)

    def delete(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Delete a branch, and the files that only it needed.

        Args:
            name: of the branch.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            BranchNotFoundError: no such branch, or it is the main one.
            OptionError: options of the table name it, or it is the branch of this table.
            CommitError: the main branch is being fast-forwarded to it.
        """
        from paimon_pyds.ops.maintenance.branches import delete_branch

        with shown("delete branch", progress):
            return delete_branch(self._store, name, dry_run=dry_run)

    def fast_forward(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Take over a branch's history: what was committed here since the branch was made goes. No one may write here
        meanwhile; see `paimon_pyds.ops.maintenance.fast_forward.fast_forward`.

        Args:
            name: of the branch.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            BranchNotFoundError: no such branch, or it is the main one.
            SnapshotNotFoundError: nothing was committed to the branch.
            CommitConflictError: others wrote to the main branch meanwhile; nothing was changed.
            CommitError: snapshots of one of the branches are being removed; nothing was changed.
            OptionError: it is the branch of this table.
        """
        from paimon_pyds.ops.maintenance.fast_forward import fast_forward

        with shown("fast forward", progress):
            return fast_forward(self._store, name, dry_run=dry_run)
