"""The tags of a table: names that keep a state readable."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import option_texts
from paimon_pyds.base.progress import shown
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.namespaces.namespace import Namespace

if TYPE_CHECKING:
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.typing import OptionValues, Progress


class Tags(Namespace):
    """Tags of a table: ``table.tags``."""

    def list(self) -> dict[str, Snapshot]:
        """Tags by name.

        Returns:
            Their snapshots by the tags' names.
        """
        return self._store.tags()

    def create(  # noqa: PLR0913 - named arguments that users type
        self,
        name: str,
        snapshot: int | None = None,
        timestamp: date | str | int | None = None,
        retain: str | timedelta | None = None,
        replace: bool = False,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Snapshot:
        """Keep a state of the table readable under a name: that of the newest snapshot, or the one that is named.

        Args:
            name: of the tag.
            snapshot: its number; one that has expired works while another tag has it.
            timestamp: the state of this time, as `Table.scan` takes it.
            retain: for how long the tag lives, such as ``"7 d"``: then `expire`, or a commit, deletes it. By
                default as ``tag.default-time-retained`` says, or until `delete`.
            replace: a tag of this name may be there, and names this state from now on; what only it needed goes.
            dry_run: only look whether it can be done, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            The snapshot that the tag keeps.

        Raises:
            AlreadyExistsError: the tag exists, and ``replace`` is False.
            SnapshotNotFoundError: the snapshot is not there, or expires just now; no tag is made.
            CommitError: the table is purged just now; no tag is made.
            OptionError: the name is not valid, or arguments contradict each other.
            StorageError: the tag was created, but not its success file; replace the tag.
        """
        from paimon_pyds.ops.maintenance.tags import TagOptions, create_tag

        with shown("create tag", progress):
            made = create_tag(self._store, name, TagOptions(snapshot, timestamp, retain, replace, dry_run))
            self._publish()
        return made

    def rename(self, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot:
        """Give a tag another name; the snapshot that it keeps.

        Args:
            name: of the tag.
            new_name: what it is called from now on.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            The snapshot that the tag keeps.

        Raises:
            TagNotFoundError: no such tag.
            AlreadyExistsError: the new name is taken.
            OptionError: the new name is not valid.
        """
        from paimon_pyds.ops.maintenance.tags import rename_tag

        renamed = rename_tag(self._store, name, new_name, dry_run=dry_run)
        self._publish()
        return renamed

    def delete(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Delete a tag; where its snapshot has expired, also the files that only it needed.

        Args:
            name: of the tag.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            TagNotFoundError: no such tag.
            NotFoundError: other tags or branches are damaged.
        """
        from paimon_pyds.ops.maintenance.tags import delete_tag

        with shown("delete tag", progress):
            removed = delete_tag(self._store, name, dry_run=dry_run)
            self._publish()
        return removed

    def expire(
        self,
        older_than: timedelta | date | str | int | None = None,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Delete the tags that have outlived what they were made with, and those made before a time.

        Args:
            older_than: a time, as `Table.scan` takes it, or an age, such as ``"7 days"``.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            NotFoundError: other tags or branches are damaged.
        """
        from paimon_pyds.ops.maintenance.tags import expire_tags

        with shown("expire tags", progress):
            return expire_tags(self._store, older_than, dry_run=dry_run)

    def create_due(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> tuple[str, ...]:
        """Make the tags that ``tag.automatic-creation`` prescribes and that are due, as each commit does.

        For tables that are ``write-only``, whose commits leave it to other jobs.

        Args:
            options: table options for this run, such as ``{"tag.automatic-creation": "process-time"}``.
            dry_run: only report which, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            Their names.

        Raises:
            OptionError: the delay is as long as the period, or the time zone is unknown.
        """
        from paimon_pyds.ops.maintenance.expire import maintenance_options
        from paimon_pyds.ops.maintenance.tag_creation import create_due_tags

        with shown("create tags", progress):
            store = self._store
            return tuple(create_due_tags(store, maintenance_options(store, option_texts(options)), dry_run=dry_run))
