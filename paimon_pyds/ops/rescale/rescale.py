"""Rescale: partitions are written anew with another number of buckets, as one OVERWRITE snapshot.

The rows stay the same. Those of a table with a primary key are merged, as a full compaction does it, and become one
sorted run a bucket on the highest level, with the sequence numbers that they have; deleted rows and versions that
others replaced are left out, and file indexes are built.

A row is in bucket ``abs(hash % n)``. So the rows of old buckets that are alike modulo ``g``, the greatest common
divisor of the old and the new number, are those of the new buckets that are alike modulo ``g``, and each of these
classes is rewritten by itself. Where rows were hashed otherwise before, all buckets of a partition are one class.
(Sources: Paimon documentation, maintenance/rescale-bucket; its procedure ``rescale``.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.options.option import integer
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import Summary, rewritten_text, summary_text
from paimon_pyds.engine.commit import Changes, Increment, Overwrite, commit
from paimon_pyds.engine.commit.manifests import identities
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unfinished, removing_unpublished
from paimon_pyds.engine.compact.append_plan import Group, LiveFile, Plan, files_by_bucket, vectors_of
from paimon_pyds.engine.compact.compact import compact
from paimon_pyds.engine.compact.key_plan import files_by_bucket as key_files_by_bucket
from paimon_pyds.engine.compact.key_task import MergeTask, merge_tasks
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.compact.task import CompactTask, compact_tasks
from paimon_pyds.engine.compact.universal import RewritePlan, key_sections
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.execution.live_files import live_in
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.errors import CommitConflictError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.keys.bucket import bucket_shares
from paimon_pyds.keys.merge.files_to_merge import highest_level, is_clustered
from paimon_pyds.metadata.commit_message import added_entries
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.alter import alter_table
from paimon_pyds.ops.ddl.validate import validate_schema
from paimon_pyds.ops.rescale.task import RescaleResult, RescaleTask, in_own_runs, rescale_one
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage import discard

_BUCKETS_AT_ONCE = 4
"""New buckets that a task writes, at least; the rows of a class of more are read by several."""


@dataclass(frozen=True, slots=True)
class RescaleOptions:
    """The arguments of ``table.maintenance.rescale``, which explains them."""

    bucket_num: int | None = None
    where: str | Predicate | None = None
    dry_run: bool = False
    options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RescaleSummary(Summary):
    """What a rescale did, or would do.

    Attributes:
        bucket_num: the number of buckets that the partitions have now.
        snapshot_id: the snapshot it published; None when there was nothing to do, and for a dry run.
        partitions: how many were written anew; those that had the number already were left alone.
        files_before, files_after: data files that went, and those that came; a dry run does not know the latter (0).
        rows: rows in the new files.
        bytes_before, bytes_after: size of the data files that went and came.
        seconds: time taken, the commit included.
        attempts: how often the partitions were written: 1 unless other commits came in between.
        dry_run: nothing was written.
    """

    bucket_num: int
    snapshot_id: int | None = None
    partitions: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    attempts: int = 0
    dry_run: bool = False

    def __str__(self) -> str:
        files, size = (self.files_before, self.files_after), (self.bytes_before, self.bytes_after)
        buckets = counted(self.bucket_num, "bucket")
        parts = [
            f"{counted(self.partitions, 'partition')} to {buckets}" if self.partitions else f"{buckets} already",
            rewritten_text(files, size, self.rows, dry_run=self.dry_run) if self.files_before else "",
            f"attempt {self.attempts}" if self.attempts > 1 else "",
        ]
        return summary_text(self.snapshot_id, parts, self.seconds)


def rescale(store: TableStore, request: RescaleOptions, executor: Executor | None = None) -> RescaleSummary:
    """Write partitions anew with another number of buckets.

    Raises:
        OptionError: no number of buckets that the table can have, or a condition on other than partition columns.
        UnsupportedError: a table without fixed buckets, or one that can't be written to or compacted.
        CorruptFileError: a data file is damaged; the table is as it was.
        CommitConflictError: other commits changed the partitions again and again; the table is as it was.
        CommitError: not published; what was written was removed again.
    """
    started = time.perf_counter()
    run = _Run(store, request, executor or LocalExecutor())
    summary = on_newest(store, run.once, request.options)
    return replace(summary, seconds=time.perf_counter() - started, attempts=run.attempts, dry_run=request.dry_run)


@dataclass(slots=True)
class _Run:
    store: TableStore
    request: RescaleOptions
    executor: Executor
    attempts: int = 0

    def once(self, newest: Snapshot | None, _: Retries) -> RescaleSummary:
        """Plan, rewrite and publish."""
        base = self.base(newest)
        count = base.bucket_num
        names = base.plan.entries
        summary = RescaleSummary(
            bucket_num=count,
            partitions=len(base.partitions),
            files_before=names.num_rows,
            bytes_before=pc.sum(names["file_size"]).as_py() or 0,
        )
        if self.request.dry_run:
            return replace(summary, rows=pc.sum(names["row_count"]).as_py() or 0)
        if not names.num_rows:
            with _altered(self.store, base):
                return summary
        self.attempts += 1
        results = self.rewrite(base)
        with removing_unpublished(partial(_remove, self.store, results)):
            gone = next((result.gone for result in results if result.gone is not None), None)
            if gone is not None:
                base.check(self.store, self.store.latest_snapshot(), self.store.latest_schema())
                raise gone
            with _altered(self.store, base):
                snapshot = self.publish(base, results)
        files = [file for result in results for bucket in result.buckets for file in bucket.files]
        return replace(
            summary,
            snapshot_id=None if snapshot is None else snapshot.id,
            files_after=len(files),
            rows=sum(result.rows for result in results),
            bytes_after=sum(file.file_size for file in files),
        )

    def base(self, newest: Snapshot | None) -> _Base:
        """The state to start from. Changes that a changelog has not been made of yet would be lost to it: they are
        compacted first."""
        with phase("planning"):
            base = _base_of(self.store, self.request, newest)
        if not self.request.dry_run and base.has_unlogged_changes():
            where = self.request.where
            compact(self.store, CompactOptions(where, full=True, options=self.request.options), self.executor)
            base = _base_of(self.store, self.request, self.store.latest_snapshot())
            if base.has_unlogged_changes():
                raise CommitConflictError("rows were written again and again meanwhile", path=self.store.root)
        return base

    def rewrite(self, base: _Base) -> list[RescaleResult]:
        """The results of all tasks; on an error, or an interrupt, what was written is removed."""
        results = self.results(base, by_class=True)
        if any(result.misplaced for result in results):
            _remove(self.store, results)
            results = self.results(base, by_class=False)
        return results

    def results(self, base: _Base, *, by_class: bool) -> list[RescaleResult]:
        """As `_Base.tasks` divides the work."""
        results: list[RescaleResult] = []
        with removing_unfinished(partial(_remove, self.store, results)):
            tasks = base.tasks(self.store, by_class=by_class)
            results.extend(mapped(self.executor, "rewriting", rescale_one, tasks, RescaleTask.files_read))
        return results

    def publish(self, base: _Base, results: Iterable[RescaleResult]) -> Snapshot | None:
        """The snapshot that has the new files in place of all that the partitions have."""
        increment = Increment(
            kind=CommitKind.OVERWRITE,
            operation=Operation.OVERWRITE,
            replacements=added_entries((bucket, bucket.files) for result in results for bucket in result.buckets),
            overwrite=Overwrite(lambda rows: set(base.partitions.intersection(rows)), keeps_postponed=True),
            guard=_Guard(self.store, base),
        )
        return commit(self.store, Changes((increment,)), base.plan.context.options)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Partitions have to have just the files and vectors that were rewritten."""

    store: TableStore
    base: _Base

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        self.base.check(self.store, latest, schema)


def _remove(store: TableStore, results: Iterable[RescaleResult]) -> None:
    discard(store.io, (path for result in results for bucket in result.buckets for path in bucket.paths()))


@contextmanager
def _altered(store: TableStore, base: _Base) -> Iterator[None]:
    """The table's option ``bucket`` says the new number, where all partitions get it: else nothing could be written.

    It is altered just before the commit, and back again where that fails: writers go on until then. After a process
    that ended in between, writes say that the table is to be rescaled.
    """
    before = base.plan.schema.options.get("bucket")
    if base.option_after == before:
        yield
        return
    alter_table(store, {"bucket": base.bucket_num})

    def back() -> None:
        with suppress(PaimonError, OSError):  # the message of a refused write says that the table is to be rescaled
            alter_table(store, {"bucket": before})

    with removing_unpublished(back):
        yield


@dataclass(frozen=True, slots=True)
class _Base:
    """The state that is rewritten: ``plan`` has the files of ``partitions``, which have another number of buckets than
    ``bucket_num``. ``option_after`` is what the table's option ``bucket`` says afterwards."""

    request: RescaleOptions
    plan: Plan
    bucket_num: int
    partitions: frozenset[bytes]
    option_after: str | None

    def has_unlogged_changes(self) -> bool:
        """Whether a compaction would write a changelog of what these files have."""
        options = self.plan.context.options
        producer = options.get("changelog-producer")
        if not self.plan.schema.primary_keys or producer not in ("lookup", "full-compaction"):
            return False
        levels = self.plan.entries["level"]
        logged = 1 if producer == "lookup" else highest_level(options)
        return bool(pc.any(pc.less(levels, logged)).as_py())

    def check(self, store: TableStore, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raises CommitConflictError unless the partitions have just the files and vectors that were rewritten."""
        own = self.plan.schema
        bucket = {schema.options.get("bucket")} - {own.options.get("bucket"), self.option_after}
        same = all(
            getattr(schema, name) == getattr(own, name) for name in ("fields", "partition_keys", "primary_keys")
        ) and _without_bucket(schema) == _without_bucket(own)
        if bucket or not same:
            raise _conflict(store, "the table's schema was changed by another commit meanwhile")
        if latest == self.plan.snapshot:
            return
        entries = _rescaled_entries(store, self.request, own, latest, self.bucket_num)
        names = set(entries["file_name"].to_pylist())
        vectors, now = self.plan.vectors, vectors_of(store, own, latest)
        if set(identities(entries)) != set(identities(self.plan.entries)) or any(
            (vectors[name].place if name in vectors else None) != (now[name].place if name in now else None)
            for name in names
        ):
            raise _conflict(store, "partitions to rescale were changed by another commit meanwhile")

    def tasks(self, store: TableStore, *, by_class: bool) -> list[RescaleTask]:
        """The tasks that rewrite files. ``by_class``: rows are in the buckets that their keys hash to."""
        plan = replace(self.plan, groups=tuple(self._groups(store, by_class=by_class)))
        sources: Sequence[CompactTask | MergeTask]
        if plan.schema.primary_keys:
            sources = [in_own_runs(replace(task, changelog=None)) for task in merge_tasks(store, plan)]
        else:
            sources = compact_tasks(store, plan)
        tasks: list[RescaleTask] = []
        for source in sources:
            buckets = range(source.bucket.bucket, self.bucket_num, source.bucket.total_buckets)
            for share in bucket_shares(buckets, _BUCKETS_AT_ONCE):
                tasks.append(RescaleTask(len(tasks), source, share))
        return tasks

    def _groups(self, store: TableStore, *, by_class: bool) -> Iterator[Group]:
        """The files of each class as a group; its bucket is the number of the class, its total that of the classes."""
        plan, highest = self.plan, highest_level(self.plan.context.options)
        numbers: dict[bytes, int] = {}
        if by_class:  # Java lets partitions have several numbers of buckets
            pairs = zip(plan.entries["partition"].to_pylist(), plan.entries["total_buckets"].to_pylist(), strict=True)
            for partition, total in set(pairs):
                numbers[partition] = math.gcd(numbers.get(partition, self.bucket_num), total)
        keyed = bool(plan.schema.primary_keys)
        by_bucket: Mapping[tuple[bytes, int, int], Sequence[Any]] = (
            key_files_by_bucket(store, plan.schema, plan.entries, plan.vectors)
            if keyed
            else files_by_bucket(plan.entries, plan.vectors)
        )
        classes: dict[tuple[bytes, int, int], list[Any]] = {}
        for (partition, bucket, _), files in by_bucket.items():
            count = numbers.get(partition, 1)
            classes.setdefault((partition, bucket % count, count), []).extend(files)
        for key, files in classes.items():
            if not keyed:
                yield Group(*key, tuple(sorted(files, key=lambda file: file.sequence)))
                continue
            sections = (tuple(files),) if is_clustered(plan.schema) else tuple(key_sections(files))
            steps = RewritePlan(highest, highest, True, (sections,), ())
            live = tuple(LiveFile(f.at, f.size, f.rows, 0, deleted=None) for f in steps.files)
            yield Group(*key, live, steps)


def _base_of(store: TableStore, request: RescaleOptions, snapshot: Snapshot | None) -> _Base:
    """The newest snapshot, read before the schema (see `on_newest`), as far as it is to be rewritten."""
    context = write_context(store, request.options, existing_rows=True)
    schema = context.schema
    own = int(context.options.get("bucket"))
    count = _bucket_num(store, schema, own, request.bucket_num)
    context = replace(context, dynamic_options={**context.dynamic_options, "bucket": str(count)})
    if schema.primary_keys:
        context = replace(context, file_source=FILE_SOURCE_COMPACT)
    entries = _rescaled_entries(store, request, schema, snapshot, count)
    whole = request.where is None and own > 0
    return _Base(
        request=request,
        plan=Plan(snapshot, schema, context, None, entries, vectors_of(store, schema, snapshot), ()),
        bucket_num=count,
        partitions=frozenset(entries["partition"].unique().to_pylist()),
        option_after=str(count) if whole else schema.options.get("bucket"),
    )


def _bucket_num(store: TableStore, schema: TableSchema, own: int, wanted: int | None) -> int:
    """How many buckets there are to be; ``own``: what the table's option says."""
    if own == -1:
        raise UnsupportedError(
            "a table with bucket=-1 has no fixed number of buckets that could be changed",
            path=store.root,
            hint="compact it to have fewer files, or copy its rows to a table with buckets",
        )
    if wanted is None and own < 0:
        raise OptionError("the option bucket does not have the new number of buckets", hint="give bucket_num")
    count = own if wanted is None else integer("bucket_num", wanted)
    if count < 1:
        raise OptionError(f"a table can't have {count} buckets", hint="bucket_num is 1 or more")
    validate_schema(replace(schema, options={**schema.options, "bucket": str(count)}), schema)
    return count


def _rescaled_entries(
    store: TableStore, request: RescaleOptions, schema: TableSchema, snapshot: Snapshot | None, count: int
) -> pa.RecordBatch:
    """The data files of the partitions that have another number of buckets; without those that wait for buckets."""
    entries = live_in(store, schema, snapshot, request.where, "rescale")
    entries = entries.filter(pc.greater_equal(entries["bucket"], 0))
    other = entries["partition"].filter(pc.not_equal(entries["total_buckets"], count)).unique()
    return entries.filter(pc.is_in(entries["partition"], other))


def _without_bucket(schema: TableSchema) -> dict[str, str]:
    return {key: value for key, value in schema.options.items() if key != "bucket"}


def _conflict(store: TableStore, what: str) -> CommitConflictError:
    return CommitConflictError(what, path=store.root, hint="rescale again when fewer writers run")
