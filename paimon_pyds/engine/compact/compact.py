"""Compact: merge small data files, drop deleted rows, and order rows on request, in one COMPACT snapshot.

The rows of a table stay the same; their files become fewer, of the current schema, with fresh statistics and indexes.
Files are picked as Java Paimon 1.4 picks them (see `paimon_pyds.engine.compact.append_plan`), and groups of them are
rewritten independently. A group one of whose files another commit removed, or deleted rows of, is given up and tried
again on the newest snapshot, while the others are published. (Sources: Paimon documentation,
maintenance/dedicated-compaction and append-table; its procedure ``compact``.)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Set
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import Summary, rewritten_text, summary_text
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unfinished, removing_unpublished
from paimon_pyds.engine.compact.append_plan import Group, Plan, plan_compaction
from paimon_pyds.engine.compact.key_plan import plan_key_compaction
from paimon_pyds.engine.compact.key_task import MergeTask, merge_tasks
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.compact.publish import check_gone, publish, remove
from paimon_pyds.engine.compact.ranges import run_tasks
from paimon_pyds.engine.compact.small_buckets import SmallBuckets, joined_tasks, merge_joined
from paimon_pyds.engine.compact.task import CompactResult, compact_tasks
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.scan.planned_files import has_stray_vectors
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    from paimon_pyds.engine.compact.postpone import TakenIn


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CompactSummary(Summary):
    """What a compaction did, or would do.

    Attributes:
        snapshot_id: the last snapshot it published; None when there was nothing to do, and for a dry run.
        files: live data files looked at.
        groups: groups of files that were rewritten.
        groups_skipped: groups given up, as other commits changed their files again and again.
        files_before, files_after: data files that went, and those that came; a dry run does not know the latter (0).
        rows: rows in the new files.
        rows_dropped: rows that the new files do not have any more: deleted ones, and older versions of others.
        bytes_before, bytes_after: size of the data files that went and came.
        seconds: time taken, the commit included.
        attempts: how often groups were rewritten: 1 unless other commits came in between.
        dry_run: nothing was written.
    """

    snapshot_id: int | None = None
    files: int = 0
    groups: int = 0
    groups_skipped: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    rows_dropped: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    attempts: int = 0
    dry_run: bool = False

    def __str__(self) -> str:
        files, size = (self.files_before, self.files_after), (self.bytes_before, self.bytes_after)
        parts = [
            rewritten_text(files, size, self.rows, dry_run=self.dry_run)
            if self.files_before
            else f"nothing to do with {counted(self.files, 'file')}",
            f"{counted(self.rows_dropped, 'row')} dropped" if self.rows_dropped else "",
            f"{counted(self.groups_skipped, 'group')} skipped" if self.groups_skipped else "",
            f"attempt {self.attempts}" if self.attempts > 1 else "",
        ]
        return summary_text(self.snapshot_id, parts, self.seconds)


def compact(store: TableStore, options: CompactOptions, executor: Executor | None = None) -> CompactSummary:
    """Merge small files, and drop deleted rows where their share passes ``compaction.delete-ratio-threshold``.

    In tables with a primary key, merge sorted runs.

    Raises:
        OptionError: ``where`` names other columns than partition columns, or ``order_by`` columns without order.
        UnsupportedError: a table that can't be written to or compacted.
        CorruptFileError: a data file is damaged; the table is as it was.
        CommitError: not published; what was written was removed again.
    """
    started = time.perf_counter()
    if not options.dry_run:
        apply_stray_vectors(store, store.latest_snapshot(), executor)
    schema, waiting = store.latest_schema(), None
    if TableOptions(schema.options).get("data-evolution.enabled"):
        return replace(_of_row_groups(store, options, executor), seconds=time.perf_counter() - started)
    if schema.primary_keys and TableOptions(schema.options).get("bucket") == POSTPONE_BUCKET:
        from paimon_pyds.engine.compact.postpone import take_in  # other tables do without

        waiting = take_in(store, options, executor)
    run = _Run(store, executor or LocalExecutor())
    run.repeat(options)
    summary = run.summary() if waiting is None else _with_taken_in(run.summary(), waiting)
    return replace(summary, seconds=time.perf_counter() - started, dry_run=options.dry_run)


def _of_row_groups(store: TableStore, options: CompactOptions, executor: Executor | None) -> CompactSummary:
    from paimon_pyds.engine.compact.row_groups import compact_row_groups  # other tables do without

    done = compact_row_groups(store, options, executor or LocalExecutor())
    return CompactSummary(
        snapshot_id=None if done.snapshot is None else done.snapshot.id,
        files=done.files,
        groups=done.runs,
        groups_skipped=done.skipped,
        files_before=done.before.num_rows,
        files_after=len(done.after),
        rows=done.rows,
        bytes_before=pc.sum(done.before["file_size"]).as_py() or 0,
        bytes_after=sum(file.file_size for file in done.after),
        attempts=done.attempts,
        dry_run=options.dry_run,
    )


def _with_taken_in(done: CompactSummary, waiting: TakenIn) -> CompactSummary:
    """A summary with the files that waited for their buckets; those of a partition are a group."""
    entries = waiting.entries
    rows, size = (pc.sum(entries[name]).as_py() or 0 for name in ("row_count", "file_size"))
    files = [file for bucket in waiting.buckets for file in bucket.files]
    return replace(
        done,
        snapshot_id=waiting.snapshot.id if done.snapshot_id is None and waiting.snapshot else done.snapshot_id,
        files=done.files + entries.num_rows,
        groups=done.groups + len(entries["partition"].unique()),
        files_before=done.files_before + entries.num_rows,
        files_after=done.files_after + len(files),
        rows=done.rows + (sum(file.row_count for file in files) if files else rows),
        bytes_before=done.bytes_before + size,
        bytes_after=done.bytes_after + sum(file.file_size for file in files),
        attempts=max(done.attempts, waiting.attempts),
    )


def apply_stray_vectors(store: TableStore, snapshot: Snapshot | None, executor: Executor | None = None) -> None:
    """Make all readers see the same rows of an append table that has vectors while ``deletion-vectors.enabled`` is off.

    Java Paimon passes over the vectors then, and gives the deleted rows back. The files that have one are written anew
    without these rows, as a snapshot of its own; a warning says so, or why it could not be done: what an operation has
    published before is not undone.
    """
    try:
        if not has_stray_vectors(store, snapshot, lambda: TableOptions(store.latest_schema().options)):
            return
        schema = store.latest_schema()
        if schema.primary_keys:  # they hide older versions, which merging leaves out, too
            return
        if TableOptions(schema.options).get("data-evolution.enabled"):  # rows keep their places there
            return
    except (PaimonError, OSError):  # an operation that was published has not failed; the next one looks again
        return
    state = f"{store.root} has deletion vectors, and deletion-vectors.enabled is off: Java Paimon gives their rows back"
    run = _Run(store, executor or LocalExecutor())
    try:
        run.repeat(CompactOptions(), vectors_only=True)
    except PaimonError as error:
        warnings.warn(f"{state}, and they could not be dropped: {error}", stacklevel=3)
        return
    warnings.warn(f"{state}, so {run.summary().rows_dropped} of them were dropped for good", stacklevel=3)


def compact_buckets(
    store: TableStore, buckets: Set[PartitionBucket], options: CompactOptions, executor: Executor | None
) -> int:
    """Compact some buckets; how many of them were given up, as other commits changed their files again and again."""
    run = _Run(store, executor or LocalExecutor())
    run.repeat(options, buckets)
    return run.skipped


@dataclass(slots=True)
class _Run:
    """One call: what it works with, and what it has done so far."""

    store: TableStore
    executor: Executor
    files: int = 0
    attempts: int = 0
    skipped: int = 0
    snapshot: Snapshot | None = None
    done: list[tuple[Group, int, int]] = field(default_factory=list)
    """Groups that were rewritten, with the rows that were deleted and those that are left."""
    new_files: list[DataFile] = field(default_factory=list)

    def repeat(
        self, options: CompactOptions, buckets: Set[PartitionBucket] | None = None, *, vectors_only: bool = False
    ) -> None:
        """Compact these buckets or all; groups that conflict with other commits are tried again."""
        left = buckets

        def once(_: Snapshot | None, retries: Retries) -> None:
            nonlocal left
            while True:
                plan = self.plan(options, left, vectors_only=vectors_only)
                retries.go_by(plan.context.options)
                self.files = self.files or plan.entries.num_rows
                left = self.dry(plan) if options.dry_run else self.once(plan)
                if not left or retries.exhausted:
                    return
                retries.next()

        on_newest(self.store, once, options.options)

    def plan(self, options: CompactOptions, buckets: Set[PartitionBucket] | None, *, vectors_only: bool) -> Plan:
        """The plan on the newest snapshot."""
        with phase("planning"):
            if self.store.latest_schema().primary_keys:
                return plan_key_compaction(self.store, options, buckets)
            return plan_compaction(self.store, options, buckets, vectors_only=vectors_only)

    def dry(self, plan: Plan) -> set[PartitionBucket]:
        """Count the groups as done; nothing is left to do."""
        for group in plan.groups:
            rows = sum(file.rows for file in group.rewritten)
            deleted = sum(file.deleted or 0 for file in group.rewritten)
            self.done.append((group, deleted, rows - deleted))
        return set()

    def once(self, plan: Plan) -> set[PartitionBucket]:
        """Rewrite and publish the groups; the buckets of those that have to be tried again."""
        self.skipped = 0
        if not plan.groups:
            return set()
        self.attempts += 1
        results = self.rewrite(plan)
        plan = plan.rewriting_older({result.number: result.older for result in results if result.older})
        with phase("committing"), removing_unpublished(partial(remove, self.store.io, results)):
            written = [r for r in results if r.gone is None]
            check_gone(self.store, plan, [r for r in results if r.gone is not None])
            snapshot, published = publish(self.store, plan, written)
        self.snapshot = snapshot or self.snapshot
        for result in published:
            group = plan.groups[result.number]
            rows = sum(file.rows for file in group.rewritten)
            self.done.append((group, rows - result.rows, result.rows))
            self.new_files += result.bucket.files
        left = {r.number for r in results} - {r.number for r in published}
        self.skipped = len(left)
        return {plan.groups[number].key for number in left}

    def rewrite(self, plan: Plan) -> list[CompactResult]:
        """All results; on an error, or an interrupt, what was written is removed."""
        results: list[CompactResult] = []
        with removing_unfinished(partial(remove, self.store.io, results)):
            if plan.schema.primary_keys:
                tasks = joined_tasks(merge_tasks(self.store, plan))
                for some in mapped(self.executor, "rewriting", merge_joined, tasks, _rewritten):
                    results.extend(some)
            else:
                results.extend(run_tasks(self.executor, compact_tasks(self.store, plan)))
        return results

    def summary(self) -> CompactSummary:
        """A summary of the work so far."""
        files = [file for group, _, _ in self.done for file in group.files]
        upgraded = [file for group, _, _ in self.done for file in group.upgraded]
        return CompactSummary(
            snapshot_id=None if self.snapshot is None else self.snapshot.id,
            files=self.files,
            groups=len(self.done),
            groups_skipped=self.skipped,
            files_before=len(files),
            files_after=len(self.new_files) + len(upgraded),
            rows=sum(live for _, _, live in self.done),
            rows_dropped=sum(deleted for _, deleted, _ in self.done),
            bytes_before=sum(file.size for file in files),
            bytes_after=sum(file.file_size for file in self.new_files) + sum(file.size for file in upgraded),
            attempts=self.attempts,
        )


def _rewritten(task: MergeTask | SmallBuckets) -> list[PlannedFile]:
    return task.rewritten()
