"""What a compaction of a table with a primary key is to do on one snapshot: which runs of which buckets are merged."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.engine.compact.append_plan import Group, Plan, Vector, vectors_of
from paimon_pyds.engine.compact.buckets_to_compact import level_files, live_in_buckets, places
from paimon_pyds.engine.compact.clustered_plan import cluster_ranges, clustered_steps
from paimon_pyds.engine.compact.expired_rows import have_expired
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.compact.universal import (
    LevelFile,
    RewritePlan,
    UniversalRules,
    pick,
    pick_full,
    sorted_runs,
    steps_of,
)
from paimon_pyds.engine.execution.live_files import live_in
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.keys.merge.engine_options import check_levels
from paimon_pyds.keys.merge.files_to_merge import is_clustered, key_ranks
from paimon_pyds.keys.merge.older_versions import OlderVersions
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore

_IN_JAVA = "compact this table with Java Paimon"


def plan_key_compaction(
    store: TableStore, request: CompactOptions, buckets: Set[PartitionBucket] | None = None
) -> Plan:
    """The runs to merge of the latest snapshot; a group for each bucket that has some.

    ``store``: a table with a primary key. ``buckets``: only these; all when None.

    Raises:
        OptionError, SchemaError, UnsupportedError: the options contradict the table, or it can't be compacted.
    """
    snapshot = store.latest_snapshot()  # before the schema: no file of the snapshot has a later one, with more columns
    context = replace(write_context(store, request.options, existing_rows=True), file_source=FILE_SOURCE_COMPACT)
    schema = context.schema
    _check_compactable(schema, context.options, request)
    rules = UniversalRules.of(context.options, context.target_file_size, datetime.now().hour)
    if buckets is None:
        entries = live_in(store, schema, snapshot, request.where, "compact")
        entries = entries.filter(pc.greater_equal(entries["bucket"], 0))  # others wait for their bucket
    else:
        entries = live_in_buckets(store, schema, snapshot, buckets)
    vectors = vectors_of(store, schema, snapshot)
    expired = have_expired(entries, store, schema, context.options, time.time())
    losing = set(entries["file_name"].filter(from_numpy(expired)).to_pylist())
    groups = []
    for (partition, bucket, total), files in files_by_bucket(store, schema, entries, vectors, losing).items():
        if buckets is not None and (partition, bucket) not in buckets:
            continue
        if is_clustered(schema):
            share = float(context.options.get("compaction.delete-ratio-threshold"))
            steps = clustered_steps(files, rules, full=request.full, deleted_share=share)
        else:
            steps = _steps(files, rules, full=request.full)
        if steps is None or not steps.files:
            continue
        groups.append(Group.of_steps((partition, bucket, total), steps))
    return Plan(snapshot, schema, context, None, entries, vectors, tuple(groups))


def _steps(files: Sequence[LevelFile], rules: UniversalRules, *, full: bool) -> RewritePlan | None:
    """How the files of a bucket that are sorted by key are rewritten; None if they stay."""
    runs = sorted_runs(files)
    unit = pick_full(runs, rules) if full else pick(runs, rules, clock_now_ms())
    return None if unit is None else steps_of(unit, runs, rules)


def _check_compactable(schema: TableSchema, options: TableOptions, request: CompactOptions) -> None:
    """Raises UnsupportedError for what would not be compacted as Java does it, OptionError for levels of no use."""
    check_levels(options)
    if not OlderVersions.of(TableOptions(schema.options)).fit(OlderVersions.of(options)):
        raise OptionError(
            "the look-up of older versions can't be switched for one compaction: readers go by the table's own "
            "options, and would get other rows from the levels that remain",
            hint="leave changelog-producer and force-lookup out, or alter the table",
        )
    if request.order_by:
        raise UnsupportedError(
            "rows of a table with a primary key can't be ordered by other columns",
            hint="files are sorted by key; use file indexes for filters on other columns",
        )


def files_by_bucket(
    store: TableStore,
    schema: TableSchema,
    entries: pa.RecordBatch,
    vectors: Mapping[str, Vector],
    losing: Collection[str] = (),
) -> dict[tuple[bytes, int, int], list[LevelFile]]:
    """Live files by partition, bucket and number of buckets, with the ranges of the columns that sort them.

    ``vectors``: by the names of files. ``losing``: the names of other files that rows go from.
    Raises UnsupportedError: keys whose order is not known here.
    """
    found: dict[tuple[bytes, int, int], list[LevelFile]] = {}
    if not entries.num_rows:
        return found
    ranks = cluster_ranges(entries, schema, store) if is_clustered(schema) else key_ranks(entries, schema)
    if ranks is None:
        raise UnsupportedError("keys that Arrow can't hold can't be sorted", hint=_IN_JAVA)
    names = entries["file_name"].to_pylist()
    for at, (key, file) in enumerate(zip(places(entries), level_files(entries, {*vectors, *losing}), strict=True)):
        deleted = vectors[names[at]].file.cardinality if names[at] in vectors else None
        ranged = replace(file, at=at, key_range=(int(ranks[0, at]), int(ranks[1, at])), deleted=deleted or 0)
        found.setdefault(key, []).append(ranged)
    return found


def changed_levels(plan: Plan, live: pa.RecordBatch) -> set[PartitionBucket]:
    """The planned buckets whose files above level 0 are others now: a second compaction of the bucket was published.

    ``live`` are the live files now, with `metadata.manifest.IDENTITY_COLUMNS`.
    """
    before, after = _above(plan.entries), _above(live)
    return {key for key in (group.key for group in plan.groups) if before.get(key) != after.get(key)}


def _above(entries: pa.RecordBatch) -> dict[PartitionBucket, set[tuple[int, str]]]:
    """Level and name of the files above level 0, by bucket."""
    entries = entries.filter(pc.greater(entries["level"], 0))
    found: dict[PartitionBucket, set[tuple[int, str]]] = {}
    columns = (entries[name].to_pylist() for name in ("partition", "bucket", "level", "file_name"))
    for partition, bucket, level, name in zip(*columns, strict=True):
        found.setdefault(PartitionBucket(partition, bucket), set()).add((level, name))
    return found
