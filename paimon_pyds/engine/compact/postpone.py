"""Rows that wait for their buckets (``bucket=-2``): how many buckets a partition is given, and how the rows get there.

A batch write waits in files that nobody has seen until all its rows are there, unless it is known before how many
buckets their partitions have; so it is visible at once, as Java Paimon's is. Without
``postpone.batch-write-fixed-bucket`` rows wait in the table until a compaction: it writes those of one writer in the
order they came, and has them visible by a COMPACT snapshot that takes the waiting files away.

(Sources: Paimon documentation, primary-key-table/data-distribution, "Postpone Bucket"; Java: classes
PostponeBucketCompactSplitSource, SparkPostponeCompactProcedure and PostponeUtils.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, grouped, pc, scalar
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unfinished, removing_unpublished
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.execution.live_files import live_in
from paimon_pyds.engine.execution.writing import abort_messages, write_context
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.scan.planned_files import planned_files, spec_of_files, written_order
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.sequence_numbers import FilesRenumbering
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import CommitConflictError, OptionError
from paimon_pyds.keys.bucket import PartitionedRows, bucket_assigner, bucket_shares
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage, added_entries
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import Split
from paimon_pyds.metadata.store import TableStore

_BUCKETS_AT_ONCE = 16
"""Buckets that a task writes, at least: with more of them, the waiting files are read by several tasks."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Waiting files of a partition, in the order of their rows, and the buckets that get some of these. It pickles."""

    context: WriteContext
    split: Split
    buckets: frozenset[int]


def buckets_needed(options: TableOptions, rows: int, size: int) -> int:
    """The number of buckets for a number of rows, in files of ``size`` bytes.
    Raises OptionError: a target that is less than 1."""
    target_rows = options.get("postpone.target-row-num-per-bucket")
    amount, target = (
        (size, options.get("postpone.target-size-per-bucket")) if target_rows is None else (rows, target_rows)
    )
    if int(target) < 1:
        raise OptionError("postpone.target-row-num-per-bucket and postpone.target-size-per-bucket are 1 or more")
    return max(1, -(-amount // int(target)))


def batch_buckets(options: TableOptions, rows: int, size: int) -> int:
    """The same for rows of a batch write: a power of two, and no more than is allowed. Raises as `buckets_needed`."""
    most = int(options.get("postpone.batch-write-fixed-bucket.max-parallelism"))
    return max(1, min(1 << (buckets_needed(options, rows, size) - 1).bit_length(), most))


def outgrown(options: TableOptions, added: pa.RecordBatch) -> dict[bytes, int]:
    """Partitions that have too few buckets for what a batch write has added, and how many they should have.

    ``options`` are the table's, those of the write on top. ``added``: the manifest entries of the write's files.
    """
    factor = int(options.get("postpone.batch-write-fixed-bucket.rescale-load-factor"))
    found: dict[bytes, int] = {}
    wanted_sums = [("row_count", "sum"), ("file_size", "sum"), ("total_buckets", "max")]
    sums = grouped(pa.Table.from_batches([added]), ["partition"], wanted_sums)
    for partition, rows, size, total in zip(*(column.to_pylist() for column in sums.columns), strict=True):
        wanted = batch_buckets(options, rows, size)
        if total > 0 and wanted > total and buckets_needed(options, rows, size) > total * factor:
            found[partition] = wanted
    return found


def with_real_buckets(
    store: TableStore, buckets: Sequence[BucketFiles], options: Mapping[str, str] | None
) -> tuple[BucketFiles, ...]:
    """What a batch write wrote, with the rows that wait for their buckets in these; the files that they waited in go.

    ``store``: a table with ``bucket=-2``. ``buckets``: of all messages of the write.

    Raises:
        CommitConflictError: the files that rows wait in are gone.
        CorruptFileError, StorageError: rows can't be read or written. Files that were written for them are removed.
    """
    waiting = [bucket for bucket in buckets if bucket.bucket == POSTPONE_BUCKET]
    if not waiting:
        return tuple(buckets)
    if not all(store.io.exists(path) for bucket in waiting for path in bucket.paths()):
        raise CommitConflictError(
            "files of rows that wait for their buckets are gone: an earlier commit has moved the rows there, or failed",
            path=store.root,
            hint="nothing was published; look whether the table has the rows before writing them again",
        )
    written: list[CommitMessage] = []
    with removing_unfinished(partial(abort_messages, store, written)):
        context = write_context(store, options, existing_rows=True)
        entries = added_entries((bucket, bucket.files) for bucket in waiting)
        assert entries is not None
        totals = {bucket.partition: bucket.total_buckets for bucket in buckets if bucket.total_buckets > 0}
        tasks = _tasks(store, context, entries, _totals(store, context, entries, totals, batch_buckets))
        written.extend(mapped(LocalExecutor(), "rewriting", _write, tasks, _files))
    abort_messages(store, [CommitMessage(tuple(waiting))])
    real = [bucket for bucket in buckets if bucket.bucket != POSTPONE_BUCKET]
    return (*real, *(bucket for message in written for bucket in message.buckets))


@dataclass(frozen=True, slots=True)
class TakenIn:
    """Waiting files that a compaction took in, or would take.

    Attributes:
        snapshot: the last one published; None for none.
        entries: of the files that waited.
        buckets: what was written in their place.
        attempts: how often files were written.
    """

    snapshot: Snapshot | None
    entries: pa.RecordBatch
    buckets: tuple[BucketFiles, ...] = ()
    attempts: int = 0


def take_in(store: TableStore, request: CompactOptions, executor: Executor | None = None) -> TakenIn:
    """Bring the rows that wait into their buckets, as one COMPACT snapshot.

    ``store``: a table with ``bucket=-2``.

    Raises:
        CorruptFileError, StorageError: rows can't be read, or not be written; the table is as it was.
        CommitConflictError: other compactions took the same files, again and again.
        CommitError: not published; what was written was removed again.
    """

    def once(snapshot: Snapshot | None, retries: Retries) -> TakenIn:
        context = write_context(store, request.options, existing_rows=True)
        entries = live_in(store, context.schema, snapshot, request.where, "compact")
        entries = entries.filter(pc.equal(entries["bucket"], POSTPONE_BUCKET))
        if not entries.num_rows or request.dry_run:
            return TakenIn(None, entries)
        tasks = _tasks(store, context, entries, _totals(store, context, entries, {}, buckets_needed))
        messages: list[CommitMessage] = []
        with removing_unfinished(partial(abort_messages, store, messages)):
            messages.extend(mapped(executor or LocalExecutor(), "rewriting", _write, tasks, _files))
        buckets = tuple(bucket for message in messages for bucket in message.buckets)
        increment = Increment(
            kind=CommitKind.COMPACT,
            added=buckets,
            deleted=entries,
            changelog=added_entries((bucket, bucket.changelog_files) for bucket in buckets),
            renumbering=FilesRenumbering(context, fresh=True),
        )
        with removing_unpublished(partial(abort_messages, store, messages)):
            published = commit(store, Changes((increment,)), context.options)
        return TakenIn(published, entries, buckets, retries.count)

    return on_newest(store, once, request.options)


def _totals(
    store: TableStore,
    context: WriteContext,
    entries: pa.RecordBatch,
    known: Mapping[bytes, int],
    needed: Callable[[TableOptions, int, int], int],
) -> dict[bytes, int]:
    """How many buckets each partition of some waiting files (``entries``) has, as far as ``known``, or is to have: by
    ``needed``, which is `buckets_needed` or `batch_buckets`."""
    partitions = frozenset(entries["partition"].unique().to_pylist())
    wanted = EntryFilter(context.schema, partitions=partitions)
    reader = ManifestReader(store, wanted)
    live = store.read_newest(lambda newest: reader.live_files(newest, ("partition", "total_buckets")))
    pairs = zip(live["partition"].to_pylist(), live["total_buckets"].to_pylist(), strict=True)
    totals = {**dict(sorted((partition, total) for partition, total in set(pairs) if total > 0)), **known}
    first = context.options.get("postpone.default-bucket-num")
    for partition in partitions - totals.keys():
        mine = entries.filter(pc.equal(entries["partition"], scalar(partition, pa.binary())))
        rows, size = (pc.sum(mine[name]).as_py() for name in ("row_count", "file_size"))
        totals[partition] = int(first or needed(context.options, rows, size))
    return totals


def _tasks(
    store: TableStore, context: WriteContext, entries: pa.RecordBatch, totals: Mapping[bytes, int]
) -> list[_Task]:
    schema = context.schema
    ids = entries["schema_id"].unique().to_pylist()
    spec = spec_of_files(store, schema, (*schema.fields, KEY_VALUE_FIELDS[1]), ids, numbered=True)
    spec = replace(spec, zone=zone_given(context.dynamic_options))
    entries = entries.take(array(written_order(entries), pa.int64()))
    files: dict[bytes, list[PlannedFile]] = {}
    for file in planned_files(store, schema, entries):
        files.setdefault(file.partition, []).append(file._replace(run=None))
    tasks = []
    for partition, total in totals.items():
        if partition not in files:
            continue
        split = Split.of(spec, files[partition])
        own = replace(context, dynamic_options={**context.dynamic_options, "bucket": str(total)})
        tasks += [_Task(own, split, share) for share in bucket_shares(range(total), _BUCKETS_AT_ONCE)]
    return tasks


def _files(task: _Task) -> Sequence[PlannedFile]:
    return task.split.files


def _write(task: _Task) -> CommitMessage:
    """Write the rows of some buckets; on an error what was written is removed."""
    with TableWriter(task.context) as writer:
        for rows in _own_rows(task):
            writer.write(rows)
        return writer.prepare_commit()


def _own_rows(task: _Task) -> Iterator[pa.RecordBatch]:
    """The rows that go to the buckets of a task, in order, with their kinds."""
    options = task.context.options
    assigner = bucket_assigner(task.context.schema, options)
    for rows in joined_batches(read_split(task.split)):
        if len(task.buckets) == int(options.get("bucket")):
            yield rows
            continue
        buckets = assigner.assign(PartitionedRows(rows, (b"",), np.zeros(rows.num_rows, np.int64)))
        yield rows.filter(from_numpy(np.isin(buckets, list(task.buckets))))
