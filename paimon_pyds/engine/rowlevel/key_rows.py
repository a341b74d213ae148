"""DELETE, UPDATE and MERGE where rows have a primary key: no file goes, rows get newer versions.

A row that goes gets a version of the kind -D that has all its values, one that changes a whole new version of the kind
+U; the table's engine merges them as all others. So what ``sequence.field``, sequence groups and partial-update make of
an upsert they make of an update: a new version whose sequence field is less than the present one's is the older one,
and partial-update keeps a value that NULL is to replace. (Java: classes DeleteFromPaimonTableCommand,
UpdatePaimonTableCommand and MergeIntoPaimonTable of Paimon for Spark; PrimaryKeyTableUtils.validatePKUpsertDeletable.)

Conditions and values see merged rows. Whatever versions another commit adds or takes away meanwhile may change these,
so that an operation starts over unless partition, bucket and key range of all of them say that it did not read their
rows. Compactions change nothing, unless reads leave out what was not compacted yet.

With deletion vectors reads leave that out. An operation sees it all the same, as the compaction after it shows it; not
so with ``write-only``, where it may stay hidden for long: there an operation sees what reads see, as in Java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, is_true, one_batch, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.engine.append import RowChanges, commit_messages
from paimon_pyds.engine.commit import Changes, Increment, Overwrite, commit
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.execution.executor import Executor, mapped
from paimon_pyds.engine.execution.writing import abort_messages
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.rowlevel.target import RowEdits, RowTarget
from paimon_pyds.engine.scan.plan import Planner, plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.engine.scan.steps import BUCKETS, KEYS, PARTITIONS
from paimon_pyds.engine.scan.travel import Additions, TableState
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.incoming import set_check
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import SnapshotNotFoundError, UnsupportedError
from paimon_pyds.keys.merge.engine_options import merge_engine
from paimon_pyds.keys.merge.files_to_merge import hides_level_0
from paimon_pyds.keys.merge.filter import merge_filter, merge_keys
from paimon_pyds.keys.merge.key_values import DELETE, KEY_VALUE_FIELDS, UPDATE_AFTER, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.partial_update import PartialUpdate
from paimon_pyds.metadata.commit_message import CommitMessage, Guard, added_entries
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket, partitions_meeting
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.split import Files, Split
from paimon_pyds.sql.expression.bound import BoundExpression
from paimon_pyds.sql.expression.operators import compare
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate

_Ints = npt.NDArray[np.int64]

_REPEATABLE = frozenset(
    {
        "last_value", "last_non_null_value", "first_value", "first_non_null_value", "first_not_null_value", "max",
        "min", "bool_and", "bool_or", "rbm32", "rbm64", "theta_sketch", "hll_sketch", "merge_map", "primary-key",
    }
)  # fmt: skip
"""Aggregate functions that a value, given once more, does not change the result of."""
_KINDS = KEY_VALUE_FIELDS[1:]
"""The column that is read of rows to have deletes among them."""


# ----------------------------------------------------------------------------------------------------------- checks


def check_deletes(options: TableOptions) -> None:
    """Raises UnsupportedError, by name, where rows of the kind -D don't delete."""
    _check_kinds(options)
    engine = options.get("merge-engine")
    if options.get("ignore-delete"):
        raise UnsupportedError(
            "the table ignores deletes (ignore-delete=true)", hint="alter the table: unset ignore-delete"
        )
    needed = {
        "deduplicate": (),
        "partial-update": (
            "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group",
        ),
        "aggregation": ("aggregation.remove-record-on-delete",),
    }.get(engine)  # fmt: skip
    if needed is None:
        raise UnsupportedError(
            f"the merge engine {engine} can't delete rows", hint="overwrite the table, or a partition of it"
        )
    if needed and not any(options.get(key) for key in needed):
        raise UnsupportedError(
            f"the merge engine {engine} does not delete rows by default", hint=f"alter the table: {' or '.join(needed)}"
        )


def check_updates(schema: TableSchema, options: TableOptions) -> None:
    """Raises UnsupportedError, by name, where a new version of a row does not take the place of the one before."""
    _check_kinds(options)
    name = options.get("merge-engine")
    if name not in ("deduplicate", "partial-update"):
        first = name == "first-row"
        what = "the first row of a key stays" if first else "new values would be merged with the old ones"
        raise UnsupportedError(
            f"the merge engine {name} does not replace rows: {what}",
            hint="overwrite the table, or a partition of it" if first else "append the rows that are to be merged",
        )
    engine = merge_engine(schema)
    for group in engine.groups if isinstance(engine, PartialUpdate) else ():
        for column, function in group.aggregates.items():
            if function.name not in _REPEATABLE:
                raise UnsupportedError(
                    f"column {column} is aggregated ({function.name}): an update would add its value once more",
                    hint="append the values that are to be added",
                )


def check_keys(schema: TableSchema, values: Mapping[str, BoundExpression], same: Collection[str] = ()) -> None:
    """Raises UnsupportedError where new values by column have some for the key, which says which row it is.

    ``values``: a column may be set to itself, its name with a prefix or without. ``same``: columns that a condition
    says are set to what they are: rows are compared with it later.
    """
    for name in (*schema.primary_keys, *schema.partition_keys):
        if name not in values or name in same or values[name].column in (name, f"target.{name}"):
            continue
        if name in schema.primary_keys:
            raise _key_set(name)
        if not schema.crosses_partitions or TableOptions(schema.options).get("merge-engine") != "deduplicate":
            raise UnsupportedError(
                f"column {name} can't be updated: rows of this table stay in their partition",
                hint="delete the row, and append it anew",
            )


def _key_set(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {name} of the primary key can't be updated", hint="delete the row, and append it with its new key"
    )


def _check_kinds(options: TableOptions) -> None:
    column = options.get("rowkind.field")
    if column is not None:
        raise UnsupportedError(
            f"rows of this table say in column {column} (rowkind.field) whether they are deleted or updated",
            hint=f"append rows with their kind in {column}",
        )


# -------------------------------------------------------------------------------------------------------- read, write


class RowChange(Protocol):
    """The change of rows. It pickles. ``batch_rows``: rows at once that are worth a call."""

    @property
    def batch_rows(self) -> int: ...

    def versions(self, rows: pa.RecordBatch) -> tuple[list[pa.RecordBatch], _Ints]:
        """Versions to write for some merged rows, with `VALUE_KIND`; and the rows of a source that match these."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """All rows go. ``groups``: the sequence fields of the groups that a delete has to be the newest of one of; none
    elsewhere."""

    groups: tuple[tuple[str, ...], ...]
    batch_rows: ClassVar[int] = 1

    @classmethod
    def of(cls, schema: TableSchema) -> Deletes:
        """Those of a table."""
        engine = merge_engine(schema)
        groups = engine.groups if isinstance(engine, PartialUpdate) else ()
        return cls(tuple(group.fields for group in groups if group.removes))

    def versions(self, rows: pa.RecordBatch) -> tuple[list[pa.RecordBatch], _Ints]:
        """See `RowChange`. Raises UnsupportedError for a row that a delete would not remove."""
        unordered = np.full(rows.num_rows, bool(self.groups))
        for name in (name for fields in self.groups for name in fields):
            unordered &= is_true(rows.column(name).is_null())
        if unordered.any():
            names = ", ".join(name for fields in self.groups for name in fields)
            raise UnsupportedError(
                f"{int(unordered.sum())} of the rows to delete have NULL in {names}: their delete has no place in the "
                "order of the sequence group",
                hint="give them a value first",
            )
        return [_with_kind(rows, DELETE)], np.empty(0, np.int64)


def _with_kind(rows: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    return rows.append_column(VALUE_KIND, from_numpy(np.full(rows.num_rows, kind, np.int8)))


def updated(rows: pa.RecordBatch, versions: pa.RecordBatch, keys: Sequence[DataField]) -> pa.RecordBatch:
    """New versions of rows as they are to be written: with the keys that the rows have, to the last bit. Zeros of both
    signs are equal, NaN is, and so are texts of CHAR but for blanks at their end.
    Raises UnsupportedError: they have other ones."""
    for key in keys:
        at = versions.schema.get_field_index(key.name)
        both = versions.column(at), rows.column(key.name)
        new, old = (pc.utf8_rtrim(values, " ") for values in both) if key.type.kind is Kind.CHAR else both
        if not pc.all(compare(new, old, "="), min_count=0).as_py():
            raise _key_set(key.name)
        versions = versions.set_column(at, versions.schema.field(at), rows.column(key.name))
    return _with_kind(versions, UPDATE_AFTER)


def plan_rows(target: RowTarget, predicate: Predicate, fields: Sequence[DataField]) -> ScanPlan:
    """Plan to read merged rows."""
    return _planner(target, predicate, fields).plan()


def _sees_compacted(target: RowTarget) -> bool:
    """Whether what waits for a compaction is left out."""
    options = target.options
    return target.read_with_vectors and bool(options.get("write-only")) and hides_level_0(options)


def _planner(target: RowTarget, predicate: Predicate, fields: Sequence[DataField] = ()) -> Planner:
    options = target.options
    if target.read_with_vectors and not _sees_compacted(target):
        options = TableOptions({**options, "deletion-vectors.merge-on-read": "true"})
    state = TableState(target.snapshot, target.schema)
    zone = zone_given(target.given)
    request = ScanRequest(state, predicate, tuple(fields), options, zone=zone, stored_blobs=True)
    return Planner(target.store, request)


def waiting_buckets(target: RowTarget, predicate: Predicate) -> set[PartitionBucket]:
    """The buckets with files that no compaction has taken in, and that may hold keys of a predicate's matches."""
    keys = merge_filter(predicate, merge_keys(target.schema)).before
    planner = _planner(target, keys)
    fresh = target.entries.filter(
        pc.and_(pc.equal(target.entries["level"], 0), pc.greater_equal(target.entries["bucket"], 0))
    )
    for step in (PARTITIONS, BUCKETS, KEYS):
        fresh = step(fresh, planner)
    return set(map(PartitionBucket, fresh["partition"].to_pylist(), fresh["bucket"].to_pylist()))


@dataclass(slots=True)
class Versions:
    """What tasks wrote.

    Attributes:
        deleted, updated: how many rows.
        matched: rows of the source that match one of the table, an array for each task.
    """

    messages: list[CommitMessage] = field(default_factory=list)
    deleted: int = 0
    updated: int = 0
    matched: list[_Ints] = field(default_factory=list)

    def add(self, other: Versions) -> None:
        """Count what others wrote, too."""
        self.messages += other.messages
        self.deleted += other.deleted
        self.updated += other.updated
        self.matched += other.matched


@dataclass(frozen=True, slots=True)
class _Task:
    split: Split
    context: WriteContext
    change: RowChange


def write_versions(target: RowTarget, plan: ScanPlan, change: RowChange, executor: Executor) -> Versions:
    """Read the rows of a plan and write new versions of them, each into its bucket."""
    found = Versions()
    with removing_unfinished(partial(abort_messages, target.store, found.messages)):
        for done in mapped(executor, "rewriting", _write, _tasks(target, plan, change), lambda task: task.split.files):
            found.add(done)
    return found


def _tasks(target: RowTarget, plan: ScanPlan, change: RowChange) -> list[_Task]:
    contexts = {total: target.moving_context(total) for total in {file.total_buckets for file in plan.files}}
    return [
        _Task(Split.of(plan.spec, files), contexts[files[0].total_buckets], change)
        for files in _packed(plan, alone=target.schema.crosses_partitions)
    ]


def _packed(plan: ScanPlan, *, alone: bool) -> Iterator[list[PlannedFile]]:
    """The files of a plan for each task: whole buckets, as one task alone writes to a bucket, of one number.

    ``alone``: a task for each bucket, whatever its size.
    """
    buckets: dict[PartitionBucket, list[PlannedFile]] = {}
    for file in plan.files:
        buckets.setdefault(file.bucket_id, []).append(file)
    packed: dict[tuple[int, int], list[PlannedFile]] = {}
    weights = Counter[tuple[int, int]]()
    for files in buckets.values():
        number = files[0].bucket, files[0].total_buckets
        weight = sum(max(file.read_size, plan.open_file_cost) for file in files)
        if number in packed and (alone or weights[number] + weight > plan.target_split_size):
            yield packed.pop(number)
            weights[number] = 0
        packed.setdefault(number, []).extend(files)
        weights[number] += weight
    yield from packed.values()


def _write(task: _Task) -> Versions:
    """Write the changes of some buckets: only this task (0) writes to them, apart from the one that inserts rows of a
    MERGE."""
    found = Versions()
    schema, place = task.context.schema, task.split.files[0].bucket_id
    check_sets = set_check(task.context)
    with TableWriter(task.context, 0, bucket=place.bucket) as writer:
        for batch in joined_batches(read_split(task.split), task.change.batch_rows):
            versions, matched = task.change.versions(batch)
            found.matched.append(matched)
            for part in versions:
                retract = is_retract(part.column(VALUE_KIND))
                deletes = int(np.count_nonzero(retract))
                found.deleted += deletes
                if deletes < part.num_rows:  # deletes may take away what another writer has left
                    check_sets(part.filter(from_numpy(~retract)))
                found.updated += part.num_rows - deletes
                if schema.crosses_partitions:
                    from paimon_pyds.engine.cross_partition.upsert import with_moves  # other tables do without

                    part = with_moves(part, schema, place)
                writer.write(part)
        found.messages.append(writer.prepare_commit())
    found.matched = [np.unique(np.concatenate(found.matched))] if found.matched else []
    return found


# ------------------------------------------------------------------------------------------------- whole partitions


def drop_partitions(target: RowTarget, predicate: Predicate, executor: Executor) -> RowEdits | None:
    """Edits that remove whole partitions by metadata; None if the predicate matches only parts of them.

    No engine has to delete rows for that, and no changelog records it, unless ``delete.force-produce-changelog``.
    (Java: class OptimizeMetadataOnlyDeleteFromPaimonTable.)
    """
    if predicate in (Const.FALSE, Const.UNKNOWN):
        return RowEdits()
    whole, rest = partition_filter(predicate, target.schema.partition_keys)
    if rest is not Const.TRUE or target.options.get("delete.force-produce-changelog"):
        return None
    plan = plan_rows(target, predicate, ())
    known = [file.live_row_count for file in plan.files]
    unknown = tuple(file for file, count in zip(plan.files, known, strict=True) if count is None)
    splits = replace(plan, found=Files(unknown)).pack()
    read = mapped(executor, "reading", _count, splits, lambda split: split.files)
    count = sum(filter(None, known)) + sum(read)
    emptied = Overwrite(None if whole is Const.TRUE else partitions_meeting(target.schema, whole))
    if not emptied.replaced(target.entries["partition"].unique().to_pylist()):
        return RowEdits()
    return RowEdits(deleted=count, reads=predicate, operation=Operation.DELETE, emptied=emptied)


def _count(split: Split) -> int:
    return sum(batch.num_rows for batch in read_split(split))


# ------------------------------------------------------------------------------------------------------------- commit


def publish_versions(target: RowTarget, edits: RowEdits) -> tuple[Snapshot | None, int]:
    """Publish new versions of rows, or files or partitions that go; the snapshot, and how many files went.

    Raises:
        CommitConflictError: the operation has to be done again on the latest snapshot.
        CommitError: not published.
        CommitOutcomeUnknownError: the storage did not say; all files must stay.
    """
    assert edits.operation is not None
    guard = _Guard(target, edits.reads, bool(edits.removed) or _sees_compacted(target))
    if edits.removed:
        return _publish_files(target, edits, guard), len(edits.removed)
    if edits.emptied is None:
        changes = RowChanges(edits.operation, _Guards((guard, *edits.guards)))
        return commit_messages(target.store, edits.messages, options=target.given, changes=changes, fresh=True), 0
    partitions = target.entries["partition"]
    gone = edits.emptied.replaced(partitions.unique().to_pylist())
    rows = Increment(kind=CommitKind.OVERWRITE, operation=edits.operation, overwrite=edits.emptied, guard=guard)
    snapshot = commit(target.store, Changes((rows,)), target.options)
    return snapshot, sum(partition in gone for partition in partitions.to_pylist())


def _publish_files(target: RowTarget, edits: RowEdits, guard: _Guard) -> Snapshot | None:
    """Publish files that come in place of others, on the levels of these."""
    buckets = [bucket for message in edits.messages for bucket in message.buckets]
    rows = Increment(
        kind=CommitKind.OVERWRITE,
        operation=edits.operation,
        deleted=target.entries.take(array([removed.number for removed in edits.removed], pa.int64())),
        replacements=added_entries((bucket, bucket.files) for bucket in buckets),
        guard=guard,
        base_snapshot=target.snapshot,
        base_files=target.entries,
    )
    return commit(target.store, Changes((rows,)), target.options)


@dataclass(frozen=True, slots=True)
class _Guards:
    """Several guards as one."""

    guards: Sequence[Guard]

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        for guard in self.guards:
            guard.check(latest, schema)


@dataclass(slots=True)
class _Guard:
    """Sees that no other commit has changed rows that an operation may have read. ``hides``: it has left out what no
    compaction has taken in."""

    base: RowTarget
    reads: Predicate
    hides: bool = False
    passed: set[str] = field(default_factory=set)
    """Manifest lists of snapshots that changed no such row."""

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raises CommitConflictError when the operation does not hold on a later snapshot."""
        self.base.check_schema(schema)
        since = self.base.later_snapshots(latest)
        for snapshot in since or ():
            if snapshot.delta_manifest_list not in self.passed and self._changes(snapshot):
                since = None
                break
            self.passed.add(snapshot.delta_manifest_list)
        if since is None:
            raise self.base.conflict("rows were changed by another commit meanwhile")

    def _changes(self, snapshot: Snapshot) -> bool:
        """Whether it may have added or removed versions of rows that were read, by keys: first by the key ranges of
        files, then by the keys in new files."""
        postponed = self.base.options.get("bucket") == POSTPONE_BUCKET  # compactions bring rows into their buckets
        compacts = snapshot.commit_kind.keeps_rows
        if compacts and not postponed and not self.hides:
            return False
        keys = merge_filter(self.reads, merge_keys(self.base.schema)).before
        planner = _planner(self.base, keys, _KINDS)
        reader = ManifestReader(self.base.store, planner.entry_filter)
        entries = one_batch(reader.entries(reader.delta(snapshot), planner.columns))
        if self.hides:
            entries = entries.filter(_shown(entries, compacts=compacts))
        kept = KEYS(BUCKETS(entries, planner), planner)
        unreadable = keys is Const.TRUE or hides_level_0(planner.request.options)
        if not kept.num_rows or unreadable or FileKind.DELETE in kept["kind"].to_pylist():
            return bool(kept.num_rows)
        added = plan_scan(self.base.store, replace(planner.request, between=Additions((snapshot,))))
        try:
            return any(batch.num_rows for split in added.splits for batch in read_split(split, limit=1))
        except SnapshotNotFoundError:  # it has expired
            return True


def _shown(entries: pa.RecordBatch, *, compacts: bool) -> pa.Array:
    """Which entries change what reads see that leave out level 0: rows that a compaction takes from there, or other
    files that come; and all that go."""
    gone, fresh = pc.equal(entries["kind"], FileKind.DELETE), pc.equal(entries["level"], 0)
    return pc.and_(gone, fresh) if compacts else pc.or_(gone, pc.invert(fresh))
