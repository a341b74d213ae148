"""Operations that keep a table sound and small."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.options.option import mapping, option_texts, path_like, texts
from paimon_pyds.base.progress import shown
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.namespaces.namespace import Namespace
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from paimon_pyds.engine.execution.executor import Executor
    from paimon_pyds.metadata.statistics import Statistics
    from paimon_pyds.ops.maintenance.clone import CloneSummary
    from paimon_pyds.ops.maintenance.compact_manifests import ManifestSummary
    from paimon_pyds.ops.maintenance.findings import RepairPlan, Verification
    from paimon_pyds.ops.maintenance.orphans import OrphanFiles
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.ops.maintenance.repair import Repair, UnexistingFiles
    from paimon_pyds.ops.rescale.rescale import RescaleSummary
    from paimon_pyds.typing import Filter, OptionValues, Progress


class Maintenance(Namespace):
    """Checks, repairs and housekeeping of a table: ``table.maintenance``."""

    def verify(
        self, deep: bool = False, *, executor: Executor | None = None, progress: Progress | None = None
    ) -> Verification:
        """Look for damage: of snapshots, tags, branches, manifests, data files and indexes. Nothing is changed.

        Finds all faults, and does not raise for them: ``print(table.maintenance.verify())`` says of each what to do.

        Args:
            deep: also read all data: statistics, file indexes, the order of keys, the place of each row.
            executor: where files are looked at; this machine by default.
            progress: as for `Table.append`.

        Returns:
            A `Verification`: its ``ok``, and ``findings`` with kind, path and what to do.

        Raises:
            TableNotFoundError, BranchNotFoundError: the table is gone.
        """
        from paimon_pyds.ops.maintenance.verify import verify

        with shown("verify", progress):
            return verify(self._store, deep=deep, executor=executor)

    def repair(
        self,
        plan: RepairPlan | Verification | None = None,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> Repair | RepairPlan:
        """Mend what can be mended without a guess of what `verify` finds: dangling hints, file indexes of the newest
        state, an expiry that was killed. ``print`` says of all else what to do.

        Args:
            plan: ``table.maintenance.verify(…).repair_plan()``; found out here by default.
            dry_run: only return the plan, and change nothing; False by default.
            executor: where the work runs; this machine by default.
            progress: as for `Table.append`.

        Returns:
            A `Repair`: the findings that were mended, and the others; the `RepairPlan` of a dry run.

        Raises:
            CommitError: indexes could not be published; other repairs stay done.
        """
        from paimon_pyds.ops.maintenance.repair import promised, repair

        with shown("repair", progress):
            plan = self.verify(executor=executor) if plan is None else plan
            return promised(self._store, plan) if dry_run else repair(self._store, plan, executor=executor)

    def remove_orphan_files(
        self,
        older_than: timedelta | date | str | int = "1 day",
        dry_run: bool = False,
        *,
        external: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> OrphanFiles:
        """Find files in the table's directories that no snapshot, tag, branch or changelog names, and remove them.

        Writers that were killed leave such files. One that is being written looks the same: choose an age that no write
        reaches. ``print(table.maintenance.remove_orphan_files(dry_run=True).files)`` lists what would go. Directories
        that are links are not entered.

        Args:
            older_than: an age, such as ``"12 h"`` or a timedelta, or the time of the last change, as `Table.scan` takes
                it.
            dry_run: only find them, and change nothing; False by default.
            external: also look in the directories of ``data-file.external-paths``. Only right where no other table
                uses them.
            executor: where directories are listed and manifests are read; this machine by default.
            progress: as for `Table.append`.

        Returns:
            An `OrphanFiles`: its ``files`` is a table of paths and sizes.

        Raises:
            OptionError: ``older_than`` is in the future.
            NotFoundError: a snapshot, tag or branch needs a file that is gone: nothing was removed.
            CorruptFileError: metadata is damaged: nothing was removed.
            SecurityError: an external path that is not allowed, or is another table: nothing was removed.
        """
        from paimon_pyds.ops.maintenance.orphans import remove_orphan_files

        with shown("find orphans", progress):
            return remove_orphan_files(self._store, older_than, dry_run=dry_run, external=external, executor=executor)

    def remove_unexisting_files(self, dry_run: bool = False, *, progress: Progress | None = None) -> UnexistingFiles:
        """Take the entries of data files that are gone out of the newest state, so that the others can be read: the
        rows in these files are lost. As Java's procedure of that name.

        Args:
            dry_run: only report which files, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            An `UnexistingFiles`: the files, and how many rows are lost.

        Raises:
            CommitError: not published; the table is as it was.
            CorruptFileError, SnapshotNotFoundError: deletion vectors that share a file with those of missing files
                can't be read.
            StorageError: the storage does not answer whether a file exists.
        """
        from paimon_pyds.ops.maintenance.repair import remove_unexisting_files

        with shown("look for missing files", progress):
            return remove_unexisting_files(self._store, dry_run=dry_run)

    def purge(
        self, confirm: str = "", *, named_states: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> RemovalSummary:
        """Remove all rows, snapshots and files for good; columns and options stay.

        Files of the last day that nothing names stay, as a writer may be about to commit them: see
        `remove_orphan_files`.

        Args:
            confirm: the name of the table, the last part of its path: without it nothing is done.
            named_states: also remove tags and branches, with what they keep; while there are some, it is refused.
            dry_run: only report what would go, and change nothing; False by default. It needs no confirmation.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            OptionError: ``confirm`` is not the name of the table, or an option names a branch.
            UnsupportedError: this is a branch of the table; or it has tags or branches. Nothing was removed.
            CommitError: the table is being rolled back or fast-forwarded. Nothing was removed.
        """
        from paimon_pyds.ops.maintenance.purge import purge

        with shown("purge", progress):
            return purge(self._store, confirm, named_states=named_states, dry_run=dry_run)

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        options: OptionValues | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Statistics | None:
        """Make statistics, as ``ANALYZE TABLE … COMPUTE STATISTICS FOR COLUMNS`` does: one ANALYZE snapshot.

        They serve Java's optimizers, such as Spark's join orders. As long as nothing is committed after them, they
        count the rows of a table with a primary key here, too, and spare the manifests to filters that no row matches.

        Args:
            columns: what to read; all columns but nested ones when None, with ``[]`` the rows are only counted.
            options: table options for this run.
            dry_run: only give what is found, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            What was found; None for a table without a snapshot.

        Raises:
            SchemaError: no such column.
            UnsupportedError: columns of that type have no statistics, or the table can't be written to.
            CommitConflictError: the schema was changed meanwhile, or the snapshot rolled back, again and again.
        """
        from paimon_pyds.engine.scan.other_branch import ALONE
        from paimon_pyds.ops.maintenance.analyze import analyze

        with shown("analyze", progress):
            names = None if columns is None else texts("columns", columns)
            found, snapshot = analyze(
                self._store,
                lambda: self._table.scan(options={"scan.mode": "latest-full", **ALONE}),
                names,
                option_texts(options),
                dry_run=dry_run,
            )
            self._maintain(None if snapshot is None else snapshot.id, options)
        return found

    def publish_iceberg(self, options: OptionValues | None = None) -> int | None:
        """Write Iceberg metadata of the newest snapshot, so that Iceberg's readers can read it.

        Tables with the option ``metadata.iceberg.storage`` publish each commit by themselves. Others are published as
        they are at this call, into their directory ``metadata``.

        Args:
            options: table options for this run, such as ``{"metadata.iceberg.format-version": 3}``.

        Returns:
            The number of the snapshot that Iceberg's readers see; None for a branch, and for a table without snapshots.

        Raises:
            UnsupportedError: Iceberg's readers could not read the table rightly, such as one with ORC files.
            OptionError: an unknown option.
        """
        from paimon_pyds.ops.iceberg.publish import publish

        return publish(self._store, option_texts(options), always=True)

    def statistics(self) -> Statistics | None:
        """The statistics of the newest snapshot; None where `analyze`, or Java, has made none since the last change of
        the schema."""
        from paimon_pyds.metadata.statistics import read_statistics

        return read_statistics(self._store, self._table.snapshots.latest())

    def clone(  # noqa: PLR0913 - named arguments that users type
        self,
        target: str | os.PathLike[str],
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: date | str | int | None = None,
        *,
        where: Filter = None,
        dry_run: bool = False,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> CloneSummary:
        """Copy one state of the table, with all its files, to an empty place: a table of its own, with one snapshot.

        Args:
            target: where the copy will be.
            snapshot: the number of the state; the newest by default. Text is taken for the name of a tag.
            tag: its name.
            timestamp: the state of this time, as `Table.scan` takes it.
            where: a condition on partition columns: only those partitions are copied.
            dry_run: only report how much would be copied, and change nothing; False by default.
            storage_options: of that place.
            progress: as for `Table.append`.
            filter: another name for ``where``.

        Returns:
            A `CloneSummary`: snapshot, files and bytes.

        Raises:
            AlreadyExistsError: ``target`` is not empty.
            OptionError: ``target`` is in the table, arguments contradict each other, or ``where`` names other columns
                than partition columns.
            SnapshotNotFoundError: no such state, or it expired while it was copied; nothing is left of the copy.
            StorageError: a file could not be copied; nothing is left of the copy.
        """
        from paimon_pyds.ops.maintenance.clone import CloneOptions, clone
        from paimon_pyds.storage import open_file_io

        copy = TableStore(*open_file_io(path_like("target", target), mapping("storage_options", storage_options or {})))
        how = CloneOptions(snapshot, tag, timestamp, dry_run, one_condition(where, filter))
        with shown("clone", progress):
            return clone(self._store, copy, how)

    def consumers(self) -> dict[str, int]:
        """The snapshot that each streaming reader reads next: it stays, and so do later ones.

        Returns:
            The number of that snapshot by the reader's ``consumer-id``; by ``ID.retained`` an earlier one that a
            reader of this package still needs.

        Raises:
            CorruptFileError: a consumer's file has no number.
        """
        from paimon_pyds.metadata.consumers import consumers

        return consumers(self._store)

    def reset_consumer(self, name: str, next_snapshot: int | None = None, *, dry_run: bool = False) -> int | None:
        """Set which snapshot a streaming reader reads next, or forget the reader, as Java's procedure of that name.
        Stop the reader before: it writes its own position again.

        Args:
            name: of the reader, its ``consumer-id``.
            next_snapshot: a snapshot that is there, or the number of the next one; without it the reader is forgotten.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            What it would have read next; None where it was not known.

        Raises:
            NotFoundError: the reader to forget is unknown.
            SnapshotNotFoundError: the snapshot is not there, or expires just now; the position stays as it was.
            OptionError: the name is not valid.
        """
        from paimon_pyds.ops.maintenance.consumers import reset_consumer

        return reset_consumer(self._store, name, next_snapshot, dry_run=dry_run)

    def clear_consumers(
        self, including: str | None = None, excluding: str | None = None, *, dry_run: bool = False
    ) -> RemovalSummary:
        """Forget streaming readers, so that the snapshots that they have not read can expire.

        Args:
            including: a regular expression that whole names match; all by default.
            excluding: one for those that stay.
            dry_run: only report which, and change nothing; False by default.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            OptionError: a name is no regular expression.
        """
        from paimon_pyds.ops.maintenance.consumers import clear_consumers

        return clear_consumers(self._store, including, excluding, dry_run=dry_run)

    def compact_manifests(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> ManifestSummary:
        """Write the manifests anew, without deleted entries, as one COMPACT snapshot, so that plans read less.

        Commits merge manifests now and then by themselves. Nothing is done where there would be no fewer of them.

        Args:
            options: table options for this run, such as ``{"manifest.target-file-size": "16 mb"}``.
            dry_run: only report how many would be written anew, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `ManifestSummary`: manifests before and after, and the snapshot; None for it where nothing was done.

        Raises:
            UnsupportedError: the table can't be written to.
            CommitError: not published.
        """
        from paimon_pyds.ops.maintenance.compact_manifests import compact_manifests

        with shown("compact manifests", progress):
            summary = compact_manifests(self._store, option_texts(options), dry_run=dry_run)
            self._maintain(summary.snapshot_id, options)
        return summary

    def expire_partitions(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> RemovalSummary:
        """Delete the partitions older than ``partition.expiration-time``, by their values or by their last change.

        Args:
            options: table options for this run, such as ``{"partition.expiration-time": "30 d"}``.
            dry_run: only report which, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            A `RemovalSummary`: what was removed, or would be by a dry run.

        Raises:
            OptionError: the table has no partitions, or no ``partition.expiration-time``, or an unknown strategy or
                format.
            CommitError: not published.
        """
        from paimon_pyds.ops.maintenance.expire_partitions import expire_partitions

        with shown("expire partitions", progress):
            summary = expire_partitions(self._store, option_texts(options), dry_run=dry_run)
            gone = summary.partitions and not dry_run
            self._maintain(self._store.latest_snapshot_id() if gone else None, options)
        return summary

    def drop_partitions(
        self,
        where: Filter | Mapping[str, Any] | Sequence[Mapping[str, Any]] = None,
        *,
        options: OptionValues | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> RemovalSummary:
        """Delete the rows of some partitions, as one snapshot; older snapshots still have them.

        Args:
            where: a condition on partition columns, such as ``"day < '2026-01-01'"``, or values of some or all of
                these, such as ``[{"day": "2026-01-31"}]``, where None is NULL. It has to be given.
            options: table options for this run.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `Table.append`.
            filter: another name for ``where``.

        Returns:
            What left the newest state, as for `Table.truncate`.

        Raises:
            OptionError: the table has no partitions, no condition, or one on other columns.
            CommitError: not published.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import drop_partitions

        where = one_condition(where, filter)
        with shown("drop partitions", progress):
            summary, snapshot = drop_partitions(self._store, where, option_texts(options), dry_run=dry_run)
            self._maintain(None if snapshot is None else snapshot.id, options)
        return summary

    def mark_partitions_done(
        self,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> tuple[str, ...]:
        """Tell jobs that wait for partitions that these are complete, by a file ``_SUCCESS`` in their directories.

        Args:
            partitions: a value for each partition column, such as ``[{"day": "2026-01-31"}]``.
            dry_run: only give the directories, and change nothing; False by default.
            progress: as for `Table.append`.

        Returns:
            The directories, such as ``day=2026-01-31``.

        Raises:
            OptionError: no partitions, other columns, or a column without a value.
            UnsupportedError: an action that needs a metastore, a web service or a class of Java's.
            StorageError: a file could not be written; mark them again.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import mark_partitions_done

        with shown("mark partitions", progress):
            return mark_partitions_done(self._store, partitions, dry_run=dry_run)

    def rescale(  # noqa: PLR0913 - named arguments that users type
        self,
        bucket_num: int | None = None,
        where: Filter = None,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
        filter: Filter = None,
    ) -> RescaleSummary:
        """Write partitions anew with another number of buckets: one OVERWRITE snapshot; the rows stay the same.

        The option ``bucket`` says afterwards how many, where all partitions are rescaled. With ``where`` it stays:
        into partitions that have another number than it says nothing is written until they are rescaled, so alter it
        first to the number that new partitions get, too.

        Args:
            bucket_num: how many buckets; as many as the option ``bucket`` says when None.
            where: a condition on partition columns; all partitions when None.
            dry_run: only report what would be written anew, and change nothing; False by default.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `Table.append`.
            options: table options for this run, such as ``{"target-file-size": "512 mb"}``.
            filter: another name for ``where``.

        Returns:
            A `RescaleSummary`: partitions, files and rows, and the snapshot; None for it where nothing was done.

        Raises:
            OptionError: the table can't have this number of buckets, or ``where`` names other columns than partition
                columns.
            UnsupportedError: the table has no fixed buckets, or can't be written to or compacted.
            CorruptFileError: a data file is damaged; the table is as it was.
            CommitConflictError: other commits changed the partitions again and again; the table is as it was.
            CommitError: not published; the new files were removed.
        """
        from paimon_pyds.ops.rescale.rescale import RescaleOptions, rescale

        how = RescaleOptions(bucket_num, one_condition(where, filter), dry_run, option_texts(options))
        with shown("rescale", progress):
            summary = rescale(self._store, how, executor)
            self._maintain(summary.snapshot_id, options)
        return summary
