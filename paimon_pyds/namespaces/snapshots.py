"""The snapshots of a table: list, compare, expire, go back to one."""

from __future__ import annotations

import builtins
from datetime import date, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import option_texts
from paimon_pyds.base.progress import shown
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.namespaces.namespace import Namespace

if TYPE_CHECKING:
    from paimon_pyds.ops.maintenance.diff import StateName, TableDiff
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.typing import OptionValues, Progress


class Snapshots(Namespace):
    """Snapshots of a table: ``table.snapshots``."""

    def list(self) -> builtins.list[Snapshot]:
        """All snapshots there are, oldest first.

        ``total_record_count`` of each counts stored rows; ``row_count`` is how many rows a read gives, None where only
        `Table.count` finds out, as in tables with a primary key.

        Returns:
            The snapshots, in the order of their numbers.
        """
        from paimon_pyds.engine.scan.known_rows import with_row_count

        store = self._store
        schema = store.latest_schema()
        return [with_row_count(schema, snapshot) for snapshot in store.snapshots()]

    def latest(self) -> Snapshot | None:
        """The latest snapshot, as in `list`; None for a table that was never written."""
        from paimon_pyds.engine.scan.known_rows import with_row_count

        store = self._store
        snapshot = store.latest_snapshot()
        return None if snapshot is None else with_row_count(store.latest_schema(), snapshot)

    def rollback(
        self,
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: date | str | int | None = None,
        *,
        watermark: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Make an older state the newest: all later snapshots, changelogs and tags go, with the files that only they
        needed.

        Java leaves these files, and so does a REST catalog: ``table.maintenance.remove_orphan_files`` finds them later.
        Nobody may commit with Java meanwhile: a commit that takes longer than the rollback could need files that have
        gone.

        Args:
            snapshot: its number; text is taken for the name of a tag.
            tag: its name.
            timestamp: the state of this time, as `Table.scan` takes it.
            watermark: of the writers' events, in milliseconds since the epoch: the newest snapshot with none later.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            SnapshotNotFoundError, TagNotFoundError: no such state.
            OptionError: arguments contradict each other.
            CommitError: snapshots up to the target expire, or the table is fast-forwarded or purged, just now; nothing
                was removed.
        """
        from paimon_pyds.ops.maintenance.rollback import rollback

        with shown("roll back", progress):
            removed = rollback(self._store, snapshot, tag, timestamp, watermark, dry_run=dry_run, publish=self._publish)
            self._publish()
        return removed

    def expire(  # noqa: PLR0913 - named arguments that users type
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | date | str | int | None = None,
        dry_run: bool = False,
        *,
        max_deletes: int | None = None,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Remove old snapshots, and the files that no other snapshot, tag or branch needs.

        Without arguments as the table's options say, and as happens after each commit: ``snapshot.time-retained``,
        ``snapshot.num-retained.min`` and ``.max``. No snapshot goes that a streaming reader has yet to read. Where the
        options ``changelog.…`` keep changelogs longer, those of the snapshots stay until `expire_changelogs`.

        Args:
            retain_max: snapshots that stay at most, however young.
            retain_min: snapshots that stay at least.
            older_than: only those made before this time, as `Table.scan` takes it; or of this age, such as
                ``"7 days"``.
            dry_run: only report what would go, and change nothing; False by default.
            max_deletes: snapshots that go at most, the oldest first; all that are due by default.
            options: table options for this run, such as ``{"snapshot.clean-empty-directories": "true"}``.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            OptionError: limits contradict each other.
            NotFoundError: a tag or branch needs a file that is gone; nothing was removed.
        """
        from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_snapshots

        request = ExpireOptions(retain_max, retain_min, older_than, dry_run, option_texts(options), max_deletes)
        with shown("expire", progress):
            removed = expire_snapshots(self._store, request)
            self._publish()
        return removed

    def expire_changelogs(  # noqa: PLR0913 - named arguments that users type
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | date | str | int | None = None,
        dry_run: bool = False,
        *,
        max_deletes: int | None = None,
        everything: bool = False,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Remove old changelogs of snapshots that have expired, and the files that only these need.

        Without arguments as the table's options say, and as happens after each commit: ``changelog.time-retained``,
        ``changelog.num-retained.min`` and ``.max``. The last one stays, and those that a streaming reader has to read.

        Args:
            retain_max: snapshots and changelogs that stay at most, however young.
            retain_min: snapshots and changelogs that stay at least.
            older_than: as for `expire`.
            dry_run: only report what would go, and change nothing; False by default.
            max_deletes: changelogs that go at most, the oldest first; all that are due by default.
            everything: all go that no streaming reader has to read, also the last one.
            options: table options for this run.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            OptionError: limits contradict each other.
            NotFoundError: a tag or branch needs a file that is gone; nothing was removed.
        """
        from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_changelogs

        request = ExpireOptions(retain_max, retain_min, older_than, dry_run, option_texts(options), max_deletes)
        with shown("expire", progress):
            return expire_changelogs(self._store, request, everything=everything)

    def diff(self, a: StateName, b: StateName | None = None) -> TableDiff:
        """What makes state ``b`` of state ``a``: rows, columns, options and files.

        ``print(table.snapshots.diff(3).summary())`` shows it in numbers; ``to_arrow``, ``to_batches`` and ``to_reader``
        give the rows, with their kinds. Without a primary key, all ``-D`` come before all ``+I``, each in the order of
        a scan.

        Args:
            a: the number of a snapshot, the name of a tag, or a datetime for the state of that time.
            b: the same; the newest state by default.

        Returns:
            A `TableDiff`; rows are read when they are taken from it.

        Raises:
            SnapshotNotFoundError, TagNotFoundError: no such state.
            UnsupportedError: a table or option that is refused by name.
        """
        from paimon_pyds.ops.maintenance.diff import TableDiff

        return TableDiff(self._store, a, b)
